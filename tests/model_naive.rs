//! The model against the naive one, on random streams: every policy, every kind of hierarchy.
//!
//! A policy that the model refuses as yet has its test ignored: to enable it, take the line out.

#[path = "common/machines.rs"]
mod machines;
#[path = "common/naive/mod.rs"]
mod naive;

use std::collections::{BTreeSet, HashMap};

use kwalk::machine::{self, Inclusion, Replacement};
use kwalk::model::cache::Cache;
use kwalk::model::hierarchy::{self, Hierarchy, Kind, LevelStats};
use naive::hierarchy::{Op, Stats, ThreeC};
use naive::possible::Possible;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

/// Policies whose victims follow from the accesses alone and that the model has.
const KNOWN: [&str; 5] = ["lru", "fifo", "bit-plru", "tree-plru", "trees-of-four-lru"];

/// Those that it is to have.
const NEW: [&str; 7] = [
    "nru",
    "srrip",
    "QLRU_H00_M1_R2_U1",
    "QLRU_H11_M1_R0_U0",
    "QLRU_H11_M1_R1_U2",
    "QLRU_H00_M1_R0_U1",
    "QLRU_H21_M2_R0_U0_UMO",
];

/// Whether the model's tree-plru takes ways that are no power of two.
const TREE_PLRU_OF_ANY_WAYS: bool = true;

/// Every name that a QLRU may have.
fn qlru_names() -> Vec<String> {
    let mut names = Vec::new();
    for hit in ["21", "20", "11", "10", "00"] {
        for rest in 0..4 * 3 * 4 * 2 {
            let (miss, replace, update) = (rest % 4, rest / 4 % 3, rest / 12 % 4);
            let umo = if rest / 48 == 1 { "_UMO" } else { "" };
            names.push(format!("QLRU_H{hit}_M{miss}_R{replace}_U{update}{umo}"));
        }
    }
    names.retain(|name| name.parse::<Replacement>().is_ok());
    names
}

/// A number of ways, at most eight, that `name` takes, from any number.
fn ways_for(name: &str, any: u32) -> u32 {
    match name {
        "trees-of-four-lru" => 4 * (any % 2 + 1),
        "tree-plru" if !TREE_PLRU_OF_ANY_WAYS => 1 << (any % 4),
        _ => any % 8 + 1,
    }
}

/// How many slices, and how a line's slice is found.
fn slicings() -> impl Strategy<Value = (u32, Vec<u64>)> {
    let mask = (1u64..1 << 10).prop_map(|bits| bits << 6);
    prop_oneof![
        3 => Just((1, Vec::new())),
        1 => (2u32..4).prop_map(|slices| (slices, Vec::new())),
        1 => prop::collection::vec(mask, 1..3).prop_map(|hash| (1 << hash.len(), hash)),
    ]
}

/// A small cache of one of these policies.
fn caches(names: Vec<String>) -> impl Strategy<Value = machine::Cache> {
    let name = prop::sample::select(names);
    (name, 1u32..6, any::<u32>(), slicings()).prop_map(|(name, sets, ways, slicing)| {
        let policy = name.parse().expect("a policy's name");
        let ways = ways_for(&name, ways);
        let mut table = machines::cache(1, sets, ways, policy, Inclusion::NonInclusive);
        (table.slices, table.slice_hash) = slicing;
        table
    })
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| name.to_string()).collect()
}

/// What a test does with a cache; lines are numbered within a universe that the cache sets.
#[derive(Clone, Copy, Debug)]
enum Step {
    Load(u64),
    Store(u64),
    Invalidate(u64),
}

