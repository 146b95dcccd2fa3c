//! What the verdicts say about each variant: knee, first slower depth, differences.

use super::num;
use super::records::{Group, Judged, Records};

pub use crate::stats::summary::SHARE_THAT_MATTERS;

/// The same for the model, which is exact to itself but not to a machine: a difference of a few
/// percent of a visit is within what its core's rules leave out.
pub const MODEL_SHARE_THAT_MATTERS: f64 = 0.05;

/// Adjusted p below which a measured difference counts.
pub const P_LIMIT: f64 = 0.05;

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
    /// Runs of tested depths without a gap that are slower: first and last of each.
    pub runs: Vec<(f64, f64)>,
    /// Deepest depth tested, if any was.
    pub tested_to: Option<f64>,
    /// Shift at each of [`depths`].
    pub shifts: Vec<(f64, Option<&'a Judged>)>,
    /// Ratio at each of [`depths`].
    pub ratios: Vec<Option<f64>>,
    /// Unit of the shifts in words.
    pub unit: String,
}

impl Finding<'_> {
    /// First depth that is slower.
    #[must_use]
    pub fn first(&self) -> Option<f64> {
        self.runs.first().map(|(first, _)| *first)
    }

    /// Depth from which all tested depths are slower.
    #[must_use]
    pub fn from(&self) -> Option<f64> {
        let (first, last) = self.runs.last()?;
        (Some(*last) == self.tested_to).then_some(*first)
    }

    /// `0, 2 to 7 and from 9 on`; none if nothing was slower.
    #[must_use]
    pub fn where_slower(&self) -> Option<String> {
        let runs: Vec<String> = self
            .runs
            .iter()
            .map(|(a, b)| {
                let (first, last) = (num::exact(*a), num::exact(*b));
                match () {
                    () if Some(*b) == self.tested_to => format!("from {first} on"),
                    () if a == b => first,
                    () => format!("{first} to {last}"),
                }
            })
            .collect();
        (!runs.is_empty()).then(|| num::list(&runs))
    }
}

/// Tested depths, ascending, as runs that are slower.
fn runs(tested: &[(f64, bool)]) -> Vec<(f64, f64)> {
    let mut out: Vec<(f64, f64)> = Vec::new();
    let mut open = false;
    for (x, slower) in tested {
        match out.last_mut() {
            Some((_, last)) if *slower && open => *last = *x,
            _ if *slower => out.push((*x, *x)),
            _ => {}
        }
        open = *slower;
    }
    out
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

/// Whether a shift is slower: certain by its p or interval, and large enough to matter.
/// None if it has no value, or neither p nor interval and no baseline to set it against.
fn slower(judged: &Judged, baseline_at: Option<f64>) -> Option<bool> {
    let verdict = &judged.verdict;
    let value = num::finite(verdict.value)?;
    let share = match verdict.backend.as_str() {
        "model" => MODEL_SHARE_THAT_MATTERS,
        _ => SHARE_THAT_MATTERS,
    };
    let matters = |v: f64| baseline_at.is_none_or(|b| v >= share * b.abs());
    match (num::finite(verdict.p_adjusted), num::finite(verdict.ci_low)) {
        // The interval covers placements, which p does not.
        (Some(p), low) => {
            let certain = p < P_LIMIT && low.is_none_or(|low| low > 0.0);
            Some(certain && value > 0.0 && matters(value))
        }
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
        runs: runs(&tested),
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Depths 0, 2, 4 to 8 and 16 of a sweep that ends at 16: a single one, a run, and one that
    /// holds to the end. What ends before the last depth is never "on".
    #[test]
    fn runs_of_slower_depths() {
        let mut finding = Finding {
            group: 0,
            backend: "native".into(),
            variant: "v".into(),
            baseline: "b".into(),
            knee: None,
            runs: runs(&[
                (0.0, true),
                (1.0, false),
                (2.0, true),
                (4.0, true),
                (8.0, false),
                (16.0, true),
                (32.0, true),
            ]),
            tested_to: Some(32.0),
            shifts: Vec::new(),
            ratios: Vec::new(),
            unit: String::new(),
        };
        assert_eq!(finding.where_slower().unwrap(), "0, 2 to 4 and from 16 on");
        assert_eq!((finding.first(), finding.from()), (Some(0.0), Some(16.0)));
        finding.runs.pop();
        assert_eq!(finding.where_slower().unwrap(), "0 and 2 to 4");
        assert_eq!(finding.from(), None);
        finding.runs.clear();
        assert_eq!(finding.where_slower(), None);
    }
}
