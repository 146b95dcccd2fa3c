//! The core's timing, on machines of `common/machines.rs`: every expected time is worked out by
//! hand.
//!
//! Times count from an idle core. Instruction `i` is dispatched in cycle `i` at the earliest (issue
//! width 1). L1D 5, L2 14, memory 200 cycles.

#[path = "common/machines.rs"]
mod machines;

use kernels::arena::{Arena, Region};
use kernels::memory::{Addr, Field, Memory, Word};
use kwalk::machine::{Machine, Tlb};
use kwalk::model::modelled::{Modelled, Timed};
use kwalk::model::page_map::{Frames, PageMapOptions};
use kwalk::model::{Model, ModelOptions, RegionStats};

const F: Field = Field {
    id: 0,
    offset_bytes: 0,
};

fn at(addr: Addr) -> Timed {
    Timed::from(addr.0)
}

/// The `i`th of objects `stride` bytes apart.
fn object(i: u64, stride: u64) -> Addr {
    Region::Slab.base().plus(i * stride)
}

/// Run `warm` untimed and then `timed` as a region.
fn region(
    machine: &Machine,
    warm: impl FnOnce(&mut Modelled),
    timed: impl FnOnce(&mut Modelled),
) -> RegionStats {
    let mut arena = Arena::new();
    arena.reserve(Region::Slab.base(), 4 << 20);
    let pages = PageMapOptions {
        page_bytes: 4096,
        frames: Frames::Identity,
        host_page_bytes: None,
    };
    let mut model = Model::new(machine, pages, 0, ModelOptions::default()).unwrap();
    let mut mem = model.on(&mut arena);
    mem.untimed();
    warm(&mut mem);
    mem.begin_region();
    timed(&mut mem);
    mem.end_region()
}

fn touch(mem: &mut Modelled, objects: u64, stride: u64) {
    for i in 0..objects {
        mem.load::<8>(at(object(i, stride)), F);
    }
}

/// Follow a chain: each address depends on the load before.
fn chase(mem: &mut Modelled, objects: u64, stride: u64) {
    let mut last = Timed::from(0);
    for i in 0..objects {
        let base = last.map(|zero| zero + object(i, stride).0);
        last = mem.load::<8>(base, F);
    }
}

/// A chain of n loads takes n latencies: of the L1D; of the L2 where nine lines share a set of
/// eight ways under LRU; of memory where nothing was touched.
#[test]
fn a_dependent_chain_takes_its_latencies() {
    let machine = machines::two_levels();
    for (objects, stride, warm, latency) in [
        (100, 64, true, 5),
        (9, 4096, true, 14),
        (100, 4096, true, 14),
        (100, 64, false, 200),
    ] {
        let stats = region(
            &machine,
            |mem| {
                if warm {
                    touch(mem, objects, stride);
                }
            },
            |mem| chase(mem, objects, stride),
        );
        assert_eq!(
            stats.cycles,
            (objects * latency) as f64,
            "{objects} x {stride}"
        );
    }
}

/// Latencies need not be whole: 4 loads of 4.25 cycles are 17.
#[test]
fn fractions_of_cycles_count() {
    let mut machine = machines::two_levels();
    machine.caches[0].latency_cycles = 4.25;
    let stats = region(&machine, |mem| touch(mem, 4, 64), |mem| chase(mem, 4, 64));
    assert_eq!(stats.cycles, 17.0);
}

/// With more issue width than ports, n independent L1D hits start `ports` per cycle: the last in
/// cycle n / ports - 1, and 5 later it is there. Those that complete together retire 1/width apart.
#[test]
fn independent_loads_are_bound_by_ports() {
    for (width, ports) in [(4, 1), (4, 2), (6, 3), (10, 2)] {
        let mut machine = machines::two_levels();
        machine.core.issue_width = width;
        machine.core.load_ports = ports;
        machine.core.memory_ports = ports + 1;
        let n = 300;
        let stats = region(&machine, |mem| touch(mem, n, 64), |mem| touch(mem, n, 64));
        let last_start = n / u64::from(ports) - 1;
        let apart = f64::from(ports - 1) / f64::from(width);
        let expected = (last_start + 5) as f64 + apart;
        assert!(
            (stats.cycles - expected).abs() < 1e-9,
            "{width}, {ports}: {}",
            stats.cycles
        );
    }
}

