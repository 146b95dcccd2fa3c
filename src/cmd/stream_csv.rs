//! What `kwalk sim` knows of a recorded stream, as CSV.

use std::collections::BTreeMap;
use std::io::{self, Write};

use super::sim::level_name;
use super::stream_tables::{CAUSES, Told};
use super::trace_in;
use crate::model::attribution::{MissLevel, MissRow};
use crate::streams::replay::{site, target};

/// Columns of the CSV.
const COLUMNS: [&str; 13] = [
    "machine",
    "core",
    "inside",
    "function",
    "struct",
    "field",
    "offset_bytes",
    "deed",
    "level",
    "set",
    "cause",
    "metric",
    "value",
];

/// Everything, one value a row; what a row does not depend on is empty.
pub(super) fn csv(told: &Told<'_>, out: &mut dyn Write) -> io::Result<()> {
    let machine = || told.machine.name.clone();
    let mut rows: Vec<[String; 13]> = Vec::new();
    let mut total = |core: String, level: &str, cause: &str, metric: &str, value: String| {
        let mut row: [String; 13] = Default::default();
        row[0] = machine();
        row[1] = core;
        row[8] = level.into();
        row[10] = cause.into();
        row[11] = metric.into();
        row[12] = value;
        rows.push(row);
    };
    let all = || "all".to_string();
    let inside = told.replayed.inside_misses(told.round);
    total(all(), "", "", "walks", told.walks(told.round).to_string());
    total(all(), "", "", "visits", told.round.visits.to_string());
    total(all(), "l1d", "", "inside_misses", inside.to_string());
    let per_walk = |misses: u64, walks: u64| match walks {
        0 => String::new(),
        walks => format!("{:.6}", misses as f64 / walks as f64),
    };
    total(
        all(),
        "l1d",
        "",
        "inside_misses_per_walk",
        per_walk(inside, told.walks(told.round)),
    );
    if let Some((round, before)) = told.before {
        let value = per_walk(before, told.walks(round));
        total(
            all(),
            "l1d",
            "",
            "inside_misses_per_walk_without_edits",
            value,
        );
    }
    for level in told.levels() {
        for cause in CAUSES {
            let misses = told.replayed.by_cause(level, cause);
            if misses > 0 {
                total(
                    all(),
                    level.name(),
                    cause.name(),
                    "misses",
                    misses.to_string(),
                );
            }
        }
    }
    for (core, stats) in told.replayed.cores.iter().enumerate() {
        for (cache, level) in told.machine.caches.iter().zip(&stats.levels) {
            let name = level_name(cache.level);
            let requests = level.loads.requests + level.stores.requests;
            total(
                core.to_string(),
                &name,
                "",
                "requests",
                requests.to_string(),
            );
            total(
                core.to_string(),
                &name,
                "",
                "misses",
                level.demand_misses().to_string(),
            );
        }
        for (metric, value) in [
            ("transfers", stats.coherence.transfers),
            ("upgrades", stats.coherence.upgrades),
            ("invalidations", stats.coherence.invalidations),
        ] {
            if told.round.cores.len() > 1 {
                total(core.to_string(), "", "", metric, value.to_string());
            }
        }
    }
    let named = |function: u16, field: u16| -> Option<[String; 13]> {
        let row = MissRow {
            function,
            field,
            line: 0,
            set: 0,
            level: MissLevel::Dtlb,
            cause: None,
            misses: 0,
            cycles: 0.0,
        };
        let (site, target) = (site(told.round, &row)?, target(told.round, &row)?);
        let mut cells: [String; 13] = Default::default();
        cells[0] = machine();
        cells[1] = site.core.to_string();
        cells[2] = site.path.to_string();
        cells[3] = site.function.clone();
        cells[4] = target.owner.structure.clone();
        cells[5] = target.owner.field.clone();
        cells[6] = target.owner.offset_bytes.to_string();
        cells[7] = target.deed.name().into();
        Some(cells)
    };
    let mut accesses: BTreeMap<(u16, u16), u64> = BTreeMap::new();
    for step in &told.round.steps {
        *accesses.entry((step.site, step.target)).or_default() += 1;
    }
    for ((site, target), count) in accesses {
        rows.extend(named(site, target).map(|mut cells| {
            cells[11] = "accesses".into();
            cells[12] = count.to_string();
            cells
        }));
    }
    for row in &told.replayed.misses {
        for (metric, value) in [
            ("misses", row.misses.to_string()),
            ("added_latency_cycles", format!("{:.1}", row.cycles)),
        ] {
            rows.extend(named(row.function, row.field).map(|mut cells| {
                cells[8] = row.level.name().into();
                cells[9] = row.set.to_string();
                cells[10] = row.cause.map_or(String::new(), |cause| cause.name().into());
                cells[11] = metric.into();
                cells[12] = value;
                cells
            }));
        }
    }
    trace_in::csv(&COLUMNS, rows.into_iter(), out)
}
