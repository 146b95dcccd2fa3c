//! One set-associative cache: which lines are in it, which are dirty, and which a prefetcher brought.
//!
//! A cache knows neither time nor its neighbours; [`Hierarchy`](super::hierarchy::Hierarchy) joins
//! several. Lines are numbers, physical address divided by `line_bytes`.

mod block;
mod entry;
pub(super) mod filter;

use self::block::{AGES_AT, EPOCH, HELD, put_word, renew_in, word};
use self::entry::{DIRTY, FLAGS, PREFETCHED, key_of, line_of, wide_tag};
use super::ModelError;
use super::index::Index;
use super::replacement::{Order, ages};
use super::tags::position;
use crate::machine;

/// What had to leave for a fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Victim {
    /// Its line.
    pub line: u64,
    /// Whether it was written since it came.
    pub dirty: bool,
    /// Whether a prefetcher brought it and nothing asked for it.
    pub unused_prefetch: bool,
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
///
/// What a search needs of a set lies together, in a block of words of 32 bits: epoch, ways that hold
/// a line, ages (of LRU and FIFO), tags. Whole keys and flags lie elsewhere: a hit need not look at
/// them as long as the tags say all.
#[derive(Clone, Debug)]
pub struct Cache {
    index: Index,
    ways: usize,
    /// Words of a block, a power of two, and where its tags begin.
    stride: usize,
    tags_at: usize,
    /// Zero memory comes untouched from the allocator, so a large cache costs only what is used of
    /// it. A set of an older epoch than the cache's is empty: a flush is free of charge.
    blocks: Vec<u32>,
    /// Per way, 0 if it holds no line, else its key with flags.
    entries: Vec<u64>,
    epoch: u32,
    order: Order,
    /// Whether ages are in the blocks, and whether hits renew them.
    by_age: bool,
    by_use: bool,
    /// Bits of a line that its set tells; the tag has the next 32.
    tag_shift: u32,
    /// Whether a line came that has bits beyond its tag: then whole keys are compared.
    wide: bool,
}

