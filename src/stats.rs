//! Robust statistics of repeated measurements: medians with bootstrap intervals, tests, and the
//! place where a curve begins to rise.
//!
//! Nothing here knows what was measured; [`summary`] applies it to records. All randomness is
//! seeded, so the same samples give the same summary.

pub mod knee;
pub mod paired;
pub mod summary;

use std::collections::BTreeMap;

use kernels::arena::Random;
use statrs::distribution::{ContinuousCDF, Normal};

pub use knee::{KNEE_ERRORS, KNEE_SHARE, knee, plateau};
pub use paired::{Shift, paired_shift};

/// Resamples of a bootstrap. The ends of a 95 % interval then rest on the 25 most extreme ones on
/// each side (Efron and Tibshirani 1993, chapter 13, ask for 1000).
const RESAMPLES: usize = 1000;

/// Fewest values that a bootstrap interval is given for: with n values the interval of a median
/// cannot be wider than their range, which holds the true median with probability
/// `1 - 2 / 2^n`: 94 % for 5, 88 % for 4.
pub const FEWEST_FOR_INTERVAL: usize = 5;

/// Of the standard normal distribution: 0.975 quantile.
const Z_95: f64 = 1.959_964;
/// Of the standard normal distribution: 0.8 quantile.
const Z_POWER: f64 = 0.841_621;
/// Standard deviation of a normal distribution over its median absolute deviation.
const SIGMA_PER_MAD: f64 = 1.482_602;
/// Standard error of a median over that of a mean, for normal values: `sqrt(pi / 2)`.
const MEDIAN_ERROR: f64 = 1.253_314;

/// An interval, both ends included.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// The median; of an even number of values the mean of the middle two.
///
/// # Panics
/// If there is no value.
#[must_use]
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    median_in_place(&mut sorted)
}

fn median_in_place(values: &mut [f64]) -> f64 {
    assert!(!values.is_empty(), "a median needs a value");
    let odd = values.len() % 2 == 1;
    let middle = values.len() / 2;
    let (below, &mut upper, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    if odd {
        return upper;
    }
    let lower = below.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    f64::midpoint(lower, upper)
}

/// Median absolute deviation from the median.
///
/// # Panics
/// If there is no value.
#[must_use]
pub fn mad(values: &[f64]) -> f64 {
    let middle = median(values);
    let mut deviations: Vec<f64> = values.iter().map(|v| (v - middle).abs()).collect();
    median_in_place(&mut deviations)
}

/// Standard error of the median, estimated from the median absolute deviation as for normal
/// values: `1.2533 * 1.4826 * mad / sqrt(n)`.
///
/// # Panics
/// If there is no value.
#[must_use]
pub fn median_error(values: &[f64]) -> f64 {
    MEDIAN_ERROR * SIGMA_PER_MAD * mad(values) / (values.len() as f64).sqrt()
}

/// 95 % percentile-bootstrap interval of the median; `None` with fewer than
/// [`FEWEST_FOR_INTERVAL`] values.
#[must_use]
pub fn median_interval(values: &[f64], seed: u64) -> Option<Interval> {
    let first = values.first()?;
    if values.iter().all(|v| v == first) && values.len() >= FEWEST_FOR_INTERVAL {
        return Some(Interval {
            low: *first,
            high: *first,
        });
    }
    bootstrap(values.len(), seed, |draw| {
        let mut resample: Vec<f64> = draw.iter().map(|&i| values[i]).collect();
        median_in_place(&mut resample)
    })
}

/// The 2.5 and 97.5 percentiles of `statistic` over draws, with replacement, of `n` indices.
fn bootstrap(n: usize, seed: u64, statistic: impl Fn(&[usize]) -> f64) -> Option<Interval> {
    if n < FEWEST_FOR_INTERVAL {
        return None;
    }
    let mut random = Random(seed);
    let mut draw = vec![0; n];
    let mut all: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            draw.fill_with(|| random.below(n as u64) as usize);
            statistic(&draw)
        })
        .collect();
    all.sort_unstable_by(f64::total_cmp);
    let cut = RESAMPLES / 40;
    Some(Interval {
        low: all[cut],
        high: all[RESAMPLES - 1 - cut],
    })
}

