//! Words of what machines are made of.

use crate::machine::{Inclusion, PrefetcherKind, Protocol};

/// A cache level as tables have it.
pub(super) fn level_name(level: u8) -> &'static str {
    match level {
        1 => "L1D",
        2 => "L2",
        3 => "L3",
        _ => "L4",
    }
}

/// As machine files have it.
pub(super) fn prefetcher_word(kind: PrefetcherKind) -> &'static str {
    match kind {
        PrefetcherKind::NextLine => "next-line",
        PrefetcherKind::AdjacentLine => "adjacent-line",
        PrefetcherKind::Stride => "stride",
        PrefetcherKind::Streamer => "streamer",
    }
}

/// As books have it.
pub(super) fn protocol_word(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Mesi => "MESI",
        Protocol::Moesi => "MOESI",
        Protocol::Mesif => "MESIF",
    }
}

/// As machine files have it.
pub(super) fn inclusion_word(inclusion: Inclusion) -> &'static str {
    match inclusion {
        Inclusion::Inclusive => "inclusive",
        Inclusion::NonInclusive => "non-inclusive",
        Inclusion::Exclusive => "exclusive",
    }
}
