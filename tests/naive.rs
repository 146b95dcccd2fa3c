//! The naive model against cases worked out by hand: it is the yardstick of the fast model, so
//! that it must itself be right.

#[path = "common/machines.rs"]
mod machines;
#[path = "common/naive/mod.rs"]
mod naive;

use std::collections::{HashMap, HashSet};

use kwalk::machine::{self, Inclusion, Protocol, Replacement};
use naive::coherence::{Coherence, Supplier, Traffic};
use naive::hierarchy::{Hierarchy, Op, Stats, Tally, ThreeC};
use naive::litmus::{LITMUS, state};
use naive::possible::Possible;
use naive::replacement::Policy;
use naive::{Cache, Line};
use proptest::prelude::*;

fn policy(name: &str) -> Replacement {
    name.parse().expect("a policy's name")
}

fn table(name: &str, sets: u32, ways: u32) -> machine::Cache {
    machines::cache(1, sets, ways, policy(name), Inclusion::NonInclusive)
}

fn clean(number: u64) -> Line {
    Line {
        number,
        dirty: false,
        version: 0,
    }
}

/// One access by way: whether it hit, and the way where the line is now.
fn access(cache: &mut Cache, number: u64) -> (bool, usize) {
    match cache.lookup(number, false) {
        Some(way) => (true, way),
        None => (false, cache.fill(clean(number)).way),
    }
}

fn misses(cache: &mut Cache, stream: &[u64]) -> usize {
    let missed = |line: &&u64| !access(cache, **line).0;
    stream.iter().filter(missed).count()
}

fn lines(text: &str) -> Vec<u64> {
    text.bytes().map(u64::from).collect()
}

/// Belady, Nelson and Shedler 1969: with FIFO, more room may mean more misses; LRU is a stack
/// algorithm, under which it cannot. LRU of 3: 1 2 3 4 1 2 5 miss, 1 2 hit, 3 4 5 miss: 10.
/// LRU of 4: 1 2 3 4 miss, 1 2 hit, 5 misses, 1 2 hit, 3 4 5 miss: 8.
#[test]
fn beladys_anomaly() {
    let stream = [1, 2, 3, 4, 1, 2, 5, 1, 2, 3, 4, 5];
    for (name, ways, expected) in [
        ("fifo", 3, 9),
        ("fifo", 4, 10),
        ("lru", 3, 10),
        ("lru", 4, 8),
    ] {
        let mut cache = Cache::new(&table(name, 1, ways));
        assert_eq!(misses(&mut cache, &stream), expected, "{name} of {ways}");
    }
}

/// A cyclic sweep over one line more than there are ways: what comes next is what just went.
#[test]
fn cyclic_sweep_one_line_too_long() {
    for name in ["lru", "fifo", "srrip"] {
        for ways in [1, 2, 3, 4, 8, 12] {
            let mut cache = Cache::new(&table(name, 1, ways));
            let sweep: Vec<u64> = (0..=u64::from(ways)).collect();
            for _ in 0..5 {
                assert_eq!(misses(&mut cache, &sweep), sweep.len(), "{name} of {ways}");
            }
            let mut cache = Cache::new(&table(name, 1, ways));
            let sweep = &sweep[1..];
            assert_eq!(misses(&mut cache, sweep), sweep.len(), "cold");
            assert_eq!(misses(&mut cache, sweep), 0, "{name} of {ways}: it fits");
        }
    }
}

/// A B C D fill ways 0 to 3: all bits point left. A: root right, left node right. B: left node
/// left. D: root left. Now the bits lead to A, though only two lines were used after it; LRU has C
/// as its oldest.
#[test]
fn tree_plru_evicts_what_lru_keeps() {
    for (name, hits_a) in [("lru", true), ("tree-plru", false)] {
        let mut cache = Cache::new(&table(name, 1, 4));
        assert_eq!(misses(&mut cache, &lines("ABCDABD")), 4);
        assert_eq!(misses(&mut cache, &lines("E")), 1);
        assert_eq!(cache.peek(lines("A")[0]).is_some(), hits_a, "{name}");
        assert_eq!(cache.peek(lines("C")[0]).is_some(), !hits_a, "{name}");
    }
}

