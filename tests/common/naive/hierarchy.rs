//! The cache levels of one core, and the data that go through them.
//!
//! Every store gives its line a new version; versions go where data go. So it can be asked of any
//! load whether it got what the last store wrote.

use std::collections::{HashMap, HashSet};

use kwalk::machine::{self, Inclusion};

use super::{Cache, Line};

/// What an access does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    Load,
    Store,
}

/// How often one kind of access asked a level, and what it found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub requests: u64,
    pub hits: u64,
    pub misses: u64,
}

/// Counts of one level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    pub loads: Tally,
    pub stores: Tally,
    /// Lines that a line that came took the place of.
    pub evictions: u64,
    /// Those of them that were dirty.
    pub writebacks: u64,
    /// Lines of this level that went because an inclusive level further out evicted them.
    pub back_invalidations: u64,
    /// Lines that came, from further out or as victims from inside.
    pub fills: u64,
    /// Lines that an exclusive level gave up as they went to a level inside it.
    pub removals: u64,
}

/// One level.
pub struct Level {
    pub cache: Cache,
    pub inclusion: Inclusion,
    pub stats: Stats,
}

/// All levels from the core outwards, and memory.
pub struct Hierarchy {
    pub levels: Vec<Level>,
    /// Version of each line in memory; a line that was never written there has version 0.
    pub memory: HashMap<u64, u64>,
    /// Version that the last store gave each line.
    pub newest: HashMap<u64, u64>,
    /// Writebacks that reached memory.
    pub memory_writebacks: u64,
}

/// What served an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// Index of the level, 0 for level 1; the number of levels for memory.
    pub level: usize,
    /// Version of the line that a load got.
    pub version: u64,
}

impl Hierarchy {
    /// Empty caches over a memory in which no line was stored to.
    pub fn new(tables: &[machine::Cache]) -> Hierarchy {
        assert!(tables[0].inclusion != Inclusion::Exclusive);
        Hierarchy {
            levels: tables
                .iter()
                .map(|table| Level {
                    cache: Cache::new(table),
                    inclusion: table.inclusion,
                    stats: Stats::default(),
                })
                .collect(),
            memory: HashMap::new(),
            newest: HashMap::new(),
            memory_writebacks: 0,
        }
    }

    /// One access of the core to line `number`.
    pub fn access(&mut self, number: u64, op: Op) -> Served {
        let serving = self.look(number, op);
        let served = if serving > 0 {
            self.bring_in(number, serving)
        } else {
            self.levels[0].cache.peek(number).expect("level 1 hit")
        };
        if op == Op::Store {
            let newest = self.newest.entry(number).or_default();
            *newest += 1;
            let line = self.levels[0].cache.peek_mut(number);
            let line = line.expect("level 1 has every line just used");
            line.dirty = true;
            line.version = *newest;
        }
        Served {
            level: serving,
            version: served.version,
        }
    }

    /// Index of the first level that has the line; the number of levels if none has. All levels
    /// asked are counted, and the one that has it is used.
    fn look(&mut self, number: u64, op: Op) -> usize {
        for (k, level) in self.levels.iter_mut().enumerate() {
            let tally = match op {
                Op::Load => &mut level.stats.loads,
                Op::Store => &mut level.stats.stores,
            };
            tally.requests += 1;
            if level.cache.peek(number).is_some() {
                tally.hits += 1;
                if level.inclusion != Inclusion::Exclusive {
                    level.cache.lookup(number, false);
                }
                return k;
            }
            tally.misses += 1;
        }
        self.levels.len()
    }

    /// Copy the line from level `serving` into all levels inside that are not exclusive, the
    /// outermost first.
    fn bring_in(&mut self, number: u64, serving: usize) -> Line {
        let mut line = if serving == self.levels.len() {
            Line {
                number,
                dirty: false,
                version: self.memory.get(&number).copied().unwrap_or(0),
            }
        } else if self.levels[serving].inclusion == Inclusion::Exclusive {
            // Its dirtiness goes along, into the first level filled.
            self.give_up(serving, number).expect("it was found there")
        } else {
            let line = self.levels[serving].cache.peek(number);
            Line {
                dirty: false,
                ..line.expect("it was found there")
            }
        };
        let served = line;
        for k in (0..serving).rev() {
            if self.levels[k].inclusion != Inclusion::Exclusive {
                self.fill(k, line);
                line.dirty = false;
            }
        }
        served
    }

