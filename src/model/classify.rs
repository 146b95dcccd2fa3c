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

const NONE: u32 = u32::MAX;

#[derive(Clone, Debug)]
struct Node {
    line: u64,
    newer: u32,
    older: u32,
    /// Whether the level was ever asked for it.
    requested: bool,
    /// Whether it is in the fully associative cache.
    listed: bool,
}

/// Fully associative LRU of `lines` lines, and the memory of all lines ever requested.
///
/// A request costs one probe of a hash table, unless the caller remembers the line's node. Memory grows with the number of distinct lines, and
/// only then.
#[derive(Clone, Debug)]
pub struct Shadow {
    lines: usize,
    exclusive: bool,
    listed: usize,
    newest: u32,
    oldest: u32,
    nodes: Vec<Node>,
    /// Open addressing: node number plus 1, or 0.
    table: Vec<u32>,
    shift: u32,
}

const FIRST_TABLE_BITS: u32 = 12;

impl Shadow {
    /// Beside a level of `lines` lines. `exclusive`: lines enter by [`evicted`](Shadow::evicted)
    /// and leave when requested.
    #[must_use]
    pub fn new(lines: usize, exclusive: bool) -> Shadow {
        Shadow {
            lines,
            exclusive,
            listed: 0,
            newest: NONE,
            oldest: NONE,
            nodes: Vec::with_capacity(1 << (FIRST_TABLE_BITS - 1)),
            table: vec![0; 1 << FIRST_TABLE_BITS],
            shift: 64 - FIRST_TABLE_BITS,
        }
    }

    /// A request for `line`; what a miss of the real cache would be.
    #[inline]
    pub fn request(&mut self, line: u64) -> Cause {
        self.request_node(line).0
    }

    /// [`request`](Shadow::request), and the line's node: it stays the same until the next flush.
    #[inline]
    pub fn request_node(&mut self, line: u64) -> (Cause, u32) {
        let node = self.node_of(line);
        let state = &mut self.nodes[node as usize];
        let cause = match (state.requested, state.listed) {
            (false, _) => Cause::Compulsory,
            (true, false) => Cause::Capacity,
            (true, true) => Cause::Conflict,
        };
        state.requested = true;
        if self.exclusive {
            self.unlist(node);
        } else if self.newest != node {
            self.unlist(node);
            self.enlist(node);
        }
        (cause, node)
    }

    /// A request for the line of `node`, which the real cache has; it is not an exclusive one.
    #[inline]
    pub fn renew(&mut self, node: u32) {
        debug_assert!(!self.exclusive, "a hit leaves an exclusive level");
        if self.newest != node {
            self.unlist(node);
            self.enlist(node);
        }
    }

    /// An inner level evicted `line` into this exclusive one.
    pub fn evicted(&mut self, line: u64) {
        let node = self.node_of(line);
        self.unlist(node);
        self.enlist(node);
    }

    /// Forget all.
    pub fn flush(&mut self) {
        self.nodes.clear();
        self.table.fill(0);
        self.listed = 0;
        self.newest = NONE;
        self.oldest = NONE;
    }

    #[inline]
    fn home(&self, line: u64) -> usize {
        (line.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift) as usize
    }

    #[inline]
    fn node_of(&mut self, line: u64) -> u32 {
        let mut at = self.home(line);
        loop {
            match self.table[at] {
                0 => return self.insert(line),
                node if self.nodes[node as usize - 1].line == line => return node - 1,
                _ => at = (at + 1) & (self.table.len() - 1),
            }
        }
    }

    #[cold]
    fn insert(&mut self, line: u64) -> u32 {
        if 2 * (self.nodes.len() + 1) > self.table.len() {
            self.shift -= 1;
            self.table = vec![0; self.table.len() * 2];
            for node in 0..self.nodes.len() {
                self.enter(self.nodes[node].line, node as u32);
            }
        }
        let node = u32::try_from(self.nodes.len()).expect("fewer than 2^32 distinct lines");
        self.nodes.push(Node {
            line,
            newer: NONE,
            older: NONE,
            requested: false,
            listed: false,
        });
        self.enter(line, node);
        node
    }

    fn enter(&mut self, line: u64, node: u32) {
        let mut at = self.home(line);
        while self.table[at] != 0 {
            at = (at + 1) & (self.table.len() - 1);
        }
        self.table[at] = node + 1;
    }

    #[inline]
    fn unlist(&mut self, node: u32) {
        let Node {
            newer,
            older,
            listed,
            ..
        } = self.nodes[node as usize];
        if !listed {
            return;
        }
        match newer {
            NONE => self.newest = older,
            n => self.nodes[n as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            n => self.nodes[n as usize].newer = newer,
        }
        self.nodes[node as usize].listed = false;
        self.listed -= 1;
    }

    #[inline]
    fn enlist(&mut self, node: u32) {
        if self.listed == self.lines {
            self.unlist(self.oldest);
        }
        let newest = self.newest;
        match newest {
            NONE => self.oldest = node,
            n => self.nodes[n as usize].newer = node,
        }
        let state = &mut self.nodes[node as usize];
        state.newer = NONE;
        state.older = newest;
        state.listed = true;
        self.newest = node;
        self.listed += 1;
    }
}
