//! The table after a run: variants side by side, the model beside native.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{self, Write};

use crate::record::{Keys, Status, Summary, other_axes};
use crate::stats::summary::compared_metric;

/// Widest table in columns; more variants than fit go into a further table.
const WIDTH: usize = 100;
/// Widths of a value, a ratio and a count of misses, the space before it included.
const VALUE: usize = 8;
const RATIO: usize = 6;
const MISSES: usize = 7;

const BACKENDS: [&str; 2] = ["native", "model"];
const L1D: &str = "l1d_misses_per_visit";

/// Print one table for each machine, layout, placement, pages, start and rest of the axes.
pub(super) fn print(summaries: &[Summary], baseline: &str, out: &mut dyn Write) -> io::Result<()> {
    let mut order: Vec<Keys> = Vec::new();
    let mut groups: HashMap<Keys, Vec<&Summary>> = HashMap::new();
    for summary in summaries {
        let mut keys = summary.keys();
        keys.point = other_axes(&keys.point, &keys.axis);
        for own in [
            &mut keys.backend,
            &mut keys.variant,
            &mut keys.x,
            &mut keys.cpu,
        ] {
            own.clear();
        }
        if !groups.contains_key(&keys) {
            order.push(keys.clone());
        }
        groups.entry(keys).or_default().push(summary);
    }
    for keys in order {
        let group = Group::new(&groups[&keys], &keys, baseline);
        out.write_all(group.text(&keys, baseline).as_bytes())?;
    }
    Ok(())
}

/// What is in the columns of one table.
struct Group<'a> {
    metric: &'static str,
    unit: &'a str,
    /// The baseline first.
    variants: Vec<&'a str>,
    xs: Vec<u64>,
    /// By backend, variant, x and metric.
    rows: HashMap<(&'a str, &'a str, u64, &'a str), &'a Summary>,
    /// Backends with a value of the metric.
    backends: Vec<&'static str>,
    l1d_from: Option<&'static str>,
    /// Whether a value has an interval.
    intervals: bool,
    spoiled: usize,
    negative: usize,
}