/// Ways that lines take which come one after another and are never used again.
///
/// - tree-plru of 3: leaves 0 1 | 2. After 0 1 2 the root points left, to 0; then right, to 2 as
///   there is no other; then left, to 1; then right again: every other line takes way 2.
/// - tree-plru of 6: leaves 0 1 2 3 | 4 5, where the node above 4 5 has no right half. After 0 to
///   5: root left, then left, left: 0; right half: 4 (node 4|5 points to 4 since 5 was used); 2;
///   5; 1; 4; 3; 5.
/// - trees-of-four-lru of 8: tree after tree fills; then they take turns, each as a tree-plru of four.
/// - bit-plru of 3: bits 100 110 001 (2 was the last, all others cleared), 101 (way 0), 010 (way 1
///   was the last), 110 (way 0), 001 (way 2).
/// - nru of 3: as round robin, since all bits are set again at once.
#[test]
fn ways_of_lines_never_used_again() {
    let cases: [(&str, u32, &[usize]); 6] = [
        ("tree-plru", 3, &[0, 1, 2, 0, 2, 1, 2, 0, 2, 1, 2]),
        ("tree-plru", 6, &[0, 1, 2, 3, 4, 5, 0, 4, 2, 5, 1, 4, 3, 5]),
        (
            "trees-of-four-lru",
            8,
            &[0, 1, 2, 3, 4, 5, 6, 7, 0, 4, 2, 6, 1, 5, 3, 7],
        ),
        ("bit-plru", 3, &[0, 1, 2, 0, 1, 0, 2]),
        ("bit-plru", 1, &[0, 0, 0]),
        ("nru", 3, &[0, 1, 2, 0, 1, 2, 0]),
    ];
    for (name, ways, expected) in cases {
        let mut cache = Cache::new(&table(name, 1, ways));
        let taken: Vec<usize> = (0..expected.len() as u64)
            .map(|line| access(&mut cache, line).1)
            .collect();
        assert_eq!(taken, expected, "{name} of {ways}");
    }
}

/// NRU of 3 ways, A B C: bits 000. D: all set, way 0. A use of C, way 2, leaves 010: E takes way
/// 1. Now 000 again: F takes way 0, D's.
#[test]
fn nru_spares_the_used() {
    let mut cache = Cache::new(&table("nru", 1, 3));
    for (line, expected) in lines("ABCDCEF").into_iter().zip([
        (false, 0),
        (false, 1),
        (false, 2),
        (false, 0),
        (true, 2),
        (false, 1),
        (false, 0),
    ]) {
        assert_eq!(access(&mut cache, line), expected);
    }
}

/// A used twice has RRPV 0; in a set of four, lines 1 2 3 come at 2. For line 4 all rise by one: A
/// has 1, the others 3 and go in turn; so again for line 7 (A has 2); for line 10 A has 3 too, and
/// as the leftmost it goes. LRU loses A to the fourth line.
#[test]
fn srrip_keeps_a_reused_line_through_a_scan() {
    for (name, most_scanned) in [("srrip", 9), ("lru", 3)] {
        let a = 100;
        let mut cache = Cache::new(&table(name, 1, 4));
        misses(&mut cache, &[a, a]);
        for scanned in 1..=10 {
            access(&mut cache, scanned);
            let is_kept = cache.peek(a).is_some();
            assert_eq!(is_kept, scanned <= most_scanned, "{name}, {scanned} lines");
        }
    }
}

/// A cyclic sweep over five lines in four ways. BRRIP whose draws all say distant: line 5 takes way
/// 0, whose prediction is 3, and so does line 1; lines 2 3 4 stay. If all draws say long, it is
/// SRRIP, and all miss.
#[test]
fn brrip_resists_thrashing() {
    for (draw, misses_per_sweep) in [(false, 2), (true, 5)] {
        let mut cache = Cache::with_draw(&table("brrip", 1, 4), Box::new(move || draw));
        assert_eq!(misses(&mut cache, &[1, 2, 3, 4, 5]), 5);
        for _ in 0..5 {
            let missed = misses(&mut cache, &[1, 2, 3, 4, 5]);
            assert_eq!(missed, misses_per_sweep, "draw = {draw}");
        }
    }
}

