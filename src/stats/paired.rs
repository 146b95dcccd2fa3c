//! The shift between two variants that were measured side by side, turn by turn.
//!
//! What disturbs the host in one turn disturbs both, so that their difference says more than either: the
//! estimate is that of Hodges and Lehmann (1963) for differences, the median of the means of any two of
//! them (itself and itself included); interval and p are those of Wilcoxon's signed ranks, which belong
//! to it (Hollander, Wolfe and Chicken 2014, sections 3.1 to 3.3). The two-sample forms, with Mann and
//! Whitney's ranks, would take what both have in common for noise.

use statrs::distribution::{ContinuousCDF, Normal};

use super::{FEWEST_FOR_INTERVAL, Interval, Z_95};

/// How much higher the first of each pair is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shift {
    /// Hodges-Lehmann estimate.
    pub estimate: f64,
    /// 95 % interval; none with fewer than [`FEWEST_FOR_INTERVAL`] pairs.
    pub interval: Option<Interval>,
    /// Two-sided p that there is none; none with fewer than [`FEWEST_FOR_INTERVAL`] pairs.
    pub p: Option<f64>,
}

/// The shift of `pairs`; `None` without any.
#[must_use]
pub fn paired_shift(pairs: &[(f64, f64)]) -> Option<Shift> {
    let differences: Vec<f64> = pairs.iter().map(|(a, b)| a - b).collect();
    let n = differences.len();
    if n == 0 {
        return None;
    }
    let mut means: Vec<f64> = (0..n)
        .flat_map(|i| (i..n).map(move |j| (i, j)))
        .map(|(i, j)| f64::midpoint(differences[i], differences[j]))
        .collect();
    means.sort_unstable_by(f64::total_cmp);
    let all = means.len();
    let estimate = f64::midpoint(means[(all - 1) / 2], means[all / 2]);
    let enough = n >= FEWEST_FOR_INTERVAL;
    let count = n as f64;
    let spread = (count * (count + 1.0) * (2.0 * count + 1.0) / 24.0).sqrt();
    // With five pairs even all means do not reach 95 %: 1 - 2 / 2^5 are 94 %.
    let cut = (all as f64 / 2.0 - Z_95 * spread).floor().max(0.0) as usize;
    Some(Shift {
        estimate,
        interval: enough.then(|| Interval {
            low: means[cut],
            high: means[all - 1 - cut],
        }),
        p: enough.then(|| signed_rank(&differences)),
    })
}

/// Most differences for which arrangements are counted.
const MOST_COUNTED: usize = 25;

/// Two-sided p of Wilcoxon's signed-rank test that `differences` are symmetric about 0: exact for up to
/// [`MOST_COUNTED`] without ties, else the normal approximation with corrections for ties and
/// continuity. Differences of 0 say nothing and are left out.
fn signed_rank(differences: &[f64]) -> f64 {
    let mut sizes: Vec<(f64, bool)> = differences
        .iter()
        .filter(|d| **d != 0.0)
        .map(|d| (d.abs(), *d > 0.0))
        .collect();
    sizes.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let n = sizes.len();
    let (mut positive, mut ties, mut before) = (0.0, 0.0, 0.0);
    for group in sizes.chunk_by(|a, b| a.0 == b.0) {
        let size = group.len() as f64;
        let rank = before + (size + 1.0) / 2.0;
        positive += rank * group.iter().filter(|d| d.1).count() as f64;
        ties += size.powi(3) - size;
        before += size;
    }
    let count = n as f64;
    let all = count * (count + 1.0) / 2.0;
    let least = positive.min(all - positive);
    let p = if ties == 0.0 && n <= MOST_COUNTED {
        2.0 * at_most(least as usize, n)
    } else {
        let variance = count * (count + 1.0) * (2.0 * count + 1.0) / 24.0 - ties / 48.0;
        let z = (all / 2.0 - least - 0.5).max(0.0) / variance.sqrt();
        2.0 * Normal::standard().sf(z)
    };
    p.min(1.0)
}

/// Probability that the ranks 1 to `n`, each with either sign, add up to at most `sum` where they are
/// positive, by counting: the last rank is in the sum or is not.
fn at_most(sum: usize, n: usize) -> f64 {
    let mut counts = vec![0.0_f64; sum + 1];
    counts[0] = 1.0;
    for rank in 1..=n {
        for s in (rank..=sum).rev() {
            counts[s] += counts[s - rank];
        }
    }
    counts.iter().sum::<f64>() / 2.0_f64.powi(n as i32)
}
