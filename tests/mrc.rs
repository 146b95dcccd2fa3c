//! Miss-ratio curves against theory, a naive stack and the model's own caches.

#[path = "common/machines.rs"]
mod machines;

use kernels::arena::Random;
use kwalk::machine::{Inclusion, Replacement};
use kwalk::model::hierarchy::{Hierarchy, Kind};
use kwalk::mrc::{Curve, MrcError, StackDistances, Step, picture};
use proptest::prelude::*;

fn curve(lines: &[u64], sets: u64) -> Curve {
    let mut distances = StackDistances::new(sets).expect("a number of sets");
    for line in lines {
        distances.request(*line).expect("few lines");
    }
    distances.curve(64)
}

/// A stack per set, most recent first: the place of a line in it is its distance.
fn naive_distances(lines: &[u64], sets: u64) -> Vec<Option<usize>> {
    let mut stacks = vec![Vec::new(); sets as usize];
    let mut distances = Vec::new();
    for line in lines {
        let stack: &mut Vec<u64> = &mut stacks[(line % sets) as usize];
        let place = stack.iter().position(|l| l == line);
        if let Some(place) = place {
            stack.remove(place);
        }
        stack.insert(0, *line);
        distances.push(place);
    }
    distances
}

/// A sweep over `k` lines again and again: each use finds `k - 1` others since the last one. All
/// miss in fewer than `k` lines; from `k` on the first sweep's misses are left, which are
/// compulsory.
#[test]
fn a_cyclic_sweep_is_all_or_nothing() {
    for k in [1_u64, 2, 63, 64, 65, 1000, 5000] {
        let sweeps = 5;
        let lines: Vec<u64> = (0..sweeps * k).map(|i| i % k).collect();
        let curve = curve(&lines, 1);
        let all = sweeps * k;
        let expected = [
            Step {
                ways: 0,
                misses: all,
            },
            Step { ways: k, misses: k },
        ];
        assert_eq!(curve.steps, expected, "{k} lines");
        assert_eq!((curve.requests, curve.compulsory), (all, k));
        assert_eq!(
            (curve.misses(k - 1), curve.misses(k), curve.misses(u64::MAX)),
            (all, k, k)
        );
        assert_eq!(curve.enough_ways(), k);
        let knees = curve.knees(9);
        assert_eq!(knees, if k > 1 { vec![expected[1]] } else { Vec::new() });
    }
}

/// The same line again and again: distance 0, so that one line is enough.
#[test]
fn one_line_is_enough_for_one_line() {
    let curve = curve(&[7; 100], 3);
    let expected = [
        Step {
            ways: 0,
            misses: 100,
        },
        Step { ways: 1, misses: 1 },
    ];
    assert_eq!(curve.steps, expected);
}

/// A sweep to and fro over `k` lines: of each way back, line `i` before the turn has distance `i`,
/// so that every size from 1 to `k` has a step: `(0..k)` once for each turn.
#[test]
fn a_sweep_to_and_fro_falls_evenly() {
    let (k, turns) = (100_u64, 8_u64);
    let mut lines: Vec<u64> = (0..k).collect();
    for turn in 0..turns {
        let back: Vec<u64> = (0..k).rev().collect();
        let on: Vec<u64> = (0..k).collect();
        lines.extend(if turn % 2 == 0 { back } else { on });
    }
    let curve = curve(&lines, 1);
    for ways in 0..=k {
        assert_eq!(curve.misses(ways), k + turns * (k - ways), "{ways} lines");
    }
}

/// Lines `sets` apart share a set: `k` of them swept need `k` ways; spread evenly they need
/// `k / sets`, rounded up.
#[test]
fn conflicts_need_ways() {
    for sets in [1_u64, 3, 64, 12_288] {
        let k = 24;
        let strided: Vec<u64> = (0..10 * k).map(|i| i % k * sets).collect();
        assert_eq!(curve(&strided, sets).enough_ways(), k, "{sets} sets");
        let packed: Vec<u64> = (0..10 * k).map(|i| i % k).collect();
        assert_eq!(
            curve(&packed, sets).enough_ways(),
            k.div_ceil(sets),
            "{sets} sets"
        );
    }
}

#[test]
fn wrong_numbers_of_sets_are_refused() {
    for sets in [0, (1 << 20) + 1, u64::MAX] {
        let error = StackDistances::new(sets).err();
        assert_eq!(error, Some(MrcError::Sets(sets)));
    }
}