/// 64 sets of 4 ways, each swept over five lines. The leaders of SRRIP, sets 0 and 32, miss all
/// five; those of BRRIP, 16 and 48, two: the counter rises by 6 a sweep from 512, and the others
/// soon do as BRRIP does. At the top it stays, but for a miss of both leaders: one up, one down.
#[test]
fn drrip_follows_the_leaders_that_miss_less() {
    let mut cache = Cache::new(&table("drrip", 64, 4));
    let sweep = |cache: &mut Cache| {
        let mut missed = [0; 64];
        for i in 0..5 * 64 {
            missed[i as usize % 64] += misses(cache, &[i]);
        }
        missed
    };
    assert_eq!(sweep(&mut cache), [5; 64], "cold");
    assert_eq!(cache.psel, 512, "both miss alike: up and down again");
    sweep(&mut cache);
    assert_eq!(cache.psel, 518);
    for _ in 0..100 {
        sweep(&mut cache);
    }
    for (set, missed) in sweep(&mut cache).into_iter().enumerate() {
        let leads_srrip = set % 32 == 0;
        assert_eq!(missed, if leads_srrip { 5 } else { 2 }, "set {set}");
    }
    assert!(cache.psel >= 1022, "a miss of a BRRIP leader was the last");
}

/// Accesses in a set under a QLRU name; for each: whether it hits, what the ways then hold, and
/// their ages.
type QlruSteps = &'static [(&'static str, bool, &'static str, [u8; 3])];

/// Three ways each, ages 333 at power-up. Derivations of the steps that are not plain:
///
/// - H00_M1_R2_U1: vacant ways fill from the right. C makes the others, 1 and 1, rise to 3; the hit
///   on A makes 1 and 1 rise to 3; F makes 0 and 0 rise to 3.
/// - H11_M1_R0_U0: C would leave 111, so all rise to 333, itself included; likewise E, and G (011
///   to 233). A hit at age 1 gives 0, at age 2 or 3 gives 1.
/// - H21_M2_R0_U0_UMO: ages rise only when D comes (022 to 133), E (122 to 233), G (222 to 333).
/// - H11_M1_R1_U2 (Ivy Bridge's L3): C leaves 111, which rise by one only; D finds no 3 and takes
///   the leftmost.
#[test]
fn qlru_by_hand() {
    let cases: [(&str, QlruSteps); 4] = [
        (
            "QLRU_H00_M1_R2_U1",
            &[
                ("A", false, "--A", [3, 3, 1]),
                ("B", false, "-BA", [3, 1, 1]),
                ("C", false, "CBA", [1, 3, 3]),
                ("D", false, "CDA", [1, 1, 3]),
                ("A", true, "CDA", [3, 3, 0]),
                ("E", false, "EDA", [1, 3, 0]),
                ("E", true, "EDA", [0, 3, 0]),
                ("F", false, "EFA", [3, 1, 3]),
            ],
        ),
        (
            "QLRU_H11_M1_R0_U0",
            &[
                ("A", false, "A--", [1, 3, 3]),
                ("B", false, "AB-", [1, 1, 3]),
                ("C", false, "ABC", [3, 3, 3]),
                ("B", true, "ABC", [3, 1, 3]),
                ("D", false, "DBC", [1, 1, 3]),
                ("E", false, "DBE", [3, 3, 3]),
                ("D", true, "DBE", [1, 3, 3]),
                ("D", true, "DBE", [0, 3, 3]),
                ("F", false, "DFE", [0, 1, 3]),
                ("G", false, "DFG", [2, 3, 3]),
                ("D", true, "DFG", [1, 3, 3]),
            ],
        ),
        (
            "QLRU_H21_M2_R0_U0_UMO",
            &[
                ("A", false, "A--", [2, 3, 3]),
                ("B", false, "AB-", [2, 2, 3]),
                ("C", false, "ABC", [2, 2, 2]),
                ("A", true, "ABC", [1, 2, 2]),
                ("A", true, "ABC", [0, 2, 2]),
                ("D", false, "ADC", [1, 2, 3]),
                ("C", true, "ADC", [1, 2, 2]),
                ("E", false, "AEC", [2, 2, 3]),
                ("F", false, "AEF", [2, 2, 2]),
                ("G", false, "GEF", [2, 3, 3]),
            ],
        ),
        (
            "QLRU_H11_M1_R1_U2",
            &[
                ("A", false, "A--", [1, 3, 3]),
                ("B", false, "AB-", [1, 1, 3]),
                ("C", false, "ABC", [2, 2, 2]),
                ("D", false, "DBC", [2, 3, 3]),
                ("E", false, "DEC", [2, 1, 3]),
                ("F", false, "DEF", [3, 2, 2]),
                ("E", true, "DEF", [3, 1, 2]),
                ("G", false, "GEF", [2, 2, 3]),
            ],
        ),
    ];
    for (name, steps) in cases {
        let mut cache = Cache::new(&table(name, 1, 3));
        for (at, (line, hit, held, aged)) in steps.iter().enumerate() {
            let step = format!("{name}, step {at}: {line}");
            assert_eq!(access(&mut cache, lines(line)[0]).0, *hit, "{step}");
            let letter = |way: &Option<Line>| way.map_or('-', |l| l.number as u8 as char);
            let ways: String = cache.sets[0].ways.iter().map(letter).collect();
            assert_eq!(ways, *held, "{step}");
            let Policy::Qlru { ages, .. } = &cache.sets[0].policy else {
                panic!("{name} is a QLRU");
            };
            assert_eq!(ages, aged, "{step}");
        }
    }
}

