//! The `model` rung: a deterministic model of the cores of a named machine.
//!
//! A [`Model`] is a [`Hierarchy`] of caches with [`Tlbs`] and a
//! [`PageMap`] before them, a [`Core`] for each core that decides when things happen, and an
//! [`Attribution`] that says whose misses they are. [`Model::on`] puts it over an arena: what
//! comes out is a `kernels::memory::Memory` that a kernel runs on. Presented accesses change caches
//! in program order; the core decides when they happen. Same machine, same seed, same accesses:
//! same bits out. Each module says what it leaves out.

pub mod attribution;
mod block;
mod book;
mod bring;
mod buffers;
pub mod cache;
pub mod classify;
pub mod coherence;
mod coherently;
pub mod core;
mod evict;
mod filter;
pub mod hierarchy;
mod index;
mod many;
pub mod modelled;
pub mod page_map;
pub mod predictor;
pub mod prefetch;
pub mod replacement;
pub mod shape;
pub mod stats;
mod tags;
pub mod tlb;
pub mod walk;

use kernels::arena::{Arena, Region};
use kernels::memory::Field;

use self::attribution::{Attribution, FIELDS, MissRow};
use self::coherence::{CoherenceStats, Spot, Touch};
use self::core::{Core, CoreStats, LineAccess, Span, Wait, cycles_of, ticks_of};
use self::hierarchy::Hierarchy;
pub use self::many::Access;
use self::many::Many;
use self::modelled::Modelled;
use self::page_map::{PageMap, PageMapOptions, Place};
use self::shape::Shape;
use self::stats::{Kind, LevelStats, MAX_LEVELS};
use self::tlb::{TlbStats, Tlbs, Translation};
use self::walk::Walker;
use crate::machine::Machine;

/// A table or value of a machine that cannot be modelled, and what could be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{table}: {what} cannot be modelled; accepted: {accepted}")]
pub struct ModelError {
    /// Which table of the machine, or which option.
    pub table: String,
    /// Key and value.
    pub what: String,
    /// What would have been accepted.
    pub accepted: String,
}

/// A set of field numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldSet([u64; FIELDS as usize / 64]);

impl Default for FieldSet {
    fn default() -> FieldSet {
        FieldSet([0; FIELDS as usize / 64])
    }
}

impl FieldSet {
    /// Add the field `id`, below [`FIELDS`].
    ///
    /// # Panics
    /// If it is not.
    pub fn insert(&mut self, id: u16) {
        assert!(id < FIELDS, "field {id} is beyond {FIELDS}");
        self.0[usize::from(id / 64)] |= 1 << (id % 64);
    }

    /// Whether the field `id` is in it.
    #[inline]
    #[must_use]
    pub fn contains(&self, id: u16) -> bool {
        self.0
            .get(usize::from(id / 64))
            .is_some_and(|word| word >> (id % 64) & 1 == 1)
    }
}

impl FromIterator<u16> for FieldSet {
    fn from_iter<I: IntoIterator<Item = u16>>(ids: I) -> FieldSet {
        let mut set = FieldSet::default();
        ids.into_iter().for_each(|id| set.insert(id));
        set
    }
}

/// What a model is asked to do beyond the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelOptions {
    /// Cache levels (1, 2, ...) whose misses are told apart by cause.
    pub classify: Vec<u8>,
    /// Fields whose accesses the caches do not see: they yield their data and take an L1D hit's
    /// time.
    pub unseen: FieldSet,
    /// Cores, from 1 to those of the machine's interconnect.
    pub cores: usize,
}

impl Default for ModelOptions {
    fn default() -> ModelOptions {
        ModelOptions {
            classify: vec![1],
            unseen: FieldSet::default(),
            cores: 1,
        }
    }
}

/// What happened between [`Modelled::begin_region`] and [`Modelled::end_region`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RegionStats {
    /// From an idle core to the retirement of the last instruction, in core clock cycles.
    pub cycles: f64,
    /// Counts of the cache levels, innermost first; levels that the machine lacks are zero.
    pub levels: [LevelStats; MAX_LEVELS],
    /// Counts of the TLBs.
    pub tlb: TlbStats,
    /// Counts of the core.
    pub core: CoreStats,
    /// What it had to do with other cores.
    pub coherence: CoherenceStats,
}

#[derive(Clone, Copy, Debug)]
struct Snapshot {
    ticks: u64,
    levels: [LevelStats; MAX_LEVELS],
    tlb: TlbStats,
    core: CoreStats,
    coherence: CoherenceStats,
}

/// Lines that prefetchers have asked for, and when they arrive: the last few.
#[derive(Clone, Debug)]
struct InFlight(Vec<(u64, u64)>);

