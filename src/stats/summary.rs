//! From raw samples to `summary.csv` and `verdicts.csv`.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::knee::knee_interval;
use super::{
    FEWEST_FOR_INTERVAL, Interval, between_share, grouped, holm, knee, mann_whitney, median,
    median_error, median_interval, paired_shift, smallest_detectable,
};
use crate::experiment::Kernel;
use crate::record::{Keys, SCHEMA, Sample, Status, Summary, Verdict, other_axes};

/// Of every bootstrap here: the same samples give the same intervals.
const SEED: u64 = 1;

/// One row for each metric of each point, in the order in which they first appear.
///
/// Spoiled samples enter only where there are no others, and the status then says so.
#[must_use]
pub fn summarise(samples: &[Sample]) -> Vec<Summary> {
    let mut order: Vec<(Keys, &str)> = Vec::new();
    let mut groups: HashMap<(Keys, &str), Vec<&Sample>> = HashMap::new();
    for sample in samples {
        let key = (sample.keys(), sample.metric.as_str());
        let group = groups.entry(key.clone()).or_default();
        if group.is_empty() {
            order.push(key);
        }
        group.push(sample);
    }
    order
        .into_iter()
        .map(|key| {
            let group = &groups[&key];
            summary(&key.0, group)
        })
        .collect()
}

fn summary(keys: &Keys, group: &[&Sample]) -> Summary {
    let usable = usable(group.iter().copied());
    let values: Vec<f64> = usable.iter().filter_map(|s| s.value).collect();
    let interval = median_interval(&values, SEED);
    let by_seed = grouped(usable.iter().filter_map(|s| Some((s.seed, s.value?))));
    let by_seed: Vec<Vec<f64>> = by_seed.into_values().collect();
    Summary::new(
        keys,
        group[0].metric.clone(),
        group[0].unit.clone(),
        u32::try_from(values.len()).unwrap_or(u32::MAX),
        (!values.is_empty()).then(|| median(&values)),
        interval.map(|i| i.low),
        interval.map(|i| i.high),
        between_share(&by_seed),
        status(&usable),
    )
}

/// Samples that enter a median: those with a value that were not spoiled, or else the spoiled ones.
fn usable<'a>(group: impl Iterator<Item = &'a Sample> + Clone) -> Vec<&'a Sample> {
    let with_value = group.filter(|s| s.value.is_some() && s.status != Status::Unavailable);
    let clean: Vec<&Sample> = with_value
        .clone()
        .filter(|s| s.status != Status::Spoiled)
        .collect();
    if clean.is_empty() {
        with_value.collect()
    } else {
        clean
    }
}

/// The least of what the samples can claim.
fn status(usable: &[&Sample]) -> Status {
    let any = |status| usable.iter().any(|s| s.status == status);
    match () {
        () if usable.is_empty() => Status::Unavailable,
        () if any(Status::Spoiled) => Status::Spoiled,
        () if any(Status::Estimated) => Status::Estimated,
        () if any(Status::Partial) => Status::Partial,
        () => Status::Exact,
    }
}

/// Samples of one curve: by x, then by variant.
type ByX<'a> = BTreeMap<u64, BTreeMap<&'a str, Vec<&'a Sample>>>;

/// The metric in which the variants of one setting are compared and shown, so that native and
/// model stand in one unit. `has` tells whether a backend has values of a metric.
///
/// Where native ran, that is the first that it and every other backend have, ticks of the
/// time-stamp counter before core cycles: ticks are had at every start, without a PMU. Where only
/// the model ran, core cycles come first, which need no clock.
#[must_use]
pub fn compared_metric(kernel: &str, has: impl Fn(&str, &str) -> bool) -> Option<&'static str> {
    let mut metrics = Kernel::parse(kernel)
        .map_or(Kernel::PsiDepth.metrics(), Kernel::metrics)
        .to_vec();
    let backends: Vec<&str> = ["native", "live", "model"]
        .into_iter()
        .filter(|backend| metrics.iter().any(|metric| has(backend, metric)))
        .collect();
    if backends.iter().any(|backend| *backend != "model") {
        metrics.sort_by_key(|metric| *metric != "tsc_cycles_per_visit");
    }
    let of_all = |metric: &&str| backends.iter().all(|backend| has(backend, metric));
    let of_any = |metric: &&str| backends.iter().any(|backend| has(backend, metric));
    metrics
        .iter()
        .copied()
        .find(of_all)
        .filter(|_| !backends.is_empty())
        .or_else(|| metrics.iter().copied().find(of_any))
}

