//! Which way of a full set goes: the state that each policy keeps beside the tags.
//!
//! Power-up and flushed state is all zero. A way that holds no line is always filled first; which
//! of several is said at [`Order::vacant`]. Nothing here knows about adaptive policies (set
//! dueling, QLRU with ages): a machine that has them is modelled by the nearest policy named.

use kernels::arena::Random;

use crate::machine::Replacement;

/// Replacement state of all sets of one cache or TLB, by policy.
#[derive(Clone, Debug)]
pub enum Order {
    /// Time of the last use of each way; the smallest goes.
    Lru(Stamps),
    /// Bits of a binary tree over the ways, `words` words of 64 bits a set. Bit `n` belongs to
    /// node `n` (root 1, children `2n` and `2n + 1`); 0 points left, 1 right, to the way to go.
    TreePlru(Tree),
    /// One stamp for each tree of four ways; its low three bits are that tree's bits (nodes 1 to
    /// 3), the others the time of the tree's last use. The oldest tree loses a way.
    TreesOfFourLru(Stamps),
    /// One bit a way, set on use; when all are set, the others are cleared. The first clear one
    /// goes.
    BitPlru(Bits),
    /// Time of the fill of each way; the smallest goes.
    Fifo(Stamps),
    /// Any way.
    Random(Random),
}

/// A time for each of `per_set` ways or trees of every set.
#[derive(Clone, Debug)]
pub struct Stamps {
    per_set: usize,
    clock: u64,
    times: Vec<u64>,
}

impl Stamps {
    fn new(sets: usize, per_set: usize) -> Stamps {
        Stamps {
            per_set,
            clock: 0,
            times: vec![0; sets * per_set],
        }
    }

    fn of(&self, set: usize) -> &[u64] {
        &self.times[set * self.per_set..(set + 1) * self.per_set]
    }

    #[inline]
    fn renew(&mut self, set: usize, which: usize) {
        self.clock += 1;
        self.times[set * self.per_set + which] = self.clock;
    }

    /// The oldest; of equals, the first.
    #[inline]
    fn oldest(&self, set: usize) -> usize {
        let (mut oldest, mut since) = (0, u64::MAX);
        for (i, &time) in self.of(set).iter().enumerate() {
            if time < since {
                (oldest, since) = (i, time);
            }
        }
        oldest
    }

    fn clear(&mut self, set: usize) {
        self.times[set * self.per_set..(set + 1) * self.per_set].fill(0);
    }
}

/// A few bits a set.
#[derive(Clone, Debug)]
pub struct Bits {
    ways: usize,
    words: usize,
    bits: Vec<u64>,
}

impl Bits {
    fn new(sets: usize, ways: usize) -> Bits {
        let words = ways.div_ceil(64);
        Bits {
            ways,
            words,
            bits: vec![0; sets * words],
        }
    }

    #[inline]
    fn get(&self, set: usize, bit: usize) -> usize {
        (self.bits[set * self.words + bit / 64] >> (bit % 64) & 1) as usize
    }

    #[inline]
    fn put(&mut self, set: usize, bit: usize, value: bool) {
        let word = &mut self.bits[set * self.words + bit / 64];
        *word = *word & !(1 << (bit % 64)) | u64::from(value) << (bit % 64);
    }

    fn clear(&mut self, set: usize) {
        self.bits[set * self.words..(set + 1) * self.words].fill(0);
    }
}

/// A binary tree over the ways of each set.
#[derive(Clone, Debug)]
pub struct Tree {
    nodes: Bits,
    /// Of trees within one word, what a use of each way does to it: bits that stay, bits set.
    paths: Vec<(u64, u64)>,
}

impl Tree {
    fn new(sets: usize, ways: usize) -> Tree {
        let path = |way: usize| {
            let (mut keep, mut set) = (u64::MAX, 0);
            let mut node = way + ways;
            while node > 1 {
                keep &= !(1 << (node / 2));
                set |= u64::from(node.is_multiple_of(2)) << (node / 2);
                node /= 2;
            }
            (keep, set)
        };
        let ways_of_paths = if ways <= 64 { ways } else { 0 };
        Tree {
            nodes: Bits::new(sets, ways),
            paths: (0..ways_of_paths).map(path).collect(),
        }
    }

    #[inline]
    fn used(&mut self, set: usize, way: usize) {
        if let Some((keep, set_bits)) = self.paths.get(way) {
            let word = &mut self.nodes.bits[set];
            *word = *word & keep | set_bits;
            return;
        }
        let mut node = way + self.nodes.ways;
        while node > 1 {
            self.nodes.put(set, node / 2, node.is_multiple_of(2));
            node /= 2;
        }
    }

    #[inline]
    fn victim(&self, set: usize) -> usize {
        let ways = self.nodes.ways;
        let mut node = 1;
        if self.nodes.words == 1 {
            let word = self.nodes.bits[set];
            while node < ways {
                node = 2 * node + (word >> node & 1) as usize;
            }
        } else {
            while node < ways {
                node = 2 * node + self.nodes.get(set, node);
            }
        }
        node - ways
    }
}

