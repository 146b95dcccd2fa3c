//! Hardware prefetchers of one core: what they watch, and which lines they ask for.
//!
//! All stay within the 4 KiB page of the access that triggers them, as physical neighbours beyond it
//! mean nothing. A trigger asks at most for the `lines` of its table; a line that is there already is
//! not asked for. A prefetcher of a level that cores share leaves out what one of them has in its
//! private levels. The first use of a line that a prefetcher brought triggers as a miss does.
//!
//! - **next line**: a miss of its level asks for the lines that follow.
//! - **adjacent line**: a miss of its level asks for the other line of the aligned pair.
//! - **stride**: per site in the code (a kernel's function and field, an instruction of a trace) the
//!   last address and stride; from the third access with a stride in a row on, the next addresses.
//! - **streamer**: per page, of 32 pages, requests that missed the level inside; from the third that
//!   goes the same way on, the next lines that way that it has not asked for yet.
//!
//! Not modelled: throttling by bandwidth or accuracy, prefetch to an outer level only, streams that
//! cross pages, temporal and pointer prefetchers, region prefetchers, what virtual addresses tell an
//! L1 prefetcher beyond a page.

use super::ModelError;
use crate::machine::{self, PrefetcherKind};

/// What an access was to the prefetchers.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// Physical address.
    pub addr: u64,
    /// Its line.
    pub line: u64,
    /// Where in the code.
    pub site: u64,
    /// Level that served it: 0 the innermost.
    pub served: usize,
    /// Whether it was the first use of a prefetched line, which triggers as a miss would.
    pub first_use: bool,
}

/// A line that a prefetcher wants in a level (0 the innermost).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The line.
    pub line: u64,
    /// To be filled, and those outside it.
    pub level: usize,
}

#[derive(Clone, Debug)]
struct Prefetcher {
    level: usize,
    lines: u64,
    watch: Watch,
}

#[derive(Clone, Debug)]
enum Watch {
    NextLine,
    AdjacentLine,
    Stride(Vec<Stride>),
    Streamer { pages: Vec<Stream>, clock: u64 },
}

#[derive(Clone, Copy, Debug, Default)]
struct Stride {
    /// Plus 1; 0 is none.
    site: u64,
    addr: u64,
    stride: i64,
    repeats: u8,
}

#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    /// Plus 1; 0 is none.
    page: u64,
    used: u64,
    line: u64,
    /// Last line asked for.
    ahead: u64,
    rising: bool,
    repeats: u8,
}

const SITES: usize = 256;
const PAGES: usize = 32;
/// Repeats of a stride or direction before anything is asked for.
const SURE: u8 = 2;
const PAGE_SHIFT: u32 = 12;

/// All prefetchers of one core.
#[derive(Clone, Debug)]
pub struct Prefetchers {
    all: Vec<Prefetcher>,
    line_shift: u32,
    /// What the last access made them want.
    pub wanted: Vec<Wanted>,
}

