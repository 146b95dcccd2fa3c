//! What is known beforehand: expectations from theory, which `check` verifies on the model, and
//! numbers that others published, which reports set beside the results.

use std::collections::BTreeMap;

use super::{Backend, Experiment, ExperimentError, Setting, Variant};
use crate::record::{Sample, Status, other_axes};
use crate::stats;

/// What an expectation is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// The metric, at every point and in every arena (seed) that the conditions leave.
    Value,
    /// The value of the plotted axis where the metric begins to rise ([`stats::knee()`]), once for
    /// each curve; medians over arenas. A curve that stays flat counts as rising beyond its end.
    Knee,
}

/// What the metric is compared with at the same point and in the same arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Against {
    /// The metric less that of this variant.
    Minus(Variant),
    /// The metric divided by that of this variant.
    Over(Variant),
}

impl Against {
    /// The other variant.
    #[must_use]
    pub fn variant(self) -> Variant {
        match self {
            Against::Minus(variant) | Against::Over(variant) => variant,
        }
    }
}

/// A statement that theory makes about the model of a named machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Expectation {
    /// Its `where`: what differs from the experiment's own choices.
    pub settings: Vec<Setting>,
    /// What is stated.
    pub measure: Measure,
    /// Of which metric.
    pub metric: String,
    /// Compared with what, if with anything.
    pub against: Option<Against>,
    /// Lowest value that agrees.
    pub min: Option<f64>,
    /// Highest value that agrees.
    pub max: Option<f64>,
    /// The theory.
    pub reason: String,
}

/// What came of an expectation.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// Whether all that was asked for lay within the bounds, and anything was there at all.
    pub holds: bool,
    /// What was found: the range, and the first value outside.
    pub got: String,
}

/// Somebody else's measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct Published {
    /// Who published it, and where.
    pub source: String,
    /// Catalogue name where it is in the catalogue, or what the source says.
    pub machine: String,
    /// Name of the metric.
    pub metric: String,
    /// Unit of the numbers.
    pub unit: String,
    /// Choices that come nearest to what was measured.
    pub settings: Vec<Setting>,
    /// Measured with PSI switched off: no visits at all.
    pub psi_off: bool,
    /// Variants that `before` and `after` (or `value`) were measured with; may be empty.
    pub variants: Vec<Variant>,
    /// Without the change.
    pub before: Option<f64>,
    /// With it.
    pub after: Option<f64>,
    /// Where there is one number only.
    pub value: Option<f64>,
    /// What else is known; may be empty.
    pub note: String,
}

impl Published {
    /// The single value of `key` among the conditions.
    #[must_use]
    pub fn condition(&self, key: &str) -> Option<&str> {
        let (_, values) = self.settings.iter().find(|(k, _)| k == key)?;
        match values.as_slice() {
            [only] => Some(only),
            _ => None,
        }
    }
}

impl Experiment {
    /// The part of this experiment that `expectation` is about: on the model, once per arena.
    ///
    /// # Errors
    /// If a condition is unknown or not accepted. `place` is for the message.
    pub fn narrowed(
        &self,
        place: &str,
        expectation: &Expectation,
    ) -> Result<Experiment, ExperimentError> {
        let mut narrowed = self.clone();
        narrowed.backends = vec![Backend::Model];
        narrowed.repeats = 1;
        for (key, values) in &expectation.settings {
            narrowed.set(place, key, values)?;
        }
        let refuse =
            |key, value: String, accepted| Err(ExperimentError::value(place, key, value, accepted));
        if narrowed.machines.iter().any(|m| m == "host") {
            let accepted = "catalogue names: theory cannot know the host";
            return refuse("machine", "host".into(), accepted);
        }
        if narrowed.layouts.iter().any(|l| l == "btf") {
            let accepted = "named layouts: theory cannot know the Linux that runs";
            return refuse("layout", "btf".into(), accepted);
        }
        if narrowed.backends != [Backend::Model] {
            let accepted = "model: nothing else is exact";
            return refuse("backend", super::list(&narrowed.backends), accepted);
        }
        if let Some(against) = expectation.against {
            let other = against.variant();
            if narrowed.variants.contains(&other) {
                let accepted = "variants other than the one to compare with";
                return refuse("variant", other.to_string(), accepted);
            }
            narrowed.variants.push(other);
        }
        Ok(narrowed)
    }
}

/// The metric of one variant at one point in one arena.
struct Row {
    /// All that names the curve: variant, machine, the other choices and axes.
    curve: String,
    x: f64,
    seed: u64,
    value: f64,
}

impl Expectation {
    /// What the expectation states, for one line of output.
    #[must_use]
    pub fn statement(&self) -> String {
        let metric = match self.against {
            None => self.metric.clone(),
            Some(Against::Minus(other)) => format!("{} minus {other}'s", self.metric),
            Some(Against::Over(other)) => format!("{} over {other}'s", self.metric),
        };
        let what = match self.measure {
            Measure::Value => metric,
            Measure::Knee => format!("knee of {metric}"),
        };
        let bounds = match (self.min, self.max) {
            (Some(min), Some(max)) if min == max => format!("= {}", short(min)),
            (Some(min), Some(max)) => format!("in {}..{}", short(min), short(max)),
            (Some(min), None) => format!(">= {}", short(min)),
            (None, Some(max)) => format!("<= {}", short(max)),
            (None, None) => "is there".into(),
        };
        format!("{what} {bounds}")
    }

