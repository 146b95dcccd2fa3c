//! Cores with one private level each over one level that all share, with the data in them.
//!
//! States are those of [`Coherence`]; which copies go, are cleaned or supply follows from them. As in
//! the hierarchy of one core, each store gives its line a new version.

use std::collections::HashMap;

use kwalk::machine::{self, Inclusion, Protocol};

use super::coherence::{Coherence, State, Supplier};
use super::hierarchy::{Op, Stats};
use super::{Cache, Line};

/// A core's private level, and the shared level's counts by that core.
pub struct Side {
    pub cache: Cache,
    pub own: Stats,
    /// What left the shared level is counted for the core whose request made it leave.
    pub shared: Stats,
}

/// All cores, the shared level and memory.
pub struct Cores {
    pub sides: Vec<Side>,
    pub shared: Cache,
    pub coherence: Coherence,
    inclusion: Inclusion,
    memory: HashMap<u64, u64>,
    newest: HashMap<u64, u64>,
    /// Copies that stores of other cores removed, by core.
    pub invalidated: Vec<u64>,
    /// Dirty copies that loads of other cores made clean.
    pub cleaned: u64,
    /// Writes to memory.
    pub memory_writes: u64,
}

/// What served an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// 0: the private level, 1: the shared one, 2: neither.
    pub level: usize,
    /// Whether another core supplied the line.
    pub transferred: bool,
    /// Version that the core got, before it stores.
    pub version: u64,
}

impl Cores {
    /// `cores` cores with nothing in their caches.
    pub fn new(
        private: &machine::Cache,
        shared: &machine::Cache,
        protocol: Protocol,
        cores: usize,
    ) -> Cores {
        let side = |_| Side {
            cache: Cache::new(private),
            own: Stats::default(),
            shared: Stats::default(),
        };
        Cores {
            sides: (0..cores).map(side).collect(),
            shared: Cache::new(shared),
            coherence: Coherence::new(protocol, cores),
            inclusion: shared.inclusion,
            memory: HashMap::new(),
            newest: HashMap::new(),
            invalidated: vec![0; cores],
            cleaned: 0,
            memory_writes: 0,
        }
    }

    /// Version that the last store gave the line.
    pub fn newest(&self, number: u64) -> u64 {
        self.newest.get(&number).copied().unwrap_or(0)
    }

    /// One access of `core`.
    pub fn access(&mut self, core: usize, number: u64, op: Op) -> Served {
        let before = self.coherence.states(number);
        let supplier = self.coherence.access(core, number, op);
        let after = self.coherence.states(number);
        let hit = self.sides[core].cache.lookup(number, false).is_some();
        count(&mut self.sides[core].own, op, hit);
        let served = if hit {
            let line = self.sides[core].cache.peek(number).expect("a hit");
            self.tell_others(core, number, &before, &after);
            Served {
                level: 0,
                transferred: false,
                version: line.version,
            }
        } else {
            self.miss(core, number, op, supplier, (&before, &after))
        };
        if op == Op::Store {
            let newest = self.newest(number) + 1;
            self.newest.insert(number, newest);
            let line = self.sides[core].cache.peek_mut(number).expect("filled");
            (line.dirty, line.version) = (true, newest);
        }
        served
    }

    fn miss(
        &mut self,
        core: usize,
        number: u64,
        op: Op,
        supplier: Supplier,
        (before, after): (&[State], &[State]),
    ) -> Served {
        let found = self.shared.peek(number);
        count(&mut self.sides[core].shared, op, found.is_some());
        let exclusive = self.inclusion == Inclusion::Exclusive;
        if exclusive {
            if self.shared.remove(number).is_some() {
                self.sides[core].shared.removals += 1;
            }
        } else {
            self.shared.lookup(number, false);
        }
        // A core that stored to the line after the shared level took it has newer data.
        let has_newer = |other: usize| other != core && before[other].is_dirty();
        let has_newer = (0..before.len()).any(has_newer);
        let given_up_dirty = exclusive && !has_newer && found.is_some_and(|line| line.dirty);
        let version = match supplier {
            Supplier::Own => panic!("a line with a state is in the private level"),
            Supplier::Core(other) => {
                let line = self.sides[other].cache.peek(number);
                line.expect("a supplier has the line").version
            }
            Supplier::Below => {
                let below = self.memory.get(&number).copied().unwrap_or(0);
                found.map_or(below, |line| line.version)
            }
        };
        let newer = self.tell_others(core, number, before, after);
        if given_up_dirty && op == Op::Load {
            self.coherence.given_up_dirty(core, number);
        }
        let mut line = Line {
            number,
            dirty: newer || given_up_dirty,
            version,
        };
        if found.is_none() && !exclusive {
            self.fill_shared(core, line);
            line.dirty = false;
        }
        self.fill_private(core, line);
        Served {
            level: if found.is_some() { 1 } else { 2 },
            transferred: matches!(supplier, Supplier::Core(_)),
            version,
        }
    }