    /// Take a line out of the exclusive level `k`, as it goes inwards.
    fn give_up(&mut self, k: usize, number: u64) -> Option<Line> {
        let line = self.levels[k].cache.remove(number)?;
        self.levels[k].stats.removals += 1;
        Some(line)
    }

    /// Put a line into level `k`, which has it not, and see to the victim.
    fn fill(&mut self, k: usize, line: Line) {
        self.levels[k].stats.fills += 1;
        let Some(mut victim) = self.levels[k].cache.fill(line).victim else {
            return;
        };
        if self.levels[k].inclusion == Inclusion::Inclusive {
            // From the outermost inside inwards, so that the newest data are the last to be taken.
            for inner in (0..k).rev() {
                if let Some(copy) = self.levels[inner].cache.remove(victim.number) {
                    self.levels[inner].stats.back_invalidations += 1;
                    if copy.dirty {
                        victim = copy;
                    }
                }
            }
        }
        let stats = &mut self.levels[k].stats;
        stats.evictions += 1;
        if victim.dirty {
            stats.writebacks += 1;
        }
        self.send_out(k + 1, victim);
    }

    /// Level `to` is offered the victim of the level inside it.
    fn send_out(&mut self, to: usize, victim: Line) {
        if to == self.levels.len() {
            if victim.dirty {
                self.memory.insert(victim.number, victim.version);
                self.memory_writebacks += 1;
            }
            return;
        }
        if let Some(copy) = self.levels[to].cache.peek_mut(victim.number) {
            if victim.dirty {
                *copy = victim;
            }
        } else if victim.dirty || self.levels[to].inclusion == Inclusion::Exclusive {
            let beyond = to + 1;
            if beyond < self.levels.len() && self.levels[beyond].inclusion == Inclusion::Exclusive {
                self.give_up(beyond, victim.number);
            }
            self.fill(to, victim);
        }
    }

    /// Of the lines stored to, those whose last data are neither dirty in a level nor in memory.
    pub fn lost(&self) -> Vec<u64> {
        let is_kept = |number: u64, newest: u64| {
            let holds = |level: &Level| {
                let line = level.cache.peek(number);
                line.is_some_and(|line| line.dirty && line.version == newest)
            };
            self.memory.get(&number) == Some(&newest) || self.levels.iter().any(holds)
        };
        let lost = |(number, newest): (&u64, &u64)| {
            let kept = is_kept(*number, *newest);
            (!kept).then_some(*number)
        };
        self.newest.iter().filter_map(lost).collect()
    }

    /// What has come into level `k` and has not gone: must be what is there.
    pub fn stayed(&self, k: usize) -> u64 {
        let stats = &self.levels[k].stats;
        stats.fills - stats.evictions - stats.back_invalidations - stats.removals
    }
}

/// Why the core's accesses missed level 1: a line never asked for before (compulsory), else one
/// that a fully associative LRU cache of as many lines misses too (capacity), else conflict.
pub struct ThreeC {
    lines: usize,
    seen: HashSet<u64>,
    /// From the most to the least recently used.
    stack: Vec<u64>,
    /// Compulsory, capacity, conflict.
    pub causes: [u64; 3],
}

impl ThreeC {
    /// For a level 1 of `lines` lines.
    pub fn new(lines: usize) -> ThreeC {
        ThreeC {
            lines,
            seen: HashSet::new(),
            stack: Vec::new(),
            causes: [0; 3],
        }
    }

    /// One request to level 1, and whether it missed there.
    pub fn request(&mut self, number: u64, missed: bool) {
        let is_new = self.seen.insert(number);
        let fits = self.stack.contains(&number);
        self.stack.retain(|other| *other != number);
        self.stack.insert(0, number);
        self.stack.truncate(self.lines);
        if missed {
            let cause = match (is_new, fits) {
                (true, _) => 0,
                (false, false) => 1,
                (false, true) => 2,
            };
            self.causes[cause] += 1;
        }
    }
}
