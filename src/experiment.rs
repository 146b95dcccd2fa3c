//! Experiments as data: a question, a kernel, axes with their values, variants to compare, and what
//! theory and others' measurements say about the answer.
//!
//! Every value that can be chosen goes through [`Experiment::set`], whether it comes from the file,
//! its `[quick]` table, the `where` of an expectation or the command line; so each is checked by the
//! same rules and refused in the same words.

mod builtin;
mod error;
mod expect;
mod file;
mod names;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

pub use builtin::{BUILT_IN, BuiltIn};
pub use error::ExperimentError;
pub use expect::{Against, Expectation, Judgement, Measure, Published};
pub use names::{
    Backend, Kernel, Lines, MAX_DEPTH, MAX_POLLUTION_KIB, Pages, Placement, Start, Variant,
};
pub(crate) use names::{hint, list};

use crate::record::Keys;

/// Most repeats of one point, and most arenas: beyond these a run ends on no day.
const MAX_REPEATS: u64 = 10_000;
/// Longest limit: a week.
const MAX_LIMIT_S: u64 = 7 * 24 * 3600;

/// Keys that [`Experiment::set`] takes besides the axes of the kernel.
const KEYS: &[&str] = &[
    "variant",
    "baseline",
    "layout",
    "placement",
    "pages",
    "start",
    "lines",
    "machine",
    "backend",
    "repeats",
    "interval_percent",
    "limit_s",
    "seed",
    "seeds",
];

/// A choice that was not applied yet: key, and its values.
pub type Setting = (String, Vec<String>);

/// A question and how it is asked.
#[derive(Clone, Debug, PartialEq)]
pub struct Experiment {
    /// Built-in name, or the file's name without its extension.
    pub name: String,
    /// Where it was read: a path, or `NAME (built in)`.
    pub file: PathBuf,
    /// The file's text, kept beside the results.
    pub text: String,
    /// What the experiment answers, one sentence.
    pub question: String,
    /// What runs.
    pub kernel: Kernel,
    /// The axis that plots show.
    pub axis: String,
    /// All axes; with several, every combination is a point.
    pub axes: BTreeMap<String, Vec<u64>>,
    /// What is compared.
    pub variants: Vec<Variant>,
    /// What the others are compared with; one of `variants`, if it is run at all.
    pub baseline: Variant,
    /// Layouts by name, or `btf`.
    pub layouts: Vec<String>,
    /// Where objects lie.
    pub placements: Vec<Placement>,
    /// Pages behind them.
    pub pages: Vec<Pages>,
    /// What the caches hold at first.
    pub starts: Vec<Start>,
    /// Which accesses reach the model.
    pub lines: Vec<Lines>,
    /// What the model models: catalogue names, or `host`.
    pub machines: Vec<String>,
    /// What runs the kernel.
    pub backends: Vec<Backend>,
    /// Measurements of each point and arena, at most.
    pub repeats: u32,
    /// Measuring a point ends once half of each interval is within so many percent of its median; 0:
    /// not before `repeats`.
    pub interval_percent: u32,
    /// Seconds that measuring may take in all, as far as five repeats of each point allow; 0: no limit.
    pub limit_s: u32,
    /// Of the first arena; the others follow it.
    pub seed: u64,
    /// Arenas, each with a placement of its own.
    pub seeds: u32,
    /// What `--quick` changes.
    pub quick: Vec<Setting>,
    /// What theory says.
    pub expectations: Vec<Expectation>,
    /// What others measured.
    pub published: Vec<Published>,
}

/// One thing to run: a value for each choice. Seeds and repeats are within it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Point {
    /// Name of the plotted axis.
    pub axis: String,
    /// Value of each axis.
    pub axes: BTreeMap<String, u64>,
    /// How the walk goes on from group to group.
    pub variant: Variant,
    /// Layout by name, or `btf`.
    pub layout: String,
    /// Where objects lie.
    pub placement: Placement,
    /// Pages behind them.
    pub pages: Pages,
    /// What the caches hold at first.
    pub start: Start,
    /// Which accesses reach the model.
    pub lines: Lines,
    /// Catalogue name, or `host`.
    pub machine: String,
    /// What runs it.
    pub backend: Backend,
}

