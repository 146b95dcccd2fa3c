//! The caches of all cores: from L1D to the last level, shared or private, any of them absent.
//!
//! A level is shared by `shared_by_cores` cores, numbered one after another; the leading levels that
//! one core has for itself are its *private* ones. A request asks the levels of its core from the
//! innermost outwards until one has the line. On the way back the line fills
//! - every [`NonInclusive`](machine::Inclusion::NonInclusive) and
//!   [`Inclusive`](machine::Inclusion::Inclusive) level inside the one that served it, outermost
//!   first. What an inclusive level evicts is also removed from all levels inside it, those of all
//!   its cores (a back-invalidation); if it was dirty there, the newer data go along.
//! - no [`Exclusive`](machine::Inclusion::Exclusive) level: that one takes what the level inside it
//!   evicts, clean or dirty, and gives a line up when it is asked for it. A line that was dirty
//!   there is dirty in the outermost level that it fills.
//!
//! A dirty victim goes to the next level: it makes the line dirty there, without renewing its age,
//! or is allocated there if that level dropped it meanwhile. Lines change their level at once;
//! when the data arrive is the business of [`Core`](super::core::Core).
//!
//! With several cores a request that leaves the private levels, and a store that does not own its
//! line, also go to the [`Directory`]: another core may have to supply the line or give it up. A
//! store removes the line from shared levels of other cores as well. If neither a core nor the own
//! shared levels have it, shared levels of other cores are asked before memory.
//!
//! Not modelled: instruction fetches as users of the caches, lines of different sizes per level,
//! bandwidth. See the modules for what coherence, prefetchers and policies leave out.

use std::collections::HashSet;
use std::hash::BuildHasherDefault;

use super::ModelError;
use super::cache::Cache;
use super::classify::{Cause, Shadow};
use super::coherence::{CoherenceStats, Directory, LineHasher, Sharing, State, Touch};
use super::filter::Filters;
use super::prefetch::Prefetchers;
use super::shape::Shape;
use super::stats::Counts;
pub use super::stats::{Kind, LevelStats, MAX_LEVELS, PrefetchStats, Tally};
use crate::machine::{self, Inclusion};

/// How far away the cache was that another core's line came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Distance {
    /// A core under the same last level.
    SameL3,
    /// Under another last level of the same socket.
    OtherL3,
    /// In another socket.
    OtherSocket,
}

/// Where an access found its line, and what had to happen for it.
///
/// Two words that travel in registers: a larger answer would go through memory, and wait there for
/// the stores before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// Where the line now lies in the innermost level (set times ways plus way).
    pub slot: u32,
    /// Bits 0 to 7 the level, 8 and 9 the transfer, 10 and 11 why, 12 the first use.
    notes: u32,
}

const FIRST_USE: u32 = 1 << 12;

impl Served {
    #[inline(always)]
    pub(super) fn at(level: usize, slot: usize) -> Served {
        Served {
            slot: slot as u32,
            notes: level as u32,
        }
    }

    #[inline(always)]
    pub(super) fn with_first_use(self, first_use: bool) -> Served {
        let bit = if first_use { FIRST_USE } else { 0 };
        Served {
            notes: self.notes | bit,
            ..self
        }
    }

    pub(super) fn with_transfer(
        self,
        transfer: Option<Distance>,
        sharing: Option<Sharing>,
    ) -> Served {
        let transfer = transfer.map_or(0, |t| t as u32 + 1);
        let sharing = sharing.map_or(0, |s| s as u32 + 1);
        Served {
            notes: self.notes & (FIRST_USE | 0xff) | transfer << 8 | sharing << 10,
            ..self
        }
    }

    /// 0 for the innermost level; the number of levels for memory, and for other cores' caches.
    #[inline(always)]
    #[must_use]
    pub fn level(self) -> usize {
        (self.notes & 0xff) as usize
    }

    /// From how far away another core, or its shared level, supplied the line or gave it up.
    #[must_use]
    pub fn transfer(self) -> Option<Distance> {
        match self.notes >> 8 & 3 {
            1 => Some(Distance::SameL3),
            2 => Some(Distance::OtherL3),
            3 => Some(Distance::OtherSocket),
            _ => None,
        }
    }

    /// Why, if the line was shared with another core.
    #[must_use]
    pub fn sharing(self) -> Option<Sharing> {
        match self.notes >> 10 & 3 {
            1 => Some(Sharing::True),
            2 => Some(Sharing::False),
            3 => Some(Sharing::Adjacent),
            _ => None,
        }
    }

