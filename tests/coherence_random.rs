//! Coherence on random streams: against the naive state machine, by what must hold of any states,
//! and by versions: no access may get older data than the last store to its line made.

#[path = "common/naive/cores.rs"]
mod cores;
#[path = "common/machines.rs"]
mod machines;
#[path = "common/naive/mod.rs"]
mod naive;

use kwalk::machine::{Inclusion, Machine, Protocol};
use kwalk::model::coherence::State;
use kwalk::model::hierarchy::{Hierarchy, Kind};
use naive::coherence as oracle;
use naive::coherence::{Coherence, Supplier};
use naive::hierarchy::Op;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

const LINES: u64 = 24;

/// Core, line, whether it stores.
type Step = (usize, u64, bool);

/// One or two private levels and a shared one, all small enough for lines to leave.
#[derive(Clone, Debug)]
struct Setup {
    machine: Machine,
    cores: usize,
    private: usize,
}

fn inclusions(of: &[Inclusion]) -> impl Strategy<Value = Inclusion> + use<> {
    prop::sample::select(of.to_vec())
}

const ALL: [Inclusion; 3] = [
    Inclusion::Inclusive,
    Inclusion::NonInclusive,
    Inclusion::Exclusive,
];

/// Levels that copy what goes through them.
const COPIES: [Inclusion; 2] = [Inclusion::Inclusive, Inclusion::NonInclusive];

/// Two to five cores; `sharers` of them (0: all) have a last level together, of inclusion `last`.
fn setups(sharers: u32, last: &[Inclusion]) -> impl Strategy<Value = Setup> + use<> {
    let protocols = vec![Protocol::Mesi, Protocol::Moesi, Protocol::Mesif];
    let l2 = prop::option::of((1u32..4, 1u32..4, inclusions(&ALL)));
    let l3 = (1u32..4, 2u32..8, inclusions(last));
    let l1 = (1u32..4, 1u32..4);
    (prop::sample::select(protocols), 2u32..6, l1, l2, l3).prop_map(
        move |(protocol, cores, (sets, ways), l2, l3)| {
            let mut caches = vec![machines::l1(sets, ways)];
            if let Some((sets, ways, inclusion)) = l2 {
                caches.push(cores::shared(2, sets, ways, inclusion, 1));
            }
            let private = caches.len();
            let sharers = if sharers == 0 { cores } else { sharers };
            caches.push(cores::shared(3, l3.0, l3.1, l3.2, sharers));
            Setup {
                machine: cores::machine(caches, protocol, cores, 4),
                cores: cores as usize,
                private,
            }
        },
    )
}

fn streams() -> impl Strategy<Value = Vec<Step>> {
    let step = (0usize..60, 0..LINES, prop::bool::weighted(0.3));
    // A few lines are shared by all; the others are there to push them out.
    let step = step.prop_map(|(core, line, store)| match core % 3 {
        0 => (core / 3, line % 4, store),
        _ => (core / 3, line, store),
    });
    prop::collection::vec(step, 1..200)
}

/// What the caches hold of each line: of each core's private levels together, then the last levels.
#[derive(Clone, Debug, PartialEq)]
struct View {
    held: Vec<Vec<bool>>,
    dirty: Vec<Vec<bool>>,
}

fn view(caches: &Hierarchy, setup: &Setup) -> View {
    let none = vec![vec![false; LINES as usize]; setup.cores + 1];
    let (mut held, mut dirty) = (none.clone(), none);
    for core in 0..setup.cores {
        for k in 0..=setup.private {
            let at = if k < setup.private { core } else { setup.cores };
            for (line, is_dirty) in caches.cache_of(core, k).contents() {
                held[at][line as usize] = true;
                dirty[at][line as usize] |= is_dirty;
            }
        }
    }
    View { held, dirty }
}

fn kind(store: bool) -> Kind {
    if store { Kind::Store } else { Kind::Load }
}

