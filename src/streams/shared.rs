//! Lines that several cores use: who reads and writes which bytes of them, and how often they went
//! from core to core.

use std::collections::{BTreeMap, HashMap};

use super::steps::Deed;
use crate::model::coherence::{Sharing, SharingKey};

/// What one core does to a line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// Accesses that read.
    pub loads: u64,
    /// Accesses that write; a read-modify-write is one of these.
    pub stores: u64,
    /// By offset in the line, what is touched there (a number that the caller knows) and whether it
    /// is ever written.
    pub spots: BTreeMap<u32, (u32, bool)>,
}

/// One line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SharedLine {
    /// By core.
    pub users: BTreeMap<u16, User>,
    /// Requests that took it from another core, or waited for it: true, false sharing, and that of
    /// the line beside it.
    pub went: [u64; 3],
}

impl SharedLine {
    /// Whether several cores use it, and at least one of them writes.
    #[must_use]
    pub fn is_contended(&self) -> bool {
        self.users.len() > 1 && self.users.values().any(|user| user.stores > 0)
    }

    /// All of [`went`](SharedLine::went).
    #[must_use]
    pub fn transfers(&self) -> u64 {
        self.went.iter().sum()
    }

    /// `true`, `false`, `both`, `adjacent` or `-`: what kind of sharing made it go.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self.went {
            [0, 0, 0] => "-",
            [_, 0, _] if self.went[0] > 0 => "true",
            [0, f, _] if f > 0 => "false",
            [0, 0, _] => "adjacent",
            _ => "both",
        }
    }
}

/// All lines that were touched.
#[derive(Clone, Debug)]
pub struct SharedLines {
    shift: u32,
    lines: BTreeMap<u64, SharedLine>,
}

impl SharedLines {
    /// Of `2^shift` bytes each.
    #[must_use]
    pub fn new(shift: u32) -> SharedLines {
        SharedLines {
            shift,
            lines: BTreeMap::new(),
        }
    }

    /// An access of `core` to `bytes` bytes (at least one) from the physical address `addr` on;
    /// `what` is a number that the caller knows.
    pub fn touch(&mut self, core: u16, addr: u64, bytes: u32, deed: Deed, what: u32) {
        let last = addr.saturating_add(u64::from(bytes) - 1);
        for number in addr >> self.shift..=last >> self.shift {
            let offset = addr.max(number << self.shift) - (number << self.shift);
            let line = self.lines.entry(number).or_default();
            let user = line.users.entry(core).or_default();
            let stores = deed != Deed::Load;
            user.stores += u64::from(stores);
            user.loads += u64::from(!stores);
            let spot = user.spots.entry(offset as u32).or_insert((what, false));
            spot.1 |= stores;
        }
    }

    /// What went between cores: `physical` is the address at which the model has a line.
    pub fn went(&mut self, pairs: &[(SharingKey, u64)], mut physical: impl FnMut(u64) -> u64) {
        let mut sums: HashMap<u64, [u64; 3]> = HashMap::new();
        for (key, count) in pairs {
            let place = match key.kind {
                Sharing::True => 0,
                Sharing::False => 1,
                Sharing::Adjacent => 2,
            };
            sums.entry(key.line).or_default()[place] += count;
        }
        for (number, line) in &mut self.lines {
            let known = sums.get(&(physical(number << self.shift) >> self.shift));
            line.went = known.copied().unwrap_or_default();
        }
    }

    /// Lines that several cores use and one of them writes: those that went most often first.
    #[must_use]
    pub fn contended(&self) -> Vec<(u64, &SharedLine)> {
        let mut all: Vec<(u64, &SharedLine)> = self
            .lines
            .iter()
            .filter(|(_, line)| line.is_contended())
            .map(|(number, line)| (number << self.shift, line))
            .collect();
        all.sort_by_key(|(address, line)| (std::cmp::Reverse(line.transfers()), *address));
        all
    }

    /// Lines of several cores of which none writes.
    #[must_use]
    pub fn read_only(&self) -> usize {
        let several = self.lines.values().filter(|line| line.users.len() > 1);
        several.filter(|line| !line.is_contended()).count()
    }
}
