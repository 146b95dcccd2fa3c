//! A level that several cores share, inclusive, not inclusive or exclusive: what leaves it, what that
//! takes out of private levels, and where dirty data go. Against a naive model, and by hand.

#[path = "common/naive/cores.rs"]
mod cores;
#[path = "common/machines.rs"]
mod machines;
#[path = "common/naive/mod.rs"]
mod naive;

use std::collections::BTreeSet;

use kwalk::machine::{Cache, Inclusion, Machine, Protocol};
use kwalk::model::coherence::State;
use kwalk::model::hierarchy::{Hierarchy, Kind, Served};
use kwalk::model::stats::{LevelStats, Tally};
use naive::hierarchy::{Op, Stats};
use naive::shared::Cores;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

const PROTOCOLS: [Protocol; 3] = [Protocol::Mesi, Protocol::Moesi, Protocol::Mesif];

fn access(caches: &mut Hierarchy, core: usize, line: u64, kind: Kind) -> Served {
    cores::touch(caches, core, line * 64, 8, 0, kind)
}

fn load(caches: &mut Hierarchy, core: usize, line: u64) -> Served {
    access(caches, core, line, Kind::Load)
}

fn store(caches: &mut Hierarchy, core: usize, line: u64) -> Served {
    access(caches, core, line, Kind::Store)
}

/// Lines of a level of `core` and whether they are dirty, sorted.
fn held(caches: &Hierarchy, core: usize, level: usize) -> Vec<(u64, bool)> {
    let mut lines: Vec<_> = caches.cache_of(core, level).contents().collect();
    lines.sort_unstable();
    lines
}

/// An L1D of `ways` ways for each core, and a shared L2 of one set.
fn two_levels(
    protocol: Protocol,
    cores: usize,
    ways: u32,
    shared_ways: u32,
    inclusion: Inclusion,
) -> Hierarchy {
    let l2 = cores::shared(2, 1, shared_ways, inclusion, cores as u32);
    let caches = vec![machines::l1(1, ways), l2];
    let machine = cores::machine(caches, protocol, cores as u32, 8);
    cores::hierarchy(&machine, cores)
}

/// Two ways for all: the third line evicts the first from the L2, and from each core that has it. The
/// eviction is that of the core that asked; each copy is counted for its own core.
#[test]
fn an_eviction_takes_the_line_out_of_every_core() {
    for protocol in PROTOCOLS {
        let mut caches = two_levels(protocol, 4, 4, 2, Inclusion::Inclusive);
        for core in 0..3 {
            load(&mut caches, core, 0);
        }
        load(&mut caches, 3, 1);
        load(&mut caches, 3, 2);
        for core in 0..3 {
            let [l1, l2, ..] = caches.stats_of(core);
            assert_eq!((l1.back_invalidations, l1.evictions), (1, 0), "core {core}");
            assert_eq!(l2.evictions, 0);
            assert!(held(&caches, core, 0).is_empty());
            assert_eq!(caches.state(core, 0), Some(State::Invalid));
        }
        let [l1, l2, ..] = caches.stats_of(3);
        assert_eq!((l1.back_invalidations, l1.evictions), (0, 0));
        assert_eq!((l2.evictions, l2.writebacks), (1, 0), "nothing was dirty");
        // Gone from everywhere: from memory, for the core alone.
        let again = load(&mut caches, 1, 0);
        assert_eq!((again.level(), again.transfer()), (2, None));
        assert_eq!(caches.state(1, 0), Some(State::Exclusive));
    }
}

