//! What the caches count.

/// Most levels that a hierarchy has.
pub const MAX_LEVELS: usize = 4;

/// What an access is to the caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A load.
    Load = 0,
    /// A store or a locked read-modify-write: the line becomes dirty in the L1D.
    Store = 1,
    /// A prefetch by the program.
    Prefetch = 2,
    /// A prefetch by hardware.
    Hardware = 3,
    /// A page walk's load of a table entry.
    Walk = 4,
}

const KINDS: usize = 5;

impl Kind {
    /// Whether the program asks for the data.
    #[inline]
    #[must_use]
    pub fn is_demand(self) -> bool {
        matches!(self, Kind::Load | Kind::Store)
    }

    /// Whether it is for bytes of its line: only a hardware prefetcher wants a line for none of them.
    #[inline]
    #[must_use]
    pub fn names_bytes(self) -> bool {
        self != Kind::Hardware
    }
}

/// Requests of one kind: `hits + misses = requests`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Requests that reached the level.
    pub requests: u64,
    /// Those that found their line.
    pub hits: u64,
    /// Those that went on to the next level.
    pub misses: u64,
}

impl Tally {
    fn since(self, start: Tally) -> Tally {
        Tally {
            requests: self.requests - start.requests,
            hits: self.hits - start.hits,
            misses: self.misses - start.misses,
        }
    }
}

/// Lines that hardware prefetchers brought into a level:
/// `issued = useful + unused + those that are still there and wait`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrefetchStats {
    /// Lines brought.
    pub issued: u64,
    /// Those that the program asked for while they were there.
    pub useful: u64,
    /// Of the useful, those that were still on their way.
    pub late: u64,
    /// Those that left before anything asked for them.
    pub unused: u64,
    /// Misses of the program on lines that last left this level for one that a prefetcher brought into
    /// it; what a prefetch into a level further in displaces on its way is not counted.
    pub polluting: u64,
}

impl PrefetchStats {
    fn since(self, start: PrefetchStats) -> PrefetchStats {
        PrefetchStats {
            issued: self.issued - start.issued,
            useful: self.useful - start.useful,
            late: self.late - start.late,
            unused: self.unused - start.unused,
            polluting: self.polluting - start.polluting,
        }
    }
}

/// Counts of one level by one core. A request is one line of one access: what straddles two lines
/// counts twice. What leaves a shared level is counted for the core whose fill made it leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LevelStats {
    /// Loads.
    pub loads: Tally,
    /// Stores and locked read-modify-writes; further out, requests for ownership.
    pub stores: Tally,
    /// Prefetches by the program.
    pub prefetches: Tally,
    /// Prefetches by hardware that came from a level inside.
    pub hardware_prefetches: Tally,
    /// Loads of page-table entries by page walks.
    pub walks: Tally,
    /// Compulsory, capacity and conflict misses of loads and stores; all 0 if the level is not
    /// classified.
    pub causes: [u64; 3],
    /// Lines that left to make room.
    pub evictions: u64,
    /// Dirty ones among them, and dirty ones that another core's load made clean: sent to the next
    /// level or memory.
    pub writebacks: u64,
    /// Lines that this level lost because an inclusive level outside evicted them.
    pub back_invalidations: u64,
    /// Lines that hardware prefetchers brought into this level.
    pub prefetcher: PrefetchStats,
}

impl LevelStats {
    /// Misses of loads and stores.
    #[must_use]
    pub fn demand_misses(&self) -> u64 {
        self.loads.misses + self.stores.misses
    }

    /// What was counted after `start`.
    #[must_use]
    pub fn since(&self, start: &LevelStats) -> LevelStats {
        LevelStats {
            loads: self.loads.since(start.loads),
            stores: self.stores.since(start.stores),
            prefetches: self.prefetches.since(start.prefetches),
            hardware_prefetches: self.hardware_prefetches.since(start.hardware_prefetches),
            walks: self.walks.since(start.walks),
            causes: std::array::from_fn(|i| self.causes[i] - start.causes[i]),
            evictions: self.evictions - start.evictions,
            writebacks: self.writebacks - start.writebacks,
            back_invalidations: self.back_invalidations - start.back_invalidations,
            prefetcher: self.prefetcher.since(start.prefetcher),
        }
    }
}

/// [`LevelStats`] in the making: a hit costs one addition.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub requests: [u64; KINDS],
    pub misses: [u64; KINDS],
    pub causes: [u64; 3],
    pub evictions: u64,
    pub writebacks: u64,
    pub back_invalidations: u64,
    pub prefetcher: PrefetchStats,
}

impl Counts {
    pub fn stats(&self) -> LevelStats {
        let of = |kind: Kind| {
            let (requests, misses) = (self.requests[kind as usize], self.misses[kind as usize]);
            Tally {
                requests,
                hits: requests - misses,
                misses,
            }
        };
        LevelStats {
            loads: of(Kind::Load),
            stores: of(Kind::Store),
            prefetches: of(Kind::Prefetch),
            hardware_prefetches: of(Kind::Hardware),
            walks: of(Kind::Walk),
            causes: self.causes,
            evictions: self.evictions,
            writebacks: self.writebacks,
            back_invalidations: self.back_invalidations,
            prefetcher: self.prefetcher,
        }
    }
}
