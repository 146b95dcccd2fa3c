//! What a machine must be before it is modelled. Machines come from files, so every number is
//! checked here once, and the model may rely on it.

use std::fmt;

use super::{Cache, Confidence, Core, Interconnect, Machine, MainMemory, Prefetcher, Tlb};

/// What is wrong with a machine, and what would be accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where, such as `caches[1].ways`.
    pub key: String,
    /// What is wrong and what would be accepted.
    pub what: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.what)
    }
}

/// Largest cache level that is modelled, in bytes: above any L3 or L4 that is built.
const MAX_CACHE_BYTES: u64 = 4 << 30;
/// Largest count of ways, slices, misses in flight and the like.
const MAX_COUNT: u32 = 1 << 16;
/// Largest latency in cycles.
const MAX_CYCLES: u32 = 1_000_000;
/// Largest clock in Hz.
const MAX_HZ: u64 = 100_000_000_000;

/// Fails with `what` at `key` unless `ok`.
fn need(ok: bool, key: &str, what: impl FnOnce() -> String) -> Result<(), Fault> {
    if ok {
        return Ok(());
    }
    Err(Fault {
        key: key.to_owned(),
        what: what(),
    })
}

/// A number of things: at least 1, at most [`MAX_COUNT`].
fn count(value: u32, key: &str) -> Result<(), Fault> {
    need((1..=MAX_COUNT).contains(&value), key, || {
        format!("{value} is not accepted; 1 to {MAX_COUNT} is")
    })
}

fn cycles(value: u32, key: &str) -> Result<(), Fault> {
    need(value <= MAX_CYCLES, key, || {
        format!("{value} is not accepted; 0 to {MAX_CYCLES} cycles is")
    })
}

fn latency(value: f64, key: &str) -> Result<(), Fault> {
    // A NaN is in no range.
    need(value > 0.0 && value <= f64::from(MAX_CYCLES), key, || {
        format!("{value} is not accepted; more than 0 and at most {MAX_CYCLES} cycles is")
    })
}

fn hz(value: u64, key: &str) -> Result<(), Fault> {
    need((1..=MAX_HZ).contains(&value), key, || {
        format!("{value} is not accepted; 1 to {MAX_HZ} Hz is")
    })
}

fn text(value: &str, key: &str) -> Result<(), Fault> {
    need(!value.trim().is_empty(), key, || {
        "is empty; a text is needed".to_owned()
    })
}

impl Machine {
    /// Whether the model can take it: no empty source, no zero count, levels in order, one line
    /// size, ways that the replacement policy can have.
    pub fn check(&self) -> Result<(), Fault> {
        text(&self.name, "name")?;
        text(&self.title, "title")?;
        need(matches!(&*self.arch, "x86-64" | "arm64"), "arch", || {
            format!("{:?} is not accepted; x86-64 or arm64 is", self.arch)
        })?;
        self.core.check()?;
        need(!self.caches.is_empty(), "caches", || {
            "there is none; at least level 1 is needed".to_owned()
        })?;
        for (i, cache) in self.caches.iter().enumerate() {
            cache.check(&format!("caches[{i}]"))?;
            let accepted = match i.checked_sub(1) {
                None => 1..=1,
                Some(inner) => self.caches[inner].level + 1..=4,
            };
            need(
                accepted.contains(&cache.level),
                &format!("caches[{i}].level"),
                || {
                    format!(
                        "{} is out of order; levels begin with 1 and rise from the core outwards",
                        cache.level
                    )
                },
            )?;
            let line_bytes = self.caches[0].line_bytes;
            need(
                cache.line_bytes == line_bytes,
                &format!("caches[{i}].line_bytes"),
                || {
                    format!(
                        "{} differs from the {line_bytes} of level 1; one line size is accepted",
                        cache.line_bytes
                    )
                },
            )?;
        }
        self.check_tlbs()?;
        for (i, prefetcher) in self.prefetchers.iter().enumerate() {
            prefetcher.check(&format!("prefetchers[{i}]"), &self.caches)?;
        }
        if let Some(interconnect) = &self.interconnect {
            interconnect.check(&self.caches)?;
        }
        self.memory.check()
    }

