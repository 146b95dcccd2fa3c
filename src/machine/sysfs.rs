//! /sys and /proc of this host or of a recorded tree, and the caches that sysfs tells.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};

use super::told::{Told, ToldCache};

/// More than any file of /sys or /proc that is read here has, with thousands of CPUs.
const MAX_FILE_BYTES: u64 = 16 << 20;
/// CPUs and nodes beyond this are not believed.
const MAX_CPUS: u32 = 1 << 16;

/// A root below which /sys and /proc lie: `/`, or a recorded tree.
#[derive(Clone, Debug)]
pub struct Tree {
    root: PathBuf,
}

impl Tree {
    /// The tree below `root`.
    pub fn new(root: &Path) -> Tree {
        Tree {
            root: root.to_owned(),
        }
    }

    /// Whether it is this host's own.
    pub fn is_live(&self) -> bool {
        self.root == Path::new("/")
    }

    /// The place of `path`, which has no leading slash.
    pub fn path(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    /// The trimmed text of a file.
    pub fn text(&self, path: &str) -> Told<String> {
        let mut bytes = Vec::new();
        let read = File::open(self.path(path))
            .and_then(|f| f.take(MAX_FILE_BYTES).read_to_end(&mut bytes));
        match read {
            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                Told::Absent
            }
            Err(e) => Told::Unknown(e.to_string()),
            Ok(_) => match String::from_utf8_lossy(&bytes).trim() {
                "" => Told::Unknown("empty".to_owned()),
                text => Told::Is(text.to_owned()),
            },
        }
    }

    /// A file that holds one decimal number.
    pub fn number(&self, path: &str) -> Told<u64> {
        self.text(path).parse(|text| text.parse().ok())
    }

    /// A file that holds a list of CPUs or nodes, such as `0-3,8`.
    pub fn list(&self, path: &str) -> Told<Vec<u32>> {
        self.text(path).parse(|text| cpu_list(text))
    }

    /// The CPUs that are online; without the file, those that have a folder.
    pub fn online(&self) -> Vec<u32> {
        if let Told::Is(cpus) = self.list("sys/devices/system/cpu/online") {
            return cpus;
        }
        let mut cpus: Vec<u32> = self
            .names("sys/devices/system/cpu")
            .iter()
            .filter_map(|name| name.strip_prefix("cpu")?.parse().ok())
            .collect();
        cpus.sort_unstable();
        cpus
    }

    /// The names in a folder; none where it is not there.
    pub fn names(&self, path: &str) -> Vec<String> {
        std::fs::read_dir(self.path(path))
            .into_iter()
            .flatten()
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .collect()
    }

    /// The data and unified caches of `cpu`, from the core outwards.
    pub fn caches(&self, cpu: u32) -> Vec<ToldCache> {
        let folder = format!("sys/devices/system/cpu/cpu{cpu}/cache");
        let mut caches: Vec<ToldCache> = self
            .names(&folder)
            .iter()
            .filter(|name| name.starts_with("index"))
            .filter_map(|name| {
                let file = |what: &str| format!("{folder}/{name}/{what}");
                let kind = self.text(&file("type"));
                if !matches!(kind.value().map(String::as_str), Some("Data" | "Unified")) {
                    return None;
                }
                let level = *self.number(&file("level")).value()?;
                Some(ToldCache {
                    level: u8::try_from(level).ok()?,
                    size_bytes: self.text(&file("size")).parse(|t| size_bytes(t)),
                    ways: self.number(&file("ways_of_associativity")),
                    sets: self.number(&file("number_of_sets")),
                    line_bytes: self.number(&file("coherency_line_size")),
                    shared_cpus: match self.list(&file("shared_cpu_list")) {
                        Told::Is(cpus) => cpus,
                        Told::Absent | Told::Unknown(_) => Vec::new(),
                    },
                })
            })
            .collect();
        caches.sort_by_key(|c| c.level);
        caches
    }

    /// How many cores the CPUs in `cpus` are; CPUs whose siblings are not told are one each.
    pub fn cores(&self, cpus: &[u32]) -> u32 {
        let first_threads: BTreeSet<u32> = cpus
            .iter()
            .map(|&cpu| {
                let siblings = self.list(&format!(
                    "sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"
                ));
                siblings
                    .value()
                    .and_then(|s| s.first().copied())
                    .unwrap_or(cpu)
            })
            .collect();
        first_threads.len() as u32
    }
}

/// A size as sysfs writes it: `48K`, `1024K`, `260M`.
fn size_bytes(text: &str) -> Option<u64> {
    let (number, unit) = match text.chars().last()? {
        'K' => (&text[..text.len() - 1], 1 << 10),
        'M' => (&text[..text.len() - 1], 1 << 20),
        'G' => (&text[..text.len() - 1], 1 << 30),
        _ => (text, 1),
    };
    number.parse::<u64>().ok()?.checked_mul(unit)
}

/// A list such as `0-3,8`, sorted and without doubles.
pub fn cpu_list(text: &str) -> Option<Vec<u32>> {
    let mut cpus = BTreeSet::new();
    for range in text.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if first > last || last >= MAX_CPUS {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus.into_iter().collect())
}

/// `cpus`, sorted, as Linux writes them: `0-3,8`.
pub fn list_words(cpus: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for &cpu in cpus {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(cpu) => *last = cpu,
            _ => ranges.push((cpu, cpu)),
        }
    }
    let words: Vec<String> = ranges
        .iter()
        .map(|&(first, last)| match first == last {
            true => first.to_string(),
            false => format!("{first}-{last}"),
        })
        .collect();
    words.join(",")
}

/// `text` with every run of white space as one space, and none at the ends.
pub fn one_spaced(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Linux's list format, read and written; what is not a list is refused, also one that would
    /// fill the memory.
    #[test]
    fn lists_are_read_and_written() {
        for (text, cpus) in [
            ("0", vec![0]),
            ("0-3,8", vec![0, 1, 2, 3, 8]),
            ("2,4-5", vec![2, 4, 5]),
        ] {
            assert_eq!(cpu_list(text), Some(cpus.clone()), "{text}");
            assert_eq!(list_words(&cpus), text);
        }
        for text in [
            "",
            "a",
            "3-1",
            "0-4294967295",
            "0-99999999999",
            "-1",
            "1,,2",
        ] {
            assert_eq!(cpu_list(text), None, "{text:?}");
        }
    }

    /// K, M and G are 2^10, 2^20 and 2^30; an overflow is no size.
    #[test]
    fn sizes_are_read() {
        for (text, bytes) in [
            ("48K", Some(48 << 10)),
            ("260M", Some(260 << 20)),
            ("2G", Some(2 << 30)),
            ("64", Some(64)),
            ("0K", Some(0)),
            ("", None),
            ("K", None),
            ("18446744073709551615K", None),
            ("4é", None),
        ] {
            assert_eq!(size_bytes(text), bytes, "{text:?}");
        }
    }
}
