//! BRRIP and DRRIP without their source of chance: all states that a set may be in, given which
//! way each line took.
//!
//! A fill under BRRIP doubles the states; a victim that only some of them would have chosen rules
//! out the others. None left: no draws whatever explain what was seen.

use std::collections::BTreeSet;

use kwalk::machine::{self, Replacement};

use super::Cache;
use super::replacement::Policy;

/// What is known of one set.
struct Set {
    /// Line of each way; `None`: vacant.
    ways: Vec<Option<u64>>,
    /// Predictions of all ways, 0 to 3, that agree with all that was seen.
    states: BTreeSet<Vec<u8>>,
}

/// What is known of a cache under SRRIP, BRRIP or DRRIP.
pub struct Possible {
    replacement: Replacement,
    /// Tells which set a line belongs to; empty itself.
    shape: Cache,
    sets: Vec<Set>,
    /// Counter of the duel: leaders' misses are seen, so it is known.
    psel: u32,
}

impl Possible {
    /// A cache at power-up.
    pub fn new(table: &machine::Cache) -> Possible {
        let ways = table.ways as usize;
        let set = || Set {
            ways: vec![None; ways],
            states: BTreeSet::from([vec![3; ways]]),
        };
        let shape = Cache::new(table);
        Possible {
            replacement: table.replacement,
            sets: shape.sets.iter().map(|_| set()).collect(),
            shape,
            psel: 512,
        }
    }

    /// Use the line if it is there: its way.
    pub fn lookup(&mut self, number: u64) -> Option<usize> {
        let set = &mut self.sets[self.shape.set_of(number)];
        let way = set.ways.iter().position(|way| *way == Some(number))?;
        let after_hit = |values: &Vec<u8>| {
            let mut values = values.clone();
            values[way] = 0;
            values
        };
        set.states = set.states.iter().map(after_hit).collect();
        Some(way)
    }

    /// The line came into `way`: which line went for it, or why it cannot have been that way.
    pub fn filled(&mut self, number: u64, way: usize) -> Result<Option<u64>, String> {
        let index = self.shape.set_of(number);
        let comes_with = self.predictions(index);
        let set = &mut self.sets[index];
        let vacant: Vec<bool> = set.ways.iter().map(Option::is_none).collect();
        let mut states = BTreeSet::new();
        for values in &set.states {
            let mut policy = Policy::Rrip(values.clone());
            if policy.choose(&vacant) != way {
                continue;
            }
            let Policy::Rrip(values) = policy else {
                unreachable!("a policy stays what it is")
            };
            for prediction in &comes_with {
                let mut values = values.clone();
                values[way] = *prediction;
                states.insert(values);
            }
        }
        if states.is_empty() {
            return Err(format!(
                "line {number} took way {way} of set {index}, of {:?} with {:?}",
                set.ways, set.states
            ));
        }
        set.states = states;
        Ok(set.ways[way].replace(number))
    }

    /// Take the line out: whether it was there.
    pub fn remove(&mut self, number: u64) -> bool {
        let set = &mut self.sets[self.shape.set_of(number)];
        match set.ways.iter().position(|way| *way == Some(number)) {
            Some(way) => set.ways[way].take().is_some(),
            None => false,
        }
    }

    /// What may be predicted of a line that comes into set `index`; leaders' misses are counted.
    fn predictions(&mut self, index: usize) -> Vec<u8> {
        let srrip = vec![2];
        let brrip = vec![2, 3];
        match (self.replacement, index % 32) {
            (Replacement::Srrip, _) => srrip,
            (Replacement::Brrip, _) => brrip,
            (Replacement::Drrip, 0) => {
                self.psel = (self.psel + 1).min(1023);
                srrip
            }
            (Replacement::Drrip, 16) => {
                self.psel = self.psel.saturating_sub(1);
                brrip
            }
            (Replacement::Drrip, _) if self.psel >= 513 => brrip,
            (Replacement::Drrip, _) => srrip,
            _ => panic!("{} predicts no re-reference", self.replacement),
        }
    }
}
