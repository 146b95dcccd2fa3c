//! What a host does not tell of its core, by processor family: `families.toml`.

use serde::Deserialize;

use super::{Confidence, Core, Inclusion, MainMemory, Prefetcher, Replacement, Tlb};

/// Defaults of one processor family, each table with source and confidence.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Family {
    /// Short name, such as `zen-5`.
    pub name: String,
    /// What it is in words.
    pub title: String,
    /// x86: CPUID's vendor string.
    #[serde(default)]
    pub vendor: String,
    /// x86: which models.
    #[serde(default)]
    pub models: Vec<Models>,
    /// x86 hybrids: `core` or `atom`.
    pub core_type: Option<String>,
    /// arm64: implementer of MIDR_EL1.
    pub implementer: Option<u32>,
    /// arm64: part numbers of MIDR_EL1.
    #[serde(default)]
    pub parts: Vec<u32>,
    /// The core at a common clock.
    pub core: Core,
    /// Per level, what geometry does not say.
    pub caches: Vec<LevelDefaults>,
    /// Data TLBs.
    pub tlbs: Vec<Tlb>,
    /// Memory and page walks, in cycles at the core's clock here.
    pub memory: MainMemory,
    /// Hardware prefetchers.
    #[serde(default)]
    pub prefetchers: Vec<Prefetcher>,
}

/// A range of CPUID models, both ends included.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Models {
    /// Display family.
    pub family: u32,
    /// First display model.
    pub from: u32,
    /// Last display model.
    pub to: u32,
}

/// What geometry does not say of a cache level.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LevelDefaults {
    /// 1 to 4.
    pub level: u8,
    /// Ways, where the host does not tell them.
    pub ways: Option<u32>,
    /// A guess unless `source` says otherwise.
    pub replacement: Replacement,
    /// Relation to the inner levels.
    pub inclusion: Inclusion,
    /// Load-to-use latency in core cycles.
    pub latency_cycles: f64,
    /// Misses in flight.
    pub outstanding_misses: u32,
    /// Where the numbers come from.
    pub source: String,
    /// How sure they are.
    pub confidence: Confidence,
}

/// Who a CPU says it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// `x86-64` or `arm64`.
    pub arch: String,
    /// x86: vendor string.
    pub vendor: Option<String>,
    /// x86: display family.
    pub family: Option<u32>,
    /// x86: display model.
    pub model: Option<u32>,
    /// x86: stepping.
    pub stepping: Option<u32>,
    /// x86 hybrids: `core` or `atom`.
    pub core_type: Option<String>,
    /// arm64: implementer of MIDR_EL1.
    pub implementer: Option<u32>,
    /// arm64: part of MIDR_EL1.
    pub part: Option<u32>,
    /// Model name, without double spaces.
    pub model_name: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Families {
    family: Vec<Family>,
}

/// All families in their order; the last one, `generic`, fits every processor.
pub fn all() -> Vec<Family> {
    let families: Families =
        toml::from_str(include_str!("families.toml")).expect("families.toml is checked by a test");
    families.family
}

impl Family {
    fn fits(&self, id: &Identity) -> bool {
        if let Some(implementer) = self.implementer {
            return id.implementer == Some(implementer)
                && id.part.is_some_and(|part| self.parts.contains(&part));
        }
        if self.vendor.is_empty() {
            return true;
        }
        let (Some(vendor), Some(family), Some(model)) = (&id.vendor, id.family, id.model) else {
            return false;
        };
        // A hybrid whose core type is not told counts as its P core, and the caller says so.
        let core_type = id.core_type.as_deref().unwrap_or("core");
        *vendor == self.vendor
            && self
                .models
                .iter()
                .any(|m| m.family == family && (m.from..=m.to).contains(&model))
            && self.core_type.as_deref().is_none_or(|t| t == core_type)
    }

    /// Whether this is the fallback for processors without data.
    pub fn is_fallback(&self) -> bool {
        self.vendor.is_empty() && self.implementer.is_none()
    }
}

/// The first family that fits.
pub fn of(id: &Identity) -> Family {
    all()
        .into_iter()
        .find(|family| family.fits(id))
        .expect("the last family fits every processor")
}

/// The fallback for processors, and for cache levels, without data.
pub fn fallback() -> Family {
    all().pop().expect("families.toml is checked by a test")
}
