//! Stores on their way: the store buffer, and how it drains into the L1D.

use super::{Span, TICKS_PER_CYCLE};
use crate::machine;

/// A store in the store buffer.
#[derive(Clone, Copy, Debug)]
pub struct Stored {
    pub span: Span,
    /// When address and data are there.
    pub data: u64,
    /// When it has reached the L1D.
    pub drained: u64,
}

impl Stored {
    /// Whether it has all bytes of `span`.
    #[inline]
    pub fn covers(&self, span: Span) -> bool {
        self.span.start <= span.start
            && span.start + span.bytes <= self.span.start + self.span.bytes
    }

    #[inline]
    fn overlaps(&self, span: Span) -> bool {
        self.span.start < span.start + span.bytes && span.start < self.span.start + self.span.bytes
    }
}

/// The last `n` stores, and by 8-byte word the last one to it, which spares loads the search.
///
/// Stores drain in order: what has drained at a time is a prefix of them.
#[derive(Clone, Debug)]
pub struct StoreBuffer {
    stores: Vec<Stored>,
    next: usize,
    /// Number of the next store, from 1 on.
    number: u64,
    /// By hash of the word, the number of the last store to it.
    filter: Box<[u64; FILTER]>,
}

const FILTER: usize = 1024;

/// Filter entries of the words of `span`: at most three, as it has up to 16 bytes; some may be
/// named twice.
#[inline(always)]
fn words(span: Span) -> [usize; 3] {
    let entry = |addr: u64| ((addr >> 3).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54) as usize;
    let last = span.start + span.bytes - 1;
    let middle = if span.bytes > 8 { span.start + 8 } else { last };
    [entry(span.start), entry(middle), entry(last)]
}

impl StoreBuffer {
    pub fn new(entries: u32) -> StoreBuffer {
        let empty = Stored {
            span: Span { start: 0, bytes: 0 },
            data: 0,
            drained: 0,
        };
        StoreBuffer {
            stores: vec![empty; entries as usize],
            next: 0,
            number: entries as u64 + 1,
            filter: Box::new([0; FILTER]),
        }
    }

    /// When there is room for one more.
    #[inline]
    pub fn room(&self) -> u64 {
        self.stores[self.next].drained
    }

    #[inline]
    pub fn push(&mut self, store: Stored) {
        self.stores[self.next] = store;
        self.next += 1;
        if self.next == self.stores.len() {
            self.next = 0;
        }
        for word in words(store.span) {
            self.filter[word] = self.number;
        }
        self.number += 1;
    }

    /// The youngest store that has bytes of `span` and is still here at `time`.
    #[inline(always)]
    pub fn holder(&self, span: Span, time: u64) -> Option<Stored> {
        let entries = self.stores.len() as u64;
        // No younger store than this has a word of `span`.
        let [first, middle, last] = words(span).map(|word| self.filter[word]);
        let mut number = first.max(middle).max(last);
        while number + entries >= self.number {
            let back = (self.number - number) as usize;
            let at = match self.next.checked_sub(back) {
                Some(at) => at,
                None => self.next + self.stores.len() - back,
            };
            let store = &self.stores[at];
            if store.drained <= time {
                return None;
            }
            if store.overlaps(span) {
                return Some(*store);
            }
            number -= 1;
        }
        None
    }
}

/// The way of stores into the L1D: in each cycle those to one line, up to so many.
#[derive(Clone, Debug)]
pub struct Drains {
    /// Between stores that drain together, and how many these can be.
    step: u64,
    most: u32,
    line_shift: u32,
    /// Of the last that drain together: when the first does, when the cycle ends, their line, and how
    /// many they are.
    began: u64,
    end: u64,
    line: u64,
    together: u32,
}

impl Drains {
    /// Up to `most` stores together, into `cache`.
    pub fn new(most: u32, cache: Option<&machine::Cache>) -> Drains {
        Drains {
            step: TICKS_PER_CYCLE / u64::from(most),
            most,
            line_shift: cache.map_or(6, |cache| cache.line_bytes.trailing_zeros()),
            began: 0,
            end: 0,
            line: 0,
            together: most,
        }
    }

    /// When a store to `span` drains that could at `ready`, and none before it later than then.
    #[inline(always)]
    pub fn next(&mut self, ready: u64, span: Span) -> u64 {
        let line = (span.start + span.bytes - 1) >> self.line_shift;
        let joins = line == self.line && self.together < self.most && ready < self.end;
        if joins {
            let at = ready.max(self.began + u64::from(self.together) * self.step);
            self.together += 1;
            return at;
        }
        self.began = ready.max(self.end);
        self.end = self.began + TICKS_PER_CYCLE;
        self.line = line;
        self.together = 1;
        self.began
    }
}
