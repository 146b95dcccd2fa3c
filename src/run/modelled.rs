//! Cases on the model: deterministic, in parallel.

use std::sync::{Mutex, PoisonError};

use kernels::psi::{FIELDS, FUNCTIONS, is_psi_line};
use rayon::prelude::*;

use super::machines::Machines;
use super::rows::{Value, keys, sample, seeds};
use super::{Case, Position, Row, RunError, RunOptions, Sink, Sources, input};
use crate::experiment::{Experiment, Lines, Pages, Point, Start};
use crate::machine::Machine;
use crate::model::page_map::PageMapOptions;
use crate::model::{FieldSet, Model, ModelOptions, RegionStats};
use crate::record::{Attribution, Keys, Status};
use crate::streams::background::Background;

/// Operations before and within the measured region. Ten walks settle the policies here (an LRU
/// settles in two); a tree-PLRU set that is overfull may cycle through states, so several walks
/// are averaged.
const WARM_UP: u64 = 12;
const MEASURED: u64 = 12;
/// The same where other data is touched, or everything is flushed, between operations: each
/// operation then finds what the one before found.
const COLD_WARM_UP: u64 = 1;
const COLD_MEASURED: u64 = 2;

/// Jobs that are run before their rows are handed on: keeps memory bounded, and bars moving.
const CHUNK: usize = 128;

/// Models whose case is done: the next case on the machine takes one over, since zeroing the memory
/// of an L3 takes longer than a warm case.
#[derive(Default)]
struct Idle(Mutex<Vec<(String, Model)>>);

impl Idle {
    fn take(&self, machine: &str) -> Option<Model> {
        let mut models = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = models.iter().position(|(name, _)| name == machine)?;
        Some(models.swap_remove(at).1)
    }

    fn put(&self, machine: &str, model: Model) {
        let mut models = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        models.push((machine.to_string(), model));
    }
}

/// What one case yields.
struct Yield {
    values: Vec<Value>,
    misses: Vec<Attribution>,
}

/// Run `points` on their machines; rows come in the order of points and seeds.
pub fn run(
    experiment: &Experiment,
    sources: &Sources,
    machines: &Machines,
    points: &[Point],
    options: RunOptions,
    sink: &mut Sink<'_>,
) -> Result<(), RunError> {
    if points
        .iter()
        .any(|p| machines.huge_pages_split(&p.machine) && p.pages != Pages::FourKib)
    {
        sink(Row::Note(
            "model of the host: huge pages are modelled as 4 KiB ones, since the hypervisor backs them so (self-check)".into(),
        ))?;
    }
    if experiment.kernel.axes().iter().any(|a| a.0 == "cpus")
        && points.iter().any(|p| p.cpus() == 2)
    {
        sink(Row::Note(
            "model with cpus=2: one core's half of a round trip is modelled and counted twice; transfers between cores are not modelled".into(),
        ))?;
    }
    let jobs: Vec<(&Point, u64)> = points
        .iter()
        .filter(|p| machines.of(&p.machine).is_some())
        .flat_map(|p| seeds(experiment).map(move |seed| (p, seed)))
        .collect();
    let idle = Idle::default();
    for chunk in jobs.chunks(CHUNK) {
        let done: Vec<Result<(Case, Keys, Yield), RunError>> = chunk
            .par_iter()
            .map(|(point, seed)| {
                let machine = machines.of(&point.machine).expect("filtered above");
                let mut case = Case::new(experiment, sources, point, *seed)?;
                let keys = keys(experiment, &case, &machine.name, "0");
                let split = machines.huge_pages_split(&point.machine);
                // Where misses fall depends on the placement: the map shows the first one.
                let book = options.attribution && *seed == experiment.seed;
                let background = sources.background(point);
                let yields = one(&mut case, machine, background, split, book, &keys, &idle)?;
                Ok((case, keys, yields))
            })
            .collect();
        for job in done {
            let (case, keys, yields) = job?;
            for value in yields.values {
                sink(Row::Sample(sample(&keys, &case, 0, value)))?;
            }
            for row in yields.misses {
                sink(Row::Attribution(row))?;
            }
            if seeds(experiment).last() == Some(case.seed) {
                sink(Row::PointDone)?;
            }
        }
    }
    Ok(())
}

