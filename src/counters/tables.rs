//! Events by microarchitecture: `events/*.toml`, one file each. None was verified on hardware yet:
//! a code is what its source says.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::events::METRICS;
use crate::machine::Confidence;
use crate::machine::family::{self, Identity};

/// What is said beside every event of the tables.
pub const NOT_VERIFIED: &str = "not yet verified on hardware";

/// The events of one microarchitecture. Each metric is counted by an event of the core, or is
/// absent with the reason.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Microarchitecture {
    /// File name without `.toml`.
    #[serde(skip_deserializing)]
    pub name: String,
    /// What it is in words.
    pub title: String,
    /// x86: names in `families.toml` of the machines, which knows the models.
    #[serde(default)]
    pub families: Vec<String>,
    /// arm64: implementer of MIDR_EL1.
    pub implementer: Option<u32>,
    /// arm64: part numbers of MIDR_EL1.
    #[serde(default)]
    pub parts: Vec<u32>,
    /// General counters of one thread; those with a fixed event not among them.
    pub general_counters: u32,
    /// Where that number comes from.
    pub counters_source: String,
    /// How sure it is.
    pub counters_confidence: Confidence,
    /// The events.
    pub event: Vec<Event>,
    /// Metrics that no event of the core counts.
    #[serde(default)]
    pub absent: Vec<Absent>,
}

/// One event for one metric.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Event {
    /// Ours, one of [`METRICS`].
    pub metric: String,
    /// As the vendor calls it.
    pub name: String,
    /// Which PMU counts it.
    #[serde(default)]
    pub pmu: PmuKind,
    /// Its encoding, by the names of the PMU's format files.
    pub fields: BTreeMap<String, u64>,
    /// Whether it has a counter of its own and takes no general one.
    #[serde(default)]
    pub fixed: bool,
    /// General counters that can count it, from the first; absent: all.
    pub counters: Option<u32>,
    /// Of events with the same word here a group holds one: they share a register.
    pub exclusive: Option<String>,
    /// What exactly is counted: vendors differ.
    pub definition: String,
    /// Where name and code come from.
    pub source: String,
    /// How sure they are.
    pub confidence: Confidence,
}

/// Which kind of PMU counts an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PmuKind {
    /// The core's: counts one thread.
    #[default]
    Core,
    /// AMD's of an L3: counts what all cores and programs ask of it.
    AmdL3,
}

impl PmuKind {
    /// As the tables spell it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            PmuKind::Core => "core",
            PmuKind::AmdL3 => "amd_l3",
        }
    }
}

/// A metric that the core cannot count.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Absent {
    /// Ours.
    pub metric: String,
    /// Why, in words that follow "METRIC: ".
    pub reason: String,
    /// What was read to know that.
    pub source: String,
}

macro_rules! tables {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("events/", $name, ".toml")))),*]
    };
}

/// The built-in tables, by name.
const BUILT_IN: &[(&str, &str)] = tables![
    "amd-zen-2",
    "amd-zen-3",
    "amd-zen-4",
    "amd-zen-5",
    "arm-cortex-a72",
    "arm-cortex-a76",
    "arm-neoverse-n1",
    "arm-neoverse-n2",
    "arm-neoverse-v1",
    "arm-neoverse-v2",
    "intel-golden-cove",
    "intel-golden-cove-server",
    "intel-gracemont",
    "intel-ice-lake",
    "intel-skylake",
];

/// All tables, by name.
///
/// # Panics
///
/// If a built-in table is wrong, which a test excludes.
#[must_use]
pub fn all() -> Vec<Microarchitecture> {
    let read = |&(name, text): &(&str, &str)| {
        parse(name, text).unwrap_or_else(|fault| panic!("checked by a test: {fault}"))
    };
    BUILT_IN.iter().map(read).collect()
}

/// The table of a CPU; `None` where there is none.
#[must_use]
pub fn of(id: &Identity) -> Option<Microarchitecture> {
    let family = family::of(id).name;
    all().into_iter().find(|table| {
        let arm = table.implementer.is_some() && table.implementer == id.implementer;
        match arm {
            true => id.part.is_some_and(|part| table.parts.contains(&part)),
            false => table.families.contains(&family),
        }
    })
}

/// A table from its text; a fault is one sentence that names the file and the key.
fn parse(name: &str, text: &str) -> Result<Microarchitecture, String> {
    let mut table: Microarchitecture =
        toml::from_str(text).map_err(|e| format!("{name}.toml: {}", e.message()))?;
    table.name = name.to_owned();
    match table.fault() {
        Some(fault) => Err(format!("{name}.toml: {fault}")),
        None => Ok(table),
    }
}

