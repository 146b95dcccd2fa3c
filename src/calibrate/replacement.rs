//! Which replacement policy a set behaves like: miss fractions that each candidate predicts for the
//! very sequences that were measured, and the candidate with the smallest squared error.

use crate::machine::Replacement;
use kernels::arena::Random;

/// All candidates.
pub const CANDIDATES: [Replacement; 6] = [
    Replacement::Lru,
    Replacement::TreePlru,
    Replacement::TreesOfFourLru,
    Replacement::BitPlru,
    Replacement::Fifo,
    Replacement::Random,
];

/// One set of a cache: which lines it holds, and what its policy remembers. Invalid ways fill first.
struct Set {
    policy: Replacement,
    lines: Vec<Option<u32>>,
    /// Per way: time of last use (LRU) or of fill (FIFO), or the bit of bit-PLRU; per tree of
    /// four: time of last use.
    stamps: Vec<u64>,
    /// Bits of the trees: `true` means that the victim is on the right.
    tree: Vec<bool>,
    now: u64,
    random: Random,
}

impl Set {
    /// `None` if the policy does not exist for that many ways.
    fn new(policy: Replacement, ways: u32, seed: u64) -> Option<Set> {
        let exists = match policy {
            Replacement::TreePlru => ways.is_power_of_two(),
            Replacement::TreesOfFourLru => ways.is_multiple_of(4),
            _ => ways > 0 && CANDIDATES.contains(&policy),
        };
        exists.then(|| Set {
            policy,
            lines: vec![None; ways as usize],
            stamps: vec![0; ways as usize],
            tree: vec![false; ways as usize],
            now: 0,
            random: Random(seed),
        })
    }

    /// Whether `line` hits; it is in the set afterwards.
    fn access(&mut self, line: u32) -> bool {
        self.now += 1;
        let found = self.lines.iter().position(|&l| l == Some(line));
        let way = found
            .or_else(|| self.lines.iter().position(Option::is_none))
            .unwrap_or_else(|| self.victim());
        self.lines[way] = Some(line);
        self.touch(way, found.is_none());
        found.is_some()
    }

    fn victim(&mut self) -> usize {
        let ways = self.lines.len();
        let oldest = |stamps: &[u64]| {
            let oldest = stamps.iter().enumerate().min_by_key(|(_, s)| **s);
            oldest.expect("a set has ways").0
        };
        match self.policy {
            Replacement::Lru | Replacement::Fifo => oldest(&self.stamps),
            Replacement::BitPlru => self.stamps.iter().position(|&bit| bit == 0).unwrap_or(0),
            Replacement::TreePlru => victim_of_tree(&self.tree, ways),
            Replacement::TreesOfFourLru => {
                let tree = oldest(&self.stamps[..ways / 4]);
                4 * tree + victim_of_tree(&self.tree[4 * tree..], 4)
            }
            _ => self.random.below(ways as u64) as usize,
        }
    }

    fn touch(&mut self, way: usize, filled: bool) {
        match self.policy {
            Replacement::Lru => self.stamps[way] = self.now,
            Replacement::Fifo if filled => self.stamps[way] = self.now,
            Replacement::BitPlru => {
                self.stamps[way] = 1;
                if self.stamps.iter().all(|&bit| bit == 1) {
                    self.stamps.fill(0);
                    self.stamps[way] = 1;
                }
            }
            Replacement::TreePlru => point_away(&mut self.tree, self.lines.len(), way),
            Replacement::TreesOfFourLru => {
                let tree = way / 4;
                self.stamps[tree] = self.now;
                point_away(&mut self.tree[4 * tree..], 4, way % 4);
            }
            _ => {}
        }
    }
}

/// The leaf that the bits lead to. Node `n` (root 1) has children `2n` and `2n + 1`; its bit is
/// `tree[n - 1]`.
fn victim_of_tree(tree: &[bool], leaves: usize) -> usize {
    let mut node = 1;
    while node < leaves {
        node = 2 * node + usize::from(tree[node - 1]);
    }
    node - leaves
}

/// Let every bit on the way to `leaf` lead elsewhere.
fn point_away(tree: &mut [bool], leaves: usize, leaf: usize) {
    let mut node = leaf + leaves;
    while node > 1 {
        let parent = node / 2;
        tree[parent - 1] = node.is_multiple_of(2);
        node = parent;
    }
}

/// Misses per access of `sequence`, repeated, to one set of `ways` ways, in steady state: 16 passes
/// warm up, 64 count. `None` if the policy does not exist for that many ways.
#[must_use]
pub fn miss_fraction(policy: Replacement, ways: u32, sequence: &[u32]) -> Option<f64> {
    const COUNTED: u32 = 64;
    let mut set = Set::new(policy, ways, 1)?;
    let pass = |set: &mut Set| sequence.iter().filter(|&&line| !set.access(line)).count();
    for _ in 0..16 {
        pass(&mut set);
    }
    let misses: usize = (0..COUNTED).map(|_| pass(&mut set)).sum();
    Some(misses as f64 / (f64::from(COUNTED) * sequence.len() as f64))
}

