//! The data caches of one core, from the L1D outwards: what an access finds where.
//!
//! All levels are write-back and write-allocate, and all of them are asked in order until one has
//! the line. On the way back the line fills
//! - every [`NonInclusive`](machine::Inclusion::NonInclusive) and
//!   [`Inclusive`](machine::Inclusion::Inclusive) level inside the one that served it, outermost
//!   first. What an inclusive level evicts is also removed from all levels inside it (a
//!   back-invalidation); if it was dirty there, the newer data go along.
//! - no [`Exclusive`](machine::Inclusion::Exclusive) level: that one takes what the level inside it
//!   evicts, clean or dirty, and gives a line up when it is asked for it. A line that was dirty
//!   there is dirty in the outermost level that it fills.
//!
//! A dirty victim goes to the next level: it makes the line dirty there, without renewing its age,
//! or is allocated there if that level dropped it meanwhile. Lines change their level at once;
//! when the data arrive is the business of [`Core`](super::core::Core).
//!
//! Not modelled: hardware prefetch, coherence with other cores, instruction fetches and page
//! walks as users of the caches, sharing of an outer level with other cores' data, adaptive
//! replacement, lines of different sizes per level.

use super::ModelError;
use super::cache::{Cache, Victim};
use super::classify::{Cause, Shadow};
use crate::machine::{self, Inclusion};

/// Most levels that a hierarchy has.
pub const MAX_LEVELS: usize = 4;

/// What an access is to the caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A load.
    Load,
    /// A store or a locked read-modify-write: the line becomes dirty in the L1D.
    Store,
    /// A prefetch by the program.
    Prefetch,
}

/// Requests of one kind: `hits + misses = requests`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Requests that reached the level.
    pub requests: u64,
    /// Those that found their line.
    pub hits: u64,
    /// Those that went on to the next level.
    pub misses: u64,
}

impl Tally {
    fn since(self, start: Tally) -> Tally {
        Tally {
            requests: self.requests - start.requests,
            hits: self.hits - start.hits,
            misses: self.misses - start.misses,
        }
    }
}

/// Counts of one level. A request is one line of one access: what straddles two lines counts twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LevelStats {
    /// Loads.
    pub loads: Tally,
    /// Stores and locked read-modify-writes; further out, requests for ownership.
    pub stores: Tally,
    /// Prefetches by the program.
    pub prefetches: Tally,
    /// Compulsory, capacity and conflict misses of loads and stores; all 0 if the level is not
    /// classified.
    pub causes: [u64; 3],
    /// Lines that left to make room.
    pub evictions: u64,
    /// Dirty ones among them: sent to the next level or memory.
    pub writebacks: u64,
    /// Lines that this level lost because an inclusive level outside evicted them.
    pub back_invalidations: u64,
}

impl LevelStats {
    /// Misses of loads and stores.
    #[must_use]
    pub fn demand_misses(&self) -> u64 {
        self.loads.misses + self.stores.misses
    }

    /// What was counted after `start`.
    #[must_use]
    pub fn since(&self, start: &LevelStats) -> LevelStats {
        LevelStats {
            loads: self.loads.since(start.loads),
            stores: self.stores.since(start.stores),
            prefetches: self.prefetches.since(start.prefetches),
            causes: std::array::from_fn(|i| self.causes[i] - start.causes[i]),
            evictions: self.evictions - start.evictions,
            writebacks: self.writebacks - start.writebacks,
            back_invalidations: self.back_invalidations - start.back_invalidations,
        }
    }

    #[inline]
    fn of(&mut self, kind: Kind) -> &mut Tally {
        match kind {
            Kind::Load => &mut self.loads,
            Kind::Store => &mut self.stores,
            Kind::Prefetch => &mut self.prefetches,
        }
    }
}

/// Where an access found its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// 0 for the innermost level; the number of levels for memory.
    pub level: usize,
    /// Where the line now lies in the innermost level (set times ways plus way).
    pub slot: usize,
}

#[derive(Clone, Debug)]
struct Level {
    cache: Cache,
    inclusion: Inclusion,
    shadow: Option<Shadow>,
    /// Of a classified innermost level, by slot, the node of its line in `shadow`: a hit there
    /// needs no probe.
    nodes: Vec<u32>,
    stats: LevelStats,
    /// Of the last access that missed this level; `None` where not classified.
    cause: Option<Cause>,
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
            stats: LevelStats::default(),
            cause: None,
        }
    }

    #[inline]
    fn request(&mut self, line: u64, kind: Kind) {
        self.stats.of(kind).requests += 1;
        if let Some(shadow) = &mut self.shadow {
            self.cause = Some(shadow.request(line));
        }
    }

    #[inline]
    fn missed(&mut self, kind: Kind) {
        self.stats.of(kind).misses += 1;
        if kind != Kind::Prefetch
            && let Some(cause) = self.cause
        {
            self.stats.causes[cause as usize] += 1;
        }
    }
}

