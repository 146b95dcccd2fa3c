//! What the core is told of an access: its bytes, and how its lines fared.

/// How an access to one line fared in TLBs and caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineAccess {
    /// Level that served it: 0 is the L1D, the number of levels is memory.
    pub level: usize,
    /// Where the line now lies in the L1D.
    pub slot: usize,
    /// Latency of its translation, in ticks.
    pub translation_ticks: u64,
    /// What it waits for beyond that.
    pub wait: Wait,
}

/// What an access waits for beyond its own latency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wait {
    /// Latency of a transfer between cores, in ticks; 0 if there was none.
    pub transfer_ticks: u64,
    /// When a transfer may begin: the one before it is over.
    pub settled_at: u64,
    /// Whether the transfer brings what would else come from memory.
    pub from_cache: bool,
    /// When a line that a prefetcher brought arrives; 0 if it did not.
    pub arrives_at: u64,
}

impl Wait {
    /// No other core and no prefetcher has to do with it.
    pub const NONE: Wait = Wait {
        transfer_ticks: 0,
        settled_at: 0,
        from_cache: false,
        arrives_at: 0,
    };
}

/// The bytes of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Nominal address of the first.
    pub start: u64,
    /// How many, 1 to 16.
    pub bytes: u64,
}
