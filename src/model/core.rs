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
//!   with it, unless it would have started the miss earlier itself.
//! - A store executes when its address is ready and a store port is free, may retire a cycle after
//!   its data are ready too, and then drains from the store buffer, in order: to one line per cycle,
//!   up to `store_ports` stores that follow each other (Intel's optimization manual for Ice Lake and
//!   later, and seen on Emerald Rapids: four stores take 2 cycles as pairs to a line, 4 if each is to
//!   another line than the one before; assumed for others). The line of a store that misses is asked for when the store executes, not when it
//!   drains, as cores do; the store drains when it is there. A full store buffer stops dispatch at
//!   the next store.
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
//! wait for unknown addresses of older stores); bandwidth of L2, L3 and memory other than by
//! outstanding misses; a line that leaves the L1D while its data are still on their way (fetched
//! again, it comes at the latency of the level that holds it by then); bank conflicts; replays;
//! SMT; hardware prefetch; frequency.
//!
//! Time is counted in ticks, 2520 to the cycle (divisible by every issue width up to 10), as
//! integers: results are the same bits everywhere.

use super::ModelError;
use super::buffers::{Drains, Misses, Ports, Ring, Start, StoreBuffer, Stored};
use super::hierarchy::{Kind, MAX_LEVELS};
use super::many::Access;
use super::predictor::Gshare;
use crate::machine;

/// Ticks per cycle: the least common multiple of 1 to 10.
pub const TICKS_PER_CYCLE: u64 = 2520;

/// Cycles to ticks, rounded to the nearest.
#[must_use]
pub fn ticks_of(cycles: f64) -> u64 {
    (cycles * TICKS_PER_CYCLE as f64).round() as u64
}

/// Ticks to cycles.
#[must_use]
pub fn cycles_of(ticks: u64) -> f64 {
    ticks as f64 / TICKS_PER_CYCLE as f64
}

/// How an access to one line fared in TLBs and caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineAccess {
    /// Level that served it: 0 is the L1D, the number of levels is memory.
    pub level: usize,
    /// Where the line now lies in the L1D.
    pub slot: usize,
    /// Latency of its translation, in ticks.
    pub translation_ticks: u64,
    /// What it waits for beyond that.
    pub wait: Wait,
}

/// What an access waits for beyond its own latency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wait {
    /// Latency of a transfer between cores, in ticks; 0 if there was none.
    pub transfer_ticks: u64,
    /// When a transfer may begin: the one before it is over.
    pub settled_at: u64,
    /// When a line that a prefetcher brought arrives; 0 if it did not.
    pub arrives_at: u64,
}

impl Wait {
    /// No other core and no prefetcher has to do with it.
    pub const NONE: Wait = Wait {
        transfer_ticks: 0,
        settled_at: 0,
        arrives_at: 0,
    };
}

/// The bytes of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Nominal address of the first.
    pub start: u64,
    /// How many, 1 to 16.
    pub bytes: u64,
}

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

/// When the data of an L1D line are there.
#[derive(Clone, Copy, Debug, Default)]
struct Arrival {
    at: u64,
    /// Latency of the miss that brings it.
    latency: u64,
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
    window: Ring,
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
            window: Ring::new(core.window),
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

    /// When the data of `line` reach the core if asked for at `start`, misses queued.
    #[inline(always)]
    fn fetch(&mut self, start: u64, line: LineAccess) -> u64 {
        let start = start + line.translation_ticks;
        if line.level == 0 && line.wait == Wait::NONE {
            return self.hit(start, line.slot);
        }
        self.fetch_missed(start, line)
    }

    /// When the data of the L1D line in `slot` reach the core if asked for at `start`.
    #[inline(always)]
    fn hit(&self, start: u64, slot: usize) -> u64 {
        let Arrival { at, latency: miss } = self.arrivals[slot];
        let hit = start + self.latency[0];
        if at <= hit { hit } else { at.min(start + miss) }
    }

