//! A kernel's view: data, pages, attribution, starts, filters, and that all of it repeats to the
//! bit.

#[path = "common/machines.rs"]
mod machines;

use std::collections::HashSet;

use kernels::arena::{Arena, Random, Region};
use kernels::memory::{Field, Memory, Word};
use kwalk::machine::{Inclusion, Machine, Replacement};
use kwalk::model::attribution::{MissLevel, MissRow, UNNAMED};
use kwalk::model::classify::Cause;
use kwalk::model::modelled::{Modelled, Timed};
use kwalk::model::page_map::{Frames, PageMap, PageMapOptions};
use kwalk::model::{FieldSet, Model, ModelOptions, RegionStats};
use proptest::prelude::*;

const IDENTITY: PageMapOptions = PageMapOptions {
    page_bytes: 4096,
    frames: Frames::Identity,
    host_page_bytes: None,
};

fn arena() -> Arena {
    let mut arena = Arena::new();
    for region in Region::ALL {
        arena.reserve(region.base(), 1 << 20);
    }
    arena
}

fn model(machine: &Machine) -> Model {
    Model::new(machine, IDENTITY, 0, ModelOptions::default()).unwrap()
}

fn slab(offset: u64) -> Timed {
    Timed::from(Region::Slab.base().plus(offset).0)
}

fn field(id: u16, offset_bytes: u32) -> Field {
    Field { id, offset_bytes }
}

/// Every width reads back what was stored, zero-extended; neighbours keep theirs; a 16-byte store
/// has its value in the low half and zeros above.
#[test]
fn data_are_the_arenas() {
    let (mut arena, machine) = (arena(), machines::two_levels());
    let mut model = model(&machine);
    let mut mem = model.on(&mut arena);
    let (base, all) = (slab(0), Timed::from(u64::MAX));
    mem.store::<8>(base, field(0, 0), all);
    mem.store::<8>(base, field(0, 8), all);
    mem.store::<1>(base, field(0, 1), Timed::from(0x1234));
    mem.store::<2>(base, field(0, 2), Timed::from(0x5678));
    mem.store::<4>(base, field(0, 4), Timed::from(0x9abc_def0));
    assert_eq!(
        mem.load::<8>(base, field(0, 0)).get(),
        0x9abc_def0_5678_34ff
    );
    assert_eq!(mem.load::<4>(base, field(0, 2)).get(), 0xdef0_5678);
    assert_eq!(mem.load::<2>(base, field(0, 1)).get(), 0x7834);
    assert_eq!(mem.load::<1>(base, field(0, 1)).get(), 0x34);
    assert_eq!(
        mem.locked_add::<4>(base, field(0, 4), 0x7000_0000).get(),
        0x9abc_def0
    );
    assert_eq!(mem.load::<4>(base, field(0, 4)).get(), 0x0abc_def0);
    assert_eq!(mem.load::<4>(base, field(0, 8)).get(), 0xffff_ffff);
    mem.store::<16>(base, field(0, 0), Timed::from(5));
    assert_eq!(mem.load::<16>(base, field(0, 0)).get(), 5);
    assert_eq!(mem.load::<8>(base, field(0, 8)).get(), 0);
}

/// Nine objects 4096 bytes apart in 64 sets of 8 ways: field 7 at offset 136 lies in line 2 of each
/// and in set 2, and every walk after the first misses nine times, a conflict, served by the L2 (14
/// - 5 cycles more). Field 4 at offset 0 of the first object hits. Warm-up is not booked.
#[test]
fn misses_are_booked_to_field_line_set_and_cause() {
    let (mut arena, machine) = (arena(), machines::two_levels());
    let mut model = model(&machine);
    let mut mem = model.on(&mut arena);
    let walk = |mem: &mut Modelled| {
        mem.enter(3);
        mem.load::<4>(slab(0), field(4, 0));
        for object in 0..9 {
            mem.load::<8>(slab(4096 * object), field(7, 136));
        }
    };
    walk(&mut mem);
    let mut demand = 0;
    for _ in 0..5 {
        mem.begin_region();
        walk(&mut mem);
        demand += mem.end_region().levels[0].demand_misses();
    }
    walk(&mut mem);
    let expected = MissRow {
        function: 3,
        field: 7,
        line: 2,
        set: 2,
        level: MissLevel::Cache(1),
        cause: Some(Cause::Conflict),
        misses: 45,
        cycles: 45.0 * 9.0,
    };
    assert_eq!(demand, 45);
    assert_eq!(model.misses(), std::slice::from_ref(&expected));
    let functions = ["a", "b", "c", "walk"];
    let fields = [("x", "y"); 8];
    assert_eq!(expected.names(&functions, &fields), ("walk", "x", "y"));
    assert_eq!(expected.names(&[], &[]), (UNNAMED, UNNAMED, UNNAMED));
    model.clear_misses();
    assert_eq!(model.misses(), []);
}