impl Microarchitecture {
    /// The event of the core for `metric`, or why there is none.
    pub fn event(&self, metric: &str) -> Result<&Event, String> {
        let fits = |e: &&Event| e.metric == metric && e.pmu == PmuKind::Core;
        self.event.iter().find(fits).ok_or_else(|| {
            let absent = self.absent.iter().find(|a| a.metric == metric);
            let reason = absent.map_or("the table of events has none", |a| &a.reason);
            format!(
                "on {} {reason}; the other counters and times still work",
                self.title
            )
        })
    }

    /// What is wrong with the table, if something is.
    fn fault(&self) -> Option<String> {
        let blank = |text: &str| text.trim().is_empty();
        if self.families.is_empty() == self.implementer.is_none() {
            return Some("either families or implementer and parts say whose it is".to_owned());
        }
        if self.implementer.is_some() && self.parts.is_empty() {
            return Some("parts: implementer needs them".to_owned());
        }
        if self.general_counters == 0 || blank(&self.counters_source) {
            return Some("general_counters: at least 1, with counters_source".to_owned());
        }
        for e in &self.event {
            let fault = match () {
                () if !METRICS.iter().any(|(metric, _)| *metric == e.metric) => "metric is unknown",
                () if blank(&e.name) => "name is blank",
                () if blank(&e.source) => "source is blank",
                () if blank(&e.definition) => "definition is blank",
                () if !e.fields.contains_key("event") => "fields has no event",
                () if e.fixed && e.counters.is_some() => "fixed takes no general counter",
                () if e
                    .counters
                    .is_some_and(|n| n == 0 || n > self.general_counters) =>
                {
                    "counters is 0 or more than there are"
                }
                () => continue,
            };
            return Some(format!("event {} for {}: {fault}", e.name, e.metric));
        }
        for a in &self.absent {
            if blank(&a.reason) || blank(&a.source) {
                return Some(format!("absent {}: reason and source are needed", a.metric));
            }
        }
        for (metric, _) in METRICS {
            let events = self.event.iter().filter(|e| e.pmu == PmuKind::Core);
            let events = events.filter(|e| e.metric == metric).count();
            let absent = self.absent.iter().filter(|a| a.metric == metric).count();
            if events + absent != 1 {
                return Some(format!(
                    "{metric}: one event of the core or one absent is accepted, not {events} and \
                     {absent}"
                ));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every table is whole, and knows whose it is: each family of hosts with data has one table,
    /// but Apple has none anywhere.
    #[test]
    fn tables_are_whole() {
        for (name, text) in BUILT_IN {
            let table = parse(name, text).unwrap_or_else(|fault| panic!("{fault}"));
            for e in &table.event {
                assert!(
                    !e.definition.contains(". "),
                    "{name} {}: one clause",
                    e.name
                );
            }
        }
        let tables = all();
        for family in family::all().iter().filter(|f| !f.is_fallback()) {
            let fits = |t: &&Microarchitecture| {
                t.families.contains(&family.name)
                    || t.implementer.is_some()
                        && t.implementer == family.implementer
                        && family.parts.iter().all(|p| t.parts.contains(p))
            };
            assert_eq!(tables.iter().filter(fits).count(), 1, "{}", family.name);
        }
        let known = family::all();
        for name in tables.iter().flat_map(|t| &t.families) {
            assert!(known.iter().any(|f| f.name == *name), "{name} is no family");
        }
    }

    /// A table with one line spoiled is refused, and the sentence names file and key.
    #[test]
    fn a_wrong_table_is_refused_by_key() {
        let (name, good) = BUILT_IN[0];
        for (line, wrong, key) in [
            (
                "source = \"Linux, tools/perf/pmu-events/arch/x86/amdzen2/memory.json\"",
                "source = \" \"",
                "source",
            ),
            (
                "source = \"Linux, tools/perf/pmu-events/arch/x86/amdzen2/memory.json\"",
                "",
                "source",
            ),
            (
                "definition = \"retired\"",
                "definition = \"\"",
                "definition",
            ),
            ("metric = \"cycles\"", "metric = \"ticks\"", "metric"),
            ("metric = \"cycles\"", "metric = \"instructions\"", "cycles"),
            (
                "fields = { event = 0x76 }",
                "fields = { umask = 0x76 }",
                "event",
            ),
            ("confidence = \"verified\"", "confidence = \"sure\"", "sure"),
            (
                "general_counters = 6",
                "general_counters = 0",
                "general_counters",
            ),
            ("general_counters = 6", "counters = 6", "counters"),
            ("families = [\"zen-2\"]", "", "families"),
            (
                "fields = { event = 0xc0 }",
                "fields = { event = 0xc0 }\ncounters = 7",
                "counters",
            ),
        ] {
            assert!(good.contains(line), "{line}");
            let error = parse(name, &good.replacen(line, wrong, 1)).unwrap_err();
            assert!(error.starts_with("amd-zen-2.toml: "), "{error}");
            assert!(error.contains(key), "{line} -> {wrong}: {error}");
        }
    }

    fn x86(vendor: &str, family: u32, model: u32, core_type: Option<&str>) -> Identity {
        Identity {
            arch: "x86-64".to_owned(),
            vendor: Some(vendor.to_owned()),
            family: Some(family),
            model: Some(model),
            core_type: core_type.map(str::to_owned),
            ..Identity::default()
        }
    }

    fn arm(implementer: u32, part: u32) -> Identity {
        Identity {
            arch: "arm64".to_owned(),
            implementer: Some(implementer),
            part: Some(part),
            ..Identity::default()
        }
    }

    /// Family and model as the vendors give them: 6/158 is Coffee Lake, 6/143 Sapphire Rapids, 6/207
    /// Emerald Rapids, 6/151 Alder Lake, 23/49 Rome, 25/1 Milan, 25/17 Genoa, 26/2 Turin; 0xd0c N1,
    /// 0xd40 V1, 0xd49 N2, 0xd4f V2, 0xd08 A72, 0xd0b A76 of Arm (0x41); Apple (0x61) has no table.
    #[test]
    fn a_cpu_finds_its_table() {
        for (id, name) in [
            (x86("GenuineIntel", 6, 158, None), Some("intel-skylake")),
            (x86("GenuineIntel", 6, 85, None), Some("intel-skylake")),
            (x86("GenuineIntel", 6, 106, None), Some("intel-ice-lake")),
            (
                x86("GenuineIntel", 6, 143, None),
                Some("intel-golden-cove-server"),
            ),
            (
                x86("GenuineIntel", 6, 207, None),
                Some("intel-golden-cove-server"),
            ),
            (
                x86("GenuineIntel", 6, 151, Some("core")),
                Some("intel-golden-cove"),
            ),
            (
                x86("GenuineIntel", 6, 151, Some("atom")),
                Some("intel-gracemont"),
            ),
            (x86("GenuineIntel", 6, 45, None), None),
            (x86("AuthenticAMD", 23, 49, None), Some("amd-zen-2")),
            (x86("AuthenticAMD", 25, 1, None), Some("amd-zen-3")),
            (x86("AuthenticAMD", 25, 17, None), Some("amd-zen-4")),
            (x86("AuthenticAMD", 26, 2, None), Some("amd-zen-5")),
            (arm(0x41, 0xd0c), Some("arm-neoverse-n1")),
            (arm(0x41, 0xd40), Some("arm-neoverse-v1")),
            (arm(0x41, 0xd49), Some("arm-neoverse-n2")),
            (arm(0x41, 0xd4f), Some("arm-neoverse-v2")),
            (arm(0x41, 0xd08), Some("arm-cortex-a72")),
            (arm(0x41, 0xd0b), Some("arm-cortex-a76")),
            (arm(0x61, 0x022), None),
            (arm(0x61, 0xd0c), None),
        ] {
            let found = of(&id).map(|t| t.name);
            assert_eq!(found.as_deref(), name, "{id:?}");
        }
    }

    /// AMD counts no lines that another core modified, and the reason says so; Intel does.
    #[test]
    fn what_a_core_cannot_count_is_said() {
        let zen = of(&x86("AuthenticAMD", 25, 1, None)).unwrap();
        let why = zen.event("hitm").unwrap_err();
        assert!(
            why.contains("AMD Zen 3") && why.contains("modified"),
            "{why}"
        );
        assert!(why.ends_with("still work"), "{why}");
        assert_eq!(zen.event("l3_misses").unwrap().pmu, PmuKind::Core);
        let coffee_lake = of(&x86("GenuineIntel", 6, 158, None)).unwrap();
        let hitm = coffee_lake.event("hitm").unwrap();
        assert_eq!(hitm.name, "MEM_LOAD_L3_HIT_RETIRED.XSNP_HITM");
    }
}