impl Point {
    /// Levels of cgroups below the root.
    #[must_use]
    pub fn depth(&self) -> u64 {
        self.axes.get("depth").copied().unwrap_or(0)
    }

    /// CPUs that the kernel's two sides run on.
    #[must_use]
    pub fn cpus(&self) -> u64 {
        self.axes.get("cpus").copied().unwrap_or(1)
    }

    /// Value of the plotted axis.
    ///
    /// # Panics
    /// If the plotted axis is none of the axes, which [`Experiment::points`] excludes.
    #[must_use]
    pub fn x(&self) -> u64 {
        self.axes[&self.axis]
    }

    /// Column `point`: all axes as `key=value`, sorted, joined by `;`. `lines` joins them where it
    /// is not `walk`, since no other column tells.
    #[must_use]
    pub fn column(&self) -> String {
        let mut all: BTreeMap<&str, String> = BTreeMap::new();
        for (key, value) in &self.axes {
            all.insert(key, value.to_string());
        }
        if self.lines != Lines::Walk {
            all.insert("lines", self.lines.to_string());
        }
        let pairs: Vec<String> = all.iter().map(|(k, v)| format!("{k}={v}")).collect();
        pairs.join(";")
    }
}

impl Experiment {
    /// Apply one choice. `place` says where it was made: a file and table, or an option.
    ///
    /// # Errors
    /// If the key is unknown or a value is not accepted; then nothing was changed.
    pub fn set(
        &mut self,
        place: &str,
        key: &str,
        values: &[String],
    ) -> Result<(), ExperimentError> {
        let at = Place { place, key };
        match key {
            "variant" | "variants" => {
                self.variants = at.names(values, Variant::ALL, Variant::parse)?;
                if !self.variants.contains(&self.baseline) {
                    self.baseline = self.variants[0];
                }
            }
            "baseline" => {
                self.baseline = at.one(at.names(values, Variant::ALL, Variant::parse)?)?
            }
            "layout" | "layouts" => self.layouts = at.words(values)?,
            "placement" | "placements" => self.placements = self.placements_of(&at, values)?,
            "pages" => self.pages = at.names(values, Pages::ALL, Pages::parse)?,
            "start" | "starts" => {
                let accepted = format!(
                    "warm, flushed, polluted:KiB with KiB from 1 to {MAX_POLLUTION_KIB}, stream:FILE"
                );
                let mut starts = at.each(values, &accepted, Start::parse)?;
                for start in &mut starts {
                    if let Start::Stream(path) = start {
                        self.find_stream(
                            &at,
                            path,
                            "a recording of a whole round trip that exists",
                        )?;
                    }
                }
                self.starts = starts;
            }
            "lines" => self.lines = at.names(values, Lines::ALL, Lines::parse)?,
            "machine" | "machines" => self.machines = at.words(values)?,
            "backend" | "backends" => {
                self.backends = at.names(values, Backend::ALL, Backend::parse)?;
            }
            "repeats" => self.repeats = at.count(values, MAX_REPEATS)?,
            "interval_percent" => {
                self.interval_percent = at.one(at.numbers(values, 0, 100)?)? as u32
            }
            "limit_s" => self.limit_s = at.one(at.numbers(values, 0, MAX_LIMIT_S)?)? as u32,
            "seeds" => self.seeds = at.count(values, MAX_REPEATS)?,
            "seed" => {
                // TOML numbers are signed, so a larger seed could not be written in a file.
                self.seed = at.one(at.numbers(values, 0, i64::MAX as u64)?)?;
            }
            _ => {
                let axis = self.kernel.axes().iter().find(|(name, ..)| *name == key);
                let Some(&(name, low, high)) = axis else {
                    let known = KEYS
                        .iter()
                        .copied()
                        .chain(self.kernel.axes().iter().map(|a| a.0));
                    return Err(ExperimentError::UnknownKey {
                        place: place.into(),
                        key: key.into(),
                        known: list(known.clone()),
                        hint: hint(key, known),
                    });
                };
                let values = at.numbers(values, low, high)?;
                self.axes.insert(name.into(), values);
            }
        }
        Ok(())
    }

