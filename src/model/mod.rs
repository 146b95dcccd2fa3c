//! The `model` rung: a deterministic model of one core of a named machine.
//!
//! A [`Model`] is a [`Hierarchy`] of caches with [`Tlbs`] and a
//! [`PageMap`] before them, a [`Core`] that decides when things happen, and an
//! [`Attribution`] that says whose misses they are. [`Model::on`] puts it over an arena: what
//! comes out is a `kernels::memory::Memory` that a kernel runs on. Presented accesses change caches
//! in program order; the core decides when they happen. Same machine, same seed, same accesses:
//! same bits out. Each module says what it leaves out.

pub mod attribution;
mod buffers;
pub mod cache;
pub mod classify;
pub mod core;
pub mod hierarchy;
pub mod modelled;
pub mod page_map;
pub mod predictor;
pub mod replacement;
pub mod tlb;

use kernels::arena::{Arena, Region};
use kernels::memory::Field;

use self::attribution::{Attribution, FIELDS, MissKey, MissLevel, MissRow};
use self::classify::Cause;
use self::core::{Core, CoreStats, LineAccess, Span, cycles_of};
use self::hierarchy::{Hierarchy, Kind, LevelStats, MAX_LEVELS};
use self::modelled::Modelled;
use self::page_map::{PageMap, PageMapOptions, Place};
use self::tlb::{TlbStats, Tlbs, Translation};
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
}

