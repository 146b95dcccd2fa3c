//! Coherence step by step: the states of all cores after each access, who supplied the line, and
//! how long that took by how far away it was.
//!
//! Latencies: L1D 5, L2 14, L3 40, memory 60 cycles (less than any transfer, but for one test), a
//! locked access 20 more; another core's line 70 under the same L3, 110 under another, 300 in
//! another socket.

#[path = "common/naive/cores.rs"]
mod cores;
#[path = "common/machines.rs"]
mod machines;
#[path = "common/naive/mod.rs"]
mod naive;

use kernels::arena::{Arena, Region};
use kernels::memory::{Field, Memory};
use kwalk::machine::{Inclusion, Machine, Protocol};
use kwalk::model::coherence::State;
use kwalk::model::hierarchy::{Distance, Kind};
use kwalk::model::modelled::{Modelled, Timed};
use kwalk::model::page_map::{Frames, PageMapOptions};
use kwalk::model::{Model, ModelOptions, RegionStats};
use naive::coherence::Supplier;
use naive::hierarchy::Op;
use naive::litmus::LITMUS;

const PROTOCOLS: [Protocol; 3] = [Protocol::Mesi, Protocol::Moesi, Protocol::Mesif];

/// Eight cores, two under each L3, four in each socket; the L3 as given.
fn eight_cores(protocol: Protocol, l3: Inclusion) -> Machine {
    let l2 = cores::shared(2, 64, 8, Inclusion::NonInclusive, 1);
    let l3 = cores::shared(3, 256, 8, l3, 2);
    let mut machine = cores::machine(vec![machines::l1(64, 8), l2, l3], protocol, 8, 4);
    machine.memory.latency_cycles = 60.0;
    machine
}

fn letter(state: State) -> char {
    match state {
        State::Invalid => 'I',
        State::Shared => 'S',
        State::Forward => 'F',
        State::Exclusive => 'E',
        State::Owned => 'O',
        State::Modified => 'M',
    }
}

/// The tables of `naive::litmus`, on three cores under one L3 with one or two private levels: the
/// states, and whether another core supplied the line. A store also waits for the cores that give
/// up their copies, so that it has a transfer whenever another core had the line before.
#[test]
fn litmus_tables() {
    let l2 = |sharers| cores::shared(2, 64, 8, Inclusion::NonInclusive, sharers);
    let l3 = || cores::shared(3, 256, 8, Inclusion::Inclusive, 4);
    for caches in [
        vec![machines::l1(64, 8), l2(4)],
        vec![machines::l1(64, 8), l2(1), l3()],
    ] {
        for (what, protocol, steps) in LITMUS {
            let machine = cores::machine(caches.clone(), protocol, 4, 4);
            let mut caches = cores::hierarchy(&machine, 3);
            let mut before = "III";
            let mut transfers = 0;
            for (at, &(core, op, supplier, after)) in steps.iter().enumerate() {
                let step = format!("{what}, {protocol:?}, step {at}");
                let kind = match op {
                    Op::Load => Kind::Load,
                    Op::Store => Kind::Store,
                };
                let served = cores::touch(&mut caches, core, 7 * 64, 8, 0, kind);
                let held_by = |core: usize| before.as_bytes()[core] != b'I';
                let others = (0..3).any(|other| other != core && held_by(other));
                let from_core = matches!(supplier, Supplier::Core(_));
                let waits = from_core || op == Op::Store && others;
                let distance = waits.then_some(Distance::SameL3);
                assert_eq!(served.transfer(), distance, "{step}");
                assert_eq!(served.level() == 0, held_by(core), "{step}");
                let states: String = (0..3)
                    .map(|core| letter(caches.state(core, 7).expect("several cores")))
                    .collect();
                assert_eq!(states, after, "{step}");
                transfers += u64::from(from_core);
                let counted: u64 = (0..3).map(|c| caches.coherence_of(c).transfers).sum();
                assert_eq!(counted, transfers, "{step}");
                before = after;
            }
        }
    }
}

