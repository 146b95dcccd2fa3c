//! One cache by itself: index, replacement policies, 3C; values worked out by hand and naive
//! models.

#[path = "common/machines.rs"]
mod machines;

use std::collections::HashMap;

use kwalk::machine::{self, Inclusion, Replacement};
use kwalk::model::cache::Cache;
use kwalk::model::classify::{Cause, Shadow};
use proptest::prelude::*;

fn cache(sets: u32, ways: u32, replacement: Replacement) -> Cache {
    let table = machines::cache(1, sets, ways, replacement, Inclusion::NonInclusive);
    Cache::new(&table, 1).unwrap()
}

/// Access `line`: whether it hit, and the line that had to leave.
fn access(cache: &mut Cache, line: u64) -> (bool, Option<u64>) {
    if cache.lookup(line, false).is_some() {
        return (true, None);
    }
    (false, cache.fill(line, false).victim.map(|v| v.line))
}

fn misses(cache: &mut Cache, lines: impl IntoIterator<Item = u64>) -> Vec<u64> {
    lines
        .into_iter()
        .filter(|&line| !access(cache, line).0)
        .collect()
}

fn evicted(cache: &mut Cache, lines: &str) -> String {
    lines
        .bytes()
        .filter_map(|line| access(cache, line.into()).1)
        .map(|line| line as u8 as char)
        .collect()
}

/// Cyclic sweep over `lines` lines of one LRU set, steady state: all hits while the sweep fits in
/// the ways; one line more and every access misses (Mattson stack distance = lines).
#[test]
fn lru_cyclic_sweep_is_all_or_nothing() {
    for (ways, lines, expected) in [
        (8, 8, 0),
        (8, 9, 9),
        (8, 64, 64),
        (12, 13, 13),
        (20, 20, 0),
        (80, 81, 81),
    ] {
        let mut cache = cache(1, ways, Replacement::Lru);
        assert_eq!(misses(&mut cache, 0..lines).len() as u64, lines, "cold");
        let warm = misses(&mut cache, 0..lines).len();
        assert_eq!(warm, expected, "ways = {ways}, lines = {lines}");
    }
}

/// Belady's anomaly: under FIFO, 1 2 3 4 1 2 5 1 2 3 4 5 misses 9 times with 3 ways, 10 with 4.
#[test]
fn fifo_misses_more_with_more_ways() {
    let string = [1, 2, 3, 4, 1, 2, 5, 1, 2, 3, 4, 5];
    for (ways, expected) in [(3, 9), (4, 10)] {
        let mut cache = cache(1, ways, Replacement::Fifo);
        assert_eq!(misses(&mut cache, string).len(), expected, "{ways} ways");
    }
}

/// Four ways, A B C D filled in order; what goes for E, F and G, with a hit of B before F.
/// - LRU: A; then B is young, so C; then D.
/// - Tree: each use points root and pair away from it. After D all point to way 0: A goes for E.
///   E and B are on the left, so the root points right, and the right pair to way 2 since D was its
///   last: C goes. F on the right turns the root left, where B was last: E goes.
/// - Bits: D sets the last bit, so only D's stays. A (way 0) goes for E, B's bit is set by its hit,
///   so C goes for F, which completes the set: only F's bit stays, and way 0, E, goes for G.
/// - FIFO: A, B (a hit does not count), C.
#[test]
fn policies_differ_as_derived_by_hand() {
    for (replacement, expected) in [
        (Replacement::Lru, "ACD"),
        (Replacement::TreePlru, "ACE"),
        (Replacement::TreesOfFourLru, "ACE"),
        (Replacement::BitPlru, "ACE"),
        (Replacement::Fifo, "ABC"),
    ] {
        let mut cache = cache(1, 4, replacement);
        assert_eq!(evicted(&mut cache, "ABCDEBFG"), expected, "{replacement:?}");
    }
}

/// Eight-way tree, lines A to H filled in order: all bits point to way 0 again. Without hits
/// victims alternate between halves, then quarters: ways 0 4 2 6 1 5 3 7 (bit reversal).
#[test]
fn tree_plru_fills_in_bit_reversed_order() {
    let mut cache = cache(1, 8, Replacement::TreePlru);
    assert_eq!(evicted(&mut cache, "ABCDEFGHabcdefgh"), "AECGBFDH");
}

