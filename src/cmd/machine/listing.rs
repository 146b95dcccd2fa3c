//! What `kwalk machine` shows: tables, sources, and what the host told; as words or as a file.

use serde::Serialize;

use crate::machine::host::{Fact, size_words};
use crate::machine::{Machine, Tlb};
use crate::wrap::wrap;

use super::counting::Events;
use super::names::{inclusion_word, level_name, prefetcher_word, protocol_word};

/// A machine with what is known beside it; a catalogue machine has only notes of its own.
#[derive(Serialize)]
pub(super) struct Listing {
    pub machine: Machine,
    pub facts: Vec<Fact>,
    pub disagreements: Vec<String>,
    pub notes: Vec<String>,
    /// What its counters would be asked for; a catalogue machine has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counting: Option<Events>,
}

/// Columns that a line may have.
const COLUMNS: usize = 96;

impl Listing {
    /// A machine file; what was noted of the host goes before it as comments.
    pub fn file(&self) -> anyhow::Result<String> {
        let mut text = String::new();
        for sentence in self.disagreements.iter().chain(&self.notes) {
            text += &wrap(
                &sentence.replace(char::is_control, " "),
                COLUMNS,
                "# ",
                "# ",
            );
        }
        Ok(text + &toml::to_string(&self.machine)?)
    }

    /// Tables, then sources, then what the host told.
    pub fn words(&self) -> String {
        let mut text = String::new();
        let m = &self.machine;
        let ns = |cycles| self.ns(cycles);
        text += &wrap(&format!("{}: {}", m.name, m.title), COLUMNS, "", "  ");
        text.push('\n');
        self.core(&mut text);

        text += &format!(
            "\n{:<7}{:<10}{:<21}{:>4}  {:<18}{:>7}{:>8}  {}\n",
            "cache", "size", "sets x ways x slices", "line", "policy", "cycles", "ns", "confidence"
        );
        for c in &m.caches {
            let shape = match c.slices {
                1 => format!("{} x {}", c.sets, c.ways),
                slices => format!("{} x {} x {slices}", c.sets, c.ways),
            };
            text += &format!(
                "{:<7}{:<10}{shape:<21}{:>4}  {:<18}{:>7.1}{:>8.1}  {}\n",
                level_name(c.level),
                size_words(c.size_bytes()),
                c.line_bytes,
                c.replacement.to_string(),
                c.latency_cycles,
                ns(c.latency_cycles),
                c.confidence.word()
            );
        }
        text += &format!(
            "{:<7}{:<10}{:<21}{:>4}  {:<18}{:>7.1}{:>8.1}  {}\n",
            "memory",
            "",
            "",
            "",
            "",
            m.memory.latency_cycles,
            ns(m.memory.latency_cycles),
            m.memory.confidence.word()
        );
        self.tlbs(&mut text);
        self.prefetchers(&mut text);
        self.interconnect(&mut text);
        self.sources(&mut text);
        if let Some(events) = &self.counting {
            text += &events.words(COLUMNS);
        }
        self.told(&mut text);
        text
    }

    fn core(&self, text: &mut String) {
        let c = &self.machine.core;
        let tsc = match c.tsc_hz {
            Some(hz) => format!("{} GHz", hz as f64 / 1e9),
            None => "unknown".to_owned(),
        };
        let rows = [
            format!(
                "{}, clock {} GHz, TSC {tsc}",
                self.machine.arch,
                c.clock_hz as f64 / 1e9
            ),
            format!(
                "window {}, {} instructions per cycle, {} loads, {} stores, {} of both; store buffer {}",
                c.window,
                c.issue_width,
                c.load_ports,
                c.store_ports,
                c.memory_ports,
                c.store_buffer
            ),
            format!(
                "store forwarding {}, locked access +{}, mispredict {} cycles; {}",
                c.forward_cycles,
                c.locked_cycles,
                c.mispredict_cycles,
                c.confidence.word()
            ),
        ];
        for (i, row) in rows.iter().enumerate() {
            let name = if i == 0 { "core" } else { "" };
            *text += &format!("{name:<7}{row}\n");
        }
    }

