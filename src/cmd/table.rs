//! The table after a run: variants side by side, the model beside native.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{self, Write};

use crate::experiment::Kernel;
use crate::record::{Keys, Status, Summary, other_axes};

/// Widest table in columns; more variants than fit go into a further table.
const WIDTH: usize = 96;
/// Width of a value and of a ratio, the space before it included.
const VALUE: usize = 8;
const RATIO: usize = 6;

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
    medians: HashMap<(&'a str, &'a str, u64, &'a str), f64>,
    /// Backends with a value of the metric.
    backends: Vec<&'static str>,
    l1d_from: Option<&'static str>,
    spoiled: usize,
}

impl<'a> Group<'a> {
    fn new(rows: &[&'a Summary], keys: &Keys, baseline: &str) -> Group<'a> {
        let metrics = Kernel::parse(&keys.kernel).map_or(&[][..], Kernel::metrics);
        let has = |metric: &str, backend: &str| {
            rows.iter()
                .any(|r| r.metric == metric && r.backend == backend && r.median.is_some())
        };
        // One that every backend has, so that they stand side by side.
        let measured = |b: &&str| metrics.iter().any(|metric| has(metric, b));
        let present: Vec<&str> = BACKENDS.iter().copied().filter(measured).collect();
        let of_all = |metric: &&str| present.iter().all(|b| has(metric, b));
        let of_any = |metric: &&str| present.iter().any(|b| has(metric, b));
        let mut metrics = metrics.iter().copied();
        let metric = metrics
            .clone()
            .find(of_all)
            .or_else(|| metrics.find(of_any))
            .unwrap_or("cycles_per_visit");
        let mut group = Group {
            metric,
            unit: "",
            variants: Vec::new(),
            xs: Vec::new(),
            medians: HashMap::new(),
            backends: BACKENDS
                .iter()
                .copied()
                .filter(|b| has(metric, b))
                .collect(),
            l1d_from: ["model", "native"].into_iter().find(|b| has(L1D, b)),
            spoiled: 0,
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
            }
            let key = (
                row.backend.as_str(),
                row.variant.as_str(),
                x,
                row.metric.as_str(),
            );
            group.medians.insert(key, median);
        }
        group.variants.sort_by_key(|v| *v != baseline);
        group.xs.sort_unstable();
        group
    }

    fn median(&self, backend: &str, variant: &str, x: u64, metric: &str) -> Option<f64> {
        self.medians.get(&(backend, variant, x, metric)).copied()
    }

    /// Width of the columns of one variant.
    fn width(&self, variant: &str, baseline: &str) -> usize {
        let ratio = if variant == baseline { 0 } else { RATIO };
        self.backends.len() * (VALUE + ratio) + self.l1d_from.map_or(0, |_| VALUE)
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
        let mut legend = format!("{} in {}, ratio to {baseline}", self.metric, self.unit);
        if let Some(backend) = self.l1d_from {
            let _ = write!(legend, ", L1D misses per visit ({backend})");
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
        let mut names = format!("{:axis$}", "");
        let mut heads = format!("{:>axis$}", keys.axis);
        for variant in variants {
            let width = self.width(variant, baseline);
            let _ = write!(names, " {:>width$.width$}", dashes(variant, width - 2));
            heads.push(' ');
            for backend in &self.backends {
                let _ = write!(heads, "{backend:>VALUE$}");
                if *variant != baseline {
                    let _ = write!(heads, "{:>RATIO$}", "ratio");
                }
            }
            if self.l1d_from.is_some() {
                let _ = write!(heads, "{:>VALUE$}", "L1D");
            }
        }
        let _ = writeln!(text, "{names}\n{heads}");
        for &x in &self.xs {
            let _ = write!(text, "{x:>axis$}");
            for variant in variants {
                text.push(' ');
                for backend in &self.backends {
                    let own = self.median(backend, variant, x, self.metric);
                    let _ = write!(text, "{:>VALUE$}", own.map_or("-".into(), value));
                    if *variant != baseline {
                        let theirs = self.median(backend, baseline, x, self.metric);
                        let ratio = own.zip(theirs.filter(|t| *t != 0.0)).map(|(o, t)| o / t);
                        let ratio = ratio.map_or("-".into(), |r| format!("{r:.2}"));
                        let _ = write!(text, "{ratio:>RATIO$}");
                    }
                }
                if let Some(backend) = self.l1d_from {
                    let misses = self.median(backend, variant, x, L1D);
                    let misses = misses.map_or("-".into(), |m| format!("{m:.2}"));
                    let _ = write!(text, "{misses:>VALUE$}");
                }
            }
            text.push('\n');
        }
    }
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
            None,
            None,
            None,
            status,
        )
    }

    fn printed(summaries: &[Summary]) -> String {
        let mut out = Vec::new();
        print(summaries, "parent", &mut out).expect("memory takes all");
        String::from_utf8(out).expect("the table is text")
    }

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
                "50", "10.0", "8.0", "-", "15.0", "1.50", "16.0", "2.00", "0.50"
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
            assert!(line.len() <= WIDTH, "{} columns: {line}", line.len());
        }
        for name in names {
            assert!(text.contains(&format!(" {name} ")), "{name} in\n{text}");
        }
    }
}
