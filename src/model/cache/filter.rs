//! A cache works on many requests at once, in order: what it misses, and what it evicts dirty, is asked
//! of the next level.

use super::Cache;
use super::block::{AGES_AT, EPOCH, put_word, renew_in, word};
use super::entry::{DIRTY, FLAGS, key_of, line_of, wide_tag};
use crate::model::block::{Request, Requests};
use crate::model::replacement::ages;
use crate::model::stats::Counts;
use crate::model::tags::{fetch_ahead, position};

/// Requests whose sets are looked up, and fetched, ahead of the search.
const AHEAD: usize = 64;

/// Where a level writes how requests fared.
pub(in crate::model) struct Outcome<'b> {
    /// By request; of the innermost level only.
    pub slots: &'b mut [u32],
    /// By request to the innermost level.
    pub levels: &'b mut [u8],
    pub number: u8,
    /// What the next level is asked for.
    pub next: &'b mut Requests,
}

impl Outcome<'_> {
    /// A request that was found, or not, is in `slot` now.
    #[inline(always)]
    fn note(&mut self, i: usize, origin: u32, slot: usize, missed: bool) {
        if self.number == 0 {
            self.slots[i] = slot as u32;
        }
        self.levels[origin as usize] = self.number + u8::from(missed);
    }
}

/// Some of a level's requests.
#[derive(Clone, Copy)]
struct Chunk<'b> {
    requests: &'b [Request],
    origins: &'b [u32],
    sets: &'b [u32],
    /// Requests of the block before these.
    done: usize,
}

impl<'b> Chunk<'b> {
    /// Number, request, origin and set of each.
    #[inline(always)]
    fn all(self) -> impl Iterator<Item = (usize, Request, u32, usize)> + use<'b> {
        let both = self.requests.iter().zip(self.origins).zip(self.sets);
        both.enumerate().map(move |(i, ((request, origin), set))| {
            (self.done + i, *request, *origin, *set as usize)
        })
    }
}

impl Cache {
    /// Work on `requests`, in order; `origins` says to which of the innermost level's each belongs.
    pub(in crate::model) fn filter<const NOTED: bool>(
        &mut self,
        requests: &[Request],
        origins: &[u32],
        mut outcome: Outcome,
        counts: &mut Counts,
    ) {
        let all = requests.iter().fold(0, |all, request| all | request.line());
        self.wide |= !self.is_narrow(all);
        let mut sets = [0; AHEAD];
        let mut done = 0;
        for (requests, origins) in requests.chunks(AHEAD).zip(origins.chunks(AHEAD)) {
            let sets = &mut sets[..requests.len()];
            self.look_ahead(requests, sets);
            let chunk = Chunk {
                requests,
                origins,
                sets,
                done,
            };
            match self.wide {
                false => self.filter_chunk::<NOTED, false>(chunk, &mut outcome, counts),
                true => self.filter_chunk::<NOTED, true>(chunk, &mut outcome, counts),
            }
            done += requests.len();
        }
    }

    fn filter_chunk<const NOTED: bool, const WIDE: bool>(
        &mut self,
        chunk: Chunk,
        outcome: &mut Outcome,
        counts: &mut Counts,
    ) {
        match (self.by_use, self.ways, self.stride) {
            (true, 4, 8) => self.filter_lru::<4, 8, NOTED, WIDE>(chunk, outcome, counts),
            (true, 8, 16) => self.filter_lru::<8, 16, NOTED, WIDE>(chunk, outcome, counts),
            (true, 12, 32) => self.filter_lru::<12, 32, NOTED, WIDE>(chunk, outcome, counts),
            (true, 16, 32) => self.filter_lru::<16, 32, NOTED, WIDE>(chunk, outcome, counts),
            _ => self.filter_any(chunk, outcome, counts),
        }
    }

    /// The sets of `requests`, which are fetched if they are not near anyway.
    fn look_ahead(&self, requests: &[Request], sets: &mut [u32]) {
        self.index
            .sets_of(requests.iter().map(|request| request.line()), sets);
        if self.blocks.len() < NEAR {
            return;
        }
        for set in sets {
            let at = *set as usize * self.stride;
            fetch_ahead(&self.blocks, at);
            fetch_ahead(&self.blocks, at + 16);
            fetch_ahead(&self.entries, *set as usize * self.ways);
            fetch_ahead(&self.entries, *set as usize * self.ways + 8);
        }
    }

