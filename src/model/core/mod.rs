//! When things happen: an out-of-order core, reduced to what decides how misses overlap.
//!
//! **What it is.** Instructions enter in program order, up to `issue_width` per cycle, into a
//! window of `window` entries, and leave it in order, up to `issue_width` per cycle, when they have
//! completed. A full window stops dispatch. Every memory access is one instruction, so is every
//! branch and every instruction of `work`. In between:
//! - A load starts when it is dispatched, its address is ready and a load port is free in that
//!   cycle; younger loads may go first. It completes after the latency of the level that served
//!   it, plus that of its translation.
//! - An access that misses levels 1 to k occupies one of the `outstanding_misses` of each of them
//!   from its start to its end, and waits for a free one. An access to a line in flight completes
//!   with it, unless it would have started the miss earlier itself. A line that a hardware prefetcher
//!   brings takes as long, from the last dispatch on.
//! - A line from another core takes the longer of the transfer and of the last level that was asked;
//!   of memory only if it comes from there. Transfers of one line follow each other.
//! - A store executes when its address is ready and a store port is free, may retire a cycle after
//!   its data are ready too, and then drains from the store buffer, in order: to one line per cycle,
//!   up to `store_ports` stores that follow each other (Intel's optimization manual for Ice Lake and
//!   later, and seen on Emerald Rapids: four stores take 2 cycles as pairs to a line, 4 if each is to
//!   another line than the one before; assumed for others). The line of a store that misses is asked
//!   for when the store executes, not when it drains, as cores do; the store drains when it is there.
//!   A full store buffer stops dispatch at the next store.
//! - A load of bytes that an older store still has in the store buffer gets them `forward_cycles`
//!   after both the store's data and the load's address are there. If that store has only some of
//!   its bytes, the load waits until it has drained (store forwarding fails: Fog, Microarchitecture,
//!   for x86-64; assumed for Arm cores, from memory, not measured).
//! - A locked read-modify-write waits for everything older, store buffer included, takes
//!   `locked_cycles` on top of its access, and holds back all younger accesses until it is done. A
//!   fence is the same without the access.
//! - A prefetch is a load that nobody waits for: it retires a cycle after its start.
//! - A branch is predicted by gshare (4096 two-bit counters, 12 bits of history). A wrong guess
//!   stops dispatch until its operand is ready, and `mispredict_cycles` more.
//!
//! **What it leaves out.** Instruction fetch and decode; execution ports and latencies of anything
//! but memory (an instruction of `work` takes one cycle and nobody waits for it; computing on
//! loaded values is free); limits of the scheduler and the load buffer (the window stands for
//! both); wrong-path accesses after a mispredicted branch; memory-order violations (loads never
//! wait for unknown addresses of older stores); 4K aliasing; bandwidth between L1 and L2, of L3 and
//! of memory other than by outstanding misses, for lines that come and for dirty ones that leave; a
//! line that leaves the L1D while its data are still on their way (fetched again, it comes at the
//! latency of the level that holds it by then); bank conflicts; replays; SMT; frequency; transfers
//! between cores for hardware prefetches and page walks (they take memory's latency).
//!
//! How near this is to a host, and how it is checked: `docs/model.md`.
//!
//! Time is counted in ticks, 2520 to the cycle (divisible by every issue width up to 10), as
//! integers: results are the same bits everywhere.

mod access;
mod fetch;
mod hits;
mod line;
mod misses;
mod ports;
mod predictor;
mod stores;
mod ticks;
mod window;

use self::fetch::Arrival;
pub use self::line::{LineAccess, Span, Wait};
use self::misses::Misses;
use self::ports::Ports;
use self::predictor::Gshare;
use self::stores::{Drains, StoreBuffer};
pub use self::ticks::{TICKS_PER_CYCLE, cycles_of, ticks_of};
use self::window::Window;
use super::ModelError;
use super::stats::MAX_LEVELS;
use crate::machine;

/// Instructions and branches since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoreStats {
    /// Instructions, work included.
    pub instructions: u64,
    /// Conditional branches.
    pub branches: u64,
    /// Those guessed wrong.
    pub mispredicted: u64,
}

impl CoreStats {
    /// What was counted after `start`.
    #[must_use]
    pub fn since(self, start: CoreStats) -> CoreStats {
        CoreStats {
            instructions: self.instructions - start.instructions,
            branches: self.branches - start.branches,
            mispredicted: self.mispredicted - start.mispredicted,
        }
    }
}

/// The core's clock work. All times are in ticks.
#[derive(Clone, Debug)]
pub struct Core {
    step: u64,
    drains: Drains,
    forward: u64,
    locked: u64,
    mispredict: u64,
    /// By serving level.
    latency: [u64; MAX_LEVELS + 1],
    next_dispatch: u64,
    last_retire: u64,
    /// When the last store drained, or a locked access or a fence ended.
    last_drain: u64,
    /// End of the last locked access or fence.
    barrier: u64,
    /// Retirement of the last `window` instructions.
    window: Window,
    ports: Ports,
    stores: StoreBuffer,
    misses: Vec<Misses>,
    arrivals: Vec<Arrival>,
    /// End of the last transfer from another core.
    transferred: u64,
    /// Whether the last prefetched line that was used came late.
    late: bool,
    predictor: Gshare,
    stats: CoreStats,
}

