//! One access: a hit in the innermost level, or a search outwards and what it fills on the way back.

use super::{Found, Hierarchy, Served};
use crate::machine::Inclusion;
use crate::model::stats::{Kind, MAX_LEVELS};

impl Hierarchy {
    /// One access to `line` by the first core.
    #[inline(always)]
    pub fn access(&mut self, line: u64, kind: Kind) -> Served {
        self.access_by(0, line, kind)
    }

    /// The line that `core` used last is used again at once; `None` if that cannot be told without a
    /// look.
    #[inline(always)]
    pub fn again(&mut self, core: usize, line: u64, kind: Kind) -> Option<Served> {
        let side = &mut self.cores[core];
        if side.last.0 != line {
            return None;
        }
        side.counts[0].requests[kind as usize] += 1;
        let slot = side.last.1;
        if kind == Kind::Store {
            self.levels[side.path[0]].cache.write(slot);
        }
        Some(Served::at(0, slot))
    }

    /// One access to `line` by `core`.
    #[inline(always)]
    pub fn access_by(&mut self, core: usize, line: u64, kind: Kind) -> Served {
        if let Some(served) = self.again(core, line, kind) {
            return served;
        }
        let side = &mut self.cores[core];
        side.counts[0].requests[kind as usize] += 1;
        let level = &mut self.levels[side.path[0]];
        let store = kind == Kind::Store;
        let Some(slot) = level.cache.lookup(line, store && self.directory.is_none()) else {
            return self.miss(core, line, kind);
        };
        if let Some(shadow) = &mut level.shadow {
            let node = &mut level.nodes[slot];
            if !shadow.renew(line, *node) {
                *node = shadow.request_node(line).1;
            }
        }
        if self.plain {
            if self.settles {
                side.last = (line, slot);
            }
            return Served::at(0, slot);
        }
        self.hit(core, line, kind, slot)
    }

    /// A hit in the innermost level that prefetchers or other cores have to do with.
    #[inline(never)]
    fn hit(&mut self, core: usize, line: u64, kind: Kind, slot: usize) -> Served {
        self.prefetched.clear();
        let mut served = Served::at(0, slot);
        if self.directory.is_some() {
            served = self.hit_coherently(core, line, kind, served);
        }
        if self.prefetching && kind.is_demand() {
            let first_use = self.first_use(core, 0, slot);
            self.prefetch(core, line, 0, first_use);
            served = served.with_first_use(first_use);
        }
        served
    }

    #[inline(never)]
    fn miss(&mut self, core: usize, line: u64, kind: Kind) -> Served {
        let side = &mut self.cores[core];
        let path = side.path;
        let first = &mut self.levels[path[0]];
        let mut node = 0;
        if let Some(shadow) = &mut first.shadow {
            let (cause, of_line) = shadow.request_node(line);
            (side.causes[0], node) = (Some(cause), of_line);
            if kind.is_demand() {
                side.counts[0].causes[cause as usize] += 1;
            }
        }
        side.counts[0].misses[kind as usize] += 1;
        if self.prefetching && first.pushed_out.remove(&line) {
            side.counts[0].prefetcher.polluting += u64::from(kind.is_demand());
        }
        let mut sets = [0; MAX_LEVELS];
        let found = self.search(core, 1, line, kind, &mut sets);
        let served = found.level as usize;
        let mut dirty = found.is_dirty();
        let mut answer = Served::at(served, 0).with_first_use(found.is_first_use());
        if self.directory.is_some() {
            (dirty, answer) = self.miss_coherently(core, line, kind, dirty, answer);
        }
        for k in (1..served).rev() {
            if self.levels[path[k]].inclusion != Inclusion::Exclusive {
                self.insert(core, k, sets[k], line, std::mem::take(&mut dirty));
            }
        }
        let set = self.levels[path[0]].cache.set_of(line);
        let slot = self.insert(core, 0, set, line, dirty || kind == Kind::Store);
        if let Some(of_slot) = self.levels[path[0]].nodes.get_mut(slot) {
            *of_slot = node;
        }
        if self.plain {
            if self.settles {
                self.cores[core].last = (line, slot);
            }
        } else {
            self.prefetched.clear();
            if self.prefetching && kind.is_demand() {
                self.prefetch(core, line, served, found.is_first_use());
            }
        }
        Served {
            slot: slot as u32,
            ..answer
        }
    }

    /// Ask the levels of `core` from level `from` outwards. `sets` gets the line's set of each level
    /// asked.
    #[inline]
    pub(super) fn search(
        &mut self,
        core: usize,
        from: usize,
        line: u64,
        kind: Kind,
        sets: &mut [usize; MAX_LEVELS],
    ) -> Found {
        let side = &mut self.cores[core];
        let places = sets.iter_mut().enumerate().take(self.depth).skip(from);
        for (k, place) in places {
            let level = &mut self.levels[side.path[k]];
            let counts = &mut side.counts[k];
            counts.requests[kind as usize] += 1;
            if let Some(shadow) = &mut level.shadow {
                side.causes[k] = Some(shadow.request(line));
            }
            let set = level.cache.set_of(line);
            *place = set;
            if level.inclusion == Inclusion::Exclusive {
                if let Some(gone) = level.cache.remove(line) {
                    let first_use = gone.unused_prefetch && kind.is_demand();
                    counts.prefetcher.useful += u64::from(first_use);
                    counts.prefetcher.unused += u64::from(gone.unused_prefetch && !first_use);
                    return Found::at(k, gone.dirty, first_use);
                }
            } else if let Some(slot) = level.cache.lookup_in(set, line, false) {
                let first_use = self.prefetching && kind.is_demand();
                let first_use = first_use && level.cache.take_prefetched(slot);
                counts.prefetcher.useful += u64::from(first_use);
                return Found::at(k, false, first_use);
            }
            counts.misses[kind as usize] += 1;
            if kind.is_demand()
                && let Some(cause) = side.causes[k]
            {
                counts.causes[cause as usize] += 1;
            }
            if self.prefetching && level.pushed_out.remove(&line) {
                counts.prefetcher.polluting += u64::from(kind.is_demand());
            }
        }
        Found::at(self.depth, false, false)
    }
}
