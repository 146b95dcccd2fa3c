//! What goes between cores, and over which bytes.

/// Why a line went from one core to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Sharing {
    /// The bytes of one are the other's.
    True,
    /// Other bytes of the same line.
    False,
    /// Bytes of the line beside it: a prefetcher brought this one along.
    Adjacent,
}

impl Sharing {
    /// As column `kind` spells it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Sharing::True => "true-sharing",
            Sharing::False => "false-sharing",
            Sharing::Adjacent => "adjacent-line",
        }
    }
}

/// A field by number, and the offset in its object in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Spot {
    /// Index in the kernel's table of fields.
    pub field: u16,
    /// Offset in the object, in bytes.
    pub offset_bytes: u32,
}

/// What an access touches of its line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Touch {
    /// One bit per byte of the line; of lines of more than 128 bytes, per equal part.
    pub bytes: u128,
    /// Whose bytes they are.
    pub spot: Spot,
}

/// Lines that went between two cores, by fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SharingKey {
    /// The line, physical address divided by its size.
    pub line: u64,
    /// Who asked.
    pub asker: u16,
    /// For what.
    pub asked: Spot,
    /// Who had it, or took it before.
    pub other: u16,
    /// What it had touched last.
    pub touched: Spot,
    /// Why.
    pub kind: Sharing,
}

/// Counts of one core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoherenceStats {
    /// Lines that another core supplied.
    pub transfers: u64,
    /// Stores to a line that was held, but not owned.
    pub upgrades: u64,
    /// Copies of others that requests of this core removed.
    pub invalidations: u64,
    /// Requests that took a line from others, or waited for it, by [`Sharing`].
    pub sharing: [u64; 3],
}

impl CoherenceStats {
    /// What was counted after `start`.
    #[must_use]
    pub fn since(self, start: CoherenceStats) -> CoherenceStats {
        CoherenceStats {
            transfers: self.transfers - start.transfers,
            upgrades: self.upgrades - start.upgrades,
            invalidations: self.invalidations - start.invalidations,
            sharing: std::array::from_fn(|i| self.sharing[i] - start.sharing[i]),
        }
    }
}