/// The L2 has a clean line that core 1 has written: its data leave with the L2's copy, one writeback to
/// memory by the core that asked, none by the L1D that lost it. Under MOESI a reader has it as well.
#[test]
fn dirty_copies_leave_with_the_inclusive_line() {
    for (protocol, reader) in [
        (Protocol::Mesi, false),
        (Protocol::Mesif, false),
        (Protocol::Moesi, false),
        (Protocol::Moesi, true),
    ] {
        let mut caches = two_levels(protocol, 3, 4, 2, Inclusion::Inclusive);
        store(&mut caches, 1, 0);
        if reader {
            load(&mut caches, 2, 0);
        }
        assert_eq!(held(&caches, 0, 1), [(0, false)]);
        load(&mut caches, 0, 1);
        load(&mut caches, 0, 2);
        assert_eq!(caches.stats_of(0)[1].writebacks, 1);
        assert_eq!(caches.stats_of(1)[0].writebacks, 0);
        assert_eq!(caches.stats_of(1)[0].back_invalidations, 1);
        assert_eq!(caches.stats_of(2)[0].back_invalidations, u64::from(reader));
        let again = load(&mut caches, 2, 0);
        assert_eq!((again.level(), again.transfer()), (2, None));
    }
}

/// Core 0 uses line 0 between all of core 1's: its L1D hits, which an inclusive L2 does not see. There
/// line 0 is the oldest when the third other line comes to three ways, and core 0 misses: on lines 1 to
/// 6 of core 1 every third, as line 0 is the youngest again after each miss. An L2 that is not inclusive
/// forgets it as well, without harm.
#[test]
fn lines_in_use_inside_grow_old_outside() {
    for (inclusion, misses) in [
        (Inclusion::Inclusive, 1 + 2),
        (Inclusion::NonInclusive, 1),
        (Inclusion::Exclusive, 1),
    ] {
        let mut caches = two_levels(Protocol::Mesi, 2, 2, 3, inclusion);
        load(&mut caches, 0, 0);
        for line in 1..=6 {
            load(&mut caches, 1, line);
            load(&mut caches, 0, 0);
        }
        let [l1, ..] = caches.stats_of(0);
        assert_eq!(l1.loads.misses, misses, "{inclusion:?}");
        assert_eq!(l1.back_invalidations, misses - 1, "{inclusion:?}");
    }
}

/// Private levels of both kinds lose the line, the outer one with older data; cores under another last
/// level keep theirs.
#[test]
fn all_private_levels_lose_it_but_those_of_other_last_levels() {
    let l2 = cores::shared(2, 1, 4, Inclusion::NonInclusive, 1);
    let l3 = cores::shared(3, 1, 2, Inclusion::Inclusive, 2);
    let caches = vec![machines::l1(1, 2), l2, l3];
    let machine = cores::machine(caches, Protocol::Mesi, 4, 4);
    let mut caches = cores::hierarchy(&machine, 4);
    for core in 0..4 {
        load(&mut caches, core, 0);
    }
    load(&mut caches, 0, 1);
    load(&mut caches, 0, 2);
    for core in 0..4 {
        let levels = caches.stats_of(core);
        let lost = u64::from(core < 2);
        for (k, counts) in levels.iter().enumerate().take(2) {
            assert_eq!(counts.back_invalidations, lost, "core {core}, level {k}");
            let has = caches.cache_of(core, k).contains(0);
            assert_eq!(has, core >= 2, "core {core}, level {k}");
        }
    }
    // A dirty line 2 in the L1D over a clean one in the L2 and L3: one writeback takes the newer.
    store(&mut caches, 0, 2);
    load(&mut caches, 1, 3);
    load(&mut caches, 1, 4);
    assert_eq!(caches.stats_of(1)[2].writebacks, 1);
    assert!((0..3).all(|k| !caches.cache_of(0, k).contains(2)));
}