/// Two-sided p of the Mann-Whitney test that `a` and `b` come from one distribution: exact for up
/// to 20 values without ties, else the normal approximation with correction for ties and
/// continuity. `None` if one of them is empty.
#[must_use]
pub fn mann_whitney(a: &[f64], b: &[f64]) -> Option<f64> {
    if a.is_empty() || b.is_empty() {
        return None;
    }
    let (n, m) = (a.len(), b.len());
    let mut all: Vec<(f64, bool)> = a.iter().map(|&v| (v, true)).collect();
    all.extend(b.iter().map(|&v| (v, false)));
    all.sort_by(|x, y| x.0.total_cmp(&y.0));
    let mut rank_sum = 0.0;
    let mut ties = 0.0;
    for group in all.chunk_by(|x, y| x.0 == y.0) {
        let size = group.len() as f64;
        let first = all.partition_point(|x| x.0 < group[0].0) as f64;
        let rank = first + (size + 1.0) / 2.0;
        rank_sum += rank * group.iter().filter(|x| x.1).count() as f64;
        ties += size.powi(3) - size;
    }
    let u = rank_sum - (n * (n + 1)) as f64 / 2.0;
    let u = u.min((n * m) as f64 - u);
    let p = if ties == 0.0 && n + m <= 20 {
        2.0 * at_most(u as usize, n, m)
    } else {
        let (n, m) = (n as f64, m as f64);
        let total = n + m;
        let variance = n * m / 12.0 * (total + 1.0 - ties / (total * (total - 1.0)));
        if variance <= 0.0 {
            return Some(1.0);
        }
        let z = (n * m / 2.0 - u - 0.5).max(0.0) / variance.sqrt();
        2.0 * Normal::standard().sf(z)
    };
    Some(p.min(1.0))
}

/// Probability that U of `n` and `m` values without ties is at most `u`, by counting arrangements:
/// the largest value is one of the `n`, above all `m`, or one of the `m`.
fn at_most(u: usize, n: usize, m: usize) -> f64 {
    // counts[j][u]: arrangements of i and j values with that U, for i growing from 0 to n.
    let mut counts = vec![vec![0.0_f64; n * m + 1]; m + 1];
    for row in &mut counts {
        row[0] = 1.0;
    }
    for _ in 0..n {
        let mut next = vec![vec![0.0; n * m + 1]; m + 1];
        next[0][0] = 1.0;
        for j in 1..=m {
            for v in 0..=n * m {
                let own_largest = if v >= j { counts[j][v - j] } else { 0.0 };
                next[j][v] = own_largest + next[j - 1][v];
            }
        }
        counts = next;
    }
    let all: f64 = counts[m].iter().sum();
    counts[m][..=u].iter().sum::<f64>() / all
}

/// Holm's adjustment (1979): the probability that any of the family's rejections down to this one
/// is false stays below the adjusted p. In the order of `p`.
#[must_use]
pub fn holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|&i, &j| p[i].total_cmp(&p[j]));
    let mut adjusted = vec![0.0; p.len()];
    let mut so_far: f64 = 0.0;
    for (rank, &i) in order.iter().enumerate() {
        so_far = so_far.max(p[i] * (p.len() - rank) as f64).min(1.0);
        adjusted[i] = so_far;
    }
    adjusted
}

/// Smallest difference of medians that a comparison of such samples would detect at 5 % with a
/// power of 80 %: `(1.96 + 0.84)` standard errors of the difference. `None` with fewer than
/// [`FEWEST_FOR_INTERVAL`] values in either.
#[must_use]
pub fn smallest_detectable(a: &[f64], b: &[f64]) -> Option<f64> {
    (a.len().min(b.len()) >= FEWEST_FOR_INTERVAL)
        .then(|| (Z_95 + Z_POWER) * median_error(a).hypot(median_error(b)))
}

/// Share of the variance that lies between the groups (arenas), 0..=1: variance components of a
/// one-way analysis of variance with unequal group sizes (Searle, Casella and McCulloch 1992,
/// section 3.6), a negative one taken as none. `None` if there is but one group, or no group with
/// two values to tell the variance within; 0 if nothing varies.
#[must_use]
pub fn between_share(groups: &[Vec<f64>]) -> Option<f64> {
    let groups: Vec<&Vec<f64>> = groups.iter().filter(|g| !g.is_empty()).collect();
    let n: f64 = groups.iter().map(|g| g.len() as f64).sum();
    let k = groups.len() as f64;
    if groups.len() < 2 || n <= k {
        return None;
    }
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let all: Vec<f64> = groups.iter().flat_map(|g| g.iter().copied()).collect();
    let grand = mean(&all);
    let mut between = 0.0;
    let mut within = 0.0;
    for group in &groups {
        let own = mean(group);
        between += group.len() as f64 * (own - grand).powi(2);
        within += group.iter().map(|v| (v - own).powi(2)).sum::<f64>();
    }
    let between = between / (k - 1.0);
    let within = within / (n - k);
    let squares: f64 = groups.iter().map(|g| (g.len() as f64).powi(2)).sum();
    let size = (n - squares / n) / (k - 1.0);
    let component = ((between - within) / size).max(0.0);
    if component + within == 0.0 {
        return Some(0.0);
    }
    Some(component / (component + within))
}

/// `values` by key, in the order of the keys.
pub(crate) fn grouped<K: Ord, V>(values: impl IntoIterator<Item = (K, V)>) -> BTreeMap<K, Vec<V>> {
    let mut groups: BTreeMap<K, Vec<V>> = BTreeMap::new();
    for (key, value) in values {
        groups.entry(key).or_default().push(value);
    }
    groups
}