/// Address generators that loads and stores share: n loads and n stores to other lines, in turn, start `together` per cycle, so the last of the 2n in cycle 2n / together - 1. It is a
/// store, and retires a cycle later; the load before it, started in the same cycle or the one
/// before, is there 5 after its start.
#[test]
fn loads_and_stores_share_memory_ports() {
    for (together, loads, stores) in [(1, 1, 1), (2, 2, 2), (4, 4, 2)] {
        let mut machine = machines::two_levels();
        machine.core.issue_width = 10;
        machine.core.load_ports = loads;
        machine.core.store_ports = stores;
        machine.core.memory_ports = together;
        let n = 120;
        let both = |mem: &mut Modelled<'_>| {
            for i in 0..n {
                mem.load::<8>(at(object(i, 128)), F);
                // Two to a line, as two drain together.
                let word = F.at(8 * (i as u32 % 2));
                mem.store::<8>(at(object(i | 1, 64)), word, Timed::from(1));
            }
        };
        let stats = region(&machine, both, both);
        let starts = (2 * n) as f64 / f64::from(together);
        assert!(
            (starts..=starts + 6.0).contains(&stats.cycles),
            "{together} together: {} cycles for {starts}",
            stats.cycles
        );
    }
}

/// Forty independent misses, ten at a time: the tenth starts in cycle 9, the 40th three latencies
/// later. With one at a time it is a chain.
#[test]
fn misses_overlap_up_to_the_outstanding_ones() {
    for (l1, l2, expected) in [(10, 64, 809), (64, 10, 809), (1, 64, 8000), (64, 64, 239)] {
        let mut machine = machines::two_levels();
        machine.caches[0].outstanding_misses = l1;
        machine.caches[1].outstanding_misses = l2;
        let stats = region(&machine, |_| (), |mem| touch(mem, 40, 64));
        assert_eq!(
            stats.cycles,
            f64::from(expected),
            "{l1} and {l2} outstanding"
        );
    }
}

/// A chain of misses holds one register at a time, so nine independent misses still overlap with it
/// when there are ten: 3 x 200 for the chain, the others are long done.
#[test]
fn a_chain_of_misses_leaves_room_for_others() {
    let machine = machines::two_levels();
    let timed = |mem: &mut Modelled| {
        let mut last = Timed::from(0);
        for i in 0..3 {
            last = mem.load::<8>(last.map(|zero| zero + object(100 + i, 64).0), F);
        }
        touch(mem, 9, 64);
    };
    // The chain's loads take cycle 0, 200, 400; the nine start from cycle 3 to 11, retire in order
    // behind it.
    let stats = region(&machine, |_| (), timed);
    assert_eq!(stats.cycles, 600.0 + 9.0);
}

/// Misses further apart than the window cannot overlap: behind each, the window fills with `work`
/// and waits. The next is dispatched a cycle after the miss before retires: n latencies and n - 1
/// cycles. At half the window two misses are in it at a time.
#[test]
fn a_full_window_serialises_misses() {
    let machine = machines::two_levels();
    let misses = |work| {
        let timed = |mem: &mut Modelled| {
            for i in 0..6 {
                if i > 0 {
                    mem.work(work);
                }
                mem.load::<8>(at(object(i, 64)), F);
            }
        };
        region(&machine, |_| (), timed).cycles
    };
    assert_eq!(misses(machine.core.window), 6.0 * 200.0 + 5.0);
    assert!(misses(machine.core.window / 2) < 3.5 * 200.0);
}

/// `work` of n instructions: one dispatched per cycle, one cycle each.
#[test]
fn work_takes_issue_slots() {
    let mut machine = machines::two_levels();
    for width in [1, 3, 10] {
        machine.core.issue_width = width;
        let stats = region(&machine, |_| (), |mem| mem.work(300));
        let expected = f64::from(300 / width) - 1.0 / f64::from(width) + 1.0;
        assert!(
            (stats.cycles - expected).abs() < 1e-9,
            "{width}: {}",
            stats.cycles
        );
        assert_eq!(stats.core.instructions, 300);
    }
}

