//! Data TLBs: which pages' translations are at hand, and what a missing one costs.
//!
//! True LRU. A miss of the first level (DTLB) adds the second's (STLB's) latency; a miss of both
//! needs a page walk on top of it, whose loads are the business of [`Walker`](super::walk::Walker)
//! and the caches. Without a second level for the page size, a DTLB miss walks. A page that misses
//! enters both levels. A machine without any TLB table translates for nothing.
//!
//! Not modelled: entries that cover coalesced pages, an STLB that holds only DTLB victims.

use super::ModelError;
use super::attribution::MissLevel;
use super::cache::Cache;
use super::core::ticks_of;
use crate::machine::{self, Confidence, Inclusion, Replacement};

/// Misses of translations; one request per access and page (a straddling access makes two).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TlbStats {
    /// Translations asked for.
    pub requests: u64,
    /// Not in the DTLB.
    pub dtlb_misses: u64,
    /// Not in the STLB either: page walks. Equal to `dtlb_misses` where there is no STLB.
    pub walks: u64,
}

impl TlbStats {
    /// What was counted after `start`.
    #[must_use]
    pub fn since(self, start: TlbStats) -> TlbStats {
        TlbStats {
            requests: self.requests - start.requests,
            dtlb_misses: self.dtlb_misses - start.dtlb_misses,
            walks: self.walks - start.walks,
        }
    }
}

/// What a translation cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Translation {
    /// Levels that missed: 0, 1 (DTLB) or 2 (a page walk).
    pub missed: u8,
    /// Latency that the access gains at the second level, in ticks.
    pub ticks: u64,
    /// Latency of the walk.
    pub walk_ticks: u64,
}

impl Translation {
    /// Latency that the access gains, in ticks.
    #[inline(always)]
    #[must_use]
    pub fn all_ticks(self) -> u64 {
        self.ticks + self.walk_ticks
    }

    /// The levels that missed and what each adds, in ticks; `second`: there is an STLB.
    pub(super) fn rows(self, second: bool) -> impl Iterator<Item = (MissLevel, u64)> {
        let first = if second { self.ticks } else { self.walk_ticks };
        let rows = [(MissLevel::Dtlb, first), (MissLevel::Stlb, self.walk_ticks)];
        let most = if second { 2 } else { 1 };
        rows.into_iter().take(usize::from(self.missed).min(most))
    }
}

#[derive(Clone, Debug)]
struct Level {
    sets: u64,
    set_mask: Option<u64>,
    entries: Cache,
    ticks: u64,
}

/// Keeps pages of both classes apart that share entries.
const CLASS_SHIFT: u32 = 56;

#[inline]
fn key_of(class: usize, page: u64) -> u64 {
    page | (class as u64) << CLASS_SHIFT
}

/// No page's key.
const NO_PAGE: u64 = u64::MAX;

impl Level {
    fn new(tlb: &machine::Tlb) -> Result<Level, ModelError> {
        let table = machine::Cache {
            level: tlb.level,
            sets: tlb.sets,
            ways: tlb.ways,
            line_bytes: 1,
            slices: 1,
            slice_hash: Vec::new(),
            replacement: Replacement::Lru,
            inclusion: Inclusion::NonInclusive,
            latency_cycles: 0.0,
            outstanding_misses: 1,
            shared_by_cores: 1,
            source: String::new(),
            confidence: Confidence::Inferred,
        };
        let entries = Cache::new(&table, 0).map_err(|e| ModelError {
            table: format!("TLB level {}", tlb.level),
            ..e
        })?;
        Ok(Level {
            sets: u64::from(tlb.sets),
            set_mask: tlb.sets.is_power_of_two().then(|| u64::from(tlb.sets) - 1),
            entries,
            ticks: ticks_of(f64::from(tlb.latency_cycles)),
        })
    }

    #[inline]
    fn set_of(&self, page: u64) -> usize {
        match self.set_mask {
            Some(mask) => (page & mask) as usize,
            None => (page % self.sets) as usize,
        }
    }

    #[inline]
    fn hit_or_fill(&mut self, class: usize, page: u64) -> bool {
        let (set, key) = (self.set_of(page), key_of(class, page));
        let hit = self.entries.lookup_in(set, key, false).is_some();
        if !hit {
            self.entries.fill_in(set, key, false);
        }
        hit
    }
}

/// All data TLBs of one core.
#[derive(Clone, Debug)]
pub struct Tlbs {
    levels: Vec<Level>,
    /// By page class: its DTLB and its STLB in `levels`.
    of_class: [Option<(usize, Option<usize>)>; 2],
    /// By group of DTLB sets, the page last asked for (with its class): it is the youngest of its
    /// set there, and asking again changes nothing.
    recent: Vec<u64>,
    /// By class, its first group and the bits of a page number that tell its groups apart.
    groups: [(usize, u64); 2],
    stats: TlbStats,
}

