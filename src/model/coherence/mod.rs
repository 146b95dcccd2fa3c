//! Coherence between cores: who has a line in which state, who must give it up, and over which bytes.
//!
//! The unit is a core's private levels together (all leading levels that one core has for itself).
//! For each line ever touched the [`Directory`] knows the state in every core, exactly: it stands
//! for snooping or for a directory that never forgets. A request goes as the protocol says:
//!
//! | request | others | goes | supplier |
//! |---|---|---|---|
//! | load | none | E | shared level or memory |
//! | load | M | MESI, MESIF: M to S, written back; MOESI: M to O | the M core |
//! | load | O | stays O | the O core |
//! | load | E | E to S | the E core |
//! | load | S, F | MESIF: F to S | MESIF: the F core; else shared level or memory |
//! | store, not held | any | all others I; requester M | M, O, E or F core, else as a load |
//! | store, held S, O or F | any | upgrade: all others I; M | |
//! | store, held E | | M, silently | |
//!
//! A requester of a load becomes S, in MESIF F, if others have the line; else E. If an exclusive shared
//! level gave the line up dirty, it becomes M in place of E, and in MOESI O in place of S unless another
//! core is O; in MESI and MESIF the data of a line that others have are written to memory.
//!
//! **True and false sharing** are told apart by bytes. While a core has no copy that it once had,
//! the bytes that others store to are remembered; if its next access to the line touches one of
//! them it was true sharing, if not, false. A store that takes the line from others is true sharing
//! if one of them touched these bytes while it had the line. A copy that only a hardware prefetcher
//! asked for, and whose core touched nothing of it, makes the store that takes it away *adjacent*:
//! the line next to the one in use, not the line itself, is what is shared. Page walks, and
//! prefetches by the program, which are of the byte that they name, count as loads.
//!
//! Not modelled: a directory or snoop filter of limited size, protocol races and retries, bandwidth
//! of the interconnect, home agents' own latency by address, lines written by devices.

mod by_line;
mod sharing;

use std::collections::HashMap;

pub use self::by_line::{ByLine, LineHasher};
pub use self::sharing::{CoherenceStats, Sharing, SharingKey, Spot, Touch};
use crate::machine::Protocol;

/// State of a line in a core's private caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Not there.
    Invalid,
    /// There, as it is elsewhere; or in other caches too.
    Shared,
    /// As shared, and this core gives it to the next reader (MESIF).
    Forward,
    /// Only here, not written.
    Exclusive,
    /// Written here; others may read it (MOESI).
    Owned,
    /// Only here, written.
    Modified,
}

#[derive(Clone, Copy, Debug)]
struct Holder {
    core: u16,
    state: State,
    touched: u128,
    written: u128,
    last: Spot,
    last_written: Spot,
}

/// A copy that a core once had.
#[derive(Clone, Copy, Debug)]
struct Lost {
    core: u16,
    /// Bytes that others stored to since.
    written: u128,
    /// The store that took it.
    taker: u16,
    taken_for: Spot,
}

#[derive(Clone, Debug, Default)]
struct LineState {
    holders: Vec<Holder>,
    lost: Vec<Lost>,
    /// When the last transfer of it is over, in ticks.
    settled_at: u64,
}

/// What a request makes of the other cores.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Who supplies the line, if a core does.
    pub supplier: Option<u16>,
    /// Who gives up its copy.
    pub invalidated: Vec<u16>,
    /// Whose dirty copy is written back and stays, clean.
    pub cleaned: Option<u16>,
    /// Whether it was a store to a line that is held but not owned.
    pub upgrade: bool,
    /// Between which bytes it was.
    pub sharing: Option<Sharing>,
}

/// Where every line is. Memory grows with the number of distinct lines, and only then.
#[derive(Clone, Debug)]
pub struct Directory {
    protocol: Protocol,
    lines: ByLine<LineState>,
    stats: Vec<CoherenceStats>,
    pairs: HashMap<SharingKey, u64>,
    /// Whether pairs are counted.
    pub booked: bool,
}

impl Directory {
    /// Of `cores` cores without any line.
    #[must_use]
    pub fn new(protocol: Protocol, cores: usize) -> Directory {
        Directory {
            protocol,
            lines: ByLine::default(),
            stats: vec![CoherenceStats::default(); cores],
            pairs: HashMap::new(),
            booked: true,
        }
    }

