//! True and false sharing, byte by byte; whose fields they were; and the line beside, which only
//! prefetchers share.

#[path = "common/naive/cores.rs"]
mod cores;
#[path = "common/machines.rs"]
mod machines;
#[path = "common/naive/mod.rs"]
mod naive;

use kernels::arena::{Arena, Region};
use kernels::memory::{Field, Memory};
use kwalk::machine::{Inclusion, Machine, PrefetcherKind, Protocol};
use kwalk::model::coherence::{Sharing, SharingKey, Spot};
use kwalk::model::hierarchy::{Hierarchy, Kind};
use kwalk::model::modelled::Timed;
use kwalk::model::page_map::{Frames, PageMapOptions};
use kwalk::model::{Model, ModelOptions};
use naive::coherence::{Coherence, State, Supplier};
use naive::hierarchy::Op;
use proptest::prelude::*;

const CORES: usize = 3;

/// What a core does; every second time it stores.
const KINDS: [Kind; 6] = [
    Kind::Store,
    Kind::Store,
    Kind::Store,
    Kind::Load,
    Kind::Prefetch,
    Kind::Walk,
];

/// Four cores with an L1D each, under one inclusive level; nothing has to leave.
fn machine(protocol: Protocol) -> Machine {
    let l2 = cores::shared(2, 256, 8, Inclusion::Inclusive, 4);
    cores::machine(vec![machines::l1(64, 8), l2], protocol, 4, 4)
}

type Bytes = [bool; 64];

fn overlap(one: &Bytes, other: &Bytes) -> bool {
    (0..64).any(|i| one[i] && other[i])
}

/// What one core did to one line while it had it, and, once another core has taken it, which bytes
/// were stored to since.
#[derive(Clone)]
struct Part {
    used: Bytes,
    stored: Bytes,
    since: Option<Bytes>,
}

/// The definition, a byte at a time. Who has a line is the naive state machine's to say.
struct Oracle {
    states: Coherence,
    /// By line and core.
    parts: Vec<Vec<Part>>,
}

impl Oracle {
    fn new(protocol: Protocol) -> Oracle {
        let part = Part {
            used: [false; 64],
            stored: [false; 64],
            since: None,
        };
        Oracle {
            states: Coherence::new(protocol, CORES),
            parts: vec![vec![part; CORES]; 2],
        }
    }

