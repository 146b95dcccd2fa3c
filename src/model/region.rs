//! What is measured: from the beginning of a region to its end, on every core.

use super::Model;
use super::coherence::CoherenceStats;
use super::core::{CoreStats, cycles_of};
use super::stats::{LevelStats, MAX_LEVELS};
use super::tlb::TlbStats;

/// What happened between [`Model::begin_region`] and [`Model::end_region`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RegionStats {
    /// From an idle core to the retirement of the last instruction, in core clock cycles.
    pub cycles: f64,
    /// Counts of the cache levels, innermost first; levels that the machine lacks are zero.
    pub levels: [LevelStats; MAX_LEVELS],
    /// Counts of the TLBs.
    pub tlb: TlbStats,
    /// Counts of the core.
    pub core: CoreStats,
    /// What it had to do with other cores.
    pub coherence: CoherenceStats,
}

/// What a core had counted when its region began.
#[derive(Clone, Copy, Debug)]
pub(super) struct Snapshot {
    ticks: u64,
    levels: [LevelStats; MAX_LEVELS],
    tlb: TlbStats,
    core: CoreStats,
    coherence: CoherenceStats,
}

impl Model {
    /// Begin what is measured on every core: it drains, as behind an `lfence`, then counts and
    /// books.
    ///
    /// # Panics
    /// If a region has begun already.
    pub fn begin_region(&mut self) {
        assert!(self.sides[0].region.is_none(), "regions do not nest");
        self.timed = true;
        for core in 0..self.sides.len() {
            self.sides[core].core.drain();
            let snapshot = self.snapshot(core);
            self.sides[core].region = Some(snapshot);
        }
    }

    /// End what is measured; what the core in use did.
    ///
    /// # Panics
    /// If no region has begun.
    pub fn end_region(&mut self) -> RegionStats {
        self.end_regions().swap_remove(self.at)
    }

    /// End what is measured; what each core did.
    ///
    /// # Panics
    /// If no region has begun.
    pub fn end_regions(&mut self) -> Vec<RegionStats> {
        let one = |core: usize| {
            let start = self.sides[core].region.expect("a region ends that began");
            let end = self.snapshot(core);
            RegionStats {
                cycles: cycles_of(end.ticks - start.ticks),
                levels: std::array::from_fn(|k| end.levels[k].since(&start.levels[k])),
                tlb: end.tlb.since(start.tlb),
                core: end.core.since(start.core),
                coherence: end.coherence.since(start.coherence),
            }
        };
        let stats = (0..self.sides.len()).map(one).collect();
        self.sides.iter_mut().for_each(|side| side.region = None);
        stats
    }

    fn snapshot(&self, core: usize) -> Snapshot {
        let side = &self.sides[core];
        Snapshot {
            ticks: side.core.now(),
            levels: self.hierarchy.stats_of(core),
            tlb: side.tlbs.stats(),
            core: side.core.stats(),
            coherence: self.hierarchy.coherence_of(core),
        }
    }
}