impl Prefetchers {
    /// Those of `tables` that are on, over `caches`.
    ///
    /// # Errors
    /// If one fills a level that is not there.
    pub fn new(
        tables: &[machine::Prefetcher],
        caches: &[machine::Cache],
    ) -> Result<Prefetchers, ModelError> {
        let one = |table: &machine::Prefetcher| {
            let Some(level) = caches.iter().position(|c| c.level == table.level) else {
                return Err(ModelError {
                    table: "prefetchers".into(),
                    what: format!("level = {}", table.level),
                    accepted: "a level that the machine has".into(),
                });
            };
            Ok(Prefetcher {
                level,
                lines: u64::from(table.lines),
                watch: match table.kind {
                    PrefetcherKind::NextLine => Watch::NextLine,
                    PrefetcherKind::AdjacentLine => Watch::AdjacentLine,
                    PrefetcherKind::Stride => Watch::Stride(vec![Stride::default(); SITES]),
                    PrefetcherKind::Streamer => Watch::Streamer {
                        pages: vec![Stream::default(); PAGES],
                        clock: 0,
                    },
                },
            })
        };
        let on = tables.iter().filter(|table| table.on);
        Ok(Prefetchers {
            all: on.map(one).collect::<Result<_, _>>()?,
            line_shift: caches[0].line_bytes.trailing_zeros(),
            wanted: Vec::with_capacity(64),
        })
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Forget what was learnt.
    pub fn forget(&mut self) {
        for prefetcher in &mut self.all {
            match &mut prefetcher.watch {
                Watch::NextLine | Watch::AdjacentLine => {}
                Watch::Stride(sites) => sites.fill(Stride::default()),
                Watch::Streamer { pages, .. } => pages.fill(Stream::default()),
            }
        }
    }

    /// Look at an access by the program, and fill `wanted`.
    pub fn observe(&mut self, seen: Seen) {
        self.wanted.clear();
        let shift = PAGE_SHIFT.saturating_sub(self.line_shift);
        let page = seen.line >> shift;
        let in_page = |line: u64| line >> shift == page;
        for prefetcher in &mut self.all {
            let (level, lines) = (prefetcher.level, prefetcher.lines);
            let missed = seen.served > level || seen.first_use && seen.served == level;
            let want = |line| Wanted { line, level };
            match &mut prefetcher.watch {
                Watch::NextLine if missed => {
                    let next = (1..=lines).map(|i| seen.line + i);
                    self.wanted
                        .extend(next.take_while(|l| in_page(*l)).map(want));
                }
                Watch::AdjacentLine if missed => self.wanted.push(want(seen.line ^ 1)),
                Watch::NextLine | Watch::AdjacentLine => {}
                Watch::Stride(sites) => {
                    let stride = stride_of(sites, seen.site, seen.addr);
                    let ahead = (1..=lines as i64)
                        .map(|i| seen.addr.wrapping_add_signed(stride * i) >> self.line_shift)
                        .take_while(|line| stride != 0 && in_page(*line))
                        .filter(|line| *line != seen.line);
                    self.wanted.extend(ahead.map(want));
                }
                Watch::Streamer { pages, clock } => {
                    if seen.served >= level {
                        *clock += 1;
                        let stream = stream_of(pages, page, *clock);
                        let ahead = stream.follow(seen.line, lines);
                        self.wanted
                            .extend(ahead.take_while(|l| in_page(*l)).map(want));
                    }
                }
            }
        }
    }
}

/// Learn an access; the stride of its site if it is sure, else 0.
fn stride_of(sites: &mut [Stride], site: u64, addr: u64) -> i64 {
    let at = &mut sites[(site.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize % SITES];
    if at.site != site + 1 {
        *at = Stride {
            site: site + 1,
            addr,
            ..Stride::default()
        };
        return 0;
    }
    let stride = addr.wrapping_sub(at.addr) as i64;
    at.addr = addr;
    if stride == at.stride {
        at.repeats = (at.repeats + 1).min(SURE);
    } else {
        (at.stride, at.repeats) = (stride, 1);
    }
    if at.repeats == SURE { stride } else { 0 }
}

/// The stream of `page`, in place of the one used longest ago if there is none.
fn stream_of(pages: &mut [Stream], page: u64, clock: u64) -> &mut Stream {
    let found = pages.iter().position(|s| s.page == page + 1);
    let at = found.unwrap_or_else(|| {
        let oldest = (0..pages.len()).min_by_key(|i| pages[*i].used);
        let at = oldest.expect("there are pages");
        pages[at] = Stream {
            page: page + 1,
            line: u64::MAX,
            ..Stream::default()
        };
        at
    });
    pages[at].used = clock;
    &mut pages[at]
}

impl Stream {
    /// Learn a request for `line`; the lines to ask for, at most `lines` beyond it.
    fn follow(&mut self, line: u64, lines: u64) -> impl Iterator<Item = u64> + use<> {
        let first = self.line == u64::MAX;
        let rising = line > self.line;
        if !first && line != self.line {
            let same = self.repeats > 0 && rising == self.rising;
            if !same {
                self.ahead = line;
            }
            self.repeats = if same {
                (self.repeats + 1).min(SURE)
            } else {
                1
            };
            self.rising = rising;
        }
        self.line = line;
        let mut next = line;
        let mut left = 0;
        if self.repeats == SURE {
            // Of the lines beyond, those that were asked for are left out.
            next = match self.rising {
                true => self.ahead.max(line),
                false => self.ahead.min(line),
            };
            left = lines.saturating_sub(next.abs_diff(line));
            self.ahead = match self.rising {
                true => next + left,
                false => next.saturating_sub(left),
            };
        }
        let rising = self.rising;
        (1..=left).map(move |i| match rising {
            true => next + i,
            false => next.saturating_sub(i),
        })
    }
}
