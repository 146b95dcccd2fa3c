//! From what a case yields to rows.

use super::Case;
use crate::experiment::Experiment;
use crate::record::{Keys, Sample, Status};

/// One value of one metric.
#[derive(Clone, Debug)]
pub struct Value {
    /// Name, as in DESIGN: `time_ns_per_visit`.
    pub metric: &'static str,
    /// Unit.
    pub unit: &'static str,
    /// `None`: not measured.
    pub value: Option<f64>,
    /// How it was obtained.
    pub status: Status,
    /// Reason, event, assumption.
    pub detail: String,
}

impl Value {
    /// A value and its status, with nothing to add.
    pub fn new(metric: &'static str, unit: &'static str, value: f64, status: Status) -> Value {
        // A ratio without a denominator is not a measurement.
        let value = value.is_finite().then_some(value);
        Value {
            metric,
            unit,
            value,
            status,
            detail: String::new(),
        }
    }

    /// What could not be measured, and why.
    pub fn unavailable(metric: &'static str, unit: &'static str, why: &str) -> Value {
        Value {
            metric,
            unit,
            value: None,
            status: Status::Unavailable,
            detail: why.into(),
        }
    }

    /// The same with `detail`.
    #[must_use]
    pub fn with_detail(self, detail: impl Into<String>) -> Value {
        Value {
            detail: detail.into(),
            ..self
        }
    }
}

/// The row of `value`.
pub fn sample(keys: &Keys, case: &Case, repeat: u32, value: Value) -> Sample {
    Sample::new(
        keys,
        case.seed,
        repeat,
        value.metric.to_string(),
        value.unit.to_string(),
        value.value,
        value.status,
        value.detail,
    )
}

/// The keys of a case on `machine`, at `cpu`.
pub fn keys(experiment: &Experiment, case: &Case, machine: &str, cpu: &str) -> Keys {
    experiment.keys(&case.point, machine, cpu)
}

/// Seeds of the arenas of a point.
pub fn seeds(experiment: &Experiment) -> impl Iterator<Item = u64> + use<> {
    let first = experiment.seed;
    (0..u64::from(experiment.seeds)).map(move |i| first.wrapping_add(i))
}
