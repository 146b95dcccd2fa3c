//! Cases on real memory: pinned, interleaved, timed.

mod enough;
mod mounted;
mod pair;
mod sample;

use std::collections::BTreeMap;
use std::path::Path;

use self::sample::{counted, one_sided};
use super::machines::{Host, Machines};
use super::rows::{Value, keys, sample as row, seeds};
use super::{Case, Position, Row, RunError, Sink, Sources};
use crate::counters::Counters;
use crate::experiment::{Experiment, Point, Start};
use crate::native::affinity::Pinned;
use crate::native::clock::Clock;
use crate::native::disturbance::Watch;
use crate::native::interleave::interleave_after;
use crate::native::warnings::warnings;
use crate::record::Sample;
use crate::record::notes::PERF;
use enough::Enough;
use mounted::{Mounted, even_out, mount};
use pair::two_sided;

/// What the points of a batch have in common: CPUs and all axes.
type Batch = (u64, Vec<(String, u64)>);

/// What one repeat of a case yields.
type Repeat = Vec<Value>;

/// Run `points`, depth after depth; within one all variants, starts and placements are interleaved
/// in random order.
pub fn run(
    experiment: &Experiment,
    sources: &Sources,
    machines: &Machines,
    points: &[Point],
    sink: &mut Sink<'_>,
) -> Result<(), RunError> {
    let host = machines
        .host
        .as_ref()
        .expect("native points make the host known");
    let pinned = Pinned::to(host.cpu).map_err(|e| RunError::Nothing(e.to_string()))?;
    let clock = Clock::measure();
    let mut counters = Counters::open(host.cpu);
    for sentence in counters.summary() {
        sink(Row::Note(sentence))?;
    }
    if let Some(command) = counters.perf_stat() {
        sink(Row::Note(format!("{PERF}{command}")))?;
    }
    sink(Row::Note(format!(
        "native: CPU {}, time-stamp counter at {:.1} MHz, an empty region takes {:.0} ticks (subtracted from warm samples; from operations after a cold start that of as many empty calls among them is)",
        host.cpu,
        clock.tick_hz.median / 1e6,
        clock.empty_region_ticks.median
    )))?;
    for warning in warnings(Path::new("/"), host.cpu) {
        sink(Row::Note(format!("native: {warning}")))?;
    }
    let mut watch = Watch::new(host.cpu);

    // Points that are compared stand in one batch: the same axes, whatever else differs.
    let mut batches: BTreeMap<Batch, Vec<&Point>> = BTreeMap::new();
    for point in points {
        if matches!(point.start, Start::Stream(_)) {
            unavailable(experiment, sources, host, point, sink)?;
            continue;
        }
        let axes = point.axes.clone().into_iter().collect();
        batches.entry((point.cpus(), axes)).or_default().push(point);
    }
    let mut refused = Vec::new();
    let mut pinned = Some(pinned);
    let mut enough = Enough::new(experiment);
    let mut left = batches.len();
    for ((cpus, _), batch) in batches {
        enough.begin(left);
        left -= 1;
        let mut mounted = Vec::new();
        for point in &batch {
            for seed in seeds(experiment) {
                let case = Case::new(experiment, sources, point, seed)?;
                mounted.push(mount(experiment, case, host, &mut refused)?);
            }
        }
        let first_seed = experiment.seed;
        let repeats = experiment.repeats;
        let results = if cpus == 2 {
            // Each side is pinned by itself.
            pinned = None;
            two_sided(&mut mounted, &clock, repeats, first_seed, |r| {
                enough.is_it(r)
            })?
        } else {
            if pinned.is_none() {
                let again = Pinned::to(host.cpu).map_err(|e| RunError::Nothing(e.to_string()))?;
                pinned = Some(again);
            }
            let measure = |m: &mut Mounted, _| one_sided(m, &clock, &mut watch);
            let enough = |results: &[Vec<Repeat>]| enough.is_it(results);
            interleave_after(&mut mounted, repeats, first_seed, even_out, measure, enough)?
        };
        for (m, repeats) in mounted.iter_mut().zip(results) {
            for row in rows(m, repeats) {
                sink(Row::Sample(row))?;
            }
            if cpus == 1 {
                for value in counted(m, &mut counters) {
                    sink(Row::Sample(row(&m.keys, &m.case, 0, value)))?;
                }
            }
            if seeds(experiment).last() == Some(m.case.seed) {
                sink(Row::PointDone)?;
            }
        }
    }
    let notes = refused.into_iter().chain(watch.notes.iter().cloned());
    for note in notes.chain(enough.notes()) {
        sink(Row::Note(note))?;
    }
    Ok(())
}

/// Why a recording is no start on real memory.
pub const NO_STREAM: &str = "start = stream:FILE is not run on native: the recorded addresses are those of another machine's memory";

/// The rows of a point that real memory cannot run.
fn unavailable(
    experiment: &Experiment,
    sources: &Sources,
    host: &Host,
    point: &Point,
    sink: &mut Sink<'_>,
) -> Result<(), RunError> {
    for seed in seeds(experiment) {
        let case = Case::new(experiment, sources, point, seed)?;
        let keys = keys(experiment, &case, &host.name, &host.cpu.to_string());
        for metric in ["time_ns_per_op", "time_ns_per_visit"] {
            let value = Value::unavailable(metric, "ns", NO_STREAM);
            sink(Row::Sample(row(&keys, &case, 0, value)))?;
        }
    }
    sink(Row::PointDone)?;
    Ok(())
}

fn rows(m: &Mounted, repeats: Vec<Repeat>) -> Vec<Sample> {
    let mut rows = Vec::new();
    for (repeat, values) in repeats.into_iter().enumerate() {
        for value in values {
            rows.push(row(&m.keys, &m.case, repeat as u32, value));
        }
    }
    rows
}