    /// Apply what `--quick` changes.
    ///
    /// # Panics
    /// Never: the table was checked when the file was read.
    pub fn apply_quick(&mut self) {
        for (key, values) in self.quick.clone() {
            self.set("[quick]", &key, &values)
                .expect("the quick table was applied once when the file was read");
        }
    }

    fn placements_of(
        &self,
        at: &Place<'_>,
        values: &[String],
    ) -> Result<Vec<Placement>, ExperimentError> {
        let accepted = "slab, packed, coloured, stream:FILE";
        let mut placements = at.each(values, accepted, |text| match text {
            "slab" => Some(Placement::Slab),
            "packed" => Some(Placement::Packed),
            "coloured" => Some(Placement::Coloured),
            _ => {
                let path = text.strip_prefix("stream:")?;
                (!path.is_empty()).then(|| Placement::Stream(path.into()))
            }
        })?;
        for placement in &mut placements {
            if let Placement::Stream(path) = placement {
                self.find_stream(at, path, "a file of recorded addresses that exists")?;
            }
        }
        Ok(placements)
    }

    /// Replace `path` by where the file is: as given, or beside the experiment's file, or in the
    /// `streams` folder there, as a results folder has it.
    fn find_stream(
        &self,
        at: &Place<'_>,
        path: &mut PathBuf,
        accepted: &str,
    ) -> Result<(), ExperimentError> {
        let folder = self.file.parent();
        let beside = folder.map(|folder| folder.join(&*path));
        let kept = folder.zip(path.file_name());
        let kept = kept.map(|(folder, name)| folder.join("streams").join(name));
        let found = [Some(path.clone()), beside, kept].into_iter().flatten();
        *path = found
            .into_iter()
            .find(|p| p.is_file())
            .ok_or_else(|| at.refuse(format!("stream:{}", path.display()), accepted))?;
        Ok(())
    }