/// QLRU with one way: under U1 and U3 there is no other way to rise; R0 then finds no age 3.
/// H00_M0_R1_U3 with two: B leaves 00, A's rises to 1; C and D find no 3 and take way 0, each
/// raising B by one; E brings B to 3, F takes its place.
#[test]
fn qlru_of_few_ways() {
    let mut cache = Cache::new(&table("QLRU_H00_M1_R0_U1", 1, 1));
    assert_eq!(misses(&mut cache, &[1, 1, 2, 2, 1]), 3);
    let mut cache = Cache::new(&table("QLRU_H00_M0_R1_U3", 1, 2));
    let taken: Vec<usize> = (0..6).map(|line| access(&mut cache, line).1).collect();
    assert_eq!(taken, [0, 1, 0, 0, 0, 1]);
}

/// Sets of slices. Modulo 3 with 2 sets each: line 7 = 2 * 3 + 1 is in slice 1, set 2 % 2 = 0. By
/// hash, bit 0 from address bits 6 and 8, bit 1 from bit 7: line 5 = 0b101 has bits 6 and 8, so that
/// bit 0 is 0, and bit 1 is 0; line 6 = 0b110 has bits 7 and 8: slice 3.
#[test]
fn sets_of_slices() {
    let mut table = table("lru", 2, 1);
    table.slices = 3;
    let cache = Cache::new(&table);
    let sets: Vec<usize> = (0..8).map(|line| cache.set_of(line)).collect();
    assert_eq!(sets, [0, 2, 4, 1, 3, 5, 0, 2]);
    table.slices = 4;
    table.slice_hash = vec![0b1_0100_0000, 0b1000_0000];
    let cache = Cache::new(&table);
    assert_eq!([5, 6, 1].map(|line| cache.set_of(line)), [1, 6, 3]);
}

/// One set each: an L1 of two lines under an L2 of two (inclusive) or one (exclusive).
#[test]
fn two_levels_by_hand() {
    let of = |inclusion, ways| {
        let l2 = machines::cache(2, 1, ways, Replacement::Lru, inclusion);
        Hierarchy::new(&[machines::l1(1, 2), l2])
    };
    // Store 0, load 1: both levels hold both. Load 0 in L1 only refreshes L1; line 2 makes L2's
    // oldest go, which is 0: dirty in L1 alone, taken from there, written to memory.
    let mut h = of(Inclusion::Inclusive, 2);
    let steps = [(0, Op::Store), (1, Op::Load), (0, Op::Load), (2, Op::Load)];
    let served = steps.map(|(line, op)| h.access(line, op).level);
    assert_eq!(served, [2, 2, 0, 2]);
    assert_eq!(h.levels[0].stats.back_invalidations, 1);
    assert_eq!(h.levels[1].stats.writebacks, 1);
    assert_eq!(h.memory, HashMap::from([(0, 1)]));
    assert_eq!(h.levels[0].stats.evictions, 0, "its place was vacant");

    // Store 0, load 1, load 2: 0 goes to L2, dirty. Load 0: it comes back and 1 goes out.
    let mut h = of(Inclusion::Exclusive, 1);
    for (line, op) in [(0, Op::Store), (1, Op::Load), (2, Op::Load)] {
        assert_eq!(h.access(line, op).level, 2);
    }
    assert!(h.levels[1].cache.peek(0).unwrap().dirty);
    assert_eq!(h.access(0, Op::Load).level, 1);
    assert_eq!(h.levels[1].cache.contents(), [clean(1)]);
    assert!(h.levels[0].cache.peek(0).unwrap().dirty);
    let l2 = Stats {
        loads: Tally {
            requests: 3,
            hits: 1,
            misses: 2,
        },
        stores: Tally {
            requests: 1,
            hits: 0,
            misses: 1,
        },
        fills: 2,
        removals: 1,
        ..Stats::default()
    };
    assert_eq!(h.levels[1].stats, l2);
    assert_eq!(h.memory_writebacks, 0);
}