/// Three trees of four, 12 ways, lines 0 to 12 in a cycle.
///
/// Cold misses fill tree after tree: tree 0 holds 0 to 3, tree 1 holds 4 to 7, tree 2 holds 8 to 11,
/// and all point to their first way again. Line 12 takes way 0 of tree 0 (line 0). Second sweep: 0
/// takes way 0 of tree 1 (line 4), 1 to 3 hit in tree 0, 4 takes way 0 of tree 2 (line 8), 5 to 7 hit
/// in tree 1, 8 takes way 0 of tree 0 (line 12: 3 was last on the right and 1 on the left), 9 to 11
/// hit, 12 takes way 0 of tree 1 (line 0). So 4 of 13 miss, where true LRU misses 13.
#[test]
fn trees_of_four_miss_part_of_a_sweep_that_is_one_too_long() {
    let mut cache = cache(1, 12, Replacement::TreesOfFourLru);
    assert_eq!(misses(&mut cache, 0..13).len(), 13);
    assert_eq!(misses(&mut cache, 0..13), [0, 4, 8, 12]);
}

/// Twelve lines fit, in whatever order they come.
#[test]
fn trees_of_four_keep_twelve_lines() {
    let mut cache = cache(1, 12, Replacement::TreesOfFourLru);
    misses(&mut cache, (0..12).rev());
    assert_eq!(
        misses(&mut cache, [3, 7, 0, 11, 1, 2, 4, 5, 6, 8, 9, 10]),
        Vec::<u64>::new()
    );
}

/// An invalid way is filled before any line goes, whatever the policy would have named.
#[test]
fn invalid_ways_fill_first() {
    for replacement in [
        Replacement::Lru,
        Replacement::TreePlru,
        Replacement::TreesOfFourLru,
        Replacement::BitPlru,
        Replacement::Fifo,
        Replacement::Random,
    ] {
        for gone in 0..8 {
            let mut cache = cache(1, 8, replacement);
            misses(&mut cache, 0..8);
            assert_eq!(cache.remove(gone).map(|gone| gone.dirty), Some(false));
            assert_eq!(cache.remove(gone), None);
            assert_eq!(access(&mut cache, 99), (false, None), "{replacement:?}");
            assert!(access(&mut cache, 100).1.is_some());
        }
    }
}

/// A single way holds the last line, whatever the policy.
#[test]
fn one_way_is_direct_mapped() {
    for replacement in [
        Replacement::Lru,
        Replacement::TreePlru,
        Replacement::BitPlru,
        Replacement::Fifo,
        Replacement::Random,
    ] {
        let mut cache = cache(1, 1, replacement);
        assert_eq!(evicted(&mut cache, "AABBA"), "AB", "{replacement:?}");
    }
}

#[test]
fn dirty_lines_leave_dirty_and_a_flush_empties() {
    let mut cache = cache(2, 1, Replacement::Lru);
    cache.fill(0, true);
    cache.fill(1, false);
    assert!(cache.lookup(1, true).is_some());
    assert!(cache.fill(2, false).victim.is_some_and(|v| v.dirty));
    assert!(cache.fill(3, false).victim.is_some_and(|v| v.dirty));
    assert!(cache.write_back(3));
    assert_eq!(
        cache.contents().collect::<Vec<_>>(),
        [(2, false), (3, true)]
    );
    cache.flush();
    assert_eq!(cache.contents().count(), 0);
    assert!(!cache.contains(2) && !cache.write_back(3));
    assert_eq!(cache.fill(4, false).victim, None);
}

/// Every set of every slice gets the same share of consecutive lines, whether sets and slices are
/// powers of two or not.
#[test]
fn consecutive_lines_spread_evenly() {
    let hash = vec![0b1010_0101 << 6, 0b1_1100_0010 << 6];
    for (sets, slices, slice_hash) in [
        (64, 1, vec![]),
        (48, 1, vec![]),
        (2048, 26, vec![]),
        (12, 8, vec![]),
        (64, 4, hash),
    ] {
        let table = machine::Cache {
            slices,
            slice_hash,
            ..machines::l1(sets, 1)
        };
        let cache = Cache::new(&table, 0).unwrap();
        let mut share = vec![0; (sets * slices) as usize];
        let rounds = 16;
        for line in 0..u64::from(sets * slices) * rounds {
            share[cache.set_of(line)] += 1;
        }
        assert!(share.iter().all(|s| *s == rounds), "{sets} x {slices}");
    }
}

