//! Policies with two bits of age a way, 0 (young) to 3 (goes next): quad-age LRU by nanoBench's
//! names, and re-reference interval prediction, which is one of them with other words.

use kernels::arena::Random;

use crate::machine::{Qlru, Replacement};

const OLD: u8 = 3;
/// Of so many fills, BRRIP gives one the age of SRRIP (Jaleel et al., ISCA 2010).
const LONG_ONE_IN: u64 = 32;
/// Sets from one leader of a policy to its next, and from a leader of SRRIP to one of BRRIP.
const LEADERS_APART: usize = 32;
const DUEL_APART: usize = 16;
/// Ten bits of selector: from above the middle on, followers use BRRIP.
const SELECTOR_MOST: u16 = 1023;
const SELECTOR_START: u16 = 512;

/// SRRIP as a QLRU: a hit makes a line young, a line comes with age 2, and ages rise when a victim is
/// sought and none is 3.
const SRRIP: Qlru = Qlru {
    hit: [0, 0],
    miss: 2,
    replace: 0,
    update: 0,
    on_miss_only: true,
};

/// How old a line is when it comes.
#[derive(Clone, Debug)]
enum Insertion {
    /// As the rules say.
    Fixed,
    /// Age 3, but for one in [`LONG_ONE_IN`].
    Bimodal,
    /// Either, as the duel stands.
    Duel {
        /// Misses of SRRIP's leaders less those of BRRIP's.
        selector: u16,
    },
}

/// The ages of all sets.
#[derive(Clone, Debug)]
pub struct Aged {
    rules: Qlru,
    insertion: Insertion,
    random: Random,
    ways: usize,
    ages: Vec<u8>,
    /// RRIP raises ages only to find a victim in a full set; QLRU's `UMO` on every miss.
    raise_when_full_only: bool,
}

impl Aged {
    /// State for `sets` sets of `ways` ways; `None` if `policy` has no ages.
    pub fn new(policy: Replacement, sets: usize, ways: usize, seed: u64) -> Option<Aged> {
        let (rules, insertion) = match policy {
            Replacement::Srrip => (SRRIP, Insertion::Fixed),
            Replacement::Brrip => (SRRIP, Insertion::Bimodal),
            Replacement::Drrip => {
                let selector = SELECTOR_START;
                (SRRIP, Insertion::Duel { selector })
            }
            Replacement::Qlru(rules) => (rules, Insertion::Fixed),
            _ => return None,
        };
        Some(Aged {
            rules,
            insertion,
            random: Random(seed),
            ways,
            // Zero memory comes untouched from the allocator; a set is cleared before its first use.
            ages: vec![0; sets * ways],
            raise_when_full_only: !matches!(policy, Replacement::Qlru(_)),
        })
    }

    fn of(&mut self, set: usize) -> &mut [u8] {
        &mut self.ages[set * self.ways..][..self.ways]
    }

    pub fn hit(&mut self, set: usize, way: usize) {
        let rules = self.rules;
        let age = &mut self.of(set)[way];
        *age = match *age {
            OLD => rules.hit[0],
            2 => rules.hit[1],
            _ => 0,
        };
        if !rules.on_miss_only {
            self.raise(set, Some(way));
        }
    }

    /// Before a way is chosen for a line that comes.
    pub fn seek(&mut self, set: usize, full: bool) {
        if self.rules.on_miss_only && (full || !self.raise_when_full_only) {
            self.raise(set, None);
        }
    }

    /// The way of a full set that goes.
    pub fn victim(&mut self, set: usize) -> usize {
        // Without one of age 3, which only R1 need know, it is the leftmost.
        let ages = self.of(set).iter();
        ages.take_while(|age| **age != OLD).count() % self.ways
    }

    /// The vacant way to fill, of entries that are 0 if vacant.
    pub fn vacant(&self, entries: &[u64]) -> Option<usize> {
        match self.rules.replace {
            2 => entries.iter().rposition(|&entry| entry == 0),
            _ => entries.iter().position(|&entry| entry == 0),
        }
    }

    pub fn filled(&mut self, set: usize, way: usize) {
        let age = self.age_of_new(set);
        self.of(set)[way] = age;
        if !self.rules.on_miss_only {
            self.raise(set, Some(way));
        }
    }

    fn age_of_new(&mut self, set: usize) -> u8 {
        let bimodal = match &mut self.insertion {
            Insertion::Fixed => false,
            Insertion::Bimodal => true,
            Insertion::Duel { selector } => match set % LEADERS_APART {
                0 => {
                    *selector = (*selector + 1).min(SELECTOR_MOST);
                    false
                }
                DUEL_APART => {
                    *selector = selector.saturating_sub(1);
                    true
                }
                _ => *selector > SELECTOR_START,
            },
        };
        if bimodal && self.random.below(LONG_ONE_IN) != 0 {
            return OLD;
        }
        self.rules.miss
    }

    /// Let ages rise; `used` is the way in use, of which some rules make an exception.
    fn raise(&mut self, set: usize, used: Option<usize>) {
        let update = self.rules.update;
        let ages = self.of(set);
        let exempt = used.filter(|_| update == 1 || update == 3);
        let among = if update >= 2 { None } else { exempt };
        let others = ages
            .iter()
            .enumerate()
            .filter(|(way, _)| Some(*way) != among);
        let Some(oldest) = others.map(|(_, age)| *age).max() else {
            return;
        };
        let step = match (update, oldest) {
            (2 | 3, OLD) => return,
            (2 | 3, _) => 1,
            _ => OLD - oldest,
        };
        for (way, age) in ages.iter_mut().enumerate() {
            if Some(way) != exempt {
                *age += step;
            }
        }
    }

    /// Back to power-up; the duel goes on.
    pub fn clear(&mut self, set: usize) {
        self.of(set).fill(OLD);
    }

    /// As new, with draws from `seed` on.
    pub fn reseed(&mut self, seed: u64) {
        self.random = Random(seed);
        if let Insertion::Duel { selector } = &mut self.insertion {
            *selector = SELECTOR_START;
        }
    }
}