impl Core {
    /// An idle core of `machine`, over an L1D of `l1_lines` lines.
    ///
    /// # Errors
    /// If a limit is zero or the issue width or a latency cannot be counted in ticks.
    pub fn new(machine: &machine::Machine, l1_lines: usize) -> Result<Core, ModelError> {
        let core = &machine.core;
        let error = |table: String, what: String, accepted: &str| {
            Err(ModelError {
                table,
                what,
                accepted: accepted.into(),
            })
        };
        for (key, value, most) in [
            ("issue_width", core.issue_width, 10),
            ("load_ports", core.load_ports, 10),
            ("store_ports", core.store_ports, 10),
            ("memory_ports", core.memory_ports, 20),
            ("window", core.window, 1 << 16),
            ("store_buffer", core.store_buffer, 1 << 16),
        ] {
            if !(1..=most).contains(&value) {
                let accepted = format!("1 to {most}");
                return error("core".into(), format!("{key} = {value}"), &accepted);
            }
        }
        let mut latency = [0; MAX_LEVELS + 1];
        let mut before = 0.0;
        let levels = machine.caches.iter();
        let tables = levels.map(|c| (format!("cache level {}", c.level), c.latency_cycles));
        let memory = ("memory".to_string(), machine.memory.latency_cycles);
        for (i, (table, cycles)) in tables.chain([memory]).enumerate() {
            // Also refuses NaN.
            if !(cycles >= before && cycles > 0.0 && cycles < 1e6) {
                let what = format!("latency_cycles = {cycles}");
                let accepted = format!(
                    "a total latency of at least {before} (the level inside) and below 1e6"
                );
                return error(table, what, &accepted);
            }
            latency[i] = ticks_of(cycles);
            before = cycles;
        }
        let mut misses = Vec::new();
        for cache in &machine.caches {
            if !(1..=1024).contains(&cache.outstanding_misses) {
                let table = format!("cache level {}", cache.level);
                let what = format!("outstanding_misses = {}", cache.outstanding_misses);
                return error(table, what, "1 to 1024");
            }
            misses.push(Misses::new(cache.outstanding_misses));
        }
        Ok(Core {
            step: TICKS_PER_CYCLE / u64::from(core.issue_width),
            drains: Drains::new(core.store_ports, machine.caches.first()),
            forward: ticks_of(f64::from(core.forward_cycles)),
            locked: ticks_of(f64::from(core.locked_cycles)),
            mispredict: ticks_of(f64::from(core.mispredict_cycles)),
            latency,
            next_dispatch: 0,
            last_retire: 0,
            last_drain: 0,
            barrier: 0,
            window: Window::new(core.window),
            ports: Ports::new(core.load_ports, core.store_ports, core.memory_ports),
            stores: StoreBuffer::new(core.store_buffer),
            misses,
            arrivals: vec![Arrival::default(); l1_lines],
            transferred: 0,
            late: false,
            predictor: Gshare::new(),
            stats: CoreStats::default(),
        })
    }

    /// Latency of a hit in `level` (the number of levels: memory), in ticks.
    #[inline]
    #[must_use]
    pub fn latency_ticks(&self, level: usize) -> u64 {
        self.latency[level]
    }

    /// Retirement of the last instruction.
    #[inline]
    #[must_use]
    pub fn now(&self) -> u64 {
        self.last_retire
    }

    /// Counts since the start.
    #[must_use]
    pub fn stats(&self) -> CoreStats {
        self.stats
    }

    #[inline]
    fn dispatch(&mut self, not_before: u64) -> u64 {
        self.stats.instructions += 1;
        let at = self.next_dispatch.max(self.window.oldest()).max(not_before);
        self.next_dispatch = at + self.step;
        at
    }

    #[inline]
    fn retire(&mut self, completed: u64) -> u64 {
        let at = completed.max(self.last_retire + self.step);
        self.window.push(at);
        self.last_retire = at;
        at
    }

    /// A conditional branch at `site` whose operand is ready at `on`.
    #[inline]
    pub fn branch(&mut self, site: u16, on: u64, taken: bool) {
        let dispatched = self.dispatch(0);
        let resolved = dispatched.max(on);
        if !self.predict(site, taken) {
            self.next_dispatch = self.next_dispatch.max(resolved + self.mispredict);
        }
        self.retire(resolved + TICKS_PER_CYCLE);
    }

    /// Teach the predictor without time; whether it guessed right.
    #[inline]
    pub fn predict(&mut self, site: u16, taken: bool) -> bool {
        let right = self.predictor.guess(site, taken);
        self.stats.branches += 1;
        self.stats.mispredicted += u64::from(!right);
        right
    }

    /// `instructions` that touch no memory.
    #[inline]
    pub fn work(&mut self, instructions: u32) {
        self.stats.instructions += u64::from(instructions);
        let (mut dispatch, mut retired) = (self.next_dispatch, self.last_retire);
        for _ in 0..instructions {
            let at = dispatch.max(self.window.oldest());
            dispatch = at + self.step;
            retired = (at + TICKS_PER_CYCLE).max(retired + self.step);
            self.window.push(retired);
        }
        (self.next_dispatch, self.last_retire) = (dispatch, retired);
    }

    /// Wait until everything is done: the next instruction is dispatched into an idle core.
    pub fn drain(&mut self) {
        let idle = self
            .settled(self.next_dispatch)
            .max(self.misses.iter().map(Misses::idle).max().unwrap_or(0));
        self.next_dispatch = idle;
        self.last_retire = idle;
        self.last_drain = idle;
        self.barrier = idle;
    }

    /// The L1D was emptied: nothing in it is in flight.
    pub fn flushed(&mut self) {
        self.arrivals.fill(Arrival::default());
    }
}
