//! One cache of one level, with what is kept beside it.

use std::collections::HashSet;
use std::hash::BuildHasherDefault;

use crate::machine::{self, Inclusion};
use crate::model::cache::Cache;
use crate::model::classify::Shadow;
use crate::model::coherence::LineHasher;

/// One cache of one level.
#[derive(Clone, Debug)]
pub(super) struct Level {
    pub(super) cache: Cache,
    pub(super) inclusion: Inclusion,
    pub(super) shadow: Option<Shadow>,
    /// Of a classified innermost level, by slot, the node of its line in `shadow`: a hit there
    /// needs no probe.
    pub(super) nodes: Vec<u32>,
    /// Lines that had to leave for a hardware prefetch into this level, and did not come back.
    pub(super) pushed_out: HashSet<u64, BuildHasherDefault<LineHasher>>,
}

impl Level {
    pub(super) fn new(
        table: &machine::Cache,
        cache: Cache,
        classify: &[u8],
        innermost: bool,
    ) -> Level {
        let exclusive = table.inclusion == Inclusion::Exclusive;
        let classified = classify.contains(&table.level);
        let nodes = if innermost && classified {
            cache.lines()
        } else {
            0
        };
        Level {
            shadow: classified.then(|| Shadow::new(cache.lines(), exclusive)),
            nodes: vec![0; nodes],
            cache,
            inclusion: table.inclusion,
            pushed_out: HashSet::default(),
        }
    }
}
