//! PMUs as sysfs tells them, below a root that may be a recorded tree.

use std::collections::BTreeMap;

use super::format::{Encoding, Format, encode, fields};
use crate::machine::sysfs::{Tree, cpu_list, list_words};
use crate::machine::told::Told;

/// Where sysfs lists them.
const DEVICES: &str = "sys/bus/event_source/devices";

/// One PMU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pmu {
    /// `cpu`, `cpu_core`, `armv8_pmuv3_0`, `amd_l3`.
    pub name: String,
    /// Its number for `perf_event_open`.
    pub kind: u32,
    /// A core's: the CPUs that it counts; an uncore's: the CPU of each instance that is asked.
    /// `None`: not told, so all.
    pub cpus: Option<Vec<u32>>,
    /// Its fields.
    pub formats: BTreeMap<String, Format>,
    /// Events that Linux names, by their fields.
    pub events: BTreeMap<String, String>,
    /// What else it tells: `pmu_name`, `slots`, `max_precise`.
    pub caps: BTreeMap<String, String>,
}

impl Pmu {
    /// From its folder; why not is one clause.
    fn read(tree: &Tree, name: &str) -> Result<Pmu, String> {
        let folder = format!("{DEVICES}/{name}");
        let file = |file: &str| format!("{folder}/{file}");
        let kind = match tree.number(&file("type")) {
            Told::Is(kind) => u32::try_from(kind).map_err(|_| format!("{name}/type is {kind}"))?,
            other => return Err(format!("{name}/type is {}", other.words())),
        };
        let list = |name: &str| match tree.text(&file(name)) {
            Told::Is(text) => cpu_list(&text),
            Told::Absent | Told::Unknown(_) => None,
        };
        let texts = |sub: &str| -> BTreeMap<String, String> {
            let names = tree.names(&file(sub)).into_iter();
            names
                .filter_map(|name| {
                    let text = tree.text(&file(&format!("{sub}/{name}")));
                    Some((name, text.value()?.clone()))
                })
                .collect()
        };
        let formats = texts("format");
        let formats = formats
            .into_iter()
            .filter_map(|(name, text)| Some((name, Format::parse(&text)?)))
            .collect();
        let scaled = |name: &str| name.ends_with(".scale") || name.ends_with(".unit");
        let mut events = texts("events");
        events.retain(|name, _| !scaled(name));
        Ok(Pmu {
            name: name.to_owned(),
            kind,
            cpus: list("cpus").or_else(|| list("cpumask")),
            formats,
            events,
            caps: texts("caps"),
        })
    }

    /// Whether it counts `cpu`.
    #[must_use]
    pub fn counts(&self, cpu: u32) -> bool {
        self.cpus.as_ref().is_none_or(|cpus| cpus.contains(&cpu))
    }

    /// An event by its fields.
    pub fn encode<'a>(
        &self,
        fields: impl IntoIterator<Item = (&'a str, u64)>,
    ) -> Result<Encoding, String> {
        encode(self.kind, &self.formats, fields)
    }

    /// An event by Linux's name of it; `None` if the PMU has none of that name.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<Encoding> {
        let fields = fields(self.events.get(name)?)?;
        let fields = fields.iter().map(|(name, value)| (name.as_str(), *value));
        self.encode(fields).ok()
    }

    /// Whether it is one of several that count cores of this host, so that generic events need its
    /// number.
    #[must_use]
    pub fn is_hybrid(&self) -> bool {
        matches!(self.name.as_str(), "cpu_core" | "cpu_atom")
    }
}

/// Whether `name` is that of a PMU of cores: x86, Intel's hybrids, Arm's by the name that the
/// device tree or ACPI gives it, Apple's.
fn is_core(name: &str) -> bool {
    let apple = name.starts_with("apple_") && name.ends_with("_pmu");
    matches!(name, "cpu" | "cpu_core" | "cpu_atom") || name.starts_with("armv") || apple
}

/// The PMU that counts `cpu`; where there is none, why, in one clause.
pub fn core(tree: &Tree, cpu: u32) -> Result<Pmu, String> {
    let mut names = tree.names(DEVICES);
    names.retain(|name| is_core(name));
    names.sort_unstable();
    if names.is_empty() {
        return Err(match tree.path(DEVICES).is_dir() {
            true => format!("/{DEVICES} has no PMU of a core"),
            false => format!("/{DEVICES} is not there"),
        });
    }
    let mut others = Vec::new();
    for name in names {
        let pmu = Pmu::read(tree, &name)?;
        if pmu.counts(cpu) {
            return Ok(pmu);
        }
        let cpus = pmu.cpus.as_deref().map(list_words).unwrap_or_default();
        others.push(format!("{name} counts {cpus}"));
    }
    Err(format!("no PMU counts CPU {cpu}: {}", others.join(", ")))
}

