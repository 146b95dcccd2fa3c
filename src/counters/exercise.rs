//! Work that every counter must notice: hypervisors and emulators open events that read 0 for ever.

use std::io;

use super::{Counted, Reading};
use crate::native::{between, mapping};

/// 32 MiB of small pages: more than any STLB reaches and any L2 holds.
pub struct Exercise {
    memory: mapping::Memory,
}

/// What an [`Exercise`] did at least.
#[derive(Clone, Copy, Debug, Default)]
pub struct Done {
    /// Loads, each from another page than the one before.
    pub loads: u64,
    /// Whether the lines had been flushed.
    pub flushed: bool,
}

impl Exercise {
    /// Map it, and touch every page.
    pub fn new() -> io::Result<Exercise> {
        let mut memory = mapping::allocate(32 << 20, mapping::Pages::FourK)?;
        memory.bytes().iter_mut().step_by(4096).for_each(|b| *b = 1);
        Ok(Exercise { memory })
    }

    /// Load a word of every page, at changing line offsets, from memory where lines can be flushed;
    /// then twice a word of 512 pages, more than a first-level DTLB reaches and less than an STLB;
    /// then branch on bits that nothing predicts.
    pub fn run(&mut self) -> Done {
        let bytes = self.memory.bytes();
        let flushed = between::flush_slice(bytes).is_ok();
        let mut loads = 0;
        let pages = bytes.len() / 4096;
        for page in (0..pages).chain(0..REPEATED_PAGES).chain(0..REPEATED_PAGES) {
            // 37 is odd: consecutive pages, all 64 line offsets in turn.
            std::hint::black_box(bytes[page * 4096 + page * 37 % 64 * 64]);
            loads += 1;
        }
        let mut bits = 0x9e37_79b9_7f4a_7c15_u64;
        for _ in 0..BRANCHES {
            // Xorshift (Marsaglia 2003).
            bits ^= bits << 13;
            bits ^= bits >> 7;
            bits ^= bits << 17;
            if bits & 1 == 1 {
                std::hint::black_box(bits);
            }
        }
        Done { loads, flushed }
    }
}

/// 96 entries (Zen 5), each of four pages where the core joins them, are 384; 1024 entries are the
/// smallest STLB here (Cortex-A72).
const REPEATED_PAGES: usize = 512;
/// Of a thousand branches on random bits no predictor knows all.
const BRANCHES: u32 = 1000;

/// Why a count over an exercise cannot be right; `None` if it can.
pub fn implausible(metric: &str, counted: &Counted, done: Done) -> Option<String> {
    let event = &counted.event;
    match &counted.reading {
        Reading::Unavailable(why) => Some(why.clone()),
        reading => {
            let count = reading.estimate().expect("available");
            let loads = done.loads as f64;
            // Each load is at least an instruction; each touches another page, and beyond the L1D
            // and L2; whether the last level misses is known only where lines were flushed. Hits of
            // the last level, walks (entries may join pages) and lines of other cores need not be.
            let least = match metric {
                "instructions" => loads,
                "l3_misses" if !done.flushed => 0.0,
                "l3_hits" | "hitm" | "page_walks" => 0.0,
                _ => 1.0,
            };
            (count < least).then(|| {
                format!(
                    "{event} opens but does not count: {count:.0} after {loads} loads from as many \
                     pages, where at least {least:.0} was due; the hypervisor or emulator does not \
                     implement it; the other counters and all times still work"
                )
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_that_never_count_are_found() {
        let done = Done {
            loads: 8192,
            flushed: false,
        };
        for (metric, reading, plausible) in [
            ("l1d_misses", Reading::Exact(0), false),
            ("l1d_misses", Reading::Exact(8000), true),
            ("instructions", Reading::Exact(8191), false),
            ("instructions", Reading::Exact(40_000), true),
            ("l3_misses", Reading::Exact(0), true),
            ("hitm", Reading::Exact(0), true),
            ("branch_misses", Reading::Exact(0), false),
            ("memory_stall_cycles", Reading::Exact(0), false),
            ("cycles", Reading::Unavailable("x".into()), false),
        ] {
            let counted = Counted {
                metric: "m",
                unit: "u",
                reading,
                event: "SOME.EVENT".into(),
                group: Some(0),
            };
            let why = implausible(metric, &counted, done);
            assert_eq!(why.is_none(), plausible, "{metric} {counted:?}: {why:?}");
        }
        let flushed = Done {
            flushed: true,
            ..done
        };
        let zero = Counted {
            metric: "l3_misses",
            unit: "misses",
            reading: Reading::Exact(0),
            event: "LLC-load-misses".into(),
            group: Some(0),
        };
        let why = implausible("l3_misses", &zero, flushed).unwrap();
        assert!(
            why.starts_with("LLC-load-misses opens but does not count"),
            "{why}"
        );
    }
}
