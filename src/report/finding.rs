//! What the verdicts say about each variant: knee, first slower depth, differences.

use super::num;
use super::records::{Group, Judged, Records};

/// A difference counts as slower only from this share of the baseline on: below it, it may be
/// certain and still not matter.
const SHARE_THAT_MATTERS: f64 = 0.01;

/// Adjusted p below which a measured difference counts.
const P_LIMIT: f64 = 0.05;

/// What the records say about one variant on one backend in one setting.
pub struct Finding<'a> {
    /// Index of the group.
    pub group: usize,
    /// Where it ran.
    pub backend: String,
    /// Which variant.
    pub variant: String,
    /// Compared with which; empty for the baseline itself.
    pub baseline: String,
    /// The knee, if a verdict gives one.
    pub knee: Option<&'a Judged>,
    /// First depth that is slower.
    pub first: Option<f64>,
    /// Depth from which all tested depths are slower.
    pub from: Option<f64>,
    /// Deepest depth tested, if any was.
    pub tested_to: Option<f64>,
    /// Shift at each of [`depths`].
    pub shifts: Vec<(f64, Option<&'a Judged>)>,
    /// Ratio at each of [`depths`].
    pub ratios: Vec<Option<f64>>,
    /// Unit of the shifts in words.
    pub unit: String,
}

/// The metric in words, with its unit.
#[must_use]
pub fn metric_words(metric: &str) -> String {
    match metric {
        "tsc_cycles_per_visit" => "TSC cycles per visit".to_string(),
        "cycles_per_visit" => "core cycles per visit".to_string(),
        "tsc_cycles_per_op" => "TSC cycles per operation".to_string(),
        "cycles_per_op" => "core cycles per operation".to_string(),
        "time_ns_per_visit" => "ns per visit".to_string(),
        "time_ns_per_op" => "ns per operation".to_string(),
        "ops_per_s" => "operations per second".to_string(),
        other => other.replace('_', " "),
    }
}

/// `model` in words that say what kind of number it gives.
#[must_use]
pub fn backend_words(backend: &str) -> &str {
    match backend {
        "native" => "measured",
        "model" => "model",
        "live" => "live Linux",
        other => other,
    }
}

/// The depths that the answer quotes: 8, 25 and 50 where they were run, otherwise the first, a
/// middle and the last one.
#[must_use]
pub fn depths(records: &Records) -> Vec<f64> {
    let mut all: Vec<f64> = records.groups.iter().flat_map(Group::axis_values).collect();
    all.sort_by(f64::total_cmp);
    all.dedup();
    let wanted: Vec<f64> = [8.0, 25.0, 50.0]
        .into_iter()
        .filter(|x| all.contains(x))
        .collect();
    if !wanted.is_empty() {
        return wanted;
    }
    let mut out: Vec<f64> = [0, all.len() / 2, all.len().saturating_sub(1)]
        .iter()
        .filter_map(|i| all.get(*i).copied())
        .collect();
    out.dedup();
    out
}

/// Whether group `index` is the one that stands for its experiment on its machine: the first that
/// starts warm, or the first at all.
#[must_use]
pub fn is_primary(records: &Records, index: usize) -> bool {
    let own = &records.groups[index].setting;
    let of_machine = || {
        records.groups.iter().enumerate().filter(|(_, g)| {
            g.setting.machine == own.machine && g.setting.experiment == own.experiment
        })
    };
    let first = of_machine()
        .find(|(_, g)| g.setting.start == "warm" && !g.curves.is_empty())
        .or_else(|| of_machine().next());
    first.is_some_and(|(i, _)| i == index)
}

/// The candidate that the sentences speak of: `cgroup` if it ran, otherwise the first variant
/// that is no baseline.
#[must_use]
pub fn candidate(records: &Records) -> Option<&String> {
    let candidates = || records.variants.iter().filter(|v| !records.is_baseline(v));
    candidates()
        .find(|v| *v == "cgroup")
        .or_else(|| candidates().next())
}

