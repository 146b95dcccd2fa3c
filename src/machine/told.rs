//! What sources tell, kept apart from what is so: a hypervisor may tell what it likes, and a
//! missing file is neither an unreadable one nor a zero.

use serde::Serialize;

use super::Confidence;

/// What one source says of one quantity.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Told<T> {
    /// The source has no such entry.
    #[default]
    Absent,
    /// The entry is there and gives no value; why, in words.
    Unknown(String),
    /// The value, which may be zero.
    Is(T),
}

impl<T> Told<T> {
    /// The value, if there is one.
    pub fn value(&self) -> Option<&T> {
        match self {
            Told::Is(value) => Some(value),
            Told::Absent | Told::Unknown(_) => None,
        }
    }

    /// The value through `f`; what `f` refuses is unknown.
    pub fn parse<U>(self, f: impl FnOnce(&T) -> Option<U>) -> Told<U>
    where
        T: std::fmt::Debug,
    {
        match self {
            Told::Absent => Told::Absent,
            Told::Unknown(why) => Told::Unknown(why),
            Told::Is(value) => match f(&value) {
                Some(parsed) => Told::Is(parsed),
                None => Told::Unknown(format!("{value:?} is not understood")),
            },
        }
    }
}

impl<T: std::fmt::Display> Told<T> {
    /// The value, `absent`, or `unknown (why)`.
    pub fn words(&self) -> String {
        match self {
            Told::Absent => "absent".to_owned(),
            Told::Unknown(why) => format!("unknown ({why})"),
            Told::Is(value) => value.to_string(),
        }
    }
}

/// One data or unified cache of one CPU, as one source tells it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToldCache {
    /// 1, 2, 3 or 4.
    pub level: u8,
    /// All of it, in bytes.
    pub size_bytes: Told<u64>,
    /// Ways; sysfs has 0 for fully associative.
    pub ways: Told<u64>,
    /// Sets.
    pub sets: Told<u64>,
    /// Line in bytes.
    pub line_bytes: Told<u64>,
    /// CPUs that share it, where the source lists them.
    pub shared_cpus: Vec<u32>,
}

/// One thing known of the host, with its source.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fact {
    /// What it is.
    pub what: String,
    /// Its value, `absent`, or `unknown (why)`.
    pub value: String,
    /// Unit, empty where there is none.
    pub unit: String,
    /// File, CPUID leaf or library.
    pub source: String,
    /// How sure it is.
    pub confidence: Confidence,
}

impl Fact {
    /// A fact as the host tells it.
    pub fn told(what: &str, value: impl Into<String>, unit: &str, source: &str) -> Fact {
        Fact {
            what: what.to_owned(),
            value: value.into(),
            unit: unit.to_owned(),
            source: source.to_owned(),
            confidence: Confidence::Told,
        }
    }
}

/// Where the sources, `(name, its caches)`, differ: one sentence per level and quantity. A source
/// that tells no cache at all disagrees with nobody; a quantity that one does not tell is skipped.
/// `as_told` ends each sentence, as a guest's must.
pub fn disagreements(sources: &[(&str, &[ToldCache])], as_told: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (i, &(name, caches)) in sources.iter().enumerate() {
        for &(other_name, others) in &sources[i + 1..] {
            if caches.is_empty() || others.is_empty() {
                continue;
            }
            for level in 1..=4 {
                let of = |list: &[ToldCache]| list.iter().find(|c| c.level == level).cloned();
                match (of(caches), of(others)) {
                    (Some(one), Some(other)) => {
                        found.extend(differences(&one, &other).into_iter().map(|(what, a, b)| {
                            format!("L{level} {what}: {a} by {name}, {b} by {other_name}{as_told}.")
                        }));
                    }
                    (Some(_), None) => found.push(format!(
                        "L{level}: told by {name}, absent from {other_name}{as_told}."
                    )),
                    (None, Some(_)) => found.push(format!(
                        "L{level}: told by {other_name}, absent from {name}{as_told}."
                    )),
                    (None, None) => {}
                }
            }
        }
    }
    found
}

/// The quantities that both tell and that differ.
fn differences(one: &ToldCache, other: &ToldCache) -> Vec<(&'static str, u64, u64)> {
    [
        ("bytes", &one.size_bytes, &other.size_bytes),
        ("sets", &one.sets, &other.sets),
        ("ways", &one.ways, &other.ways),
        ("line bytes", &one.line_bytes, &other.line_bytes),
    ]
    .into_iter()
    .filter_map(|(what, a, b)| match (a.value(), b.value()) {
        (Some(&a), Some(&b)) if a != b => Some((what, a, b)),
        _ => None,
    })
    .collect()
}