const IN_FLIGHT: usize = 256;

impl InFlight {
    fn new() -> InFlight {
        InFlight(vec![(u64::MAX, 0); IN_FLIGHT])
    }

    fn add(&mut self, line: u64, arrives_at: u64) {
        self.0[line as usize % IN_FLIGHT] = (line, arrives_at);
    }

    /// 0 if it is not known: long ago.
    fn arrival(&self, line: u64) -> u64 {
        let (known, arrives_at) = self.0[line as usize % IN_FLIGHT];
        if known == line { arrives_at } else { 0 }
    }
}

/// What a core has for itself, the caches aside.
#[derive(Clone, Debug)]
struct Side {
    tlbs: Tlbs,
    walker: Walker,
    core: Core,
    function: u16,
    /// The line that it used last, nominal and physical: again, it needs no look.
    last: (u64, u64),
    in_flight: InFlight,
    region: Option<Snapshot>,
}

/// Cores of a machine, with their caches, TLBs and pages. One of them at a time is the one in use.
#[derive(Clone, Debug)]
pub struct Model {
    pages: PageMap,
    sides: Vec<Side>,
    at: usize,
    hierarchy: Hierarchy,
    attribution: Attribution,
    unseen: FieldSet,
    /// Number of each cache level, as the machine counts.
    level_numbers: Vec<u8>,
    /// By [`Distance`].
    transfer_ticks: [u64; 3],
    walk_ticks: u64,
    timed: bool,
    /// Made when many accesses first come at once.
    many: Option<Box<Many>>,
}

impl Model {
    /// An idle model with empty caches. `seed` draws page frames and random replacement.
    ///
    /// # Errors
    /// If a table of the machine, the pages or an option cannot be modelled.
    pub fn new(
        machine: &Machine,
        pages: PageMapOptions,
        seed: u64,
        options: ModelOptions,
    ) -> Result<Model, ModelError> {
        let shape = Shape::of(machine, options.cores)?;
        let hierarchy = Hierarchy::shaped(shape, &options.classify, seed)?;
        Model::over(hierarchy, machine, pages, seed, options)
    }

    /// [`new`](Model::new) with the caches' memory of `self`, where `machine` has the same.
    ///
    /// # Errors
    /// As those of [`new`](Model::new).
    pub fn renewed(
        self,
        machine: &Machine,
        pages: PageMapOptions,
        seed: u64,
        options: ModelOptions,
    ) -> Result<Model, ModelError> {
        let shape = Shape::of(machine, options.cores)?;
        let hierarchy = self.hierarchy.renewed(shape, &options.classify, seed)?;
        Model::over(hierarchy, machine, pages, seed, options)
    }

    fn over(
        hierarchy: Hierarchy,
        machine: &Machine,
        pages: PageMapOptions,
        seed: u64,
        options: ModelOptions,
    ) -> Result<Model, ModelError> {
        let map = PageMap::new(pages, seed)?;
        let memory = &machine.memory;
        let mut sides = Vec::new();
        for _ in 0..options.cores {
            let walk_caches = &memory.walk_cache_entries;
            sides.push(Side {
                tlbs: Tlbs::new(machine, map.page_bytes())?,
                walker: Walker::new(walk_caches, pages.host_page_bytes, seed),
                core: Core::new(machine, hierarchy.cache(0).lines())?,
                function: 0,
                last: (u64::MAX, 0),
                in_flight: InFlight::new(),
                region: None,
            });
        }
        let transfer = machine.interconnect.as_ref().map_or([0.0; 3], |table| {
            let near = table.same_l3_cycles;
            let far = table.other_l3_cycles.unwrap_or(near);
            [near, far, table.other_socket_cycles.unwrap_or(far)]
        });
        Ok(Model {
            pages: map,
            sides,
            at: 0,
            hierarchy,
            attribution: Attribution::default(),
            unseen: options.unseen,
            level_numbers: machine.caches.iter().map(|c| c.level).collect(),
            transfer_ticks: transfer.map(ticks_of),
            walk_ticks: ticks_of(f64::from(memory.page_walk_cycles)),
            timed: true,
            many: None,
        })
    }

    /// Put the model over `arena`.
    pub fn on<'a>(&'a mut self, arena: &'a mut Arena) -> Modelled<'a> {
        Modelled { arena, model: self }
    }

    /// The caches.
    #[must_use]
    pub fn hierarchy(&self) -> &Hierarchy {
        &self.hierarchy
    }

    /// As [`hierarchy`](Model::hierarchy).
    pub fn hierarchy_mut(&mut self) -> &mut Hierarchy {
        &mut self.hierarchy
    }

