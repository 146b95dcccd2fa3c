//! A results folder, read: one [`Group`] per setting that can be drawn in one chart.

use super::ReportError;
use super::read::{find_experiments, read_toml, rows, schema_of};
use crate::record::{Attribution, Keys, Sample, Status, Summary, Verdict};
use crate::stats::summary::compared_metric;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
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
    cpu: String,
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

/// A metric that could not be had, with the reason.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub struct Absence {
    pub machine: String,
    pub backend: String,
    pub metric: String,
    pub status: String,
    pub reason: String,
}

/// A results folder.
#[derive(Debug, Default)]
pub struct Records {
    /// Where it is.
    pub dir: PathBuf,
    /// In the order of `summary.csv`.
    pub groups: Vec<Group>,
    /// Variants: baselines first, then by first appearance. Index = colour and mark.
    pub variants: Vec<String>,
    /// Baselines that `verdicts.csv` names.
    pub baselines: BTreeSet<String>,
    /// What was not measured or was disturbed, with the number of raw values.
    pub absences: BTreeMap<Absence, u64>,
    /// Distinct arena seeds per backend.
    pub seeds: BTreeMap<String, BTreeSet<u64>>,
    /// Raw values per backend.
    pub samples: BTreeMap<String, u64>,
    /// Rows of `summary.csv` left out because the same point exists for another CPU.
    pub other_cpus: u64,
    /// `run.toml`.
    pub run: toml::Table,
    /// Experiments found in `run.toml`.
    pub experiments: Vec<toml::Table>,
    /// `machines/*.toml` by file name.
    pub machines: Vec<(String, toml::Table)>,
}

impl Records {
    /// Reads `dir`. `attribution.csv` may be absent (only the model writes it), and `machines/`.
    pub fn read(dir: &Path) -> Result<Records, ReportError> {
        if !dir.is_dir() {
            return Err(ReportError::NoFolder(dir.to_path_buf()));
        }
        let mut records = Records {
            dir: dir.to_path_buf(),
            ..Records::default()
        };
        let run_path = dir.join("run.toml");
        if !run_path.is_file() {
            return Err(ReportError::NoFile(run_path));
        }
        records.run = read_toml(&run_path)?;
        schema_of(&run_path, records.run.get("schema"))?;
        find_experiments(&records.run, &mut records.experiments);
        let mut index = Index::default();
        rows(&dir.join("summary.csv"), |row: Summary| {
            records.add_summary(&mut index, row);
        })?;
        rows(&dir.join("samples.csv"), |row: Sample| {
            records.add_sample(row)
        })?;
        rows(&dir.join("verdicts.csv"), |row: Verdict| {
            records.add_verdict(&mut index, row);
        })?;
        let attribution = dir.join("attribution.csv");
        if attribution.exists() {
            let mut names = Names::default();
            rows(&attribution, |row: Attribution| {
                records.add_miss(&mut index, &mut names, &row);
            })?;
        }
        records.read_machines()?;
        for group in &mut records.groups {
            for curve in &mut group.curves {
                curve
                    .points
                    .sort_by(|a, b| a.x.partial_cmp(&b.x).unwrap_or(std::cmp::Ordering::Equal));
            }
        }
        if records.baselines.is_empty() && records.variants.iter().any(|v| v == "parent") {
            records.baselines.insert("parent".to_string());
        }
        let baselines = &records.baselines;
        records.variants.sort_by_key(|v| !baselines.contains(v));
        Ok(records)
    }

    /// Index of `variant`: its colour and its mark.
    #[must_use]
    pub fn variant_index(&self, variant: &str) -> usize {
        self.variants.iter().position(|v| v == variant).unwrap_or(0)
    }

    /// Whether `variant` is what others are compared with.
    #[must_use]
    pub fn is_baseline(&self, variant: &str) -> bool {
        self.baselines.contains(variant)
    }

    /// The setting in words: the machine, and of the rest only what differs within this folder.
    #[must_use]
    pub fn label(&self, setting: &Setting) -> String {
        let mut parts = vec![setting.machine.clone()];
        parts.extend(self.label_without_machine(setting));
        parts.join(", ")
    }

    /// The parts of [`Records::label`] after the machine. The start is always among them.
    #[must_use]
    pub fn label_without_machine(&self, setting: &Setting) -> Vec<String> {
        type Get = fn(&Setting) -> &String;
        let gets: [(Get, bool); 7] = [
            (|s| &s.experiment, false),
            (|s| &s.kernel, false),
            (|s| &s.layout, false),
            (|s| &s.placement, false),
            (|s| &s.pages, false),
            (|s| &s.rest, true),
            (|s| &s.start, true),
        ];
        let mut parts: Vec<String> = Vec::new();
        for (get, always) in gets {
            let values: BTreeSet<&String> = self.groups.iter().map(|g| get(&g.setting)).collect();
            let value = get(setting);
            if (always || values.len() > 1) && !value.is_empty() && !parts.contains(value) {
                parts.push(value.clone());
            }
        }
        parts
    }

    /// Machines in the order of their first row.
    #[must_use]
    pub fn machine_names(&self) -> Vec<String> {
        let mut out: Vec<String> = Vec::new();
        for group in &self.groups {
            if !out.contains(&group.setting.machine) {
                out.push(group.setting.machine.clone());
            }
        }
        out
    }

    /// The experiments' names, for commands.
    #[must_use]
    pub fn experiment_names(&self) -> String {
        let mut out: Vec<&str> = Vec::new();
        for group in &self.groups {
            if !out.contains(&group.setting.experiment.as_str()) {
                out.push(&group.setting.experiment);
            }
        }
        if out.is_empty() {
            "psi-depth".to_string()
        } else {
            out.join(" ")
        }
    }