    /// Whether a hardware prefetcher had brought the line, and this is its first use.
    #[inline(always)]
    #[must_use]
    pub fn first_use(self) -> bool {
        self.notes & FIRST_USE != 0
    }
}

/// What a search outwards found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    /// Level that has, or had, the line.
    pub level: u32,
    /// Bit 0: it gave up dirty data; bit 1: that was the first use of a prefetched line.
    notes: u32,
}

impl Found {
    #[inline(always)]
    fn at(level: usize, dirty: bool, first_use: bool) -> Found {
        Found {
            level: level as u32,
            notes: u32::from(dirty) | u32::from(first_use) << 1,
        }
    }

    #[inline(always)]
    pub fn is_dirty(self) -> bool {
        self.notes & 1 != 0
    }

    #[inline(always)]
    pub fn is_first_use(self) -> bool {
        self.notes & 2 != 0
    }
}

/// A line that a hardware prefetcher brought.
#[derive(Clone, Copy, Debug)]
pub struct Prefetched {
    /// The line.
    pub line: u64,
    /// Level that it was brought into (0 the innermost).
    pub into: usize,
    /// Level that served it.
    pub served: usize,
    /// If it was brought into the innermost level, where it lies there.
    pub slot: usize,
}

/// One cache of one level.
#[derive(Clone, Debug)]
pub(super) struct Level {
    pub(super) cache: Cache,
    pub(super) inclusion: Inclusion,
    pub(super) shadow: Option<Shadow>,
    /// Of a classified innermost level, by slot, the node of its line in `shadow`: a hit there
    /// needs no probe.
    pub(super) nodes: Vec<u32>,
    /// Lines that had to leave for a hardware prefetch into this level, and did not come back.
    pub(super) pushed_out: HashSet<u64, BuildHasherDefault<LineHasher>>,
}

impl Level {
    fn new(table: &machine::Cache, cache: Cache, classify: &[u8], innermost: bool) -> Level {
        let exclusive = table.inclusion == Inclusion::Exclusive;
        let classified = classify.contains(&table.level);
        let nodes = if innermost && classified {
            cache.lines()
        } else {
            0
        };
        Level {
            shadow: classified.then(|| Shadow::new(cache.lines(), exclusive)),
            nodes: vec![0; nodes],
            cache,
            inclusion: table.inclusion,
            pushed_out: HashSet::default(),
        }
    }
}

/// What a core has of the hierarchy.
#[derive(Clone, Debug)]
pub(super) struct Side {
    /// By level, its cache in `caches`.
    pub(super) path: [usize; MAX_LEVELS],
    pub(super) counts: [Counts; MAX_LEVELS],
    /// Of the last access that missed each level; `None` where not classified.
    pub(super) causes: [Option<Cause>; MAX_LEVELS],
    /// The line that it used last, and its slot: using it again changes nothing.
    pub(super) last: (u64, usize),
    pub(super) prefetchers: Prefetchers,
}

pub(super) const NO_LINE: u64 = u64::MAX;

/// The caches of all cores.
#[derive(Clone, Debug)]
pub struct Hierarchy {
    pub(super) shape: Shape,
    pub(super) depth: usize,
    /// Leading levels that each core has for itself.
    pub(super) private: usize,
    pub(super) cores: Vec<Side>,
    /// Level by level, those of the first core first.
    pub(super) levels: Vec<Level>,
    line_shift: u32,
    /// Whether a hit is all there is to an access that hits, and a repeated one changes nothing.
    pub(super) plain: bool,
    pub(super) settles: bool,
    pub(super) prefetching: bool,
    pub(super) directory: Option<Directory>,
    /// What the next access touches, for coherence, and where it is made, for prefetchers.
    pub(super) touch: Touch,
    pub(super) site: u64,
    pub(super) addr: u64,
    pub(super) prefetched: Vec<Prefetched>,
    /// Made when many requests first come at once.
    pub(super) filters: Option<Box<Filters>>,
}

fn cache_seed(level: u8, seed: u64) -> u64 {
    seed ^ u64::from(level)
}

impl Hierarchy {
    /// Empty caches of one core as `caches` says, from the core outwards, without prefetchers.
    /// Misses of the levels (1, 2, ...) named in `classify` are told apart by cause, which costs a
    /// hash probe per request, but for hits of the innermost.
    ///
    /// # Errors
    /// If a level cannot be modelled.
    pub fn new(
        caches: &[machine::Cache],
        classify: &[u8],
        seed: u64,
    ) -> Result<Hierarchy, ModelError> {
        Hierarchy::shaped(Shape::plain(caches), classify, seed)
    }