    fn tlbs(&self, text: &mut String) {
        let pages = |t: &Tlb| {
            let sizes: Vec<String> = t.page_bytes.iter().map(|&p| size_words(p)).collect();
            sizes.join(", ")
        };
        let m = &self.machine;
        let longest = m.tlbs.iter().map(|t| pages(t).len()).max().unwrap_or(0);
        // The longest list that leaves the other columns their place.
        let width = longest.clamp(14, 36) + 2;
        *text += &format!(
            "\n{:<7}{:<width$}{:>8}  {:<13}{:>12}  {}\n",
            "TLB", "pages", "entries", "sets x ways", "adds cycles", "confidence"
        );
        for t in &m.tlbs {
            *text += &format!(
                "{:<7}{:<width$}{:>8}  {:<13}{:>12}  {}\n",
                t.level,
                pages(t),
                u64::from(t.sets) * u64::from(t.ways),
                format!("{} x {}", t.sets, t.ways),
                t.latency_cycles,
                t.confidence.word()
            );
        }
        let caches: Vec<String> = m
            .memory
            .walk_cache_entries
            .iter()
            .map(u32::to_string)
            .collect();
        *text += &format!(
            "{:<7}{:<width$}{:>8}  {:<13}{:>12}  {}\n",
            "walk",
            if caches.is_empty() { "" } else { "walk caches" },
            caches.join(", "),
            "",
            m.memory.page_walk_cycles,
            m.memory.confidence.word()
        );
    }

    fn prefetchers(&self, text: &mut String) {
        let prefetchers = &self.machine.prefetchers;
        *text += &format!(
            "\n{:<15}{:<6}{:>12}  {:<4}{}\n",
            "prefetcher", "into", "lines", "on", "confidence"
        );
        if prefetchers.is_empty() {
            *text += "none: without one nothing is prefetched\n";
        }
        for p in prefetchers {
            *text += &format!(
                "{:<15}{:<6}{:>12}  {:<4}{}\n",
                prefetcher_word(p.kind),
                level_name(p.level),
                p.lines,
                if p.on { "yes" } else { "no" },
                p.confidence.word()
            );
        }
    }

    fn interconnect(&self, text: &mut String) {
        let Some(link) = &self.machine.interconnect else {
            *text += "\ninterconnect   none: one core is modelled\n";
            return;
        };
        *text += &format!(
            "\n{:<15}{}, {} cores, {} in a socket; {}\n",
            "interconnect",
            protocol_word(link.protocol),
            link.cores,
            link.cores_per_socket,
            link.confidence.word()
        );
        *text += &format!(
            "{:<51}{:>7}{:>8}\n",
            "a line that another core has modified", "cycles", "ns"
        );
        for (place, cycles) in [
            ("under the same last level", Some(link.same_l3_cycles)),
            ("under another one of the socket", link.other_l3_cycles),
            ("in another socket", link.other_socket_cycles),
        ] {
            let Some(cycles) = cycles else { continue };
            *text += &format!("  {place:<49}{cycles:>7.1}{:>8.1}\n", self.ns(cycles));
        }
    }

    /// Core cycles in nanoseconds.
    fn ns(&self, cycles: f64) -> f64 {
        cycles * 1e9 / self.machine.core.clock_hz as f64
    }

    fn sources(&self, text: &mut String) {
        let m = &self.machine;
        *text += "\nsources\n";
        let mut row = |name: &str, words: &str| {
            *text += &wrap(words, COLUMNS, &format!("{name:<9}"), &" ".repeat(9));
        };
        row("core", &m.core.source);
        for c in &m.caches {
            let hash = if c.slice_hash.is_empty() {
                ""
            } else {
                ", hashed"
            };
            row(
                level_name(c.level),
                &format!(
                    "{}{hash}, {} misses in flight, shared by {} core{}. {}",
                    inclusion_word(c.inclusion),
                    c.outstanding_misses,
                    c.shared_by_cores,
                    if c.shared_by_cores == 1 { "" } else { "s" },
                    c.source
                ),
            );
        }
        for t in &m.tlbs {
            row(&format!("TLB {}", t.level), &t.source);
        }
        row("memory", &m.memory.source);
        for p in &m.prefetchers {
            let what = format!("{} into {}", prefetcher_word(p.kind), level_name(p.level));
            row("prefetch", &format!("{what}: {}", p.source));
        }
        if let Some(link) = &m.interconnect {
            row("cores", &link.source);
        }
    }

