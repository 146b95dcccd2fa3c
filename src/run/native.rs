//! Cases on real memory: pinned, interleaved, timed.
//!
//! Unsafe is confined to the promise that a case's addresses are those of its mapping.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::hint::black_box;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use kernels::arena::{Random, Region};
use kernels::memory::Addr;
use kernels::native::Native;
use kernels::psi::Globals;
use kernels::recorder::Recorder;

use super::machines::{Host, Machines};
use super::rows::{Value, keys, sample, seeds};
use super::{Case, Position, Row, RunError, Sink, Sources};
use crate::counters::{Counters, Reading};
use crate::experiment::{Experiment, Point, Start};
use crate::native::affinity::{self, Pinned};
use crate::native::clock::{self, Clock};
use crate::native::disturbance::{Disturbed, Watch};
use crate::native::interleave::{interleave_after, operations_per_sample};
use crate::native::mapping::{self, Mapped, Pages};
use crate::native::warnings::warnings;
use crate::record::notes::PERF;
use crate::record::{Keys, Sample, Status};

/// Length of a sample of a warm case: long against the clock's resolution and an empty region,
/// short against a scheduler tick.
const SAMPLE_NS: u64 = 20_000;
/// Operations of one sample at most: a bare walk at depth 0 takes 3 ns.
const MOST_OPERATIONS: u64 = 1 << 14;
/// Operations before a warm sample, and before the first cold one of a pass.
const WARM_UP: u64 = 6;
/// Cold operations in a sample, of which the slowest is left out: an interrupt finds one in some
/// thousands. Their mean is the sample, since the counter of some machines advances in steps that
/// are long against an operation (26 ticks on Zen).
const COLD_OPERATIONS: usize = 6;

/// A case on host memory.
struct Mounted {
    case: Case,
    keys: Keys,
    pages: Pages,
    /// Where its arena lies; `None` only while memory is exchanged.
    mapped: Option<Mapped>,
    globals: Globals,
    at: Position,
    /// Operations per sample; 0: not known yet.
    count: u64,
    /// Of the order of cold regions.
    random: Random,
    /// Lines that an operation touches, for a flushed start.
    lines: Vec<Addr>,
    /// Pages that were had where others were asked for; else empty.
    fallback: String,
}

impl Mounted {
    fn mapped(&self) -> &Mapped {
        self.mapped.as_ref().expect("mapped when it is measured")
    }
}

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
    for ((cpus, _), batch) in batches {
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
            two_sided(&mut mounted, &clock, repeats, first_seed)?
        } else {
            if pinned.is_none() {
                let again = Pinned::to(host.cpu).map_err(|e| RunError::Nothing(e.to_string()))?;
                pinned = Some(again);
            }
            interleave_after(&mut mounted, repeats, first_seed, even_out, |m, _| {
                one_sided(m, &clock, &mut watch)
            })?
        };
        for (m, repeats) in mounted.iter_mut().zip(results) {
            for row in rows(m, repeats) {
                sink(Row::Sample(row))?;
            }
            if cpus == 1 {
                for value in counted(m, &mut counters) {
                    sink(Row::Sample(sample(&m.keys, &m.case, 0, value)))?;
                }
            }
            if seeds(experiment).last() == Some(m.case.seed) {
                sink(Row::PointDone)?;
            }
        }
    }
    for note in refused.into_iter().chain(watch.notes.iter().cloned()) {
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
            sink(Row::Sample(sample(&keys, &case, 0, value)))?;
        }
    }
    sink(Row::PointDone)?;
    Ok(())
}

fn rows(m: &Mounted, repeats: Vec<Repeat>) -> Vec<Sample> {
    let mut rows = Vec::new();
    for (repeat, values) in repeats.into_iter().enumerate() {
        for value in values {
            rows.push(sample(&m.keys, &m.case, repeat as u32, value));
        }
    }
    rows
}

/// Map the memory of `case`; what Linux refused goes to `refused`, each sentence once.
fn mount(
    experiment: &Experiment,
    mut case: Case,
    host: &Host,
    refused: &mut Vec<String>,
) -> Result<Mounted, RunError> {
    let pages = case
        .point
        .pages
        .to_string()
        .parse()
        .expect("both sides name the same pages");
    let lines = match case.point.start {
        Start::Flushed => lines_of(&mut case),
        _ => Vec::new(),
    };
    let mapped = map(&case, pages)?;
    for note in mapped.regions.iter().filter_map(|r| r.note.as_ref()) {
        let note = format!("native: {note}");
        if !refused.contains(&note) {
            refused.push(note);
        }
    }
    let globals = case.tree.globals.moved(|a| mapped.host(a));
    let cpu = match case.point.cpus() {
        2 => "all".to_string(),
        _ => host.cpu.to_string(),
    };
    let keys = keys(experiment, &case, &host.name, &cpu);
    let fallback = mapped
        .regions
        .iter()
        .find(|r| r.got != r.asked)
        .map_or(String::new(), |r| {
            format!("pages {} instead of {}", r.got, r.asked)
        });
    Ok(Mounted {
        case,
        keys,
        pages,
        mapped: Some(mapped),
        globals,
        at: Position::default(),
        count: 0,
        random: Random(experiment.seed),
        lines,
        fallback,
    })
}