    #[inline(never)]
    fn fetch_missed(&mut self, start: u64, line: LineAccess) -> u64 {
        let Wait {
            transfer_ticks,
            settled_at,
            arrives_at,
        } = line.wait;
        let latency = self.latency[line.level].max(transfer_ticks);
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

    /// No instruction is dispatched before `ticks`: another core comes first.
    pub fn wait_until(&mut self, ticks: u64) {
        self.next_dispatch = self.next_dispatch.max(ticks);
    }

    #[inline(always)]
    fn fetch_all(&mut self, start: u64, lines: [Option<LineAccess>; 2]) -> u64 {
        let [first, second] = lines;
        let done = first.map_or(start, |line| self.fetch(start, line));
        match second {
            None => done,
            Some(line) => done.max(self.fetch(start, line)),
        }
    }

    /// A load of `span` that touches `lines`; when its value is ready.
    #[inline(always)]
    pub fn load(&mut self, address: u64, span: Span, lines: [Option<LineAccess>; 2]) -> u64 {
        self.load_by(address, span, |core, start| core.fetch_all(start, lines))
    }

    /// A load for which `fetch` says when its data come, given when it starts.
    #[inline(always)]
    fn load_by(
        &mut self,
        address: u64,
        span: Span,
        fetch: impl FnOnce(&mut Core, u64) -> u64,
    ) -> u64 {
        let dispatched = self.dispatch(0);
        let earliest = dispatched.max(address).max(self.barrier);
        let start = self.ports.take(Start::Load, earliest);
        let fetched = fetch(self, start);
        let mut ready = fetched;
        // Stores drain in order: after the last of them none is left to look for.
        if self.last_drain > start
            && let Some(store) = self.stores.holder(span, start)
        {
            ready = match store.covers(span) {
                true => start.max(store.data) + self.forward,
                false => fetched.max(store.drained + self.latency[0]),
            };
        }
        self.retire(ready);
        ready
    }

    /// A load that is kept from the caches: it takes the latency of an L1D hit.
    #[inline]
    pub fn load_unseen(&mut self, address: u64) -> u64 {
        let dispatched = self.dispatch(0);
        let start = self
            .ports
            .take(Start::Load, dispatched.max(address).max(self.barrier));
        let ready = start + self.latency[0];
        self.retire(ready);
        ready
    }

    /// A store to `span` of a value that is ready at `value`.
    #[inline(always)]
    pub fn store(&mut self, address: u64, value: u64, span: Span, lines: [Option<LineAccess>; 2]) {
        self.store_by(address, value, span, |core, start| {
            let lines = lines.into_iter().flatten();
            lines.fold((start, 0), |(translated, owned), line| {
                let arrived = match (line.level, line.wait) {
                    (0, Wait::NONE) => core.arrivals[line.slot].at,
                    _ => core.fetch(start, line),
                };
                let here = start + line.translation_ticks;
                (translated.max(here), owned.max(arrived))
            })
        });
    }

    /// A store for which `own` says when its address is translated and when its lines are there,
    /// given when it starts.
    #[inline(always)]
    fn store_by(
        &mut self,
        address: u64,
        value: u64,
        span: Span,
        own: impl FnOnce(&mut Core, u64) -> (u64, u64),
    ) {
        let room = self.stores.room();
        let dispatched = self.dispatch(room);
        let start = self
            .ports
            .take(Start::Store, dispatched.max(address).max(self.barrier));
        let (translated, owned) = own(self, start);
        let data = start.max(value);
        let retired = self.retire(translated.max(data) + TICKS_PER_CYCLE);
        let ready = retired.max(owned).max(self.last_drain);
        let drained = self.drains.next(ready, span);
        self.last_drain = drained;
        self.stores.push(Stored {
            span,
            data,
            drained,
        });
    }

    /// A load, a store or a prefetch, known at once, of the L1D line in `slot`, translated for nothing:
    /// as [`access`](Core::access), without carrying about what is zero.
    #[inline(always)]
    pub(super) fn access_hit(&mut self, kind: Kind, span: Span, slot: usize) {
        match kind {
            Kind::Store => self.store_by(0, 0, span, |core, start| (start, core.arrivals[slot].at)),
            Kind::Prefetch => self.prefetch(0, None),
            _ => drop(self.load_by(0, span, |core, start| core.hit(start, slot))),
        }
    }

    /// [`access_hit`](Core::access_hit) of each of `accesses`.
    #[inline(never)]
    pub(super) fn access_hits(&mut self, accesses: &[Access], slot: usize) {
        let mut loads = 0;
        if self.is_quiet(slot) {
            loads = accesses.iter().take_while(|a| a.kind == Kind::Load).count();
            self.load_hits(loads);
        }
        for access in &accesses[loads..] {
            let span = Span {
                start: access.addr,
                bytes: u64::from(access.bytes),
            };
            self.access_hit(access.kind, span, slot);
        }
    }

    /// Whether a load of the L1D line in `slot` that is dispatched from now on has nothing to wait for
    /// but a port: no barrier, no store in the buffer, no data on their way.
    #[inline(always)]
    fn is_quiet(&self, slot: usize) -> bool {
        let dispatched = self.next_dispatch.max(self.window.oldest());
        self.barrier <= dispatched
            && self.last_drain <= dispatched
            && self.arrivals[slot].at <= dispatched + self.latency[0]
    }

    /// So many loads that have nothing to wait for but a port.
    #[inline(always)]
    fn load_hits(&mut self, loads: usize) {
        self.stats.instructions += loads as u64;
        let (step, latency) = (self.step, self.latency[0]);
        let (mut dispatch, mut retired) = (self.next_dispatch, self.last_retire);
        let mut rest = loads;
        while rest > 0 {
            // Read before anything is written: a processor that lets no load pass a store whose address
            // it does not know yet would else wait at each for the port of the one before.
            let oldest = self.window.oldest_few();
            let few = rest.min(oldest.len()).min(self.window.len());
            for oldest in &oldest[..few] {
                let dispatched = dispatch.max(*oldest);
                dispatch = dispatched + step;
                let start = self.ports.take(Start::Load, dispatched);
                retired = (start + latency).max(retired + step);
                self.window.push(retired);
            }
            rest -= few;
        }
        (self.next_dispatch, self.last_retire) = (dispatch, retired);
    }

    /// A load, a store or a prefetch whose address and value are known at once.
    #[inline(always)]
    pub(super) fn access(&mut self, kind: Kind, span: Span, lines: [Option<LineAccess>; 2]) {
        match kind {
            Kind::Store => self.store(0, 0, span, lines),
            Kind::Prefetch => self.prefetch(0, lines[0]),
            _ => drop(self.load(0, span, lines)),
        }
    }

    /// A locked read-modify-write; when the old value is ready.
    pub fn locked(&mut self, address: u64, lines: [Option<LineAccess>; 2]) -> u64 {
        let dispatched = self.dispatch(0);
        let start = self.settled(dispatched.max(address));
        let done = self.fetch_all(start, lines).max(start + self.latency[0]) + self.locked;
        self.serialise(done);
        done
    }

    /// A full fence.
    pub fn fence(&mut self) {
        let dispatched = self.dispatch(0);
        let done = self.settled(dispatched) + self.locked;
        self.serialise(done);
    }

    /// When everything older is done, but not before `at`.
    fn settled(&self, at: u64) -> u64 {
        at.max(self.last_retire)
            .max(self.last_drain)
            .max(self.barrier)
    }

    fn serialise(&mut self, done: u64) {
        self.barrier = done;
        self.last_drain = done;
        self.retire(done);
    }

    /// A prefetch of `line`.
    pub fn prefetch(&mut self, address: u64, line: Option<LineAccess>) {
        let dispatched = self.dispatch(0);
        let start = self
            .ports
            .take(Start::Load, dispatched.max(address).max(self.barrier));
        if let Some(line) = line {
            self.fetch(start, line);
        }
        self.retire(start + TICKS_PER_CYCLE);
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

    /// A line has come into the L1D outside of time.
    #[inline]
    pub fn filled_untimed(&mut self, line: LineAccess) {
        if line.level > 0 {
            self.arrivals[line.slot] = Arrival::default();
        }
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