    /// Empty caches of that shape; `classify` as in [`new`](Hierarchy::new).
    ///
    /// # Errors
    /// If a level cannot be modelled.
    pub fn shaped(shape: Shape, classify: &[u8], seed: u64) -> Result<Hierarchy, ModelError> {
        shape.check(classify)?;
        let mut caches = Vec::new();
        for (k, table) in shape.caches.iter().enumerate() {
            for _ in 0..shape.number(k) {
                caches.push(Cache::new(table, cache_seed(table.level, seed))?);
            }
        }
        Hierarchy::of(shape, caches, classify)
    }

    /// [`shaped`](Hierarchy::shaped) with the memory of `self`, where the shape is the same:
    /// zeroing the memory of a large cache takes longer than a short run on it.
    ///
    /// # Errors
    /// As those of [`shaped`](Hierarchy::shaped).
    pub fn renewed(
        self,
        shape: Shape,
        classify: &[u8],
        seed: u64,
    ) -> Result<Hierarchy, ModelError> {
        if self.shape != shape {
            return Hierarchy::shaped(shape, classify, seed);
        }
        shape.check(classify)?;
        let numbers = (0..shape.caches.len())
            .flat_map(|k| std::iter::repeat_n(shape.caches[k].level, shape.number(k)));
        let restarted = |(level, number): (Level, u8)| {
            let mut cache = level.cache;
            cache.restart(cache_seed(number, seed));
            cache
        };
        let caches = self
            .levels
            .into_iter()
            .zip(numbers)
            .map(restarted)
            .collect();
        Hierarchy::of(shape, caches, classify)
    }

    fn of(shape: Shape, caches: Vec<Cache>, classify: &[u8]) -> Result<Hierarchy, ModelError> {
        let depth = shape.caches.len();
        let mut caches = caches.into_iter();
        let mut levels = Vec::new();
        let mut firsts = [0; MAX_LEVELS];
        for (k, table) in shape.caches.iter().enumerate() {
            firsts[k] = levels.len();
            let made = caches.by_ref().take(shape.number(k));
            levels.extend(made.map(|cache| Level::new(table, cache, classify, k == 0)));
        }
        let mut cores = Vec::new();
        for core in 0..shape.cores {
            let at = |k: usize| {
                if k < depth {
                    firsts[k] + core / shape.sharers(k)
                } else {
                    0
                }
            };
            cores.push(Side {
                path: std::array::from_fn(at),
                counts: [Counts::default(); MAX_LEVELS],
                causes: [None; MAX_LEVELS],
                last: (NO_LINE, 0),
                prefetchers: Prefetchers::new(&shape.prefetchers, &shape.caches)?,
            });
        }
        let settles = levels[0].cache.settles();
        let prefetching = !cores[0].prefetchers.is_empty();
        let directory = shape
            .interconnect
            .as_ref()
            .map(|table| Directory::new(table.protocol, shape.cores));
        let private = (0..depth).take_while(|k| shape.sharers(*k) == 1).count();
        Ok(Hierarchy {
            line_shift: shape.caches[0].line_bytes.trailing_zeros(),
            plain: !prefetching && directory.is_none(),
            shape,
            depth,
            private,
            cores,
            levels,
            settles,
            prefetching,
            directory,
            touch: Touch::default(),
            site: 0,
            addr: 0,
            prefetched: Vec::new(),
            filters: None,
        })
    }

    /// Number of levels.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// Number of cores.
    #[must_use]
    pub fn cores(&self) -> usize {
        self.cores.len()
    }

    /// `log2` of the line in bytes.
    #[inline(always)]
    #[must_use]
    pub fn line_shift(&self) -> u32 {
        self.line_shift
    }

    /// The cache of level number `level` (0 is innermost) of the first core.
    #[must_use]
    pub fn cache(&self, level: usize) -> &Cache {
        self.cache_of(0, level)
    }

    /// The cache of level number `level` (0 is innermost) of `core`.
    #[must_use]
    pub fn cache_of(&self, core: usize, level: usize) -> &Cache {
        assert!(level < self.depth, "level {level} of {}", self.depth);
        &self.levels[self.cores[core].path[level]].cache
    }

    /// Counts of all levels by the first core since the start, innermost first; the rest are zero.
    #[must_use]
    pub fn stats(&self) -> [LevelStats; MAX_LEVELS] {
        self.stats_of(0)
    }

