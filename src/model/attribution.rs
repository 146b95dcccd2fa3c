//! Whose misses they are: counts and cycles by function, field, line, set, level and cause.
//!
//! Every load or store that misses a level makes one count in that level's row; prefetches are
//! nobody's wait and are not booked. The cycles of a row are its misses times the latency that one
//! miss adds: of a cache, the next level's latency (or memory's) minus its own, of that access; of
//! a TLB, what the miss adds to the access. So the rows of one access sum up to its latency beyond
//! that of an L1D and DTLB hit. The core overlaps accesses: the sum over all rows is an upper bound
//! of what taking the misses away can save, not a share of the run's cycles.

use super::classify::Cause;
use super::core::cycles_of;
use super::tags::fetch_ahead;

/// What missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MissLevel {
    /// The data cache of that level (1 is the L1D).
    Cache(u8),
    /// The first-level data TLB.
    Dtlb,
    /// The second-level TLB.
    Stlb,
}

impl MissLevel {
    /// As `attribution.csv` names it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            MissLevel::Cache(1) => "l1d",
            MissLevel::Cache(2) => "l2",
            MissLevel::Cache(3) => "l3",
            MissLevel::Cache(_) => "l4",
            MissLevel::Dtlb => "dtlb",
            MissLevel::Stlb => "stlb",
        }
    }

    fn code(self) -> u64 {
        match self {
            MissLevel::Cache(level) => u64::from(level),
            MissLevel::Dtlb => 6,
            MissLevel::Stlb => 7,
        }
    }

    fn of_code(code: u64) -> MissLevel {
        match code {
            6 => MissLevel::Dtlb,
            7 => MissLevel::Stlb,
            level => MissLevel::Cache(level as u8),
        }
    }
}

/// Misses of one field in one set for one cause.
#[derive(Clone, Debug, PartialEq)]
pub struct MissRow {
    /// Index in the kernel's table of functions.
    pub function: u16,
    /// Index in the kernel's table of `(struct, field)`.
    pub field: u16,
    /// Line within the object, counted from its start.
    pub line: u32,
    /// Set of the cache (over all slices) or TLB.
    pub set: u32,
    /// What missed.
    pub level: MissLevel,
    /// Why; `None` where the level is not classified.
    pub cause: Option<Cause>,
    /// How often.
    pub misses: u64,
    /// Latency that these misses added, in cycles: an upper bound of their cost.
    pub cycles: f64,
}

/// Stands for a number that a kernel's table lacks, so that totals still add up.
pub const UNNAMED: &str = "(unnamed)";

impl MissRow {
    /// Function, struct and field by name, from the kernel's tables.
    #[must_use]
    pub fn names<'n>(
        &self,
        functions: &[&'n str],
        fields: &[(&'n str, &'n str)],
    ) -> (&'n str, &'n str, &'n str) {
        let function = functions.get(usize::from(self.function));
        let (owner, field) = fields
            .get(usize::from(self.field))
            .copied()
            .unwrap_or((UNNAMED, UNNAMED));
        (function.copied().unwrap_or(UNNAMED), owner, field)
    }
}

/// Functions and fields that a table can tell apart.
pub const FUNCTIONS: u16 = 1 << 10;
/// As [`FUNCTIONS`].
pub const FIELDS: u16 = 1 << 12;
/// Lines within an object that are told apart; all from the last on share its row.
pub const OBJECT_LINES: u32 = 1 << 16;
/// Sets that are told apart.
pub const SETS: u32 = 1 << 20;

/// What a miss is booked under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MissKey {
    /// As in [`MissRow`].
    pub function: u16,
    /// As in [`MissRow`].
    pub field: u16,
    /// As in [`MissRow`].
    pub line: u32,
    /// As in [`MissRow`].
    pub set: u32,
    /// As in [`MissRow`].
    pub level: MissLevel,
    /// As in [`MissRow`].
    pub cause: Option<Cause>,
}

