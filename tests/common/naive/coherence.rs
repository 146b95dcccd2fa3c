//! Coherence of several cores as a state machine over (line, core), with private caches that never
//! run full: a line leaves a core only if another core takes it, or if a test evicts it.
//!
//! A core's private levels together are one holder. What lies below, a shared level or memory, is
//! one place that has every line.

use std::collections::HashMap;

use kwalk::machine::Protocol;

use super::hierarchy::Op;

/// State of a line in one core's private caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The only copy, dirty.
    Modified,
    /// Dirty, and shared: the copy that is written back in the end (MOESI).
    Owned,
    /// The only copy, clean.
    Exclusive,
    /// One of several.
    Shared,
    /// Clean, one of several, and the one that gives the line to who asks next (MESIF).
    Forward,
    /// None.
    Invalid,
}

use State::{Exclusive, Forward, Invalid, Modified, Owned, Shared};

impl State {
    /// Whether the copy is newer than what lies below.
    pub fn is_dirty(self) -> bool {
        self == Modified || self == Owned
    }

    /// Whether a core that holds the line so gives it to another that asks.
    pub fn supplies(self) -> bool {
        self == Modified || self == Owned || self == Exclusive || self == Forward
    }
}

/// Where an access got its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Supplier {
    /// The core had it: a hit, or an upgrade.
    Own,
    /// Another core's private caches.
    Core(usize),
    /// A shared level or memory.
    Below,
}

/// What went between the cores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Lines that another core supplied.
    pub transfers: u64,
    /// Stores to a line that the core held, but not alone.
    pub upgrades: u64,
    /// Copies in other cores removed by stores.
    pub invalidations: u64,
    /// Dirty copies that were written below, because another core read them or at an eviction.
    pub writebacks: u64,
}

/// All cores' states of all lines.
pub struct Coherence {
    protocol: Protocol,
    cores: usize,
    /// One state for each core; a line that was never asked for is not here.
    states: HashMap<u64, Vec<State>>,
    pub traffic: Traffic,
}

impl Coherence {
    /// `cores` cores that hold nothing.
    pub fn new(protocol: Protocol, cores: usize) -> Coherence {
        Coherence {
            protocol,
            cores,
            states: HashMap::new(),
            traffic: Traffic::default(),
        }
    }

    /// Each core's state of the line.
    pub fn states(&self, line: u64) -> Vec<State> {
        let unknown = || vec![Invalid; self.cores];
        self.states.get(&line).cloned().unwrap_or_else(unknown)
    }

    /// One access of `core`: where it got the line.
    pub fn access(&mut self, core: usize, line: u64, op: Op) -> Supplier {
        let mut states = self.states(line);
        let supplier = if states[core] != Invalid {
            Supplier::Own
        } else {
            let gives = states.iter().position(|state| state.supplies());
            gives.map_or(Supplier::Below, Supplier::Core)
        };
        if let Supplier::Core(_) = supplier {
            self.traffic.transfers += 1;
        }
        match op {
            Op::Load if states[core] == Invalid => self.read(core, &mut states),
            Op::Load => {}
            Op::Store => self.write(core, &mut states),
        }
        self.states.insert(line, states);
        supplier
    }

    /// A load of a line that `core` does not hold.
    fn read(&mut self, core: usize, states: &mut [State]) {
        let is_alone = states.iter().all(|state| *state == Invalid);
        for state in states.iter_mut() {
            *state = match *state {
                Modified if self.protocol == Protocol::Moesi => Owned,
                Modified => {
                    self.traffic.writebacks += 1;
                    Shared
                }
                Exclusive | Forward => Shared,
                Owned => Owned,
                Shared => Shared,
                Invalid => Invalid,
            };
        }
        states[core] = match self.protocol {
            _ if is_alone => Exclusive,
            Protocol::Mesi | Protocol::Moesi => Shared,
            Protocol::Mesif => Forward,
        };
    }

    /// A store, whatever `core` holds: afterwards it alone has the line, modified.
    fn write(&mut self, core: usize, states: &mut [State]) {
        match states[core] {
            Shared | Owned | Forward => self.traffic.upgrades += 1,
            Modified | Exclusive | Invalid => {}
        }
        for (other, state) in states.iter_mut().enumerate() {
            if other != core && *state != Invalid {
                *state = Invalid;
                self.traffic.invalidations += 1;
            }
        }
        states[core] = Modified;
    }

    /// What `core` has just got by a load was dirty in a level below that gave it up: `core` is to write
    /// it back. Others have it only under MOESI, if they had it from an owner that is gone.
    pub fn given_up_dirty(&mut self, core: usize, line: u64) {
        let mut states = self.states(line);
        states[core] = match states[core] {
            Exclusive => Modified,
            Shared if self.protocol == Protocol::Moesi => Owned,
            state => panic!("{state:?} of a line that was dirty below"),
        };
        self.states.insert(line, states);
    }

    /// The line leaves all private levels of `core`; what it was there.
    pub fn evict(&mut self, core: usize, line: u64) -> State {
        let mut states = self.states(line);
        let was = std::mem::replace(&mut states[core], Invalid);
        self.traffic.writebacks += u64::from(was.is_dirty());
        self.states.insert(line, states);
        was
    }

    /// What is wrong with the states of a line; `None`: they can be together.
    pub fn fault(&self, line: u64) -> Option<&'static str> {
        let states = self.states(line);
        let count = |what: State| states.iter().filter(|state| **state == what).count();
        let valid = self.cores - count(Invalid);
        if count(Modified) + count(Exclusive) > 1 {
            Some("two cores own it alone")
        } else if count(Modified) + count(Exclusive) == 1 && valid > 1 {
            Some("a core owns it alone, and others have it")
        } else if count(Owned) > 1 {
            Some("two cores are to write it back")
        } else if count(Forward) > 1 {
            Some("two cores are to forward it")
        } else if count(Owned) > 0 && self.protocol != Protocol::Moesi {
            Some("only MOESI has owned lines")
        } else if count(Forward) > 0 && self.protocol != Protocol::Mesif {
            Some("only MESIF has lines to forward")
        } else {
            None
        }
    }
}