fn map(case: &Case, pages: Pages) -> Result<Mapped, RunError> {
    mapping::map(&case.tree.arena, pages)
        .map_err(|e| RunError::Nothing(format!("{e}; a smaller depth would need less")))
}

/// Before a pass: cases that are compared get each other's memory, as the random order of the pass has
/// it, with their own images, and samples of as many operations.
///
/// What pages a mapping got is chance, and some are slower than others. With one mapping for all repeats
/// of a variant two equal variants differ, and no repetition shows that it is chance. The same holds for
/// a number of operations that was found too low in a bad moment: what a sample costs but once then weighs
/// more.
fn even_out(mounted: &mut [Mounted], order: &[usize]) -> Result<(), RunError> {
    for i in 0..mounted.len() {
        let start = &mounted[i].case.point.start;
        let alike = mounted.iter().filter(|m| m.case.point.start == *start);
        let most = alike.map(|m| m.count).max().unwrap_or(0);
        mounted[i].count = most.next_multiple_of(mounted[i].case.period());
    }
    let mut free: Vec<Mapped> = order
        .iter()
        .filter_map(|i| mounted[*i].mapped.take())
        .collect();
    for m in mounted {
        let fitting = free
            .iter()
            .position(|memory| memory.fits(&m.case.tree.arena, m.pages));
        let memory = free.swap_remove(fitting.expect("its own fits at least"));
        let mapped = memory.refilled(&m.case.tree.arena);
        m.globals = m.case.tree.globals.moved(|a| mapped.host(a));
        m.mapped = Some(mapped);
        m.at = Position::default();
    }
    Ok(())
}

/// The lines of one period of operations, on a copy of the arena.
fn lines_of(case: &mut Case) -> Vec<Addr> {
    let mut arena = case.tree.arena.clone();
    let globals = case.tree.globals.clone();
    let mut mem = Recorder::new(&mut arena);
    let mut at = Position::default();
    case.operate(&mut mem, &globals, case.period(), &mut at);
    let mut lines: Vec<u64> = mem.accesses.iter().map(|a| a.addr.0 / 64).collect();
    lines.sort_unstable();
    lines.dedup();
    lines.into_iter().map(|l| Addr(l * 64)).collect()
}

fn native() -> Native {
    // SAFETY: every address that a case's kernel forms comes from `Mounted::globals` or from the
    // relocated pointers in its mapping, which `Mounted` keeps alive while it runs and nobody else uses.
    unsafe { Native::new() }
}

fn operate(m: &mut Mounted, count: u64) -> u64 {
    let done = m
        .case
        .operate_native(&mut native(), &m.globals, black_box(0), count, &mut m.at);
    black_box(done.sum);
    done.visits
}

/// One sample of a case on one CPU.
fn one_sided(m: &mut Mounted, clock: &Clock, watch: &mut Watch) -> Repeat {
    watch.start();
    let period = m.case.period();
    let (ticks_per_op, visits_per_op) = match m.case.point.start {
        Start::Warm => {
            if m.count == 0 {
                let count = operations_per_sample(SAMPLE_NS, MOST_OPERATIONS, |count| {
                    let begin = clock::begin();
                    operate(m, count.next_multiple_of(period));
                    clock.ns((clock::end() - begin) as f64) as u64
                });
                m.count = count.next_multiple_of(period);
            }
            operate(m, WARM_UP.next_multiple_of(period));
            let begin = clock::begin();
            let visits = operate(m, m.count);
            let ticks = (clock::end() - begin) as f64 - clock.empty_region_ticks.median;
            (ticks / m.count as f64, visits as f64 / m.count as f64)
        }
        // Recordings never get here: they are unavailable.
        Start::Polluted { .. } | Start::Flushed | Start::Stream(_) => {
            if m.at.operations == 0 {
                operate(m, WARM_UP.next_multiple_of(period));
            }
            // Whole periods: operations of a period differ.
            let operations = COLD_OPERATIONS.next_multiple_of(period as usize);
            let (full, empty, visits) = cold_regions(m, operations);
            let value = match period {
                1 | 2 => mean_but_slowest(&full),
                _ => full.iter().sum::<f64>() / operations as f64,
            };
            let value = value - mean_but_slowest(&empty);
            (value, visits as f64 / operations as f64)
        }
    };
    let disturbed = watch.stop();
    let spoiled = disturbed.spoiled(watch.cpu());
    let mut values = timed(m, clock, ticks_per_op, visits_per_op, spoiled);
    values.extend(disturbances(disturbed));
    values
}