/// Hot and cold lines anywhere in the address space, and sweeps that renew the order.
fn stream(seed: u64, references: usize, lines: u64) -> Vec<u64> {
    let mut random = Random(seed);
    let mut stream = Vec::with_capacity(references);
    while stream.len() < references {
        match random.below(8) {
            0 => stream.extend((0..random.below(lines)).map(|i| u64::MAX >> 6 & !i)),
            1..4 => stream.push(random.below(lines)),
            _ => stream.push(random.below(lines / 8 + 1)),
        }
    }
    stream.truncate(references);
    stream
}

/// The model's fully associative LRU cache misses what the curve says, at every size tried; and so
/// does its set-associative one, at every number of ways tried.
#[test]
fn the_model_misses_the_same() {
    let lines = stream(5, 60_000, 700);
    for (sets, all_ways) in [
        (1_u64, &[1_u64, 2, 3, 8, 64, 100, 512, 699, 700, 1400][..]),
        (64, &[1, 2, 4, 8, 12, 16]),
        (3, &[1, 2, 5, 100]),
    ] {
        let curve = curve(&lines, sets);
        for &ways in all_ways {
            let table = machines::cache(
                1,
                sets as u32,
                ways as u32,
                Replacement::Lru,
                Inclusion::NonInclusive,
            );
            let mut hierarchy = Hierarchy::new(&[table], &[1], 0).expect("a cache");
            for line in &lines {
                hierarchy.access(*line, Kind::Load);
            }
            let stats = hierarchy.stats()[0];
            assert_eq!(
                stats.loads.misses,
                curve.misses(ways),
                "{sets} sets, {ways} ways"
            );
            assert_eq!(
                stats.causes[0], curve.compulsory,
                "{sets} sets, {ways} ways"
            );
        }
    }
}

/// Far more uses than lines: the order is compacted many times, and memory is that of the lines.
#[test]
fn long_streams_with_few_lines() {
    let lines = stream(9, 200_000, 50);
    let expected = naive_distances(&lines, 1);
    let mut distances = StackDistances::new(1).expect("one set");
    for (i, (line, expected)) in lines.iter().zip(expected).enumerate() {
        let distance = distances.request(*line).expect("few lines");
        assert_eq!(distance, expected, "request {i}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Every single distance is that of a naive stack.
    #[test]
    fn distances_are_those_of_a_naive_stack(
        seed in any::<u64>(), references in 1..3000_usize, lines in 1..3000_u64,
        sets in prop_oneof![Just(1_u64), 1..70_u64],
    ) {
        let lines = stream(seed, references, lines);
        let mut distances = StackDistances::new(sets).expect("a number of sets");
        for (line, expected) in lines.iter().zip(naive_distances(&lines, sets)) {
            prop_assert_eq!(distances.request(*line), Ok(expected));
        }
        let curve = distances.curve(64);
        // Misses fall from all requests to the compulsory ones.
        prop_assert_eq!(curve.steps[0], Step { ways: 0, misses: curve.requests });
        prop_assert!(curve.steps.windows(2).all(|s| s[0].ways < s[1].ways && s[0].misses > s[1].misses));
        let last = curve.steps.last().map(|s| s.misses);
        prop_assert_eq!(last, Some(if curve.steps.len() > 1 { curve.compulsory } else { curve.requests }));
    }
}

/// A picture of nothing but first uses, of one line, of a sweep: well-formed, without numbers that
/// are none.
#[test]
fn pictures_of_little_are_pictures() {
    for lines in [
        vec![1],
        vec![1; 10],
        (0..100).collect(),
        stream(1, 5000, 300),
    ] {
        let curves = [curve(&lines, 1), curve(&lines, 12)];
        let svg = picture::svg(&curves, "a <b> & \"c\"");
        assert!(svg.starts_with("<svg xmlns=") && svg.ends_with("</svg>\n"));
        assert!(svg.contains("a &lt;b&gt; &amp; &quot;c&quot;"), "{svg}");
        for wrong in ["NaN", "inf", "<b>"] {
            assert!(!svg.contains(wrong), "{wrong} in {svg}");
        }
        assert_eq!(svg.matches("<text").count(), svg.matches("</text>").count());
        assert_eq!(svg.matches("class=\"s0\"").count(), 2);
    }
}