    fn check_tlbs(&self) -> Result<(), Fault> {
        for (i, tlb) in self.tlbs.iter().enumerate() {
            tlb.check(&format!("tlbs[{i}]"))?;
            need(
                i == 0 || self.tlbs[i - 1].level <= tlb.level,
                &format!("tlbs[{i}].level"),
                || "levels rise from the core outwards".to_owned(),
            )?;
            for earlier in &self.tlbs[..i] {
                let both = earlier.level == tlb.level
                    && tlb
                        .page_bytes
                        .iter()
                        .any(|p| earlier.page_bytes.contains(p));
                need(!both, &format!("tlbs[{i}].page_bytes"), || {
                    format!(
                        "a page size is in two TLBs of level {}; one is accepted",
                        tlb.level
                    )
                })?;
            }
        }
        Ok(())
    }
}

impl Core {
    fn check(&self) -> Result<(), Fault> {
        hz(self.clock_hz, "core.clock_hz")?;
        if let Some(tsc_hz) = self.tsc_hz {
            hz(tsc_hz, "core.tsc_hz")?;
        }
        for (key, value) in [
            ("core.window", self.window),
            ("core.issue_width", self.issue_width),
            ("core.load_ports", self.load_ports),
            ("core.memory_ports", self.memory_ports),
            ("core.store_ports", self.store_ports),
            ("core.store_buffer", self.store_buffer),
        ] {
            count(value, key)?;
        }
        for (key, value) in [
            ("core.forward_cycles", self.forward_cycles),
            ("core.locked_cycles", self.locked_cycles),
            ("core.mispredict_cycles", self.mispredict_cycles),
        ] {
            cycles(value, key)?;
        }
        text(&self.source, "core.source")
    }
}

impl Cache {
    pub(super) fn check(&self, at: &str) -> Result<(), Fault> {
        need(
            (1..=4).contains(&self.level),
            &format!("{at}.level"),
            || format!("{} is not accepted; 1 to 4 is", self.level),
        )?;
        need(self.sets > 0, &format!("{at}.sets"), || {
            "0 is not accepted; any number from 1 is".to_owned()
        })?;
        count(self.ways, &format!("{at}.ways"))?;
        count(self.slices, &format!("{at}.slices"))?;
        count(self.outstanding_misses, &format!("{at}.outstanding_misses"))?;
        count(self.shared_by_cores, &format!("{at}.shared_by_cores"))?;
        need(
            self.line_bytes.is_power_of_two() && (8..=4096).contains(&self.line_bytes),
            &format!("{at}.line_bytes"),
            || {
                format!(
                    "{} is not accepted; a power of two from 8 to 4096 is",
                    self.line_bytes
                )
            },
        )?;
        let size = [self.slices, self.ways, self.line_bytes]
            .iter()
            .try_fold(u64::from(self.sets), |size, &n| {
                size.checked_mul(u64::from(n))
            });
        need(size.is_some_and(|s| s <= MAX_CACHE_BYTES), at, || {
            "slices * sets * ways * line_bytes is more than the 4 GiB that are accepted".to_owned()
        })?;
        let hashed = 1u32.checked_shl(self.slice_hash.len() as u32);
        need(
            self.slice_hash.is_empty() || hashed == Some(self.slices),
            &format!("{at}.slice_hash"),
            || {
                format!(
                    "{} masks do not number {} slices; log2(slices) masks or none are accepted",
                    self.slice_hash.len(),
                    self.slices
                )
            },
        )?;
        if let Some(what) = self.replacement.refuses(self.ways) {
            return Err(Fault {
                key: format!("{at}.replacement"),
                what: what.to_owned(),
            });
        }
        latency(self.latency_cycles, &format!("{at}.latency_cycles"))?;
        text(&self.source, &format!("{at}.source"))
    }
}