    fn filter_any(&mut self, chunk: Chunk, outcome: &mut Outcome, counts: &mut Counts) {
        for (i, request, origin, set) in chunk.all() {
            let (line, dirty) = (request.line(), request.is_dirty());
            if request.is_writeback() {
                if self.write_back(line) {
                    continue;
                }
            } else if let Some(slot) = self.lookup_in(set, line, dirty) {
                outcome.note(i, origin, slot, false);
                continue;
            } else {
                counts.misses[request.kind()] += 1;
                outcome.next.push(request.outwards(), origin);
            }
            let fill = self.fill_in(set, line, dirty);
            if !request.is_writeback() {
                outcome.note(i, origin, fill.slot, true);
            }
            if let Some(victim) = fill.victim {
                counts.evictions += 1;
                if victim.dirty {
                    counts.writebacks += 1;
                    outcome.next.push(Request::writeback(victim.line), origin);
                }
            }
        }
    }

    /// As [`filter_any`](Cache::filter_any), for LRU of `WAYS` ways. Unless lines are `WIDE`, their tags
    /// say all of them.
    fn filter_lru<const WAYS: usize, const STRIDE: usize, const NOTED: bool, const WIDE: bool>(
        &mut self,
        chunk: Chunk,
        outcome: &mut Outcome,
        counts: &mut Counts,
    ) {
        let words = const { ages::words(WAYS) };
        let tags_at = const { AGES_AT + 2 * ages::words(WAYS) };
        let (blocks, _) = self.blocks.as_chunks_mut::<STRIDE>();
        let (entries, _) = self.entries.as_chunks_mut::<WAYS>();
        let (shift, epoch) = (self.tag_shift, self.epoch);
        for (i, request, origin, set) in chunk.all() {
            let (block, entries) = (&mut blocks[set], &mut entries[set]);
            if block[EPOCH] != epoch {
                (*block, *entries) = ([0; STRIDE], [0; WAYS]);
                block[EPOCH] = epoch;
                for number in 0..words {
                    put_word(block, AGES_AT + 2 * number, ages::fresh(WAYS, number));
                }
            }
            let line = request.line();
            let rest = line >> shift;
            let tag = match WIDE && rest >= u64::from(u32::MAX) {
                true => wide_tag(rest),
                false => rest as u32 + 1,
            };
            let mut found = position(&block[tags_at..tags_at + WAYS], tag);
            if WIDE
                && let Some(way) = found
                && entries[way] & !FLAGS != key_of(line)
            {
                found = entries
                    .iter()
                    .position(|entry| entry & !FLAGS == key_of(line));
            }
            if let Some(way) = found {
                if request.is_plain() {
                    renew_in(block, words, way);
                } else if request.is_writeback() {
                    entries[way] |= DIRTY;
                    continue;
                } else {
                    entries[way] |= DIRTY;
                    renew_in(block, words, way);
                }
                if NOTED {
                    outcome.note(i, origin, set * WAYS + way, false);
                }
                continue;
            }
            let mut way = 0;
            for number in (0..words).rev() {
                let marks = ages::of_age(word(block, AGES_AT + 2 * number), WAYS as u64 - 1);
                way = match marks {
                    0 => way,
                    _ => 8 * number + ages::first(marks),
                };
            }
            renew_in(block, words, way);
            block[tags_at + way] = tag;
            let dirty = u64::from(request.is_dirty());
            let old = std::mem::replace(&mut entries[way], key_of(line) | dirty);
            if !request.is_writeback() {
                counts.misses[request.kind()] += 1;
                outcome.next.push(request.outwards(), origin);
                if NOTED {
                    outcome.note(i, origin, set * WAYS + way, true);
                }
            }
            if old != 0 {
                counts.evictions += 1;
                if old & DIRTY != 0 {
                    counts.writebacks += 1;
                    outcome.next.push(Request::writeback(line_of(old)), origin);
                }
            }
        }
    }
}

/// Words of blocks that the processor's own caches hold anyway: those of a small L1D.
const NEAR: usize = 4096;