    /// State of `line` in `core`.
    #[must_use]
    pub fn state(&self, core: usize, line: u64) -> State {
        let state = self.lines.get(&line);
        let holder = state.and_then(|s| s.holders.iter().find(|h| usize::from(h.core) == core));
        holder.map_or(State::Invalid, |h| h.state)
    }

    /// Counts of `core`.
    #[must_use]
    pub fn stats(&self, core: usize) -> CoherenceStats {
        self.stats[core]
    }

    /// Lines that went between cores, sorted.
    #[must_use]
    pub fn pairs(&self) -> Vec<(SharingKey, u64)> {
        let mut pairs: Vec<_> = self
            .pairs
            .iter()
            .map(|(key, count)| (*key, *count))
            .collect();
        pairs.sort_unstable();
        pairs
    }

    /// Forget the pairs.
    pub fn clear_pairs(&mut self) {
        self.pairs.clear();
    }

    /// Whether `core` may store to `line` without asking.
    #[must_use]
    pub fn owns(&self, core: usize, line: u64) -> bool {
        matches!(self.state(core, line), State::Modified | State::Exclusive)
    }

    /// Whether a core has `line` in its private levels.
    #[must_use]
    pub fn is_held(&self, line: u64) -> bool {
        let state = self.lines.get(&line);
        state.is_some_and(|state| !state.holders.is_empty())
    }

    /// When the last transfer of `line` is over, in ticks.
    #[must_use]
    pub fn settled_at(&self, line: u64) -> u64 {
        self.lines.get(&line).map_or(0, |state| state.settled_at)
    }

    /// A transfer of `line` is over at `ticks`.
    pub fn settle(&mut self, line: u64, ticks: u64) {
        if let Some(state) = self.lines.get_mut(&line) {
            state.settled_at = state.settled_at.max(ticks);
        }
    }

    /// `core` loads from, or stores to, a line that it has, with the right to.
    pub fn touch(&mut self, core: usize, line: u64, store: bool, touch: Touch) {
        let Some(state) = self.lines.get_mut(&line) else {
            return;
        };
        if store {
            for lost in state
                .lost
                .iter_mut()
                .filter(|l| usize::from(l.core) != core)
            {
                lost.written |= touch.bytes;
            }
        }
        let holder = state
            .holders
            .iter_mut()
            .find(|h| usize::from(h.core) == core);
        if let Some(holder) = holder {
            holder.touched |= touch.bytes;
            holder.last = touch.spot;
            if store {
                holder.state = State::Modified;
                holder.written |= touch.bytes;
                holder.last_written = touch.spot;
            }
        }
    }