    /// Other cores' copies go, or are cleaned, as their states say. Whether one that went was dirty.
    fn tell_others(&mut self, core: usize, number: u64, before: &[State], after: &[State]) -> bool {
        let mut newer = false;
        for other in (0..self.sides.len()).filter(|other| *other != core) {
            let cache = &mut self.sides[other].cache;
            if before[other] != State::Invalid && after[other] == State::Invalid {
                let gone = cache.remove(number).expect("it had the line");
                self.invalidated[other] += 1;
                newer |= gone.dirty;
            } else if before[other].is_dirty() && !after[other].is_dirty() {
                let copy = cache.peek_mut(number).expect("it has the line");
                assert!(copy.dirty, "a state that is dirty is of a dirty line");
                let written = *copy;
                copy.dirty = false;
                self.cleaned += 1;
                self.sides[other].own.writebacks += 1;
                match self.shared.peek_mut(number) {
                    Some(line) => *line = written,
                    None => self.write_memory(written),
                }
            }
        }
        newer
    }

    fn fill_private(&mut self, core: usize, line: Line) {
        let side = &mut self.sides[core];
        side.own.fills += 1;
        let Some(victim) = side.cache.fill(line).victim else {
            return;
        };
        side.own.evictions += 1;
        side.own.writebacks += u64::from(victim.dirty);
        self.coherence.evict(core, victim.number);
        if let Some(copy) = self.shared.peek_mut(victim.number) {
            if victim.dirty {
                *copy = victim;
            }
        } else if victim.dirty || self.inclusion == Inclusion::Exclusive {
            self.fill_shared(core, victim);
        }
    }

    fn fill_shared(&mut self, core: usize, line: Line) {
        self.sides[core].shared.fills += 1;
        let Some(mut victim) = self.shared.fill(line).victim else {
            return;
        };
        if self.inclusion == Inclusion::Inclusive {
            for (inner, side) in self.sides.iter_mut().enumerate() {
                if let Some(copy) = side.cache.remove(victim.number) {
                    side.own.back_invalidations += 1;
                    self.coherence.evict(inner, victim.number);
                    if copy.dirty {
                        victim = copy;
                    }
                }
            }
        }
        let stats = &mut self.sides[core].shared;
        stats.evictions += 1;
        stats.writebacks += u64::from(victim.dirty);
        if victim.dirty {
            self.write_memory(victim);
        }
    }

    fn write_memory(&mut self, line: Line) {
        self.memory.insert(line.number, line.version);
        self.memory_writes += 1;
    }

    /// Of the lines stored to, those whose last data are neither dirty in a cache nor in memory.
    pub fn lost(&self) -> Vec<u64> {
        let is_kept = |number: u64, newest: u64| {
            let caches = self.sides.iter().map(|side| &side.cache);
            let mut caches = caches.chain([&self.shared]);
            let kept = |line: Line| line.dirty && line.version == newest;
            self.memory.get(&number) == Some(&newest)
                || caches.any(|cache| cache.peek(number).is_some_and(kept))
        };
        let lost = self.newest.iter().filter(|(n, v)| !is_kept(**n, **v));
        lost.map(|(number, _)| *number).collect()
    }
}

fn count(stats: &mut Stats, op: Op, hit: bool) {
    let tally = match op {
        Op::Load => &mut stats.loads,
        Op::Store => &mut stats.stores,
    };
    tally.requests += 1;
    if hit {
        tally.hits += 1;
    } else {
        tally.misses += 1;
    }
}
