//! Rounds of recorded accesses on a modelled machine.
//!
//! Each core makes its accesses in recorded order, at physical addresses; the last round is counted.
//! A read-modify-write is one request for ownership, as by an atomic instruction. Not modelled: what
//! the accesses depend on, and so time; instruction fetches; what other CPUs did that is not in the
//! stream. TLBs see physical pages.

use kernels::memory::Field;

use super::shared::SharedLines;
use super::steps::{Deed, Round, Site, Target};
use crate::machine::Machine;
use crate::model::attribution::{MissLevel, MissRow};
use crate::model::classify::Cause;
use crate::model::coherence::SharingKey;
use crate::model::page_map::PageMapOptions;
use crate::model::{Model, ModelError, ModelOptions, RegionStats};

/// What the counted round came to.
#[derive(Clone, Debug)]
pub struct Replayed {
    /// Of each core.
    pub cores: Vec<RegionStats>,
    /// Misses by the numbers of [`Round::names`].
    pub misses: Vec<MissRow>,
    /// Lines that went between cores, by the same numbers; empty for one core.
    pub sharing: Vec<(SharingKey, u64)>,
    /// Lines that several cores use.
    pub shared: SharedLines,
}

/// How rounds are run.
#[derive(Clone, Copy, Debug)]
pub struct Rounds {
    /// How many, from 1 on; the last is counted.
    pub rounds: u32,
    /// Pages, for the TLBs, and how physical addresses are had.
    pub pages: PageMapOptions,
    /// Draws victims where replacement is random.
    pub seed: u64,
}

impl Replayed {
    /// Run `round` on `machine`.
    ///
    /// # Errors
    /// If the machine cannot be modelled with as many cores, or not with these pages.
    pub fn of(round: &Round, machine: &Machine, rounds: Rounds) -> Result<Replayed, ModelError> {
        let options = ModelOptions {
            classify: machine.caches.iter().map(|cache| cache.level).collect(),
            cores: round.cores.len(),
            ..ModelOptions::default()
        };
        let mut model = Model::new(machine, rounds.pages, rounds.seed, options)?;
        for _ in 1..rounds.rounds {
            run(&mut model, round, None);
        }
        model.clear_misses();
        let mut shared = SharedLines::new(model.hierarchy().line_shift());
        model.begin_region();
        run(&mut model, round, Some(&mut shared));
        let cores = model.end_regions();
        let directory = model.hierarchy().directory();
        let sharing = directory.map_or_else(Vec::new, |directory| directory.pairs());
        shared.went(&sharing, |addr| addr);
        Ok(Replayed {
            cores,
            misses: model.misses(),
            sharing,
            shared,
        })
    }

    /// Misses of all rows that `counts` accepts.
    #[must_use]
    pub fn misses_where(&self, counts: impl Fn(&MissRow) -> bool) -> u64 {
        let rows = self.misses.iter().filter(|row| counts(row));
        rows.map(|row| row.misses).sum()
    }

    /// L1D misses inside the recorded paths.
    #[must_use]
    pub fn inside_misses(&self, round: &Round) -> u64 {
        self.misses_where(|row| {
            row.level == MissLevel::Cache(1) && site(round, row).is_some_and(|site| site.path > 0)
        })
    }

    /// Misses of `level` for `cause`.
    #[must_use]
    pub fn by_cause(&self, level: MissLevel, cause: Cause) -> u64 {
        self.misses_where(|row| row.level == level && row.cause == Some(cause))
    }
}

/// Site and target as the one number of [`SharedLines`].
fn spot(site: u16, target: u16) -> u32 {
    u32::from(site) << 16 | u32::from(target)
}

/// What lies at a spot of [`Replayed::shared`]: the field, or who uses what has no name.
#[must_use]
pub fn spot_name(round: &Round, spot: u32) -> String {
    let target = round.names.targets.get((spot & 0xffff) as usize);
    let site = round.names.sites.get((spot >> 16) as usize);
    match (target, site) {
        (Some(target), Some(site)) if target.owner.field.is_empty() => {
            format!("{} in {}", target.owner.path(), site.function)
        }
        (Some(target), _) => target.owner.path(),
        (None, _) => String::new(),
    }
}

/// Whose instruction the misses of `row` are of.
#[must_use]
pub fn site<'r>(round: &'r Round, row: &MissRow) -> Option<&'r Site> {
    round.names.sites.get(usize::from(row.function))
}

/// Whose bytes the misses of `row` are of.
#[must_use]
pub fn target<'r>(round: &'r Round, row: &MissRow) -> Option<&'r Target> {
    round.names.targets.get(usize::from(row.field))
}

fn run(model: &mut Model, round: &Round, mut shared: Option<&mut SharedLines>) {
    // Values do not matter, nor when they are there: nobody reads the time.
    const READY: u64 = 0;
    let mut site = (u16::MAX, u16::MAX);
    for step in &round.steps {
        if site != (step.core, step.site) {
            site = (step.core, step.site);
            model.use_core(usize::from(step.core));
            model.enter(step.site);
        }
        if let Some(shared) = &mut shared {
            let what = spot(step.site, step.target);
            shared.touch(step.core, step.paddr, step.bytes, step.deed, what);
        }
        let object_offset = round.names.targets[usize::from(step.target)]
            .owner
            .offset_bytes;
        // The model takes 16 bytes at most; wider ones are vector registers.
        let mut from = 0;
        while from < step.bytes {
            let bytes = u64::from((step.bytes - from).min(16));
            let addr = step.paddr + u64::from(from);
            let field = Field {
                id: step.target,
                offset_bytes: object_offset.saturating_add(from),
            };
            match step.deed {
                Deed::Load => {
                    model.load(READY, addr, bytes, field);
                }
                Deed::Store => model.store(READY, READY, addr, bytes, field),
                Deed::Modify => {
                    model.locked(READY, addr, bytes, field);
                }
            }
            from += 16;
        }
    }
}