/// What no hierarchy can be made of.
fn check(caches: &[machine::Cache], classify: &[u8]) -> Result<(), ModelError> {
    let error = |table: String, what: String, accepted: &str| ModelError {
        table,
        what,
        accepted: accepted.into(),
    };
    let ordered = caches.windows(2).all(|w| w[0].level < w[1].level);
    if !(1..=MAX_LEVELS).contains(&caches.len()) || !ordered {
        let levels: Vec<u8> = caches.iter().map(|c| c.level).collect();
        let accepted = "one to four tables, their levels rising";
        return Err(error(
            "caches".into(),
            format!("levels {levels:?}"),
            accepted,
        ));
    }
    let first = &caches[0];
    for cache in caches {
        let table = || format!("cache level {}", cache.level);
        if cache.line_bytes != first.line_bytes {
            let what = format!("line_bytes = {}", cache.line_bytes);
            let accepted = format!("{}, as in the innermost level", first.line_bytes);
            return Err(error(table(), what, &accepted));
        }
    }
    if first.inclusion == Inclusion::Exclusive {
        let accepted = "inclusive or non-inclusive: there is no level inside it";
        return Err(error(
            format!("cache level {}", first.level),
            "inclusion = exclusive".into(),
            accepted,
        ));
    }
    if let Some(level) = classify
        .iter()
        .find(|l| caches.iter().all(|c| c.level != **l))
    {
        let accepted = "levels that the machine has";
        return Err(error(
            "options".into(),
            format!("classify level {level}"),
            accepted,
        ));
    }
    Ok(())
}

/// The caches of one core.
#[derive(Clone, Debug)]
pub struct Hierarchy {
    tables: Vec<machine::Cache>,
    levels: Vec<Level>,
    line_shift: u32,
}

fn cache_seed(table: &machine::Cache, seed: u64) -> u64 {
    seed ^ u64::from(table.level)
}

impl Hierarchy {
    /// Empty caches as `caches` says, from the core outwards. Misses of the levels (1, 2, ...)
    /// named in `classify` are told apart by cause, which costs a hash probe per request, but for
    /// hits of the innermost.
    ///
    /// # Errors
    /// If a level cannot be modelled.
    pub fn new(
        caches: &[machine::Cache],
        classify: &[u8],
        seed: u64,
    ) -> Result<Hierarchy, ModelError> {
        check(caches, classify)?;
        let of = |table| Cache::new(table, cache_seed(table, seed));
        let made = caches.iter().map(of).collect::<Result<_, _>>()?;
        Ok(Hierarchy::of(caches.to_vec(), made, classify))
    }

    /// [`new`](Hierarchy::new) with the memory of `self`, where the caches are the same: zeroing
    /// the memory of a large one takes longer than a short run on it.
    ///
    /// # Errors
    /// As those of [`new`](Hierarchy::new).
    pub fn renewed(
        self,
        caches: &[machine::Cache],
        classify: &[u8],
        seed: u64,
    ) -> Result<Hierarchy, ModelError> {
        if self.tables != caches {
            return Hierarchy::new(caches, classify, seed);
        }
        check(caches, classify)?;
        let restarted = |(mut level, table): (Level, &machine::Cache)| {
            level.cache.restart(cache_seed(table, seed));
            level.cache
        };
        let levels = self.levels.into_iter().zip(caches);
        let made = levels.map(restarted).collect();
        Ok(Hierarchy::of(self.tables, made, classify))
    }

    fn of(tables: Vec<machine::Cache>, caches: Vec<Cache>, classify: &[u8]) -> Hierarchy {
        let with_table = tables.iter().zip(caches).enumerate();
        Hierarchy {
            levels: with_table
                .map(|(k, (table, cache))| Level::new(table, cache, classify, k == 0))
                .collect(),
            line_shift: tables[0].line_bytes.trailing_zeros(),
            tables,
        }
    }

