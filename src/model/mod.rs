//! The `model` rung: a deterministic model of the cores of a named machine.
//!
//! A [`Model`] is a [`Hierarchy`] of caches with [`Tlbs`] and a
//! [`PageMap`] before them, a [`Core`] for each core that decides when things happen, and an
//! [`Attribution`] that says whose misses they are. [`Model::on`] puts it over an arena: what
//! comes out is a `kernels::memory::Memory` that a kernel runs on. Presented accesses change caches
//! in program order; the core decides when they happen. Same machine, same seed, same accesses:
//! same bits out. Each module says what it leaves out; `docs/model.md` says it of all of them on one page,
//! and what checks them.

pub mod attribution;
mod block;
mod book;
pub mod cache;
pub mod classify;
pub mod coherence;
pub mod core;
pub mod hierarchy;
mod in_flight;
mod index;
mod many;
pub mod modelled;
mod options;
pub mod page_map;
pub mod prefetch;
mod region;
pub mod replacement;
pub mod shape;
pub mod stats;
mod tags;
pub mod tlb;
mod touch;
pub mod walk;

use kernels::arena::Arena;
use kernels::memory::Field;

use self::attribution::{Attribution, MissRow};
use self::core::{Core, Span, ticks_of};
use self::hierarchy::Hierarchy;
use self::in_flight::InFlight;
pub use self::many::Access;
use self::many::Many;
use self::modelled::Modelled;
pub use self::options::{FieldSet, ModelOptions};
use self::page_map::{PageMap, PageMapOptions};
pub use self::region::RegionStats;
use self::region::Snapshot;
use self::shape::Shape;
use self::stats::Kind;
use self::tlb::{TlbStats, Tlbs};
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
}