/// A shared level that is not inclusive drops what a core has written, and takes it when the core evicts
/// it: L1Ds of one way, an L2 of two. Until then only the core has it, and supplies it.
#[test]
fn a_level_that_is_not_inclusive_takes_dirty_victims_back() {
    let mut caches = two_levels(Protocol::Moesi, 2, 1, 2, Inclusion::NonInclusive);
    store(&mut caches, 0, 0);
    load(&mut caches, 1, 1);
    load(&mut caches, 1, 2);
    assert_eq!(held(&caches, 0, 0), [(0, true)]);
    assert_eq!(held(&caches, 0, 1), [(1, false), (2, false)]);
    // Evicts 0, dirty, which is allocated after 3 has been: 1 and 2 go.
    load(&mut caches, 0, 3);
    assert_eq!(held(&caches, 0, 1), [(0, true), (3, false)]);
    assert_eq!(caches.stats_of(0)[0].writebacks, 1);
    assert_eq!(caches.stats_of(0)[1].evictions, 2);
    assert_eq!(caches.stats_of(0)[1].writebacks, 0);
    let again = load(&mut caches, 1, 0);
    assert_eq!((again.level(), again.transfer()), (1, None));
}

/// A victim level adds its lines to those of all cores: 2 cores of 2 ways and 3 shared ones keep 7 lines
/// of one use each, none twice, and the 8th pushes the oldest victim out. A line that a core asks for
/// leaves the victim level for it.
#[test]
fn a_victim_level_adds_up_with_all_cores() {
    let mut caches = two_levels(Protocol::Mesi, 2, 2, 3, Inclusion::Exclusive);
    for line in 0..7 {
        load(&mut caches, usize::from(line >= 4), line);
    }
    let all = |caches: &Hierarchy| -> Vec<u64> {
        let places = [(0, 0), (1, 0), (0, 1)];
        let lines = places.map(|(core, level)| held(caches, core, level));
        let mut lines: Vec<u64> = lines.concat().into_iter().map(|(line, _)| line).collect();
        lines.sort_unstable();
        lines
    };
    // 0 and 1 left core 0, 4 left core 1.
    assert_eq!(held(&caches, 0, 1), [(0, false), (1, false), (4, false)]);
    assert_eq!(all(&caches), [0, 1, 2, 3, 4, 5, 6]);
    load(&mut caches, 1, 7);
    assert_eq!(held(&caches, 0, 1), [(1, false), (4, false), (5, false)]);
    assert_eq!(all(&caches), [1, 2, 3, 4, 5, 6, 7]);
    // Core 1 takes core 0's victim, and its own oldest line takes the place.
    assert_eq!(load(&mut caches, 1, 1).level(), 1);
    assert_eq!(held(&caches, 0, 1), [(4, false), (5, false), (6, false)]);
    assert_eq!(all(&caches), [1, 2, 3, 4, 5, 6, 7]);
}

/// Dirty data that a victim level gives up are the core's to write back: Modified where it is alone, and
/// Owned under MOESI where the reader of an owner that is gone has the line too. Both then supply.
#[test]
fn who_takes_dirty_data_from_a_victim_level_supplies_them() {
    for protocol in PROTOCOLS {
        let mut caches = two_levels(protocol, 3, 1, 4, Inclusion::Exclusive);
        store(&mut caches, 0, 0);
        load(&mut caches, 0, 1);
        assert_eq!(held(&caches, 0, 1), [(0, true)]);
        assert_eq!(load(&mut caches, 1, 0).level(), 1);
        assert_eq!(held(&caches, 1, 0), [(0, true)]);
        assert_eq!(caches.state(1, 0), Some(State::Modified), "{protocol:?}");
        load(&mut caches, 2, 0);
        assert_eq!(caches.coherence_of(2).transfers, 1, "{protocol:?}");
        if protocol == Protocol::Moesi {
            // Core 1 owns it and evicts it; core 2 still shares it.
            load(&mut caches, 1, 2);
            assert!(held(&caches, 0, 1).contains(&(0, true)));
            load(&mut caches, 0, 0);
            assert_eq!(caches.state(0, 0), Some(State::Owned));
            assert_eq!(caches.state(2, 0), Some(State::Shared));
            assert_eq!(held(&caches, 0, 0), [(0, true)]);
        }
    }
}

