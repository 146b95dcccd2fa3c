//! What a request does to the caches of other cores.

use super::{Distance, Hierarchy, Served};
use crate::model::coherence::Outcome;
use crate::model::stats::Kind;

impl Hierarchy {
    pub(super) fn hit_coherently(
        &mut self,
        core: usize,
        line: u64,
        kind: Kind,
        mut served: Served,
    ) -> Served {
        let store = kind == Kind::Store;
        let directory = self.directory.as_mut().expect("several cores");
        if store && !directory.owns(core, line) {
            let outcome = directory.request(core, line, true, Some(self.touch), true);
            let (_, transfer) = self.take_from_others(core, line, true, &outcome);
            served = served.with_transfer(transfer, outcome.sharing);
        } else if kind.names_bytes() {
            directory.touch(core, line, store, self.touch);
        }
        if store {
            let at = self.cores[core].path[0];
            self.levels[at].cache.write(served.slot as usize);
        }
        served
    }

    /// A line that has missed the innermost level was found as `answer` says: ask the other cores.
    /// `given_up`: that level gave up dirty data. Whether the data are newer than the shared levels' and
    /// memory's, and the answer with what they did.
    pub(super) fn miss_coherently(
        &mut self,
        core: usize,
        line: u64,
        kind: Kind,
        given_up: bool,
        answer: Served,
    ) -> (bool, Served) {
        let store = kind == Kind::Store;
        let touch = Some(self.touch).filter(|_| kind.names_bytes());
        let private = answer.level() < self.private;
        let directory = self.directory.as_mut().expect("several cores");
        if private && (!store || directory.owns(core, line)) {
            if let Some(touch) = touch {
                directory.touch(core, line, store, touch);
            }
            return (given_up, answer);
        }
        let elsewhere = self.shared_elsewhere(core, line);
        let directory = self.directory.as_mut().expect("several cores");
        let outcome = directory.request(core, line, store, touch, elsewhere.is_none());
        let (mut dirty, mut transfer) = self.take_from_others(core, line, store, &outcome);
        let cleaned = outcome.cleaned.map(usize::from);
        let written = cleaned.is_some_and(|owner| self.clean(owner, line));
        let mut from_cache = false;
        if answer.level() == self.depth {
            from_cache = outcome.supplier.is_some() || elsewhere.is_some();
            if outcome.supplier.is_none() {
                transfer = transfer.max(elsewhere.map(|at| self.distance(core, at)));
            }
        }
        // What the owner has just written is newer than what was given up.
        if given_up {
            dirty |= store || !written && self.keep_given_up(core, line, answer.level());
        }
        let answer = answer.with_transfer(transfer, outcome.sharing);
        (dirty, answer.with_from_cache(from_cache))
    }

    /// The exclusive level `k` gave up dirty data to a load of `core`: someone must still write them
    /// back. Whether that is `core`.
    fn keep_given_up(&mut self, core: usize, line: u64, k: usize) -> bool {
        let directory = self.directory.as_mut().expect("several cores");
        match directory.given_up(core, line) {
            Some(owner) if owner == core => return true,
            Some(owner) => {
                let path = self.cores[owner].path;
                for at in &path[..self.private] {
                    if self.levels[*at].cache.write_back(line) {
                        break;
                    }
                }
            }
            None => {
                self.cores[core].counts[k].writebacks += 1;
                if k + 1 < self.depth {
                    self.hand_on(core, k, line, true);
                }
            }
        }
        false
    }

    /// The first core of a shared cache that `core` has no part in and that has `line`.
    pub(super) fn shared_elsewhere(&self, core: usize, line: u64) -> Option<usize> {
        (self.private..self.depth).find_map(|k| {
            let sharers = self.shape.sharers(k);
            (0..self.shape.number(k))
                .filter(|number| *number != core / sharers)
                .find(|number| {
                    let at = self.cores[number * sharers].path[k];
                    self.levels[at].cache.contains(line)
                })
                .map(|number| number * sharers)
        })
    }

    /// Do to the others what the directory decided: whether dirty data came over, and from how far
    /// away the answer came.
    pub(super) fn take_from_others(
        &mut self,
        core: usize,
        line: u64,
        store: bool,
        outcome: &Outcome,
    ) -> (bool, Option<Distance>) {
        let mut dirty = false;
        let mut far = outcome
            .supplier
            .map(|s| self.distance(core, usize::from(s)));
        for &other in &outcome.invalidated {
            let other = usize::from(other);
            far = far.max(Some(self.distance(core, other)));
            for k in 0..self.private {
                dirty |= self.remove(other, k, line);
            }
        }
        if store {
            // Copies in shared levels of other cores would be stale.
            for k in self.private..self.depth {
                let sharers = self.shape.sharers(k);
                for number in (0..self.shape.number(k)).filter(|n| *n != core / sharers) {
                    dirty |= self.remove(number * sharers, k, line);
                }
            }
        }
        (dirty, far)
    }

    /// Remove `line` from level `k` of `core`, as it is to be elsewhere; whether it was dirty.
    pub(super) fn remove(&mut self, core: usize, k: usize, line: u64) -> bool {
        let side = &mut self.cores[core];
        let gone = self.levels[side.path[k]].cache.remove(line);
        let unused = gone.is_some_and(|victim| victim.unused_prefetch);
        side.counts[k].prefetcher.unused += u64::from(unused);
        gone.is_some_and(|victim| victim.dirty)
    }

    /// The dirty copy of `core` goes to its next shared level, or to memory, and stays, clean. Whether it
    /// had one: an owner's may have left its private levels for an exclusive one.
    pub(super) fn clean(&mut self, core: usize, line: u64) -> bool {
        let mut written = false;
        let side = &mut self.cores[core];
        for k in 0..self.private {
            if self.levels[side.path[k]].cache.clean(line) && !written {
                written = true;
                side.counts[k].writebacks += 1;
            }
        }
        if written && self.private < self.depth {
            // A level that has not the line lets the data pass on to memory.
            self.levels[side.path[self.private]].cache.write_back(line);
        }
        written
    }

    pub(super) fn distance(&self, core: usize, other: usize) -> Distance {
        let table = self.shape.interconnect.as_ref().expect("several cores");
        let per_socket = table.cores_per_socket as usize;
        let last = self.depth - 1;
        let under_last = if last < self.private {
            per_socket
        } else {
            self.shape.sharers(last)
        };
        if core / per_socket != other / per_socket {
            Distance::OtherSocket
        } else if core / under_last != other / under_last {
            Distance::OtherL3
        } else {
            Distance::SameL3
        }
    }
}
