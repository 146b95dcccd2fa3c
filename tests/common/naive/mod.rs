//! An independent, naive model of a machine's caches: slow, and so plain that it can be checked by
//! eye. Written from the specification alone, it is what the fast model has to agree with.
//!
//! A set is a `Vec<Option<Line>>`, searched from the first way to the last. Not modelled: random
//! replacement, latencies, prefetchers.

#![allow(dead_code, reason = "each test program uses a part of it")]

pub mod coherence;
pub mod hierarchy;
pub mod litmus;
pub mod possible;
pub mod replacement;
pub mod shared;

use kwalk::machine;
use kwalk::machine::Replacement;

use replacement::{Insertion, Policy};

/// One valid line of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line {
    /// Line number: byte address / line size.
    pub number: u64,
    /// Whether it is newer than what lies further out.
    pub dirty: bool,
    /// How many stores to this line its data have seen. Real caches have no such field: it is there
    /// to show that no load ever gets old data.
    pub version: u64,
}

/// One set: its ways, and what its replacement policy remembers of them.
#[derive(Clone, Debug)]
pub struct Set {
    /// `None`: vacant.
    pub ways: Vec<Option<Line>>,
    /// State of the policy; an invalidation leaves it as it is.
    pub policy: Policy,
}

impl Set {
    /// Way that holds line `number`.
    pub fn way_of(&self, number: u64) -> Option<usize> {
        self.ways
            .iter()
            .position(|way| way.is_some_and(|line| line.number == number))
    }

    /// For each way whether it is vacant.
    pub fn vacant(&self) -> Vec<bool> {
        self.ways.iter().map(Option::is_none).collect()
    }
}

/// Where a line went, and which line had to go for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filled {
    /// Way within the line's set.
    pub way: usize,
    /// Line that was there.
    pub victim: Option<Line>,
}

/// Source of chance of BRRIP: whether the fill at hand is the one in 32 that is predicted near.
pub type Draw = Box<dyn FnMut() -> bool>;

/// Highest value of the ten-bit counter of a set duel.
const PSEL_MOST: u32 = 1023;
/// Where that counter starts; above it BRRIP has missed less.
const PSEL_START: u32 = 512;

/// One cache of `sets * slices` sets.
pub struct Cache {
    sets_per_slice: u64,
    slices: u64,
    slice_hash: Vec<u64>,
    line_bytes: u64,
    replacement: Replacement,
    /// All sets, slice after slice.
    pub sets: Vec<Set>,
    /// DRRIP: rises when a leader of SRRIP misses, falls when one of BRRIP does.
    pub psel: u32,
    draw: Draw,
}

impl Cache {
    /// An empty cache as `table` describes it. BRRIP predicts none of its fills to be near.
    pub fn new(table: &machine::Cache) -> Cache {
        Cache::with_draw(table, Box::new(|| false))
    }

    /// As [`Cache::new`], with a source of chance for BRRIP: asked once for each fill under it.
    pub fn with_draw(table: &machine::Cache, draw: Draw) -> Cache {
        let ways = table.ways as usize;
        let set = Set {
            ways: vec![None; ways],
            policy: Policy::new(table.replacement, ways),
        };
        Cache {
            sets_per_slice: u64::from(table.sets),
            slices: u64::from(table.slices),
            slice_hash: table.slice_hash.clone(),
            line_bytes: u64::from(table.line_bytes),
            replacement: table.replacement,
            sets: vec![set; (table.sets * table.slices) as usize],
            psel: PSEL_START,
            draw,
        }
    }

    /// Number of the only set that may hold line `number`, among all sets of all slices.
    pub fn set_of(&self, number: u64) -> usize {
        let (slice, set) = if self.slices == 1 {
            (0, number % self.sets_per_slice)
        } else if self.slice_hash.is_empty() {
            let set = (number / self.slices) % self.sets_per_slice;
            (number % self.slices, set)
        } else {
            let address = number * self.line_bytes;
            let mut slice = 0;
            let mut weight = 1;
            for mask in &self.slice_hash {
                if (address & mask).count_ones() % 2 == 1 {
                    slice += weight;
                }
                weight *= 2;
            }
            (slice, number % self.sets_per_slice)
        };
        (slice * self.sets_per_slice + set) as usize
    }

    /// The line, looked at without using it.
    pub fn peek(&self, number: u64) -> Option<Line> {
        let set = &self.sets[self.set_of(number)];
        set.way_of(number).and_then(|way| set.ways[way])
    }

    /// The line, to change it without using it.
    pub fn peek_mut(&mut self, number: u64) -> Option<&mut Line> {
        let set = self.set_of(number);
        let set = &mut self.sets[set];
        let way = set.way_of(number)?;
        set.ways[way].as_mut()
    }

    /// Use the line if it is there: its way. A hit that writes makes it dirty.
    pub fn lookup(&mut self, number: u64, write: bool) -> Option<usize> {
        let set = self.set_of(number);
        let set = &mut self.sets[set];
        let way = set.way_of(number)?;
        set.policy.hit(way);
        if write {
            let line = set.ways[way].as_mut().expect("the way was found by line");
            line.dirty = true;
        }
        Some(way)
    }

    /// Bring a line in that is not there.
    pub fn fill(&mut self, line: Line) -> Filled {
        assert!(self.peek(line.number).is_none(), "no line is there twice");
        let index = self.set_of(line.number);
        let insertion = self.insertion(index);
        let set = &mut self.sets[index];
        let way = set.policy.choose(&set.vacant());
        let victim = set.ways[way].replace(line);
        set.policy.filled(way, insertion);
        Filled { way, victim }
    }

    /// Take the line out; the policy does not learn of it.
    pub fn remove(&mut self, number: u64) -> Option<Line> {
        let set = self.set_of(number);
        let set = &mut self.sets[set];
        let way = set.way_of(number)?;
        set.ways[way].take()
    }

    /// All valid lines, by number.
    pub fn contents(&self) -> Vec<Line> {
        let mut lines: Vec<Line> = self
            .sets
            .iter()
            .flat_map(|set| set.ways.iter().flatten().copied())
            .collect();
        lines.sort_by_key(|line| line.number);
        lines
    }

    /// What the RRIP policies predict of a line that now comes into set `index`; a leader's miss
    /// is counted.
    fn insertion(&mut self, index: usize) -> Insertion {
        match self.replacement {
            Replacement::Brrip => self.bimodal(),
            Replacement::Drrip => match index % 32 {
                0 => {
                    self.psel = (self.psel + 1).min(PSEL_MOST);
                    Insertion::Long
                }
                16 => {
                    self.psel = self.psel.saturating_sub(1);
                    self.bimodal()
                }
                _ if self.psel > PSEL_START => self.bimodal(),
                _ => Insertion::Long,
            },
            _ => Insertion::Long,
        }
    }

    fn bimodal(&mut self) -> Insertion {
        if (self.draw)() {
            Insertion::Long
        } else {
            Insertion::Distant
        }
    }
}