/// A second load of a line in flight completes with it (and retires a cycle later), and is no miss.
/// One whose turn comes earlier, since the first one's address is late, does not wait for the
/// first.
#[test]
fn accesses_to_a_line_in_flight_merge() {
    let mut machine = machines::two_levels();
    machine.caches[0].outstanding_misses = 1;
    let same = |mem: &mut Modelled| {
        mem.load::<8>(at(object(0, 64)), F);
        mem.load::<8>(at(object(0, 64).plus(8)), F);
    };
    let stats = region(&machine, |_| (), same);
    assert_eq!(stats.cycles, 201.0);
    assert_eq!(stats.levels[0].loads.misses, 1);

    let machine = machines::two_levels();
    let late_first = |mem: &mut Modelled| {
        let late = mem.load::<8>(at(object(9, 64)), F);
        mem.load::<8>(late.map(|zero| zero + object(0, 64).0), F);
        let early = mem.load::<8>(at(object(0, 64)), F);
        // Dispatched in cycle 2, so ready at 202; a chain of two L1D hits behind it: 212.
        let mut last = early;
        for _ in 0..2 {
            last = mem.load::<8>(last.map(|zero| zero + object(20, 64).0), F);
        }
        assert_eq!(last.ready - early.ready, 2 * 5 * 2520);
        assert_eq!(early.ready + 198 * 2520, late.ready + 200 * 2520);
    };
    let warm = |mem: &mut Modelled| {
        mem.load::<8>(at(object(20, 64)), F);
    };
    region(&machine, warm, late_first);
}

/// Issue width 2. A load of stored bytes gets them 4 cycles after it starts (half a cycle behind
/// the store), or after the stored value has come from memory (200). Bytes beside them come from
/// the cache.
#[test]
fn stores_forward_to_loads() {
    let mut machine = machines::two_levels();
    machine.core.issue_width = 2;
    let (a, b) = (object(0, 64), object(1, 64));
    let ready_store = |mem: &mut Modelled| {
        mem.store::<8>(at(a), F, Timed::from(7));
        let value = mem.load::<8>(at(a), F);
        assert_eq!(value.value, 7);
    };
    let warm = |mem: &mut Modelled| {
        mem.load::<8>(at(a), F);
    };
    assert_eq!(region(&machine, warm, ready_store).cycles, 0.5 + 4.0);
    let late_value = |mem: &mut Modelled| {
        let late = mem.load::<8>(at(b), F);
        mem.store::<8>(at(a), F, late);
        mem.load::<4>(at(a.plus(4)), F);
    };
    // The store retires at 201.
    assert_eq!(region(&machine, warm, late_value).cycles, 204.0);
    let other_bytes = |mem: &mut Modelled| {
        let late = mem.load::<8>(at(b), F);
        mem.store::<4>(at(a), F, late);
        let beside = mem.load::<4>(at(a.plus(4)), F);
        assert_eq!(
            beside.ready + 194 * 2520,
            late.ready,
            "starts in cycle 1, an L1D hit"
        );
    };
    region(&machine, warm, other_bytes);
}

/// A load that spans more than the store waits until the store has drained: it executes in cycle 0,
/// retires and drains at 1, and an L1D latency later the load is done.
#[test]
fn partly_stored_bytes_wait_for_the_drain() {
    let mut machine = machines::two_levels();
    machine.core.issue_width = 2;
    let a = object(0, 64);
    let timed = |mem: &mut Modelled| {
        mem.store::<4>(at(a), F, Timed::from(1));
        mem.load::<8>(at(a), F);
    };
    let warm = |mem: &mut Modelled| {
        mem.load::<8>(at(a), F);
    };
    assert_eq!(region(&machine, warm, timed).cycles, 1.0 + 5.0);
}

/// Stores that hit drain one a cycle and never wait: n cycles.
#[test]
fn stores_that_hit_flow() {
    let machine = machines::two_levels();
    let timed = |mem: &mut Modelled| {
        for i in 0..100 {
            mem.store::<8>(at(object(i % 8, 64)), F, Timed::from(i));
        }
    };
    let stats = region(&machine, |mem| touch(mem, 8, 64), timed);
    assert_eq!(stats.cycles, 100.0);
}