    fn group(&mut self, index: &mut Index, keys: &Keys) -> (usize, String) {
        let (axis, x, rest) = split_point(keys);
        let setting = Setting {
            experiment: keys.experiment.clone(),
            kernel: keys.kernel.clone(),
            machine: keys.machine.clone(),
            layout: keys.layout.clone(),
            placement: keys.placement.clone(),
            pages: keys.pages.clone(),
            start: keys.start.clone(),
            rest,
        };
        let at = *index.groups.entry(setting.clone()).or_insert_with(|| {
            self.groups.push(Group {
                setting,
                axis,
                ..Group::default()
            });
            self.groups.len() - 1
        });
        (at, x)
    }

    fn see_variant(&mut self, variant: &str) {
        if !self.variants.iter().any(|v| v == variant) {
            self.variants.push(variant.to_string());
        }
    }

    fn add_summary(&mut self, index: &mut Index, row: Summary) {
        let (group, label) = self.group(index, &row.keys());
        self.see_variant(&row.variant);
        let key = (
            group,
            row.backend.clone(),
            row.variant.clone(),
            row.metric.clone(),
        );
        let curves = &mut self.groups[group].curves;
        let curve = *index.curves.entry(key).or_insert_with(|| {
            curves.push(Curve {
                backend: row.backend,
                variant: row.variant,
                metric: row.metric,
                unit: row.unit,
                points: Vec::new(),
            });
            curves.len() - 1
        });
        let x = label.parse::<f64>().ok().filter(|v| v.is_finite());
        let measured = !matches!(row.status, Status::Unavailable);
        let keep = |v: Option<f64>| v.filter(|v| v.is_finite() && measured);
        let point = Point {
            x,
            median: keep(row.median),
            low: keep(row.ci_low),
            high: keep(row.ci_high),
            n: row.n,
            status: row.status,
            cpu: row.cpu,
            label,
        };
        let points = &mut curves[curve].points;
        match points.iter_mut().find(|p| p.label == point.label) {
            None => points.push(point),
            Some(old) => {
                self.other_cpus += 1;
                if point.cpu == "all" && old.cpu != "all" {
                    *old = point;
                }
            }
        }
    }

    fn add_sample(&mut self, row: Sample) {
        self.seeds
            .entry(row.backend.clone())
            .or_default()
            .insert(row.seed);
        *self.samples.entry(row.backend.clone()).or_default() += 1;
        let status = match row.status {
            Status::Unavailable => "unavailable",
            Status::Spoiled => "spoiled",
            Status::Partial => "partial",
            Status::Exact | Status::Estimated => return,
        };
        let absence = Absence {
            machine: row.machine,
            backend: row.backend,
            metric: row.metric,
            status: status.to_string(),
            reason: row.detail,
        };
        *self.absences.entry(absence).or_default() += 1;
    }

    fn add_verdict(&mut self, index: &mut Index, row: Verdict) {
        let keys = Keys {
            experiment: row.experiment.clone(),
            machine: row.machine.clone(),
            backend: row.backend.clone(),
            kernel: row.kernel.clone(),
            variant: row.variant.clone(),
            layout: row.layout.clone(),
            placement: row.placement.clone(),
            pages: row.pages.clone(),
            start: row.start.clone(),
            point: row.point.clone(),
            axis: row.axis.clone(),
            x: String::new(),
            cpu: row.cpu.clone(),
        };
        let (group, label) = self.group(index, &keys);
        self.see_variant(&row.variant);
        if !row.baseline.is_empty() {
            self.baselines.insert(row.baseline.clone());
        }
        let x = label.parse::<f64>().ok().filter(|v| v.is_finite());
        self.groups[group].verdicts.push(Judged { x, verdict: row });
    }

    fn add_miss(&mut self, index: &mut Index, names: &mut Names, row: &Attribution) {
        let (group, label) = self.group(index, &row.keys());
        let Some(x) = label.parse::<f64>().ok().filter(|v| v.is_finite()) else {
            return;
        };
        self.groups[group].misses.push(Miss {
            backend: names.get(&row.backend),
            variant: names.get(&row.variant),
            x,
            structure: names.get(&row.r#struct),
            field: names.get(&row.field),
            line: row.line,
            set: row.set,
            level: names.get(&row.level),
            cause: names.get(&row.cause),
            per_op: row.misses_per_op,
            per_visit: row.misses_per_visit,
            cycles_per_op: row.cycles_per_op,
        });
    }

    fn read_machines(&mut self) -> Result<(), ReportError> {
        let Ok(entries) = std::fs::read_dir(self.dir.join("machines")) else {
            return Ok(());
        };
        let mut paths: Vec<PathBuf> = entries.filter_map(|e| Some(e.ok()?.path())).collect();
        paths.retain(|p| p.extension().is_some_and(|e| e == "toml"));
        paths.sort();
        for path in paths {
            let name = path.file_stem().unwrap_or_default();
            let name = name.to_string_lossy().into_owned();
            self.machines.push((name, read_toml(&path)?));
        }
        Ok(())
    }
}

#[derive(Default)]
struct Index {
    groups: HashMap<Setting, usize>,
    curves: HashMap<(usize, String, String, String), usize>,
}

/// Names that occur in many rows, kept once.
#[derive(Default)]
struct Names(HashMap<String, Rc<str>>);

impl Names {
    fn get(&mut self, name: &str) -> Rc<str> {
        if let Some(known) = self.0.get(name) {
            return known.clone();
        }
        let shared: Rc<str> = name.into();
        self.0.insert(name.to_string(), shared.clone());
        shared
    }
}

/// Axis to draw, its value, and the other axes of a row. Of several axes `depth` is drawn.
fn split_point(keys: &Keys) -> (String, String, String) {
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
