//! TOML to [`Experiment`]. Strict: a key or value that means nothing is refused.

use std::collections::BTreeMap;
use std::path::Path;

use toml::{Table, Value};

use super::expect::{Against, Expectation, Measure, Published};
use super::{
    Backend, Experiment, ExperimentError, Kernel, Lines, Pages, Placement, Setting, Start, Variant,
    hint, list,
};

/// Keys of a file that are not choices.
const FILE_KEYS: &[&str] = &[
    "question",
    "kernel",
    "axis",
    "axes",
    "quick",
    "expect",
    "published",
];

/// Choices that a file must make: no default of theirs would be right for every question.
const REQUIRED: &[&str] = &["variants"];

impl Experiment {
    /// The experiment that `text` describes. `file` is for messages, and relative names of streams
    /// are looked up beside it.
    ///
    /// # Errors
    /// If `text` is no TOML, or a key or value is missing, unknown or not accepted.
    pub fn parse(name: &str, file: &Path, text: &str) -> Result<Experiment, ExperimentError> {
        let place = file.display().to_string();
        let table: Table = toml::from_str(text).map_err(|error| ExperimentError::Toml {
            file: file.into(),
            line: line_of(text, error.span().map_or(0, |span| span.start)),
            message: error.message().replace('\n', " "),
        })?;
        let kernel = kernel(&place, &table)?;
        let mut experiment = Experiment {
            name: name.into(),
            file: file.into(),
            text: text.into(),
            question: string(&place, &table, "question", "one sentence")?,
            kernel,
            axis: String::new(),
            axes: BTreeMap::new(),
            variants: Vec::new(),
            baseline: Variant::Parent,
            layouts: vec!["btf".into()],
            placements: vec![Placement::Slab],
            pages: vec![Pages::Thp],
            starts: vec![Start::Warm],
            lines: vec![Lines::Walk],
            machines: vec!["host".into()],
            backends: vec![Backend::Native, Backend::Model],
            repeats: 11,
            interval_percent: 0,
            limit_s: 0,
            seed: 1,
            seeds: 1,
            quick: Vec::new(),
            expectations: Vec::new(),
            published: Vec::new(),
        };
        experiment.axes(&place, &table)?;
        experiment.choices(&place, &table)?;
        experiment.quick = settings(&place, &table, "quick")?;
        let mut quick = experiment.clone();
        for (key, values) in &experiment.quick {
            quick.set(&format!("{place}: [quick]"), key, values)?;
        }
        for (i, table) in tables(&place, &table, "expect")?.iter().enumerate() {
            let place = format!("{place}: [[expect]] {}", i + 1);
            let expectation = expectation(&place, table)?;
            experiment.narrowed(&place, &expectation)?;
            experiment.expectations.push(expectation);
        }
        for (i, table) in tables(&place, &table, "published")?.iter().enumerate() {
            let place = format!("{place}: [[published]] {}", i + 1);
            let published = published(&place, table)?;
            let mut with = experiment.clone();
            for (key, values) in &published.settings {
                with.set(&place, key, values)?;
            }
            experiment.published.push(published);
        }
        Ok(experiment)
    }

    fn axes(&mut self, place: &str, table: &Table) -> Result<(), ExperimentError> {
        let inside = format!("{place}: [axes]");
        let accepted = list(self.kernel.axes().iter().map(|a| a.0));
        let axes = settings(place, table, "axes")?;
        for (name, values) in &axes {
            if !self.kernel.axes().iter().any(|a| a.0 == name) {
                return Err(ExperimentError::UnknownKey {
                    place: inside,
                    key: name.clone(),
                    hint: hint(name, self.kernel.axes().iter().map(|a| a.0)),
                    known: accepted,
                });
            }
            self.set(&inside, name, values)?;
        }
        self.axis = match (table.get("axis"), axes.as_slice()) {
            (None, [(only, _)]) => only.clone(),
            (None, []) => {
                return Err(ExperimentError::Missing {
                    place: place.into(),
                    key: "axes".into(),
                    accepted: format!(
                        "a table with a list of values for one or more of {accepted}"
                    ),
                });
            }
            _ => string(place, table, "axis", "the name of one of the axes")?,
        };
        if !self.axes.contains_key(&self.axis) {
            let accepted = list(self.axes.keys());
            return Err(ExperimentError::value(place, "axis", &self.axis, accepted));
        }
        Ok(())
    }

