//! Booking of misses by field, level and cause.

use kernels::memory::Field;

use super::Model;
use super::attribution::{MissKey, MissLevel};
use super::classify::Cause;
use super::coherence::Sharing;
use super::hierarchy::Served;
use super::page_map::Place;
use super::stats::Kind;
use super::tlb::Translation;

impl Model {
    /// Book what a demand in a region missed. The rows of an access sum up to its latency beyond
    /// that of an L1D and DTLB hit: each level adds what the next one's latency adds, and the
    /// outermost that missed has what a transfer from another core adds, or takes in place of memory.
    #[inline(never)]
    pub(super) fn book(
        &mut self,
        place: Place,
        translation: Translation,
        served: Served,
        field: Field,
        kind: Kind,
    ) {
        let side = &self.sides[self.at];
        if side.region.is_none() || !kind.is_demand() {
            return;
        }
        let shift = self.hierarchy.line_shift();
        let line = place.physical >> shift;
        let function = side.function;
        let key = |set: usize, level, cause| MissKey {
            function,
            field: field.id,
            line: field.offset_bytes >> shift,
            set: set as u32,
            level,
            cause,
        };
        let transfer = served
            .transfer()
            .map_or(0, |far| self.transfer_ticks[far as usize]);
        // A store that had to take the line from others waits at its own level.
        let missed = served.level().max(usize::from(transfer > 0));
        let sharing = served.sharing().map(|kind| match kind {
            Sharing::True => Cause::TrueSharing,
            Sharing::False | Sharing::Adjacent => Cause::FalseSharing,
        });
        for k in 0..missed {
            let set = self.hierarchy.cache_of(self.at, k).set_of(line);
            let level = MissLevel::Cache(self.level_numbers[k]);
            let mut ticks = side.core.latency_ticks(k + 1) - side.core.latency_ticks(k);
            if k + 1 == missed && transfer > 0 {
                let waits = served.level() > k && !served.from_cache();
                let beyond = transfer.saturating_sub(side.core.latency_ticks(k));
                ticks = beyond.max(if waits { ticks } else { 0 });
            }
            let cause = sharing.or(self.hierarchy.last_cause(self.at, k));
            self.attribution.book(key(set, level, cause), ticks);
        }
        let second = side.tlbs.has_second(place.class);
        for (level, ticks) in translation.rows(second) {
            let number = usize::from(level == MissLevel::Stlb);
            let set = side.tlbs.set_of(number, place.class, place.page);
            let key = key(set, level, Some(Cause::Translation));
            self.attribution.book(key, ticks);
        }
    }
}