impl Tlb {
    fn check(&self, at: &str) -> Result<(), Fault> {
        need(matches!(self.level, 1 | 2), &format!("{at}.level"), || {
            format!("{} is not accepted; 1 or 2 is", self.level)
        })?;
        need(
            !self.page_bytes.is_empty()
                && self
                    .page_bytes
                    .iter()
                    .all(|p| p.is_power_of_two() && (1 << 10..=1 << 40).contains(p)),
            &format!("{at}.page_bytes"),
            || "a list of page sizes, powers of two from 1 KiB to 1 TiB, is accepted".to_owned(),
        )?;
        count(self.sets, &format!("{at}.sets"))?;
        count(self.ways, &format!("{at}.ways"))?;
        need(
            u64::from(self.sets) * u64::from(self.ways) <= 1 << 24,
            at,
            || "sets * ways is more than the 16 Mi entries that are accepted".to_owned(),
        )?;
        cycles(self.latency_cycles, &format!("{at}.latency_cycles"))?;
        need(
            self.level != 1 || self.latency_cycles == 0,
            &format!("{at}.latency_cycles"),
            || "a hit of level 1 adds nothing; 0 is accepted".to_owned(),
        )?;
        text(&self.source, &format!("{at}.source"))
    }
}

impl MainMemory {
    fn check(&self) -> Result<(), Fault> {
        latency(self.latency_cycles, "memory.latency_cycles")?;
        cycles(self.page_walk_cycles, "memory.page_walk_cycles")?;
        need(
            self.walk_cache_entries.len() <= 3,
            "memory.walk_cache_entries",
            || "more than the three page-walk caches that are accepted".to_owned(),
        )?;
        for &entries in &self.walk_cache_entries {
            count(entries, "memory.walk_cache_entries")?;
        }
        text(&self.source, "memory.source")
    }
}

impl Prefetcher {
    fn check(&self, at: &str, caches: &[Cache]) -> Result<(), Fault> {
        let there = caches.iter().any(|cache| cache.level == self.level);
        need(
            there && matches!(self.level, 1 | 2),
            &format!("{at}.level"),
            || {
                format!(
                    "{} is not accepted; 1 or 2 is, if the machine has it",
                    self.level
                )
            },
        )?;
        need(
            (1..=64).contains(&self.lines),
            &format!("{at}.lines"),
            || format!("{} is not accepted; 1 to 64 is", self.lines),
        )?;
        text(&self.source, &format!("{at}.source"))
    }
}

/// Most cores that are modelled.
pub const MAX_CORES: u32 = 256;

impl Interconnect {
    fn check(&self, caches: &[Cache]) -> Result<(), Fault> {
        let at = |key: &str| format!("interconnect.{key}");
        need((1..=MAX_CORES).contains(&self.cores), &at("cores"), || {
            format!("{} is not accepted; 1 to {MAX_CORES} is", self.cores)
        })?;
        count(self.cores_per_socket, &at("cores_per_socket"))?;
        latency(self.same_l3_cycles, &at("same_l3_cycles"))?;
        for (key, value, needed) in [
            (
                "other_l3_cycles",
                self.other_l3_cycles,
                caches.last().is_some_and(|last| {
                    last.shared_by_cores < self.cores.min(self.cores_per_socket)
                }),
            ),
            (
                "other_socket_cycles",
                self.other_socket_cycles,
                self.cores_per_socket < self.cores,
            ),
        ] {
            match value {
                Some(value) => latency(value, &at(key))?,
                None => need(!needed, &at(key), || {
                    "is absent, but there are cores that far apart; a latency is needed".to_owned()
                })?,
            }
        }
        let widening = caches.windows(2).all(|pair| {
            pair[1]
                .shared_by_cores
                .is_multiple_of(pair[0].shared_by_cores)
        });
        need(widening, "caches.shared_by_cores", || {
            "a level is shared by no multiple of the cores that share the level inside it; with an \
             interconnect it must be"
                .to_owned()
        })?;
        text(&self.source, &at("source"))
    }
}

impl Confidence {
    /// The word that files, tables and JSON share.
    pub fn word(self) -> &'static str {
        match self {
            Confidence::Verified => "verified",
            Confidence::Measured => "measured",
            Confidence::Told => "told",
            Confidence::Memory => "memory",
            Confidence::Inferred => "inferred",
        }
    }
}