/// Upgrades and invalidations by core, and lines written back as another core reads them. One core
/// writes, two read, it writes again, a reader reads: the second store is an upgrade that takes two
/// copies away. What was modified is written back at the first load of another core, except under
/// MOESI, where it stays with its owner.
#[test]
fn traffic_by_core() {
    for (protocol, transfers, writebacks) in [
        (Protocol::Mesi, [0, 2, 0], 2),
        (Protocol::Moesi, [0, 2, 1], 0),
        (Protocol::Mesif, [0, 2, 1], 2),
    ] {
        let machine = eight_cores(protocol, Inclusion::NonInclusive);
        let mut caches = cores::hierarchy(&machine, 3);
        for (core, kind) in [
            (0, Kind::Store),
            (1, Kind::Load),
            (2, Kind::Load),
            (0, Kind::Store),
            (1, Kind::Load),
        ] {
            cores::touch(&mut caches, core, 0, 4, 0, kind);
        }
        let stats: Vec<_> = (0..3).map(|core| caches.coherence_of(core)).collect();
        let told = stats.iter().map(|s| s.transfers).collect::<Vec<_>>();
        assert_eq!(told, transfers, "{protocol:?}");
        let told = stats.iter().map(|s| (s.upgrades, s.invalidations));
        assert_eq!(told.collect::<Vec<_>>(), [(1, 2), (0, 0), (0, 0)]);
        let written: u64 = (0..3).map(|core| caches.stats_of(core)[0].writebacks).sum();
        assert_eq!(written, writebacks, "{protocol:?}");
    }
}

fn addr(line: u64) -> Timed {
    Timed::from(Region::Slab.base().0 + line * 64)
}

const F: Field = Field {
    id: 0,
    offset_bytes: 0,
};

/// Run `warm` untimed and then `timed` as a region; what each of the eight cores did.
fn region(
    machine: &Machine,
    warm: impl FnOnce(&mut Modelled),
    timed: impl FnOnce(&mut Modelled),
) -> Vec<RegionStats> {
    let mut arena = Arena::new();
    arena.reserve(Region::Slab.base(), 1 << 16);
    let pages = PageMapOptions {
        page_bytes: 4096,
        frames: Frames::Identity,
        host_page_bytes: None,
    };
    let options = ModelOptions {
        cores: 8,
        ..ModelOptions::default()
    };
    let mut model = Model::new(machine, pages, 0, options).expect("a machine of eight cores");
    let mut mem = model.on(&mut arena);
    mem.untimed();
    warm(&mut mem);
    mem.timed();
    mem.begin_region();
    timed(&mut mem);
    model.end_regions()
}

fn load(mem: &mut Modelled, core: usize) {
    mem.use_core(core);
    mem.load::<8>(addr(0), F);
}

fn store(mem: &mut Modelled, core: usize) {
    mem.use_core(core);
    mem.store::<8>(addr(0), F, Timed::from(1));
}

fn locked(mem: &mut Modelled, core: usize) {
    mem.use_core(core);
    mem.locked_add::<8>(addr(0), F, 1);
}

/// Core 0 asks for what another core wrote: the load takes a transfer, a locked access (request for
/// ownership) 20 cycles more. Core 1 is under the same L3, 2 and 3 in the same socket, 4 to 7 not.
#[test]
fn modified_lines_come_by_distance() {
    for protocol in PROTOCOLS {
        for l3 in [
            Inclusion::NonInclusive,
            Inclusion::Inclusive,
            Inclusion::Exclusive,
        ] {
            let machine = eight_cores(protocol, l3);
            for (owner, cycles) in [
                (1, 70.0),
                (2, 110.0),
                (3, 110.0),
                (4, 300.0),
                (6, 300.0),
                (7, 300.0),
            ] {
                let what = format!("{protocol:?}, {l3:?} L3, owner {owner}");
                let read = region(&machine, |m| store(m, owner), |m| load(m, 0));
                assert_eq!(read[0].cycles, cycles, "load, {what}");
                assert_eq!(read[0].coherence.transfers, 1, "{what}");
                let written = region(&machine, |m| store(m, owner), |m| locked(m, 0));
                assert_eq!(written[0].cycles, cycles + 20.0, "locked, {what}");
                assert_eq!(written[0].coherence.invalidations, 1, "{what}");
                assert_eq!(written[0].coherence.upgrades, 0, "{what}");
            }
        }
    }
}