impl<'a> Group<'a> {
    fn new(rows: &[&'a Summary], keys: &Keys, baseline: &str) -> Group<'a> {
        let has = |backend: &str, metric: &str| {
            rows.iter()
                .any(|r| r.metric == metric && r.backend == backend && r.median.is_some())
        };
        let metric = compared_metric(&keys.kernel, has).unwrap_or("cycles_per_visit");
        let mut group = Group {
            metric,
            unit: "",
            variants: Vec::new(),
            xs: Vec::new(),
            rows: HashMap::new(),
            backends: BACKENDS
                .iter()
                .copied()
                .filter(|b| has(b, metric))
                .collect(),
            l1d_from: ["model", "native"].into_iter().find(|b| has(b, L1D)),
            intervals: false,
            spoiled: 0,
            negative: 0,
        };
        for row in rows
            .iter()
            .filter(|r| r.metric == metric || r.metric == L1D)
        {
            let (Some(median), Ok(x)) = (row.median, row.x.parse()) else {
                continue;
            };
            if !group.variants.contains(&row.variant.as_str()) {
                group.variants.push(&row.variant);
            }
            if !group.xs.contains(&x) {
                group.xs.push(x);
            }
            if row.metric == metric {
                group.unit = &row.unit;
                group.spoiled += usize::from(row.status == Status::Spoiled);
                group.negative += usize::from(median < 0.0);
                group.intervals |= measured_interval(row).is_some();
            }
            let key = (
                row.backend.as_str(),
                row.variant.as_str(),
                x,
                row.metric.as_str(),
            );
            group.rows.insert(key, row);
        }
        group.variants.sort_by_key(|v| *v != baseline);
        group.xs.sort_unstable();
        group
    }

    fn row(&self, backend: &str, variant: &str, x: u64, metric: &str) -> Option<&Summary> {
        self.rows.get(&(backend, variant, x, metric)).copied()
    }

    /// Median and, where it was measured, half its interval.
    fn cell(&self, backend: &str, variant: &str, x: u64) -> String {
        let Some(row) = self.row(backend, variant, x, self.metric) else {
            return "-".into();
        };
        let Some(median) = row.median else {
            return "-".into();
        };
        match measured_interval(row) {
            Some((low, high)) => {
                let half = (median - low).max(high - median).max(0.0);
                format!("{} ±{}", value(median), upwards(half))
            }
            None => value(median),
        }
    }

    /// Width of the column of `backend`, the space before it included.
    fn column(&self, backend: &str) -> usize {
        let cells = self
            .variants
            .iter()
            .flat_map(|v| self.xs.iter().map(|x| self.cell(backend, v, *x)));
        let widest = cells.map(|c| c.chars().count()).max().unwrap_or(0);
        VALUE.max(widest + 2)
    }

    /// Width of the columns of one variant.
    fn width(&self, variant: &str, baseline: &str) -> usize {
        let ratio = if variant == baseline { 0 } else { RATIO };
        let values: usize = self.backends.iter().map(|b| self.column(b) + ratio).sum();
        values + self.l1d_from.map_or(0, |_| MISSES)
    }

    fn text(&self, keys: &Keys, baseline: &str) -> String {
        let mut text = String::new();
        let place = [
            &keys.layout,
            &keys.placement,
            &keys.pages,
            &keys.start,
            &keys.point,
        ];
        let place: Vec<&str> = place.into_iter().map(String::as_str).collect();
        let place: Vec<&str> = place.into_iter().filter(|p| !p.is_empty()).collect();
        let _ = writeln!(text, "{}  {}", keys.experiment, keys.machine);
        let _ = writeln!(text, "{}", place.join("  "));
        if self.backends.is_empty() {
            let _ = writeln!(text, "nothing was measured; samples.csv says why\n");
            return text;
        }
        let mut legend = format!("{} in {}", self.metric, self.unit);
        if self.intervals {
            legend.push_str(", ± the wider side of the 95 % interval");
        }
        let _ = writeln!(text, "{legend}");
        let mut legend = format!("ratio to {baseline}");
        if let Some(backend) = self.l1d_from {
            let _ = write!(legend, "; L1D misses per visit ({backend})");
        }
        let _ = writeln!(text, "{legend}");
        let axis = keys.axis.len().max(5);
        for variants in self.wrapped(axis, baseline) {
            self.block(&mut text, keys, axis, &variants, baseline);
        }
        if self.spoiled > 0 {
            let spoiled = self.spoiled;
            let _ = writeln!(
                text,
                "{spoiled} of the values are from disturbed measurements only"
            );
        }
        if self.negative > 0 {
            let negative = self.negative;
            let _ = writeln!(
                text,
                "{negative} of the values are below 0: the empty call that is subtracted took longer"
            );
        }
        text.push('\n');
        text
    }

    /// The variants in as many tables as the width asks for.
    fn wrapped(&self, axis: usize, baseline: &str) -> Vec<Vec<&'a str>> {
        let mut tables: Vec<Vec<&str>> = Vec::new();
        let mut used = 0;
        for &variant in &self.variants {
            let width = self.width(variant, baseline) + 1;
            match tables.last_mut() {
                Some(table) if used + width <= WIDTH => table.push(variant),
                _ => {
                    tables.push(vec![variant]);
                    used = axis;
                }
            }
            used += width;
        }
        tables
    }

    fn block(
        &self,
        text: &mut String,
        keys: &Keys,
        axis: usize,
        variants: &[&str],
        baseline: &str,
    ) {
        let columns: Vec<(&str, usize)> =
            self.backends.iter().map(|b| (*b, self.column(b))).collect();
        let mut names = format!("{:axis$}", "");
        let mut heads = format!("{:>axis$}", keys.axis);
        for variant in variants {
            let width = self.width(variant, baseline);
            let _ = write!(names, " {:>width$.width$}", dashes(variant, width - 2));
            heads.push(' ');
            for (backend, width) in &columns {
                let _ = write!(heads, "{backend:>width$}");
                if *variant != baseline {
                    let _ = write!(heads, "{:>RATIO$}", "ratio");
                }
            }
            if self.l1d_from.is_some() {
                let _ = write!(heads, "{:>MISSES$}", "L1D");
            }
        }
        let _ = writeln!(text, "{names}\n{heads}");
        for &x in &self.xs {
            let _ = write!(text, "{x:>axis$}");
            for variant in variants {
                text.push(' ');
                for (backend, width) in &columns {
                    let cell = self.cell(backend, variant, x);
                    let _ = write!(text, "{cell:>width$}");
                    if *variant != baseline {
                        let ratio = self
                            .ratio(backend, variant, baseline, x)
                            .map_or("-".into(), |r| format!("{r:.2}"));
                        let _ = write!(text, "{ratio:>RATIO$}");
                    }
                }
                if let Some(backend) = self.l1d_from {
                    let misses = self.row(backend, variant, x, L1D).and_then(|r| r.median);
                    let misses = misses.map_or("-".into(), |m| format!("{m:.2}"));
                    let _ = write!(text, "{misses:>MISSES$}");
                }
            }
            text.push('\n');
        }
    }

    /// None where a value is missing or, being at most 0, has no ratio.
    fn ratio(&self, backend: &str, variant: &str, baseline: &str, x: u64) -> Option<f64> {
        let own = self.row(backend, variant, x, self.metric)?.median?;
        let theirs = self.row(backend, baseline, x, self.metric)?.median?;
        (own > 0.0 && theirs > 0.0).then(|| own / theirs)
    }
}

/// The interval of a measured value. That of the model spans placements, which is another thing.
fn measured_interval(row: &Summary) -> Option<(f64, f64)> {
    if row.backend == "model" {
        return None;
    }
    row.ci_low.zip(row.ci_high)
}

/// `name` between dashes that show which columns are its own.
fn dashes(name: &str, width: usize) -> String {
    let name = format!(" {name} ");
    if name.trim().len() >= width {
        return name.trim().into();
    }
    format!("{name:-^width$}")
}

/// One decimal up to 1000, none above.
fn value(value: f64) -> String {
    if value.abs() >= 1000.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.1}")
    }
}