/// Mostly accesses to any of a few lines, with runs of lines one after another in between.
fn steps() -> impl Strategy<Value = Vec<Step>> {
    let run = prop_oneof![
        6 => (any::<u64>(), any::<bool>()).prop_map(|(line, store)| {
            vec![if store { Step::Store(line) } else { Step::Load(line) }]
        }),
        1 => (any::<u64>(), 1u64..30).prop_map(|(start, lines)| {
            (0..lines).map(|i| Step::Load(start.wrapping_add(i))).collect()
        }),
        1 => any::<u64>().prop_map(|line| vec![Step::Invalidate(line)]),
    ];
    prop::collection::vec(run, 1..120).prop_map(|runs| runs.concat())
}

/// Line of a step, of half as many again as the cache has, and three more.
fn line_of(any: u64, table: &machine::Cache) -> u64 {
    let lines = table.size_bytes() / u64::from(table.line_bytes);
    any % (lines + lines / 2 + 3)
}

/// Under these the naive model's vacant way is but one of those that the policy leaves open.
fn is_way_free(replacement: Replacement) -> bool {
    matches!(replacement, Replacement::Lru | Replacement::Fifo)
}

/// Run both caches side by side: hits, ways, victims and contents are the same.
fn compare_caches(table: &machine::Cache, steps: &[Step]) -> Result<(), TestCaseError> {
    let mut cache = Cache::new(table, 1).expect("the model has the policy");
    let mut naive = naive::Cache::new(table);
    let ways = table.ways as usize;
    let mut slots = HashMap::new();
    for (at, step) in steps.iter().enumerate() {
        let (any, write) = match *step {
            Step::Load(any) => (any, false),
            Step::Store(any) => (any, true),
            Step::Invalidate(any) => {
                let line = line_of(any, table);
                let gone = naive.remove(line).map(|line| line.dirty);
                prop_assert_eq!(
                    cache.remove(line).map(|gone| gone.dirty),
                    gone,
                    "step {}",
                    at
                );
                continue;
            }
        };
        let line = line_of(any, table);
        let set = naive.set_of(line);
        let slot = cache.lookup(line, write);
        let hit = naive.lookup(line, write);
        prop_assert_eq!(slot.is_some(), hit.is_some(), "step {}: line {}", at, line);
        if let Some(slot) = slot {
            prop_assert_eq!(slot, slots[&line], "step {}: a line stays where it is", at);
            continue;
        }
        let fill = cache.fill(line, write);
        let filled = naive.fill(naive::Line {
            number: line,
            dirty: write,
            version: 0,
        });
        let victim = fill.victim.map(|victim| (victim.line, victim.dirty));
        let expected = filled.victim.map(|victim| (victim.number, victim.dirty));
        prop_assert_eq!(victim, expected, "step {}: line {}", at, line);
        prop_assert_eq!(fill.slot / ways, set, "step {}: set of line {}", at, line);
        if !is_way_free(table.replacement) {
            prop_assert_eq!(fill.slot % ways, filled.way, "step {}: line {}", at, line);
        }
        slots.insert(line, fill.slot);
        prop_assert!(cache.contains(line));
    }
    let mut held: Vec<(u64, bool)> = cache.contents().collect();
    held.sort_unstable();
    let expected: Vec<(u64, bool)> = naive
        .contents()
        .iter()
        .map(|line| (line.number, line.dirty))
        .collect();
    prop_assert_eq!(held, expected);
    Ok(())
}

/// Under BRRIP and DRRIP: some draws explain every way and victim that was seen.
fn check_possible(table: &machine::Cache, steps: &[Step]) -> Result<(), TestCaseError> {
    let mut cache = Cache::new(table, 1).expect("the model has the policy");
    let mut possible = Possible::new(table);
    let ways = table.ways as usize;
    for (at, step) in steps.iter().enumerate() {
        let line = match *step {
            Step::Load(any) | Step::Store(any) => line_of(any, table),
            Step::Invalidate(any) => {
                let line = line_of(any, table);
                let was_there = cache.remove(line).is_some();
                prop_assert_eq!(was_there, possible.remove(line), "step {}", at);
                continue;
            }
        };
        let way = cache.lookup(line, false).map(|slot| slot % ways);
        prop_assert_eq!(way, possible.lookup(line), "step {}: line {}", at, line);
        if way.is_none() {
            let fill = cache.fill(line, false);
            let victim = possible
                .filled(line, fill.slot % ways)
                .map_err(|reason| TestCaseError::fail(format!("step {at}: {reason}")))?;
            prop_assert_eq!(fill.victim.map(|v| v.line), victim, "step {}", at);
        }
    }
    Ok(())
}