/// What the samples say about each variant against `baseline`: shift, ratio and smallest
/// detectable shift at each point, and the knee of each curve.
///
/// Compared is [`compared_metric`], the same for all backends of a setting. The p of a shift is
/// adjusted over the points of its curve.
#[must_use]
pub fn verdicts(samples: &[Sample], baseline: &str) -> Vec<Verdict> {
    // A curve is all keys but variant, x, and the plotted axis in `point`.
    let mut order: Vec<Keys> = Vec::new();
    let mut curves: HashMap<Keys, Vec<&Sample>> = HashMap::new();
    // A setting is also without backend and CPU.
    let mut present: HashSet<(Keys, &str, &str)> = HashSet::new();
    for sample in samples {
        let mut curve = sample.keys();
        curve.point = other_axes(&curve.point, &curve.axis);
        curve.variant = String::new();
        curve.x = String::new();
        if sample.value.is_some() {
            present.insert((setting(&curve), &sample.backend, &sample.metric));
        }
        if !curves.contains_key(&curve) {
            order.push(curve.clone());
        }
        curves.entry(curve).or_default().push(sample);
    }
    let mut verdicts = Vec::new();
    for curve in order {
        let setting = setting(&curve);
        let metric = compared_metric(&curve.kernel, |backend, metric| {
            present
                .iter()
                .any(|(s, b, m)| *b == backend && *m == metric && *s == setting)
        });
        if let Some(metric) = metric {
            let chosen = curves[&curve]
                .iter()
                .copied()
                .filter(|s| s.metric == metric);
            curve_verdicts(&curve, baseline, chosen, &mut verdicts);
        }
    }
    verdicts
}

/// The keys of a curve without backend and CPU.
fn setting(curve: &Keys) -> Keys {
    Keys {
        backend: String::new(),
        cpu: String::new(),
        ..curve.clone()
    }
}

fn curve_verdicts<'a>(
    keys: &Keys,
    baseline: &str,
    samples: impl Iterator<Item = &'a Sample>,
    verdicts: &mut Vec<Verdict>,
) {
    let mut by_x: ByX<'_> = BTreeMap::new();
    let mut variants: Vec<&str> = Vec::new();
    for sample in samples {
        let Ok(x) = sample.x.parse() else { continue };
        if !variants.contains(&sample.variant.as_str()) {
            variants.push(&sample.variant);
        }
        by_x.entry(x)
            .or_default()
            .entry(&sample.variant)
            .or_default()
            .push(sample);
    }
    for at in by_x.values_mut() {
        for samples in at.values_mut() {
            *samples = usable(samples.iter().copied());
        }
    }
    for variant in variants {
        let of = |verdict: Verdict| Verdict {
            variant: variant.into(),
            baseline: baseline.into(),
            ..verdict
        };
        if variant != baseline {
            verdicts.extend(compare(keys, variant, baseline, &by_x).into_iter().map(of));
        }
        verdicts.extend(knee_verdict(keys, variant, &by_x).map(of));
    }
}

/// A measured difference below this share of the baseline may be certain and still say nothing: where
/// the compiler puts the same code moves it by as much.
pub const SHARE_THAT_MATTERS: f64 = 0.01;

/// Variant and baseline at one x.
struct Comparison {
    point: String,
    unit: String,
    metric: String,
    backend: String,
    own: Vec<f64>,
    theirs: Vec<f64>,
    /// Measured side by side: own, theirs; by placement (arena seed).
    pairs: BTreeMap<u64, Vec<(f64, f64)>>,
}

/// How much higher the variant is.
struct Judgement {
    estimate: f64,
    /// Covers placements: no narrower than their own shifts lie apart.
    interval: Option<Interval>,
    p: Option<f64>,
    /// The only placement that shows a difference, of how many.
    alone: Option<(u64, usize)>,
}

