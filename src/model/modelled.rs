//! The arena as a kernel sees it through a model.

use kernels::arena::{Arena, Region};
use kernels::memory::{Addr, Field, Memory, Word};

use super::attribution::FUNCTIONS;
use super::core::{Span, cycles_of};
use super::stats::Kind;
use super::{Model, RegionStats};

/// A loaded value and the tick at which it is ready. Computing on it takes no time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timed {
    /// The value.
    pub value: u64,
    /// When it is ready, in ticks of the core; 0 for constants.
    pub ready: u64,
}

impl From<u64> for Timed {
    #[inline]
    fn from(value: u64) -> Timed {
        Timed { value, ready: 0 }
    }
}

impl Word for Timed {
    #[inline]
    fn get(self) -> u64 {
        self.value
    }

    #[inline]
    fn map(self, f: impl FnOnce(u64) -> u64) -> Timed {
        Timed {
            value: f(self.value),
            ..self
        }
    }

    #[inline]
    fn with(self, other: Timed, f: impl FnOnce(u64, u64) -> u64) -> Timed {
        Timed {
            value: f(self.value, other.value),
            ready: self.ready.max(other.ready),
        }
    }
}

/// A [`Model`] over an arena: data come from the arena, each access is presented to the model.
///
/// It starts timed and outside of a region. Warm-up is what happens before the first region: it
/// fills caches and counts as history, but is not booked.
pub struct Modelled<'a> {
    pub(super) arena: &'a mut Arena,
    pub(super) model: &'a mut Model,
}

impl Modelled<'_> {
    /// The model behind it.
    #[must_use]
    pub fn model(&self) -> &Model {
        self.model
    }

    /// Retirement of the last instruction of the core in use, in cycles since the start.
    #[must_use]
    pub fn now(&self) -> f64 {
        cycles_of(self.model.core().now())
    }

    /// As [`Model::begin_region`].
    ///
    /// # Panics
    /// If a region has begun already.
    pub fn begin_region(&mut self) {
        self.model.begin_region();
    }

    /// As [`Model::end_region`].
    ///
    /// # Panics
    /// If no region has begun.
    pub fn end_region(&mut self) -> RegionStats {
        self.model.end_region()
    }

    /// As [`Model::use_core`].
    ///
    /// # Panics
    /// If there are not that many.
    pub fn use_core(&mut self, core: usize) {
        self.model.use_core(core);
    }

    /// Forget the misses booked so far: those of a warm-up.
    pub fn clear_misses(&mut self) {
        self.model.clear_misses();
    }

    /// Wait until the core in use is idle.
    pub fn drain(&mut self) {
        self.model.core_mut().drain();
    }

    /// From now on accesses change caches, TLBs and predictor, but no time passes: pollution
    /// between operations.
    pub fn untimed(&mut self) {
        self.drain();
        self.model.timed = false;
    }

    /// From now on time passes.
    pub fn timed(&mut self) {
        self.model.timed = true;
    }

    /// Empty the caches, and the TLBs too if asked. The branch predictor keeps what it knows.
    pub fn flush_caches(&mut self, tlbs: bool) {
        self.model.flush(tlbs);
    }

    #[inline]
    fn store_bytes(&mut self, addr: u64, bytes: usize, value: u64) {
        self.arena.write(Addr(addr), bytes.min(8), value);
        if bytes > 8 {
            self.arena.write(Addr(addr).plus(8), bytes - 8, 0);
        }
    }
}

impl Memory for Modelled<'_> {
    type Word = Timed;

    #[inline]
    fn load<const BYTES: usize>(&mut self, base: Timed, field: Field) -> Timed {
        let addr = base.value.wrapping_add(u64::from(field.offset_bytes));
        let value = self.arena.read(Addr(addr), BYTES.min(8));
        let model = &mut *self.model;
        let ready = if model.unseen.contains(field.id) {
            match model.timed {
                true => model.core_mut().load_unseen(base.ready),
                false => 0,
            }
        } else if model.timed {
            model.load(base.ready, addr, BYTES as u64, field)
        } else {
            model.touch_outside(addr, BYTES as u64, Kind::Load);
            0
        };
        Timed { value, ready }
    }

    #[inline]
    fn store<const BYTES: usize>(&mut self, base: Timed, field: Field, value: Timed) {
        let addr = base.value.wrapping_add(u64::from(field.offset_bytes));
        self.store_bytes(addr, BYTES, value.value);
        let model = &mut *self.model;
        if model.unseen.contains(field.id) {
            if model.timed {
                let span = Span {
                    start: addr,
                    bytes: BYTES as u64,
                };
                let core = model.core_mut();
                core.store(base.ready, value.ready, span, [None; 2]);
            }
        } else if model.timed {
            model.store(base.ready, value.ready, addr, BYTES as u64, field);
        } else {
            model.touch_outside(addr, BYTES as u64, Kind::Store);
        }
    }

    fn locked_add<const BYTES: usize>(&mut self, base: Timed, field: Field, delta: u64) -> Timed {
        let addr = base.value.wrapping_add(u64::from(field.offset_bytes));
        let value = self.arena.read(Addr(addr), BYTES.min(8));
        let sum = value.wrapping_add(delta);
        self.arena.write(Addr(addr), BYTES.min(8), sum);
        let model = &mut *self.model;
        let unseen = model.unseen.contains(field.id);
        let ready = match (unseen, model.timed) {
            (true, true) => model.core_mut().locked(base.ready, [None; 2]),
            (true, false) => 0,
            (false, true) => model.locked(base.ready, addr, BYTES as u64, field),
            (false, false) => {
                model.touch_outside(addr, BYTES as u64, Kind::Store);
                0
            }
        };
        Timed { value, ready }
    }

    fn prefetch(&mut self, base: Timed, field: Field) {
        let addr = base.value.wrapping_add(u64::from(field.offset_bytes));
        let model = &mut *self.model;
        // A prefetch of what is not mapped (a null parent) does nothing.
        let seen = mapped(addr) && !model.unseen.contains(field.id);
        match (seen, model.timed) {
            (true, true) => model.prefetch(base.ready, addr, field),
            (true, false) => {
                model.touch_outside(addr, 1, Kind::Prefetch);
            }
            (false, true) => model.core_mut().prefetch(base.ready, None),
            (false, false) => {}
        }
    }

    #[inline]
    fn branch(&mut self, site: u16, on: Timed, taken: bool) {
        let timed = self.model.timed;
        let core = self.model.core_mut();
        match timed {
            true => core.branch(site, on.ready, taken),
            false => {
                core.predict(site, taken);
            }
        }
    }

    fn fence(&mut self) {
        if self.model.timed {
            self.model.core_mut().fence();
        }
    }

    fn enter(&mut self, function: u16) {
        assert!(
            function < FUNCTIONS,
            "function {function} is beyond {FUNCTIONS}"
        );
        self.model.enter(function);
    }

    #[inline]
    fn work(&mut self, instructions: u32) {
        if self.model.timed {
            self.model.core_mut().work(instructions);
        }
    }
}

/// Whether something is mapped at a nominal address, so that a prefetch of it does anything.
fn mapped(addr: u64) -> bool {
    Region::of(Addr(addr)).is_some()
}
