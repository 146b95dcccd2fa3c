//! Outstanding misses: a level has so many registers, each of which waits for one line.

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