fn judge(c: &Comparison) -> Judgement {
    let all: Vec<(f64, f64)> = c.pairs.values().flatten().copied().collect();
    let enough = c.own.len().min(c.theirs.len()) >= FEWEST_FOR_INTERVAL;
    let Some(shift) = paired_shift(&all) else {
        // Nothing was measured side by side.
        return Judgement {
            estimate: median(&c.own) - median(&c.theirs),
            interval: None,
            p: enough.then(|| mann_whitney(&c.own, &c.theirs)).flatten(),
            alone: None,
        };
    };
    let of_placement =
        |(seed, pairs): (&u64, &Vec<(f64, f64)>)| Some((*seed, paired_shift(pairs)?));
    let placements: Vec<_> = c.pairs.iter().filter_map(of_placement).collect();
    let interval = shift.interval.map(|all| {
        let own = placements.iter().map(|(_, own)| own.estimate);
        own.fold(all, |all, own| Interval {
            low: all.low.min(own),
            high: all.high.max(own),
        })
    });
    let shows = |i: Interval| i.low > 0.0 || i.high < 0.0;
    let mut showing = placements
        .iter()
        .filter(|(_, own)| own.interval.is_some_and(shows));
    let alone = match (showing.next(), showing.next()) {
        (Some((seed, _)), None) if placements.len() > 1 => Some((*seed, placements.len())),
        _ => None,
    };
    Judgement {
        estimate: shift.estimate,
        interval,
        p: shift.p,
        alone,
    }
}

fn comparisons(variant: &str, baseline: &str, by_x: &ByX<'_>) -> Vec<Comparison> {
    let values = |s: &[&Sample]| -> Vec<f64> { s.iter().filter_map(|s| s.value).collect() };
    by_x.values()
        .filter_map(|at| {
            let (own, theirs) = (at.get(variant)?, at.get(baseline)?);
            let first = own.first()?;
            theirs.first()?;
            let by_turn: HashMap<(u64, u32), f64> = theirs
                .iter()
                .filter_map(|s| Some(((s.seed, s.repeat), s.value?)))
                .collect();
            let pairs = grouped(own.iter().filter_map(|s| {
                let other = *by_turn.get(&(s.seed, s.repeat))?;
                Some((s.seed, (s.value?, other)))
            }));
            Some(Comparison {
                point: first.point.clone(),
                unit: first.unit.clone(),
                metric: first.metric.clone(),
                backend: first.backend.clone(),
                own: values(own),
                theirs: values(theirs),
                pairs,
            })
        })
        .collect()
}

fn compare(keys: &Keys, variant: &str, baseline: &str, by_x: &ByX<'_>) -> Vec<Verdict> {
    let comparisons = comparisons(variant, baseline, by_x);
    let judged: Vec<Judgement> = comparisons.iter().map(judge).collect();
    // What had no test must not weigh on the others' adjustment.
    let tested: Vec<f64> = judged.iter().filter_map(|j| j.p).collect();
    let mut adjusted = holm(&tested).into_iter();
    let mut verdicts = Vec::new();
    for (c, j) in comparisons.iter().zip(&judged) {
        let p = j.p.and_then(|_| adjusted.next());
        let keys = Keys {
            point: c.point.clone(),
            ..keys.clone()
        };
        let theirs = median(&c.theirs);
        verdicts.push(Verdict {
            ci_low: j.interval.map(|i| i.low),
            ci_high: j.interval.map(|i| i.high),
            p_adjusted: p,
            words: shift_words(variant, baseline, c, j, p),
            ..verdict(&keys, "shift", Some(j.estimate), &c.unit)
        });
        if theirs != 0.0 {
            let ratio = |shift: f64| (theirs + shift) / theirs;
            let interval = j.interval.map(|i| Interval {
                low: ratio(i.low),
                high: ratio(i.high),
            });
            let words = format!(
                "At {}, {} of {variant} is {} times that of {baseline}{}.",
                c.point,
                c.metric,
                figure(ratio(j.estimate)),
                interval_words(interval),
            );
            verdicts.push(Verdict {
                ci_low: interval.map(|i| i.low),
                ci_high: interval.map(|i| i.high),
                words,
                ..verdict(&keys, "ratio", Some(ratio(j.estimate)), "ratio")
            });
        }
        if let Some(smallest) = smallest_detectable(&c.own, &c.theirs) {
            let words = format!(
                "At {}, a difference of {} {} would have been seen four times out of five.",
                c.point,
                figure(smallest),
                c.unit
            );
            verdicts.push(Verdict {
                words,
                ..verdict(&keys, "smallest-detectable", Some(smallest), &c.unit)
            });
        }
    }
    verdicts
}