/// Two lines of one set of a direct-mapped cache of two sets: 0 and 2 are compulsory, then they
/// only conflict; 1 and 3 after them leave room for two of four lines: capacity.
#[test]
fn three_c_by_hand() {
    let mut causes = ThreeC::new(2);
    let stream = [(0, 0), (2, 0), (0, 2), (2, 2), (1, 0), (3, 0), (0, 1)];
    for (line, cause) in stream {
        let before = causes.causes[cause];
        causes.request(line, true);
        assert_eq!(causes.causes[cause], before + 1, "line {line}");
    }
}

/// Each step of each table: who supplies, and the states of all cores.
#[test]
fn litmus() {
    for (what, protocol, steps) in LITMUS {
        let mut cores = Coherence::new(protocol, 3);
        for (at, &(core, op, supplier, after)) in steps.iter().enumerate() {
            let step = format!("{what}, {protocol:?}, step {at}");
            assert_eq!(cores.access(core, 7, op), supplier, "{step}");
            let after: Vec<_> = after.chars().map(state).collect();
            assert_eq!(cores.states(7), after, "{step}");
            assert_eq!(cores.fault(7), None, "{step}");
        }
    }
}

/// One writes, two read, the writer writes again: under MESI the first reader gets the line from
/// the writer, which writes it back, the second from below; under MOESI both from the owner and
/// nothing is written back; under MESIF the second from the first. The second write is an upgrade
/// and takes two copies away.
#[test]
fn traffic_by_hand() {
    for (protocol, transfers, writebacks) in [
        (Protocol::Mesi, 1, 1),
        (Protocol::Moesi, 2, 0),
        (Protocol::Mesif, 2, 1),
    ] {
        let mut cores = Coherence::new(protocol, 3);
        for (core, op) in [(0, Op::Store), (1, Op::Load), (2, Op::Load), (0, Op::Store)] {
            cores.access(core, 0, op);
        }
        let expected = Traffic {
            transfers,
            upgrades: 1,
            invalidations: 2,
            writebacks,
        };
        assert_eq!(cores.traffic, expected, "{protocol:?}");
    }
}

fn protocols() -> impl Strategy<Value = Protocol> {
    prop::sample::select(vec![Protocol::Mesi, Protocol::Moesi, Protocol::Mesif])
}

fn inclusions() -> impl Strategy<Value = Inclusion> {
    prop::sample::select(vec![
        Inclusion::Inclusive,
        Inclusion::NonInclusive,
        Inclusion::Exclusive,
    ])
}