/// The L2 of core 0 evicts a dirty line that its L1D has as well: the victim level has the data, and core
/// 0 is still the owner. A load by core 1 takes the line out of there. In MESI and MESIF core 0's copy
/// becomes clean, without data to write, so the given-up ones go to memory, once; in MOESI core 0 keeps
/// them, dirty, as the owner that it is.
#[test]
fn dirty_data_of_a_line_that_others_have_are_kept_once() {
    for protocol in PROTOCOLS {
        let l2 = cores::shared(2, 1, 1, Inclusion::NonInclusive, 1);
        let l3 = cores::shared(3, 1, 4, Inclusion::Exclusive, 2);
        let caches = vec![machines::l1(1, 2), l2, l3];
        let mut caches = cores::hierarchy(&cores::machine(caches, protocol, 2, 2), 2);
        // 0 is dirty in the L1D; 2 evicts it from there into the L2, and 1 from there into the L3 as a
        // load brings 0 back to the L1D, clean.
        store(&mut caches, 0, 0);
        load(&mut caches, 0, 1);
        load(&mut caches, 0, 2);
        load(&mut caches, 0, 0);
        load(&mut caches, 0, 3);
        assert!(held(&caches, 0, 0).contains(&(0, false)));
        assert!(held(&caches, 0, 2).contains(&(0, true)));
        assert_eq!(caches.state(0, 0), Some(State::Modified));
        load(&mut caches, 1, 0);
        assert_eq!(held(&caches, 1, 0), [(0, false)], "{protocol:?}");
        assert!(!caches.cache_of(0, 2).contains(0));
        let owned = protocol == Protocol::Moesi;
        assert!(held(&caches, 0, 0).contains(&(0, owned)), "{protocol:?}");
        let written = caches.stats_of(1)[2].writebacks;
        assert_eq!(written, u64::from(!owned), "{protocol:?}");
    }
}

#[derive(Clone, Debug)]
struct Setup {
    private: Cache,
    shared: Cache,
    protocol: Protocol,
    cores: usize,
}

impl Setup {
    fn machine(&self) -> Machine {
        let caches = vec![self.private.clone(), self.shared.clone()];
        cores::machine(caches, self.protocol, self.cores as u32, 8)
    }
}

fn setups() -> impl Strategy<Value = Setup> {
    let inclusions = vec![
        Inclusion::Inclusive,
        Inclusion::NonInclusive,
        Inclusion::Exclusive,
    ];
    let protocol = prop::sample::select(PROTOCOLS.to_vec());
    let shared = (1_u32..4, 1_u32..9, prop::sample::select(inclusions));
    let private = (1_u32..4, 1_u32..4);
    (private, shared, protocol, 2_usize..6).prop_map(|(private, shared, protocol, cores)| Setup {
        private: machines::l1(private.0, private.1),
        shared: cores::shared(2, shared.0, shared.1, shared.2, cores as u32),
        protocol,
        cores,
    })
}

/// The naive counts in the model's words.
fn in_words_of_model(stats: &Stats) -> LevelStats {
    let tally = |tally: naive::hierarchy::Tally| Tally {
        requests: tally.requests,
        hits: tally.hits,
        misses: tally.misses,
    };
    LevelStats {
        loads: tally(stats.loads),
        stores: tally(stats.stores),
        evictions: stats.evictions,
        writebacks: stats.writebacks,
        back_invalidations: stats.back_invalidations,
        ..LevelStats::default()
    }
}

