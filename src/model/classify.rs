//! Why a level missed, exactly: the three C (Hill 1987).
//!
//! Beside a level runs a fully associative LRU cache of as many lines, fed with the same requests.
//! A line that the level was never asked for since the start or a flush is a compulsory miss; one
//! that the fully associative cache misses as well is a capacity miss; one that only the real cache
//! misses is a conflict miss. Requests of the warm-up count as history: a warm steady state
//! has no compulsory miss.
//!
//! An exclusive level holds what inner levels evicted, and so does the cache beside it: victims
//! enter both, a hit leaves both. Writebacks and back-invalidations are not shown to it; a miss
//! that a back-invalidation caused is therefore a conflict (of the inclusive level's sets).

use rustc_hash::FxHashMap;

/// Cause of a cache miss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cause {
    /// First request of the line since start or flush.
    Compulsory,
    /// A fully associative LRU cache of the same size misses too.
    Capacity,
    /// Only the real cache misses.
    Conflict,
    /// A TLB had no entry for the page.
    Translation,
    /// Another core stored to the bytes of the access, or used the bytes that it stores to.
    TrueSharing,
    /// Another core stored to other bytes of the line, or of the line beside it.
    FalseSharing,
}

impl Cause {
    /// As column `cause` spells it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Cause::Compulsory => "compulsory",
            Cause::Capacity => "capacity",
            Cause::Conflict => "conflict",
            Cause::Translation => "translation",
            Cause::TrueSharing => "true-sharing",
            Cause::FalseSharing => "false-sharing",
        }
    }
}

/// A line of the fully associative cache.
#[derive(Clone, Copy, Debug)]
struct Node {
    line: u64,
    /// When it was last used; 0 if it is not there.
    used: u64,
    /// Where it is in the table.
    place: u32,
}

const NOBODY: Node = Node {
    line: 0,
    used: 0,
    place: 0,
};

/// 2^64 divided by the golden ratio, odd: spreads lines over the table (Knuth, TAOCP 3, 6.4).
const HASH: u64 = 0x9e37_79b9_7f4a_7c15;

/// Fully associative LRU of `lines` lines, and the memory of all lines ever requested.
///
/// Time is counted in uses. A ring holds the node that was used at each of the last times; an entry
/// whose node was used again since is stale, and passed over when the oldest is looked for. So a use
/// costs two stores, and a request one probe of a hash table, unless the caller remembers the
/// line's node. Memory grows with the number of distinct lines, a bit for each.
#[derive(Clone, Debug)]
pub struct Shadow {
    lines: usize,
    exclusive: bool,
    nodes: Vec<Node>,
    /// Nodes whose lines have left, and how many are there.
    vacant: Vec<u32>,
    listed: usize,
    /// Open addressing by line: node number plus 1, or 0.
    table: Vec<u32>,
    shift: u32,
    /// By time modulo its length, the node that was used.
    ring: Vec<u32>,
    /// The time of the next use, and the first that the ring still knows.
    now: u64,
    first: u64,
    /// By number of 64 lines, those that were ever requested.
    requested: FxHashMap<u64, u64>,
}

impl Shadow {
    /// Beside a level of `lines` lines. `exclusive`: lines enter by [`evicted`](Shadow::evicted)
    /// and leave when requested.
    #[must_use]
    pub fn new(lines: usize, exclusive: bool) -> Shadow {
        let table = (2 * lines).next_power_of_two().max(16);
        Shadow {
            lines,
            exclusive,
            nodes: Vec::new(),
            vacant: Vec::new(),
            listed: 0,
            table: vec![0; table],
            shift: 64 - table.trailing_zeros(),
            ring: vec![0; 2 * table],
            now: 1,
            first: 1,
            requested: FxHashMap::default(),
        }
    }

    /// A request for `line`; what a miss of the real cache would be.
    #[inline]
    pub fn request(&mut self, line: u64) -> Cause {
        self.request_node(line).0
    }

    /// [`request`](Shadow::request), and the line's node, for [`renew`](Shadow::renew).
    #[inline]
    pub fn request_node(&mut self, line: u64) -> (Cause, u32) {
        let place = self.place_of(line);
        let listed = self.table[place] != 0;
        // What is listed was requested, but for what an inner level evicted into an exclusive one.
        let known = listed && !self.exclusive || self.remember(line);
        let cause = match (known, listed) {
            (false, _) => Cause::Compulsory,
            (true, false) => Cause::Capacity,
            (true, true) => Cause::Conflict,
        };
        if self.exclusive {
            if listed {
                self.take_out(self.table[place] - 1);
            }
            return (cause, 0);
        }
        let node = match listed {
            true => self.table[place] - 1,
            false => self.enter(line, place),
        };
        self.use_node(node);
        (cause, node)
    }

