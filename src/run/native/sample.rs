//! One sample of a case on one CPU, and what its counters say.

use std::hint::black_box;

use kernels::arena::Region;

use super::super::rows::Value;
use super::Repeat;
use super::mounted::{Mounted, native, operate};
use crate::counters::{Counters, Reading};
use crate::experiment::Start;
use crate::native::clock::{self, Clock};
use crate::native::disturbance::{Disturbed, Watch};
use crate::native::interleave::operations_per_sample;
use crate::record::Status;

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

/// One sample of a case on one CPU.
pub(super) fn one_sided(m: &mut Mounted, clock: &Clock, watch: &mut Watch) -> Repeat {
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
pub(super) fn disturbances(disturbed: Disturbed) -> impl Iterator<Item = Value> {
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
pub(super) fn cold_regions(m: &mut Mounted, regions: usize) -> (Vec<f64>, Vec<f64>, u64) {
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

pub(super) fn mean_but_slowest(ticks: &[f64]) -> f64 {
    let slowest = ticks.iter().copied().fold(f64::MIN, f64::max);
    (ticks.iter().sum::<f64>() - slowest) / (ticks.len() - 1) as f64
}

/// What a cold start does before each operation.
pub(super) fn disturb(m: &Mounted) {
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

pub(super) fn timed(
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
pub(super) fn counted(m: &mut Mounted, counters: &mut Counters) -> Vec<Value> {
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

pub(super) fn per_visit(metric: &str) -> Option<&'static str> {
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
