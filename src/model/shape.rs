//! What a hierarchy is made of, and whether it can be.

use super::ModelError;
use super::stats::MAX_LEVELS;
use crate::machine::{self, Inclusion, Machine};

/// What a hierarchy is made of.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    pub(super) caches: Vec<machine::Cache>,
    pub(super) prefetchers: Vec<machine::Prefetcher>,
    pub(super) interconnect: Option<machine::Interconnect>,
    pub(super) cores: usize,
}

impl Shape {
    /// The caches of `cores` cores of `machine`.
    ///
    /// # Errors
    /// If the machine has no interconnect for several cores, or fewer cores.
    pub fn of(machine: &Machine, cores: usize) -> Result<Shape, ModelError> {
        let most = machine
            .interconnect
            .as_ref()
            .map_or(1, |i| i.cores as usize);
        if !(1..=most).contains(&cores) {
            let accepted = match &machine.interconnect {
                None => "1, as the machine has no interconnect table".to_owned(),
                Some(_) => format!("1 to {most}, the cores of its interconnect table"),
            };
            return Err(ModelError {
                table: "interconnect".into(),
                what: format!("a run on {cores} cores"),
                accepted,
            });
        }
        Ok(Shape {
            caches: machine.caches.clone(),
            prefetchers: machine.prefetchers.clone(),
            interconnect: machine.interconnect.clone().filter(|_| cores > 1),
            cores,
        })
    }

    /// Caches of one core without prefetchers.
    #[must_use]
    pub fn plain(caches: &[machine::Cache]) -> Shape {
        Shape {
            caches: caches.to_vec(),
            prefetchers: Vec::new(),
            interconnect: None,
            cores: 1,
        }
    }

    pub(super) fn check(&self, classify: &[u8]) -> Result<(), ModelError> {
        let caches = &self.caches;
        let error = |table: String, what: String, accepted: &str| {
            Err(ModelError {
                table,
                what,
                accepted: accepted.into(),
            })
        };
        let ordered = caches.windows(2).all(|w| w[0].level < w[1].level);
        if !(1..=MAX_LEVELS).contains(&caches.len()) || !ordered {
            let levels: Vec<u8> = caches.iter().map(|c| c.level).collect();
            let accepted = "one to four tables, their levels rising";
            return error("caches".into(), format!("levels {levels:?}"), accepted);
        }
        let first = &caches[0];
        if let Some(other) = caches.iter().find(|c| c.line_bytes != first.line_bytes) {
            let accepted = format!("{}, as in the innermost level", first.line_bytes);
            return error(
                format!("cache level {}", other.level),
                format!("line_bytes = {}", other.line_bytes),
                &accepted,
            );
        }
        if first.inclusion == Inclusion::Exclusive {
            return error(
                format!("cache level {}", first.level),
                "inclusion = exclusive".into(),
                "inclusive or non-inclusive: there is no level inside it",
            );
        }
        let missing = |level: &&u8| caches.iter().all(|c| c.level != **level);
        if let Some(level) = classify.iter().find(missing) {
            return error(
                "options".into(),
                format!("classify level {level}"),
                "levels that the machine has",
            );
        }
        Ok(())
    }

    /// Cores that share a cache of level `k`.
    pub(super) fn sharers(&self, k: usize) -> usize {
        match self.cores {
            1 => 1,
            _ => self.caches[k].shared_by_cores.max(1) as usize,
        }
    }

    /// Caches of level `k`.
    pub(super) fn number(&self, k: usize) -> usize {
        self.cores.div_ceil(self.sharers(k))
    }
}
