//! Next-line and adjacent-line prefetchers over non-inclusive LRU levels, as lists.

use std::collections::HashSet;

use kwalk::machine::{Prefetcher, PrefetcherKind};
use kwalk::model::hierarchy::{Kind, PrefetchStats};

/// Lines of 64 bytes in a page.
const PAGE: u64 = 64;

/// A line of [`Naive`].
#[derive(Clone, Copy)]
pub struct Entry {
    pub line: u64,
    pub dirty: bool,
    pub waits: bool,
}

/// One level.
pub struct Level {
    /// From the longest to the most recently used.
    pub sets: Vec<Vec<Entry>>,
    ways: usize,
    /// Lines that last left for one that a prefetcher brought into this level.
    made_room: HashSet<u64>,
    pub stats: PrefetchStats,
}

impl Level {
    /// An empty one.
    pub fn new(sets: u32, ways: u32) -> Level {
        Level {
            sets: vec![Vec::new(); sets as usize],
            ways: ways as usize,
            made_room: HashSet::new(),
            stats: PrefetchStats::default(),
        }
    }

    fn set(&mut self, line: u64) -> &mut Vec<Entry> {
        let sets = self.sets.len() as u64;
        &mut self.sets[(line % sets) as usize]
    }

    fn find(&mut self, line: u64) -> Option<&mut Entry> {
        self.set(line).iter_mut().find(|entry| entry.line == line)
    }
}

/// Levels with next-line and adjacent-line prefetchers.
pub struct Naive {
    pub levels: Vec<Level>,
    pub prefetchers: Vec<Prefetcher>,
}

impl Naive {
    /// One access; the level that served it. Misses of the program's loads and stores trigger, and so
    /// does their first use of a line that a prefetcher brought.
    pub fn access(&mut self, line: u64, kind: Kind) -> usize {
        let demand = matches!(kind, Kind::Load | Kind::Store);
        let served = self.ask(line, 0);
        let mut first_use = false;
        if demand && let Some(level) = self.levels.get_mut(served) {
            let entry = level.find(line).expect("it served");
            first_use = std::mem::take(&mut entry.waits);
            level.stats.useful += u64::from(first_use);
        }
        for k in (0..served).rev() {
            let left = self.levels[k].made_room.contains(&line);
            self.levels[k].stats.polluting += u64::from(left && demand);
            self.fill(k, line, false, false);
        }
        if kind == Kind::Store {
            self.levels[0].find(line).expect("it came").dirty = true;
        }
        for prefetcher in self.prefetchers.clone() {
            let into = usize::from(prefetcher.level) - 1;
            if !demand || served < into || served == into && !first_use {
                continue;
            }
            let ahead = match prefetcher.kind {
                PrefetcherKind::AdjacentLine => vec![line ^ 1],
                _ => (1..=u64::from(prefetcher.lines))
                    .map(|i| line + i)
                    .collect(),
            };
            for wanted in ahead {
                if wanted / PAGE == line / PAGE {
                    self.bring(wanted, into);
                }
            }
        }
        served
    }

    /// The first level from `from` outwards that has the line, for which that is a use.
    fn ask(&mut self, line: u64, from: usize) -> usize {
        for k in from..self.levels.len() {
            let set = self.levels[k].set(line);
            if let Some(at) = set.iter().position(|entry| entry.line == line) {
                let entry = set.remove(at);
                set.push(entry);
                return k;
            }
        }
        self.levels.len()
    }

    fn bring(&mut self, line: u64, into: usize) {
        if (0..=into).any(|k| self.levels[k].find(line).is_some()) {
            return;
        }
        self.levels[into].stats.issued += 1;
        let served = self.ask(line, into + 1);
        for k in (into..served).rev() {
            self.fill(k, line, false, k == into);
        }
    }

    fn fill(&mut self, k: usize, line: u64, dirty: bool, waits: bool) {
        let level = &mut self.levels[k];
        level.made_room.remove(&line);
        let ways = level.ways;
        let set = level.set(line);
        set.push(Entry { line, dirty, waits });
        if set.len() <= ways {
            return;
        }
        let victim = set.remove(0);
        level.stats.unused += u64::from(victim.waits);
        if waits {
            level.made_room.insert(victim.line);
        }
        if victim.dirty && k + 1 < self.levels.len() {
            match self.levels[k + 1].find(victim.line) {
                Some(entry) => entry.dirty = true,
                None => self.fill(k + 1, victim.line, true, false),
            }
        }
    }
}
