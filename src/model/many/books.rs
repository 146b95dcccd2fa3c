//! How the lines of a block fared, and the booking of what they missed.

use kernels::memory::Field;

use super::Missed;
use super::part::Part;
use crate::model::attribution::{MissKey, MissLevel};
use crate::model::block::Block;
use crate::model::classify::Cause;
use crate::model::core::{Core, LineAccess, Wait};
use crate::model::hierarchy::Hierarchy;
use crate::model::stats::Kind;
use crate::model::tlb::{Tlbs, Translation};

/// What it takes to say how the lines of a block fared, and to book their misses.
pub(super) struct Books<'m> {
    pub hierarchy: &'m Hierarchy,
    pub level_numbers: &'m [u8],
    pub tlbs: &'m Tlbs,
    pub function: u16,
    /// Whether a region has begun.
    pub wanted: bool,
    pub walk_ticks: u64,
    pub shift: u32,
    pub block: &'m Block,
    pub missed: &'m [Missed],
    pub booked: &'m mut Vec<(u64, u64)>,
}

impl Books<'_> {
    /// How the line of `part` fared.
    #[inline(always)]
    pub fn line(&mut self, core: &Core, part: Part, field: Field, kind: Kind) -> LineAccess {
        let request = part.request();
        let level = usize::from(self.block.levels[request]);
        let mut translation = Translation::default();
        if level > 0 || part.translation() > 0 {
            translation = self.missed(core, part, field, kind);
        }
        LineAccess {
            level,
            slot: self.block.slots[request] as usize,
            translation_ticks: translation.all_ticks(),
            wait: Wait::NONE,
        }
    }

    /// What the translation of `part` cost. Books what it and the caches missed, as
    /// [`Model::book`] does.
    #[inline(never)]
    fn missed(&mut self, core: &Core, part: Part, field: Field, kind: Kind) -> Translation {
        let request = part.request();
        let Missed {
            mut translation,
            class,
            page,
            loads,
        } = self.missed[part.translation()];
        if translation.missed == 2 {
            let walk = &self.block.levels[request - loads..request];
            let loads = walk.iter().map(|level| core.latency_ticks((*level).into()));
            // The machine's number has one load from the innermost level in it.
            let all = self.walk_ticks + loads.sum::<u64>();
            translation.walk_ticks = all - core.latency_ticks(0);
        }
        if !self.wanted || !kind.is_demand() {
            return translation;
        }
        let key = MissKey {
            function: self.function,
            field: field.id,
            line: field.offset_bytes >> self.shift,
            set: 0,
            level: MissLevel::Dtlb,
            cause: Some(Cause::Translation),
        };
        let line = self.block.requests[request].line();
        for k in 0..usize::from(self.block.levels[request]) {
            let key = MissKey {
                set: self.hierarchy.cache(k).set_of(line) as u32,
                level: MissLevel::Cache(self.level_numbers[k]),
                cause: self
                    .hierarchy
                    .classifies(k)
                    .then(|| self.block.causes[k][request]),
                ..key
            };
            let ticks = core.latency_ticks(k + 1) - core.latency_ticks(k);
            self.booked.push((key.pack(), ticks));
        }
        for (level, ticks) in translation.rows(self.tlbs.has_second(class)) {
            let number = usize::from(level == MissLevel::Stlb);
            let set = self.tlbs.set_of(number, class, page) as u32;
            self.booked
                .push((MissKey { set, level, ..key }.pack(), ticks));
        }
        translation
    }
}