    fn access(&mut self, core: usize, line: u64, bytes: &Bytes, store: bool) -> Option<Sharing> {
        let before = self.states.states(line);
        let op = if store { Op::Store } else { Op::Load };
        let supplier = self.states.access(core, line, op);
        let parts = &mut self.parts[line as usize];
        let others = || (0..CORES).filter(|other| *other != core);
        let is_held = |other: &usize| before[*other] != State::Invalid;
        let asks = match store {
            true => !matches!(before[core], State::Modified | State::Exclusive),
            false => before[core] == State::Invalid,
        };
        let mut told = None;
        if asks {
            let since = parts[core].since.take();
            let again = since.is_some_and(|since| overlap(&since, bytes));
            // Of a line that it has, or had, what others did; of one that comes from a core that
            // wrote it, what that one wrote.
            let (same, any) = match (store, since, supplier) {
                (true, ..) => {
                    let used = others().filter(is_held);
                    let same = used.clone().any(|o| overlap(&parts[o].used, bytes));
                    (again || same, since.is_some() || used.count() > 0)
                }
                (false, Some(_), _) => (again, true),
                (false, None, Supplier::Core(from)) => {
                    let stored = &parts[from].stored;
                    (overlap(stored, bytes), stored.contains(&true))
                }
                (false, None, _) => (false, false),
            };
            told = match (same, any) {
                (true, _) => Some(Sharing::True),
                (false, true) => Some(Sharing::False),
                (false, false) => None,
            };
        }
        if store {
            for other in others() {
                if is_held(&other) {
                    parts[other] = Part {
                        used: [false; 64],
                        stored: [false; 64],
                        since: Some([false; 64]),
                    };
                }
                if let Some(since) = &mut parts[other].since {
                    since
                        .iter_mut()
                        .zip(bytes)
                        .for_each(|(since, byte)| *since |= byte);
                }
            }
        }
        let Part { used, stored, .. } = &mut parts[core];
        for ((used, stored), byte) in used.iter_mut().zip(stored).zip(bytes) {
            *used |= byte;
            *stored |= byte & store;
        }
        told
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    /// Three cores, two lines, any bytes. Page walks and prefetches by the program are loads.
    #[test]
    fn true_and_false_as_the_bytes_say(
        protocol in prop::sample::select(vec![Protocol::Mesi, Protocol::Moesi, Protocol::Mesif]),
        stream in prop::collection::vec(
            (0..CORES, 0u64..2, 0u64..12, prop::sample::select(vec![1u64, 2, 4, 8, 16]), prop::sample::select(KINDS.to_vec())),
            1..150,
        ),
    ) {
        let mut caches = cores::hierarchy(&machine(protocol), CORES);
        let mut oracle = Oracle::new(protocol);
        let mut counts = [0; 2];
        for (step, (core, line, at, wide, kind)) in stream.into_iter().enumerate() {
            let served = cores::touch(&mut caches, core, line * 64 + 4 * at, wide, 0, kind);
            let bytes = std::array::from_fn(|i| (4 * at..4 * at + wide).contains(&(i as u64)));
            let expected = oracle.access(core, line, &bytes, kind == Kind::Store);
            prop_assert_eq!(served.sharing(), expected, "step {}", step);
            if let Some(kind) = expected {
                counts[kind as usize] += 1;
            }
        }
        let sum = |kind| (0..CORES).map(|core| caches.coherence_of(core).sharing[kind]).sum::<u64>();
        prop_assert_eq!([sum(0), sum(1), sum(2)], [counts[0], counts[1], 0]);
    }
}

/// Who asked, for which field at which offset; who had it, and what that one had touched; why; how
/// often.
type Pair = (u16, (u16, u32), u16, (u16, u32), Sharing, u64);

fn pairs(caches: &Hierarchy, line: u64) -> Vec<Pair> {
    let all = caches.directory().expect("several cores").pairs();
    let spot = |spot: Spot| (spot.field, spot.offset_bytes);
    let pair = |(key, count): (SharingKey, u64)| {
        let (asked, touched) = (spot(key.asked), spot(key.touched));
        (key.line == line).then_some((key.asker, asked, key.other, touched, key.kind, count))
    };
    all.into_iter().filter_map(pair).collect()
}

/// Core, field, whether it stores: field 1 has bytes 0 to 7, field 2 bytes 8 to 15, and so on.
type Step = (usize, u16, bool);

fn run(caches: &mut Hierarchy, steps: &[Step]) {
    for &(core, field, store) in steps {
        let addr = 64 + 8 * (u64::from(field) - 1);
        let kind = if store { Kind::Store } else { Kind::Load };
        cores::touch(caches, core, addr, 8, field, kind);
    }
}

/// Rounds of the same steps, and the pairs that they leave on their line (number 1).
///
/// - Two writers of their own fields: each but the very first store takes the line, for other bytes.
/// - A lock: the same of one field.
/// - A counter that one core writes and another reads: the reader waits for what was written; the
///   writer for the reader of the same bytes, but for its first store.
/// - A reader of another field: the same, false.
/// - Of two readers of two fields the writer of field 2 is in the way of the one that reads it; the
///   other reader waits for it in vain. The second round finds the same.
/// - Readers alone, and one core alone, share nothing.
#[test]
fn pairs_by_hand() {
    use Sharing::{False, True};
    let (f1, f2) = ((1, 0), (2, 8));
    let cases: [(&[Step], u64, &[Pair]); 7] = [
        (
            &[(0, 1, true), (1, 2, true)],
            10,
            &[(0, f1, 1, f2, False, 9), (1, f2, 0, f1, False, 10)],
        ),
        (
            &[(0, 1, true), (1, 1, true)],
            10,
            &[(0, f1, 1, f1, True, 9), (1, f1, 0, f1, True, 10)],
        ),
        (
            &[(0, 1, true), (1, 1, false)],
            10,
            &[(0, f1, 1, f1, True, 9), (1, f1, 0, f1, True, 10)],
        ),
        (
            &[(0, 1, true), (1, 2, false)],
            10,
            &[(0, f1, 1, f2, False, 9), (1, f2, 0, f1, False, 10)],
        ),
        (
            &[(0, 1, false), (1, 2, false), (2, 2, true)],
            2,
            &[
                (0, f1, 2, f2, False, 1),
                (1, f2, 2, f2, True, 1),
                (2, f2, 1, f2, True, 2),
            ],
        ),
        (&[(0, 1, false), (1, 1, false), (2, 2, false)], 10, &[]),
        (&[(0, 1, true), (0, 2, true), (0, 1, false)], 10, &[]),
    ];
    for protocol in [Protocol::Mesi, Protocol::Moesi, Protocol::Mesif] {
        for (steps, rounds, expected) in cases {
            let mut caches = cores::hierarchy(&machine(protocol), CORES);
            (0..rounds).for_each(|_| run(&mut caches, steps));
            assert_eq!(pairs(&caches, 1), expected, "{protocol:?}, {steps:?}");
            caches.directory_mut().expect("several cores").clear_pairs();
            assert_eq!(pairs(&caches, 1), []);
        }
    }
}

/// Core 0 reads field 1, core 1 writes it, and then both caches (one way each) are swept: core 0
/// reads the line from below, no core supplies it, and still waits for what core 1 wrote. Read
/// again after its own sweep, nothing was written in between, and it is nobody's sharing.
#[test]
fn a_copy_that_was_taken_is_remembered() {
    let l2 = cores::shared(2, 16, 4, Inclusion::NonInclusive, 2);
    let machine = cores::machine(vec![machines::l1(1, 1), l2], Protocol::Mesi, 2, 2);
    let mut caches = cores::hierarchy(&machine, 2);
    run(&mut caches, &[(0, 1, false), (1, 1, true)]);
    let sweep = |caches: &mut Hierarchy| {
        (0..2).for_each(|core| {
            cores::touch(caches, core, 4096, 8, 9, Kind::Load);
        });
    };
    sweep(&mut caches);
    let read = |caches: &mut Hierarchy| cores::touch(caches, 0, 64, 8, 1, Kind::Load);
    let first = read(&mut caches);
    assert_eq!(
        (first.transfer(), first.sharing()),
        (None, Some(Sharing::True))
    );
    sweep(&mut caches);
    assert_eq!(read(&mut caches).sharing(), None);
}

/// Core 0 stores to line 0 of an aligned pair of lines, core 1 to line 1; neither touches the
/// other's. Without a prefetcher they have nothing to do with each other. With one, core 0's first
/// store brings line 1 along, and core 1's store takes it: adjacent. Core 1 brings line 0 along,
/// from core 0: adjacent; core 0's second store takes it back: adjacent. Then both own their lines.
/// Two lines further on, which are another pair, nothing is shared, whatever is on.
#[test]
fn the_line_beside_is_kept_apart() {
    for (on, other_line, expected) in [(false, 1, 0), (true, 1, 3), (false, 2, 0), (true, 2, 0)] {
        let mut machine = machine(Protocol::Mesi);
        machine.prefetchers = vec![cores::prefetcher(PrefetcherKind::AdjacentLine, 1, 1)];
        machine.prefetchers[0].on = on;
        let mut caches = cores::hierarchy(&machine, 2);
        for _ in 0..5 {
            cores::touch(&mut caches, 0, 0, 8, 1, Kind::Store);
            cores::touch(&mut caches, 1, 64 * other_line, 8, 2, Kind::Store);
        }
        let counts = [0, 1].map(|core| caches.coherence_of(core).sharing);
        let sum: Vec<u64> = (0..3)
            .map(|kind| counts[0][kind] + counts[1][kind])
            .collect();
        assert_eq!(sum, [0, 0, expected], "on: {on}, line {other_line}");
        let [first, second] = [0, 1].map(|line| pairs(&caches, line));
        let all = first.iter().chain(&second);
        let count = all.map(|(asker, _, other, _, kind, count)| {
            assert_eq!((*kind, asker + other), (Sharing::Adjacent, 1));
            count
        });
        assert_eq!(count.sum::<u64>(), expected, "on: {on}, line {other_line}");
    }
}

/// Core 0 brings line 1 along with line 0, and then uses bytes 0 to 7 of it. Core 1 stores to bytes
/// 8 to 15 of line 1: the line itself is shared, false; to bytes 0 to 7: true.
#[test]
fn a_prefetched_line_in_use_is_no_neighbour() {
    for (offset, kind) in [(8, Sharing::False), (0, Sharing::True)] {
        let mut machine = machine(Protocol::Mesi);
        machine.prefetchers = vec![cores::prefetcher(PrefetcherKind::AdjacentLine, 1, 1)];
        let mut caches = cores::hierarchy(&machine, 2);
        cores::touch(&mut caches, 0, 0, 8, 1, Kind::Load);
        cores::touch(&mut caches, 0, 64, 8, 1, Kind::Load);
        let served = cores::touch(&mut caches, 1, 64 + offset, 8, 2, Kind::Store);
        assert_eq!(served.sharing(), Some(kind), "offset {offset}");
    }
}

const IDENTITY: PageMapOptions = PageMapOptions {
    page_bytes: 4096,
    frames: Frames::Identity,
    host_page_bytes: None,
};

/// A model of two cores over an arena.
fn model(machine: &Machine) -> (Arena, Model) {
    let mut arena = Arena::new();
    arena.reserve(Region::Slab.base(), 1 << 16);
    let options = ModelOptions {
        cores: 2,
        ..ModelOptions::default()
    };
    let model = Model::new(machine, IDENTITY, 0, options).expect("a machine of two cores");
    (arena, model)
}

/// A store of 8 bytes at offset 60 has the last four bytes of its line and the first four of the
/// next. What core 1 loads of the next line: bytes 2 and 3 are true sharing, 4 and 5 false; of the
/// first line 58 to 61 true, 52 to 59 false.
#[test]
fn straddling_stores_share_both_lines() {
    for (offset, kind) in [
        (66, Sharing::True),
        (68, Sharing::False),
        (58, Sharing::True),
        (52, Sharing::False),
    ] {
        let machine = machine(Protocol::Moesi);
        let (mut arena, mut model) = model(&machine);
        let mut mem = model.on(&mut arena);
        let base = Timed::from(Region::Slab.base().0);
        let field = |offset_bytes| Field {
            id: 3,
            offset_bytes,
        };
        mem.store::<8>(base, field(60), Timed::from(1));
        mem.use_core(1);
        match offset {
            66 | 68 => mem.load::<2>(base, field(offset)),
            58 => mem.load::<4>(base, field(offset)),
            _ => mem.load::<8>(base, field(offset)),
        };
        let mut expected = [0; 3];
        expected[kind as usize] = 1;
        let counts = model.hierarchy().coherence_of(1);
        assert_eq!(counts.sharing, expected, "offset {offset}");
    }
}

/// Two cores that load from pages of their own walk the same tables, and nobody stores to these.
/// They once counted as lines beside the one in use, as if a hardware prefetcher had brought them.
#[test]
fn page_walks_share_nothing() {
    let mut machine = machine(Protocol::Mesi);
    machine.tlbs = vec![machines::tlb(1, &[4096], 1, 4)];
    let (mut arena, mut model) = model(&machine);
    let mut mem = model.on(&mut arena);
    for core in 0..2 {
        mem.use_core(core);
        let field = Field {
            id: 0,
            offset_bytes: 4096 * core as u32,
        };
        mem.load::<8>(Timed::from(Region::Slab.base().0), field);
    }
    assert_eq!(model.hierarchy().coherence_of(1).sharing, [0; 3]);
}

/// No hardware prefetcher is on. Core 1 prefetches by program what core 0 wrote, and loads it: the
/// very bytes, and once only, as the load finds them there. It once counted as a line beside.
#[test]
fn prefetches_by_the_program_are_no_neighbours() {
    let (mut arena, mut model) = model(&machine(Protocol::Mesi));
    let mut mem = model.on(&mut arena);
    let (base, field) = (
        Timed::from(Region::Slab.base().0),
        Field {
            id: 0,
            offset_bytes: 0,
        },
    );
    mem.store::<8>(base, field, Timed::from(1));
    mem.use_core(1);
    mem.prefetch(base, field);
    mem.load::<8>(base, field);
    let sharing = model.hierarchy().coherence_of(1).sharing;
    assert_eq!(sharing, [1, 0, 0]);
}
