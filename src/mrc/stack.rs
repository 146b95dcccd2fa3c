//! Stack distances, counted.

use rustc_hash::FxHashMap;

use super::order::Order;
use super::{Curve, Step};

/// What no curve can be made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MrcError {
    /// No set, or more than there is memory for.
    #[error("--sets {0}: accepted are 1 to 1048576 sets; 1, fully associative, works always")]
    Sets(u64),
    /// A line size.
    #[error("--line {0}: accepted are powers of two from 1 to 1073741824 bytes, such as 64")]
    Line(u64),
    /// Lines are numbered by 31 bits.
    #[error(
        "the trace uses more than 2^31 different lines; accepted are as many; larger lines (--line) \
         are fewer"
    )]
    Lines,
}

const MOST_SETS: u64 = 1 << 20;
const MOST_LINES: usize = 1 << 31;

/// How often each stack distance occurs, in an LRU cache of `sets` sets: line number modulo `sets`
/// is the set.
#[derive(Clone, Debug)]
pub struct StackDistances {
    sets: Vec<Order>,
    /// Number of each line, in the order of first use.
    numbers: FxHashMap<u64, u32>,
    /// By number of line, the slot of its last use in its set's order.
    slots: Vec<u32>,
    /// By distance.
    counts: Vec<u64>,
    requests: u64,
}

impl StackDistances {
    /// Of nothing yet.
    ///
    /// # Errors
    /// If `sets` is 0 or above 2^20.
    pub fn new(sets: u64) -> Result<StackDistances, MrcError> {
        if !(1..=MOST_SETS).contains(&sets) {
            return Err(MrcError::Sets(sets));
        }
        Ok(StackDistances {
            sets: vec![Order::default(); sets as usize],
            numbers: FxHashMap::default(),
            slots: Vec::new(),
            counts: Vec::new(),
            requests: 0,
        })
    }

    /// A request for `line`; its stack distance, the number of other lines of its set used since
    /// its last use: `None` at the first one.
    ///
    /// # Errors
    /// [`MrcError::Lines`], at a line that is one too many.
    #[inline]
    pub fn request(&mut self, line: u64) -> Result<Option<usize>, MrcError> {
        let sets = self.sets.len() as u64;
        let set = if sets == 1 { 0 } else { line % sets } as usize;
        let known = self.numbers.len();
        let number = *self.numbers.entry(line).or_insert(known as u32);
        let order = &mut self.sets[set];
        self.requests += 1;
        if number as usize == known {
            if known == MOST_LINES {
                return Err(MrcError::Lines);
            }
            self.slots.push(0);
            let slots = &mut self.slots;
            let slot = order.use_line(number, None, |line, slot| {
                slots[line as usize] = slot as u32
            });
            self.slots[number as usize] = slot as u32;
            return Ok(None);
        }
        if order.newest() == Some(number) {
            self.count(0);
            return Ok(Some(0));
        }
        let old = self.slots[number as usize] as usize;
        let distance = order.after(old);
        let slots = &mut self.slots;
        let slot = order.use_line(number, Some(old), |line, slot| {
            slots[line as usize] = slot as u32
        });
        self.slots[number as usize] = slot as u32;
        self.count(distance);
        Ok(Some(distance))
    }

    #[inline]
    fn count(&mut self, distance: usize) {
        if distance >= self.counts.len() {
            self.counts.resize(distance + 1, 0);
        }
        self.counts[distance] += 1;
    }

    /// Requests so far.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.requests
    }

    /// Different lines so far: compulsory misses.
    #[must_use]
    pub fn lines(&self) -> u64 {
        self.numbers.len() as u64
    }

    /// Lines of the fullest set.
    #[must_use]
    pub fn most_lines_of_a_set(&self) -> usize {
        self.sets.iter().map(Order::len).max().unwrap_or(0)
    }

    /// The misses of every number of ways.
    #[must_use]
    pub fn curve(&self, line_bytes: u64) -> Curve {
        let compulsory = self.lines();
        let mut misses = self.requests;
        let mut steps = vec![Step { ways: 0, misses }];
        for (distance, count) in self
            .counts
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0)
        {
            misses -= count;
            steps.push(Step {
                ways: distance as u64 + 1,
                misses,
            });
        }
        Curve {
            line_bytes,
            sets: self.sets.len() as u64,
            requests: self.requests,
            compulsory,
            steps,
        }
    }
}
