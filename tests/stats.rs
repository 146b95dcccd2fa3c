//! Statistics against values derived by hand, and against naive models.

use kwalk::record::{Keys, Sample, Status};
use kwalk::stats::summary::{summarise, verdicts};
use kwalk::stats::{
    Interval, between_share, holm, knee, mad, mann_whitney, median, median_error, median_interval,
    paired_shift, plateau, smallest_detectable,
};
use proptest::prelude::*;

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-5 * b.abs().max(1.0)
}

#[test]
fn median_and_mad_of_small_samples() {
    for (values, expected) in [
        (&[3.0][..], 3.0),
        (&[4.0, 1.0], 2.5),
        (&[9.0, 1.0, 5.0], 5.0),
        (&[4.0, 1.0, 3.0, 2.0], 2.5),
    ] {
        assert!(close(median(values), expected), "{values:?}");
    }
    // Median 2; deviations 1 1 0 0 2 4 7, sorted 0 0 1 1 2 4 7.
    assert!(close(mad(&[1.0, 1.0, 2.0, 2.0, 4.0, 6.0, 9.0]), 1.0));
    // Of 0 1 2 3 4 the MAD is 1, so the error is 1.253314 * 1.482602 / sqrt(5).
    assert!(close(median_error(&[0.0, 1.0, 2.0, 3.0, 4.0]), 0.830_99));
}

/// A resample of 11 distinct values has a median of at most the k-th one if 6 of 11 draws are among
/// the lowest k: P(Bin(11, 2/11) >= 6) = 0.007, P(Bin(11, 3/11) >= 6) = 0.05. So the 2.5 percentile
/// is the third value and, by symmetry, the 97.5 percentile the ninth; both are far enough from
/// 0.025 that 1000 resamples cannot miss them (standard error 0.003 and 0.007).
/// Of 5 values: P(Bin(5, 1/5) >= 3) = 0.058, so the interval is the whole range.
#[test]
fn bootstrap_interval_of_a_median_is_that_of_the_binomial() {
    let eleven: Vec<f64> = (1..=11).map(f64::from).collect();
    let five: Vec<f64> = (1..=5).map(f64::from).collect();
    for seed in 0..5 {
        let of = |values| median_interval(values, seed);
        let (low, high) = (3.0, 9.0);
        assert_eq!(of(&eleven), Some(Interval { low, high }), "seed {seed}");
        let (low, high) = (1.0, 5.0);
        assert_eq!(of(&five), Some(Interval { low, high }), "seed {seed}");
    }
}

#[test]
fn too_few_values_have_no_interval() {
    assert_eq!(median_interval(&[], 1), None);
    assert_eq!(median_interval(&[1.0; 4], 1), None);
    let (low, high) = (7.0, 7.0);
    assert_eq!(median_interval(&[7.0; 5], 1), Some(Interval { low, high }));
}

/// `a` is `b + 10` turn by turn: however much both vary together, the difference does not.
#[test]
fn what_disturbs_both_sides_does_not_widen_the_interval_of_their_difference() {
    let pairs: Vec<(f64, f64)> = (0..9)
        .map(|i| f64::from(i * i))
        .map(|b| (b + 10.0, b))
        .collect();
    let shift = paired_shift(&pairs).expect("pairs");
    assert_eq!(shift.estimate, 10.0);
    let (low, high) = (10.0, 10.0);
    assert_eq!(shift.interval, Some(Interval { low, high }));
}