/// One cold load: L1D and L2 miss, compulsory where classified, DTLB and STLB miss. The rows sum up
/// to what the access took beyond 5 cycles: (14 - 5) + (200 - 14) + 7 + 30.
#[test]
fn rows_of_an_access_sum_up_to_its_latency() {
    let mut machine = machines::two_levels();
    machine.tlbs = vec![
        machines::tlb(1, &[4096], 1, 4),
        machines::tlb(2, &[4096], 4, 4),
    ];
    let (mut arena, mut model) = (arena(), model(&machine));
    let mut mem = model.on(&mut arena);
    mem.begin_region();
    mem.load::<8>(slab(5 * 4096 + 64), field(0, 0));
    assert_eq!(mem.end_region().cycles, 200.0 + 7.0 + 825.0);
    let rows: Vec<_> = model
        .misses()
        .into_iter()
        .map(|row| (row.level.name(), row.cause, row.set, row.cycles))
        .collect();
    let translation = Some(Cause::Translation);
    // 1 GiB is page 0x40000: it and 5 more, modulo 4 sets, is set 1. Its line is 5 * 64 + 1 modulo
    // 1024.
    let expected = [
        ("l1d", Some(Cause::Compulsory), 1, 9.0),
        ("l2", None, 321, 186.0),
        ("dtlb", translation, 0, 7.0),
        ("stlb", translation, 1, 825.0),
    ];
    assert_eq!(rows, expected);
}

/// Warm, polluted and flushed starts of the same eight loads: all hit; all miss the L1D after as
/// much other data as it holds, sought in the same sets; all come from memory, compulsory. Other
/// data are not in the region's counts or time.
#[test]
fn starts_differ_in_caches_only() {
    let machine = machines::two_levels();
    let (mut arena, mut model) = (arena(), model(&machine));
    let mut mem = model.on(&mut arena);
    let walk = |mem: &mut Modelled| {
        mem.begin_region();
        for object in 0..8 {
            mem.load::<8>(slab(64 * object), field(0, 0));
        }
        mem.end_region()
    };
    let served = |s: &RegionStats| (s.levels[0].loads.misses, s.levels[1].loads.misses);
    walk(&mut mem);
    let warm = walk(&mut mem);
    assert_eq!((served(&warm), warm.cycles), ((0, 0), 7.0 + 5.0));
    mem.untimed();
    for line in 0..512 {
        mem.load::<8>(Timed::from(Region::Other.base().0 + 64 * line), field(1, 0));
    }
    let polluted = walk(&mut mem);
    assert_eq!((served(&polluted), polluted.cycles), ((8, 0), 7.0 + 14.0));
    assert_eq!(polluted.levels[0].loads.requests, 8);
    assert_eq!(polluted.levels[0].causes, [0, 8, 0]);
    mem.flush_caches(true);
    let flushed = walk(&mut mem);
    assert_eq!((served(&flushed), flushed.cycles), ((8, 8), 7.0 + 200.0));
    assert_eq!(flushed.levels[0].causes, [8, 0, 0]);
}