    /// The core in use.
    #[must_use]
    pub fn core(&self) -> &Core {
        &self.sides[self.at].core
    }

    fn core_mut(&mut self) -> &mut Core {
        &mut self.sides[self.at].core
    }

    /// Number of cores.
    #[must_use]
    pub fn cores(&self) -> usize {
        self.sides.len()
    }

    /// What follows is done by `core`.
    ///
    /// # Panics
    /// If there are not that many.
    pub fn use_core(&mut self, core: usize) {
        assert!(
            core < self.sides.len(),
            "core {core} of {}",
            self.sides.len()
        );
        self.at = core;
    }

    /// Let the core in use begin nothing before `core` is idle, as one that is woken by it.
    ///
    /// # Panics
    /// If there is no such core.
    pub fn wait_for(&mut self, core: usize) {
        let now = self.sides[core].core.now();
        self.sides[self.at].core.wait_until(now);
    }

    /// Counts of the TLBs of the core in use since the start.
    #[must_use]
    pub fn tlb_stats(&self) -> TlbStats {
        self.sides[self.at].tlbs.stats()
    }

    /// Misses within regions since the start or [`clear_misses`](Model::clear_misses), sorted.
    #[must_use]
    pub fn misses(&self) -> Vec<MissRow> {
        self.attribution.rows()
    }

    /// Forget the booked misses, and the lines that went between cores.
    pub fn clear_misses(&mut self) {
        self.attribution.clear();
        if let Some(directory) = self.hierarchy.directory_mut() {
            directory.clear_pairs();
        }
    }

    /// The accesses that follow are made by `function`.
    pub fn enter(&mut self, function: u16) {
        self.sides[self.at].function = function;
    }

    /// Begin what is measured on every core: it drains, as behind an `lfence`, then counts and
    /// books.
    ///
    /// # Panics
    /// If a region has begun already.
    pub fn begin_region(&mut self) {
        assert!(self.sides[0].region.is_none(), "regions do not nest");
        self.timed = true;
        for core in 0..self.sides.len() {
            self.sides[core].core.drain();
            let snapshot = self.snapshot(core);
            self.sides[core].region = Some(snapshot);
        }
    }

    /// End what is measured; what the core in use did.
    ///
    /// # Panics
    /// If no region has begun.
    pub fn end_region(&mut self) -> RegionStats {
        self.end_regions().swap_remove(self.at)
    }

    /// End what is measured; what each core did.
    ///
    /// # Panics
    /// If no region has begun.
    pub fn end_regions(&mut self) -> Vec<RegionStats> {
        let one = |core: usize| {
            let start = self.sides[core].region.expect("a region ends that began");
            let end = self.snapshot(core);
            RegionStats {
                cycles: cycles_of(end.ticks - start.ticks),
                levels: std::array::from_fn(|k| end.levels[k].since(&start.levels[k])),
                tlb: end.tlb.since(start.tlb),
                core: end.core.since(start.core),
                coherence: end.coherence.since(start.coherence),
            }
        };
        let stats = (0..self.sides.len()).map(one).collect();
        self.sides.iter_mut().for_each(|side| side.region = None);
        stats
    }

    fn snapshot(&self, core: usize) -> Snapshot {
        let side = &self.sides[core];
        Snapshot {
            ticks: side.core.now(),
            levels: self.hierarchy.stats_of(core),
            tlb: side.tlbs.stats(),
            core: side.core.stats(),
            coherence: self.hierarchy.coherence_of(core),
        }
    }

    /// Show one access to TLBs and caches, outside of time and attribution: a trace, or data touched
    /// between operations. Whether any of its lines missed the L1D.
    pub fn present(&mut self, addr: u64, bytes: u64, kind: Kind) -> bool {
        let lines = self.touch_outside(addr, bytes, kind);
        lines.into_iter().flatten().any(|line| line.level > 0)
    }

    /// A load of 1 to 16 bytes at a nominal address that is known at `ready`, in ticks; when its
    /// value is there.
    // Called, not inlined: kernels have hundreds of accesses, of which each would hold all of it.
    #[inline(never)]
    pub fn load(&mut self, ready: u64, addr: u64, bytes: u64, field: Field) -> u64 {
        let span = Span { start: addr, bytes };
        if let Some(line) = self.again(addr, bytes, Kind::Load) {
            return self.sides[self.at]
                .core
                .load(ready, span, [Some(line), None]);
        }
        let lines = self.touch::<true>(addr, bytes, field, Kind::Load);
        let ready = self.sides[self.at].core.load(ready, span, lines);
        self.settle(lines);
        ready
    }

