//! One set-associative cache: which lines are in it, and which are dirty.
//!
//! A cache knows neither time nor its neighbours; [`Hierarchy`](super::hierarchy::Hierarchy) joins
//! several. Lines are numbers, physical address divided by `line_bytes`.

use super::ModelError;
use super::replacement::Order;
use crate::machine;

/// Where a line may be: its set, counted over all slices.
#[derive(Clone, Debug)]
struct Index {
    sets: u64,
    /// `sets - 1` where that masks, else `None`.
    set_mask: Option<u64>,
    /// `set_mask` of a cache of one slice: all that the innermost ones need.
    plain: Option<u64>,
    slices: Slices,
}

/// How a line finds its slice.
#[derive(Clone, Debug)]
enum Slices {
    /// One slice.
    One,
    /// Parity of the line bits of each mask; the set comes from the low line bits.
    Hash(Vec<u64>),
    /// Line modulo the number of slices; the set comes from the quotient, for else a slice would
    /// use only some of its sets.
    Modulo(u64),
}

impl Index {
    #[inline]
    fn set_of(&self, line: u64) -> usize {
        match self.plain {
            Some(mask) => (line & mask) as usize,
            None => self.set_in_slice(line),
        }
    }

    fn set_in_slice(&self, line: u64) -> usize {
        let (slice, line) = match &self.slices {
            Slices::One => (0, line),
            Slices::Hash(masks) => {
                let bits = masks
                    .iter()
                    .enumerate()
                    .map(|(i, mask)| u64::from((line & mask).count_ones() & 1) << i);
                (bits.sum(), line)
            }
            Slices::Modulo(slices) => (line % slices, line / slices),
        };
        let set = match self.set_mask {
            Some(mask) => line & mask,
            None => line % self.sets,
        };
        (slice * self.sets + set) as usize
    }
}

/// What had to leave for a fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Victim {
    /// Its line.
    pub line: u64,
    /// Whether it was written since it came.
    pub dirty: bool,
}

/// What a fill did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fill {
    /// Place of the line: set times ways plus way.
    pub slot: usize,
    /// What was there.
    pub victim: Option<Victim>,
}

/// `sets * slices` sets of `ways` ways with one replacement policy.
#[derive(Clone, Debug)]
pub struct Cache {
    index: Index,
    ways: usize,
    /// Per way, 0 if it holds no line, else twice (line + 1), plus 1 if dirty. Zero memory comes
    /// untouched from the allocator, so a large cache costs only what is used of it.
    entries: Vec<u64>,
    sets: Vec<Set>,
    epoch: u32,
    order: Order,
}

/// What is known of a set beside its entries.
#[derive(Clone, Copy, Debug, Default)]
struct Set {
    /// In which it was last used; a set of an older epoch is empty. Makes a flush free of charge.
    epoch: u32,
    /// Ways that hold a line.
    held: u32,
    /// Way that was used last: using it again changes no policy's state, so most hits end there.
    recent: u32,
}

#[inline]
fn key_of(line: u64) -> u64 {
    (line + 1) << 1
}

impl Cache {
    /// An empty cache of that shape. `seed` draws the victims of random replacement.
    ///
    /// # Errors
    /// If sets, ways, line or slices are zero or their combination means nothing.
    pub fn new(cache: &machine::Cache, seed: u64) -> Result<Cache, ModelError> {
        let error = |what: String, accepted: &str| {
            Err(ModelError {
                table: format!("cache level {}", cache.level),
                what,
                accepted: accepted.into(),
            })
        };
        let machine::Cache {
            sets,
            ways,
            line_bytes,
            slices,
            ..
        } = *cache;
        if sets == 0 || ways == 0 || slices == 0 {
            let what = format!("sets = {sets}, ways = {ways}, slices = {slices}");
            return error(what, "numbers from 1 on");
        }
        if !line_bytes.is_power_of_two() {
            return error(format!("line_bytes = {line_bytes}"), "a power of two");
        }
        let all_sets = u64::from(sets) * u64::from(slices);
        if all_sets > 1 << 20 || u64::from(ways) * all_sets > 1 << 28 {
            return error(
                format!("sets * slices = {all_sets}, ways = {ways}"),
                "up to 2^20 sets in all slices and 2^28 lines",
            );
        }
        let hash = &cache.slice_hash;
        let slices = if slices == 1 && hash.is_empty() {
            Slices::One
        } else if hash.is_empty() {
            Slices::Modulo(u64::from(slices))
        } else if hash.len() < 32 && 1_u64 << hash.len() == u64::from(slices) {
            let shift = line_bytes.trailing_zeros();
            if hash.iter().any(|m| m % u64::from(line_bytes) != 0) {
                return error(
                    format!("slice_hash = {hash:#x?} uses bits within the line"),
                    "address bits from that of line_bytes on",
                );
            }
            Slices::Hash(hash.iter().map(|mask| mask >> shift).collect())
        } else {
            let what = format!("{} slice_hash masks for {slices} slices", hash.len());
            return error(what, "log2(slices) masks, or none for line modulo slices");
        };
        let (all_sets, ways) = (all_sets as usize, ways as usize);
        let Some(order) = Order::new(cache.replacement, all_sets, ways, seed) else {
            return error(
                format!("ways = {ways} with replacement {:?}", cache.replacement),
                "a power of two for tree-plru, a multiple of 4 for trees-of-four-lru, any number for \
                 the others",
            );
        };
        let set_mask = sets.is_power_of_two().then(|| u64::from(sets) - 1);
        Ok(Cache {
            index: Index {
                sets: u64::from(sets),
                set_mask,
                plain: set_mask.filter(|_| matches!(slices, Slices::One)),
                slices,
            },
            ways,
            entries: vec![0; all_sets * ways],
            sets: vec![Set::default(); all_sets],
            epoch: 0,
            order,
        })
    }

