//! Ports: how many accesses start in a cycle.

use super::TICKS_PER_CYCLE;

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