    /// Counts of all levels by `core` since the start, innermost first; the rest are zero.
    #[must_use]
    pub fn stats_of(&self, core: usize) -> [LevelStats; MAX_LEVELS] {
        self.cores[core].counts.map(|counts| counts.stats())
    }

    /// What `core` had to do with other cores; nothing where one core is modelled.
    #[must_use]
    pub fn coherence_of(&self, core: usize) -> CoherenceStats {
        let stats = self.directory.as_ref().map(|d| d.stats(core));
        stats.unwrap_or_default()
    }

    /// Who has which line; `None` where one core is modelled.
    #[must_use]
    pub fn directory(&self) -> Option<&Directory> {
        self.directory.as_ref()
    }

    /// As [`directory`](Hierarchy::directory).
    pub fn directory_mut(&mut self) -> Option<&mut Directory> {
        self.directory.as_mut()
    }

    /// State of `line` in the private caches of `core`; one core alone is not told.
    #[must_use]
    pub fn state(&self, core: usize, line: u64) -> Option<State> {
        Some(self.directory.as_ref()?.state(core, line))
    }

    /// Why the last access of `core` missed `level`; `None` where that is not classified.
    #[must_use]
    pub fn last_cause(&self, core: usize, level: usize) -> Option<Cause> {
        self.cores[core].causes[level]
    }

    /// Lines that hardware prefetchers brought upon the last access.
    #[inline]
    #[must_use]
    pub fn prefetched(&self) -> &[Prefetched] {
        &self.prefetched
    }

    /// Whether accesses must be announced.
    #[inline(always)]
    #[must_use]
    pub fn wants_announcement(&self) -> bool {
        !self.plain
    }

    /// Say what the next access touches (for coherence), its physical address and where in the code
    /// it is made (for prefetchers).
    pub fn announce(&mut self, touch: Touch, addr: u64, site: u64) {
        (self.touch, self.addr, self.site) = (touch, addr, site);
    }

    /// When the last transfer of `line` between cores is over, in ticks.
    #[must_use]
    pub fn settled_at(&self, line: u64) -> u64 {
        self.directory.as_ref().map_or(0, |d| d.settled_at(line))
    }

    /// A transfer of `line` between cores is over at `ticks`.
    pub fn settle(&mut self, line: u64, ticks: u64) {
        if let Some(directory) = &mut self.directory {
            directory.settle(line, ticks);
        }
    }

    /// A useful prefetch into `level` of `core` came late.
    pub fn count_late(&mut self, core: usize, level: usize) {
        self.cores[core].counts[level].prefetcher.late += 1;
    }

    /// One access to `line` by the first core.
    #[inline(always)]
    pub fn access(&mut self, line: u64, kind: Kind) -> Served {
        self.access_by(0, line, kind)
    }

    /// The line that `core` used last is used again at once; `None` if that cannot be told without a
    /// look.
    #[inline(always)]
    pub fn again(&mut self, core: usize, line: u64, kind: Kind) -> Option<Served> {
        let side = &mut self.cores[core];
        if side.last.0 != line {
            return None;
        }
        side.counts[0].requests[kind as usize] += 1;
        let slot = side.last.1;
        if kind == Kind::Store {
            self.levels[side.path[0]].cache.write(slot);
        }
        Some(Served::at(0, slot))
    }

    /// One access to `line` by `core`.
    #[inline(always)]
    pub fn access_by(&mut self, core: usize, line: u64, kind: Kind) -> Served {
        if let Some(served) = self.again(core, line, kind) {
            return served;
        }
        let side = &mut self.cores[core];
        side.counts[0].requests[kind as usize] += 1;
        let level = &mut self.levels[side.path[0]];
        let store = kind == Kind::Store;
        let Some(slot) = level.cache.lookup(line, store && self.directory.is_none()) else {
            return self.miss(core, line, kind);
        };
        if let Some(shadow) = &mut level.shadow {
            let node = &mut level.nodes[slot];
            if !shadow.renew(line, *node) {
                *node = shadow.request_node(line).1;
            }
        }
        if self.plain {
            if self.settles {
                side.last = (line, slot);
            }
            return Served::at(0, slot);
        }
        self.hit(core, line, kind, slot)
    }

    /// A hit in the innermost level that prefetchers or other cores have to do with.
    #[inline(never)]
    fn hit(&mut self, core: usize, line: u64, kind: Kind, slot: usize) -> Served {
        self.prefetched.clear();
        let mut served = Served::at(0, slot);
        if self.directory.is_some() {
            served = self.hit_coherently(core, line, kind, served);
        }
        if self.prefetching && kind.is_demand() {
            let first_use = self.first_use(core, 0, slot);
            self.prefetch(core, line, 0, first_use);
            served = served.with_first_use(first_use);
        }
        served
    }

