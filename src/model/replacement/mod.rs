//! Which way of a full set goes: the state that each policy keeps beside the lines.
//!
//! A way that holds no line is always filled first; which of several is said at `Order::vacant`.
//! A line that is invalidated leaves its way's state as it is.
//!
//! | policy | state at power-up | a use | which goes |
//! |---|---|---|---|
//! | `lru` | | youngest | the oldest |
//! | `fifo` | | (a fill) youngest | the oldest |
//! | `random` | | | any, drawn by seed |
//! | `bit-plru` | bits 0 | bit 1; if all are 1, the others 0 | the first 0 |
//! | `nru` | bits 1 | bit 0 | the first 1; if none is, all become 1 |
//! | `tree-plru` | bits 0: left | bits on the path lead elsewhere | where the bits lead |
//! | `trees-of-four-lru` | | that tree is the youngest; its bits as above | in the oldest tree, where its bits lead |
//! | `srrip` | ages 3 | 0; a fill 2 | the first 3; if none is, all rise until one is |
//! | `brrip` | | as srrip, but a fill is 3 except for one in 32 by seed | |
//! | `drrip` | | as srrip or brrip: sets 0, 32, ... always do as srrip, 16, 48, ... as brrip; the others as those of the two that missed less, by a counter of ten bits | |
//! | `QLRU_...` | ages 3 | as the name says ([`Qlru`](crate::machine::Qlru)) | |
//!
//! Not modelled: policies that look at more than a set's own accesses, set dueling aside, such as
//! those that know the instruction; which sets duel on a real processor.

mod aged;
pub mod ages;
mod bits;
mod stamps;
mod tree;

use kernels::arena::Random;

use self::aged::Aged;
use self::bits::Bits;
use self::stamps::Stamps;
use self::tree::{Tree, of_four_used, of_four_victim};
use crate::machine::Replacement;

/// Replacement state of all sets of one cache or TLB, by policy.
#[derive(Clone, Debug)]
pub enum Order {
    /// By use; the ages are kept by the cache, unless there are too many ways.
    Lru(Option<Stamps>),
    /// By fill; as above.
    Fifo(Option<Stamps>),
    /// Any way.
    Random(Random),
    /// One bit a way, set on use.
    BitPlru(Bits),
    /// One bit a way, inverted against the table: set on use, and a way whose bit is clear goes.
    Nru(Bits),
    /// A tree of bits.
    TreePlru(Tree),
    /// Trees of four: their order, and three bits each.
    TreesOfFourLru(Fours),
    /// Ages of two bits.
    Aged(Aged),
}

/// Ways in trees of four.
#[derive(Clone, Debug)]
pub struct Fours {
    per_set: usize,
    order: Stamps,
    /// Three bits each.
    trees: Vec<u8>,
}

impl Fours {
    fn new(sets: usize, per_set: usize) -> Fours {
        Fours {
            per_set,
            order: Stamps::new(sets, per_set),
            trees: vec![0; sets * per_set],
        }
    }
}

/// Of ways that are too many for ages.
fn stamps(sets: usize, ways: usize) -> Option<Stamps> {
    (ways > ages::MOST_WAYS).then(|| Stamps::new(sets, ways))
}

impl Order {
    /// State for `sets` sets of `ways` ways; `None` if the policy cannot have that many ways.
    #[must_use]
    pub fn new(policy: Replacement, sets: usize, ways: usize, seed: u64) -> Option<Order> {
        if ways == 0 || policy.refuses(ways as u32).is_some() {
            return None;
        }
        Some(match policy {
            Replacement::Lru => Order::Lru(stamps(sets, ways)),
            Replacement::Fifo => Order::Fifo(stamps(sets, ways)),
            Replacement::Random => Order::Random(Random(seed)),
            Replacement::BitPlru => Order::BitPlru(Bits::new(sets, ways)),
            Replacement::Nru => Order::Nru(Bits::new(sets, ways)),
            Replacement::TreePlru => Order::TreePlru(Tree::new(sets, ways)),
            Replacement::TreesOfFourLru => Order::TreesOfFourLru(Fours::new(sets, ways / 4)),
            Replacement::Srrip | Replacement::Brrip | Replacement::Drrip | Replacement::Qlru(_) => {
                Order::Aged(Aged::new(policy, sets, ways, seed)?)
            }
        })
    }