    /// A store of 1 to 16 bytes of a value that is there at `value`; otherwise as
    /// [`load`](Model::load).
    #[inline(never)]
    pub fn store(&mut self, ready: u64, value: u64, addr: u64, bytes: u64, field: Field) {
        let span = Span { start: addr, bytes };
        if let Some(line) = self.again(addr, bytes, Kind::Store) {
            let lines = [Some(line), None];
            return self.sides[self.at].core.store(ready, value, span, lines);
        }
        let lines = self.touch::<true>(addr, bytes, field, Kind::Store);
        self.sides[self.at].core.store(ready, value, span, lines);
        self.settle(lines);
    }

    /// A locked read-modify-write; when the old value is there.
    #[inline(never)]
    pub fn locked(&mut self, ready: u64, addr: u64, bytes: u64, field: Field) -> u64 {
        let lines = self.touch::<true>(addr, bytes, field, Kind::Store);
        let ready = self.sides[self.at].core.locked(ready, lines);
        self.settle(lines);
        ready
    }

    /// A prefetch by the program.
    #[inline(never)]
    pub fn prefetch(&mut self, ready: u64, addr: u64, field: Field) {
        let [line, _] = self.touch::<true>(addr, 1, field, Kind::Prefetch);
        self.sides[self.at].core.prefetch(ready, line);
        self.settle([line, None]);
    }

    /// Empty all caches, and the TLBs too if asked.
    pub fn flush(&mut self, tlbs: bool) {
        self.hierarchy.flush();
        for side in &mut self.sides {
            side.core.drain();
            side.core.flushed();
            side.last = (u64::MAX, 0);
            if tlbs {
                side.tlbs.flush();
                side.walker.forget();
            }
        }
    }

    #[inline(never)]
    fn touch_outside(&mut self, addr: u64, bytes: u64, kind: Kind) -> [Option<LineAccess>; 2] {
        let field = Field {
            id: 0,
            offset_bytes: 0,
        };
        let lines = self.touch::<false>(addr, bytes, field, kind);
        for line in lines.iter().flatten() {
            self.sides[self.at].core.filled_untimed(*line);
        }
        lines
    }

    /// The line that the core in use used last, once more: nothing changes, and nothing is missed.
    #[inline(always)]
    fn again(&mut self, addr: u64, bytes: u64, kind: Kind) -> Option<LineAccess> {
        let shift = self.hierarchy.line_shift();
        let side = &mut self.sides[self.at];
        let (nominal, line) = side.last;
        if addr >> shift != nominal || addr.wrapping_add(bytes - 1) >> shift != nominal {
            return None;
        }
        let served = self.hierarchy.again(self.at, line, kind)?;
        side.tlbs.again(1);
        Some(LineAccess {
            level: 0,
            slot: served.slot as usize,
            translation_ticks: 0,
            wait: Wait::NONE,
        })
    }

    /// Present the lines of an access: one, or two if it straddles.
    #[inline(always)]
    fn touch<const BOOKED: bool>(
        &mut self,
        addr: u64,
        bytes: u64,
        field: Field,
        kind: Kind,
    ) -> [Option<LineAccess>; 2] {
        let shift = self.hierarchy.line_shift();
        let last = addr.wrapping_add(bytes - 1);
        if addr >> shift == last >> shift {
            return [
                Some(self.touch_line::<BOOKED>(addr, bytes, field, kind)),
                None,
            ];
        }
        self.touch_both::<BOOKED>(addr, bytes, field, kind)
    }

    #[cold]
    fn touch_both<const BOOKED: bool>(
        &mut self,
        addr: u64,
        bytes: u64,
        field: Field,
        kind: Kind,
    ) -> [Option<LineAccess>; 2] {
        let line_bytes = 1_u64 << self.hierarchy.line_shift();
        let here = line_bytes - addr % line_bytes;
        let first = self.touch_line::<BOOKED>(addr, here, field, kind);
        let further = field.at(here as u32);
        let next = addr.wrapping_add(here);
        let second = self.touch_line::<BOOKED>(next, bytes - here, further, kind);
        [Some(first), Some(second)]
    }

