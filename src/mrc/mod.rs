//! Miss-ratio curves: the misses of LRU caches of every size, from one pass over a trace.
//!
//! Under LRU a cache of `n` lines holds the `n` lines used last, so a reference hits if fewer than
//! `n` other lines were used since the last use of its own: its stack distance (Mattson et al.
//! 1970). [`StackDistances`] counts how often each distance occurs, for a cache of one set (fully
//! associative) or of any number of sets; a [`Curve`] is what that says for every size.
//!
//! Exact: no sampling. `n` references to `m` lines cost `O(n log m)` time and `O(m)` memory.
//!
//! Not modelled: anything but one LRU cache, filled on every miss of loads and stores alike.

mod curve;
mod order;
pub mod picture;
mod stack;

pub use curve::{Curve, Step};
pub use stack::{MrcError, StackDistances};