    fn choices(&mut self, place: &str, table: &Table) -> Result<(), ExperimentError> {
        for key in REQUIRED {
            let singular = key.trim_end_matches('s');
            if !table.contains_key(*key) && !table.contains_key(singular) {
                return Err(ExperimentError::Missing {
                    place: place.into(),
                    key: (*key).into(),
                    accepted: format!("a list of {}", list(Variant::ALL)),
                });
            }
        }
        for (key, value) in table {
            if FILE_KEYS.contains(&key.as_str()) || key == "baseline" {
                continue;
            }
            if self.kernel.axes().iter().any(|a| a.0 == key) {
                let accepted = "axes in the table [axes]";
                return Err(ExperimentError::value(place, key, value, accepted));
            }
            let set = self.set(place, key, &strings(place, key, value)?);
            set.map_err(|error| name_file_keys(error, key))?;
        }
        if let Some(value) = table.get("baseline") {
            self.set(place, "baseline", &strings(place, "baseline", value)?)?;
            if !self.variants.contains(&self.baseline) {
                let accepted = list(&self.variants);
                return Err(ExperimentError::value(
                    place,
                    "baseline",
                    self.baseline,
                    accepted,
                ));
            }
        }
        Ok(())
    }
}

/// In a file more keys are accepted than the choices that `set` lists.
fn name_file_keys(mut error: ExperimentError, key: &str) -> ExperimentError {
    if let ExperimentError::UnknownKey { known, hint: h, .. } = &mut error {
        *known = format!("{}, {known}", list(FILE_KEYS));
        let all = known.clone();
        *h = hint(key, all.split(", "));
    }
    error
}

fn kernel(place: &str, table: &Table) -> Result<Kernel, ExperimentError> {
    let accepted = list(Kernel::ALL);
    let name = string(place, table, "kernel", &accepted)?;
    Kernel::parse(&name).ok_or_else(|| ExperimentError::Value {
        place: place.into(),
        key: "kernel".into(),
        hint: hint(&name, Kernel::ALL.iter().map(|k| k.name())),
        value: name,
        accepted,
    })
}

fn line_of(text: &str, offset: usize) -> usize {
    1 + text.bytes().take(offset).filter(|&b| b == b'\n').count()
}

/// The string at `key`, which must be there and not empty.
fn string(
    place: &str,
    table: &Table,
    key: &str,
    accepted: &str,
) -> Result<String, ExperimentError> {
    match table.get(key) {
        Some(Value::String(text)) if !text.trim().is_empty() => Ok(text.trim().into()),
        Some(other) => Err(ExperimentError::value(place, key, other, accepted)),
        None => Err(ExperimentError::Missing {
            place: place.into(),
            key: key.into(),
            accepted: accepted.into(),
        }),
    }
}

/// A string, a whole number or a list of them, as strings.
fn strings(place: &str, key: &str, value: &Value) -> Result<Vec<String>, ExperimentError> {
    let scalar = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Integer(number) => Some(number.to_string()),
        _ => None,
    };
    let all = match value {
        Value::Array(values) => values.iter().map(scalar).collect(),
        one => scalar(one).map(|text| vec![text]),
    };
    all.ok_or_else(|| {
        let accepted = "a string, a whole number, or a list of them";
        ExperimentError::value(place, key, value, accepted)
    })
}

fn settings(place: &str, table: &Table, key: &str) -> Result<Vec<Setting>, ExperimentError> {
    match table.get(key) {
        None => Ok(Vec::new()),
        Some(Value::Table(inner)) => inner
            .iter()
            .map(|(k, v)| Ok((k.clone(), strings(&format!("{place}: {key}"), k, v)?)))
            .collect(),
        Some(other) => Err(ExperimentError::value(place, key, other, "a table")),
    }
}

fn tables<'a>(place: &str, table: &'a Table, key: &str) -> Result<Vec<&'a Table>, ExperimentError> {
    let wrong = |value: &Value| {
        ExperimentError::value(
            place,
            key,
            value,
            format!("tables, each written as [[{key}]]"),
        )
    };
    match table.get(key) {
        None => Ok(Vec::new()),
        Some(Value::Array(items)) => items
            .iter()
            .map(|item| item.as_table().ok_or_else(|| wrong(item)))
            .collect(),
        Some(other) => Err(wrong(other)),
    }
}

/// A number, whole or not, at `key`.
fn number(place: &str, table: &Table, key: &str) -> Result<Option<f64>, ExperimentError> {
    match table.get(key) {
        None => Ok(None),
        Some(Value::Integer(n)) => Ok(Some(*n as f64)),
        Some(Value::Float(n)) if n.is_finite() => Ok(Some(*n)),
        Some(other) => Err(ExperimentError::value(place, key, other, "a number")),
    }
}

fn only_keys(place: &str, table: &Table, known: &[&str]) -> Result<(), ExperimentError> {
    match table.keys().find(|key| !known.contains(&key.as_str())) {
        None => Ok(()),
        Some(key) => Err(ExperimentError::UnknownKey {
            place: place.into(),
            key: key.clone(),
            known: list(known),
            hint: hint(key, known.iter().copied()),
        }),
    }
}

