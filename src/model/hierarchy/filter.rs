//! A level as a filter: of a block of requests it lets those through that it misses, and the dirty
//! lines that it evicts.
//!
//! Where nothing comes back from a level but the line that was asked for, what a level does depends
//! on its own requests alone. A block then passes level by level, which is the same as request by
//! request, and much faster: the next sets are known beforehand and can be fetched, and searches do
//! not wait for each other.

use super::{Hierarchy, Level, NO_LINE};
use crate::machine::Inclusion;
use crate::model::block::{Block, LINE_BITS, REQUESTS, Request, Requests};
use crate::model::cache::filter::Outcome;
use crate::model::classify::Cause;
use crate::model::stats::{Counts, Kind};

/// Buffers of [`Hierarchy::run`].
#[derive(Clone, Debug)]
pub(in crate::model) struct Filters {
    pub block: Block,
    first: Vec<u32>,
    here: Requests,
    next: Requests,
}

impl Filters {
    pub fn new() -> Filters {
        Filters {
            block: Block::new(),
            first: (0..REQUESTS as u32).collect(),
            here: Requests::new(),
            next: Requests::new(),
        }
    }
}

impl Hierarchy {
    /// Whether requests can pass level by level: one core, no prefetcher, and levels that tell those
    /// inside nothing.
    pub(in crate::model) fn is_filter(&self) -> bool {
        let outer = self.shape.caches.iter().skip(1);
        self.plain
            && self.cores.len() == 1
            && self.line_shift() >= 64 - LINE_BITS
            && outer
                .map(|cache| cache.inclusion)
                .all(|inclusion| inclusion == Inclusion::NonInclusive)
    }

    /// Loads of `addresses` by the first core, each of the line it lies in, in order: as
    /// [`access`](Hierarchy::access) of each, in less time where no level has prefetchers, other cores
    /// or lines of inner levels to care for.
    pub fn load_all(&mut self, addresses: &[u64]) {
        if !self.is_filter() {
            for addr in addresses {
                self.access(addr >> self.line_shift(), Kind::Load);
            }
            return;
        }
        let classified = (0..self.depth).any(|k| self.classifies(k));
        let mut filters = self.take_filters();
        let mut last = self.cores[0].last.0;
        for chunk in addresses.chunks(REQUESTS) {
            let (shift, merged) = (self.line_shift(), self.settles);
            filters.block.load_all(chunk, shift, merged, &mut last);
            self.cores[0].counts[0].requests[Kind::Load as usize] += chunk.len() as u64;
            match classified {
                true => self.run::<true>(&mut filters),
                false => self.run::<false>(&mut filters),
            }
            filters.block.clear();
        }
        self.put_filters(filters);
    }

    pub(in crate::model) fn take_filters(&mut self) -> Box<Filters> {
        let filters = self.filters.take();
        filters.unwrap_or_else(|| Box::new(Filters::new()))
    }

    pub(in crate::model) fn put_filters(&mut self, filters: Box<Filters>) {
        self.filters = Some(filters);
    }

    /// Whether misses of `level` are told apart.
    pub(in crate::model) fn classifies(&self, level: usize) -> bool {
        self.levels[level].shadow.is_some()
    }

    /// Let the block pass all levels; the requests to the innermost are counted already. How each fared
    /// is `NOTED` in the block, which telling misses apart needs.
    pub(in crate::model) fn run<const NOTED: bool>(&mut self, filters: &mut Filters) {
        let Filters {
            block,
            first,
            here,
            next,
        } = filters;
        let Block {
            requests,
            len,
            slots,
            levels,
            causes,
        } = block;
        let asked = &requests[..*len];
        let Some(last) = asked.last() else {
            return;
        };
        let last = last.line();
        for k in 0..self.depth {
            next.clear();
            let (requests, origins): (&[Request], &[u32]) = match k {
                0 => (asked, first),
                _ => here.all(),
            };
            let counts = &mut self.cores[0].counts;
            let before = counts[k].misses;
            let level = &mut self.levels[k];
            let outcome = Outcome {
                slots: if k == 0 { &mut slots[..] } else { &mut [] },
                levels,
                number: k as u8,
                next,
            };
            level
                .cache
                .filter::<NOTED>(requests, origins, outcome, &mut counts[k]);
            if level.shadow.is_some() {
                let fared = (&slots[..], &levels[..], k);
                level.tell_apart(requests, origins, fared, &mut causes[k], &mut counts[k]);
            }
            if k + 1 < self.depth {
                let now = counts[k].misses;
                let asked = counts[k + 1].requests.iter_mut();
                for (count, (now, before)) in asked.zip(now.iter().zip(before)) {
                    *count += now - before;
                }
            }
            std::mem::swap(here, next);
        }
        let slot = slots[asked.len() - 1] as usize;
        self.cores[0].last = match self.settles && NOTED {
            true => (last, slot),
            false => (NO_LINE, 0),
        };
    }
}

impl Level {
    /// Tell misses apart by cause, and let the fully associative cache see the requests.
    fn tell_apart(
        &mut self,
        requests: &[Request],
        origins: &[u32],
        (slots, levels, number): (&[u32], &[u8], usize),
        causes: &mut [Cause],
        counts: &mut Counts,
    ) {
        let Some(shadow) = &mut self.shadow else {
            return;
        };
        for (i, (request, origin)) in requests.iter().zip(origins).enumerate() {
            if request.is_writeback() {
                continue;
            }
            let (line, missed) = (
                request.line(),
                usize::from(levels[*origin as usize]) > number,
            );
            let node = match number {
                0 => &mut self.nodes[slots[i] as usize],
                _ => &mut 0,
            };
            if number == 0 && !missed && shadow.renew(line, *node) {
                continue;
            }
            let (cause, of_line) = shadow.request_node(line);
            *node = of_line;
            causes[*origin as usize] = cause;
            if missed && request.is_demand() {
                counts.causes[cause as usize] += 1;
            }
        }
    }
}