impl MissKey {
    /// 10 bits function, 12 field, 16 line, 3 level, 20 set, 3 cause.
    pub(super) fn pack(self) -> u64 {
        assert!(
            self.function < FUNCTIONS && self.field < FIELDS && self.set < SETS,
            "a kernel has at most {FUNCTIONS} functions and {FIELDS} fields, a cache {SETS} sets"
        );
        let cause = match self.cause {
            None => 0,
            Some(Cause::Compulsory) => 1,
            Some(Cause::Capacity) => 2,
            Some(Cause::Conflict) => 3,
            Some(Cause::Translation) => 4,
            Some(Cause::TrueSharing) => 5,
            Some(Cause::FalseSharing) => 6,
        };
        u64::from(self.function) << 54
            | u64::from(self.field) << 42
            | u64::from(self.line.min(OBJECT_LINES - 1)) << 26
            | self.level.code() << 23
            | u64::from(self.set) << 3
            | cause
    }

    fn unpack(key: u64) -> MissKey {
        let bits = |from: u32, count: u32| key >> from & ((1 << count) - 1);
        MissKey {
            function: bits(54, 10) as u16,
            field: bits(42, 12) as u16,
            line: bits(26, 16) as u32,
            level: MissLevel::of_code(bits(23, 3)),
            set: bits(3, 20) as u32,
            cause: match bits(0, 3) {
                0 => None,
                1 => Some(Cause::Compulsory),
                2 => Some(Cause::Capacity),
                3 => Some(Cause::Conflict),
                4 => Some(Cause::Translation),
                5 => Some(Cause::TrueSharing),
                _ => Some(Cause::FalseSharing),
            },
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    key: u64,
    misses: u64,
    ticks: u64,
}

/// The table that misses are booked in. Memory grows with the number of distinct rows, and only
/// then.
#[derive(Clone, Debug)]
pub struct Attribution {
    /// Open addressing; `misses == 0` is free.
    table: Vec<Entry>,
    used: usize,
}

impl Default for Attribution {
    fn default() -> Attribution {
        Attribution {
            table: vec![Entry::default(); 1 << 12],
            used: 0,
        }
    }
}

impl Attribution {
    #[inline(always)]
    fn home(&self, key: u64) -> usize {
        let bits = self.table.len().trailing_zeros();
        (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - bits)) as usize
    }

    #[inline(always)]
    fn place(&self, key: u64) -> usize {
        let mut at = self.home(key);
        while self.table[at].misses != 0 && self.table[at].key != key {
            at = (at + 1) & (self.table.len() - 1);
        }
        at
    }

    /// Book one miss that added `ticks`.
    ///
    /// # Panics
    /// If function, field or set are beyond what a table can tell apart.
    pub fn book(&mut self, key: MissKey, ticks: u64) {
        self.book_packed(key.pack(), ticks);
    }

    /// Book one miss for each packed key with the ticks that it added; they are taken.
    pub(super) fn book_all(&mut self, misses: &mut Vec<(u64, u64)>) {
        for (key, _) in misses.iter() {
            fetch_ahead(&self.table, self.home(*key));
        }
        for (key, ticks) in misses.drain(..) {
            self.book_packed(key, ticks);
        }
    }

    #[inline]
    fn book_packed(&mut self, key: u64, ticks: u64) {
        let mut at = self.place(key);
        if self.table[at].misses == 0 {
            self.used += 1;
            if 2 * self.used > self.table.len() {
                let larger = vec![Entry::default(); 2 * self.table.len()];
                let old = std::mem::replace(&mut self.table, larger);
                for entry in old.into_iter().filter(|e| e.misses != 0) {
                    let at = self.place(entry.key);
                    self.table[at] = entry;
                }
                at = self.place(key);
            }
        }
        let entry = &mut self.table[at];
        entry.key = key;
        entry.misses += 1;
        entry.ticks += ticks;
    }

    /// All rows, by function, field, line, level, set, cause.
    #[must_use]
    pub fn rows(&self) -> Vec<MissRow> {
        let mut entries: Vec<&Entry> = self.table.iter().filter(|e| e.misses != 0).collect();
        entries.sort_unstable_by_key(|entry| entry.key);
        let row = |entry: &Entry| {
            let key = MissKey::unpack(entry.key);
            MissRow {
                function: key.function,
                field: key.field,
                line: key.line,
                set: key.set,
                level: key.level,
                cause: key.cause,
                misses: entry.misses,
                cycles: cycles_of(entry.ticks),
            }
        };
        entries.into_iter().map(row).collect()
    }

    /// Forget all.
    pub fn clear(&mut self) {
        self.table.fill(Entry::default());
        self.used = 0;
    }
}