impl Cache {
    /// An empty cache of that shape. `seed` draws what the policy draws.
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
        let index = Index::new(cache)?;
        let (all_sets, ways) = (all_sets as usize, ways as usize);
        let Some(order) = Order::new(cache.replacement, all_sets, ways, seed) else {
            return error(
                format!("ways = {ways} with replacement {}", cache.replacement),
                "a multiple of 4 for trees-of-four-lru, any number for the others",
            );
        };
        let by_age = order.by_age();
        let tags_at = AGES_AT + if by_age { 2 * ages::words(ways) } else { 0 };
        let stride = (tags_at + ways).next_power_of_two();
        Ok(Cache {
            tag_shift: index.bits_told(),
            index,
            ways,
            stride,
            tags_at,
            blocks: vec![0; all_sets * stride],
            entries: vec![0; all_sets * ways],
            epoch: 1,
            by_use: by_age && matches!(order, Order::Lru(_)),
            by_age,
            order,
            wide: false,
        })
    }

    /// The set of `line`, counted over all slices.
    #[inline(always)]
    #[must_use]
    pub fn set_of(&self, line: u64) -> usize {
        self.index.set_of(line)
    }

    /// Lines that it can hold.
    #[must_use]
    pub fn lines(&self) -> usize {
        self.entries.len()
    }

    /// Whether using the line that was used last once more changes nothing.
    #[must_use]
    pub fn settles(&self) -> bool {
        self.order.settles()
    }

    /// Empty the set if it was last used before a flush.
    #[inline(always)]
    fn refresh(&mut self, set: usize) {
        if self.blocks[set * self.stride + EPOCH] != self.epoch {
            self.empty(set);
        }
    }

    #[cold]
    fn empty(&mut self, set: usize) {
        let block = &mut self.blocks[set * self.stride..][..self.stride];
        block[EPOCH] = self.epoch;
        block[HELD] = 0;
        if self.by_age {
            for number in 0..ages::words(self.ways) {
                put_word(block, AGES_AT + 2 * number, ages::fresh(self.ways, number));
            }
        }
        block[self.tags_at..].fill(0);
        self.entries[set * self.ways..][..self.ways].fill(0);
        self.order.clear(set);
    }

    /// Whether the tag of `line`, with its set, says all of it.
    #[inline(always)]
    fn is_narrow(&self, line: u64) -> bool {
        line >> self.tag_shift < u64::from(u32::MAX)
    }

    /// Never 0, which is the tag of a vacant way.
    #[inline(always)]
    fn tag_of(&self, line: u64) -> u32 {
        match self.is_narrow(line) {
            true => (line >> self.tag_shift) as u32 + 1,
            false => wide_tag(line >> self.tag_shift),
        }
    }

    /// The way of `line` in `set`.
    #[inline(always)]
    fn find(&self, set: usize, line: u64) -> Option<usize> {
        let block = &self.blocks[set * self.stride..][..self.stride];
        if block[EPOCH] != self.epoch {
            return None;
        }
        let way = position(&block[self.tags_at..][..self.ways], self.tag_of(line))?;
        if !self.wide || self.entries[set * self.ways + way] & !FLAGS == key_of(line) {
            return Some(way);
        }
        self.find_by_key(set, line)
    }

    /// The way of `line` in `set`, where a tag was found that need not be its.
    #[cold]
    fn find_by_key(&self, set: usize, line: u64) -> Option<usize> {
        let entries = &self.entries[set * self.ways..][..self.ways];
        let key = key_of(line);
        entries.iter().position(|entry| entry & !FLAGS == key)
    }

    /// `way` of `set` becomes the youngest.
    #[inline(always)]
    fn renew(&mut self, set: usize, way: usize) {
        let block = &mut self.blocks[set * self.stride..][..self.stride];
        renew_in(block, ages::words(self.ways), way);
    }

    /// Where `line` is, without using it.
    #[must_use]
    pub fn slot_of(&self, line: u64) -> Option<usize> {
        let set = self.set_of(line);
        Some(set * self.ways + self.find(set, line)?)
    }

    /// Use `line` if it is there, and yield its slot; a write makes it dirty.
    #[inline(always)]
    pub fn lookup(&mut self, line: u64, write: bool) -> Option<usize> {
        self.lookup_in(self.set_of(line), line, write)
    }

    /// [`lookup`](Cache::lookup) in a set that the caller chose.
    #[inline(always)]
    pub fn lookup_in(&mut self, set: usize, line: u64, write: bool) -> Option<usize> {
        let way = self.find(set, line)?;
        if self.by_use {
            self.renew(set, way);
        } else {
            self.order.hit(set, way);
        }
        let slot = set * self.ways + way;
        if write {
            self.entries[slot] |= DIRTY;
        }
        Some(slot)
    }

    /// Write to the line in `slot` once more.
    #[inline(always)]
    pub fn write(&mut self, slot: usize) {
        self.entries[slot] |= DIRTY;
    }

    /// Bring in `line`, which must not be there.
    #[inline]
    pub fn fill(&mut self, line: u64, dirty: bool) -> Fill {
        self.fill_in(self.set_of(line), line, dirty)
    }

    /// [`fill`](Cache::fill) in a set that the caller chose.
    #[inline(always)]
    pub fn fill_in(&mut self, set: usize, line: u64, dirty: bool) -> Fill {
        debug_assert!(self.find(set, line).is_none(), "filled twice");
        self.refresh(set);
        let way = self.place(set);
        let tag = self.tag_of(line);
        self.wide |= !self.is_narrow(line);
        let slot = set * self.ways + way;
        self.blocks[set * self.stride + self.tags_at + way] = tag;
        let old = std::mem::replace(&mut self.entries[slot], key_of(line) | u64::from(dirty));
        let victim = (old != 0).then(|| Victim {
            line: line_of(old),
            dirty: old & DIRTY != 0,
            unused_prefetch: old & PREFETCHED != 0,
        });
        Fill { slot, victim }
    }

    /// Choose the way to fill of `set`, and make it the youngest.
    #[inline(always)]
    fn place(&mut self, set: usize) -> usize {
        if !self.by_age {
            return self.place_by_order(set);
        }
        // Vacant ways are the oldest, so that they are filled first.
        let block = &mut self.blocks[set * self.stride..][..self.stride];
        let words = ages::words(self.ways);
        let oldest = self.ways as u64 - 1;
        let mut way = 0;
        for number in (0..words).rev() {
            let marks = ages::of_age(word(block, AGES_AT + 2 * number), oldest);
            way = if marks == 0 {
                way
            } else {
                8 * number + ages::first(marks)
            };
        }
        renew_in(block, words, way);
        way
    }

    #[inline(never)]
    fn place_by_order(&mut self, set: usize) -> usize {
        let held = &mut self.blocks[set * self.stride + HELD];
        let full = *held as usize == self.ways;
        *held += u32::from(!full);
        let entries = &self.entries[set * self.ways..][..self.ways];
        let way = self.order.place(set, entries, full);
        self.order.filled(set, way);
        way
    }

    /// A prefetcher brought the line in `slot`.
    pub fn mark_prefetched(&mut self, slot: usize) {
        self.entries[slot] |= PREFETCHED;
    }

    /// The line in `slot` is asked for; whether a prefetcher had brought it and this is the first
    /// time.
    #[inline]
    pub fn take_prefetched(&mut self, slot: usize) -> bool {
        let prefetched = self.entries[slot] & PREFETCHED != 0;
        self.entries[slot] &= !PREFETCHED;
        prefetched
    }

    /// Remove `line`; what is known of it, if it was there.
    pub fn remove(&mut self, line: u64) -> Option<Victim> {
        let set = self.set_of(line);
        let way = self.find(set, line)?;
        self.vacate(set, way);
        let entry = std::mem::take(&mut self.entries[set * self.ways + way]);
        Some(Victim {
            line,
            dirty: entry & DIRTY != 0,
            unused_prefetch: entry & PREFETCHED != 0,
        })
    }

    /// `way` of `set` holds no line from now on.
    fn vacate(&mut self, set: usize, way: usize) {
        let block = &mut self.blocks[set * self.stride..][..self.stride];
        block[self.tags_at + way] = 0;
        if !self.by_age {
            block[HELD] -= 1;
            return;
        }
        let at = AGES_AT + way / 8 * 2;
        let age = ages::age(word(block, at), way % 8);
        for number in 0..ages::words(self.ways) {
            let at = AGES_AT + 2 * number;
            put_word(block, at, ages::lowered_above(word(block, at), age));
        }
        let oldest = ages::with_age(word(block, at), way % 8, self.ways as u64 - 1);
        put_word(block, at, oldest);
    }

    /// The data of `line` are written back: it is clean from now on. Whether it was dirty.
    pub fn clean(&mut self, line: u64) -> bool {
        let Some(slot) = self.slot_of(line) else {
            return false;
        };
        let dirty = self.entries[slot] & DIRTY != 0;
        self.entries[slot] &= !DIRTY;
        dirty
    }

    /// Take the data of `line` from an inner level, if it is there. Its age stays: a writeback is
    /// no use by the program.
    pub fn write_back(&mut self, line: u64) -> bool {
        let Some(slot) = self.slot_of(line) else {
            return false;
        };
        self.entries[slot] |= DIRTY;
        true
    }

    /// Whether `line` is there.
    #[must_use]
    pub fn contains(&self, line: u64) -> bool {
        self.slot_of(line).is_some()
    }

    /// All lines that are there and whether they are dirty, set by set.
    pub fn contents(&self) -> impl Iterator<Item = (u64, bool)> + '_ {
        self.entries
            .chunks(self.ways)
            .zip(self.blocks.chunks(self.stride))
            .filter(|(_, block)| block[EPOCH] == self.epoch)
            .flat_map(|(entries, _)| entries)
            .filter(|entry| **entry != 0)
            .map(|entry| (line_of(*entry), entry & DIRTY != 0))
    }

    /// Empty it, dirty lines and all; replacement is back at power-up.
    pub fn flush(&mut self) {
        match self.epoch.checked_add(1) {
            Some(epoch) => self.epoch = epoch,
            None => {
                self.blocks.fill(0);
                self.epoch = 1;
            }
        }
    }

    /// As [`new`](Cache::new) made it, for another seed.
    pub fn restart(&mut self, seed: u64) {
        self.flush();
        self.wide = false;
        self.order.reseed(seed);
    }
}