fn named(state: State) -> oracle::State {
    match state {
        State::Invalid => oracle::State::Invalid,
        State::Shared => oracle::State::Shared,
        State::Forward => oracle::State::Forward,
        State::Exclusive => oracle::State::Exclusive,
        State::Owned => oracle::State::Owned,
        State::Modified => oracle::State::Modified,
    }
}

fn states(caches: &Hierarchy, cores: usize, line: u64) -> Vec<oracle::State> {
    let of = |core| named(caches.state(core, line).expect("several cores"));
    (0..cores).map(of).collect()
}

/// Every access side by side with the naive state machine, which is told what the caches evicted:
/// what a core had before and has no more, unless the access took it.
fn agree(setup: &Setup, stream: &[Step]) -> Result<(), TestCaseError> {
    let protocol = setup.machine.interconnect.as_ref().unwrap().protocol;
    let mut caches = cores::hierarchy(&setup.machine, setup.cores);
    let mut naive = Coherence::new(protocol, setup.cores);
    for (at, &(core, line, store)) in stream.iter().enumerate() {
        let core = core % setup.cores;
        let before = caches.coherence_of(core).transfers;
        let served = cores::touch(&mut caches, core, line * 64, 8, 0, kind(store));
        let supplier = naive.access(core, line, if store { Op::Store } else { Op::Load });
        let transferred = caches.coherence_of(core).transfers - before;
        let from_core = matches!(supplier, Supplier::Core(_));
        prop_assert_eq!(transferred == 1, from_core, "step {}", at);
        let own = served.level() < setup.private;
        prop_assert_eq!(own, supplier == Supplier::Own, "step {}", at);
        let after = view(&caches, setup);
        for line in 0..LINES {
            for core in 0..setup.cores {
                let gone = !after.held[core][line as usize];
                if gone && naive.states(line)[core] != oracle::State::Invalid {
                    naive.evict(core, line);
                }
            }
            prop_assert_eq!(states(&caches, setup.cores, line), naive.states(line));
        }
    }
    let all: Vec<_> = (0..setup.cores).map(|c| caches.coherence_of(c)).collect();
    let traffic = &naive.traffic;
    let sum =
        |of: fn(&kwalk::model::coherence::CoherenceStats) -> u64| all.iter().map(of).sum::<u64>();
    prop_assert_eq!(sum(|s| s.transfers), traffic.transfers);
    prop_assert_eq!(sum(|s| s.upgrades), traffic.upgrades);
    prop_assert_eq!(sum(|s| s.invalidations), traffic.invalidations);
    Ok(())
}

/// States go together, they are what the private levels hold, and the whole is the sum of its parts:
/// requests of a level are the misses of the one inside, core by core, and pairs of cores are what
/// the cores count.
fn consistent(setup: &Setup, stream: &[Step]) -> Result<(), TestCaseError> {
    let mut caches = cores::hierarchy(&setup.machine, setup.cores);
    for &(core, line, store) in stream {
        let core = core % setup.cores;
        cores::touch(
            &mut caches,
            core,
            line * 64 + 8 * (line % 3),
            8,
            0,
            kind(store),
        );
        let seen = view(&caches, setup);
        for line in 0..LINES {
            let all = states(&caches, setup.cores, line);
            let count = |what: oracle::State| all.iter().filter(|s| **s == what).count();
            let alone = count(oracle::State::Modified) + count(oracle::State::Exclusive);
            let held = setup.cores - count(oracle::State::Invalid);
            prop_assert!(alone == 0 || (alone, held) == (1, 1), "{:?}", all);
            prop_assert!(count(oracle::State::Owned) <= 1, "{:?}", all);
            prop_assert!(count(oracle::State::Forward) <= 1, "{:?}", all);
            for (core, state) in all.iter().enumerate() {
                let held = seen.held[core][line as usize];
                prop_assert_eq!(held, *state != oracle::State::Invalid, "{}", line);
                // The other way round need not be: a dirty line that leaves the L2 of a core whose
                // L1D has it too is written back, and the state stays.
                let dirty = seen.dirty[core][line as usize];
                prop_assert!(state.is_dirty() || !dirty, "{} is {:?}", line, state);
            }
        }
        prop_assert!(seen.held[core][line as usize]);
    }
    let directory = caches.directory().expect("several cores");
    let mut sharing = [0; 3];
    for core in 0..setup.cores {
        let counts = caches.coherence_of(core);
        sharing
            .iter_mut()
            .zip(counts.sharing)
            .for_each(|(sum, n)| *sum += n);
        let levels = caches.stats_of(core);
        for k in 0..setup.private {
            prop_assert_eq!(levels[k].loads.misses, levels[k + 1].loads.requests);
            prop_assert_eq!(levels[k].stores.misses, levels[k + 1].stores.requests);
        }
    }
    for (key, _) in directory.pairs() {
        prop_assert!(key.asker != key.other && usize::from(key.other) < setup.cores);
    }
    for (kind, counted) in sharing.into_iter().enumerate() {
        let of_kind = directory
            .pairs()
            .into_iter()
            .filter(|(key, _)| key.kind as usize == kind);
        prop_assert_eq!(of_kind.map(|(_, count)| count).sum::<u64>(), counted);
    }
    Ok(())
}

