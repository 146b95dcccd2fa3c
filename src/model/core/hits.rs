//! Accesses of lines that are in the L1D, without carrying about what is zero.

use super::ports::Start;
use super::{Core, Span};
use crate::model::many::Access;
use crate::model::stats::Kind;

impl Core {
    /// A load, a store or a prefetch, known at once, of the L1D line in `slot`, translated for nothing:
    /// as [`access`](Core::access), without carrying about what is zero.
    #[inline(always)]
    pub(in crate::model) fn access_hit(&mut self, kind: Kind, span: Span, slot: usize) {
        match kind {
            Kind::Store => self.store_by(0, 0, span, |core, start| (start, core.arrivals[slot].at)),
            Kind::Prefetch => self.prefetch(0, None),
            _ => drop(self.load_by(0, span, |core, start| core.hit(start, slot))),
        }
    }

    /// [`access_hit`](Core::access_hit) of each of `accesses`.
    #[inline(never)]
    pub(in crate::model) fn access_hits(&mut self, accesses: &[Access], slot: usize) {
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
}
