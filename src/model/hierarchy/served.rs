//! Answers: where a line was found, and what had to happen for it.

use crate::model::coherence::Sharing;

/// How far away the cache was that another core's line came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Distance {
    /// A core under the same last level.
    SameL3,
    /// Under another last level of the same socket.
    OtherL3,
    /// In another socket.
    OtherSocket,
}

/// Where an access found its line, and what had to happen for it.
///
/// Two words that travel in registers: a larger answer would go through memory, and wait there for
/// the stores before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// Where the line now lies in the innermost level (set times ways plus way).
    pub slot: u32,
    /// Bits 0 to 7 the level, 8 and 9 the transfer, 10 and 11 why, 12 the first use, 13 from
    /// another core's cache and not from memory.
    pub(super) notes: u32,
}

const TRANSFER: u32 = 0xf << 8;
const FIRST_USE: u32 = 1 << 12;
const FROM_CACHE: u32 = 1 << 13;

impl Served {
    #[inline(always)]
    pub(super) fn at(level: usize, slot: usize) -> Served {
        Served {
            slot: slot as u32,
            notes: level as u32,
        }
    }

    #[inline(always)]
    pub(super) fn with_first_use(self, first_use: bool) -> Served {
        let bit = if first_use { FIRST_USE } else { 0 };
        Served {
            notes: self.notes | bit,
            ..self
        }
    }

    pub(super) fn with_transfer(
        self,
        transfer: Option<Distance>,
        sharing: Option<Sharing>,
    ) -> Served {
        let transfer = transfer.map_or(0, |t| t as u32 + 1);
        let sharing = sharing.map_or(0, |s| s as u32 + 1);
        Served {
            notes: self.notes & !TRANSFER | transfer << 8 | sharing << 10,
            ..self
        }
    }

    pub(super) fn with_from_cache(self, from_cache: bool) -> Served {
        let bit = if from_cache { FROM_CACHE } else { 0 };
        Served {
            notes: self.notes | bit,
            ..self
        }
    }

    /// 0 for the innermost level; the number of levels for memory, and for other cores' caches.
    #[inline(always)]
    #[must_use]
    pub fn level(self) -> usize {
        (self.notes & 0xff) as usize
    }

    /// From how far away another core, or its shared level, supplied the line or gave it up.
    #[must_use]
    pub fn transfer(self) -> Option<Distance> {
        match self.notes >> 8 & 3 {
            1 => Some(Distance::SameL3),
            2 => Some(Distance::OtherL3),
            3 => Some(Distance::OtherSocket),
            _ => None,
        }
    }

    /// Whether a cache of other cores has what would come from memory: nothing waits for that.
    #[must_use]
    pub fn from_cache(self) -> bool {
        self.notes & FROM_CACHE != 0
    }

    /// Why, if the line was shared with another core.
    #[must_use]
    pub fn sharing(self) -> Option<Sharing> {
        match self.notes >> 10 & 3 {
            1 => Some(Sharing::True),
            2 => Some(Sharing::False),
            3 => Some(Sharing::Adjacent),
            _ => None,
        }
    }

    /// Whether a hardware prefetcher had brought the line, and this is its first use.
    #[inline(always)]
    #[must_use]
    pub fn first_use(self) -> bool {
        self.notes & FIRST_USE != 0
    }
}

/// What a search outwards found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    /// Level that has, or had, the line.
    pub level: u32,
    /// Bit 0: it gave up dirty data; bit 1: that was the first use of a prefetched line.
    notes: u32,
}

impl Found {
    #[inline(always)]
    pub(super) fn at(level: usize, dirty: bool, first_use: bool) -> Found {
        Found {
            level: level as u32,
            notes: u32::from(dirty) | u32::from(first_use) << 1,
        }
    }

    #[inline(always)]
    pub fn is_dirty(self) -> bool {
        self.notes & 1 != 0
    }

    #[inline(always)]
    pub fn is_first_use(self) -> bool {
        self.notes & 2 != 0
    }
}

/// A line that a hardware prefetcher brought.
#[derive(Clone, Copy, Debug)]
pub struct Prefetched {
    /// The line.
    pub line: u64,
    /// Level that it was brought into (0 the innermost).
    pub into: usize,
    /// Level that served it.
    pub served: usize,
    /// If it was brought into the innermost level, where it lies there.
    pub slot: usize,
}