/// A store to a line that is shared waits for the farthest of those that give it up; one that is
/// exclusive or modified waits for nobody: L1D hit and 20 cycles. The sharers each loaded the line
/// after core 0.
#[test]
fn upgrades_wait_for_the_farthest() {
    let machines = PROTOCOLS.map(|protocol| eight_cores(protocol, Inclusion::NonInclusive));
    let cases: [(&[usize], f64); 6] = [
        (&[], 5.0),
        (&[1], 70.0),
        (&[1, 2], 110.0),
        (&[3], 110.0),
        (&[5, 1], 300.0),
        (&[1, 2, 3, 4, 5, 6, 7], 300.0),
    ];
    for machine in &machines {
        for (sharers, cycles) in cases {
            for first in [load, store] {
                let warm = |m: &mut Modelled| {
                    first(m, 0);
                    sharers.iter().for_each(|core| load(m, *core));
                };
                let stats = region(machine, warm, |m| locked(m, 0));
                assert_eq!(stats[0].cycles, cycles + 20.0, "sharers {sharers:?}");
                let (copies, counts) = (sharers.len() as u64, stats[0].coherence);
                assert_eq!(counts.upgrades, copies.min(1), "sharers {sharers:?}");
                assert_eq!(counts.invalidations, copies, "sharers {sharers:?}");
                assert_eq!(counts.transfers, 0, "sharers {sharers:?}");
            }
        }
    }
}

/// Who supplies the third reader. Core 1 wrote (or read) first, core 2 read: under MESI nobody has
/// the line for itself any more and core 3 finds it in its L3, as that of core 2: 40 cycles; under
/// MOESI the owner, core 1, supplies, which is under another L3; under MESIF the last reader, core
/// 2, which is under the same. What core 1 only read it does not own: MOESI is then as MESI.
#[test]
fn third_readers() {
    for (protocol, wrote, cycles, transfers) in [
        (Protocol::Mesi, true, 40.0, 0),
        (Protocol::Moesi, true, 110.0, 1),
        (Protocol::Mesif, true, 70.0, 1),
        (Protocol::Mesi, false, 40.0, 0),
        (Protocol::Moesi, false, 40.0, 0),
        (Protocol::Mesif, false, 70.0, 1),
    ] {
        let machine = eight_cores(protocol, Inclusion::NonInclusive);
        let warm = |m: &mut Modelled| {
            if wrote {
                store(m, 1)
            } else {
                load(m, 1)
            }
            load(m, 2);
        };
        let stats = region(&machine, warm, |m| load(m, 3));
        assert_eq!(stats[3].cycles, cycles, "{protocol:?}, wrote: {wrote}");
        assert_eq!(stats[3].coherence.transfers, transfers, "{protocol:?}");
    }
}

/// Transfers of one line follow each other: core 0 has it after 70 cycles; cores 2 and 4, which ask
/// at once as well, after 110 and 300 more.
#[test]
fn transfers_of_a_line_queue() {
    let machine = eight_cores(Protocol::Moesi, Inclusion::NonInclusive);
    let timed = |m: &mut Modelled| [0, 2, 4].into_iter().for_each(|core| load(m, core));
    let stats = region(&machine, |m| store(m, 1), timed);
    let cycles: Vec<f64> = [0, 2, 4].map(|core: usize| stats[core].cycles).to_vec();
    assert_eq!(cycles, [70.0, 180.0, 480.0]);
}

/// A line that another core supplies does not come from memory, and takes the transfer alone, also
/// where memory takes longer (200 cycles here) and the L3 does not have the line: an exclusive one,
/// or another core's. A store to a line of which cores 1 and 2 have copies that are as memory is has its
/// data from there, and waits for the longer of memory and the copies' end.
#[test]
fn transfers_do_not_wait_for_memory() {
    for (l3, owner, cycles) in [
        (Inclusion::Exclusive, 1, 70.0),
        (Inclusion::NonInclusive, 2, 110.0),
    ] {
        let mut machine = eight_cores(Protocol::Moesi, l3);
        machine.memory.latency_cycles = 200.0;
        let stats = region(&machine, |m| store(m, owner), |m| load(m, 0));
        assert_eq!(stats[0].cycles, cycles, "{l3:?} L3, owner {owner}");
    }
    let mut machine = eight_cores(Protocol::Mesi, Inclusion::Exclusive);
    for (memory, cycles) in [(200.0, 200.0), (100.0, 110.0)] {
        machine.memory.latency_cycles = memory;
        let warm = |m: &mut Modelled| [1, 2].into_iter().for_each(|core| load(m, core));
        let stats = region(&machine, warm, |m| locked(m, 0));
        assert_eq!(stats[0].cycles, cycles + 20.0, "memory at {memory}");
    }
}