    #[inline(never)]
    fn miss(&mut self, core: usize, line: u64, kind: Kind) -> Served {
        let side = &mut self.cores[core];
        let path = side.path;
        let first = &mut self.levels[path[0]];
        let mut node = 0;
        if let Some(shadow) = &mut first.shadow {
            let (cause, of_line) = shadow.request_node(line);
            (side.causes[0], node) = (Some(cause), of_line);
            if kind.is_demand() {
                side.counts[0].causes[cause as usize] += 1;
            }
        }
        side.counts[0].misses[kind as usize] += 1;
        if self.prefetching && first.pushed_out.remove(&line) {
            side.counts[0].prefetcher.polluting += u64::from(kind.is_demand());
        }
        let mut sets = [0; MAX_LEVELS];
        let found = self.search(core, 1, line, kind, &mut sets);
        let served = found.level as usize;
        let mut dirty = found.is_dirty();
        let mut answer = Served::at(served, 0).with_first_use(found.is_first_use());
        if self.directory.is_some() {
            (dirty, answer) = self.miss_coherently(core, line, kind, dirty, answer);
        }
        for k in (1..served).rev() {
            if self.levels[path[k]].inclusion != Inclusion::Exclusive {
                self.insert(core, k, sets[k], line, std::mem::take(&mut dirty));
            }
        }
        let set = self.levels[path[0]].cache.set_of(line);
        let slot = self.insert(core, 0, set, line, dirty || kind == Kind::Store);
        if let Some(of_slot) = self.levels[path[0]].nodes.get_mut(slot) {
            *of_slot = node;
        }
        if self.plain {
            if self.settles {
                self.cores[core].last = (line, slot);
            }
        } else {
            self.prefetched.clear();
            if self.prefetching && kind.is_demand() {
                self.prefetch(core, line, served, found.is_first_use());
            }
        }
        Served {
            slot: slot as u32,
            ..answer
        }
    }

    /// Ask the levels of `core` from level `from` outwards. `sets` gets the line's set of each level
    /// asked.
    #[inline]
    pub(super) fn search(
        &mut self,
        core: usize,
        from: usize,
        line: u64,
        kind: Kind,
        sets: &mut [usize; MAX_LEVELS],
    ) -> Found {
        let side = &mut self.cores[core];
        let places = sets.iter_mut().enumerate().take(self.depth).skip(from);
        for (k, place) in places {
            let level = &mut self.levels[side.path[k]];
            let counts = &mut side.counts[k];
            counts.requests[kind as usize] += 1;
            if let Some(shadow) = &mut level.shadow {
                side.causes[k] = Some(shadow.request(line));
            }
            let set = level.cache.set_of(line);
            *place = set;
            if level.inclusion == Inclusion::Exclusive {
                if let Some(gone) = level.cache.remove(line) {
                    let first_use = gone.unused_prefetch && kind.is_demand();
                    counts.prefetcher.useful += u64::from(first_use);
                    counts.prefetcher.unused += u64::from(gone.unused_prefetch && !first_use);
                    return Found::at(k, gone.dirty, first_use);
                }
            } else if let Some(slot) = level.cache.lookup_in(set, line, false) {
                let first_use = self.prefetching && kind.is_demand();
                let first_use = first_use && level.cache.take_prefetched(slot);
                counts.prefetcher.useful += u64::from(first_use);
                return Found::at(k, false, first_use);
            }
            counts.misses[kind as usize] += 1;
            if kind.is_demand()
                && let Some(cause) = side.causes[k]
            {
                counts.causes[cause as usize] += 1;
            }
            if self.prefetching && level.pushed_out.remove(&line) {
                counts.prefetcher.polluting += u64::from(kind.is_demand());
            }
        }
        Found::at(self.depth, false, false)
    }

    /// Empty all levels; dirty lines are dropped uncounted, and so is the history of causes.
    pub fn flush(&mut self) {
        for level in &mut self.levels {
            level.cache.flush();
            level.pushed_out.clear();
            if let Some(shadow) = &mut level.shadow {
                shadow.flush();
            }
        }
        for side in &mut self.cores {
            side.last.0 = NO_LINE;
            side.prefetchers.forget();
        }
        if let Some(directory) = &mut self.directory {
            directory.flush();
        }
    }
}
