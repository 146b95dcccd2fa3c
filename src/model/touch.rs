//! What an access does to pages, TLBs and caches, and what it has to wait for there.

use kernels::memory::Field;

use super::Model;
use super::coherence::{Spot, Touch};
use super::core::{LineAccess, Wait};
use super::page_map::Place;
use super::stats::Kind;
use super::tlb::Translation;

impl Model {
    /// Show one access to TLBs and caches, outside of time and attribution: a trace, or data touched
    /// between operations. Whether any of its lines missed the L1D.
    pub fn present(&mut self, addr: u64, bytes: u64, kind: Kind) -> bool {
        let lines = self.touch_outside(addr, bytes, kind);
        lines.into_iter().flatten().any(|line| line.level > 0)
    }

    #[inline(never)]
    pub(super) fn touch_outside(
        &mut self,
        addr: u64,
        bytes: u64,
        kind: Kind,
    ) -> [Option<LineAccess>; 2] {
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
    pub(super) fn again(&mut self, addr: u64, bytes: u64, kind: Kind) -> Option<LineAccess> {
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
    pub(super) fn touch<const BOOKED: bool>(
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
            wait.from_cache = served.from_cache();
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
    pub(super) fn settle(&mut self, lines: [Option<LineAccess>; 2]) {
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