impl Default for ModelOptions {
    fn default() -> ModelOptions {
        ModelOptions {
            classify: vec![1],
            unseen: FieldSet::default(),
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
}

#[derive(Clone, Copy, Debug)]
struct Snapshot {
    ticks: u64,
    levels: [LevelStats; MAX_LEVELS],
    tlb: TlbStats,
    core: CoreStats,
}

/// One core of a machine, with its caches, TLBs and pages.
#[derive(Clone, Debug)]
pub struct Model {
    pages: PageMap,
    tlbs: Tlbs,
    hierarchy: Hierarchy,
    core: Core,
    attribution: Attribution,
    unseen: FieldSet,
    /// Number of each cache level, as the machine counts.
    level_numbers: Vec<u8>,
    function: u16,
    timed: bool,
    region: Option<Snapshot>,
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
        let hierarchy = Hierarchy::new(&machine.caches, &options.classify, seed)?;
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
        let hierarchy = self
            .hierarchy
            .renewed(&machine.caches, &options.classify, seed)?;
        Model::over(hierarchy, machine, pages, seed, options)
    }

    fn over(
        hierarchy: Hierarchy,
        machine: &Machine,
        pages: PageMapOptions,
        seed: u64,
        options: ModelOptions,
    ) -> Result<Model, ModelError> {
        let pages = PageMap::new(pages, seed)?;
        Ok(Model {
            tlbs: Tlbs::new(machine, pages.page_bytes())?,
            core: Core::new(machine, hierarchy.cache(0).lines())?,
            pages,
            hierarchy,
            attribution: Attribution::default(),
            unseen: options.unseen,
            level_numbers: machine.caches.iter().map(|c| c.level).collect(),
            function: 0,
            timed: true,
            region: None,
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

    /// The core.
    #[must_use]
    pub fn core(&self) -> &Core {
        &self.core
    }

    /// Counts of the TLBs since the start.
    #[must_use]
    pub fn tlb_stats(&self) -> TlbStats {
        self.tlbs.stats()
    }

    /// Misses within regions since the start or [`clear_misses`](Model::clear_misses), sorted.
    #[must_use]
    pub fn misses(&self) -> Vec<MissRow> {
        self.attribution.rows()
    }

    /// Forget the booked misses.
    pub fn clear_misses(&mut self) {
        self.attribution.clear();
    }

    /// Show one access of 1 to 16 bytes to TLBs and caches, outside of time and attribution: a
    /// trace, or data touched between operations. Whether any of its lines missed the L1D.
    pub fn present(&mut self, addr: u64, bytes: u64, kind: Kind) -> bool {
        let lines = self.touch_outside(addr, bytes, kind);
        lines.into_iter().flatten().any(|line| line.level > 0)
    }

    /// Empty all caches, and the TLBs too if asked.
    pub fn flush(&mut self, tlbs: bool) {
        self.core.drain();
        self.hierarchy.flush();
        self.core.flushed();
        if tlbs {
            self.tlbs.flush();
        }
    }

    fn touch_outside(&mut self, addr: u64, bytes: u64, kind: Kind) -> [Option<LineAccess>; 2] {
        let field = Field {
            id: 0,
            offset_bytes: 0,
        };
        let lines = self.touch::<false>(addr, bytes, field, kind);
        lines
            .iter()
            .flatten()
            .for_each(|l| self.core.filled_untimed(*l));
        lines
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
        let first = Some(self.touch_line::<BOOKED>(addr, field, kind));
        if addr >> shift == last >> shift {
            return [first, None];
        }
        [
            first,
            Some(self.touch_second::<BOOKED>(addr, last, field, kind)),
        ]
    }

    #[cold]
    fn touch_second<const BOOKED: bool>(
        &mut self,
        addr: u64,
        last: u64,
        field: Field,
        kind: Kind,
    ) -> LineAccess {
        let shift = self.hierarchy.line_shift();
        let further = ((last >> shift << shift).wrapping_sub(addr)) as u32;
        self.touch_line::<BOOKED>(last, field.at(further), kind)
    }

    #[inline(always)]
    fn touch_line<const BOOKED: bool>(
        &mut self,
        addr: u64,
        field: Field,
        kind: Kind,
    ) -> LineAccess {
        let place = self.pages.locate(addr);
        let translation = self.tlbs.translate(place.class, place.page);
        let line = place.physical >> self.hierarchy.line_shift();
        let served = self.hierarchy.access(line, kind);
        if BOOKED && (served.level > 0 || translation.missed > 0) {
            self.book(place, translation, served.level, field, kind);
        }
        LineAccess {
            level: served.level,
            slot: served.slot,
            translation_ticks: translation.ticks,
        }
    }

    #[inline(never)]
    fn book(
        &mut self,
        place: Place,
        translation: Translation,
        served: usize,
        field: Field,
        kind: Kind,
    ) {
        if self.region.is_none() || kind == Kind::Prefetch {
            return;
        }
        let shift = self.hierarchy.line_shift();
        let key = |set: usize, level, cause| MissKey {
            function: self.function,
            field: field.id,
            line: field.offset_bytes >> shift,
            set: set as u32,
            level,
            cause,
        };
        for k in 0..served {
            let set = self.hierarchy.cache(k).set_of(place.physical >> shift);
            let level = MissLevel::Cache(self.level_numbers[k]);
            let ticks = self.core.latency_ticks(k + 1) - self.core.latency_ticks(k);
            let key = key(set, level, self.hierarchy.last_cause(k));
            self.attribution.book(key, ticks);
        }
        let cause = Some(Cause::Translation);
        let levels = [MissLevel::Dtlb, MissLevel::Stlb];
        for (k, level) in levels.into_iter().enumerate() {
            let there = k == 0 || self.tlbs.has_second(place.class);
            if k < usize::from(translation.missed) && there {
                let (set, ticks) = self.tlbs.miss_of(k, place.class, place.page);
                self.attribution.book(key(set, level, cause), ticks);
            }
        }
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot {
            ticks: self.core.now(),
            levels: self.hierarchy.stats(),
            tlb: self.tlbs.stats(),
            core: self.core.stats(),
        }
    }

    fn end_region(&mut self) -> RegionStats {
        let start = self.region.take().expect("a region ends that began");
        let end = self.snapshot();
        RegionStats {
            cycles: cycles_of(end.ticks - start.ticks),
            levels: std::array::from_fn(|k| end.levels[k].since(&start.levels[k])),
            tlb: end.tlb.since(start.tlb),
            core: end.core.since(start.core),
        }
    }
}

/// The span of an access.
#[inline]
fn span(addr: u64, bytes: usize) -> Span {
    Span {
        start: addr,
        bytes: bytes as u64,
    }
}

/// Whether something is mapped at a nominal address, so that a prefetch of it does anything.
fn mapped(addr: u64) -> bool {
    Region::of(kernels::memory::Addr(addr)).is_some()
}