/// Two stores a cycle drain to one line, one to any other: what four take on Emerald Rapids, measured
/// there, is 2 cycles side by side or as pairs, and 4 in turns or each to a line of its own. A short
/// buffer makes drains what all waits for, but for the last few.
#[test]
fn stores_drain_a_line_a_cycle() {
    for (lines, cycles) in [
        ([0, 0, 0, 0], 2.0),
        ([0, 0, 1, 1], 2.0),
        ([0, 1, 0, 1], 4.0),
        ([0, 1, 2, 3], 4.0),
    ] {
        let mut machine = machines::two_levels();
        machine.core.issue_width = 10;
        machine.core.store_ports = 2;
        machine.core.memory_ports = 3;
        machine.core.store_buffer = 8;
        let rounds = 100_u32;
        let timed = |mem: &mut Modelled| {
            for i in 0..4 * rounds {
                let word = F.at(8 * (i % 4));
                mem.store::<8>(at(object(lines[i as usize % 4], 64)), word, Timed::from(1));
            }
        };
        let taken = region(&machine, |mem| touch(mem, 4, 64), timed).cycles;
        let all = f64::from(rounds) * cycles;
        assert!(
            (all - 10.0..=all + 2.0).contains(&taken),
            "{lines:?}: {taken} for {all}"
        );
    }
}

/// A store that misses retires at once, but its buffer entry is taken until its line comes. With 4
/// entries and 1 outstanding miss, 5 stores that miss: the fifth is dispatched when the first has
/// drained (200) and retires a cycle later; with 5 entries it retires at 5.
#[test]
fn a_full_store_buffer_stops_dispatch() {
    for (entries, expected) in [(4, 201.0), (5, 5.0)] {
        let mut machine = machines::two_levels();
        machine.core.store_buffer = entries;
        machine.caches[0].outstanding_misses = 1;
        let timed = |mem: &mut Modelled| {
            for i in 0..5 {
                mem.store::<8>(at(object(i, 64)), F, Timed::from(i));
            }
        };
        assert_eq!(
            region(&machine, |_| (), timed).cycles,
            expected,
            "{entries}"
        );
    }
}

/// Locked additions to a line at hand: each waits for the one before and takes 5 + 20. A load
/// behind them starts after them. A fence takes 20, after the store before it has drained.
#[test]
fn locked_accesses_and_fences_serialise() {
    let machine = machines::two_levels();
    let a = object(0, 64);
    let warm = |mem: &mut Modelled| touch(mem, 2, 64);
    let locked = |mem: &mut Modelled| {
        for i in 0..7 {
            let old = mem.locked_add::<8>(at(a), F, 3);
            assert_eq!(old.value, 3 * i);
        }
        mem.load::<8>(at(object(1, 64)), F);
    };
    assert_eq!(region(&machine, warm, locked).cycles, 7.0 * 25.0 + 5.0);
    let fenced = |mem: &mut Modelled| {
        // Misses: drains at 200.
        mem.store::<8>(at(object(5, 64)), F, Timed::from(1));
        mem.fence();
        mem.load::<8>(at(a), F);
    };
    assert_eq!(region(&machine, warm, fenced).cycles, 200.0 + 20.0 + 5.0);
}

/// Power-up guesses not taken. A taken branch on a constant stops dispatch for 15 cycles, on a
/// value from memory for 200 + 15 more than its load; a branch not taken stops nothing.
#[test]
fn mispredictions_stop_dispatch() {
    let machine = machines::two_levels();
    let warm = |mem: &mut Modelled| touch(mem, 1, 64);
    let branch = |taken: bool, miss: bool| {
        move |mem: &mut Modelled| {
            let on = match miss {
                true => mem.load::<8>(at(object(50, 64)), F),
                false => Timed::from(1),
            };
            mem.branch(3, on, taken);
            mem.load::<8>(at(object(0, 64)), F);
        }
    };
    assert_eq!(
        region(&machine, warm, branch(true, false)).cycles,
        15.0 + 5.0
    );
    assert_eq!(
        region(&machine, warm, branch(true, true)).cycles,
        200.0 + 15.0 + 5.0
    );
    // Branch in cycle 0, load in cycle 1.
    assert_eq!(
        region(&machine, warm, branch(false, false)).cycles,
        1.0 + 5.0
    );
    // The miss retires at 200, the branch on it at 201, the load behind at 202.
    let stats = region(&machine, warm, branch(false, true));
    assert_eq!(stats.cycles, 202.0);
    assert_eq!((stats.core.branches, stats.core.mispredicted), (1, 0));
}

/// A loop of 5 rounds, taken four times and then not, is learnt: the history of 12 tells where in
/// the loop it is.
#[test]
fn short_patterns_are_learnt() {
    let rounds = |mem: &mut Modelled, n: u64| {
        for i in 0..n {
            mem.branch(1, Timed::from(0), i % 5 != 4);
        }
    };
    let stats = region(
        &machines::two_levels(),
        |mem| rounds(mem, 500),
        |mem| rounds(mem, 500),
    );
    assert_eq!((stats.core.branches, stats.core.mispredicted), (500, 0));
}

