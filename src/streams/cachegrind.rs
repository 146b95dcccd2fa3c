//! Counts of a round in cachegrind's format, for `cg_annotate` and KCachegrind: the struct stands for
//! the file, the field's offset in it for the line, and the function for the function.
//!
//! Line 0 means "unknown" to both tools, which is where fields at offset 0 and unnamed bytes go. A
//! read-modify-write is a read, as cachegrind counts it; misses are those of the innermost and the
//! outermost level.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::replay::{Replayed, site, target};
use super::steps::{Deed, Round};
use crate::machine::Machine;
use crate::model::attribution::MissLevel;

/// Reads, their misses of the first and of the last level, and the same of writes.
type Counts = [u64; 6];

const EVENTS: &str = "Dr D1mr DLmr Dw D1mw DLmw";

/// The file's text. `command` is what was run.
#[must_use]
pub fn text(round: &Round, replayed: &Replayed, machine: &Machine, command: &str) -> String {
    let last = machine.caches.last().map_or(1, |cache| cache.level);
    // By struct, then function, then offset.
    let mut files: BTreeMap<&str, BTreeMap<&str, BTreeMap<u32, Counts>>> = BTreeMap::new();
    let mut all = Counts::default();
    let mut add = |site: Option<u16>, target: Option<u16>, place: usize, count: u64| {
        let site = site.and_then(|n| round.names.sites.get(usize::from(n)));
        let target = target.and_then(|n| round.names.targets.get(usize::from(n)));
        let (Some(site), Some(target)) = (site, target) else {
            return;
        };
        let place = if target.deed == Deed::Store {
            place + 3
        } else {
            place
        };
        let file = files.entry(&target.owner.structure).or_default();
        let function = file.entry(&site.function).or_default();
        function.entry(target.owner.offset_bytes).or_default()[place] += count;
        all[place] += count;
    };
    for step in &round.steps {
        add(Some(step.site), Some(step.target), 0, 1);
    }
    for row in &replayed.misses {
        debug_assert!(site(round, row).is_some() && target(round, row).is_some());
        if row.level == MissLevel::Cache(1) {
            add(Some(row.function), Some(row.field), 1, row.misses);
        }
        if row.level == MissLevel::Cache(last) {
            add(Some(row.function), Some(row.field), 2, row.misses);
        }
    }
    let numbers = |counts: &Counts| counts.map(|count| count.to_string()).join(" ");
    let mut text = String::new();
    for cache in &machine.caches {
        let name = match cache.level {
            1 => "D1".to_string(),
            level if level == last => "LL".to_string(),
            level => format!("L{level}"),
        };
        let _ = writeln!(
            text,
            "desc: {name} cache: {} B, {} B, {}-way associative",
            u64::from(cache.sets) * u64::from(cache.ways) * u64::from(cache.line_bytes),
            cache.line_bytes,
            cache.ways
        );
    }
    let _ = writeln!(
        text,
        "desc: Model: {} (file = struct, line = offset in it)",
        machine.name
    );
    let _ = writeln!(
        text,
        "cmd: {}\nevents: {EVENTS}",
        command.replace('\n', " ")
    );
    for (file, functions) in &files {
        let _ = writeln!(text, "fl={file}");
        for (function, lines) in functions {
            let _ = writeln!(text, "fn={function}");
            for (offset, counts) in lines {
                let _ = writeln!(text, "{offset} {}", numbers(counts));
            }
        }
    }
    let _ = writeln!(text, "summary: {}", numbers(&all));
    text
}