/// AMD's PMU of the L3, where Linux has it.
#[must_use]
pub fn amd_l3(tree: &Tree) -> Option<Pmu> {
    Pmu::read(tree, "amd_l3").ok()
}

/// The names of the PMUs of cores that count `cpu`, or that do not say which they count.
#[must_use]
pub fn core_names(tree: &Tree, cpu: u32) -> Vec<String> {
    core(tree, cpu).map(|pmu| pmu.name).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    /// A tree with `files` below the folder of PMUs.
    fn tree(root: &Path, files: &[(&str, &str)]) -> Tree {
        for (file, text) in files {
            let path = root.join(DEVICES).join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        Tree::new(root)
    }

    #[test]
    fn core_pmus_are_known_by_name() {
        for (name, core) in [
            ("cpu", true),
            ("cpu_core", true),
            ("cpu_atom", true),
            ("armv8_pmuv3_0", true),
            ("armv8_cortex_a72", true),
            ("apple_firestorm_pmu", true),
            ("apple_m1_gpu", false),
            ("software", false),
            ("amd_l3", false),
            ("arm_dsu_0", false),
            ("uncore_cbox_0", false),
        ] {
            assert_eq!(is_core(name), core, "{name}");
        }
    }

    /// Two kinds of core: each CPU finds its own; a CPU of neither is told of both.
    #[test]
    fn each_cpu_finds_its_pmu() {
        let dir = tempfile::tempdir().unwrap();
        let tree = tree(
            dir.path(),
            &[
                ("armv8_cortex_a72/type", "8\n"),
                ("armv8_cortex_a72/cpus", "4-5\n"),
                ("armv8_cortex_a53/type", "7\n"),
                ("armv8_cortex_a53/cpus", "0-3\n"),
                ("breakpoint/type", "5\n"),
            ],
        );
        for (cpu, name, kind) in [(0, "armv8_cortex_a53", 7), (5, "armv8_cortex_a72", 8)] {
            let pmu = core(&tree, cpu).unwrap();
            assert_eq!((pmu.name.as_str(), pmu.kind), (name, kind));
        }
        let why = core(&tree, 6).unwrap_err();
        assert_eq!(
            why,
            "no PMU counts CPU 6: armv8_cortex_a53 counts 0-3, armv8_cortex_a72 counts 4-5"
        );
        assert_eq!(core_names(&tree, 6), [""; 0]);
    }

    /// No folder, a folder without PMUs of cores, a type that is no number: each is a clause.
    #[test]
    fn what_is_not_there_is_said() {
        let dir = tempfile::tempdir().unwrap();
        let empty = Tree::new(dir.path());
        assert!(core(&empty, 0).unwrap_err().ends_with("is not there"));
        assert_eq!(amd_l3(&empty), None);
        let software = tree(dir.path(), &[("software/type", "1\n")]);
        assert!(
            core(&software, 0)
                .unwrap_err()
                .ends_with("has no PMU of a core")
        );
        let broken = tree(dir.path(), &[("cpu/type", "four\n")]);
        assert!(core(&broken, 0).unwrap_err().starts_with("cpu/type is "));
    }

    /// A format or event file that is not one is left out; the others are read.
    #[test]
    fn broken_files_are_left_out() {
        let dir = tempfile::tempdir().unwrap();
        let tree = tree(
            dir.path(),
            &[
                ("cpu/type", "4"),
                ("cpu/format/event", "config:0-7"),
                ("cpu/format/umask", "config:8-"),
                ("cpu/events/cpu-cycles", "event=0x3c"),
                ("cpu/events/mem-loads", "event=?"),
                ("cpu/events/energy.scale", "2.3e-10"),
            ],
        );
        let pmu = core(&tree, 3).unwrap();
        assert_eq!(pmu.formats.keys().collect::<Vec<_>>(), ["event"]);
        assert_eq!(pmu.named("cpu-cycles").map(|e| e.config[0]), Some(0x3c));
        assert_eq!(pmu.named("mem-loads"), None);
        assert_eq!(pmu.named("cache-misses"), None);
        assert!(!pmu.events.contains_key("energy.scale"));
    }
}
