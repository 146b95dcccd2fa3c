//! Trees of pseudo-LRU bits.

use super::bits::Bits;

/// A binary tree over the ways of each set, cut off at the right where `ways` is no power of two.
///
/// Nodes are numbered from the root, 1, with children `2n` and `2n + 1`; the ways are the leaves.
/// Bit `n` belongs to node `n`; 0 leads left, 1 right, to the way that goes next. A bit that leads
/// to a subtree without a way is read as 0.
#[derive(Clone, Debug)]
pub struct Tree {
    ways: usize,
    /// A power of two.
    leaves: usize,
    nodes: Bits,
    /// Of trees within one word, what a use of each way does to it: bits that stay, bits set.
    paths: Vec<(u64, u64)>,
    /// Of trees within one word, the nodes that have ways on the right.
    forks: u64,
}

impl Tree {
    pub fn new(sets: usize, ways: usize) -> Tree {
        let leaves = ways.next_power_of_two();
        let path = |way: usize| {
            let (mut keep, mut set) = (u64::MAX, 0);
            let mut node = way + leaves;
            while node > 1 {
                keep &= !(1 << (node / 2));
                set |= u64::from(node.is_multiple_of(2)) << (node / 2);
                node /= 2;
            }
            (keep, set)
        };
        let one_word = if leaves <= 64 { ways } else { 0 };
        let mut tree = Tree {
            ways,
            leaves,
            nodes: Bits::new(sets, leaves),
            paths: (0..one_word).map(path).collect(),
            forks: u64::MAX,
        };
        if one_word > 0 {
            tree.forks = (1..leaves).fold(0, |forks, node| {
                forks | u64::from(tree.first_way(2 * node + 1) < ways) << node
            });
        }
        tree
    }

    /// The leftmost leaf below `node`.
    fn first_way(&self, node: usize) -> usize {
        let mut leaf = node;
        while leaf < self.leaves {
            leaf *= 2;
        }
        leaf - self.leaves
    }

    #[inline]
    pub fn used(&mut self, set: usize, way: usize) {
        if let Some((keep, set_bits)) = self.paths.get(way) {
            let word = self.nodes.word_mut(set);
            *word = *word & keep | set_bits;
            return;
        }
        let mut node = way + self.leaves;
        while node > 1 {
            self.nodes.put(set, node / 2, node.is_multiple_of(2));
            node /= 2;
        }
    }

    #[inline]
    pub fn victim(&self, set: usize) -> usize {
        let mut node = 1;
        if !self.paths.is_empty() {
            let word = self.nodes.word(set) & self.forks;
            while node < self.leaves {
                node = 2 * node + (word >> node & 1) as usize;
            }
        } else {
            while node < self.leaves {
                let right = self.nodes.get(set, node) && self.first_way(2 * node + 1) < self.ways;
                node = 2 * node + usize::from(right);
            }
        }
        node - self.leaves
    }

    pub fn clear(&mut self, set: usize) {
        self.nodes.clear(set);
    }
}

/// The three bits of a tree of four after a use of `leaf` (0 to 3): bit 0 is the root, bit 1 the
/// left pair, bit 2 the right one; each points away from the leaf.
#[inline]
pub fn of_four_used(bits: u8, leaf: usize) -> u8 {
    match leaf {
        0 => bits | 0b011,
        1 => bits & !0b010 | 0b001,
        2 => bits & !0b001 | 0b100,
        _ => bits & !0b101,
    }
}

/// The leaf that the three bits of a tree of four point to.
#[inline]
pub fn of_four_victim(bits: u8) -> usize {
    match bits {
        b if b & 1 == 0 => usize::from(b >> 1 & 1),
        b => 2 + usize::from(b >> 2 & 1),
    }
}