/// Accesses of an unseen field yield their data, change no cache and take an L1D hit's time.
#[test]
fn unseen_fields_are_kept_from_the_caches() {
    let machine = machines::two_levels();
    let options = ModelOptions {
        unseen: FieldSet::from_iter([5, 70]),
        ..ModelOptions::default()
    };
    let mut arena = arena();
    let mut model = Model::new(&machine, IDENTITY, 0, options).unwrap();
    let mut mem = model.on(&mut arena);
    mem.begin_region();
    mem.store::<8>(slab(0), field(70, 0), Timed::from(9));
    mem.prefetch(slab(64), field(5, 0));
    assert_eq!(mem.locked_add::<8>(slab(0), field(5, 0), 1).get(), 9);
    assert_eq!(mem.load::<8>(slab(0), field(70, 0)).get(), 10);
    let unseen = mem.end_region();
    assert_eq!(
        unseen.levels,
        RegionStats {
            levels: Default::default(),
            ..unseen
        }
        .levels
    );
    assert_eq!((unseen.tlb.requests, unseen.core.instructions), (0, 4));
    mem.begin_region();
    mem.load::<8>(slab(0), field(5, 0));
    assert_eq!(mem.end_region().cycles, 5.0);
    mem.begin_region();
    mem.load::<8>(slab(0), field(4, 0));
    assert_eq!(mem.end_region().levels[0].loads.misses, 1);
}

/// Per-CPU memory keeps 4 KiB pages where all else has 2 MiB ones: a TLB of four 4 KiB entries
/// misses on five of its pages in turn, while 256 KiB of slab memory are one large page.
#[test]
fn page_size_goes_by_region() {
    let mut machine = machines::two_levels();
    machine.tlbs = vec![
        machines::tlb(1, &[4096], 1, 4),
        machines::tlb(1, &[2 << 20], 1, 4),
    ];
    let mut model = Model::new(&machine, PageMapOptions::HUGE, 1, ModelOptions::default()).unwrap();
    let mut arena = arena();
    let mut mem = model.on(&mut arena);
    for (region, misses) in [(Region::Slab, 0), (Region::PerCpu, 5), (Region::Static, 0)] {
        let sweep = |mem: &mut Modelled| {
            for page in 0..5 {
                mem.load::<8>(Timed::from(region.base().0 + 4096 * page), field(0, 0));
            }
        };
        sweep(&mut mem);
        mem.begin_region();
        sweep(&mut mem);
        assert_eq!(mem.end_region().tlb.dtlb_misses, misses, "{region:?}");
    }
}