    #[inline(always)]
    fn touch_line<const BOOKED: bool>(
        &mut self,
        addr: u64,
        bytes: u64,
        field: Field,
        kind: Kind,
    ) -> LineAccess {
        let place = self.pages.locate(addr);
        let shift = self.hierarchy.line_shift();
        let line = place.physical >> shift;
        let side = &mut self.sides[self.at];
        side.last = (addr >> shift, line);
        let mut translation = side.tlbs.translate(place.class, place.page);
        if translation.missed == 2 {
            translation.walk_ticks = self.walk(addr);
        }
        if self.hierarchy.wants_announcement() {
            return self.touch_announced::<BOOKED>(place, bytes, field, kind, translation);
        }
        let served = self.hierarchy.access_by(self.at, line, kind);
        if BOOKED && (served.level() > 0 || translation.missed > 0) {
            self.book(place, translation, served, field, kind);
        }
        LineAccess {
            level: served.level(),
            slot: served.slot as usize,
            translation_ticks: translation.all_ticks(),
            wait: Wait::NONE,
        }
    }

    /// [`touch_line`](Model::touch_line) where other cores or prefetchers have to do with it.
    #[inline(never)]
    fn touch_announced<const BOOKED: bool>(
        &mut self,
        place: Place,
        bytes: u64,
        field: Field,
        kind: Kind,
        translation: Translation,
    ) -> LineAccess {
        let shift = self.hierarchy.line_shift();
        let line = place.physical >> shift;
        let side = &mut self.sides[self.at];
        let site = u64::from(side.function) << 16 | u64::from(field.id);
        let touch = Touch {
            bytes: byte_mask(place.physical, bytes, shift),
            spot: Spot {
                field: field.id,
                offset_bytes: field.offset_bytes,
            },
        };
        self.hierarchy.announce(touch, place.physical, site);
        let served = self.hierarchy.access_by(self.at, line, kind);
        let mut wait = Wait::NONE;
        if let Some(distance) = served.transfer() {
            wait.transfer_ticks = self.transfer_ticks[distance as usize];
            wait.settled_at = self.hierarchy.settled_at(line);
        }
        if served.first_use() {
            wait.arrives_at = side.in_flight.arrival(line);
        }
        for prefetched in self.hierarchy.prefetched() {
            let arrives_at = if self.timed {
                side.core
                    .prefetched(prefetched.into, prefetched.served, prefetched.slot)
            } else {
                0
            };
            side.in_flight.add(prefetched.line, arrives_at);
        }
        let noteworthy =
            served.level() > 0 || translation.missed > 0 || served.transfer().is_some();
        if BOOKED && noteworthy {
            self.book(place, translation, served, field, kind);
        }
        LineAccess {
            level: served.level(),
            slot: served.slot as usize,
            translation_ticks: translation.all_ticks(),
            wait,
        }
    }

    /// After an access: when its transfers were over, and whether a prefetch was late.
    #[inline(always)]
    fn settle(&mut self, lines: [Option<LineAccess>; 2]) {
        if !self.hierarchy.wants_announcement() {
            return;
        }
        let core = &mut self.sides[self.at].core;
        for line in lines.into_iter().flatten() {
            if line.wait.transfer_ticks > 0 {
                let over = core.transferred();
                self.hierarchy.settle(self.sides[self.at].last.1, over);
                return;
            }
            if line.wait.arrives_at > 0 && core.take_late() {
                self.hierarchy.count_late(self.at, line.level);
                return;
            }
        }
    }

    /// The page walk for `addr`: its latency in ticks.
    #[inline(never)]
    fn walk(&mut self, addr: u64) -> u64 {
        let side = &mut self.sides[self.at];
        let (page_shift, lies_at) = self.pages.in_tables(addr);
        let loads = side.walker.walk(addr, page_shift, lies_at);
        let mut ticks = self.walk_ticks;
        for (i, load) in loads.iter().enumerate() {
            let line = load >> self.hierarchy.line_shift();
            // Not announced: nobody stores to tables, so which bytes it loads makes no difference.
            let served = self.hierarchy.access_by(self.at, line, Kind::Walk);
            // The machine's number has one load from the innermost level in it.
            let innermost = if i == 0 {
                side.core.latency_ticks(0)
            } else {
                0
            };
            ticks += side.core.latency_ticks(served.level()) - innermost;
        }
        ticks
    }
}

/// One bit per byte that an access touches of its line of `2^shift` bytes; of longer lines than 128
/// bytes, per equal part.
fn byte_mask(addr: u64, bytes: u64, shift: u32) -> u128 {
    let part = shift.saturating_sub(7);
    let first = (addr & ((1 << shift) - 1)) >> part;
    let last = ((addr & ((1 << shift) - 1)) + bytes - 1) >> part;
    let wide = |n: u64| if n >= 128 { u128::MAX } else { (1 << n) - 1 };
    wide(last + 1) & !wide(first)
}

/// Whether something is mapped at a nominal address, so that a prefetch of it does anything.
fn mapped(addr: u64) -> bool {
    Region::of(kernels::memory::Addr(addr)).is_some()
}