/// What a number of regions came to.
#[derive(Default)]
struct Sums {
    cycles: f64,
    visits: u64,
    operations: u64,
    accesses: u64,
    l1d: [u64; 3],
    misses: [u64; 4],
    dtlb: u64,
    walks: u64,
}

impl Sums {
    fn add(&mut self, stats: &RegionStats, visits: u64, operations: u64) {
        self.cycles += stats.cycles;
        self.visits += visits;
        self.operations += operations;
        let first = &stats.levels[0];
        self.accesses += first.loads.requests + first.stores.requests;
        for (sum, cause) in self.l1d.iter_mut().zip(first.causes) {
            *sum += cause;
        }
        for (sum, level) in self.misses.iter_mut().zip(&stats.levels) {
            *sum += level.demand_misses();
        }
        self.dtlb += stats.tlb.dtlb_misses;
        self.walks += stats.tlb.walks;
    }
}

fn one(
    case: &mut Case,
    machine: &Machine,
    background: Option<&Background>,
    split: bool,
    book: bool,
    keys: &Keys,
    idle: &Idle,
) -> Result<Yield, RunError> {
    let mut unseen = FieldSet::default();
    if case.point.lines == Lines::Psi {
        (0..FIELDS.len() as u16)
            .filter(|id| !is_psi_line(*id))
            .for_each(|id| unseen.insert(id));
    }
    let pages = match case.point.pages {
        Pages::Thp | Pages::Hugetlb2m if !split => PageMapOptions::HUGE,
        _ => PageMapOptions::SMALL,
    };
    let options = ModelOptions {
        unseen,
        ..ModelOptions::default()
    };
    let model = match idle.take(&machine.name) {
        Some(model) => model.renewed(machine, pages, case.seed, options),
        None => Model::new(machine, pages, case.seed, options),
    };
    let mut model = model.map_err(input)?;
    let globals = case.tree.globals.clone();
    let mut arena = std::mem::take(&mut case.tree.arena);
    let mut at = Position::default();
    let mut sums = Sums::default();
    let period = case.period();
    let mut mem = model.on(&mut arena);
    case.begin(&mut mem, &globals, &mut at);
    match &case.point.start {
        Start::Warm => {
            case.operate(
                &mut mem,
                &globals,
                WARM_UP.next_multiple_of(period),
                &mut at,
            );
            let count = MEASURED.next_multiple_of(period);
            mem.begin_region();
            let done = case.operate(&mut mem, &globals, count, &mut at);
            sums.add(&mem.end_region(), done.visits, count);
        }
        Start::Polluted { .. } | Start::Flushed => {
            let other = kernels::arena::Region::Other.base().0;
            for i in 0..COLD_WARM_UP + COLD_MEASURED.next_multiple_of(period) {
                if case.point.start == Start::Flushed {
                    mem.flush_caches(false);
                } else {
                    mem.untimed();
                    case.pollute(&mut mem, other);
                }
                mem.begin_region();
                let done = case.operate(&mut mem, &globals, 1, &mut at);
                let stats = mem.end_region();
                if i < COLD_WARM_UP {
                    mem.clear_misses();
                } else {
                    sums.add(&stats, done.visits, 1);
                }
            }
        }
        Start::Stream(_) => {
            let background = background.expect("read with the other sources");
            let whole = case.is_round_trip();
            let gaps = if whole {
                1
            } else {
                background.gaps.len() as u64
            };
            // Operations after which kernel and background are where they began. Two of these settle
            // an LRU.
            let count = period * gaps;
            for i in 0..3 * count {
                model.on(&mut arena).untimed();
                background.present(&mut model, (!whole).then_some(i));
                let mut mem = model.on(&mut arena);
                mem.begin_region();
                let done = case.operate(&mut mem, &globals, 1, &mut at);
                let stats = mem.end_region();
                if i < 2 * count {
                    mem.clear_misses();
                } else {
                    sums.add(&stats, done.visits, 1);
                }
            }
        }
    }
    let misses = if book {
        attribution(&model, &sums, case, keys)
    } else {
        Vec::new()
    };
    idle.put(&machine.name, model);
    Ok(Yield {
        values: values(&sums, case, machine),
        misses,
    })
}

