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

mod access;
mod bring;
mod coherently;
mod evict;
mod filter;
mod level;
mod served;

use self::filter::Filters;
use self::level::Level;
use self::served::Found;
pub use self::served::{Distance, Prefetched, Served};
use super::ModelError;
use super::cache::Cache;
use super::classify::Cause;
use super::coherence::{CoherenceStats, Directory, State, Touch};
use super::prefetch::Prefetchers;
use super::shape::Shape;
use super::stats::Counts;
pub use super::stats::{Kind, LevelStats, MAX_LEVELS, PrefetchStats, Tally};
use crate::machine;

/// What a core has of the hierarchy.
#[derive(Clone, Debug)]
pub(super) struct Side {
    /// By level, its cache in `caches`.
    path: [usize; MAX_LEVELS],
    pub(super) counts: [Counts; MAX_LEVELS],
    /// Of the last access that missed each level; `None` where not classified.
    causes: [Option<Cause>; MAX_LEVELS],
    /// The line that it used last, and its slot: using it again changes nothing.
    last: (u64, usize),
    prefetchers: Prefetchers,
}

const NO_LINE: u64 = u64::MAX;

/// The caches of all cores.
#[derive(Clone, Debug)]
pub struct Hierarchy {
    shape: Shape,
    depth: usize,
    /// Leading levels that each core has for itself.
    private: usize,
    pub(super) cores: Vec<Side>,
    /// Level by level, those of the first core first.
    levels: Vec<Level>,
    line_shift: u32,
    /// Whether a hit is all there is to an access that hits, and a repeated one changes nothing.
    plain: bool,
    pub(super) settles: bool,
    prefetching: bool,
    directory: Option<Directory>,
    /// What the next access touches, for coherence, and where it is made, for prefetchers.
    touch: Touch,
    site: u64,
    addr: u64,
    prefetched: Vec<Prefetched>,
    /// Made when many requests first come at once.
    filters: Option<Box<Filters>>,
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