    /// `core` asks for `line`, which it has not or, for a store, does not own. `alone`: no shared
    /// level of other cores has it either. No `touch`: a hardware prefetcher asks, for no bytes.
    pub fn request(
        &mut self,
        core: usize,
        line: u64,
        store: bool,
        touch: Option<Touch>,
        alone: bool,
    ) -> Outcome {
        let me = core as u16;
        let state = self.lines.entry(line).or_default();
        let mine = state.holders.iter().position(|h| h.core == me);
        let mut outcome = Outcome {
            upgrade: mine.is_some(),
            ..Outcome::default()
        };
        let supplies = |h: &&Holder| h.core != me && !matches!(h.state, State::Shared);
        let supplier = state.holders.iter().find(supplies).copied();
        if mine.is_none() {
            outcome.supplier = supplier.map(|h| h.core);
        }
        let lost = state.lost.iter().position(|l| l.core == me);
        let lost = lost.map(|at| state.lost.swap_remove(at));
        let bytes = touch.map_or(0, |t| t.bytes);
        let mut pair = None;
        if store {
            let others = || state.holders.iter().filter(|h| h.core != me);
            let overlapping = others().find(|h| h.touched & bytes != 0);
            let touching = others().find(|h| h.touched != 0);
            let again = lost.filter(|l| l.written & bytes != 0);
            pair = match (overlapping, again, touching, others().next()) {
                (Some(other), ..) => Some((Sharing::True, other.core, other.last)),
                (None, Some(lost), ..) => Some((Sharing::True, lost.taker, lost.taken_for)),
                (None, None, Some(other), _) => Some((Sharing::False, other.core, other.last)),
                (None, None, None, Some(other)) => {
                    Some((Sharing::Adjacent, other.core, other.last))
                }
                (None, None, None, None) => {
                    lost.map(|lost| (Sharing::False, lost.taker, lost.taken_for))
                }
            };
            let holders = std::mem::take(&mut state.holders);
            for other in holders.iter().filter(|h| h.core != me) {
                outcome.invalidated.push(other.core);
                // One that touched nothing loses nothing.
                if other.touched != 0 {
                    state.lost.push(Lost {
                        core: other.core,
                        written: 0,
                        taker: me,
                        taken_for: touch.map_or(Spot::default(), |t| t.spot),
                    });
                }
            }
            state
                .holders
                .extend(holders.into_iter().filter(|h| h.core == me));
        } else {
            if let Some(lost) = lost {
                let kind = match lost.written & bytes {
                    0 => Sharing::False,
                    _ => Sharing::True,
                };
                pair = Some((kind, lost.taker, lost.taken_for));
            } else if let Some(other) = supplier.filter(|h| h.written != 0) {
                let kind = match other.written & bytes {
                    0 => Sharing::False,
                    _ => Sharing::True,
                };
                pair = Some((kind, other.core, other.last_written));
            }
            if touch.is_none() {
                pair = supplier.map(|other| (Sharing::Adjacent, other.core, other.last));
            }
            for holder in state.holders.iter_mut().filter(|h| h.core != me) {
                holder.state = match (holder.state, self.protocol) {
                    (State::Modified, Protocol::Moesi) | (State::Owned, _) => State::Owned,
                    (State::Modified, _) => {
                        outcome.cleaned = Some(holder.core);
                        State::Shared
                    }
                    _ => State::Shared,
                };
            }
        }
        let new = match (store, state.holders.iter().any(|h| h.core != me), alone) {
            (true, ..) => State::Modified,
            (false, false, true) => State::Exclusive,
            (false, ..) if self.protocol == Protocol::Mesif => State::Forward,
            (false, ..) => State::Shared,
        };
        match state.holders.iter_mut().find(|h| h.core == me) {
            Some(mine) => mine.state = new,
            None => state.holders.push(Holder {
                core: me,
                state: new,
                touched: 0,
                written: 0,
                last: Spot::default(),
                last_written: Spot::default(),
            }),
        }
        outcome.sharing = pair.map(|(kind, ..)| kind);
        self.count(core, line, &outcome, touch, pair);
        if let Some(touch) = touch {
            self.touch(core, line, store, touch);
        }
        outcome
    }

    fn count(
        &mut self,
        core: usize,
        line: u64,
        outcome: &Outcome,
        touch: Option<Touch>,
        pair: Option<(Sharing, u16, Spot)>,
    ) {
        let stats = &mut self.stats[core];
        stats.transfers += u64::from(outcome.supplier.is_some());
        stats.upgrades += u64::from(outcome.upgrade);
        stats.invalidations += outcome.invalidated.len() as u64;
        let Some((kind, other, touched)) = pair else {
            return;
        };
        stats.sharing[kind as usize] += 1;
        if self.booked {
            let key = SharingKey {
                line,
                asker: core as u16,
                asked: touch.map_or(Spot::default(), |t| t.spot),
                other,
                touched,
                kind,
            };
            *self.pairs.entry(key).or_default() += 1;
        }
    }

    /// `core` has got by a load what an exclusive shared level gave up dirty: who is to write it back.
    /// `None`: all have it clean, so it goes to memory at once.
    pub(super) fn given_up(&mut self, core: usize, line: u64) -> Option<usize> {
        let holders = &mut self.lines.get_mut(&line)?.holders;
        let owner = holders.iter().find(|h| h.state == State::Owned);
        if let Some(owner) = owner {
            return Some(usize::from(owner.core));
        }
        let mine = holders.iter_mut().find(|h| usize::from(h.core) == core)?;
        mine.state = match (mine.state, self.protocol) {
            (State::Exclusive, _) => State::Modified,
            (_, Protocol::Moesi) => State::Owned,
            _ => return None,
        };
        Some(core)
    }

    /// `line` has left all private levels of `core`.
    pub fn dropped(&mut self, core: usize, line: u64) {
        if let Some(state) = self.lines.get_mut(&line) {
            state.holders.retain(|h| usize::from(h.core) != core);
        }
    }

    /// All caches are empty.
    pub fn flush(&mut self) {
        self.lines.clear();
    }
}