/// What happened beside a sample, as rows: absent is told, and is not 0.
fn disturbances(disturbed: Disturbed) -> impl Iterator<Item = Value> {
    let moved = Some(u64::from(disturbed.moved_to.is_some()));
    let counts = [
        ("steal_ticks", "10 ms", disturbed.steal_ticks),
        ("involuntary_switches", "switches", disturbed.preemptions),
        ("page_faults", "faults", disturbed.faults),
        ("migrations", "migrations", moved),
    ];
    counts.into_iter().map(|(metric, unit, count)| match count {
        Some(count) => Value::new(metric, unit, count as f64, Status::Exact),
        None => Value::unavailable(metric, unit, "Linux does not tell here"),
    })
}

/// Ticks of `regions` regions of one operation and of as many in which the kernel is called for none,
/// each after what the start does, and the visits in the former.
///
/// The latter have in them what is not the operation's: the clock, the call, and that the processor
/// cannot know which of both will come, as the order is random.
fn cold_regions(m: &mut Mounted, regions: usize) -> (Vec<f64>, Vec<f64>, u64) {
    let mut counts: Vec<u64> = (0..2 * regions as u64).map(|i| i % 2).collect();
    m.random.shuffle(&mut counts);
    let mut ticks = [Vec::new(), Vec::new()];
    let mut visits = 0;
    for count in counts {
        disturb(m);
        // Code, stack and parameters of the call come back; the walk's lines do not.
        operate(m, 0);
        let begin = clock::begin();
        visits += operate(m, black_box(count));
        ticks[count as usize].push((clock::end() - begin) as f64);
    }
    let [empty, full] = ticks;
    (full, empty, visits)
}

fn mean_but_slowest(ticks: &[f64]) -> f64 {
    let slowest = ticks.iter().copied().fold(f64::MIN, f64::max);
    (ticks.iter().sum::<f64>() - slowest) / (ticks.len() - 1) as f64
}

/// What a cold start does before each operation.
fn disturb(m: &Mounted) {
    match m.case.point.start {
        Start::Warm | Start::Stream(_) => {}
        Start::Polluted { .. } => {
            let base = m.mapped().host(Region::Other.base());
            black_box(m.case.pollute(&mut native(), base));
        }
        Start::Flushed => {
            for line in &m.lines {
                // A processor without the instruction was told of when the case was mounted.
                let _ = m.mapped().flush(*line, 64);
            }
        }
    }
}

fn timed(
    m: &Mounted,
    clock: &Clock,
    ticks_per_op: f64,
    visits_per_op: f64,
    spoiled: Option<String>,
) -> Repeat {
    let status = if spoiled.is_some() {
        Status::Spoiled
    } else {
        Status::Exact
    };
    let detail: Vec<&str> = [spoiled.as_deref().unwrap_or(""), &m.fallback]
        .into_iter()
        .filter(|d| !d.is_empty())
        .collect();
    let detail = detail.join("; ");
    let ns = clock.ns(ticks_per_op);
    [
        Value::new("time_ns_per_op", "ns", ns, status),
        Value::new("time_ns_per_visit", "ns", ns / visits_per_op, status),
        Value::new(
            "tsc_cycles_per_visit",
            "TSC cycles",
            ticks_per_op / visits_per_op,
            status,
        ),
    ]
    .map(|value| value.with_detail(detail.clone()))
    .to_vec()
}

/// Counters over one batch of warm operations: per visit, or unavailable with the reason.
fn counted(m: &mut Mounted, counters: &mut Counters) -> Vec<Value> {
    if m.case.point.start != Start::Warm {
        return Vec::new();
    }
    let count = m.count.max(1).next_multiple_of(m.case.period());
    operate(m, count);
    let mut visits = 0;
    let readings = counters.measure(|| visits = operate(m, count));
    let mut values = Vec::new();
    for counted in readings {
        let Some(metric) = per_visit(counted.metric) else {
            continue;
        };
        let value = match &counted.reading {
            Reading::Unavailable(why) => Value::unavailable(metric, counted.unit, why),
            reading => {
                let status = match reading {
                    Reading::Partial { .. } => Status::Partial,
                    _ => Status::Exact,
                };
                let count = reading.estimate().unwrap_or(f64::NAN);
                let detail = match reading.active_ratio() {
                    Some(active) if active < 1.0 => {
                        format!(
                            "{}, on the PMU {:.0} % of the time",
                            counted.event,
                            active * 100.0
                        )
                    }
                    _ => counted.event.clone(),
                };
                Value::new(metric, counted.unit, count / visits as f64, status).with_detail(detail)
            }
        };
        values.push(value);
    }
    values
}