impl Tlbs {
    /// The TLBs of `machine` for pages of these sizes, by class.
    ///
    /// # Errors
    /// If the machine has TLBs, but not exactly one first-level one for each size.
    pub fn new(machine: &machine::Machine, page_bytes: [u64; 2]) -> Result<Tlbs, ModelError> {
        let levels = machine
            .tlbs
            .iter()
            .map(Level::new)
            .collect::<Result<Vec<_>, _>>()?;
        let find = |level: u8, bytes: u64| {
            let mut with = machine.tlbs.iter().enumerate().filter_map(|(i, t)| {
                (t.level == level && t.page_bytes.contains(&bytes)).then_some(i)
            });
            (with.next(), with.count())
        };
        let error = |level: u8, what: String, accepted: &str| {
            Err(ModelError {
                table: format!("TLB level {level}"),
                what,
                accepted: accepted.into(),
            })
        };
        if let Some(tlb) = machine.tlbs.iter().find(|t| !(1..=2).contains(&t.level)) {
            return error(tlb.level, format!("level = {}", tlb.level), "1 or 2 (STLB)");
        }
        let mut of_class = [None; 2];
        for (class, bytes) in page_bytes.into_iter().enumerate() {
            if machine.tlbs.is_empty() {
                break;
            }
            let ((first, firsts), (second, seconds)) = (find(1, bytes), find(2, bytes));
            if firsts + seconds > 0 {
                let level = if firsts > 0 { 1 } else { 2 };
                let what = format!("pages of {bytes} bytes are in several tables");
                return error(level, what, "one table per level that lists a page size");
            }
            let Some(first) = first else {
                let what = format!("no table lists pages of {bytes} bytes");
                return error(
                    1,
                    what,
                    "one that does, or no TLB at all (translation is then free)",
                );
            };
            of_class[class] = Some((first, second));
        }
        // Classes that share a DTLB share its groups.
        let mut groups = [(0, 0); 2];
        let mut recent = 1;
        for (i, level) in levels.iter().enumerate() {
            let users = of_class.map(|tlbs| tlbs.is_some_and(|(first, _)| first == i));
            let mask = level.set_mask.unwrap_or(0);
            for (group, uses) in groups.iter_mut().zip(users) {
                if uses {
                    *group = (recent, mask);
                }
            }
            recent += mask as usize + 1;
        }
        Ok(Tlbs {
            levels,
            recent: vec![NO_PAGE; recent],
            groups,
            of_class,
            stats: TlbStats::default(),
        })
    }

    /// Translate `page` of `class`.
    #[inline(always)]
    pub fn translate(&mut self, class: usize, page: u64) -> Translation {
        self.stats.requests += 1;
        let (first, mask) = self.groups[class];
        let recent = &mut self.recent[first + (page & mask) as usize];
        let key = key_of(class, page);
        if *recent == key {
            return Translation::default();
        }
        *recent = key;
        self.search(class, page)
    }

    fn search(&mut self, class: usize, page: u64) -> Translation {
        let Some((first, second)) = self.of_class[class] else {
            return Translation::default();
        };
        if self.levels[first].hit_or_fill(class, page) {
            return Translation::default();
        }
        self.stats.dtlb_misses += 1;
        let mut ticks = 0;
        if let Some(second) = second {
            let stlb = &mut self.levels[second];
            ticks = stlb.ticks;
            if stlb.hit_or_fill(class, page) {
                return Translation {
                    missed: 1,
                    ticks,
                    walk_ticks: 0,
                };
            }
        }
        self.stats.walks += 1;
        Translation {
            missed: 2,
            ticks,
            walk_ticks: 0,
        }
    }

    /// The page translated last is needed again, so often.
    #[inline(always)]
    pub fn again(&mut self, times: u64) {
        self.stats.requests += times;
    }

    /// Set of `page` in the first (0) or second (1) level.
    #[must_use]
    pub fn set_of(&self, level: usize, class: usize, page: u64) -> usize {
        match (level, self.of_class[class]) {
            (0, Some((first, _))) => self.levels[first].set_of(page),
            (_, Some((_, Some(second)))) => self.levels[second].set_of(page),
            _ => 0,
        }
    }

    /// Whether pages of `class` have an STLB.
    #[must_use]
    pub fn has_second(&self, class: usize) -> bool {
        matches!(self.of_class[class], Some((_, Some(_))))
    }

    /// Counts since the start.
    #[must_use]
    pub fn stats(&self) -> TlbStats {
        self.stats
    }

    /// Empty all of them.
    pub fn flush(&mut self) {
        self.recent.fill(NO_PAGE);
        for level in &mut self.levels {
            level.entries.flush();
        }
    }
}
