//! What leaves a level, and where it goes.

use super::{Hierarchy, Level, NO_LINE};
use crate::machine::Inclusion;
use crate::model::cache::Victim;

impl Hierarchy {
    /// Fill `set` of level `k` and send its victim on.
    #[inline]
    pub(super) fn insert(
        &mut self,
        core: usize,
        k: usize,
        set: usize,
        line: u64,
        dirty: bool,
    ) -> usize {
        let at = self.cores[core].path[k];
        let fill = self.levels[at].cache.fill_in(set, line, dirty);
        if let Some(victim) = fill.victim {
            self.evicted(core, k, victim);
        }
        fill.slot
    }

    /// `victim` has left level `k` of `core`.
    #[inline]
    pub(super) fn evicted(&mut self, core: usize, k: usize, victim: Victim) {
        let side = &mut self.cores[core];
        let counts = &mut side.counts[k];
        counts.evictions += 1;
        counts.prefetcher.unused += u64::from(victim.unused_prefetch);
        let inclusive = self.levels[side.path[k]].inclusion == Inclusion::Inclusive;
        let next_takes = |level: &Level| level.inclusion == Inclusion::Exclusive;
        let next = (k + 1 < self.depth).then(|| &self.levels[side.path[k + 1]]);
        if victim.dirty || inclusive || self.directory.is_some() || next.is_some_and(next_takes) {
            self.send_on(core, k, victim);
        }
    }

    /// What an eviction does to the levels inside and outside.
    #[inline(never)]
    pub(super) fn send_on(&mut self, core: usize, k: usize, victim: Victim) {
        let Victim {
            line, mut dirty, ..
        } = victim;
        let path = self.cores[core].path;
        if self.levels[path[k]].inclusion == Inclusion::Inclusive && k > 0 {
            dirty |= self.back_invalidate(core, k, line);
        }
        self.cores[core].counts[k].writebacks += u64::from(dirty);
        if k + 1 < self.depth {
            self.hand_on(core, k, line, dirty);
        }
        let private = &path[..self.private];
        if k < self.private
            && let Some(directory) = &mut self.directory
            && private
                .iter()
                .all(|at| !self.levels[*at].cache.contains(line))
        {
            directory.dropped(core, line);
        }
    }

    /// The level outside `k` takes, or not, what `k` evicted.
    pub(super) fn hand_on(&mut self, core: usize, k: usize, line: u64, dirty: bool) {
        let path = self.cores[core].path;
        let level = &mut self.levels[path[k + 1]];
        let exclusive = level.inclusion == Inclusion::Exclusive;
        if exclusive && let Some(shadow) = &mut level.shadow {
            shadow.evicted(line);
        }
        if !(exclusive || dirty) || dirty && level.cache.write_back(line) {
            return;
        }
        if !dirty && level.cache.contains(line) {
            return;
        }
        // An exclusive level further out must not keep an older copy of what is allocated here.
        if k + 2 < self.depth && self.levels[path[k + 2]].inclusion == Inclusion::Exclusive {
            self.remove(core, k + 2, line);
        }
        let level = &mut self.levels[path[k + 1]];
        if self.prefetching {
            level.pushed_out.remove(&line);
        }
        let set = level.cache.set_of(line);
        self.insert(core, k + 1, set, line, dirty);
    }

    /// An inclusive cache of level `k` has lost `line`: so do all levels inside it, of all its
    /// cores. Whether one was dirty.
    pub(super) fn back_invalidate(&mut self, core: usize, k: usize, line: u64) -> bool {
        let sharers = self.shape.sharers(k);
        let first = core / sharers * sharers;
        let mut dirty = false;
        for inner in first..(first + sharers).min(self.cores.len()) {
            for j in 0..k {
                // A shared level inside is its first core's to lose.
                let shared_by = self.shape.sharers(j);
                if !inner.is_multiple_of(shared_by) {
                    continue;
                }
                let side = &mut self.cores[inner];
                if let Some(gone) = self.levels[side.path[j]].cache.remove(line) {
                    side.counts[j].back_invalidations += 1;
                    side.counts[j].prefetcher.unused += u64::from(gone.unused_prefetch);
                    dirty |= gone.dirty;
                }
                if side.last.0 == line {
                    side.last.0 = NO_LINE;
                }
            }
            if k >= self.private
                && let Some(directory) = &mut self.directory
            {
                directory.dropped(inner, line);
            }
        }
        dirty
    }
}