/// Whether a shift is slower: certain by its p or interval, and at least 1 % of the baseline.
/// None if it has no value, or neither p nor interval and no baseline to set it against.
fn slower(judged: &Judged, baseline_at: Option<f64>) -> Option<bool> {
    let verdict = &judged.verdict;
    let value = num::finite(verdict.value)?;
    let matters = |v: f64| baseline_at.is_none_or(|b| v >= SHARE_THAT_MATTERS * b.abs());
    match (num::finite(verdict.p_adjusted), num::finite(verdict.ci_low)) {
        (Some(p), _) => Some(p < P_LIMIT && value > 0.0 && matters(value)),
        (None, Some(low)) => Some(low > 0.0 && matters(value)),
        (None, None) => baseline_at.map(|_| value > 0.0 && matters(value)),
    }
}

/// Unit of the shifts to show: the one of the metric that is drawn, otherwise one of cycles.
fn shift_unit(group: &Group, backend: &str, variant: &str) -> Option<String> {
    let mut units: Vec<&str> = group
        .verdicts
        .iter()
        .filter(|j| {
            let v = &j.verdict;
            v.what == "shift" && v.backend == backend && v.variant == variant
        })
        .map(|j| j.verdict.unit.as_str())
        .collect();
    units.dedup();
    let (metric, unit) = group.metric().unwrap_or_default();
    let rank = |u: &str| match u {
        u if u == metric => 0,
        u if u == unit => 1,
        u if u.contains("tsc") => 2,
        u if u.contains("cycles") => 3,
        _ => 4,
    };
    units.sort_by_key(|u| rank(u));
    units.first().map(ToString::to_string)
}

/// All findings, by group, backend and variant.
#[must_use]
pub fn findings(records: &Records) -> Vec<Finding<'_>> {
    let depths = depths(records);
    let mut out = Vec::new();
    for (index, group) in records.groups.iter().enumerate() {
        for backend in group.backends() {
            for variant in &records.variants {
                let rows: Vec<&Judged> = group
                    .verdicts
                    .iter()
                    .filter(|j| j.verdict.backend == backend && j.verdict.variant == *variant)
                    .collect();
                if !rows.is_empty() {
                    out.push(finding(group, index, &backend, variant, &rows, &depths));
                }
            }
        }
    }
    out
}

fn finding<'a>(
    group: &'a Group,
    index: usize,
    backend: &str,
    variant: &str,
    rows: &[&'a Judged],
    depths: &[f64],
) -> Finding<'a> {
    let unit = shift_unit(group, backend, variant);
    let (metric, metric_unit) = group.metric().unwrap_or_default();
    let shifts: Vec<&Judged> = rows
        .iter()
        .copied()
        .filter(|j| j.verdict.what == "shift" && Some(&j.verdict.unit) == unit.as_ref())
        .collect();
    let baseline = rows
        .iter()
        .map(|j| j.verdict.baseline.clone())
        .find(|b| !b.is_empty() && b != variant)
        .unwrap_or_default();
    let curve = group.curve(backend, &baseline, &metric);
    let mut tested: Vec<(f64, bool)> = shifts
        .iter()
        .filter_map(|j| {
            let base = curve.and_then(|c| c.at(j.x?)?.median);
            Some((j.x?, slower(j, base)?))
        })
        .collect();
    tested.sort_by(|a, b| a.0.total_cmp(&b.0));
    let at = |what: &str, x: f64| {
        rows.iter()
            .copied()
            .find(|j| j.verdict.what == what && j.x == Some(x))
    };
    Finding {
        group: index,
        backend: backend.to_string(),
        variant: variant.to_string(),
        baseline,
        knee: rows
            .iter()
            .copied()
            .find(|j| j.verdict.what == "knee" && num::finite(j.verdict.value).is_some()),
        first: tested.iter().find(|(_, s)| *s).map(|(x, _)| *x),
        from: tested
            .iter()
            .rev()
            .take_while(|(_, s)| *s)
            .last()
            .map(|(x, _)| *x),
        tested_to: tested.last().map(|(x, _)| *x),
        shifts: depths
            .iter()
            .map(|x| (*x, shifts.iter().copied().find(|j| j.x == Some(*x))))
            .collect(),
        ratios: depths
            .iter()
            .map(|x| at("ratio", *x).and_then(|j| num::finite(j.verdict.value)))
            .collect(),
        unit: match unit {
            Some(u) if u == metric_unit || u == metric => metric_words(&metric),
            Some(u) => u.replace('_', " "),
            None => metric_words(&metric),
        },
    }
}
