//! Where pages lie in physical memory: drawn by a seed, as a freshly booted Linux would leave them.
//!
//! Bits within a page are kept; the frame number is a seeded permutation of the page number, so
//! distinct pages get distinct frames, spread over all sets of a physically indexed cache. A host's
//! real frames differ from draw to draw in the same way; neither buddy allocator nor page colouring
//! is modelled. All levels are indexed by physical address. An L1D whose sets are a power of two
//! and times line fit a 4 KiB page has its index within the page offset, where nominal (virtual)
//! and physical address agree: it is indexed by either.

use kernels::arena::{Random, Region};

use super::ModelError;

/// How frames are given to pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Frames {
    /// A permutation drawn by the seed.
    Seeded,
    /// Physical is nominal: for comparisons with tools that know no pages.
    Identity,
}

/// What maps the memory of a run.
///
/// In a guest the frames that it draws are the host's memory, mapped by the host's own pages: a TLB
/// then holds the smaller of both, and a walk needs the host's tables for each of its loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PageMapOptions {
    /// Page size of all regions but [`Region::PerCpu`], in bytes: 4 KiB or a larger power of two.
    pub page_bytes: u64,
    /// How frames are given to pages.
    pub frames: Frames,
    /// Of a guest, the size of the host's pages, in bytes; `None` on bare metal.
    pub host_page_bytes: Option<u64>,
}

impl PageMapOptions {
    /// Seeded frames of 4 KiB.
    pub const SMALL: PageMapOptions = PageMapOptions {
        page_bytes: 4 << 10,
        frames: Frames::Seeded,
        host_page_bytes: None,
    };
    /// Seeded frames of 2 MiB.
    pub const HUGE: PageMapOptions = PageMapOptions {
        page_bytes: 2 << 20,
        frames: Frames::Seeded,
        host_page_bytes: None,
    };
}

/// Size of the pages that per-CPU memory always has, in bytes.
pub const SMALL_PAGE_BYTES: u64 = 4 << 10;

/// An address bit beyond all frames of large pages: small ones lie there.
const SMALL_FRAMES: u64 = 1 << 52;

/// An address, translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Physical address.
    pub physical: u64,
    /// Number of the page that a TLB holds, in units of its size.
    pub page: u64,
    /// 0: a 4 KiB page; 1: a larger one, of `page_bytes` or, in a guest, of the host if that has
    /// smaller ones.
    pub class: usize,
}

/// Numbers below `2^bits` in another order, for tables and frames.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    /// `log2` of the page in bytes.
    pub shift: u32,
    permutation: Permutation,
}

/// Physical addresses are below this.
const PHYSICAL_BITS: u32 = 52;

impl Frame {
    /// Of pages of `2^shift` bytes in an address space of `bits` bits.
    pub(super) fn new(shift: u32, bits: u32, random: &mut Random) -> Frame {
        Frame {
            shift,
            permutation: Permutation::new(bits - shift, random),
        }
    }

    /// Where `addr` lies once its page has its frame.
    pub(super) fn of(&self, addr: u64) -> u64 {
        let frame = self.permutation.of(addr >> self.shift) << self.shift;
        frame | addr & ((1 << self.shift) - 1)
    }
}

/// A bijection of the numbers below `2^bits`: multiplications by odd numbers and shifts, each of
/// which can be undone.
#[derive(Clone, Copy, Debug)]
struct Permutation {
    mask: u64,
    half: u32,
    add: u64,
    odd: [u64; 2],
}

impl Permutation {
    fn new(bits: u32, random: &mut Random) -> Permutation {
        Permutation {
            mask: (1 << bits) - 1,
            half: bits / 2,
            add: random.next_u64(),
            odd: [random.next_u64() | 1, random.next_u64() | 1],
        }
    }

    #[inline]
    fn of(&self, number: u64) -> u64 {
        let mut x = number.wrapping_add(self.add) & self.mask;
        for odd in self.odd {
            x ^= x >> self.half;
            x = x.wrapping_mul(odd) & self.mask;
        }
        x ^ x >> self.half
    }
}

/// A translation at hand, of 4 KiB.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// Nominal address divided by 4 KiB.
    part: u64,
    place: Place,
}

const KNOWN: usize = 256;