    /// The set of `line`, counted over all slices.
    #[inline]
    #[must_use]
    pub fn set_of(&self, line: u64) -> usize {
        self.index.set_of(line)
    }

    /// Lines that it can hold.
    #[must_use]
    pub fn lines(&self) -> usize {
        self.entries.len()
    }

    /// Empty the set if it was last used before a flush.
    #[inline]
    fn refresh(&mut self, set: usize) {
        if self.sets[set].epoch != self.epoch {
            self.sets[set] = Set {
                epoch: self.epoch,
                ..Set::default()
            };
            self.entries[set * self.ways..(set + 1) * self.ways].fill(0);
            self.order.clear(set);
        }
    }

    #[inline]
    fn find(&self, set: usize, key: u64) -> Option<usize> {
        if self.sets[set].epoch != self.epoch {
            return None;
        }
        self.entries[set * self.ways..][..self.ways]
            .iter()
            .position(|&entry| entry & !1 == key)
    }

    /// Use `line` if it is there, and yield its slot; a write makes it dirty.
    #[inline(always)]
    pub fn lookup(&mut self, line: u64, write: bool) -> Option<usize> {
        self.lookup_in(self.set_of(line), line, write)
    }

    /// [`lookup`](Cache::lookup) in a set that the caller chose.
    #[inline(always)]
    pub fn lookup_in(&mut self, set: usize, line: u64, write: bool) -> Option<usize> {
        let (key, state) = (key_of(line), self.sets[set]);
        if state.epoch != self.epoch {
            return None;
        }
        let slot = set * self.ways + state.recent as usize;
        let entry = &mut self.entries[slot];
        if *entry & !1 == key {
            *entry |= u64::from(write);
            return Some(slot);
        }
        self.lookup_older(set, key, write)
    }

    fn lookup_older(&mut self, set: usize, key: u64, write: bool) -> Option<usize> {
        let first = set * self.ways;
        let entries = &mut self.entries[first..first + self.ways];
        let way = entries.iter().position(|&entry| entry & !1 == key)?;
        entries[way] |= u64::from(write);
        self.sets[set].recent = way as u32;
        self.order.hit(set, way);
        Some(first + way)
    }

    /// Bring in `line`, which must not be there.
    #[inline]
    pub fn fill(&mut self, line: u64, dirty: bool) -> Fill {
        self.fill_in(self.set_of(line), line, dirty)
    }

    /// [`fill`](Cache::fill) in a set that the caller chose.
    #[inline]
    pub fn fill_in(&mut self, set: usize, line: u64, dirty: bool) -> Fill {
        debug_assert!(self.find(set, key_of(line)).is_none(), "filled twice");
        self.refresh(set);
        let way = if self.sets[set].held as usize == self.ways {
            self.order.victim(set, self.ways)
        } else {
            self.sets[set].held += 1;
            let entries = &self.entries[set * self.ways..(set + 1) * self.ways];
            let vacant = self.order.vacant(set, entries);
            vacant.expect("a set that is not full has a vacant way")
        };
        self.order.filled(set, way);
        self.sets[set].recent = way as u32;
        let slot = set * self.ways + way;
        let old = std::mem::replace(&mut self.entries[slot], key_of(line) | u64::from(dirty));
        let victim = (old != 0).then(|| Victim {
            line: (old >> 1) - 1,
            dirty: old & 1 == 1,
        });
        Fill { slot, victim }
    }

    /// Remove `line`; whether it was dirty, if it was there.
    pub fn invalidate(&mut self, line: u64) -> Option<bool> {
        let set = self.set_of(line);
        let way = self.find(set, key_of(line))?;
        self.sets[set].held -= 1;
        let entry = std::mem::take(&mut self.entries[set * self.ways + way]);
        Some(entry & 1 == 1)
    }

    /// Take the data of `line` from an inner level, if it is there. Its age stays: a writeback is
    /// no use by the program.
    pub fn write_back(&mut self, line: u64) -> bool {
        let set = self.set_of(line);
        let Some(way) = self.find(set, key_of(line)) else {
            return false;
        };
        self.entries[set * self.ways + way] |= 1;
        true
    }

    /// Whether `line` is there.
    #[must_use]
    pub fn contains(&self, line: u64) -> bool {
        self.find(self.set_of(line), key_of(line)).is_some()
    }

    /// All lines that are there and whether they are dirty, set by set.
    pub fn contents(&self) -> impl Iterator<Item = (u64, bool)> + '_ {
        self.entries
            .chunks(self.ways)
            .zip(&self.sets)
            .filter(|(_, set)| set.epoch == self.epoch)
            .flat_map(|(entries, _)| entries)
            .filter(|entry| **entry != 0)
            .map(|entry| ((entry >> 1) - 1, entry & 1 == 1))
    }

    /// Empty it, dirty lines and all; replacement is back at power-up.
    pub fn flush(&mut self) {
        match self.epoch.checked_add(1) {
            Some(epoch) => self.epoch = epoch,
            None => {
                self.sets.fill(Set::default());
                self.epoch = 1;
            }
        }
    }

    /// As [`new`](Cache::new) made it, for another seed.
    pub fn restart(&mut self, seed: u64) {
        self.flush();
        self.order.reseed(seed);
    }
}