/// Like [`value`], rounded up: an interval is not made narrower than it is.
fn upwards(half: f64) -> String {
    if half >= 100.0 {
        format!("{:.0}", half.ceil())
    } else {
        format!("{:.1}", (half * 10.0).ceil() / 10.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(backend: &str, variant: &str, x: u64, metric: &str, median: f64) -> Summary {
        let keys = Keys {
            experiment: "psi-depth".into(),
            machine: "host:X".into(),
            backend: backend.into(),
            kernel: "psi-depth".into(),
            variant: variant.into(),
            start: "warm".into(),
            point: format!("depth={x}"),
            axis: "depth".into(),
            x: x.to_string(),
            ..Keys::default()
        };
        let status = Status::Exact;
        Summary::new(
            &keys,
            metric.into(),
            "cycles".into(),
            1,
            Some(median),
            (backend == "native").then_some(median - 0.12),
            (backend == "native").then_some(median + 0.04),
            None,
            status,
        )
    }

    fn printed(summaries: &[Summary]) -> String {
        let mut out = Vec::new();
        print(summaries, "parent", &mut out).expect("memory takes all");
        String::from_utf8(out).expect("the table is text")
    }

    /// Native is 0.12 above the lower end of its interval: the wider side, rounded up, is 0.2.
    /// The model has no interval, and no L1D misses of `parent` are known.
    #[test]
    fn variants_stand_side_by_side_with_their_ratio() {
        let cycles = "cycles_per_visit";
        let text = printed(&[
            summary("native", "cgroup", 50, cycles, 15.0),
            summary("native", "parent", 50, cycles, 10.0),
            summary("model", "parent", 50, cycles, 8.0),
            summary("model", "cgroup", 50, cycles, 16.0),
            summary("model", "cgroup", 50, L1D, 0.5),
        ]);
        let row = text
            .lines()
            .find(|l| l.starts_with("   50"))
            .expect("a row for 50");
        let cells: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(
            cells,
            [
                "50", "10.0", "±0.2", "8.0", "-", "15.0", "±0.2", "1.50", "16.0", "2.00", "0.50"
            ]
        );
    }

    #[test]
    fn tables_stay_within_their_width_whatever_the_number_of_variants() {
        let names = [
            "parent",
            "cgroup",
            "cgroup-as-posted",
            "cgroup-ino-check",
            "inner-off",
            "parent-prefetch",
            "ancestors-array",
        ];
        let mut summaries = Vec::new();
        for name in names {
            for backend in BACKENDS {
                for x in [0, 1000] {
                    summaries.push(summary(backend, name, x, "cycles_per_visit", 123_456.7));
                    summaries.push(summary(backend, name, x, L1D, 3.25));
                }
            }
        }
        let text = printed(&summaries);
        for line in text.lines() {
            let width = line.chars().count();
            assert!(width <= WIDTH, "{width} columns: {line}");
        }
        for name in names {
            assert!(text.contains(&format!(" {name} ")), "{name} in\n{text}");
        }
    }

    /// With native the unit is that of the time-stamp counter for both, although the model knows
    /// core cycles, too; with the model alone it is core cycles.
    #[test]
    fn native_and_model_stand_in_one_unit() {
        let model = |metric: &str, value| summary("model", "parent", 5, metric, value);
        let native = summary("native", "parent", 5, "tsc_cycles_per_visit", 12.0);
        let both = [
            model("cycles_per_visit", 8.0),
            model("tsc_cycles_per_visit", 6.0),
            native,
        ];
        let text = printed(&both);
        assert!(text.contains("tsc_cycles_per_visit in"), "{text}");
        assert!(text.contains("12.0 ±0.2") && text.contains(" 6.0") && !text.contains(" 8.0"));
        let text = printed(&both[..2]);
        assert!(
            text.contains("cycles_per_visit in") && text.contains(" 8.0"),
            "{text}"
        );
        assert!(!text.contains("tsc_cycles"), "{text}");
    }

    /// A time below 0 is said to be one, and is no part of a ratio.
    #[test]
    fn what_is_below_nothing_is_named() {
        let text = printed(&[
            summary("native", "parent", 0, "tsc_cycles_per_visit", -200.0),
            summary("native", "cgroup", 0, "tsc_cycles_per_visit", 150.0),
        ]);
        assert!(text.contains("1 of the values are below 0"), "{text}");
        assert!(!text.contains("-0.75"), "{text}");
    }
}
