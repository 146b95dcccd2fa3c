//! Lines that hardware prefetchers bring.

use super::{Hierarchy, Prefetched, Served};
use crate::machine::Inclusion;
use crate::model::prefetch::Seen;
use crate::model::stats::{Kind, MAX_LEVELS};

impl Hierarchy {
    /// The first demand of a prefetched line in level `k`.
    pub(super) fn first_use(&mut self, core: usize, k: usize, slot: usize) -> bool {
        let side = &mut self.cores[core];
        let first = self.levels[side.path[k]].cache.take_prefetched(slot);
        side.counts[k].prefetcher.useful += u64::from(first);
        first
    }

    /// Let the prefetchers look at a demand of `line`, and bring what they want.
    pub(super) fn prefetch(&mut self, core: usize, line: u64, served: usize, first_use: bool) {
        let seen = Seen {
            addr: self.addr,
            line,
            site: self.site,
            served,
            first_use,
        };
        self.cores[core].prefetchers.observe(seen);
        for i in 0..self.cores[core].prefetchers.wanted.len() {
            let wanted = self.cores[core].prefetchers.wanted[i];
            self.bring(core, wanted.line, wanted.level);
        }
    }

    /// Bring `line` into level `into` of `core`, unless it is there or further inside; into a shared
    /// level, unless a core has it.
    pub(super) fn bring(&mut self, core: usize, line: u64, into: usize) {
        let path = self.cores[core].path;
        let there = |k: &usize| self.levels[path[*k]].cache.contains(line);
        if (0..=into).any(|k| there(&k)) {
            return;
        }
        let shared = into >= self.private;
        if shared && self.directory.as_ref().is_some_and(|d| d.is_held(line)) {
            return;
        }
        self.cores[core].counts[into].prefetcher.issued += 1;
        let mut sets = [0; MAX_LEVELS];
        let found = self.search(core, into + 1, line, Kind::Hardware, &mut sets);
        let served = found.level as usize;
        let mut dirty = found.is_dirty();
        // What comes into a shared level is no core's yet.
        if self.directory.is_some() && !shared {
            let answer = Served::at(served, 0);
            (dirty, _) = self.miss_coherently(core, line, Kind::Hardware, dirty, answer);
        }
        for k in (into + 1..served).rev() {
            if self.levels[path[k]].inclusion != Inclusion::Exclusive {
                self.insert(core, k, sets[k], line, std::mem::take(&mut dirty));
            }
        }
        let level = &mut self.levels[path[into]];
        let node = match (&mut level.shadow, into) {
            // History of the fully associative cache beside it: a prefetch fills that one as well.
            (Some(shadow), 0) => shadow.request_node(line).1,
            (Some(shadow), _) => {
                shadow.request(line);
                0
            }
            (None, _) => 0,
        };
        let set = level.cache.set_of(line);
        let fill = level.cache.fill_in(set, line, dirty);
        level.cache.mark_prefetched(fill.slot);
        if let Some(of_slot) = level.nodes.get_mut(fill.slot) {
            *of_slot = node;
        }
        if let Some(victim) = fill.victim {
            level.pushed_out.insert(victim.line);
            self.evicted(core, into, victim);
        }
        self.levels[path[into]].pushed_out.remove(&line);
        self.prefetched.push(Prefetched {
            line,
            into,
            served,
            slot: fill.slot,
        });
    }
}