/// Mask 0x1040 gives bit 0 of the slice, 0x2000 bit 1: addresses 0x40, 0x1000 and 0x3000 by parity.
#[test]
fn slices_by_parity_of_masks() {
    let table = machine::Cache {
        slices: 4,
        slice_hash: vec![0x1040, 0x2000],
        ..machines::l1(64, 1)
    };
    let cache = Cache::new(&table, 0).unwrap();
    for (address, slice) in [(0, 0), (0x40, 1), (0x1000, 1), (0x1040, 0), (0x3000, 3)] {
        let line = address >> 6;
        let set = cache.set_of(line) as u64;
        assert_eq!(set, slice * 64 + line % 64, "{address:#x}");
    }
}

#[test]
fn what_cannot_be_modelled_says_what_could() {
    let base = machines::l1(64, 12);
    let with = |change: &dyn Fn(&mut machine::Cache)| {
        let mut table = base.clone();
        change(&mut table);
        Cache::new(&table, 0).unwrap_err().to_string()
    };
    for (message, part) in [
        (with(&|c| c.ways = 0), "ways = 0"),
        (with(&|c| c.line_bytes = 48), "line_bytes = 48"),
        (
            with(&|c| (c.slices, c.slice_hash) = (3, vec![0x40, 0x80])),
            "log2(slices) masks",
        ),
        (
            with(&|c| (c.slices, c.slice_hash) = (2, vec![0x20])),
            "within the line",
        ),
        (
            with(&|c| (c.ways, c.replacement) = (6, Replacement::TreesOfFourLru)),
            "a multiple of 4",
        ),
    ] {
        assert!(message.contains(part), "{message}");
        assert!(message.starts_with("cache level 1: "), "{message}");
    }
}

/// A set as a list, first to go first.
#[derive(Default)]
struct NaiveSet(Vec<(u64, bool)>);