/// One to four small levels, of any inclusion but for level 1, under any policy with a name here.
fn stacks() -> impl Strategy<Value = Vec<machine::Cache>> {
    let names = vec![
        "lru",
        "fifo",
        "nru",
        "tree-plru",
        "srrip",
        "QLRU_H11_M1_R0_U0",
    ];
    let level = (1u32..4, 1u32..5, inclusions(), prop::sample::select(names));
    prop::collection::vec(level, 1..5).prop_map(|levels| {
        let table = |(k, (sets, ways, inclusion, name)): (usize, (u32, u32, Inclusion, &str))| {
            let inclusion = if k == 0 {
                Inclusion::NonInclusive
            } else {
                inclusion
            };
            machines::cache(k as u8 + 1, sets, ways, policy(name), inclusion)
        };
        levels.into_iter().enumerate().map(table).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 1024,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// nanoBench has SRRIP as QLRU_H00_M2_R0_U0_UMO; so they are, as long as nothing is invalidated.
    #[test]
    fn srrip_is_a_qlru(ways in 1u32..9, stream in prop::collection::vec(0u64..12, 0..200)) {
        let mut srrip = Cache::new(&table("srrip", 1, ways));
        let mut qlru = Cache::new(&table("QLRU_H00_M2_R0_U0_UMO", 1, ways));
        for line in stream {
            prop_assert_eq!(access(&mut srrip, line), access(&mut qlru, line));
        }
    }

    /// What may happen under BRRIP and DRRIP includes what the naive cache does, whatever it draws.
    #[test]
    fn possible_states_include_the_naive_ones(
        drrip in any::<bool>(),
        sets in prop::sample::select(vec![1u32, 2, 17, 33]),
        ways in 1u32..6,
        draws in prop::collection::vec(any::<bool>(), 1..50),
        stream in prop::collection::vec((0u64..8, 0usize..4), 0..300),
    ) {
        let table = table(if drrip { "drrip" } else { "brrip" }, sets, ways);
        let mut draws = draws.into_iter().cycle();
        let draw = Box::new(move || draws.next().expect("a cycle has no end"));
        let mut cache = Cache::with_draw(&table, draw);
        let mut possible = Possible::new(&table);
        for (tag, set) in stream {
            let line = tag * u64::from(sets) + [0, 1, 16, 32][set] % u64::from(sets);
            let way = cache.lookup(line, false);
            prop_assert_eq!(possible.lookup(line), way);
            if way.is_none() {
                let filled = cache.fill(clean(line));
                let victim = filled.victim.map(|victim| victim.number);
                prop_assert_eq!(possible.filled(line, filled.way), Ok(victim));
            }
        }
    }

    /// On any stack of levels: no load gets old data and none are lost; what came in and did not go
    /// is there; an inclusive level holds what the levels inside hold; each level is asked what the
    /// one inside misses.
    #[test]
    fn data_go_through_the_levels_unharmed(
        tables in stacks(),
        stream in prop::collection::vec((0u64..24, any::<bool>()), 0..300),
    ) {
        let mut h = Hierarchy::new(&tables);
        for (line, store) in stream {
            let newest = h.newest.get(&line).copied().unwrap_or(0);
            let op = if store { Op::Store } else { Op::Load };
            prop_assert_eq!(h.access(line, op).version, newest, "old data of line {}", line);
            prop_assert_eq!(h.lost(), Vec::<u64>::new());
            for (k, level) in h.levels.iter().enumerate() {
                prop_assert_eq!(level.cache.contents().len() as u64, h.stayed(k));
                if level.inclusion == Inclusion::Inclusive {
                    let inner = h.levels[..k].iter().flat_map(|inner| inner.cache.contents());
                    for line in inner {
                        prop_assert!(level.cache.peek(line.number).is_some(), "level {}", k + 1);
                    }
                }
            }
        }
        for pair in h.levels.windows(2) {
            prop_assert_eq!(pair[0].stats.loads.misses, pair[1].stats.loads.requests);
            prop_assert_eq!(pair[0].stats.stores.misses, pair[1].stats.stores.requests);
        }
        let last = h.levels.last().expect("one level at least");
        prop_assert_eq!(h.memory_writebacks, last.stats.writebacks);
    }

    /// States of all cores go together, and a stored line has one dirty copy until it is written
    /// back; after that it has none.
    #[test]
    fn coherence_keeps_one_owner(
        protocol in protocols(),
        cores in 1usize..6,
        stream in prop::collection::vec((0usize..6, 0u64..3, 0u8..5), 0..300),
    ) {
        let mut all = Coherence::new(protocol, cores);
        let mut dirty_lines = HashSet::new();
        for (core, line, what) in stream {
            let core = core % cores;
            let writebacks = all.traffic.writebacks;
            match what {
                0 => { all.evict(core, line); }
                1 | 2 => { all.access(core, line, Op::Store); dirty_lines.insert(line); }
                _ => {
                    let held = all.states(line)[core];
                    let supplier = all.access(core, line, Op::Load);
                    prop_assert_eq!(supplier == Supplier::Own, held != state('I'));
                }
            }
            if all.traffic.writebacks > writebacks {
                prop_assert!(dirty_lines.remove(&line), "a clean line was written back");
            }
            prop_assert_eq!(all.fault(line), None);
            let dirty = all.states(line).iter().filter(|state| state.is_dirty()).count();
            prop_assert_eq!(dirty, usize::from(dirty_lines.contains(&line)));
        }
    }
}
