//! Where a curve begins to rise, and how sure that is.
//!
//! Curves of cache misses are steps as often as slopes, begin high where a fixed cost falls on few
//! visits, and end on plateaus: a fit of two straight lines puts the break where none is. So a knee is the
//! first point that leaves the lowest plateau for good, and its interval is what the same rule says of
//! resampled measurements.

use kernels::arena::Random;

use super::{FEWEST_FOR_INTERVAL, median, median_error, median_in_place};

/// A rise below this share of the plateau's height is not called a knee.
pub const KNEE_SHARE: f64 = 0.2;
/// A rise below this many standard errors is not called a knee.
pub const KNEE_ERRORS: f64 = 3.0;
/// Values over which a plateau is taken: one outlier among them does not move it.
const PLATEAU_POINTS: usize = 3;
/// Values that must stay up for a rise to count.
const SUSTAINED_POINTS: usize = 3;

/// Where a curve begins to rise for good: the first x whose value exceeds the plateau so far by
/// more than a threshold, and whose next two values (or as many as there are) do so as well.
/// `None`: the curve stays flat.
///
/// `curve` is `(x, y)` with rising x. The plateau at an x is the lowest median of three
/// consecutive values before it: the first points of a walk, where an operation's fixed cost falls
/// on few visits, may lie higher without harm. The threshold is the larger of
/// [`KNEE_ERRORS`]` * noise`, the standard error of one value, and [`KNEE_SHARE`] of `height`,
/// which is the plateau itself if `None`; for a curve of differences it is the height of the curve
/// they are taken from. So a knee is never among the first three points.
#[must_use]
pub fn knee(curve: &[(f64, f64)], noise: f64, height: Option<f64>) -> Option<f64> {
    let mut plateau = f64::INFINITY;
    for i in PLATEAU_POINTS..curve.len() {
        let before: Vec<f64> = curve[i - PLATEAU_POINTS..i].iter().map(|p| p.1).collect();
        plateau = plateau.min(median(&before));
        let threshold = (KNEE_ERRORS * noise).max(KNEE_SHARE * height.unwrap_or(plateau).abs());
        let up = |p: &(f64, f64)| p.1 > plateau + threshold;
        if curve[i..].iter().take(SUSTAINED_POINTS).all(up) {
            return Some(curve[i].0);
        }
    }
    None
}

/// Lowest median of three consecutive values: the plateau that [`knee`] measures from. With fewer
/// than three values, their median; `None` without any.
#[must_use]
pub fn plateau(curve: &[(f64, f64)]) -> Option<f64> {
    let y: Vec<f64> = curve.iter().map(|p| p.1).collect();
    if y.is_empty() {
        return None;
    }
    y.windows(PLATEAU_POINTS.min(y.len()))
        .map(median)
        .min_by(f64::total_cmp)
}

/// Resamples of a knee's interval: its ends are points of the curve, and few.
const RESAMPLES: usize = 400;

/// Where the knee lies in 95 % of resampled measurements. An end that is `None` lies beyond the curve:
/// in more than one of 40 resamples there was no knee.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KneeInterval {
    /// Lowest.
    pub low: Option<f64>,
    /// Highest.
    pub high: Option<f64>,
}

/// The interval of the [`knee`] of the medians of `curve`, which is `(x, values)` with rising x.
/// `None` if a point has fewer than [`FEWEST_FOR_INTERVAL`] values.
#[must_use]
pub fn knee_interval(curve: &[(f64, Vec<f64>)], seed: u64) -> Option<KneeInterval> {
    let fewest = curve.iter().map(|(_, values)| values.len()).min()?;
    if fewest < FEWEST_FOR_INTERVAL {
        return None;
    }
    let errors: Vec<f64> = curve.iter().map(|(_, y)| median_error(y)).collect();
    let noise = median(&errors);
    let mut random = Random(seed);
    let mut drawn = Vec::new();
    let mut knees: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            let resampled: Vec<(f64, f64)> = curve
                .iter()
                .map(|(x, values)| {
                    let below = values.len() as u64;
                    drawn.clear();
                    drawn.extend(values.iter().map(|_| values[random.below(below) as usize]));
                    (*x, median_in_place(&mut drawn))
                })
                .collect();
            knee(&resampled, noise, None).unwrap_or(f64::INFINITY)
        })
        .collect();
    knees.sort_unstable_by(f64::total_cmp);
    let cut = RESAMPLES / 40;
    let end = |at: usize| Some(knees[at]).filter(|x| x.is_finite());
    Some(KneeInterval {
        low: end(cut),
        high: end(RESAMPLES - 1 - cut),
    })
}