fn shift_words(
    variant: &str,
    baseline: &str,
    c: &Comparison,
    j: &Judgement,
    p: Option<f64>,
) -> String {
    let p = match p {
        Some(p) if p < 1e-4 => ", p < 0.0001".into(),
        Some(p) => format!(", p = {}", figure(p)),
        None => String::new(),
    };
    let alone = j.alone.map_or(String::new(), |(seed, of)| {
        format!("; of {of} placements that of seed {seed} alone shows a difference")
    });
    let open = j.interval.is_some_and(|i| i.low <= 0.0 && i.high >= 0.0);
    let small = SHARE_THAT_MATTERS * median(&c.theirs).abs();
    let interval = interval_words(j.interval);
    let (at, metric, unit) = (&c.point, &c.metric, &c.unit);
    let shift = figure(j.estimate);
    if j.estimate == 0.0 || open {
        return format!(
            "At {at}, {metric} of {variant} and {baseline} do not differ measurably: {shift} {unit}{interval}{p}{alone}."
        );
    }
    if c.backend != "model" && j.estimate.abs() < small {
        return format!(
            "At {at}, {metric} of {variant} and {baseline} differ by less than {} %: {shift} {unit}{interval}{p}.",
            100.0 * SHARE_THAT_MATTERS
        );
    }
    let side = if j.estimate > 0.0 { "higher" } else { "lower" };
    let size = figure(j.estimate.abs());
    format!(
        "At {at}, {metric} of {variant} is {size} {unit} {side} than that of {baseline}{interval}{p}{alone}."
    )
}

fn interval_words(interval: Option<Interval>) -> String {
    interval.map_or(String::new(), |i| {
        format!(" (95 % interval {} to {})", figure(i.low), figure(i.high))
    })
}

/// Where the curve of `variant` begins to rise. Nothing for a metric that falls when things get
/// slower, or for a curve that is too short to tell.
fn knee_verdict(keys: &Keys, variant: &str, by_x: &ByX<'_>) -> Option<Verdict> {
    let mut curve = Vec::new();
    let mut measured = Vec::new();
    let mut errors = Vec::new();
    let mut metric = "";
    for (&x, at) in by_x {
        let samples = at.get(variant).map_or(&[][..], Vec::as_slice);
        let values: Vec<f64> = samples.iter().filter_map(|s| s.value).collect();
        let (Some(first), false) = (samples.first(), values.is_empty()) else {
            continue;
        };
        metric = &first.metric;
        curve.push((x as f64, median(&values)));
        errors.push(median_error(&values));
        measured.push((x as f64, values));
    }
    let (last, _) = *curve.last()?;
    if metric == "ops_per_s" || curve.len() <= 3 {
        return None;
    }
    let found = knee(&curve, median(&errors), None);
    let interval = knee_interval(&measured, SEED);
    let axis = &keys.axis;
    let end = |x: Option<f64>| x.map_or(format!("beyond {last}"), |x| x.to_string());
    let range = interval.map_or(String::new(), |i| {
        format!(" (95 % interval {} to {})", end(i.low), end(i.high))
    });
    let words = match found {
        Some(x) => format!("{metric} of {variant} begins to rise at {axis}={x}{range}."),
        None => format!("{metric} of {variant} stays flat up to {axis}={last}{range}."),
    };
    Some(Verdict {
        ci_low: interval.and_then(|i| i.low),
        ci_high: interval.and_then(|i| i.high),
        words,
        ..verdict(keys, "knee", found, axis)
    })
}

/// A verdict with these keys and no more; `variant`, `baseline` and the rest are the caller's.
fn verdict(keys: &Keys, what: &str, value: Option<f64>, unit: &str) -> Verdict {
    let keys = keys.clone();
    Verdict {
        schema: SCHEMA,
        experiment: keys.experiment,
        machine: keys.machine,
        backend: keys.backend,
        kernel: keys.kernel,
        variant: keys.variant,
        layout: keys.layout,
        placement: keys.placement,
        pages: keys.pages,
        start: keys.start,
        point: keys.point,
        axis: keys.axis,
        cpu: keys.cpu,
        baseline: String::new(),
        what: what.into(),
        value,
        unit: unit.into(),
        ci_low: None,
        ci_high: None,
        p_adjusted: None,
        words: String::new(),
    }
}

/// `value` with three significant digits at least, and no exponent.
#[must_use]
pub fn figure(value: f64) -> String {
    let whole = value.abs();
    let decimals = match whole {
        _ if whole == 0.0 || !whole.is_finite() || whole >= 100.0 => 0,
        _ if whole >= 10.0 => 1,
        _ if whole >= 1.0 => 2,
        _ if whole >= 0.001 => 3,
        _ => 6,
    };
    format!("{value:.decimals$}")
}