/// Order in which lines of a set are visited, and what it tells apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Always the same order: LRU and FIFO miss nothing up to the ways and everything beyond;
    /// trees and random rise gradually.
    Cyclic,
    /// A fresh random order each round: separates LRU from trees and bits, which lose lines that
    /// were used lately.
    RandomRounds,
    /// As cyclic, with line 0 visited before every other one: LRU never loses it, FIFO does.
    HotLine,
}

/// A sequence over lines `0..k`, of whole rounds and at most `most` accesses. The order within a
/// round is random, so that no prefetcher of strides follows.
///
/// # Panics
/// If not even one round fits.
#[must_use]
pub fn sequence(pattern: Pattern, k: u32, most: usize, random: &mut Random) -> Vec<u32> {
    let mut round: Vec<u32> = (0..k).collect();
    random.shuffle(&mut round);
    let per_round = match pattern {
        Pattern::Cyclic | Pattern::RandomRounds => k as usize,
        Pattern::HotLine => 2 * (k as usize - 1),
    };
    assert!(
        0 < per_round && per_round <= most,
        "{per_round} accesses a round, {most} at most"
    );
    let mut sequence = Vec::with_capacity(most);
    while sequence.len() + per_round <= most {
        match pattern {
            Pattern::Cyclic => sequence.extend(&round),
            Pattern::RandomRounds => {
                random.shuffle(&mut round);
                sequence.extend(&round);
            }
            Pattern::HotLine => {
                let others = round.iter().filter(|&&line| line != 0);
                sequence.extend(others.flat_map(|&line| [0, line]));
            }
        }
    }
    sequence
}

/// A measured point: a sequence and the misses per access that it showed.
#[derive(Clone, Debug)]
pub struct Point {
    /// Order of visits.
    pub pattern: Pattern,
    /// Lines of the set that are visited.
    pub lines: u32,
    /// The very sequence.
    pub sequence: Vec<u32>,
    /// Misses per access measured: what a load costs beyond a hit, over what an L2 hit does. Above
    /// 1 where a miss costs more than an L2 hit; the fit takes that as 1.
    pub measured: f64,
}

/// A candidate against the measured points.
#[derive(Clone, Debug)]
pub struct Fit {
    /// Candidate.
    pub policy: Replacement,
    /// Root of the mean squared difference of miss fractions.
    pub rms_error: f64,
    /// Its prediction for each point, in their order.
    pub predicted: Vec<f64>,
}

/// Candidates that exist for `ways` ways, best first.
///
/// # Panics
/// If there are no points.
#[must_use]
pub fn fit(ways: u32, points: &[Point]) -> Vec<Fit> {
    assert!(!points.is_empty(), "a fit needs points");
    let mut fits: Vec<Fit> = CANDIDATES
        .into_iter()
        // Two trees of four in LRU order are one tree of eight: the same policy twice.
        .filter(|&policy| policy != Replacement::TreesOfFourLru || ways > 8)
        .filter_map(|policy| {
            let predicted = points
                .iter()
                .map(|p| miss_fraction(policy, ways, &p.sequence))
                .collect::<Option<Vec<f64>>>()?;
            let squares = points.iter().zip(&predicted);
            let squares: f64 = squares
                .map(|(p, q)| (p.measured.clamp(0.0, 1.0) - q).powi(2))
                .sum();
            Some(Fit {
                policy,
                rms_error: (squares / points.len() as f64).sqrt(),
                predicted,
            })
        })
        .collect();
    fits.sort_by(|a, b| a.rms_error.total_cmp(&b.rms_error));
    fits
}

#[cfg(test)]
mod tests {
    use super::*;

    fn misses(policy: Replacement, ways: u32, sequence: &[u32]) -> usize {
        let mut set = Set::new(policy, ways, 1).unwrap();
        sequence.iter().filter(|&&line| !set.access(line)).count()
    }

    /// Every policy keeps what fits. Beyond the ways, LRU and FIFO lose each line before its next
    /// use (Mattson: stack distance k > ways).
    #[test]
    fn cyclic_sweeps() {
        for ways in [4, 8, 12] {
            for policy in CANDIDATES {
                for k in 1..=2 * ways {
                    let sweep = sequence(Pattern::Cyclic, k, 200, &mut Random(k.into()));
                    let Some(got) = miss_fraction(policy, ways, &sweep) else {
                        assert_eq!((policy, ways), (Replacement::TreePlru, 12));
                        continue;
                    };
                    let what = format!("{policy:?}, {ways} ways, {k} lines: {got}");
                    match policy {
                        _ if k <= ways => assert_eq!(got, 0.0, "{what}"),
                        Replacement::Lru | Replacement::Fifo => assert_eq!(got, 1.0, "{what}"),
                        _ => assert!(got > 0.0 && got <= 1.0, "{what}"),
                    }
                }
            }
        }
    }