/// Differences 1, 2 and 6 have the means 1, 1.5, 2, 3.5, 4 and 6: the median is 2.75. Too few for more.
/// Of five that are all positive, both signs of 2^5 arrangements are as extreme: p = 2 / 32, and the
/// interval is all means. Of six, one of them negative and the smallest: sums of at most 1 are two of
/// 2^6 on each side. With ties (1, 1, -1, 2, 2, 2): ranks 2, 2, 2, 5, 5, 5, the least sum 2,
/// variance 6 * 7 * 13 / 24 - (24 + 24) / 48 = 21.75, z = (10.5 - 2 - 0.5) / sqrt(21.75) = 1.715372,
/// p = 0.086277.
#[test]
fn paired_shift_by_hand() {
    let of = |differences: &[f64]| {
        let pairs: Vec<(f64, f64)> = differences.iter().map(|d| (d + 7.0, 7.0)).collect();
        paired_shift(&pairs).expect("pairs")
    };
    let few = of(&[1.0, 2.0, 6.0]);
    assert_eq!((few.estimate, few.interval, few.p), (2.75, None, None));
    let five = of(&[1.0, 2.0, 3.0, 4.0, 5.0]);
    let (low, high) = (1.0, 5.0);
    assert_eq!(five.interval, Some(Interval { low, high }));
    for (differences, p) in [
        (&[1.0, 2.0, 3.0, 4.0, 5.0][..], 2.0 / 32.0),
        (&[-1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 4.0 / 64.0),
        (&[0.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0], 2.0 / 32.0),
        (&[1.0, 1.0, -1.0, 2.0, 2.0, 2.0], 0.086_277),
        (&[0.0; 6], 1.0),
    ] {
        let found = of(differences).p.expect("five or more");
        assert!(close(found, p), "{differences:?}: {found} is not {p}");
    }
    assert_eq!(paired_shift(&[]), None);
}

/// Without ties by counting: of the 20 ways to place three of six ranks one is as extreme, on each
/// side; of the 6 ways to place two of four, U <= 1 holds for two. With ties (ranks 1 3 3 against
/// 3 5.5 5.5): U = 1, variance 9/12 * (7 - 30/30) = 4.5, z = (4.5 - 1 - 0.5) / sqrt(4.5) = sqrt(2),
/// and 2 * sf(sqrt(2)) = erfc(1).
#[test]
fn mann_whitney_by_hand() {
    for (a, b, p) in [
        (&[1.0, 2.0, 3.0][..], &[4.0, 5.0, 6.0][..], 0.1),
        (&[4.0, 5.0, 6.0], &[1.0, 2.0, 3.0], 0.1),
        (&[1.0, 2.0], &[3.0, 4.0], 2.0 / 6.0),
        (&[1.0, 3.0], &[2.0, 4.0], 4.0 / 6.0),
        (&[1.0, 2.0, 2.0], &[2.0, 3.0, 3.0], 0.157_299_207),
        (&[5.0; 6], &[5.0; 6], 1.0),
    ] {
        let found = mann_whitney(a, b).expect("both have values");
        assert!(close(found, p), "{a:?} {b:?}: {found} is not {p}");
    }
    assert_eq!(mann_whitney(&[], &[1.0]), None);
}

/// Smallest of three times 3, next times 2, last times 1, never below the one before.
#[test]
fn holm_by_hand() {
    let adjusted = holm(&[0.01, 0.04, 0.03]);
    for (found, expected) in adjusted.iter().zip([0.03, 0.06, 0.06]) {
        assert!(close(*found, expected), "{adjusted:?}");
    }
    assert_eq!(holm(&[0.6, 0.7]), [1.0, 1.0]);
    assert!(holm(&[]).is_empty());
}

/// Two samples with an error of 0.83099 each: `(1.959964 + 0.841621) * 0.83099 * sqrt(2)`.
#[test]
fn smallest_detectable_by_hand() {
    let values = [0.0, 1.0, 2.0, 3.0, 4.0];
    let found = smallest_detectable(&values, &values).expect("five values each");
    assert!(close(found, 3.292_43), "{found}");
    assert_eq!(smallest_detectable(&values, &values[1..]), None);
}

/// Means 2 and 6, grand mean 4: between 2 * (4 + 4) / 1 = 16, within (2 + 2) / 2 = 2, groups of 2:
/// component (16 - 2) / 2 = 7, share 7 / (7 + 2).
#[test]
fn share_between_groups_by_hand() {
    for (groups, share) in [
        (vec![vec![1.0, 3.0], vec![5.0, 7.0]], Some(7.0 / 9.0)),
        (vec![vec![1.0, 3.0], vec![1.0, 3.0]], Some(0.0)),
        (vec![vec![1.0, 1.0], vec![2.0, 2.0]], Some(1.0)),
        (vec![vec![4.0, 4.0], vec![4.0]], Some(0.0)),
        (vec![vec![1.0, 3.0]], None),
        (vec![vec![1.0], vec![2.0]], None),
        (vec![vec![], vec![2.0, 3.0]], None),
    ] {
        match (between_share(&groups), share) {
            (Some(found), Some(expected)) => assert!(close(found, expected), "{groups:?}: {found}"),
            (found, expected) => assert_eq!(found, expected, "{groups:?}"),
        }
    }
}

fn curve(y: &[f64]) -> Vec<(f64, f64)> {
    y.iter().enumerate().map(|(x, &y)| (x as f64, y)).collect()
}

/// A plateau of 10 has a threshold of 2 if noise is below 2/3, else of three errors.
#[test]
fn knee_is_where_a_lasting_rise_begins() {
    let rise = [10.0, 10.0, 10.0, 10.0, 11.0, 13.0, 15.0, 17.0];
    for (y, noise, height, expected) in [
        (&rise[..], 0.0, None, Some(5.0)),
        (&rise, 1.5, None, Some(6.0)),
        (&rise, 3.0, None, None),
        (&[10.0; 8], 0.0, None, None),
        // The fixed cost of an operation on few visits lies above the plateau.
        (
            &[30.0, 20.0, 10.0, 10.0, 10.0, 13.0, 13.0, 13.0],
            0.0,
            None,
            Some(5.0),
        ),
        // One outlier is no rise; one at the end cannot be told from one.
        (
            &[10.0, 10.0, 10.0, 10.0, 20.0, 10.0, 10.0, 10.0],
            0.0,
            None,
            None,
        ),
        (&[10.0, 10.0, 10.0, 10.0, 10.0, 20.0], 0.0, None, Some(5.0)),
        // Counts: nothing, then something.
        (&[0.0, 0.0, 0.0, 0.0, 2.0, 18.0, 20.0], 0.0, None, Some(4.0)),
        // Differences: a fifth of the curve they are taken from.
        (
            &[0.0, 0.1, 0.0, 0.1, 1.0, 2.5, 3.0, 4.0],
            0.0,
            Some(10.0),
            Some(5.0),
        ),
        (&[1.0, 2.0, 3.0], 0.0, None, None),
        (&[], 0.0, None, None),
    ] {
        assert_eq!(
            knee(&curve(y), noise, height),
            expected,
            "{y:?} {noise} {height:?}"
        );
    }
    assert_eq!(plateau(&curve(&[30.0, 20.0, 10.0, 11.0, 12.0])), Some(11.0));
    assert_eq!(plateau(&curve(&[4.0, 2.0])), Some(3.0));
    assert_eq!(plateau(&[]), None);
}

proptest! {
    /// By brute force: every way to choose which of the values are the first sample.
    #[test]
    fn exact_mann_whitney_is_that_of_all_arrangements(
        n in 1_usize..5, m in 1_usize..5, seed in any::<u64>(),
    ) {
        let mut values: Vec<f64> = (0..n + m).map(|v| v as f64).collect();
        kernels::arena::Random(seed).shuffle(&mut values);
        let u = |first: &[bool]| {
            let side = |s| values.iter().zip(first).filter(move |(_, f)| **f == s).map(|(v, _)| *v);
            side(true).map(|a| side(false).filter(|b| a > *b).count()).sum::<usize>()
        };
        let extreme = |u: usize| u.min(n * m - u);
        let own: Vec<bool> = (0..n + m).map(|i| i < n).collect();
        let (mut all, mut as_extreme) = (0, 0);
        for set in 0_u32..1 << (n + m) {
            if set.count_ones() as usize == n {
                let first: Vec<bool> = (0..n + m).map(|i| set >> i & 1 == 1).collect();
                all += 1;
                as_extreme += usize::from(extreme(u(&first)) <= extreme(u(&own)));
            }
        }
        let expected = as_extreme as f64 / f64::from(all);
        let found = mann_whitney(&values[..n], &values[n..]).expect("both have values");
        prop_assert!(close(found, expected), "{values:?} {n}: {found} is not {expected}");
    }

    /// By brute force: all signs of the ranks, and the means by sorting them all.
    #[test]
    fn exact_signed_ranks_are_those_of_all_signs(
        n in 5_usize..11, seed in any::<u64>(), signs in any::<u16>(),
    ) {
        let mut sizes: Vec<f64> = (1..=n).map(|v| v as f64).collect();
        kernels::arena::Random(seed).shuffle(&mut sizes);
        let is_positive = |set: u16, i: usize| set >> i & 1 == 1;
        let sum = |set: u16| (0..n).filter(|i| is_positive(set, *i)).map(|i| i + 1).sum::<usize>();
        let extreme = |sum: usize| sum.min(n * (n + 1) / 2 - sum);
        let own: u16 = (0..n).filter(|i| is_positive(signs, *i)).map(|i| 1 << (sizes[i] as usize - 1)).sum();
        let as_extreme = (0_u16..1 << n).filter(|set| extreme(sum(*set)) <= extreme(sum(own))).count();
        let expected = as_extreme as f64 / 2.0_f64.powi(n as i32);
        let pairs: Vec<(f64, f64)> = (0..n)
            .map(|i| if is_positive(signs, i) { (sizes[i], 0.0) } else { (0.0, sizes[i]) })
            .collect();
        let found = paired_shift(&pairs).expect("pairs");
        prop_assert!(close(found.p.expect("enough"), expected), "{pairs:?}: {found:?}, {expected}");
        let differences: Vec<f64> = pairs.iter().map(|(a, b)| a - b).collect();
        let all = differences.iter().enumerate();
        let means: Vec<f64> = all
            .flat_map(|(i, a)| differences[i..].iter().map(move |b| f64::midpoint(*a, *b)))
            .collect();
        prop_assert!(close(found.estimate, median(&means)));
    }

    #[test]
    fn median_is_the_middle_of_the_sorted(values in prop::collection::vec(-1e6..1e6_f64, 1..40)) {
        let mut sorted = values.clone();
        sorted.sort_by(f64::total_cmp);
        let n = sorted.len();
        prop_assert!(close(median(&values), (sorted[(n - 1) / 2] + sorted[n / 2]) / 2.0));
    }

    #[test]
    fn intervals_hold_the_median_and_stay_in_the_range(
        values in prop::collection::vec(-100.0..100.0_f64, 5..20), seed in any::<u64>(),
    ) {
        let interval = median_interval(&values, seed).expect("enough values");
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let middle = median(&values);
        prop_assert!(low <= interval.low && interval.low <= middle, "{interval:?} {middle}");
        prop_assert!(middle <= interval.high && interval.high <= high, "{interval:?} {middle}");
        prop_assert_eq!(Some(interval), median_interval(&values, seed));
    }
}

fn sample(
    variant: &str,
    depth: u64,
    turn: (u64, u32),
    value: Option<f64>,
    status: Status,
) -> Sample {
    let keys = Keys {
        kernel: "psi-depth".into(),
        backend: "native".into(),
        variant: variant.into(),
        point: format!("depth={depth}"),
        axis: "depth".into(),
        x: depth.to_string(),
        ..Keys::default()
    };
    let metric = "cycles_per_visit".into();
    Sample::new(
        &keys,
        turn.0,
        turn.1,
        metric,
        "cycles".into(),
        value,
        status,
        String::new(),
    )
}

#[test]
fn spoiled_samples_enter_only_where_there_are_no_others() {
    let at = |depth, repeat, value, status| sample("parent", depth, (1, repeat), value, status);
    let summaries = summarise(&[
        at(5, 0, Some(10.0), Status::Exact),
        at(5, 1, Some(99.0), Status::Spoiled),
        at(5, 2, Some(12.0), Status::Partial),
        at(8, 0, Some(20.0), Status::Spoiled),
        at(8, 1, Some(30.0), Status::Spoiled),
        at(9, 0, None, Status::Unavailable),
    ]);
    let found: Vec<_> = summaries
        .iter()
        .map(|s| (s.n, s.median, s.status))
        .collect();
    assert_eq!(
        found,
        [
            (2, Some(11.0), Status::Partial),
            (2, Some(25.0), Status::Spoiled),
            (0, None, Status::Unavailable),
        ]
    );
}

/// Ten turns at each of five depths. `parent` is 10 throughout, give or take what both share;
/// `cgroup` is 1 more up to depth 3 and 5 more from depth 4 on.
#[test]
fn verdicts_tell_shift_ratio_and_knee() {
    let mut samples = Vec::new();
    for depth in [1, 2, 3, 4, 5] {
        for repeat in 0..10 {
            let shared = 10.0 + f64::from(repeat % 3) * 0.1;
            let more = if depth < 4 { 1.0 } else { 5.0 };
            let add =
                |variant, value| sample(variant, depth, (1, repeat), Some(value), Status::Exact);
            samples.push(add("parent", shared));
            samples.push(add("cgroup", shared + more));
        }
    }
    let verdicts = verdicts(&samples, "parent");
    let of = |what: &str, variant: &str, point: &str| {
        verdicts
            .iter()
            .find(|v| v.what == what && v.variant == variant && v.point == point)
            .unwrap_or_else(|| panic!("no {what} of {variant} at {point}"))
    };
    let shift = of("shift", "cgroup", "depth=5");
    assert!(close(shift.value.expect("a shift"), 5.0));
    assert!(close(shift.ci_low.expect("an interval"), 5.0));
    assert!(close(shift.ci_high.expect("an interval"), 5.0));
    assert!(shift.p_adjusted.expect("ten values each") < 0.01);
    assert!(shift.words.contains("higher"), "{}", shift.words);
    assert_eq!(shift.unit, "cycles");
    // 11.1 over 10.1: the shared part has a median of 0.1.
    let ratio = of("ratio", "cgroup", "depth=1");
    assert!(close(ratio.value.expect("a ratio"), 11.1 / 10.1));
    assert!(of("smallest-detectable", "cgroup", "depth=5").value > Some(0.0));
    assert_eq!(of("knee", "cgroup", "").value, Some(4.0));
    assert_eq!(of("knee", "parent", "").value, None);
    assert!(verdicts.iter().all(|v| v.baseline == "parent"));
    assert!(
        !verdicts
            .iter()
            .any(|v| v.variant == "parent" && v.what != "knee")
    );
}

/// One deterministic value each: a shift, but no interval, no p and nothing about what could have
/// been detected.
#[test]
fn single_values_get_no_interval() {
    let samples = [
        sample("parent", 5, (1, 0), Some(10.0), Status::Estimated),
        sample("cgroup", 5, (1, 0), Some(12.0), Status::Estimated),
    ];
    let verdicts = verdicts(&samples, "parent");
    let whats: Vec<&str> = verdicts.iter().map(|v| v.what.as_str()).collect();
    assert_eq!(whats, ["shift", "ratio"]);
    assert_eq!(verdicts[0].value, Some(2.0));
    assert_eq!((verdicts[0].ci_low, verdicts[0].p_adjusted), (None, None));
}

/// Native has ticks only, the model ticks and core cycles: both are compared in ticks. Without
/// native the model is compared in core cycles.
#[test]
fn native_and_model_are_compared_in_one_unit() {
    let row = |backend: &str, metric: &str, variant: &str, value| Sample {
        backend: backend.into(),
        metric: metric.into(),
        unit: metric.into(),
        ..sample(variant, 5, (1, 0), Some(value), Status::Exact)
    };
    let mut samples = Vec::new();
    for (variant, value) in [("parent", 10.0), ("cgroup", 12.0)] {
        samples.push(row("model", "cycles_per_visit", variant, value * 2.0));
        samples.push(row("model", "tsc_cycles_per_visit", variant, value));
    }
    let units = |samples: &[Sample]| -> Vec<(String, String)> {
        verdicts(samples, "parent")
            .into_iter()
            .filter(|v| v.what == "shift")
            .map(|v| (v.backend, v.unit))
            .collect()
    };
    let pair = |a: &str, b: &str| (a.to_string(), b.to_string());
    assert_eq!(units(&samples), [pair("model", "cycles_per_visit")]);
    for variant in ["parent", "cgroup"] {
        samples.push(row("native", "tsc_cycles_per_visit", variant, 9.0));
    }
    assert_eq!(
        units(&samples),
        [
            pair("model", "tsc_cycles_per_visit"),
            pair("native", "tsc_cycles_per_visit")
        ]
    );
}