/// The version of each line at each place, moved where the caches say that data went. A store makes
/// a new version.
struct Versions {
    exclusive: bool,
    newest: Vec<u64>,
    /// By core, in its private levels.
    private: Vec<Vec<u64>>,
    shared: Vec<u64>,
    memory: Vec<u64>,
}

impl Versions {
    fn new(cores: usize, exclusive: bool) -> Versions {
        let none = vec![0; LINES as usize];
        Versions {
            exclusive,
            newest: none.clone(),
            private: vec![none.clone(); cores],
            shared: none.clone(),
            memory: none,
        }
    }

    /// What the access gets: its own copy, that of the core that supplied it, or what lies below.
    fn got(&self, before: &View, core: usize, line: usize, supplied: bool) -> u64 {
        let cores = self.private.len();
        if before.held[core][line] {
            self.private[core][line]
        } else if supplied {
            let others = (0..cores).filter(|other| before.held[*other][line]);
            let oldest = others.map(|other| self.private[other][line]).min();
            oldest.expect("a core that supplies has the line")
        } else if before.held[cores][line] {
            self.shared[line]
        } else {
            self.memory[line]
        }
    }

    /// Move what an access of `core` that got `got` of line `at` has moved.
    fn follow(
        &mut self,
        before: &View,
        after: &View,
        (core, at, store): (usize, usize, bool),
        got: u64,
    ) {
        let cores = self.private.len();
        for line in 0..LINES as usize {
            // The last level's own data leave for memory, unless the access took them inwards.
            let left = before.dirty[cores][line] && !after.dirty[cores][line];
            let inwards = line == at && after.dirty[core][line];
            if left && !inwards {
                self.memory[line] = self.shared[line];
            }
            // An exclusive level gives the line up; a victim of this very access may be the line again.
            let given_up = self.exclusive && line == at && !before.held[core][at];
            if after.held[cores][line] && (given_up || !before.held[cores][line]) {
                self.shared[line] = if line == at { got } else { self.newest[line] };
            }
            for other in 0..cores {
                let cleaned = before.dirty[other][line] && !after.dirty[other][line];
                let taken = line == at && store && other != core;
                if cleaned && !taken {
                    match after.dirty[cores][line] {
                        true => self.shared[line] = self.private[other][line],
                        false => self.memory[line] = self.private[other][line],
                    }
                }
            }
        }
        self.private[core][at] = got;
        if store {
            self.newest[at] += 1;
            self.private[core][at] = self.newest[at];
        }
    }
}