    /// A request for `line`, which the real cache has; `node` is what the last request for the line
    /// answered. `false` if the line has left meanwhile: then it needs a request of its own.
    #[inline(always)]
    pub fn renew(&mut self, line: u64, node: u32) -> bool {
        let known = self.nodes.get(node as usize);
        let there = known.is_some_and(|known| known.line == line && known.used != 0);
        if there {
            self.use_node(node);
        }
        there
    }

    /// An inner level evicted `line` into this exclusive one.
    pub fn evicted(&mut self, line: u64) {
        let place = self.place_of(line);
        let node = match self.table[place] {
            0 => self.enter(line, place),
            node => node - 1,
        };
        self.use_node(node);
    }

    /// Forget all.
    pub fn flush(&mut self) {
        if self.now > 1 {
            *self = Shadow::new(self.lines, self.exclusive);
        }
    }

    /// Whether `line` was ever requested; from now on it was.
    #[inline]
    fn remember(&mut self, line: u64) -> bool {
        let bits = self.requested.entry(line / 64).or_default();
        let bit = 1 << (line % 64);
        let known = *bits & bit != 0;
        *bits |= bit;
        known
    }

    #[inline]
    fn home(&self, line: u64) -> usize {
        (line.wrapping_mul(HASH) >> self.shift) as usize
    }

    /// Where `line` is in the table, or where it would be.
    #[inline]
    fn place_of(&self, line: u64) -> usize {
        let mut at = self.home(line);
        loop {
            match self.table[at] {
                0 => return at,
                node if self.nodes[node as usize - 1].line == line => return at,
                _ => at = (at + 1) & (self.table.len() - 1),
            }
        }
    }

    /// A node for `line`, which is not there and belongs in `place`. If there are too many then, the
    /// oldest leaves.
    #[inline]
    fn enter(&mut self, line: u64, place: usize) -> u32 {
        let node = self.vacant.pop().unwrap_or_else(|| {
            self.nodes.push(NOBODY);
            self.nodes.len() as u32 - 1
        });
        self.nodes[node as usize] = Node {
            line,
            // Not 0, which says that it is not there; it is used at once.
            used: self.now,
            place: place as u32,
        };
        self.table[place] = node + 1;
        self.listed += 1;
        if self.listed > self.lines {
            self.pass_over_stale();
            let oldest = self.node_used_at(self.first);
            self.take_out(oldest);
        }
        node
    }

    /// Take `node` out of the table. Those behind it that could be nearer to their homes move up, so
    /// that a search may end at the first free place.
    #[inline]
    fn take_out(&mut self, node: u32) {
        let mask = self.table.len() - 1;
        let mut free = self.nodes[node as usize].place as usize;
        self.nodes[node as usize] = NOBODY;
        self.vacant.push(node);
        self.listed -= 1;
        let mut at = (free + 1) & mask;
        while self.table[at] != 0 {
            let moved = &mut self.nodes[self.table[at] as usize - 1];
            let home = (moved.line.wrapping_mul(HASH) >> self.shift) as usize;
            if at.wrapping_sub(home) & mask >= at.wrapping_sub(free) & mask {
                moved.place = free as u32;
                self.table[free] = self.table[at];
                free = at;
            }
            at = (at + 1) & mask;
        }
        self.table[free] = 0;
    }

    #[inline(always)]
    fn use_node(&mut self, node: u32) {
        self.nodes[node as usize].used = self.now;
        let at = self.now as usize & (self.ring.len() - 1);
        self.ring[at] = node;
        self.now += 1;
        if self.now - self.first == self.ring.len() as u64 {
            self.drop_stale();
        }
    }

    #[inline(always)]
    fn node_used_at(&self, time: u64) -> u32 {
        self.ring[time as usize & (self.ring.len() - 1)]
    }

    #[inline(always)]
    fn is_stale(&self, time: u64) -> bool {
        self.nodes[self.node_used_at(time) as usize].used != time
    }

    #[inline]
    fn pass_over_stale(&mut self) {
        while self.is_stale(self.first) {
            self.first += 1;
        }
    }

    /// The ring is full: its last uses of each node move up and the others go. As no more than a
    /// quarter of it are last uses, it is long until the next time.
    #[inline(never)]
    fn drop_stale(&mut self) {
        let mask = self.ring.len() - 1;
        let mut to = self.now;
        for time in (self.first..self.now).rev() {
            let node = self.node_used_at(time);
            if self.nodes[node as usize].used == time {
                to -= 1;
                self.ring[to as usize & mask] = node;
                self.nodes[node as usize].used = to;
            }
        }
        self.first = to;
    }
}