    /// Number of levels.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.levels.len()
    }

    /// `log2` of the line in bytes.
    #[inline]
    #[must_use]
    pub fn line_shift(&self) -> u32 {
        self.line_shift
    }

    /// The cache of level number `level` (0 is innermost).
    #[must_use]
    pub fn cache(&self, level: usize) -> &Cache {
        &self.levels[level].cache
    }

    /// Counts of all levels since the start, innermost first; the rest are zero.
    #[must_use]
    pub fn stats(&self) -> [LevelStats; MAX_LEVELS] {
        let mut stats = [LevelStats::default(); MAX_LEVELS];
        for (stats, level) in stats.iter_mut().zip(&self.levels) {
            *stats = level.stats;
        }
        stats
    }

    /// Why the last access missed `level`; `None` where that is not classified.
    #[must_use]
    pub fn last_cause(&self, level: usize) -> Option<Cause> {
        self.levels[level].cause
    }

    /// One access to `line`.
    #[inline(always)]
    pub fn access(&mut self, line: u64, kind: Kind) -> Served {
        let level = &mut self.levels[0];
        let tally = level.stats.of(kind);
        tally.requests += 1;
        let Some(slot) = level.cache.lookup(line, kind == Kind::Store) else {
            return self.miss(line, kind);
        };
        tally.hits += 1;
        if let Some(shadow) = &mut level.shadow {
            shadow.renew(level.nodes[slot]);
        }
        Served { level: 0, slot }
    }

    #[inline(never)]
    fn miss(&mut self, line: u64, kind: Kind) -> Served {
        let depth = self.levels.len();
        let first = &mut self.levels[0];
        let mut node = 0;
        if let Some(shadow) = &mut first.shadow {
            let (cause, of_line) = shadow.request_node(line);
            (first.cause, node) = (Some(cause), of_line);
        }
        first.missed(kind);
        let mut served = depth;
        let mut dirty = false;
        let mut sets = [0; MAX_LEVELS];
        for (k, set) in (1..depth).zip(&mut sets[1..]) {
            let level = &mut self.levels[k];
            level.request(line, kind);
            *set = level.cache.set_of(line);
            let found = match level.inclusion {
                Inclusion::Exclusive => level.cache.invalidate(line),
                Inclusion::Inclusive | Inclusion::NonInclusive => {
                    level.cache.lookup_in(*set, line, false).map(|_| false)
                }
            };
            if let Some(was_dirty) = found {
                level.stats.of(kind).hits += 1;
                (served, dirty) = (k, was_dirty);
                break;
            }
            level.missed(kind);
        }
        for k in (1..served).rev() {
            if self.levels[k].inclusion != Inclusion::Exclusive {
                self.insert(k, sets[k], line, std::mem::take(&mut dirty));
            }
        }
        let set = self.levels[0].cache.set_of(line);
        let slot = self.insert(0, set, line, dirty || kind == Kind::Store);
        if let Some(of_slot) = self.levels[0].nodes.get_mut(slot) {
            *of_slot = node;
        }
        Served {
            level: served,
            slot,
        }
    }

    /// Fill `set` of level `k` and send its victim on.
    #[inline]
    fn insert(&mut self, k: usize, set: usize, line: u64, dirty: bool) -> usize {
        let fill = self.levels[k].cache.fill_in(set, line, dirty);
        if let Some(victim) = fill.victim {
            self.evicted(k, victim);
        }
        fill.slot
    }

    /// `victim` has left level `k`.
    fn evicted(&mut self, k: usize, victim: Victim) {
        let Victim { line, mut dirty } = victim;
        self.levels[k].stats.evictions += 1;
        if self.levels[k].inclusion == Inclusion::Inclusive {
            for inner in &mut self.levels[..k] {
                if let Some(inner_dirty) = inner.cache.invalidate(line) {
                    inner.stats.back_invalidations += 1;
                    dirty |= inner_dirty;
                }
            }
        }
        self.levels[k].stats.writebacks += u64::from(dirty);
        let next = k + 1;
        let Some(level) = self.levels.get_mut(next) else {
            return;
        };
        let exclusive = level.inclusion == Inclusion::Exclusive;
        if exclusive && let Some(shadow) = &mut level.shadow {
            shadow.evicted(line);
        }
        if !(exclusive || dirty) || dirty && level.cache.write_back(line) {
            return;
        }
        if !dirty && level.cache.contains(line) {
            return;
        }
        // An exclusive level further out must not keep an older copy of what is allocated here.
        if let Some(outer) = self.levels.get_mut(next + 1)
            && outer.inclusion == Inclusion::Exclusive
        {
            outer.cache.invalidate(line);
        }
        let set = self.levels[next].cache.set_of(line);
        self.insert(next, set, line, dirty);
    }

    /// Empty all levels; dirty lines are dropped uncounted, and so is the history of causes.
    pub fn flush(&mut self) {
        for level in &mut self.levels {
            level.cache.flush();
            if let Some(shadow) = &mut level.shadow {
                shadow.flush();
            }
        }
    }
}