fn per_visit(metric: &str) -> Option<&'static str> {
    Some(match metric {
        "cycles" => "cycles_per_visit",
        "instructions" => "instructions_per_visit",
        "l1d_misses" => "l1d_misses_per_visit",
        "l2_misses" => "l2_misses_per_visit",
        "l3_hits" => "l3_hits_per_visit",
        "l3_misses" => "l3_misses_per_visit",
        "hitm" => "hitm_per_visit",
        "dtlb_misses" => "dtlb_misses_per_visit",
        "page_walks" => "page_walks_per_visit",
        "memory_stall_cycles" => "memory_stall_cycles_per_visit",
        "branch_misses" => "branch_misses_per_visit",
        _ => return None,
    })
}

/// Both sides of a pipe on two pinned threads; without two CPUs every value is unavailable.
fn two_sided(
    mounted: &mut [Mounted],
    clock: &Clock,
    repeats: u32,
    seed: u64,
) -> Result<Vec<Vec<Repeat>>, RunError> {
    let cpus = match affinity::choose(2) {
        Ok(cpus) => cpus,
        Err(error) => {
            let why = error.to_string();
            let none = |metric, unit| Value::unavailable(metric, unit, &why);
            let nothing = vec![
                none("time_ns_per_op", "ns"),
                none("time_ns_per_visit", "ns"),
            ];
            return Ok(mounted.iter().map(|_| vec![nothing.clone()]).collect());
        }
    };
    interleave_after(mounted, repeats, seed, even_out, |m, _| {
        ping_pong(m, clock, [cpus[0], cpus[1]])
    })
}

/// Round trips of one sample on two CPUs.
const TRIPS: u64 = 200;

/// A word on two lines of its own: adjacent lines may travel together.
#[repr(align(128))]
struct Turn(AtomicU64);

/// The two sides take turns through one word; what the hand-over costs is in the time, at every
/// depth the same.
fn ping_pong(m: &mut Mounted, clock: &Clock, cpus: [u32; 2]) -> Repeat {
    if m.at.operations == 0 {
        m.case.begin(&mut native(), &m.globals, &mut m.at);
        m.at.operations = 1;
    }
    let turn = Turn(AtomicU64::new(0));
    let trips = TRIPS / 10 + TRIPS;
    let mount = &*m;
    let side = |cpu: u32| -> Result<(f64, u64), String> {
        let pinned = Pinned::to(cpus[cpu as usize]).map_err(|e| e.to_string());
        let mut time_ns = mount.at.time_ns;
        let mut mem = native();
        let (mut begin, mut visits, mut last) = (0, 0, 0);
        for trip in 0..trips {
            while turn.0.load(Ordering::Acquire) % 2 != u64::from(cpu) {
                std::hint::spin_loop();
            }
            if trip == TRIPS / 10 {
                begin = clock::begin();
                visits = 0;
            }
            let zero_last = last & black_box(0);
            let done =
                mount
                    .case
                    .half_native(&mut mem, &mount.globals, cpu, zero_last, &mut time_ns);
            (visits, last) = (visits + done.visits, done.last);
            turn.0.fetch_add(1, Ordering::Release);
        }
        let ticks = (clock::end() - begin) as f64;
        pinned.map(|_| (ticks, visits))
    };
    let (first, second) = std::thread::scope(|scope| {
        let other = scope.spawn(|| side(1));
        let first = scope.spawn(|| side(0));
        (first.join(), other.join())
    });
    m.at.time_ns += trips * 10_000;
    match (first, second) {
        (Ok(Ok((ticks, a))), Ok(Ok((_, b)))) => {
            let per_op = ticks / TRIPS as f64;
            let visits = (a + b) as f64 / TRIPS as f64;
            timed(m, clock, per_op, visits, None)
        }
        (Ok(Err(why)), _) | (_, Ok(Err(why))) => {
            vec![Value::unavailable("time_ns_per_op", "ns", &why)]
        }
        _ => vec![Value::unavailable(
            "time_ns_per_op",
            "ns",
            "a thread of the pair panicked",
        )],
    }
}