    /// Files of recordings that the experiment names, each once.
    #[must_use]
    pub fn streams(&self) -> Vec<&std::path::Path> {
        let placed = self
            .placements
            .iter()
            .filter_map(|placement| match placement {
                Placement::Stream(path) => Some(path.as_path()),
                _ => None,
            });
        let started = self.starts.iter().filter_map(|start| match start {
            Start::Stream(path) => Some(path.as_path()),
            _ => None,
        });
        let mut all: Vec<&std::path::Path> = placed.chain(started).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// All points, grouped by machine, backend and the other choices; within a group the plotted
    /// axis varies before the variant, so that a variant stands beside its baseline.
    ///
    /// Native points name the machine `host` whatever `machines` says: that says what the model
    /// models.
    #[must_use]
    pub fn points(&self) -> Vec<Point> {
        let mut points = Vec::new();
        let host = ["host".to_string()];
        for &backend in &self.backends {
            let machines = match backend {
                Backend::Native => &host[..],
                Backend::Model => &self.machines[..],
            };
            for machine in machines {
                for layout in &self.layouts {
                    for placement in &self.placements {
                        for &pages in &self.pages {
                            for start in &self.starts {
                                for &lines in &self.lines {
                                    for axes in self.grid() {
                                        for &variant in &self.variants {
                                            points.push(Point {
                                                axis: self.axis.clone(),
                                                axes: axes.clone(),
                                                variant,
                                                layout: layout.clone(),
                                                placement: placement.clone(),
                                                pages,
                                                start: start.clone(),
                                                lines,
                                                machine: machine.clone(),
                                                backend,
                                            });
                                        }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
        points
    }

    /// Every combination of the axes' values; the plotted axis varies fastest.
    fn grid(&self) -> Vec<BTreeMap<String, u64>> {
        let others = self.axes.iter().filter(|(name, _)| **name != self.axis);
        let plotted = self.axes.iter().filter(|(name, _)| **name == self.axis);
        let mut grid = vec![BTreeMap::new()];
        for (name, values) in others.chain(plotted) {
            grid = grid
                .iter()
                .flat_map(|row| {
                    values.iter().map(|&value| {
                        let mut row: BTreeMap<String, u64> = row.clone();
                        row.insert(name.clone(), value);
                        row
                    })
                })
                .collect();
        }
        grid
    }

    /// What every row of `point` begins with. `machine` is the catalogue name or
    /// `host:<model name>`; `cpu` is Linux's CPU, the model's core, or `all`.
    #[must_use]
    pub fn keys(&self, point: &Point, machine: &str, cpu: &str) -> Keys {
        Keys {
            experiment: self.name.clone(),
            machine: machine.into(),
            backend: point.backend.to_string(),
            kernel: self.kernel.to_string(),
            variant: point.variant.to_string(),
            layout: point.layout.clone(),
            placement: point.placement.to_string(),
            pages: point.pages.to_string(),
            start: point.start.to_string(),
            point: point.column(),
            axis: point.axis.clone(),
            x: point.x().to_string(),
            cpu: cpu.into(),
        }
    }
}

/// Where a value stands, for messages.
struct Place<'a> {
    place: &'a str,
    key: &'a str,
}

impl Place<'_> {
    fn refuse(&self, value: impl fmt::Display, accepted: impl Into<String>) -> ExperimentError {
        ExperimentError::value(self.place, self.key, value, accepted)
    }

    /// Each value through `parse`; none and the same one twice are refused.
    fn each<T: PartialEq>(
        &self,
        values: &[String],
        accepted: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<Vec<T>, ExperimentError> {
        let mut all = Vec::new();
        for text in values {
            let value = parse(text.trim()).ok_or_else(|| self.refuse(quoted(text), accepted))?;
            if all.contains(&value) {
                return Err(self.refuse(quoted(text), "each value once"));
            }
            all.push(value);
        }
        if all.is_empty() {
            return Err(self.refuse("an empty list", accepted));
        }
        Ok(all)
    }

    fn names<T: PartialEq + Copy + fmt::Display>(
        &self,
        values: &[String],
        known: &[T],
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<Vec<T>, ExperimentError> {
        self.each(values, &list(known), parse).map_err(|mut error| {
            if let ExperimentError::Value { value, hint: h, .. } = &mut error {
                let known: Vec<String> = known.iter().map(ToString::to_string).collect();
                *h = hint(value, known.iter().map(String::as_str));
            }
            error
        })
    }

    /// Names that somebody else knows: layouts, machines.
    fn words(&self, values: &[String]) -> Result<Vec<String>, ExperimentError> {
        self.each(values, "names, none of them empty", |text| {
            (!text.is_empty()).then(|| text.to_string())
        })
    }

    fn numbers(&self, values: &[String], low: u64, high: u64) -> Result<Vec<u64>, ExperimentError> {
        let accepted = format!("whole numbers from {low} to {high}");
        self.each(values, &accepted, |text| {
            text.parse().ok().filter(|n| (low..=high).contains(n))
        })
    }

    fn count(&self, values: &[String], high: u64) -> Result<u32, ExperimentError> {
        let count = self.one(self.numbers(values, 1, high)?)?;
        Ok(u32::try_from(count).expect("bounded above"))
    }

    fn one<T>(&self, mut values: Vec<T>) -> Result<T, ExperimentError> {
        match (values.pop(), values.len()) {
            (Some(value), 0) => Ok(value),
            (_, others) => Err(self.refuse(format!("a list of {}", others + 1), "one value")),
        }
    }
}

/// An empty word shows in a message only with its quotes.
fn quoted(text: &str) -> String {
    if text.trim().is_empty() {
        format!("{text:?}")
    } else {
        text.into()
    }
}