/// One to four levels as a machine may have them, under these policies; level 1 is not exclusive.
fn stacks(names: Vec<String>) -> impl Strategy<Value = Vec<machine::Cache>> {
    let inclusions = prop::sample::select(vec![
        Inclusion::Inclusive,
        Inclusion::NonInclusive,
        Inclusion::Exclusive,
    ]);
    prop::collection::vec((caches(names), inclusions), 1..5).prop_map(|levels| {
        let level = |(k, (mut table, inclusion)): (usize, (machine::Cache, Inclusion))| {
            table.level = k as u8 + 1;
            // Small enough for lines to go from all levels.
            table.sets = table.sets.min(2);
            table.ways = if table.ways > 4 {
                table.ways / 2
            } else {
                table.ways
            };
            if table.slices > 2 {
                (table.slices, table.slice_hash) = (1, Vec::new());
            }
            table.inclusion = match (k, inclusion) {
                (0, Inclusion::Exclusive) => Inclusion::NonInclusive,
                _ => inclusion,
            };
            table
        };
        levels.into_iter().enumerate().map(level).collect()
    })
}

/// The naive counts in the model's words; it knows causes of level 1 only.
fn in_words_of_model(stats: &Stats, causes: [u64; 3]) -> LevelStats {
    let tally = |tally: naive::hierarchy::Tally| hierarchy::Tally {
        requests: tally.requests,
        hits: tally.hits,
        misses: tally.misses,
    };
    LevelStats {
        loads: tally(stats.loads),
        stores: tally(stats.stores),
        causes,
        evictions: stats.evictions,
        writebacks: stats.writebacks,
        back_invalidations: stats.back_invalidations,
        ..LevelStats::default()
    }
}

/// A sorted list of a level's lines, each with whether it is dirty.
fn held(hierarchy: &Hierarchy, level: usize) -> Vec<(u64, bool)> {
    let mut lines: Vec<(u64, bool)> = hierarchy.cache(level).contents().collect();
    lines.sort_unstable();
    lines
}

/// Run both hierarchies side by side: who serves, what each level then holds, and all counts.
fn compare_stacks(tables: &[machine::Cache], stream: &[(u64, bool)]) -> Result<(), TestCaseError> {
    let mut model = Hierarchy::new(tables, &[1], 1).expect("the model has the policies");
    let mut naive = naive::hierarchy::Hierarchy::new(tables);
    let mut causes = ThreeC::new((tables[0].size_bytes() / 64) as usize);
    for (at, &(line, store)) in stream.iter().enumerate() {
        let (kind, op) = match store {
            true => (Kind::Store, Op::Store),
            false => (Kind::Load, Op::Load),
        };
        let served = naive.access(line, op).level;
        causes.request(line, served > 0);
        prop_assert_eq!(
            model.access(line, kind).level(),
            served,
            "step {}: {}",
            at,
            line
        );
        for (k, level) in naive.levels.iter().enumerate() {
            let lines = level.cache.contents();
            let expected: Vec<_> = lines.iter().map(|line| (line.number, line.dirty)).collect();
            prop_assert_eq!(held(&model, k), expected, "step {}: level {}", at, k + 1);
            let causes = if k == 0 { causes.causes } else { [0; 3] };
            let expected = in_words_of_model(&level.stats, causes);
            let stats = model.stats()[k];
            prop_assert_eq!(stats, expected, "step {}: level {}", at, k + 1);
        }
    }
    Ok(())
}

