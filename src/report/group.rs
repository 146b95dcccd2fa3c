//! All rows of one setting: what stands in one chart.

use crate::record::{Keys, Status, Verdict};
use crate::stats::summary::compared_metric;
use std::collections::BTreeSet;
use std::rc::Rc;

/// What the points of one chart have in common: everything but backend, variant and depth.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Setting {
    /// Experiment name.
    pub experiment: String,
    /// Kernel.
    pub kernel: String,
    /// Machine.
    pub machine: String,
    /// Layout.
    pub layout: String,
    /// Placement.
    pub placement: String,
    /// Page size.
    pub pages: String,
    /// Start.
    pub start: String,
    /// The axes other than the one drawn, `key=value` joined by `;`.
    pub rest: String,
}

/// One value over the axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Value of the axis as written.
    pub label: String,
    /// The same as a number, if it is one.
    pub x: Option<f64>,
    /// Median; absent if not measured.
    pub median: Option<f64>,
    /// Lower end of the interval.
    pub low: Option<f64>,
    /// Upper end of the interval.
    pub high: Option<f64>,
    /// Values that entered.
    pub n: u32,
    /// How it was obtained.
    pub status: Status,
    /// Linux's CPU, or `all`.
    pub cpu: String,
}

/// One metric of one variant on one backend, over the axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// `native`, `model` or `live`.
    pub backend: String,
    /// Variant.
    pub variant: String,
    /// Metric name as in the CSV.
    pub metric: String,
    /// Unit as in the CSV.
    pub unit: String,
    /// By axis.
    pub points: Vec<Point>,
}

impl Curve {
    /// The point at `x`.
    #[must_use]
    pub fn at(&self, x: f64) -> Option<&Point> {
        self.points.iter().find(|p| p.x == Some(x))
    }
}

/// A verdict with its place on the axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    /// The axis value; absent for what holds for a whole curve, such as a knee.
    pub x: Option<f64>,
    /// As in `verdicts.csv`.
    pub verdict: Verdict,
}

/// One row of `attribution.csv`, names shared.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct Miss {
    pub backend: Rc<str>,
    pub variant: Rc<str>,
    pub x: f64,
    pub structure: Rc<str>,
    pub field: Rc<str>,
    pub line: u32,
    pub set: u32,
    pub level: Rc<str>,
    pub cause: Rc<str>,
    pub per_op: f64,
    pub per_visit: f64,
    pub cycles_per_op: f64,
}

/// All rows of one setting.
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// What they have in common.
    pub setting: Setting,
    /// Name of the axis drawn.
    pub axis: String,
    /// From `summary.csv`.
    pub curves: Vec<Curve>,
    /// From `verdicts.csv`.
    pub verdicts: Vec<Judged>,
    /// From `attribution.csv`.
    pub misses: Vec<Miss>,
}

impl Group {
    /// The curve of one metric.
    #[must_use]
    pub fn curve(&self, backend: &str, variant: &str, metric: &str) -> Option<&Curve> {
        self.curves
            .iter()
            .find(|c| c.backend == backend && c.variant == variant && c.metric == metric)
    }

    /// Backends that ran, `native` first.
    #[must_use]
    pub fn backends(&self) -> Vec<String> {
        let all: BTreeSet<&str> = self.curves.iter().map(|c| c.backend.as_str()).collect();
        let mut out: Vec<String> = all.into_iter().map(String::from).collect();
        out.sort_by_key(|b| match b.as_str() {
            "native" => 0,
            "live" => 1,
            _ => 2,
        });
        out
    }

    /// Metric that is drawn, with its unit: the one that the verdicts compare. Otherwise, of what
    /// older or other kernels give, the first that there is.
    #[must_use]
    pub fn metric(&self) -> Option<(String, String)> {
        const ELSE: [&str; 4] = [
            "time_ns_per_op",
            "tsc_cycles_per_op",
            "cycles_per_op",
            "ops_per_s",
        ];
        let of = |metric: &str| {
            self.curves
                .iter()
                .find(|c| c.metric == metric && c.points.iter().any(|p| p.median.is_some()))
        };
        let has = |backend: &str, metric: &str| {
            self.curves.iter().any(|c| {
                c.backend == backend
                    && c.metric == metric
                    && c.points.iter().any(|p| p.median.is_some())
            })
        };
        let curve = compared_metric(&self.setting.kernel, has)
            .and_then(of)
            .or_else(|| ELSE.into_iter().find_map(of))?;
        Some((curve.metric.clone(), curve.unit.clone()))
    }

    /// All axis values of the chosen curves, ascending.
    #[must_use]
    pub fn axis_values(&self) -> Vec<f64> {
        let mut out: Vec<f64> = self
            .curves
            .iter()
            .flat_map(|c| c.points.iter().filter_map(|p| p.x))
            .collect();
        out.sort_by(f64::total_cmp);
        out.dedup();
        out
    }
}

/// Axis to draw, its value, and the other axes of a row. Of several axes `depth` is drawn.
#[must_use]
pub fn split_point(keys: &Keys) -> (String, String, String) {
    let parts: Vec<(&str, &str)> = keys
        .point
        .split(';')
        .filter_map(|p| p.split_once('='))
        .collect();
    let axis = match parts.iter().find(|(k, _)| *k == "depth") {
        Some(_) => "depth",
        None if keys.axis.is_empty() => parts.first().map_or("", |(k, _)| *k),
        None => keys.axis.as_str(),
    };
    let x = parts
        .iter()
        .find(|(k, _)| *k == axis)
        .map_or(keys.x.as_str(), |(_, v)| *v);
    let rest: Vec<String> = parts
        .iter()
        .filter(|(k, _)| *k != axis)
        .map(|(k, v)| format!("{k}={v}"))
        .collect();
    (axis.to_string(), x.to_string(), rest.join(";"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of several axes depth is drawn, whichever `axis` names; a knee has no place on it.
    #[test]
    fn the_axis_of_a_point() {
        for (point, axis, x, expected) in [
            ("depth=50", "depth", "50", ("depth", "50", "")),
            ("cpus=2;depth=50", "cpus", "2", ("depth", "50", "cpus=2")),
            ("cpus=2", "depth", "", ("depth", "", "cpus=2")),
            ("", "depth", "", ("depth", "", "")),
            ("threads=4", "threads", "4", ("threads", "4", "")),
        ] {
            let keys = Keys {
                point: point.into(),
                axis: axis.into(),
                x: x.into(),
                ..Keys::default()
            };
            let (axis, x, rest) = split_point(&keys);
            assert_eq!(
                (axis.as_str(), x.as_str(), rest.as_str()),
                expected,
                "{point}"
            );
        }
    }
}