/// Both page sizes in one table share its entries: four large and one small page in turn are five
/// for four ways.
#[test]
fn page_sizes_may_share_a_tlb() {
    let mut machine = machines::two_levels();
    machine.tlbs = vec![machines::tlb(1, &[4096, 2 << 20], 1, 4)];
    for (large, misses) in [(3, 0), (4, 5)] {
        let mut model =
            Model::new(&machine, PageMapOptions::HUGE, 1, ModelOptions::default()).unwrap();
        let mut arena = arena();
        arena.reserve(Region::Slab.base(), 8 << 20);
        let mut mem = model.on(&mut arena);
        let sweep = |mem: &mut Modelled| {
            for page in 0..large {
                mem.load::<8>(slab(page << 21), field(0, 0));
            }
            mem.load::<8>(Timed::from(Region::PerCpu.base().0), field(0, 0));
        };
        sweep(&mut mem);
        mem.begin_region();
        sweep(&mut mem);
        assert_eq!(mem.end_region().tlb.dtlb_misses, misses, "{large}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// Distinct pages get distinct frames, of both sizes, and bits within a page are kept; another
    /// seed gives other frames.
    #[test]
    fn frames_are_a_permutation(seed in any::<u64>(), huge in any::<bool>()) {
        let options = if huge { PageMapOptions::HUGE } else { PageMapOptions::SMALL };
        let (mut map, mut other) = (PageMap::new(options, seed).unwrap(), PageMap::new(options, !seed).unwrap());
        let mut frames = HashSet::new();
        let mut moved = 0;
        for region in Region::ALL {
            for page in 0..512_u64 {
                let small = region == Region::PerCpu || !huge;
                let bytes = if small { 4096 } else { 2 << 20 };
                let addr = region.base().0 + page * bytes + 0x123;
                let place = map.locate(addr);
                prop_assert_eq!(place.physical % bytes, 0x123);
                // Every 4 KiB of a frame is its own.
                for part in (0..bytes).step_by(256 << 10) {
                    prop_assert!(frames.insert((place.physical - 0x123 + part) >> 12));
                }
                moved += u64::from(other.locate(addr) != place);
            }
        }
        prop_assert!(moved > 2000, "{moved} of 2048 pages moved");
    }
}

/// A level that is indexed beyond the page offset sees frames, not nominal addresses: 128 lines 16
/// KiB apart are one set of 256 by nominal address, and four residues by frame of 4 KiB. Frames
/// spread them: each of the four gets 32 on average, standard deviation 4.9, so at least 10 (4.5
/// deviations).
#[test]
fn frames_spread_over_physically_indexed_sets() {
    for seed in 0..20 {
        let mut map = PageMap::new(PageMapOptions::SMALL, seed).unwrap();
        let mut share = [0; 4];
        for i in 0..128 {
            let place = map.locate(Region::Slab.base().0 + (i << 14));
            share[(place.physical >> 12 & 3) as usize] += 1;
        }
        assert!(share.iter().all(|s| *s >= 10), "seed {seed}: {share:?}");
    }
}

/// A busy mixture on a machine with everything: same seed, same bits; and what is booked is what is
/// counted.
#[test]
fn same_seed_same_bits_and_books_balance() {
    let mut machine = machines::two_levels();
    machine.core.issue_width = 4;
    machine.caches[0].replacement = Replacement::TreePlru;
    machine.caches[1] = machines::cache(2, 48, 6, Replacement::Random, Inclusion::Inclusive);
    machine.caches.push(machines::cache(
        3,
        100,
        12,
        Replacement::TreesOfFourLru,
        Inclusion::Exclusive,
    ));
    machine.tlbs = vec![
        machines::tlb(1, &[4096], 4, 4),
        machines::tlb(2, &[4096], 12, 6),
    ];
    let options = ModelOptions {
        classify: vec![1, 2, 3],
        ..ModelOptions::default()
    };
    let run = |seed: u64| {
        let mut arena = arena();
        let mut model = Model::new(&machine, PageMapOptions::SMALL, seed, options.clone()).unwrap();
        let mut mem = model.on(&mut arena);
        let mut random = Random(3);
        let mut regions = Vec::new();
        for _ in 0..4 {
            mem.begin_region();
            let mut last = Timed::from(0);
            for _ in 0..4000 {
                let region = Region::ALL[random.below(4) as usize];
                let addr = Timed::from(region.base().0 + random.below(60_000));
                let field = field(random.below(40) as u16, random.below(3000) as u32);
                match random.below(12) {
                    0 => mem.prefetch(addr, field),
                    1 => mem.branch(1, last, random.below(2) == 0),
                    2 => mem.work(random.below(20) as u32),
                    3 => last = mem.locked_add::<4>(addr, field, 1),
                    4 => mem.fence(),
                    5..8 => mem.store::<8>(addr, field, last),
                    8 => last = mem.load::<16>(addr, field),
                    _ => last = mem.load::<8>(addr.with(last, |a, _| a), field),
                }
            }
            regions.push(mem.end_region());
        }
        (regions, model.misses())
    };
    let (regions, rows) = run(1);
    assert_eq!((regions.clone(), rows.clone()), run(1));
    assert_ne!(regions, run(2).0, "the seed draws frames and victims");
    for level in 1..=3 {
        let booked = |cause: Option<Cause>| -> u64 {
            let rows = rows.iter().filter(|r| r.level == MissLevel::Cache(level));
            let rows = rows.filter(|r| cause.is_none() || r.cause == cause);
            rows.map(|r| r.misses).sum()
        };
        let stats: Vec<_> = regions
            .iter()
            .map(|r| r.levels[usize::from(level) - 1])
            .collect();
        let counted: u64 = stats.iter().map(|s| s.demand_misses()).sum();
        assert!(counted > 0);
        assert_eq!(booked(None), counted, "level {level}");
        for cause in [Cause::Compulsory, Cause::Capacity, Cause::Conflict] {
            let counted: u64 = stats.iter().map(|s| s.causes[cause as usize]).sum();
            assert_eq!(booked(Some(cause)), counted, "level {level}, {cause:?}");
        }
    }
    let sorted = |row: &MissRow| (row.function, row.field, row.line);
    assert!(rows.is_sorted_by_key(sorted));
}
