//! Instructions that access memory: loads, stores, prefetches, locked ones, fences.

use super::ports::Start;
use super::stores::Stored;
use super::{Core, LineAccess, Span, TICKS_PER_CYCLE, Wait};
use crate::model::stats::Kind;

impl Core {
    /// A load of `span` that touches `lines`; when its value is ready.
    #[inline(always)]
    pub fn load(&mut self, address: u64, span: Span, lines: [Option<LineAccess>; 2]) -> u64 {
        self.load_by(address, span, |core, start| core.fetch_all(start, lines))
    }

    /// A load for which `fetch` says when its data come, given when it starts.
    #[inline(always)]
    pub(super) fn load_by(
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
    pub(super) fn store_by(
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

    /// A load, a store or a prefetch whose address and value are known at once.
    #[inline(always)]
    pub(in crate::model) fn access(
        &mut self,
        kind: Kind,
        span: Span,
        lines: [Option<LineAccess>; 2],
    ) {
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
    pub(super) fn settled(&self, at: u64) -> u64 {
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
}