    /// Whether using the way that was used last once more changes nothing.
    #[must_use]
    pub fn settles(&self) -> bool {
        !matches!(self, Order::Aged(_))
    }

    /// Whether the cache keeps ages for this policy, by use or by fill.
    #[must_use]
    pub fn by_age(&self) -> bool {
        matches!(self, Order::Lru(None) | Order::Fifo(None))
    }

    /// What a hit in `way` changes.
    #[inline]
    pub fn hit(&mut self, set: usize, way: usize) {
        match self {
            Order::Fifo(_) => {}
            Order::Aged(aged) => aged.hit(set, way),
            _ => self.used(set, way),
        }
    }

    /// The way to fill of a set whose ways hold `entries`, 0 if none. `full`: no way is vacant.
    #[inline]
    pub fn place(&mut self, set: usize, entries: &[u64], full: bool) -> usize {
        if let Order::Aged(aged) = self {
            aged.seek(set, full);
        }
        if full {
            return self.victim(set, entries.len());
        }
        let vacant = self.vacant(entries);
        vacant.expect("a set that is not full has a vacant way")
    }

    /// What a fill of `way` changes.
    #[inline]
    pub fn filled(&mut self, set: usize, way: usize) {
        match self {
            Order::Aged(aged) => aged.filled(set, way),
            _ => self.used(set, way),
        }
    }

    #[inline]
    fn used(&mut self, set: usize, way: usize) {
        match self {
            Order::Lru(Some(stamps)) | Order::Fifo(Some(stamps)) => stamps.renew(set, way),
            Order::TreePlru(tree) => tree.used(set, way),
            Order::TreesOfFourLru(fours) => {
                let tree = &mut fours.trees[set * fours.per_set + way / 4];
                *tree = of_four_used(*tree, way % 4);
                fours.order.renew(set, way / 4);
            }
            Order::BitPlru(bits) => {
                bits.put(set, way, true);
                if bits.first_clear(set).is_none() {
                    bits.clear(set);
                    bits.put(set, way, true);
                }
            }
            Order::Nru(bits) => bits.put(set, way, true),
            Order::Lru(None) | Order::Fifo(None) | Order::Random(_) | Order::Aged(_) => {}
        }
    }

    /// The way of a full set that goes.
    fn victim(&mut self, set: usize, ways: usize) -> usize {
        match self {
            Order::Lru(stamps) | Order::Fifo(stamps) => {
                let stamps = stamps.as_ref().expect("the cache looks at its own ages");
                stamps.oldest(set)
            }
            Order::TreePlru(tree) => tree.victim(set),
            Order::TreesOfFourLru(fours) => {
                let tree = fours.order.oldest(set);
                4 * tree + of_four_victim(fours.trees[set * fours.per_set + tree])
            }
            // A single way is always set: it is the one to go.
            Order::BitPlru(bits) => bits.first_clear(set).unwrap_or(0),
            Order::Nru(bits) => bits.first_clear(set).unwrap_or_else(|| {
                bits.clear(set);
                0
            }),
            Order::Random(random) => random.below(ways as u64) as usize,
            Order::Aged(aged) => aged.victim(set),
        }
    }

    /// Of the ways of a set that hold no line (`entries` 0), the one to fill: the first, with `R2` of a
    /// QLRU the last.
    fn vacant(&self, entries: &[u64]) -> Option<usize> {
        match self {
            Order::Aged(aged) => aged.vacant(entries),
            _ => entries.iter().position(|&entry| entry == 0),
        }
    }

    /// Back to power-up state.
    pub fn clear(&mut self, set: usize) {
        match self {
            Order::Lru(Some(stamps)) | Order::Fifo(Some(stamps)) => stamps.clear(set),
            Order::TreesOfFourLru(fours) => {
                fours.trees[set * fours.per_set..][..fours.per_set].fill(0);
                fours.order.clear(set);
            }
            Order::TreePlru(tree) => tree.clear(set),
            Order::BitPlru(bits) | Order::Nru(bits) => bits.clear(set),
            Order::Aged(aged) => aged.clear(set),
            Order::Lru(None) | Order::Fifo(None) | Order::Random(_) => {}
        }
    }

    /// Draw from `seed` on, where something is drawn.
    pub fn reseed(&mut self, seed: u64) {
        match self {
            Order::Random(random) => *random = Random(seed),
            Order::Aged(aged) => aged.reseed(seed),
            _ => {}
        }
    }
}