/// Choices of a `where` table. Those in `needed` must be among them, so that the statement stays
/// true when the defaults of the experiment change.
fn conditions(
    place: &str,
    table: &Table,
    needed: &[&str],
) -> Result<Vec<Setting>, ExperimentError> {
    let settings = settings(place, table, "where")?;
    for key in needed {
        if !settings.iter().any(|(k, _)| k == key) {
            return Err(ExperimentError::Missing {
                place: format!("{place}: where"),
                key: (*key).into(),
                accepted: "a name or a list of names".into(),
            });
        }
    }
    Ok(settings)
}

fn variant(place: &str, table: &Table, key: &str) -> Result<Option<Variant>, ExperimentError> {
    let Some(value) = table.get(key) else {
        return Ok(None);
    };
    let name = value.as_str().unwrap_or_default();
    Variant::parse(name)
        .map(Some)
        .ok_or_else(|| ExperimentError::value(place, key, value, list(Variant::ALL)))
}

fn expectation(place: &str, table: &Table) -> Result<Expectation, ExperimentError> {
    const KNOWN: &[&str] = &[
        "where",
        "what",
        "metric",
        "minus",
        "over",
        "value",
        "tolerance",
        "min",
        "max",
        "reason",
    ];
    only_keys(place, table, KNOWN)?;
    let measure = match table.get("what").map(|v| v.as_str().unwrap_or_default()) {
        None | Some("value") => Measure::Value,
        Some("knee") => Measure::Knee,
        Some(other) => {
            return Err(ExperimentError::value(place, "what", other, "value, knee"));
        }
    };
    let against = match (
        variant(place, table, "minus")?,
        variant(place, table, "over")?,
    ) {
        (None, None) => None,
        (Some(variant), None) => Some(Against::Minus(variant)),
        (None, Some(variant)) => Some(Against::Over(variant)),
        (Some(_), Some(other)) => {
            let accepted = "either minus or over";
            return Err(ExperimentError::value(place, "over", other, accepted));
        }
    };
    let value = number(place, table, "value")?;
    let tolerance = number(place, table, "tolerance")?;
    let (min, max) = (number(place, table, "min")?, number(place, table, "max")?);
    let (min, max) = match (value, min.or(max)) {
        (Some(value), None) => {
            let tolerance = tolerance.unwrap_or(0.0).abs();
            (Some(value - tolerance), Some(value + tolerance))
        }
        (None, Some(_)) if tolerance.is_none() => (min, max),
        _ => {
            return Err(ExperimentError::Missing {
                place: place.into(),
                key: "value".into(),
                accepted: "value with or without tolerance, or else min, max or both".into(),
            });
        }
    };
    Ok(Expectation {
        settings: conditions(place, table, &["variant", "layout", "machine"])?,
        measure,
        metric: string(place, table, "metric", "the name of a metric")?,
        against,
        min,
        max,
        reason: string(place, table, "reason", "why theory says so")?,
    })
}

fn published(place: &str, table: &Table) -> Result<Published, ExperimentError> {
    const KNOWN: &[&str] = &[
        "source", "machine", "metric", "unit", "where", "psi_off", "variants", "before", "after",
        "value", "note",
    ];
    only_keys(place, table, KNOWN)?;
    let text = |key, accepted| string(place, table, key, accepted);
    let variants = match table.get("variants") {
        None => Vec::new(),
        Some(value) => strings(place, "variants", value)?
            .iter()
            .map(|name| {
                Variant::parse(name).ok_or_else(|| {
                    ExperimentError::value(place, "variants", name, list(Variant::ALL))
                })
            })
            .collect::<Result<_, _>>()?,
    };
    let psi_off = match table.get("psi_off") {
        None => false,
        Some(Value::Boolean(off)) => *off,
        Some(other) => {
            return Err(ExperimentError::value(
                place,
                "psi_off",
                other,
                "true, false",
            ));
        }
    };
    let published = Published {
        source: text("source", "who published it, and where")?,
        machine: text("machine", "a catalogue name, or what the source says")?,
        metric: text("metric", "the name of a metric")?,
        unit: text("unit", "the unit of the numbers")?,
        settings: conditions(place, table, &["layout"])?,
        psi_off,
        variants,
        before: number(place, table, "before")?,
        after: number(place, table, "after")?,
        value: number(place, table, "value")?,
        note: match table.get("note") {
            None => String::new(),
            Some(_) => text("note", "a sentence")?,
        },
    };
    let numbers = (published.value, published.before, published.after);
    if !matches!(numbers, (Some(_), None, None) | (None, Some(_), Some(_))) {
        return Err(ExperimentError::Missing {
            place: place.into(),
            key: "value".into(),
            accepted: "either value, or both before and after".into(),
        });
    }
    Ok(published)
}
