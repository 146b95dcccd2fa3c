//! When a point has been repeated often enough: as soon as its intervals are narrow, or when time is up.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::Repeat;
use crate::experiment::Experiment;
use crate::record::Status;
use crate::stats::{FEWEST_FOR_INTERVAL, median, median_error};

/// Half the width of a 95 % interval, in standard errors.
const HALF_WIDTH: f64 = 1.96;

/// What ends the repeats of a point before there are as many as asked for.
pub(super) struct Enough {
    /// Half width of intervals to reach, as a share of the median; 0: none.
    share: f64,
    /// End of the run; `None`: none.
    deadline: Option<Instant>,
    /// When the repeats of the present batch have to end.
    batch_until: Option<Instant>,
    limit_s: u32,
    repeats: u32,
    /// By cause, the numbers of repeats at which batches ended.
    ended: BTreeMap<&'static str, Vec<usize>>,
}

const NARROW: &str = "narrow";
const LATE: &str = "late";

impl Enough {
    pub fn new(experiment: &Experiment) -> Enough {
        let limit = Duration::from_secs(u64::from(experiment.limit_s));
        Enough {
            share: f64::from(experiment.interval_percent) / 100.0,
            deadline: (experiment.limit_s > 0).then(|| Instant::now() + limit),
            batch_until: None,
            limit_s: experiment.limit_s,
            repeats: experiment.repeats,
            ended: BTreeMap::new(),
        }
    }

    /// A batch begins, and `left` more with it: it gets its share of the time that is left.
    pub fn begin(&mut self, left: usize) {
        let now = Instant::now();
        self.batch_until = self
            .deadline
            .map(|end| now + end.saturating_duration_since(now) / left.max(1) as u32);
    }

    /// Whether the batch ends after the `results` so far, by case. With too few for an interval it goes
    /// on, whatever the time.
    pub fn is_it(&mut self, results: &[Vec<Repeat>]) -> bool {
        let done = results.iter().map(Vec::len).min().unwrap_or(0);
        if done < FEWEST_FOR_INTERVAL || done >= self.repeats as usize {
            return false;
        }
        let cause = if self.share > 0.0 && results.iter().all(|of| is_narrow(of, self.share)) {
            NARROW
        } else if self.batch_until.is_some_and(|end| Instant::now() >= end) {
            LATE
        } else {
            return false;
        };
        self.ended.entry(cause).or_default().push(done);
        true
    }

    /// One sentence for each cause that ended something.
    pub fn notes(&self) -> Vec<String> {
        let all = self.ended.iter();
        all.map(|(cause, done)| {
            let (least, most) = (done.iter().min(), done.iter().max());
            let range = match (least, most) {
                (Some(least), Some(most)) if least != most => format!("{least} to {most}"),
                (Some(only), _) => only.to_string(),
                _ => String::new(),
            };
            let why = match *cause {
                NARROW => format!("every interval was within {} %", 100.0 * self.share),
                _ => format!("the limit of {} s was reached (limit_s)", self.limit_s),
            };
            let points = done.len();
            format!(
                "native: {points} points of the axes ended after {range} of {} repeats, as {why}",
                self.repeats
            )
        })
        .collect()
    }
}

/// Whether the interval of the time is within `share` of its median, of samples that were not spoiled.
fn is_narrow(repeats: &[Repeat], share: f64) -> bool {
    let first = repeats.iter().filter_map(|values| values.first());
    let clean: Vec<f64> = first
        .filter(|value| value.status == Status::Exact)
        .filter_map(|value| value.value)
        .collect();
    clean.len() >= FEWEST_FOR_INTERVAL
        && HALF_WIDTH * median_error(&clean) <= share * median(&clean).abs()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::rows::Value;

    fn enough(share: f64, repeats: u32, batch_until: Option<Instant>) -> Enough {
        Enough {
            share,
            deadline: None,
            batch_until,
            limit_s: 7,
            repeats,
            ended: BTreeMap::new(),
        }
    }

    fn case(values: &[f64]) -> Vec<Repeat> {
        let value = |v: &f64| vec![Value::new("time_ns_per_op", "ns", *v, Status::Exact)];
        values.iter().map(value).collect()
    }

    /// Values of 98 to 102 have a MAD of 1, so an error of 1.2533 * 1.4826 / sqrt(5) = 0.83 and half an
    /// interval of 1.63 %.
    #[test]
    fn narrow_intervals_end_a_batch() {
        let wide = case(&[98.0, 99.0, 100.0, 101.0, 102.0]);
        let equal = case(&[100.0; 5]);
        for (share, cases, expected) in [
            (0.02, vec![wide.clone()], true),
            (0.01, vec![wide.clone()], false),
            (0.01, vec![equal.clone()], true),
            (0.01, vec![equal.clone(), wide.clone()], false),
            (0.02, vec![case(&[100.0; 4])], false),
            (0.0, vec![equal.clone()], false),
        ] {
            assert_eq!(enough(share, 40, None).is_it(&cases), expected, "{share}");
        }
        let mut all = enough(0.02, 40, None);
        assert!(all.is_it(&[wide]));
        let note = "native: 1 points of the axes ended after 5 of 40 repeats, as every interval was within 2 %";
        assert_eq!(all.notes(), [note]);
        // As many as asked for is no early end.
        assert!(!enough(0.02, 5, None).is_it(&[equal]));
    }

    #[test]
    fn time_ends_a_batch_once_there_is_an_interval() {
        let mut late = enough(0.0, 40, Some(Instant::now()));
        assert!(!late.is_it(&[case(&[1.0; 4])]));
        assert!(late.is_it(&[case(&[1.0, 9.0, 2.0, 8.0, 5.0])]));
        assert!(
            late.notes()[0].contains("limit of 7 s"),
            "{:?}",
            late.notes()
        );
    }
}