/// The three bits of a tree of four after a use of `leaf` (0 to 3): bit 0 is the root, bit 1 the
/// left pair, bit 2 the right one; each points away from the leaf.
#[inline]
fn tree_of_four_used(bits: u64, leaf: usize) -> u64 {
    match leaf {
        0 => bits | 0b011,
        1 => bits & !0b010 | 0b001,
        2 => bits & !0b001 | 0b100,
        _ => bits & !0b101,
    }
}

/// The leaf that the three bits of a tree of four point to.
#[inline]
fn tree_of_four_victim(bits: u64) -> usize {
    match bits & 0b111 {
        b if b & 1 == 0 => (b >> 1 & 1) as usize,
        b => 2 + (b >> 2) as usize,
    }
}

const TREE_BITS: u64 = 0b111;

impl Order {
    /// State for `sets` sets of `ways` ways; `None` if the policy cannot have that many ways.
    #[must_use]
    pub fn new(policy: Replacement, sets: usize, ways: usize, seed: u64) -> Option<Order> {
        match policy {
            Replacement::Lru => Some(Order::Lru(Stamps::new(sets, ways))),
            Replacement::TreePlru if ways.is_power_of_two() => {
                Some(Order::TreePlru(Tree::new(sets, ways)))
            }
            Replacement::TreesOfFourLru if ways.is_multiple_of(4) && ways > 0 => {
                Some(Order::TreesOfFourLru(Stamps::new(sets, ways / 4)))
            }
            Replacement::TreePlru | Replacement::TreesOfFourLru => None,
            Replacement::BitPlru => Some(Order::BitPlru(Bits::new(sets, ways))),
            Replacement::Fifo => Some(Order::Fifo(Stamps::new(sets, ways))),
            Replacement::Random => Some(Order::Random(Random(seed))),
            _ => None,
        }
    }

    /// What a hit in `way` changes.
    #[inline]
    pub fn hit(&mut self, set: usize, way: usize) {
        match self {
            Order::Fifo(_) | Order::Random(_) => {}
            _ => self.used(set, way),
        }
    }

    /// What a fill of `way` changes.
    #[inline]
    pub fn filled(&mut self, set: usize, way: usize) {
        self.used(set, way);
    }

    #[inline]
    fn used(&mut self, set: usize, way: usize) {
        match self {
            Order::Lru(stamps) | Order::Fifo(stamps) => stamps.renew(set, way),
            Order::TreePlru(tree) => tree.used(set, way),
            Order::TreesOfFourLru(trees) => {
                trees.clock += 1;
                let stamp = &mut trees.times[set * trees.per_set + way / 4];
                let bits = tree_of_four_used(*stamp & TREE_BITS, way % 4);
                *stamp = trees.clock << 3 | bits;
            }
            Order::BitPlru(bits) => {
                bits.put(set, way, true);
                let words = &mut bits.bits[set * bits.words..(set + 1) * bits.words];
                let used: u32 = words.iter().map(|w| w.count_ones()).sum();
                if used as usize == bits.ways {
                    words.fill(0);
                    words[way / 64] = 1 << (way % 64);
                }
            }
            Order::Random(_) => {}
        }
    }

    /// The way of a full set of `ways` ways that goes.
    #[inline]
    pub fn victim(&mut self, set: usize, ways: usize) -> usize {
        match self {
            Order::Lru(stamps) | Order::Fifo(stamps) => stamps.oldest(set),
            Order::TreePlru(tree) => tree.victim(set),
            Order::TreesOfFourLru(trees) => {
                let tree = trees.oldest(set);
                4 * tree + tree_of_four_victim(trees.of(set)[tree])
            }
            Order::BitPlru(bits) => {
                let words = &bits.bits[set * bits.words..(set + 1) * bits.words];
                let full = words.iter().take_while(|&&w| w == u64::MAX).count();
                let first = words.get(full).map_or(0, |w| w.trailing_ones() as usize);
                // A single way is always set: it is the one to go.
                if ways == 1 { 0 } else { full * 64 + first }
            }
            Order::Random(random) => random.below(ways as u64) as usize,
        }
    }

    /// Of the ways of a set that hold no line (`entries` 0), the one to fill: the first; with trees
    /// of four, the first of the oldest tree that has one, as a miss goes to the oldest tree.
    #[inline]
    #[must_use]
    pub fn vacant(&self, set: usize, entries: &[u64]) -> Option<usize> {
        match self {
            Order::TreesOfFourLru(trees) => {
                let stamps = trees.of(set);
                let free = |way: &usize| entries[*way] == 0;
                let tree = (0..stamps.len())
                    .filter(|t| (4 * t..4 * t + 4).any(|way| free(&way)))
                    .min_by_key(|&t| stamps[t] >> 3)?;
                (4 * tree..4 * tree + 4).find(free)
            }
            _ => entries.iter().position(|&entry| entry == 0),
        }
    }

    /// Back to power-up state.
    pub fn clear(&mut self, set: usize) {
        match self {
            Order::Lru(stamps) | Order::Fifo(stamps) | Order::TreesOfFourLru(stamps) => {
                stamps.clear(set);
            }
            Order::TreePlru(tree) => tree.nodes.clear(set),
            Order::BitPlru(bits) => bits.clear(set),
            Order::Random(_) => {}
        }
    }

    /// Draw victims from `seed` on, where they are drawn.
    pub fn reseed(&mut self, seed: u64) {
        if let Order::Random(random) = self {
            *random = Random(seed);
        }
    }
}