/// The page map of one run.
#[derive(Clone, Debug)]
pub struct PageMap {
    /// By `part` modulo [`KNOWN`]: spares the permutation. Has no effect on any result.
    known: Box<[Known; KNOWN]>,
    identity: bool,
    /// By class, `log2` of the page in the tables of the program, or of the guest, and in a TLB.
    shifts: [u32; 2],
    tlb_shifts: [u32; 2],
    frames: [Frame; 2],
    host: Option<Frame>,
}

impl PageMap {
    /// The map that `seed` draws.
    ///
    /// # Errors
    /// If the page size is no power of two from 4 KiB to 1 GiB.
    pub fn new(options: PageMapOptions, seed: u64) -> Result<PageMap, ModelError> {
        let bytes = options.page_bytes;
        let named = [
            ("page_bytes", Some(bytes)),
            ("host_page_bytes", options.host_page_bytes),
        ];
        for (key, bytes) in named.into_iter().filter_map(|(key, b)| Some((key, b?))) {
            if !bytes.is_power_of_two() || !(SMALL_PAGE_BYTES..=1 << 30).contains(&bytes) {
                return Err(ModelError {
                    table: "page map".into(),
                    what: format!("{key} = {bytes}"),
                    accepted: "a power of two from 4096 to 1 GiB".into(),
                });
            }
        }
        let shifts = [SMALL_PAGE_BYTES.trailing_zeros(), bytes.trailing_zeros()];
        // A TLB holds the smaller page of guest and host.
        let host_shift = options.host_page_bytes.map(u64::trailing_zeros);
        let tlb_shifts = shifts.map(|shift| shift.min(host_shift.unwrap_or(shift)));
        let mut random = Random(seed);
        let nothing = Known {
            part: u64::MAX,
            place: Place {
                physical: 0,
                page: 0,
                class: 0,
            },
        };
        Ok(PageMap {
            known: Box::new([nothing; KNOWN]),
            identity: options.frames == Frames::Identity,
            shifts,
            tlb_shifts,
            frames: shifts.map(|shift| Frame::new(shift, PHYSICAL_BITS, &mut random)),
            host: options
                .host_page_bytes
                .map(|bytes| Frame::new(bytes.trailing_zeros(), PHYSICAL_BITS, &mut random)),
        })
    }

    /// Page sizes that a TLB holds, by class, in bytes.
    #[must_use]
    pub fn page_bytes(&self) -> [u64; 2] {
        self.tlb_shifts.map(|shift| 1 << shift)
    }

    /// Translate a nominal address.
    #[inline]
    pub fn locate(&mut self, nominal: u64) -> Place {
        let part = nominal / SMALL_PAGE_BYTES;
        let offset = nominal % SMALL_PAGE_BYTES;
        let slot = part as usize % KNOWN;
        if self.known[slot].part != part {
            let place = self.permute(nominal - offset);
            self.known[slot] = Known { part, place };
        }
        let place = self.known[slot].place;
        Place {
            physical: place.physical | offset,
            ..place
        }
    }

    fn permute(&self, nominal: u64) -> Place {
        let small = self.is_small(nominal);
        let physical = if self.identity {
            nominal
        } else {
            let frame = self.frames[usize::from(!small)].of(nominal);
            let frame = self.host.map_or(frame, |host| host.of(frame));
            if small { frame | SMALL_FRAMES } else { frame }
        };
        // Large pages that the host backs with 4 KiB ones are of the first class to a TLB.
        let class = usize::from(!small && self.tlb_shifts[1] > self.tlb_shifts[0]);
        Place {
            physical,
            page: nominal >> self.tlb_shifts[class],
            class,
        }
    }

    fn is_small(&self, nominal: u64) -> bool {
        self.shifts[1] == self.shifts[0] || nominal.wrapping_sub(Region::PerCpu.base().0) < 1 << 30
    }

    /// The page of `nominal` in the tables of the program, or of the guest: `log2` of its size, and
    /// where these tables say that `nominal` lies, which in a guest is an address to the host's.
    pub(super) fn in_tables(&self, nominal: u64) -> (u32, u64) {
        let class = usize::from(!self.is_small(nominal));
        let lies_at = match self.identity {
            true => nominal,
            false => self.frames[class].of(nominal),
        };
        (self.shifts[class], lies_at)
    }
}
