//! A results folder, read: one [`Group`] per setting that can be drawn in one chart.

use super::ReportError;
use super::group::split_point;
pub use super::group::{Curve, Group, Judged, Miss, Point, Setting};
use super::read::{find_experiments, read_toml, rows, schema_of};
use crate::record::{Attribution, Keys, Sample, Sharing, Status, Summary, Verdict};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::rc::Rc;

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
    /// Rows of `sharing.csv`, if it is there.
    pub sharings: Vec<Sharing>,
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
        let sharing = dir.join("sharing.csv");
        if sharing.exists() {
            rows(&sharing, |row: Sharing| records.sharings.push(row))?;
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

    /// Sets and ways of a cache of `machine`, as its file gives them; `level` is `l1d`, `l2` and so
    /// on. None if it does not.
    #[must_use]
    pub fn cache(&self, machine: &str, level: &str) -> Option<(u32, u32)> {
        let number: i64 = level
            .trim_matches(|c: char| !c.is_ascii_digit())
            .parse()
            .ok()?;
        self.machines.iter().find_map(|(_, table)| {
            if table.get("name")?.as_str()? != machine {
                return None;
            }
            let caches = table.get("caches")?.as_array()?;
            let cache = caches
                .iter()
                .find(|c| c.get("level").and_then(toml::Value::as_integer) == Some(number))?;
            let read = |key: &str| u32::try_from(cache.get(key)?.as_integer()?).ok();
            Some((read("sets")?, read("ways")?))
        })
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