/// B is prefetched in cycle 0 and there at 200; the load of A starts in cycle 1 and is there at
/// 201; B, whose address depends on A, is an L1D hit then: 206 instead of 400. A prefetch of a null
/// pointer does nothing.
#[test]
fn prefetches_hide_misses() {
    let machine = machines::two_levels();
    let (a, b) = (object(0, 64), object(1, 64));
    let timed = |mem: &mut Modelled| {
        mem.prefetch(at(b), F);
        let first = mem.load::<8>(at(a), F);
        mem.load::<8>(first.map(|zero| zero + b.0), F);
        mem.prefetch(Timed::from(0), F.at(2232));
    };
    // The last prefetch retires a cycle after the load before it.
    let stats = region(&machine, |_| (), timed);
    assert_eq!(stats.cycles, 207.0);
    let l1 = stats.levels[0];
    assert_eq!(
        (l1.prefetches.misses, l1.loads.misses, l1.loads.hits),
        (1, 1, 1)
    );
}

/// An access across two lines waits for both: one in the L1D, one in memory.
#[test]
fn straddling_accesses_take_the_later_line() {
    let timed = |mem: &mut Modelled| {
        mem.load::<8>(at(object(0, 64).plus(60)), F);
    };
    let stats = region(&machines::two_levels(), |mem| touch(mem, 1, 64), timed);
    assert_eq!(stats.cycles, 200.0);
    assert_eq!(stats.levels[0].loads.requests, 2);
}

/// Four DTLB entries, 16 STLB entries, LRU, a chain over n pages of 4 KiB whose lines are in the
/// L1D: up to 4 pages 5 cycles each, up to 16 pages 5 + 7, beyond 5 + 7 and a walk. A walk loads from
/// four tables here, whose lines the L1D holds as well: 30 with the first load in it, and three
/// times 5. Without STLB beyond 4: 5 and a walk.
#[test]
fn translations_add_their_latency() {
    let small: &[u64] = &[4096];
    let two = vec![machines::tlb(1, small, 1, 4), machines::tlb(2, small, 4, 4)];
    let one: Vec<Tlb> = two[..1].to_vec();
    for (tlbs, pages, per_load, misses, walks) in [
        (&two, 4, 5, 0, 0),
        (&two, 5, 12, 1, 0),
        (&two, 16, 12, 1, 0),
        (&two, 20, 57, 1, 1),
        (&one, 4, 5, 0, 0),
        (&one, 16, 50, 1, 1),
    ] {
        let mut machine = machines::two_levels();
        machine.tlbs = tlbs.clone();
        let stride = 4096 + 64;
        let stats = region(
            &machine,
            |mem| touch(mem, pages, stride),
            |mem| chase(mem, pages, stride),
        );
        assert_eq!(stats.cycles, (pages * per_load) as f64, "{pages} pages");
        assert_eq!(stats.tlb.requests, pages);
        assert_eq!(stats.tlb.dtlb_misses, pages * misses, "{pages} pages");
        assert_eq!(stats.tlb.walks, pages * walks, "{pages} pages");
    }
}

#[test]
fn what_cannot_be_modelled_says_what_could() {
    let refusal = |change: &dyn Fn(&mut Machine)| {
        let mut machine = machines::two_levels();
        change(&mut machine);
        Model::new(&machine, PageMapOptions::SMALL, 0, ModelOptions::default())
            .unwrap_err()
            .to_string()
    };
    for (message, part) in [
        (
            refusal(&|m| m.core.issue_width = 11),
            "core: issue_width = 11",
        ),
        (refusal(&|m| m.core.window = 0), "window = 0"),
        (refusal(&|m| m.caches[1].latency_cycles = 4.0), "at least 5"),
        (
            refusal(&|m| m.memory.latency_cycles = f64::NAN),
            "memory: latency_cycles = NaN",
        ),
        (
            refusal(&|m| m.caches[0].outstanding_misses = 0),
            "outstanding_misses = 0",
        ),
        (
            refusal(&|m| m.tlbs = vec![machines::tlb(1, &[2 << 20], 1, 4)]),
            "no table lists pages of 4096 bytes",
        ),
    ] {
        assert!(message.contains(part), "{message}");
    }
}