/// What must hold of any hierarchy, random replacement too, from its counts and contents alone.
fn check_conservation(
    tables: &[machine::Cache],
    stream: &[(u64, bool)],
) -> Result<(), TestCaseError> {
    let mut model = Hierarchy::new(tables, &[1], 1).expect("the model has the policies");
    let levels = tables.len();
    let mut stored = BTreeSet::new();
    for &(line, store) in stream {
        let before = model.stats()[levels - 1].writebacks;
        let dirty_before = dirty_lines(&model, levels);
        model.access(line, if store { Kind::Store } else { Kind::Load });
        if store {
            stored.insert(line);
        }
        let stats = model.stats();
        let dirty = dirty_lines(&model, levels);
        let written = stats[levels - 1].writebacks - before;
        // Dirty lines stop being dirty only by a writeback to memory, and are made by stores only.
        let cleaned = dirty_before.difference(&dirty).count() as u64;
        prop_assert!(cleaned <= written, "{} dirty lines lost", cleaned - written);
        prop_assert!(dirty.is_subset(&stored));
        let l1 = held(&model, 0);
        prop_assert!(
            l1.iter()
                .any(|&(held, is_dirty)| held == line && (is_dirty || !store))
        );
        let misses = stats[0].loads.misses + stats[0].stores.misses;
        let gone = stats[0].evictions + stats[0].back_invalidations;
        prop_assert_eq!(misses, gone + l1.len() as u64, "every miss fills level 1");
        prop_assert_eq!(misses, stats[0].causes.iter().sum::<u64>());
        for (k, table) in tables.iter().enumerate() {
            for tally in [stats[k].loads, stats[k].stores] {
                prop_assert_eq!(tally.requests, tally.hits + tally.misses);
            }
            prop_assert!(stats[k].writebacks <= stats[k].evictions);
            if k > 0 {
                prop_assert_eq!(stats[k].loads.requests, stats[k - 1].loads.misses);
                prop_assert_eq!(stats[k].stores.requests, stats[k - 1].stores.misses);
            }
            if table.inclusion == Inclusion::Inclusive {
                let mut inner = (0..k).flat_map(|inner| held(&model, inner));
                let missing = inner.find(|&(line, _)| !model.cache(k).contains(line));
                prop_assert_eq!(missing, None, "level {} is inclusive", k + 1);
            }
        }
    }
    Ok(())
}

/// Lines that are dirty in any level.
fn dirty_lines(model: &Hierarchy, levels: usize) -> BTreeSet<u64> {
    (0..levels)
        .flat_map(|level| model.cache(level).contents())
        .filter_map(|(line, dirty)| dirty.then_some(line))
        .collect()
}

fn streams() -> impl Strategy<Value = Vec<(u64, bool)>> {
    let access = (0u64..40, prop::bool::weighted(0.3));
    prop::collection::vec(access, 1..150)
}

fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(cases(4096))]

    /// Policies that follow from the accesses alone.
    #[test]
    fn caches_agree(table in caches(owned(&KNOWN)), steps in steps()) {
        compare_caches(&table, &steps)?;
    }

    /// As above.
    #[test]
    fn new_caches_agree(table in caches(owned(&NEW)), steps in steps()) {
        compare_caches(&table, &steps)?;
    }

    /// All 320 names.
    #[test]
    fn qlru_caches_agree(table in caches(qlru_names()), steps in steps()) {
        compare_caches(&table, &steps)?;
    }

    /// A chain of levels; every level under any policy of its own.
    #[test]
    fn stacks_agree(tables in stacks(owned(&KNOWN)), stream in streams()) {
        compare_stacks(&tables, &stream)?;
    }

    /// As above.
    #[test]
    fn new_stacks_agree(tables in stacks(owned(&NEW)), stream in streams()) {
        compare_stacks(&tables, &stream)?;
    }

    /// Nothing is lost and nothing comes from nowhere.
    #[test]
    fn lines_are_conserved(
        tables in stacks(owned(&["random", "lru", "tree-plru"])),
        stream in streams(),
    ) {
        check_conservation(&tables, &stream)?;
    }

    /// As above.
    #[test]
    fn lines_are_conserved_under_rrip(
        tables in stacks(owned(&["brrip", "drrip"])),
        stream in streams(),
    ) {
        check_conservation(&tables, &stream)?;
    }

    /// A cache with random replacement: a vacant way first, else some line of the set.
    #[test]
    fn random_takes_vacant_ways_first(table in caches(owned(&["random"])), steps in steps()) {
        let mut cache = Cache::new(&table, 1).expect("the model has random replacement");
        // The naive model has no random replacement: of it, which line goes to which set.
        let shape = naive::Cache::new(&machine::Cache {
            replacement: Replacement::Lru,
            ..table.clone()
        });
        let mut sets: HashMap<usize, BTreeSet<u64>> = HashMap::new();
        for step in steps {
            let (Step::Load(any) | Step::Store(any) | Step::Invalidate(any)) = step;
            let line = line_of(any, &table);
            let set = sets.entry(shape.set_of(line)).or_default();
            if let Step::Invalidate(_) = step {
                prop_assert_eq!(cache.remove(line).is_some(), set.remove(&line));
                continue;
            }
            let is_there = set.contains(&line);
            prop_assert_eq!(cache.lookup(line, false).is_some(), is_there);
            if !is_there {
                let is_full = set.len() == table.ways as usize;
                let victim = cache.fill(line, false).victim.map(|victim| victim.line);
                prop_assert_eq!(victim.is_some(), is_full);
                prop_assert!(victim.is_none_or(|victim| set.remove(&victim)));
                set.insert(line);
            }
        }
    }

    /// SRRIP, BRRIP and DRRIP up to the draws.
    #[test]
    fn rrip_caches_are_possible(
        table in caches(owned(&["srrip", "brrip", "drrip"])),
        steps in steps(),
    ) {
        check_possible(&table, &steps)?;
    }

    /// Set dueling: 33 to 50 sets, of which up to two lead each; sets 0, 1, 16 and 32 are used.
    #[test]
    fn drrip_duels_are_possible(
        sets in 33u32..51,
        ways in 1u32..5,
        stream in prop::collection::vec((0u64..7, prop::sample::select(vec![0u64, 1, 16, 32])), 1..400),
    ) {
        let table = machines::cache(1, sets, ways, Replacement::Drrip, Inclusion::NonInclusive);
        let line = |(tag, set): (u64, u64)| Step::Load(tag * u64::from(sets) + set);
        let steps: Vec<Step> = stream.into_iter().map(line).collect();
        check_possible(&table, &steps)?;
    }
}

/// BRRIP, lines that are never used again: each takes the way of the one before, until one was
/// predicted as SRRIP predicts; then the next takes the next way, after the last the first again
/// (all are at 2, so that all rise to 3). So the steps from way to way count the draws: one in 32
/// of 64000, 2000 give or take five standard deviations of 44.
#[test]
fn brrip_predicts_one_fill_in_32_as_srrip() {
    let table = machines::cache(1, 1, 4, Replacement::Brrip, Inclusion::NonInclusive);
    let mut cache = Cache::new(&table, 1).expect("the model has the policy");
    let slots: Vec<usize> = (0..64_000)
        .map(|line| cache.fill(line, false).slot)
        .collect();
    let moved = slots[4..]
        .windows(2)
        .filter(|pair| pair[0] != pair[1])
        .count();
    assert!((1780..=2220).contains(&moved), "{moved} of 64000");
}

/// A QLRU name for each of 5 hit rules, 4 ages, 8 sound pairs of R and U, with and without UMO.
#[test]
fn all_qlru_names_are_tried() {
    assert_eq!(qlru_names().len(), 5 * 4 * 8 * 2);
}