    /// What the host told, where it differs, and what is to be known.
    fn told(&self, text: &mut String) {
        if !self.facts.is_empty() {
            *text += "\nfacts, as this host tells them\n";
        }
        for f in &self.facts {
            // A unit belongs to a number, not to "absent" or "unknown".
            let unit = match f.value.starts_with(|c: char| c.is_ascii_digit()) {
                true => format!(" {}", f.unit),
                false => String::new(),
            };
            *text += &wrap(
                &format!("{}{unit} [{}]", f.value, f.source),
                COLUMNS,
                &format!("{:<27} ", f.what),
                &" ".repeat(28),
            );
        }
        for (title, list) in [
            ("disagreements", &self.disagreements),
            ("notes", &self.notes),
        ] {
            if list.is_empty() {
                continue;
            }
            *text += &format!("\n{title}\n");
            for sentence in list {
                *text += &wrap(sentence, COLUMNS, "- ", "  ");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{catalogue, host};
    use std::path::Path;

    fn listing(tree: &str) -> Listing {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/sysfs");
        let host = host::read(&root.join(tree), 0).unwrap();
        Listing {
            machine: host.machine,
            facts: host.facts,
            disagreements: host.disagreements,
            notes: host.notes,
            counting: None,
        }
    }

    const TREES: [&str; 4] = ["zen5-guest", "intel-260m-guest", "neoverse-n1", "hybrid"];

    /// What `--toml` prints is a machine file: reading it gives the same machine.
    #[test]
    fn the_printed_file_is_read_back() {
        for tree in TREES {
            let listing = listing(tree);
            let text = listing.file().unwrap();
            let read = catalogue::parse(Path::new("out.toml"), &text).unwrap();
            assert_eq!(read, listing.machine, "{tree}");
        }
    }

    /// `--json` has the machine under `machine`, in the file's words.
    #[test]
    fn the_printed_json_is_read_back() {
        for tree in TREES {
            let listing = listing(tree);
            let text = serde_json::to_string(&listing).unwrap();
            let json: serde_json::Value = serde_json::from_str(&text).unwrap();
            let read: Machine = serde_json::from_value(json["machine"].clone()).unwrap();
            assert_eq!(read, listing.machine, "{tree}");
            assert!(!json["facts"].as_array().unwrap().is_empty());
        }
    }

    /// This host's and all machines of the catalogue.
    fn listings() -> Vec<Listing> {
        let catalogue = catalogue::names().map(|name| Listing {
            machine: catalogue::find(name).unwrap(),
            facts: Vec::new(),
            disagreements: Vec::new(),
            notes: Vec::new(),
            counting: None,
        });
        TREES.map(listing).into_iter().chain(catalogue).collect()
    }

    fn flat(text: &str) -> String {
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// No line is longer than the columns that are promised, and every source is shown.
    #[test]
    fn tables_fit_the_terminal() {
        for listing in listings() {
            let text = listing.words();
            let m = &listing.machine;
            for line in text.lines() {
                assert!(line.chars().count() <= COLUMNS, "{}: {line}", m.name);
            }
            let text = flat(&text);
            let sources = (m.caches.iter().map(|c| &c.source))
                .chain(m.tlbs.iter().map(|t| &t.source))
                .chain(m.prefetchers.iter().map(|p| &p.source))
                .chain(m.interconnect.iter().map(|i| &i.source))
                .chain([&m.core.source, &m.memory.source]);
            for source in sources {
                assert!(text.contains(&flat(source)), "{}: {source}", m.name);
            }
        }
    }

    /// Milan: 32 and 4 would be Intel's walk caches, AMD's are 64 and 64; at 3.6 GHz 83 cycles are
    /// 23.1 ns, 385 are 106.9 and 709 are 196.9.
    #[test]
    fn prefetchers_walk_caches_and_cores_are_shown() {
        let listings = listings();
        let find = |name| listings.iter().find(|l| l.machine.name == name).unwrap();
        let milan = flat(&find("milan").words());
        for words in [
            "walk caches 64, 64",
            "stride L1D 1 yes inferred",
            "streamer L2 2 yes inferred",
            "MOESI, 96 cores, 48 in a socket",
            "under the same last level 83.0 23.1",
            "under another one of the socket 385.0 106.9",
            "in another socket 709.0 196.9",
        ] {
            assert!(milan.contains(words), "{words:?} is not in {milan}");
        }
        let intel = flat(&find("i7-9700").words());
        assert!(intel.contains("adjacent-line L2 1 yes") && intel.contains("walk caches 32, 4"));
        assert!(!intel.contains("in another socket"), "it has one");
        let host = flat(&find("host:AMD EPYC").words());
        assert!(host.contains("one core is modelled"), "{host}");
    }
}
