//! State of the host at the start of a run: what may explain a difference between two runs.

use std::collections::BTreeMap;
use std::path::Path;

/// Name, file under the root, and what to take of it.
const FACTS: &[(&str, &str, Take)] = &[
    ("linux", "proc/sys/kernel/osrelease", Take::All),
    ("model", "proc/cpuinfo", Take::After("model name")),
    ("hypervisor", "sys/hypervisor/type", Take::All),
    ("cpus_online", "sys/devices/system/cpu/online", Take::All),
    (
        "cpus_allowed",
        "proc/self/status",
        Take::After("Cpus_allowed_list"),
    ),
    ("smt", "sys/devices/system/cpu/smt/control", Take::All),
    (
        "governor",
        "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
        Take::All,
    ),
    (
        "transparent_hugepage",
        "sys/kernel/mm/transparent_hugepage/enabled",
        Take::Chosen,
    ),
    (
        "hugepages_free",
        "proc/meminfo",
        Take::After("HugePages_Free"),
    ),
    (
        "perf_event_paranoid",
        "proc/sys/kernel/perf_event_paranoid",
        Take::All,
    ),
    (
        "clocksource",
        "sys/devices/system/clocksource/clocksource0/current_clocksource",
        Take::All,
    ),
    ("loadavg", "proc/loadavg", Take::All),
];

/// Which part of a file is the fact.
#[derive(Clone, Copy)]
enum Take {
    /// All of it.
    All,
    /// What follows the colon in the first line of this name.
    After(&'static str),
    /// The word in brackets.
    Chosen,
}

/// Facts about the host whose file systems are mounted under `root` (`/`), by name. A fact that the
/// host does not give is absent.
#[must_use]
pub fn host_state(root: &Path) -> BTreeMap<String, String> {
    FACTS
        .iter()
        .filter_map(|(name, file, take)| {
            let text = std::fs::read_to_string(root.join(file)).ok()?;
            let fact = match take {
                Take::All => text.trim().to_string(),
                Take::After(key) => after(&text, key)?,
                Take::Chosen => {
                    let (_, rest) = text.split_once('[')?;
                    rest.split_once(']')?.0.to_string()
                }
            };
            (!fact.is_empty()).then(|| ((*name).to_string(), fact))
        })
        .collect()
}

fn after(text: &str, key: &str) -> Option<String> {
    let (_, value) = text
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.trim() == key)?;
    Some(value.trim().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn facts_come_from_the_tree_and_absent_ones_are_absent() {
        let root = tempfile::tempdir().expect("a temporary folder");
        let write = |file: &str, text: &str| {
            let file = root.path().join(file);
            fs::create_dir_all(file.parent().expect("files lie in folders")).expect("created");
            fs::write(file, text).expect("written");
        };
        write("proc/sys/kernel/osrelease", "6.12.1\n");
        write(
            "proc/cpuinfo",
            "processor\t: 0\nmodel name\t: A: B\n\nmodel name\t: C\n",
        );
        write(
            "sys/kernel/mm/transparent_hugepage/enabled",
            "always [madvise] never\n",
        );
        let state = host_state(root.path());
        let expected = [
            ("linux", "6.12.1"),
            ("model", "A: B"),
            ("transparent_hugepage", "madvise"),
        ];
        let expected = expected.map(|(k, v)| (k.to_string(), v.to_string()));
        assert_eq!(state, BTreeMap::from(expected));
    }
}
