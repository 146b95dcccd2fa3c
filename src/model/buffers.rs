//! What a core has a limited number of: window entries, ports, outstanding misses, store-buffer
//! entries. Fixed size, no allocation after the start. Times are in ticks.

use super::core::{Span, TICKS_PER_CYCLE};
use crate::machine;

/// The last `n` of a series of times.
#[derive(Clone, Debug)]
pub struct Ring {
    times: Vec<u64>,
    next: usize,
}

impl Ring {
    pub fn new(entries: u32) -> Ring {
        Ring {
            times: vec![0; entries as usize],
            next: 0,
        }
    }

    /// The one that the next push replaces: `n` pushes ago, or 0.
    #[inline]
    pub fn oldest(&self) -> u64 {
        self.times[self.next]
    }

    pub fn len(&self) -> usize {
        self.times.len()
    }

    /// What [`oldest`](Ring::oldest) answers before each of the next pushes, if these are no more than
    /// the ring is long.
    #[inline(always)]
    pub fn oldest_few(&self) -> [u64; 8] {
        match self.times.get(self.next..self.next + 8) {
            Some(few) => few.try_into().expect("8 of them"),
            None => std::array::from_fn(|i| self.times[(self.next + i) % self.times.len()]),
        }
    }

    #[inline]
    pub fn push(&mut self, time: u64) {
        self.times[self.next] = time;
        self.next += 1;
        if self.next == self.times.len() {
            self.next = 0;
        }
    }
}

/// What starts at a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// A load, or a prefetch.
    Load = 0,
    /// A store: its address.
    Store = 1,
}

/// Ports: so many loads, stores, and both together, start in each cycle; booked in any order.
///
/// Accesses are booked in program order, so that of those that are ready in a cycle the oldest
/// start first: a load at the end of a group of ready ones waits for them, which is what makes a
/// chase slower that shares its ports with other loads.
///
/// A calendar of the next `PORT_CYCLES` cycles. Starts further apart than that share a slot; the
/// nearer one is then not counted, which can only matter when two instructions of one window start
/// that far apart.
#[derive(Clone, Debug)]
pub struct Ports {
    /// Loads and stores per cycle.
    most: [u64; 2],
    /// Both together.
    most_together: u64,
    /// Cycle times 2^16, plus stores in it times 2^8, plus loads.
    calendar: Box<[u64; PORT_CYCLES as usize]>,
    /// First and end of the cycles that the last search found full for its kind: they stay full.
    full: [(u64, u64); 2],
}

const PORT_CYCLES: u64 = 2048;

impl Ports {
    pub fn new(loads: u32, stores: u32, together: u32) -> Ports {
        Ports {
            most: [u64::from(loads), u64::from(stores)],
            most_together: u64::from(together),
            calendar: Box::new([0; PORT_CYCLES as usize]),
            full: [(0, 0); 2],
        }
    }

    /// Take a port for `kind` at `time`, or in the first cycle after it that has one free.
    #[inline(always)]
    pub fn take(&mut self, kind: Start, time: u64) -> u64 {
        let kind = kind as usize;
        let one = 1 << (8 * kind);
        let first = time / TICKS_PER_CYCLE;
        let mut cycle = first;
        if (self.full[kind].0..self.full[kind].1).contains(&first) {
            cycle = self.full[kind].1;
        }
        loop {
            let slot = &mut self.calendar[(cycle % PORT_CYCLES) as usize];
            let stamp = cycle << 16;
            if *slot < stamp {
                *slot = stamp | one;
                break;
            }
            let taken = *slot - stamp;
            if taken > 0xffff {
                break;
            }
            let (loads, stores) = (taken & 0xff, taken >> 8);
            let own = if kind == 0 { loads } else { stores };
            if own < self.most[kind] && loads + stores < self.most_together {
                *slot += one;
                break;
            }
            cycle += 1;
        }
        if cycle == first {
            return time;
        }
        let (start, end) = self.full[kind];
        let start = if (start..=end).contains(&first) {
            start
        } else {
            first
        };
        self.full[kind] = (start, cycle);
        cycle * TICKS_PER_CYCLE
    }
}

/// Outstanding misses of one level: when each of its registers becomes free.
#[derive(Clone, Debug)]
pub struct Misses {
    /// A ring that begins at `first`, sorted, earliest first.
    free_at: Vec<u64>,
    first: usize,
}

impl Misses {
    pub fn new(registers: u32) -> Misses {
        Misses {
            free_at: vec![0; registers as usize],
            first: 0,
        }
    }

    /// First time from `time` on at which a register is free.
    #[inline]
    pub fn free_from(&self, time: u64) -> u64 {
        time.max(self.free_at[self.first])
    }

    /// Occupy a register from `start`, when one is free, to `end`, which is later: the one that became
    /// free last, so that a chain of misses, booked ahead, holds one register and leaves the others to
    /// younger misses.
    #[inline]
    pub fn occupy(&mut self, start: u64, end: u64) {
        debug_assert!(self.free_at[self.first] <= start, "a register is free");
        let mut at = self.last();
        let second = self.after(self.first);
        if end >= self.free_at[at] && (self.free_at[second] > start || at == self.first) {
            // The only free one is held longest: the ring turns.
            self.free_at[self.first] = end;
            self.first = second;
            return;
        }
        // From the latest down: those that are held longer stay, those until then move down by one.
        while self.free_at[at] > end {
            at = self.before(at);
        }
        let mut moved = end;
        loop {
            std::mem::swap(&mut self.free_at[at], &mut moved);
            if moved <= start {
                return;
            }
            at = self.before(at);
        }
    }

    fn after(&self, at: usize) -> usize {
        if at + 1 == self.free_at.len() {
            0
        } else {
            at + 1
        }
    }

    fn before(&self, at: usize) -> usize {
        at.checked_sub(1).unwrap_or(self.free_at.len() - 1)
    }

    fn last(&self) -> usize {
        self.before(self.first)
    }

    /// When all are free.
    pub fn idle(&self) -> u64 {
        self.free_at[self.last()]
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against a plain list: of the registers that are free the one with the latest time is taken.
        #[test]
        fn the_register_that_became_free_last_is_taken(
            registers in 1_u32..20,
            misses in prop::collection::vec((0_u64..400, 1_u64..200), 1..200),
        ) {
            let mut own = Misses::new(registers);
            let mut list = vec![0; registers as usize];
            for (time, latency) in misses {
                let earliest = *list.iter().min().expect("a register");
                let start = time.max(earliest);
                prop_assert_eq!(own.free_from(time), start);
                own.occupy(start, start + latency);
                let free = list.iter_mut().filter(|at| **at <= start);
                *free.max().expect("one is free") = start + latency;
                prop_assert_eq!(Some(own.idle()), list.iter().max().copied());
            }
        }
    }
}
