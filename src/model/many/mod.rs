//! Many accesses at once, in order, none of which waits for the value of another: what a trace has.
//!
//! The same as one by one, in less time where the caches are filters (one core, no prefetcher, no
//! level that needs to know what those inside hold). Then a block of accesses passes four stages: pages
//! and TLBs, which know nothing of caches; the caches, level by level; the core's clock; the books.

mod books;
mod part;

use kernels::memory::Field;

use self::books::Books;
use self::part::{MOST_AGAIN, Part};
use super::Model;
use super::block::{Block, REQUESTS, Request};
use super::core::{LineAccess, Span, Wait};
use super::stats::Kind;
use super::tlb::Translation;
use super::walk::MOST_LOADS;

/// An access of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Nominal address of its first byte.
    pub addr: u64,
    /// What it is booked under.
    pub field: Field,
    /// Bytes, 1 to 16; of a prefetch 1, as it is of one line.
    pub bytes: u8,
    /// A load, a store or a prefetch by the program.
    pub kind: Kind,
}

/// A translation that was not at hand.
#[derive(Clone, Copy, Debug)]
struct Missed {
    translation: Translation,
    class: usize,
    page: u64,
    /// The walk's loads are the requests just before that of the line.
    loads: usize,
}

/// Buffers of [`Model::run`].
#[derive(Clone, Debug)]
pub(super) struct Many {
    parts: Vec<Part>,
    /// The first is that of no miss.
    missed: Vec<Missed>,
    /// What is booked, packed, and its ticks.
    booked: Vec<(u64, u64)>,
}

impl Many {
    fn new() -> Many {
        Many {
            parts: Vec::with_capacity(REQUESTS),
            missed: Vec::with_capacity(REQUESTS),
            booked: Vec::with_capacity(4 * REQUESTS),
        }
    }

    fn clear(&mut self) {
        self.parts.clear();
        self.missed.clear();
        self.missed.push(Missed {
            translation: Translation::default(),
            class: 0,
            page: 0,
            loads: 0,
        });
    }
}

impl Model {
    /// The core in use makes `accesses`; addresses are known at once, values of stores too. The same as
    /// [`load`](Model::load), [`store`](Model::store) and [`prefetch`](Model::prefetch) of each.
    pub fn run(&mut self, accesses: &[Access]) {
        if self.hierarchy.is_filter() {
            return self.run_blocks::<true>(accesses);
        }
        for access in accesses {
            let (addr, bytes) = (access.addr, u64::from(access.bytes));
            match access.kind {
                Kind::Store => self.store(0, 0, addr, bytes, access.field),
                Kind::Prefetch => self.prefetch(0, addr, access.field),
                _ => drop(self.load(0, addr, bytes, access.field)),
            }
        }
    }

    /// [`present`](Model::present) each of `accesses`.
    pub fn present_all(&mut self, accesses: &[Access]) {
        if self.hierarchy.is_filter() {
            return self.run_blocks::<false>(accesses);
        }
        for access in accesses {
            self.present(access.addr, u64::from(access.bytes), access.kind);
        }
    }

    fn run_blocks<const TIMED: bool>(&mut self, accesses: &[Access]) {
        let mut filters = self.hierarchy.take_filters();
        let mut many = self.many.take().unwrap_or_else(|| Box::new(Many::new()));
        let mut rest = accesses;
        while !rest.is_empty() {
            many.clear();
            filters.block.clear();
            let done = self.translate(rest, &mut filters.block, &mut many);
            let (now, later) = rest.split_at(done);
            self.hierarchy.run::<true>(&mut filters);
            if TIMED {
                self.time(now, &filters.block, &mut many);
                self.attribution.book_all(&mut many.booked);
            } else {
                self.fill_untimed(&filters.block, &many);
            }
            rest = later;
        }
        self.hierarchy.put_filters(filters);
        self.many = Some(many);
    }

    /// Pages and TLBs: the requests of as many accesses as there is room for; how many.
    fn translate(&mut self, accesses: &[Access], block: &mut Block, many: &mut Many) -> usize {
        let shift = self.hierarchy.line_shift();
        let merged = self.hierarchy.settles;
        let line_bytes = 1_u64 << shift;
        let mut requests = [0_u64; 3];
        let mut done = 0;
        while let Some(access) = accesses.get(done)
            && block.room() >= 2 * (MOST_LOADS + 1)
        {
            done += 1;
            let Access {
                addr,
                field: _,
                bytes,
                kind,
            } = *access;
            let last = addr.wrapping_add(u64::from(bytes) - 1);
            self.translate_line(addr, kind, block, many);
            requests[kind as usize] += 1;
            if last >> shift != addr >> shift {
                let next = (addr & !(line_bytes - 1)).wrapping_add(line_bytes);
                self.translate_line(next, kind, block, many);
                requests[kind as usize] += 1;
            }
            if merged {
                let again = self.merge(&accesses[done..], last >> shift, &mut requests, block);
                if let Some(part) = many.parts.last_mut() {
                    *part = part.with_again(again);
                }
                done += again;
            }
        }
        for (count, more) in self.hierarchy.cores[0].counts[0]
            .requests
            .iter_mut()
            .zip(requests)
        {
            *count += more;
        }
        done
    }

