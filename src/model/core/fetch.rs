//! When lines come: latencies, outstanding misses, lines on their way.

use super::{Core, LineAccess, Wait};

/// When the data of an L1D line are there.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Arrival {
    pub(super) at: u64,
    /// Latency of the miss that brings it.
    pub(super) latency: u64,
}

impl Core {
    /// When the data of `line` reach the core if asked for at `start`, misses queued.
    #[inline(always)]
    pub(super) fn fetch(&mut self, start: u64, line: LineAccess) -> u64 {
        let start = start + line.translation_ticks;
        if line.level == 0 && line.wait == Wait::NONE {
            return self.hit(start, line.slot);
        }
        self.fetch_missed(start, line)
    }

    /// When the data of the L1D line in `slot` reach the core if asked for at `start`.
    #[inline(always)]
    pub(super) fn hit(&self, start: u64, slot: usize) -> u64 {
        let Arrival { at, latency: miss } = self.arrivals[slot];
        let hit = start + self.latency[0];
        if at <= hit { hit } else { at.min(start + miss) }
    }

    #[inline(never)]
    fn fetch_missed(&mut self, start: u64, line: LineAccess) -> u64 {
        let Wait {
            transfer_ticks,
            settled_at,
            from_cache,
            arrives_at,
        } = line.wait;
        let last_asked = line.level - usize::from(from_cache);
        let latency = self.latency[last_asked].max(transfer_ticks);
        // An upgrade of a line in the innermost level waits as a miss of that level does.
        let missed = line.level.max(usize::from(transfer_ticks > 0));
        let levels = &mut self.misses[..missed];
        let start = levels.iter().fold(start, |at, level| level.free_from(at));
        let begin = if transfer_ticks > 0 {
            start.max(settled_at)
        } else {
            start
        };
        let done = (begin + latency).max(arrives_at);
        for level in levels {
            level.occupy(start, done);
        }
        self.late = arrives_at > begin + latency;
        if transfer_ticks > 0 {
            self.transferred = done;
        }
        self.arrivals[line.slot] = Arrival { at: done, latency };
        done
    }

    /// A prefetcher asks for a line that level `served` has, when the last instruction was
    /// dispatched; it fills level `into`, in `slot` if that is the innermost. When it arrives.
    pub fn prefetched(&mut self, into: usize, served: usize, slot: usize) -> u64 {
        let levels = &mut self.misses[into..served];
        let start = levels
            .iter()
            .fold(self.next_dispatch, |at, level| level.free_from(at));
        let latency = self.latency[served];
        for level in levels {
            level.occupy(start, start + latency);
        }
        if into == 0 {
            self.arrivals[slot] = Arrival {
                at: start + latency,
                latency,
            };
        }
        start + latency
    }

    /// End of the last transfer from another core, in ticks.
    #[must_use]
    pub fn transferred(&self) -> u64 {
        self.transferred
    }

    /// Whether the last prefetched line that was used was still on its way; asked once.
    pub fn take_late(&mut self) -> bool {
        std::mem::take(&mut self.late)
    }

    #[inline(always)]
    pub(super) fn fetch_all(&mut self, start: u64, lines: [Option<LineAccess>; 2]) -> u64 {
        let [first, second] = lines;
        let done = first.map_or(start, |line| self.fetch(start, line));
        match second {
            None => done,
            Some(line) => done.max(self.fetch(start, line)),
        }
    }

    /// A line has come into the L1D outside of time.
    #[inline]
    pub fn filled_untimed(&mut self, line: LineAccess) {
        if line.level > 0 {
            self.arrivals[line.slot] = Arrival::default();
        }
    }
}
