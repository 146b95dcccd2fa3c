//! `kwalk sim` with several traces of programs: each runs on a core of its own.

use std::fmt::Write as _;
use std::io::Write;

use anyhow::bail;

use super::shared_table;
use super::sim::{Counts, accesses, level_name};
use super::trace_in::{self, Format};
use crate::machine::Machine;
use crate::model::page_map::{PageMap, PageMapOptions};
use crate::model::{Model, ModelOptions};
use crate::streams::shared::SharedLines;
use crate::streams::steps::Deed;
use crate::trace::{Kind, Reference, Trace};

/// A trace that is being read.
struct Reading {
    trace: Trace,
    block: Vec<Reference>,
    next: usize,
    counts: Counts,
    ended: bool,
}

impl Reading {
    /// The next reference that is not an instruction fetch.
    fn next(&mut self) -> anyhow::Result<Option<Reference>> {
        while !self.ended {
            if self.next == self.block.len() {
                self.ended = !self.trace.read_block(&mut self.block)?;
                self.next = 0;
                continue;
            }
            let reference = self.block[self.next];
            self.next += 1;
            self.counts.add(reference.kind);
            if reference.kind != Kind::Fetch {
                return Ok(Some(reference));
            }
        }
        Ok(None)
    }
}

/// Run the traces, reference by reference in turns, and print what came of it. They share one address
/// space.
pub(super) fn run(
    names: &[String],
    format: Option<Format>,
    machine: &Machine,
    pages: PageMapOptions,
    seed: u64,
    csv: bool,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    if names.iter().filter(|name| *name == "-").count() > 1 {
        bail!("- is given twice, and standard input can be read once; accepted: files, and - once");
    }
    let options = ModelOptions {
        cores: names.len(),
        ..ModelOptions::default()
    };
    let mut model = Model::new(machine, pages, seed, options)?;
    let mut shared = SharedLines::new(model.hierarchy().line_shift());
    let mut readings = Vec::new();
    for name in names {
        readings.push(Reading {
            trace: trace_in::open(name, format)?,
            block: Vec::new(),
            next: 0,
            counts: Counts::default(),
            ended: false,
        });
    }
    loop {
        let mut any = false;
        for (core, reading) in readings.iter_mut().enumerate() {
            if let Some(reference) = reading.next()? {
                any = true;
                model.use_core(core);
                present(&mut model, core as u16, reference, &mut shared);
            }
        }
        if !any {
            break;
        }
    }
    for reading in &readings {
        trace_in::tell(&reading.trace, reading.counts.fetches)?;
    }
    trace_in::note(
        "the traces take turns, reference by reference, and share one address space: equal addresses are \
         the same data",
    );
    let pairs = model.hierarchy().directory().map(|d| d.pairs());
    let mut map = PageMap::new(pages, seed)?;
    shared.went(&pairs.unwrap_or_default(), |addr| map.locate(addr).physical);
    let counts: Vec<Counts> = readings.iter().map(|r| r.counts).collect();
    match csv {
        true => rows(machine, &model, &counts, &shared, out),
        false => {
            let text = table(names, machine, &model, &counts, &shared);
            Ok(out.write_all(text.as_bytes())?)
        }
    }
}

fn present(model: &mut Model, core: u16, reference: Reference, shared: &mut SharedLines) {
    let shift = model.hierarchy().line_shift();
    let deed = match reference.kind {
        Kind::Load | Kind::Fetch => Deed::Load,
        Kind::Store => Deed::Store,
        Kind::Modify => Deed::Modify,
    };
    shared.touch(core, reference.addr, reference.bytes, deed, 0);
    for access in accesses(reference.kind) {
        for line in reference.lines(shift) {
            let first = reference.addr.max(line << shift);
            let last = reference.last().min((line << shift) + ((1 << shift) - 1));
            model.present(first, last - first + 1, *access);
        }
    }
}