#[derive(Clone, Debug)]
enum Step {
    Access(u64, bool),
    Invalidate(u64),
    WriteBack(u64),
    Flush,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        40 => (0..60_u64, any::<bool>()).prop_map(|(line, write)| Step::Access(line, write)),
        4 => (0..60_u64).prop_map(Step::Invalidate),
        4 => (0..60_u64).prop_map(Step::WriteBack),
        1 => Just(Step::Flush),
    ];
    prop::collection::vec(step, 1..300)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// LRU and FIFO do what lists do, on any number of sets, ways and slices.
    #[test]
    fn lru_and_fifo_agree_with_lists(
        steps in steps(), sets in 1..6_u32, ways in 1..5_u32, slices in 1..4_u32, fifo in any::<bool>(),
    ) {
        let replacement = if fifo { Replacement::Fifo } else { Replacement::Lru };
        let table = machine::Cache {
            slices,
            replacement,
            ..machines::l1(sets, ways)
        };
        let mut cache = Cache::new(&table, 0).unwrap();
        let mut naive: HashMap<(u64, u64), NaiveSet> = HashMap::new();
        let (sets, slices) = (u64::from(sets), u64::from(slices));
        let place = |line: u64| (line % slices, line / slices % sets);
        for step in steps {
            match step {
                Step::Access(line, write) => {
                    let set = &mut naive.entry(place(line)).or_default().0;
                    let at = set.iter().position(|(l, _)| *l == line);
                    prop_assert_eq!(cache.lookup(line, write).is_some(), at.is_some());
                    match at {
                        Some(at) => {
                            let (_, dirty) = set[at];
                            set[at].1 = dirty | write;
                            if !fifo {
                                let entry = set.remove(at);
                                set.push(entry);
                            }
                        }
                        None => {
                            let full = set.len() == ways as usize;
                            let gone = full.then(|| set.remove(0));
                            set.push((line, write));
                            let victim = cache.fill(line, write).victim;
                            prop_assert_eq!(victim.map(|v| (v.line, v.dirty)), gone);
                        }
                    }
                }
                Step::Invalidate(line) => {
                    let set = &mut naive.entry(place(line)).or_default().0;
                    let at = set.iter().position(|(l, _)| *l == line);
                    let gone = cache.remove(line).map(|gone| gone.dirty);
                    prop_assert_eq!(gone, at.map(|at| set.remove(at).1));
                }
                Step::WriteBack(line) => {
                    let set = &mut naive.entry(place(line)).or_default().0;
                    let entry = set.iter_mut().find(|(l, _)| *l == line);
                    prop_assert_eq!(cache.write_back(line), entry.is_some());
                    if let Some(entry) = entry {
                        entry.1 = true;
                    }
                }
                Step::Flush => {
                    cache.flush();
                    naive.clear();
                }
            }
        }
        let mut have: Vec<_> = cache.contents().collect();
        let mut want: Vec<_> = naive.into_values().flat_map(|set| set.0).collect();
        have.sort_unstable();
        want.sort_unstable();
        prop_assert_eq!(have, want);
    }

    /// Inclusion property: more ways never make LRU miss more.
    #[test]
    fn lru_misses_never_rise_with_ways(lines in prop::collection::vec(0..40_u64, 1..300)) {
        let count = |ways| misses(&mut cache(2, ways, Replacement::Lru), lines.clone()).len();
        let counts: Vec<usize> = (1..12).map(count).collect();
        prop_assert!(counts.is_sorted_by(|a, b| a >= b), "{:?}", counts);
    }

    /// Whatever the policy: a line is there right after its access, no set overflows, and as many
    /// lines are there as came and did not leave.
    #[test]
    fn no_policy_loses_or_invents_lines(lines in prop::collection::vec(0..400_u64, 1..600)) {
        for (replacement, ways) in [
            (Replacement::Lru, 3),
            (Replacement::TreePlru, 64),
            (Replacement::TreePlru, 128),
            (Replacement::TreesOfFourLru, 12),
            (Replacement::TreesOfFourLru, 20),
            (Replacement::BitPlru, 5),
            (Replacement::BitPlru, 64),
            (Replacement::BitPlru, 130),
            (Replacement::Fifo, 7),
            (Replacement::Random, 12),
        ] {
            let mut cache = cache(2, ways, replacement);
            let mut there = std::collections::BTreeSet::new();
            for &line in &lines {
                let (hit, victim) = access(&mut cache, line);
                prop_assert_eq!(hit, !there.insert(line), "{:?} {}", replacement, ways);
                if let Some(victim) = victim {
                    prop_assert!(there.remove(&victim) && victim % 2 == line % 2);
                }
                prop_assert!(cache.contains(line));
            }
            let mut have: Vec<u64> = cache.contents().map(|(line, _)| line).collect();
            have.sort_unstable();
            prop_assert_eq!(have, there.into_iter().collect::<Vec<_>>());
        }
    }

    /// The shadow is a fully associative LRU list beside the memory of all requests.
    #[test]
    fn causes_agree_with_lists(
        lines in prop::collection::vec(0..40_u64, 1..400), size in 1..20_usize,
    ) {
        let mut shadow = Shadow::new(size, false);
        let (mut list, mut seen): (Vec<u64>, Vec<u64>) = (vec![], vec![]);
        for line in lines {
            let listed = list.contains(&line);
            let expected = match (seen.contains(&line), listed) {
                (false, _) => Cause::Compulsory,
                (true, false) => Cause::Capacity,
                (true, true) => Cause::Conflict,
            };
            prop_assert_eq!(shadow.request(line), expected);
            seen.push(line);
            list.retain(|l| *l != line);
            list.push(line);
            if list.len() > size {
                list.remove(0);
            }
        }
    }
}

/// The table of lines grows past its first size and forgets nothing: 10000 lines, one request each,
/// then the same again, of which the last 100 are still in a list of 100.
#[test]
fn shadow_grows() {
    let mut shadow = Shadow::new(100, false);
    assert!((0..10_000).all(|line| shadow.request(line * 64) == Cause::Compulsory));
    assert!((9_900..10_000).all(|line| shadow.request(line * 64) == Cause::Conflict));
    assert!((0..9_900).all(|line| shadow.request(line * 64) == Cause::Capacity));
    shadow.flush();
    assert_eq!(shadow.request(0), Cause::Compulsory);
}

/// Beside an exclusive level: a victim enters, a request takes it out, so that the next one finds
/// it gone.
#[test]
fn exclusive_shadow_gives_lines_up() {
    let mut shadow = Shadow::new(2, true);
    assert_eq!(shadow.request(1), Cause::Compulsory);
    shadow.evicted(1);
    assert_eq!(shadow.request(1), Cause::Conflict);
    assert_eq!(shadow.request(1), Cause::Capacity);
    (1..=3).for_each(|line| shadow.evicted(line));
    assert_eq!(shadow.request(1), Cause::Capacity, "3 victims, 2 lines");
}