/// What came into each level and has not gone is there; and the shared level alone writes to memory, but
/// for what loads of other cores made clean while it had not the line.
fn conserved(setup: &Setup, naive: &Cores, caches: &Hierarchy) -> Result<(), TestCaseError> {
    let (mut came, mut went, mut written, mut fills) = (0, 0, 0, 0);
    for (core, gone) in naive.invalidated.iter().enumerate() {
        let [own, shared, ..] = caches.stats_of(core);
        let here = held(caches, core, 0).len() as u64;
        let gone = own.evictions + own.back_invalidations + gone;
        prop_assert_eq!(own.demand_misses(), gone + here, "core {}", core);
        prop_assert_eq!(shared.loads.requests, own.loads.misses);
        prop_assert_eq!(shared.stores.requests, own.stores.misses);
        came += shared.demand_misses();
        went += shared.evictions;
        written += shared.writebacks;
        fills += naive.sides[core].shared.fills;
    }
    let here = held(caches, 0, 1).len() as u64;
    let lines = |core, level| held(caches, core, level).into_iter().map(|(line, _)| line);
    let inside: BTreeSet<u64> = (0..setup.cores).flat_map(|core| lines(core, 0)).collect();
    let shared: BTreeSet<u64> = lines(0, 1).collect();
    match setup.shared.inclusion {
        Inclusion::Inclusive => {
            prop_assert_eq!(came, went + here);
            prop_assert!(
                inside.is_subset(&shared),
                "a private line is in the shared level"
            );
        }
        Inclusion::NonInclusive => prop_assert_eq!(fills, went + here),
        Inclusion::Exclusive => {
            let removed: u64 = naive.sides.iter().map(|side| side.shared.removals).sum();
            prop_assert_eq!(fills, went + removed + here);
        }
    }
    prop_assert!(naive.memory_writes >= written);
    prop_assert!(naive.memory_writes - written <= naive.cleaned);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    /// Who serves each access, what every cache then holds and which of it is dirty, each core's state of
    /// each line, and all counts; no access gets old data, and none are lost.
    #[test]
    fn cores_agree_with_lists(
        setup in setups(),
        stream in prop::collection::vec((0_usize..60, 0_u64..16, prop::bool::weighted(0.3)), 1..150),
    ) {
        let mut caches = cores::hierarchy(&setup.machine(), setup.cores);
        let mut naive = Cores::new(&setup.private, &setup.shared, setup.protocol, setup.cores);
        for (at, (core, line, writes)) in stream.into_iter().enumerate() {
            let core = core % setup.cores;
            let (kind, op) = if writes { (Kind::Store, Op::Store) } else { (Kind::Load, Op::Load) };
            let before = caches.coherence_of(core).transfers;
            let newest = naive.newest(line);
            let served = access(&mut caches, core, line, kind);
            let expected = naive.access(core, line, op);
            let transferred = caches.coherence_of(core).transfers > before;
            prop_assert_eq!(served.level(), expected.level, "step {}", at);
            prop_assert_eq!(transferred, expected.transferred, "step {}", at);
            prop_assert_eq!(expected.version, newest, "step {}: old data", at);
            prop_assert_eq!(naive.lost(), Vec::<u64>::new(), "step {}", at);
            for (core, side) in naive.sides.iter().enumerate() {
                let lines = |cache: &naive::Cache| -> Vec<(u64, bool)> {
                    cache.contents().iter().map(|line| (line.number, line.dirty)).collect()
                };
                prop_assert_eq!(held(&caches, core, 0), lines(&side.cache), "step {}", at);
                prop_assert_eq!(held(&caches, core, 1), lines(&naive.shared), "step {}", at);
                let [own, shared, ..] = caches.stats_of(core);
                prop_assert_eq!(own, in_words_of_model(&side.own), "step {}", at);
                prop_assert_eq!(shared, in_words_of_model(&side.shared), "step {}", at);
                for line in 0..16 {
                    let state = format!("{:?}", caches.state(core, line).expect("several cores"));
                    let expected = format!("{:?}", naive.coherence.states(line)[core]);
                    prop_assert_eq!(state, expected, "step {}: line {}, core {}", at, line, core);
                }
            }
        }
        conserved(&setup, &naive, &caches)?;
    }
}