    /// The conditions, for one line of output.
    #[must_use]
    pub fn conditions(&self) -> String {
        let pairs: Vec<String> = self
            .settings
            .iter()
            .map(|(key, values)| format!("{key}={}", values.join(",")))
            .collect();
        pairs.join(" ")
    }

    /// Compare `samples`, which [`Experiment::narrowed`] gave rise to, with the bounds.
    #[must_use]
    pub fn judge(&self, samples: &[Sample]) -> Judgement {
        let rows = self.rows(samples);
        let found: Vec<(String, f64)> = match self.measure {
            Measure::Value => rows
                .iter()
                .map(|r| (format!("{} x={} seed={}", r.curve, r.x, r.seed), r.value))
                .collect(),
            Measure::Knee => knees(&rows),
        };
        if found.is_empty() {
            let got = format!("nothing: no value of {} in the run", self.metric);
            return Judgement { holds: false, got };
        }
        // Half a unit in the ninth place: sums of counts divided by operations are not exact.
        let slack = |bound: f64| 1e-9 * bound.abs().max(1.0);
        let outside = found.iter().find(|(_, y)| {
            self.min.is_some_and(|min| *y < min - slack(min))
                || self.max.is_some_and(|max| *y > max + slack(max))
        });
        let low = found.iter().map(|f| f.1).fold(f64::INFINITY, f64::min);
        let high = found.iter().map(|f| f.1).fold(f64::NEG_INFINITY, f64::max);
        let range = if low == high {
            short(low)
        } else {
            format!("{}..{}", short(low), short(high))
        };
        let got = match outside {
            None => range,
            Some((at, y)) if low != high => format!("{range}; {} at {at}", short(*y)),
            Some(_) => range,
        };
        Judgement {
            holds: outside.is_none(),
            got,
        }
    }

    /// The metric, compared where a comparison is asked for.
    fn rows(&self, samples: &[Sample]) -> Vec<Row> {
        let mut by_place: BTreeMap<(String, u64, u64), BTreeMap<&str, Vec<f64>>> = BTreeMap::new();
        for sample in samples {
            let usable = !matches!(sample.status, Status::Unavailable | Status::Spoiled);
            let (Some(value), Ok(x)) = (sample.value.filter(|_| usable), sample.x.parse()) else {
                continue;
            };
            if sample.metric == self.metric {
                by_place
                    .entry((curve(sample), x, sample.seed))
                    .or_default()
                    .entry(&sample.variant)
                    .or_default()
                    .push(value);
            }
        }
        let mut rows = Vec::new();
        for ((curve, x, seed), variants) in &by_place {
            let of = |variant: &str| variants.get(variant).map(|values| stats::median(values));
            for (variant, values) in variants {
                let own = stats::median(values);
                let value = match self.against {
                    None => Some(own),
                    Some(against) if against.variant().name() == *variant => None,
                    Some(Against::Minus(other)) => of(other.name()).map(|theirs| own - theirs),
                    Some(Against::Over(other)) => of(other.name()).map(|theirs| own / theirs),
                };
                if let Some(value) = value {
                    rows.push(Row {
                        curve: format!("{variant} {curve}"),
                        x: *x as f64,
                        seed: *seed,
                        value,
                    });
                }
            }
        }
        rows
    }
}

/// What two samples have in common that belong to one curve, the variant left out.
fn curve(sample: &Sample) -> String {
    let parts = [
        sample.machine.as_str(),
        &sample.layout,
        &sample.placement,
        &sample.pages,
        &sample.start,
        &other_axes(&sample.point, &sample.axis),
    ];
    parts.join(" ").trim_end().into()
}

/// Knees of the curves in `rows`; infinite where a curve stays flat.
fn knees(rows: &[Row]) -> Vec<(String, f64)> {
    let mut curves: BTreeMap<&str, BTreeMap<u64, Vec<f64>>> = BTreeMap::new();
    for row in rows {
        curves
            .entry(&row.curve)
            .or_default()
            .entry(row.x as u64)
            .or_default()
            .push(row.value);
    }
    curves
        .into_iter()
        .map(|(curve, by_x)| {
            let xy: Vec<(f64, f64)> = by_x
                .iter()
                .map(|(x, ys)| (*x as f64, stats::median(ys)))
                .collect();
            let knee = stats::knee(&xy, 0.0, None).unwrap_or(f64::INFINITY);
            (curve.into(), knee)
        })
        .collect()
}

/// At most three decimals, and none where there are none.
fn short(value: f64) -> String {
    if value.is_infinite() {
        return "none".into();
    }
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').into()
}