    /// How many of `accesses`, from the first on, are of `line` alone, which the access before was of:
    /// they need no request of their own.
    #[inline(always)]
    fn merge(
        &mut self,
        accesses: &[Access],
        line: u64,
        requests: &mut [u64; 3],
        block: &mut Block,
    ) -> usize {
        let shift = self.hierarchy.line_shift();
        let mut again = 0;
        let mut others = [0_u64; 3];
        for access in &accesses[..accesses.len().min(MOST_AGAIN)] {
            let last = access.addr.wrapping_add(u64::from(access.bytes) - 1);
            if access.addr >> shift != line || last >> shift != line {
                break;
            }
            if access.kind != Kind::Load {
                others[access.kind as usize] += 1;
            }
            again += 1;
        }
        if again > 0 {
            requests[Kind::Load as usize] += again as u64 - others.iter().sum::<u64>();
            for (count, more) in requests.iter_mut().zip(others) {
                *count += more;
            }
            if others[Kind::Store as usize] > 0 {
                block.again(Kind::Store);
            }
            self.sides[self.at].tlbs.again(again as u64);
        }
        again
    }

    #[inline(always)]
    fn translate_line(&mut self, addr: u64, kind: Kind, block: &mut Block, many: &mut Many) {
        let place = self.pages.locate(addr);
        let shift = self.hierarchy.line_shift();
        let line = place.physical >> shift;
        let side = &mut self.sides[self.at];
        side.last = (addr >> shift, line);
        let translation = side.tlbs.translate(place.class, place.page);
        let mut number = 0;
        if translation.missed > 0 {
            let mut loads = 0;
            if translation.missed == 2 {
                let (page_shift, lies_at) = self.pages.in_tables(addr);
                let entries = side.walker.walk(addr, page_shift, lies_at);
                for entry in entries {
                    block.push(Request::new(entry >> shift, Kind::Walk));
                }
                loads = entries.len();
                self.hierarchy.cores[0].counts[0].requests[Kind::Walk as usize] += loads as u64;
            }
            number = many.missed.len();
            many.missed.push(Missed {
                translation,
                class: place.class,
                page: place.page,
                loads,
            });
        }
        let request = block.push(Request::new(line, kind));
        many.parts.push(Part::new(request, number));
    }

    /// The core's clock, and what is to be booked.
    fn time(&mut self, accesses: &[Access], block: &Block, many: &mut Many) {
        let shift = self.hierarchy.line_shift();
        let Many {
            parts,
            missed,
            booked,
        } = many;
        booked.clear();
        let side = &mut self.sides[self.at];
        let mut books = Books {
            hierarchy: &self.hierarchy,
            level_numbers: &self.level_numbers,
            tlbs: &side.tlbs,
            function: side.function,
            wanted: side.region.is_some(),
            walk_ticks: self.walk_ticks,
            shift,
            block,
            missed,
            booked,
        };
        let core = &mut side.core;
        let mut rest = accesses;
        let mut parts = parts.iter();
        let mut next = || *parts.next().expect("a part for each line");
        while let Some((access, others)) = rest.split_first() {
            let span = Span {
                start: access.addr,
                bytes: u64::from(access.bytes),
            };
            let mut part = next();
            let last = access.addr.wrapping_add(span.bytes - 1);
            let one = last >> shift == access.addr >> shift;
            if one && part.translation() == 0 && block.levels[part.request()] == 0 {
                core.access_hit(access.kind, span, block.slots[part.request()] as usize);
            } else {
                let field = access.field;
                let first = books.line(core, part, field, access.kind);
                let second = (!one).then(|| {
                    part = next();
                    let here = (1_u64 << shift) - (access.addr & ((1 << shift) - 1));
                    books.line(core, part, field.at(here as u32), access.kind)
                });
                core.access(access.kind, span, [Some(first), second]);
            }
            let (again, others) = others.split_at(part.again());
            if !again.is_empty() {
                core.access_hits(again, block.slots[part.request()] as usize);
            }
            rest = others;
        }
    }

    /// Lines that came outside of time are there.
    fn fill_untimed(&mut self, block: &Block, many: &Many) {
        let core = &mut self.sides[self.at].core;
        for part in &many.parts {
            core.filled_untimed(LineAccess {
                level: block.levels[part.request()].into(),
                slot: block.slots[part.request()] as usize,
                translation_ticks: 0,
                wait: Wait::NONE,
            });
        }
    }
}