/// Counts of a core at every level, and what it had to do with the others.
fn numbers(machine: &Machine, model: &Model, core: usize) -> Vec<(String, &'static str, u64)> {
    let mut numbers = Vec::new();
    let stats = model.hierarchy().stats_of(core);
    for (cache, stats) in machine.caches.iter().zip(&stats) {
        let level = level_name(cache.level);
        let requests = stats.loads.requests + stats.stores.requests;
        numbers.push((level.clone(), "requests", requests));
        numbers.push((level, "misses", stats.demand_misses()));
    }
    let coherence = model.hierarchy().coherence_of(core);
    numbers.push((String::new(), "transfers", coherence.transfers));
    numbers.push((String::new(), "upgrades", coherence.upgrades));
    numbers.push((String::new(), "invalidations", coherence.invalidations));
    numbers
}

fn table(
    names: &[String],
    machine: &Machine,
    model: &Model,
    counts: &[Counts],
    shared: &SharedLines,
) -> String {
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{} ({}), {} cores",
        machine.title,
        machine.name,
        names.len()
    );
    for (core, (name, counts)) in names.iter().zip(counts).enumerate() {
        let _ = writeln!(
            text,
            "core {core}: {name}: {} loads, {} stores, {} modifies, {} fetches left out",
            counts.loads, counts.stores, counts.modifies, counts.fetches
        );
    }
    let _ = write!(text, "\n{:5}{:>11}", "core", "requests");
    for cache in &machine.caches {
        let _ = write!(
            text,
            "{:>11}",
            format!("{} misses", level_name(cache.level))
        );
    }
    let _ = writeln!(
        text,
        "{:>11}{:>9}{:>11}",
        "transfers", "upgrades", "invalidat."
    );
    for core in 0..names.len() {
        let numbers = numbers(machine, model, core);
        let of = |level: &str, metric: &str| {
            let found = numbers.iter().find(|(l, m, _)| l == level && *m == metric);
            found.map_or(0, |(.., value)| *value)
        };
        let _ = write!(text, "{core:<5}{:>11}", of("l1d", "requests"));
        for cache in &machine.caches {
            let _ = write!(text, "{:>11}", of(&level_name(cache.level), "misses"));
        }
        let _ = writeln!(
            text,
            "{:>11}{:>9}{:>11}",
            of("", "transfers"),
            of("", "upgrades"),
            of("", "invalidations")
        );
    }
    text.push_str("  transfers: lines that another core supplied, page tables among them\n");
    text.push_str(&shared_table::text(shared, &|_| String::new()));
    text
}

/// Everything, one value a row.
fn rows(
    machine: &Machine,
    model: &Model,
    counts: &[Counts],
    shared: &SharedLines,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let mut rows: Vec<[String; 6]> = Vec::new();
    let mut add = |core: String, level: &str, line: String, metric: &str, value: String| {
        rows.push([
            machine.name.clone(),
            core,
            level.into(),
            line,
            metric.into(),
            value,
        ]);
    };
    for (core, counts) in counts.iter().enumerate() {
        for (metric, value) in [
            ("loads", counts.loads),
            ("stores", counts.stores),
            ("modifies", counts.modifies),
            ("fetches_left_out", counts.fetches),
        ] {
            add(
                core.to_string(),
                "trace",
                String::new(),
                metric,
                value.to_string(),
            );
        }
        for (level, metric, value) in numbers(machine, model, core) {
            add(
                core.to_string(),
                &level,
                String::new(),
                metric,
                value.to_string(),
            );
        }
    }
    for (address, line) in shared.contended() {
        let at = || format!("{address:#x}");
        for (core, user) in &line.users {
            add(core.to_string(), "", at(), "loads", user.loads.to_string());
            add(
                core.to_string(),
                "",
                at(),
                "stores",
                user.stores.to_string(),
            );
        }
        add(
            "all".into(),
            "",
            at(),
            "transfers",
            line.transfers().to_string(),
        );
        add("all".into(), "", at(), "sharing", line.kind().into());
    }
    let columns = ["machine", "core", "level", "line", "metric", "value"];
    Ok(trace_in::csv(&columns, rows.into_iter(), out)?)
}