fn values(sums: &Sums, case: &Case, machine: &Machine) -> Vec<Value> {
    // An operation on two CPUs has a half on each.
    let parts = case.parts() as f64;
    let operations = sums.operations as f64;
    let visits = sums.visits as f64;
    let per_op = |count: f64| count * parts / operations;
    let estimate = |metric, unit, value: f64| Value::new(metric, unit, value, Status::Estimated);
    let exact = |metric, unit, value: f64| Value::new(metric, unit, value, Status::Exact);
    let ns = |cycles: f64| cycles * 1e9 / machine.core.clock_hz as f64;
    let mut values = vec![
        estimate("time_ns_per_op", "ns", ns(per_op(sums.cycles))),
        estimate("time_ns_per_visit", "ns", ns(sums.cycles) / visits),
        estimate("cycles_per_visit", "core cycles", sums.cycles / visits),
    ];
    if let Some(tsc_hz) = machine.core.tsc_hz {
        let ticks = ns(sums.cycles) * tsc_hz as f64 / 1e9;
        values.push(estimate(
            "tsc_cycles_per_visit",
            "TSC cycles",
            ticks / visits,
        ));
    }
    let [compulsory, capacity, conflict] = sums.l1d.map(|n| per_op(n as f64));
    values.extend([
        // What the replica does is exact; only what a machine makes of it is an estimate.
        exact("visits_per_op", "visits", per_op(visits)),
        exact("accesses_per_op", "accesses", per_op(sums.accesses as f64)),
        estimate("l1d_misses_per_op", "misses", per_op(sums.misses[0] as f64)),
        estimate(
            "l1d_misses_per_visit",
            "misses",
            sums.misses[0] as f64 / visits,
        ),
        estimate("l1d_compulsory_misses_per_op", "misses", compulsory),
        estimate("l1d_capacity_misses_per_op", "misses", capacity),
        estimate("l1d_conflict_misses_per_op", "misses", conflict),
        estimate("dtlb_misses_per_visit", "misses", sums.dtlb as f64 / visits),
        estimate("page_walks_per_visit", "walks", sums.walks as f64 / visits),
    ]);
    let outer = [
        "l2_misses_per_visit",
        "l3_misses_per_visit",
        "l4_misses_per_visit",
    ];
    for (i, cache) in machine.caches.iter().enumerate().skip(1) {
        let metric = outer[usize::from(cache.level) - 2];
        values.push(estimate(metric, "misses", sums.misses[i] as f64 / visits));
    }
    values
}

fn attribution(model: &Model, sums: &Sums, case: &Case, keys: &Keys) -> Vec<Attribution> {
    let (operations, visits) = (sums.operations as f64, sums.visits as f64);
    let parts = case.parts() as f64;
    model
        .misses()
        .iter()
        .map(|row| {
            let (function, of, field) = row.names(FUNCTIONS, FIELDS);
            let level = row.level.name();
            let cause = match row.cause {
                Some(cause) => cause.name(),
                None => "",
            };
            Attribution::new(
                keys,
                function.to_string(),
                of.to_string(),
                field.to_string(),
                row.line,
                row.set,
                level.to_string(),
                cause.to_string(),
                row.misses as f64 * parts / operations,
                row.misses as f64 / visits,
                row.cycles * parts / operations,
            )
        })
        .collect()
}
