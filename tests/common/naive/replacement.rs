//! Replacement policies of one set, each with one plain number or bit per way or node.

use kwalk::machine::{Qlru, Replacement};

/// RRIP's prediction for a line that comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Insertion {
    /// Used again after a long time: value 2.
    Long,
    /// Used again in the distant future: value 3, the next to go.
    Distant,
}

/// What a policy remembers of one set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Ways from the least to the most recently used.
    Lru(Vec<usize>),
    /// Ways from the first to the last filled.
    Fifo(Vec<usize>),
    /// Whether each way was used since the others were last cleared.
    BitPlru(Vec<bool>),
    /// Whether each way was not used since all were last set.
    Nru(Vec<bool>),
    /// One tree over all ways.
    TreePlru(Tree),
    /// Trees of four ways each, and their numbers from the least to the most recently used.
    TreesOfFour { trees: Vec<Tree>, order: Vec<usize> },
    /// Re-reference prediction of each way, 0 to 3: SRRIP, BRRIP and DRRIP.
    Rrip(Vec<u8>),
    /// Age of each way, 0 to 3, and the rules by which it changes.
    Qlru { ages: Vec<u8>, rules: Qlru },
}

impl Policy {
    /// State at power-up of a set of `ways` ways.
    pub fn new(replacement: Replacement, ways: usize) -> Policy {
        match replacement {
            Replacement::Lru => Policy::Lru((0..ways).collect()),
            Replacement::Fifo => Policy::Fifo((0..ways).collect()),
            Replacement::BitPlru => Policy::BitPlru(vec![false; ways]),
            Replacement::Nru => Policy::Nru(vec![true; ways]),
            Replacement::TreePlru => Policy::TreePlru(Tree::new(ways)),
            Replacement::TreesOfFourLru => Policy::TreesOfFour {
                trees: vec![Tree::new(4); ways / 4],
                order: (0..ways / 4).collect(),
            },
            Replacement::Srrip | Replacement::Brrip | Replacement::Drrip => {
                Policy::Rrip(vec![3; ways])
            }
            Replacement::Qlru(rules) => Policy::Qlru {
                ages: vec![3; ways],
                rules,
            },
            Replacement::Random => panic!("random replacement has no naive model"),
        }
    }

    /// The line in `way` is used.
    pub fn hit(&mut self, way: usize) {
        match self {
            Policy::Fifo(_) => {}
            Policy::Rrip(values) => values[way] = 0,
            Policy::Qlru { ages, rules } => {
                ages[way] = match ages[way] {
                    3 => rules.hit[0],
                    2 => rules.hit[1],
                    _ => 0,
                };
                if !rules.on_miss_only {
                    qlru_update(ages, rules.update, Some(way));
                }
            }
            _ => self.touch(way),
        }
    }

    /// A line has come into `way`.
    pub fn filled(&mut self, way: usize, insertion: Insertion) {
        match self {
            Policy::Fifo(order) => move_to_end(order, way),
            Policy::Rrip(values) => {
                values[way] = match insertion {
                    Insertion::Long => 2,
                    Insertion::Distant => 3,
                }
            }
            Policy::Qlru { ages, rules } => {
                ages[way] = rules.miss;
                if !rules.on_miss_only {
                    qlru_update(ages, rules.update, Some(way));
                }
            }
            _ => self.touch(way),
        }
    }

    /// A hit and a fill alike, of the policies that make no difference between them.
    fn touch(&mut self, way: usize) {
        match self {
            Policy::Lru(order) => move_to_end(order, way),
            Policy::BitPlru(used) => {
                used[way] = true;
                if used.iter().all(|used| *used) {
                    used.fill(false);
                    used[way] = true;
                }
            }
            Policy::Nru(unused) => unused[way] = false,
            Policy::TreePlru(tree) => tree.touch(way),
            Policy::TreesOfFour { trees, order } => {
                trees[way / 4].touch(way % 4);
                move_to_end(order, way / 4);
            }
            Policy::Fifo(_) | Policy::Rrip(_) | Policy::Qlru { .. } => {
                unreachable!("these tell hits from fills")
            }
        }
    }

    /// Way that the next line takes; asked once for each line that comes, as the search itself may
    /// change the state.
    pub fn choose(&mut self, vacant: &[bool]) -> usize {
        if let Policy::Qlru { ages, rules } = self
            && rules.on_miss_only
        {
            qlru_update(ages, rules.update, None);
        }
        if vacant.contains(&true) {
            self.vacant_way(vacant)
        } else {
            self.victim()
        }
    }