    /// Random replacement, w ways, w + 1 lines, cyclic: one line is absent. When its turn comes, it
    /// misses and a uniformly drawn one of the w others becomes the absent one; its turn comes after
    /// 1 to w accesses, (w + 1) / 2 on average. So 2 / (w + 1) misses per access.
    #[test]
    fn random_replacement_misses_once_per_half_round() {
        for ways in [4u32, 8, 12] {
            let sweep = sequence(Pattern::Cyclic, ways + 1, 500, &mut Random(3));
            let got = miss_fraction(Replacement::Random, ways, &sweep).unwrap();
            let expected = 2.0 / f64::from(ways + 1);
            assert!(
                (got / expected - 1.0).abs() < 0.05,
                "{ways}: {got} {expected}"
            );
        }
    }

    /// Belady's sequence: FIFO misses 9 with 3 ways and 10 with 4; LRU 10 and 8.
    #[test]
    fn beladys_anomaly() {
        let belady = [1, 2, 3, 4, 1, 2, 5, 1, 2, 3, 4, 5];
        for (policy, ways, expected) in [
            (Replacement::Fifo, 3, 9),
            (Replacement::Fifo, 4, 10),
            (Replacement::Lru, 3, 10),
            (Replacement::Lru, 4, 8),
        ] {
            assert_eq!(misses(policy, ways, &belady), expected, "{policy:?} {ways}");
        }
    }

    /// Four ways filled 0 1 2 3: the last use was on the right, so the root leads left, where 1
    /// was used last: 0 goes. After a hit on 0 the root leads right; there 3 was used last: 2 goes,
    /// although LRU would take 1. Trees of four agree where there is one tree.
    #[test]
    fn tree_plru_differs_from_lru_as_it_should() {
        for policy in [Replacement::TreePlru, Replacement::TreesOfFourLru] {
            let mut set = Set::new(policy, 4, 1).unwrap();
            for line in [0, 1, 2, 3, 0, 4] {
                set.access(line);
            }
            let held: Vec<u32> = set.lines.iter().map(|l| l.unwrap()).collect();
            assert_eq!(held, [0, 1, 4, 3], "{policy:?}");
        }
        // Two ways are LRU under every tree.
        let random = &mut Random(9);
        let stream: Vec<u32> = (0..500).map(|_| random.below(4) as u32).collect();
        let lru = misses(Replacement::Lru, 2, &stream);
        assert_eq!(misses(Replacement::TreePlru, 2, &stream), lru);
    }

    /// Hot line, k - 1 > ways cold ones: LRU misses the cold ones only, every second access. FIFO
    /// loses the hot line too, once per `ways` fills.
    #[test]
    fn a_hot_line_tells_fifo_from_lru() {
        let (ways, k) = (8, 12);
        let hot = sequence(Pattern::HotLine, k, 220, &mut Random(2));
        assert_eq!(miss_fraction(Replacement::Lru, ways, &hot), Some(0.5));
        let fifo = miss_fraction(Replacement::Fifo, ways, &hot).unwrap();
        assert!(fifo > 0.55 && fifo < 0.65, "{fifo}");
    }

    /// The fit recognises each policy from its own fractions with an error of 0.03 misses on each
    /// point, at 8 and at 12 ways.
    #[test]
    fn the_fit_recognises_every_policy() {
        for ways in [8, 12] {
            for truth in CANDIDATES {
                let random = &mut Random(11);
                let mut points = Vec::new();
                for (pattern, k) in crate::calibrate::replacement_points(ways) {
                    let sequence = sequence(pattern, k, 1008, random);
                    let same_as_tree = truth == Replacement::TreesOfFourLru && ways <= 8;
                    let exact = miss_fraction(truth, ways, &sequence).filter(|_| !same_as_tree);
                    let Some(exact) = exact else {
                        continue;
                    };
                    let noise = if random.below(2) == 0 { 0.03 } else { -0.03 };
                    points.push(Point {
                        pattern,
                        lines: k,
                        sequence,
                        measured: (exact + noise).clamp(0.0, 1.0),
                    });
                }
                if !points.is_empty() {
                    let fits = fit(ways, &points);
                    assert_eq!(fits[0].policy, truth, "{ways} ways: {fits:?}");
                }
            }
        }
    }
}