/// Every access gets the newest version, every copy in a private level is of the newest version, and
/// the newest version of each line is where data are kept: dirty in a cache, or in memory.
fn fresh(setup: &Setup, stream: &[Step]) -> Result<(), TestCaseError> {
    let mut caches = cores::hierarchy(&setup.machine, setup.cores);
    let exclusive = setup.machine.caches[setup.private].inclusion == Inclusion::Exclusive;
    let mut versions = Versions::new(setup.cores, exclusive);
    for (step, &(core, line, store)) in stream.iter().enumerate() {
        let (core, at) = (core % setup.cores, line as usize);
        let before = view(&caches, setup);
        let transfers = caches.coherence_of(core).transfers;
        cores::touch(&mut caches, core, line * 64, 8, 0, kind(store));
        let supplied = caches.coherence_of(core).transfers > transfers;
        let after = view(&caches, setup);
        let got = versions.got(&before, core, at, supplied);
        prop_assert_eq!(
            got,
            versions.newest[at],
            "step {}: old data of line {}",
            step,
            line
        );
        versions.follow(&before, &after, (core, at, store), got);
        for line in 0..LINES as usize {
            let newest = versions.newest[line];
            let mut kept = versions.memory[line] == newest;
            for other in 0..setup.cores {
                if after.held[other][line] {
                    let has = versions.private[other][line];
                    prop_assert_eq!(has, newest, "step {}: core {} keeps old data", step, other);
                    kept |= after.dirty[other][line];
                }
            }
            kept |= after.dirty[setup.cores][line] && versions.shared[line] == newest;
            prop_assert!(kept, "step {}: the data of line {} are lost", step, line);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    /// One last level for all cores. An exclusive one gives dirty lines back, which the state
    /// machine does not know.
    #[test]
    fn agrees_with_the_state_machine(setup in setups(0, &COPIES), stream in streams()) {
        agree(&setup, &stream)?;
    }

    /// One last level for all.
    #[test]
    fn consistent_under_one_last_level(setup in setups(0, &ALL), stream in streams()) {
        consistent(&setup, &stream)?;
    }

    /// A last level for every two cores.
    #[test]
    fn consistent_under_several_last_levels(setup in setups(2, &ALL), stream in streams()) {
        consistent(&setup, &stream)?;
    }

    /// Under a last level that is not exclusive.
    #[test]
    fn every_access_gets_the_last_store(
        setup in setups(0, &COPIES),
        stream in streams(),
    ) {
        fresh(&setup, &stream)?;
    }

    /// Under an exclusive one. A core that writes lets the line leave to the last level, loads it
    /// again, and others load it: the second of them must get it from a core, not from memory.
    #[test]
    fn every_access_gets_the_last_store_through_an_exclusive_level(
        setup in setups(0, &[Inclusion::Exclusive]),
        stream in streams(),
    ) {
        fresh(&setup, &stream)?;
    }
}

/// The smallest case: core 0 writes line 3, which leaves its only way for the exclusive last level
/// as line 4 comes, and comes back, still newer than memory: it is Modified. Under MOESI core 1 then
/// makes it Owned, and core 0 supplies core 2 as well.
#[test]
fn dirty_lines_come_back_modified() {
    let l2 = cores::shared(2, 1, 4, Inclusion::Exclusive, 3);
    let machine = cores::machine(vec![machines::l1(1, 1), l2], Protocol::Moesi, 3, 4);
    let mut caches = cores::hierarchy(&machine, 3);
    for (line, store) in [(3, true), (4, false), (3, false)] {
        cores::touch(&mut caches, 0, line * 64, 8, 0, kind(store));
    }
    assert_eq!(caches.state(0, 3), Some(State::Modified));
    cores::touch(&mut caches, 1, 3 * 64, 8, 0, Kind::Load);
    assert_eq!(caches.state(0, 3), Some(State::Owned));
    cores::touch(&mut caches, 2, 3 * 64, 8, 0, Kind::Load);
    assert_eq!(caches.coherence_of(2).transfers, 1);
}