    /// Which of the vacant ways is taken.
    fn vacant_way(&self, vacant: &[bool]) -> usize {
        let ways = 0..vacant.len();
        let way = match self {
            Policy::Qlru { rules, .. } if rules.replace == 2 => ways.rev().find(|way| vacant[*way]),
            _ => ways.into_iter().find(|way| vacant[*way]),
        };
        way.expect("a way is vacant")
    }

    /// Way whose line goes, in a full set.
    fn victim(&mut self) -> usize {
        match self {
            Policy::Lru(order) | Policy::Fifo(order) => order[0],
            Policy::BitPlru(used) => first(used, &false).unwrap_or(0),
            Policy::Nru(unused) => {
                if !unused.contains(&true) {
                    unused.fill(true);
                }
                first(unused, &true).expect("all were set if none was")
            }
            Policy::TreePlru(tree) => tree.victim(),
            Policy::TreesOfFour { trees, order } => 4 * order[0] + trees[order[0]].victim(),
            Policy::Rrip(values) => {
                while !values.contains(&3) {
                    for value in values.iter_mut() {
                        *value += 1;
                    }
                }
                first(values, &3).expect("values rise until one is 3")
            }
            // R0, R1 and R2 differ in a full set only where no age is 3, which the names that
            // have R0 or R2 do not let happen in more than one way.
            Policy::Qlru { ages, .. } => first(ages, &3).unwrap_or(0),
        }
    }
}

/// How ages rise. `exempt`: the way in use, which U1 and U3 leave as it is.
fn qlru_update(ages: &mut [u8], update: u8, exempt: Option<usize>) {
    let exempt = if update == 1 || update == 3 {
        exempt
    } else {
        None
    };
    let rises = |way: &usize| Some(*way) != exempt;
    let rise = if update < 2 {
        let oldest = (0..ages.len()).filter(rises).map(|way| ages[way]).max();
        oldest.map_or(0, |oldest| 3 - oldest)
    } else if ages.contains(&3) {
        0
    } else {
        1
    };
    for way in (0..ages.len()).filter(rises) {
        ages[way] += rise;
    }
}

fn first<T: PartialEq>(values: &[T], value: &T) -> Option<usize> {
    values.iter().position(|v| v == value)
}

fn move_to_end(order: &mut Vec<usize>, item: usize) {
    order.retain(|other| *other != item);
    order.push(item);
}

/// Pseudo-LRU bits of a binary tree whose leaves are ways; leaves beyond the last way do not exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    ways: usize,
    root: Node,
}

/// A leaf, or a node with a bit.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Node {
    /// A way, which may not exist.
    Leaf(usize),
    /// Two halves.
    Fork {
        /// Whether the victim is sought on the right.
        right_next: bool,
        /// First leaf of the right half.
        middle: usize,
        left: Box<Node>,
        right: Box<Node>,
    },
}

impl Tree {
    /// All bits point left.
    pub fn new(ways: usize) -> Tree {
        Tree {
            ways,
            root: node(0, ways.next_power_of_two()),
        }
    }

    /// `way` is used: every bit above it points away from it.
    pub fn touch(&mut self, way: usize) {
        let mut at = &mut self.root;
        while let Node::Fork {
            right_next,
            middle,
            left,
            right,
        } = at
        {
            let is_left = way < *middle;
            *right_next = is_left;
            at = if is_left { left } else { right };
        }
    }

    /// Where the bits lead; a right half without ways is not entered.
    pub fn victim(&self) -> usize {
        let mut at = &self.root;
        loop {
            match at {
                Node::Leaf(way) => return *way,
                Node::Fork {
                    right_next,
                    middle,
                    left,
                    right,
                } => {
                    at = if *right_next && *middle < self.ways {
                        right
                    } else {
                        left
                    };
                }
            }
        }
    }
}

/// The tree over `leaves` leaves from `start`; `leaves` is a power of two.
fn node(start: usize, leaves: usize) -> Node {
    if leaves == 1 {
        return Node::Leaf(start);
    }
    let half = leaves / 2;
    Node::Fork {
        right_next: false,
        middle: start + half,
        left: Box::new(node(start, half)),
        right: Box::new(node(start + half, half)),
    }
}
