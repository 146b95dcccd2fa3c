//! Translation: TLBs of both levels and every page size against lists, the loads of page walks against
//! their formula, and walks as users of the caches.

#[path = "common/naive/cores.rs"]
mod cores;
#[path = "common/machines.rs"]
mod machines;
#[path = "common/naive/tlb.rs"]
mod tlb;

use std::collections::HashMap;

use kernels::arena::Region;
use kernels::memory::Field;
use kwalk::machine::{Inclusion, Machine, Protocol, Tlb};
use kwalk::model::page_map::{Frames, PageMap, PageMapOptions};
use kwalk::model::stats::Tally;
use kwalk::model::walk::Walker;
use kwalk::model::{Model, ModelOptions};
use proptest::prelude::*;
use tlb::{List, loads_of_walk};

const SMALL: u64 = 4 << 10;
const LARGE: u64 = 2 << 20;
const GIANT: u64 = 1 << 30;
const SIZES: [u64; 3] = [SMALL, LARGE, GIANT];

const F: Field = Field {
    id: 0,
    offset_bytes: 0,
};

fn pages(page_bytes: u64, host_page_bytes: Option<u64>) -> PageMapOptions {
    PageMapOptions {
        page_bytes,
        frames: Frames::Seeded,
        host_page_bytes,
    }
}

fn model(machine: &Machine, pages: PageMapOptions) -> Model {
    Model::new(machine, pages, 7, ModelOptions::default()).expect("a machine of the tests")
}

/// Size of the page at `addr` in the program's tables: per-CPU memory is always of small pages.
fn page_bytes_at(addr: u64, page_bytes: u64) -> u64 {
    match Region::of(kernels::memory::Addr(addr)) {
        Some(Region::PerCpu) => SMALL,
        _ => page_bytes,
    }
}

/// Where each page size goes: tables of the DTLB, tables of the STLB.
type Split = (Vec<Vec<u64>>, Vec<Vec<u64>>);

fn splits() -> impl Strategy<Value = Split> {
    let first = prop::sample::select(vec![
        vec![vec![SMALL], vec![LARGE], vec![GIANT]],
        vec![vec![SMALL], vec![LARGE, GIANT]],
        vec![SIZES.to_vec()],
    ]);
    let second = prop::sample::select(vec![
        vec![],
        vec![vec![SMALL]],
        vec![vec![SMALL, LARGE]],
        vec![vec![SMALL, LARGE], vec![GIANT]],
        vec![SIZES.to_vec()],
    ]);
    (first, second)
}

/// Tables of one to four sets, of which three is no power of two.
fn tlbs() -> impl Strategy<Value = Vec<Tlb>> {
    let shapes = prop::collection::vec((1_u32..=4, 1_u32..=4), 6);
    (splits(), shapes).prop_map(|((first, second), shapes)| {
        let sizes = first.iter().map(|sizes| (1, sizes));
        let sizes = sizes.chain(second.iter().map(|sizes| (2, sizes)));
        sizes
            .zip(shapes)
            .map(|((level, sizes), (sets, ways))| machines::tlb(level, sizes, sets, ways))
            .collect()
    })
}

/// Region, page within it, place within the page, bytes, whether it stores.
type Step = (usize, u64, u64, u64, bool);

fn steps() -> impl Strategy<Value = Vec<Step>> {
    // Two places of the same page, and two from which long accesses reach into the next line or page.
    let place = prop::sample::select(vec![0, 200, 60, SMALL - 6]);
    let step = (0_usize..4, 0_u64..12, place, 1_u64..=16, any::<bool>());
    prop::collection::vec(step, 1..150)
}

/// The last bytes of a page are reached from an offset that is counted from its end.
fn address((region, page, place, ..): Step, page_bytes: u64) -> u64 {
    let base = Region::ALL[region].base().0;
    let bytes = page_bytes_at(base, page_bytes);
    let page = page % (GIANT / bytes);
    let place = if place == SMALL - 6 { bytes - 6 } else { place };
    base + page * bytes + place
}

fn config(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config(400))]

    /// Each access asks for the page of each of its lines, in the size that the TLB holds: the smaller
    /// one of guest and host. The DTLB of that size has it, or else its STLB if there is one, or else
    /// the tables are walked; both then have it.
    #[test]
    fn tlbs_agree_with_lists(
        tlbs in tlbs(),
        page_bytes in prop::sample::select(SIZES.to_vec()),
        host in prop::option::of(prop::sample::select(SIZES.to_vec())),
        steps in steps(),
    ) {
        let mut machine = machines::two_levels();
        machine.tlbs = tlbs.clone();
        let mut model = model(&machine, pages(page_bytes, host));
        let mut lists: Vec<List> = tlbs.iter().map(List::new).collect();
        let of = |level: u8, bytes: u64| {
            tlbs.iter().position(|t| t.level == level && t.page_bytes.contains(&bytes))
        };
        let (mut requests, mut dtlb_misses, mut walks, mut loads) = (0, 0, 0, 0);
        for (at, step) in steps.into_iter().enumerate() {
            let (addr, bytes) = (address(step, page_bytes), step.3);
            match step.4 {
                true => model.store(0, 0, addr, bytes, F),
                false => drop(model.load(0, addr, bytes, F)),
            }
            for line in addr / 64..=(addr + bytes - 1) / 64 {
                let own = page_bytes_at(line * 64, page_bytes);
                let held = own.min(host.unwrap_or(own));
                let page = line * 64 / held;
                requests += 1;
                let first = of(1, held).expect("a DTLB lists every size");
                if lists[first].ask(held, page) {
                    continue;
                }
                dtlb_misses += 1;
                if of(2, held).is_some_and(|second| lists[second].ask(held, page)) {
                    continue;
                }
                walks += 1;
                loads += loads_of_walk(own, host);
            }
            let stats = model.tlb_stats();
            prop_assert_eq!(
                (stats.requests, stats.dtlb_misses, stats.walks),
                (requests, dtlb_misses, walks),
                "step {}: {:#x}", at, addr
            );
            prop_assert_eq!(model.hierarchy().stats()[0].walks.requests, loads);
        }
    }

    /// Without walk caches, a walk loads one entry of each table from the top to the page's own level.
    /// Entries are 8 bytes, 512 to a table, tables are pages of their own: an entry has one address,
    /// and two entries lie in the same 4 KiB if and only if they are of the same table.
    #[test]
    fn tables_have_512_entries_of_8_bytes(
        size in 0_u64..3,
        places in prop::collection::vec((0_u64..4, 0_u64..4, 0_u64..512, 0_u64..512), 1..60),
    ) {
        let shift = 12 + 9 * size as u32;
        let mut walker = Walker::new(&[], None, 3);
        let (mut known, mut owners) = (HashMap::new(), HashMap::new());
        for (top, third, second, lowest) in places {
            let addr = top << 39 | third << 30 | second << 21 | lowest << 12 | 0x123;
            let loads = walker.walk(addr, shift, 0);
            prop_assert_eq!(loads.len() as u64, 4 - size);
            for (load, level) in loads.iter().zip((size..4).rev()) {
                let entry = addr >> (12 + 9 * level);
                prop_assert_eq!(load % SMALL, entry % 512 * 8);
                prop_assert_eq!(*known.entry((level, entry)).or_insert(*load), *load);
                let table = (level, entry / 512);
                prop_assert_eq!(*owners.entry(load / SMALL).or_insert(table), table);
            }
        }
        let tables: std::collections::HashSet<_> = owners.values().collect();
        prop_assert_eq!(tables.len(), owners.len(), "a table has one page");
    }

    /// The cache of the lowest level above the page's own that knows the way spares all loads from the
    /// top down to its own; each is a list of its most recent entries. Those that a walk loads go in.
    #[test]
    fn walk_caches_agree_with_lists(
        entries in prop::collection::vec(1_u32..4, 0..=3),
        steps in prop::collection::vec((0_u64..3, 0_u64..2, 0_u64..3, 0_u64..4, 0_u64..4), 1..200),
    ) {
        let mut walker = Walker::new(&entries, None, 5);
        let mut whole = Walker::new(&[], None, 5);
        // By level from 1 on, the youngest last.
        let mut lists: Vec<Vec<u64>> = vec![Vec::new(); entries.len()];
        for (size, top, third, second, lowest) in steps {
            let addr = top << 39 | third << 30 | second << 21 | lowest << 12;
            let shift = 12 + 9 * size as u32;
            let region = |level: usize| addr >> (12 + 9 * level);
            let levels = size as usize + 1..=entries.len();
            let known = levels.clone().find(|level| lists[level - 1].contains(&region(*level)));
            let from = known.unwrap_or(4);
            for level in levels.filter(|level| *level <= from) {
                let list = &mut lists[level - 1];
                list.retain(|other| *other != region(level));
                list.push(region(level));
                if list.len() > entries[level - 1] as usize {
                    list.remove(0);
                }
            }
            let all = whole.walk(addr, shift, 0).to_vec();
            let spared = 4 - from;
            prop_assert_eq!(walker.walk(addr, shift, 0), &all[spared..]);
        }
    }
}

/// By hand, without the formula's help: 4, 3 and 2 loads on bare metal; (4 + 1) (4 + 1) - 1 = 24 for
/// small pages of a guest on small ones of its host.
#[test]
fn loads_of_nested_walks() {
    for (guest, host, loads) in [
        (SMALL, None, 4),
        (LARGE, None, 3),
        (GIANT, None, 2),
        (SMALL, Some(SMALL), 24),
        (SMALL, Some(LARGE), 19),
        (SMALL, Some(GIANT), 14),
        (LARGE, Some(SMALL), 19),
        (LARGE, Some(LARGE), 15),
        (LARGE, Some(GIANT), 11),
        (GIANT, Some(SMALL), 14),
        (GIANT, Some(LARGE), 11),
        (GIANT, Some(GIANT), 8),
    ] {
        assert_eq!(loads_of_walk(guest, host), loads, "the formula");
        let mut walker = Walker::new(&[], host, 1);
        let walk = walker.walk(Region::Slab.base().0, guest.trailing_zeros(), 0);
        assert_eq!(walk.len() as u64, loads, "{guest} on {host:?}");
    }
}

/// A second walk beside the first, with caches that hold enough: the own lowest entry is left. In a
/// guest its address needs one load of the host's lowest table, and so does the page: 3.
///
/// A guest's page of 2 MiB is 512 pages of 4 KiB to such a host, side by side in the guest's physical
/// memory, by which the host's tables go: all of them are entries of one table.
#[test]
fn walk_caches_leave_one_load_of_each_walk() {
    for (page_bytes, host, first, second) in [
        (SMALL, None, 4, 1),
        (LARGE, None, 3, 1),
        (LARGE, Some(SMALL), 19, 3),
    ] {
        let mut machine = machines::two_levels();
        machine.tlbs = vec![machines::tlb(1, &SIZES, 1, 1)];
        machine.memory.walk_cache_entries = vec![8, 8, 8];
        let mut model = model(&machine, pages(page_bytes, host));
        let step = page_bytes.min(host.unwrap_or(page_bytes));
        let walk = |model: &mut Model, page: u64| {
            let before = model.hierarchy().stats()[0].walks.requests;
            model.load(0, Region::Slab.base().0 + page * step, 8, F);
            model.hierarchy().stats()[0].walks.requests - before
        };
        // Within the host's own walks the tables of the guest's levels lie far apart: none is spared.
        let cold = walk(&mut model, 0);
        assert!(cold <= first && cold > second, "{page_bytes} on {host:?}");
        for page in 1..20 {
            let loads = walk(&mut model, page);
            assert_eq!(loads, second, "{page_bytes} on {host:?}, page {page}");
        }
        model.flush(true);
        assert_eq!(walk(&mut model, 0), cold, "a flush forgets");
    }
}

/// Large pages are of all memory but per-CPU's: 512 small pages of the first have one frame, next to
/// each other, and walks of three loads or two; per-CPU's have frames of their own, and four loads.
#[test]
fn per_cpu_memory_stays_on_small_pages() {
    for (page_bytes, loads) in [(LARGE, 3), (GIANT, 2)] {
        let mut map = PageMap::new(pages(page_bytes, None), 1).expect("sizes that are accepted");
        let mut machine = machines::two_levels();
        machine.tlbs = vec![machines::tlb(1, &SIZES, 1, 1)];
        for region in Region::ALL {
            let base = region.base().0;
            let first = map.locate(base).physical;
            let beside =
                |page: &u64| map.locate(base + page * SMALL).physical == first + page * SMALL;
            let beside = (1..512).filter(beside).count();
            let mut model = model(&machine, pages(page_bytes, None));
            model.load(0, base, 8, F);
            let walks = model.hierarchy().stats()[0].walks.requests;
            if region == Region::PerCpu {
                // By chance one of 2^40 frames is the next.
                assert_eq!((beside, walks), (0, 4));
            } else {
                assert_eq!((beside, walks), (511, loads), "{region:?}");
            }
        }
    }
}

/// A machine with 32 lines of L1D in one set, an L2 for all, and one DTLB entry: every page walks.
fn walking() -> Machine {
    let l2 = machines::cache(
        2,
        1024,
        8,
        kwalk::machine::Replacement::Lru,
        Inclusion::NonInclusive,
    );
    let mut machine = machines::machine(vec![machines::l1(1, 32), l2]);
    machine.tlbs = vec![machines::tlb(1, &[SMALL], 1, 1)];
    machine
}

/// Entries of 8 bytes are 8 to a line. From the first page of a table of tables of tables on: the next
/// page's entries lie in the same four lines; the 8th page needs a new line of the lowest table, and so
/// does the first of the next table, whose entry is next to that of the first; 8 tables on, two levels
/// need new lines. A load takes what it takes at its level, the walk 30 with its first load at 5 in it,
/// and every load beyond 5 its own: 200 from memory.
#[test]
fn walks_load_through_the_caches() {
    for stlb_cycles in [0, 7] {
        let mut machine = walking();
        if stlb_cycles > 0 {
            machine.tlbs.push(machines::tlb(2, &[SMALL], 1, 1));
        }
        let mut model = model(&machine, PageMapOptions::SMALL);
        for (page, misses) in [(0, 4), (1, 0), (8, 1), (512, 1), (512 * 8, 2)] {
            model.begin_region();
            model.load(0, Region::Slab.base().0 + page * SMALL, 8, F);
            let stats = model.end_region();
            let (inner, outer) = (stats.levels[0], stats.levels[1]);
            let expected = Tally {
                requests: 4,
                hits: 4 - misses,
                misses,
            };
            assert_eq!(inner.walks, expected, "page {page}");
            assert_eq!((outer.walks.requests, outer.walks.misses), (misses, misses));
            assert_eq!((inner.loads.requests, inner.loads.misses), (1, 1));
            let walk = 30 - 5 + 5 * (4 - misses) + 200 * misses;
            assert_eq!(
                stats.cycles,
                (200 + walk + stlb_cycles) as f64,
                "page {page}"
            );
        }
        let l1 = model.hierarchy().stats()[0];
        let held = model.hierarchy().cache(0).contents().count() as u64;
        assert_eq!(l1.evictions, 0);
        assert_eq!(held, l1.walks.misses + l1.loads.misses, "walks fill lines");
    }
}

/// Two lines in an L1D of two ways stay there, unless a walk's four loads come between.
#[test]
fn walks_push_data_out() {
    for (entries, misses) in [(2, 0), (1, 2)] {
        let mut machine = walking();
        machine.caches[0] = machines::l1(1, 2);
        machine.tlbs = vec![machines::tlb(1, &[SMALL], 1, entries)];
        let mut model = model(&machine, PageMapOptions::SMALL);
        let base = Region::Slab.base().0;
        let both = |model: &mut Model| {
            for addr in [base, base + SMALL + 64] {
                model.load(0, addr, 8, F);
            }
        };
        both(&mut model);
        // The walk of the second page pushed the first line out.
        both(&mut model);
        model.begin_region();
        both(&mut model);
        assert_eq!(model.end_region().levels[0].loads.misses, misses);
    }
}

/// An access over the end of a page needs two translations, also from a large page into a small one:
/// the region before per-CPU memory ends where that begins. Within a page it needs two as well, one
/// per line, but one walk.
#[test]
fn an_access_over_the_end_of_a_page_is_two_translations() {
    let slab = Region::Slab.base().0;
    let mut machine = walking();
    machine.tlbs = vec![machines::tlb(1, &SIZES, 1, 4)];
    for (page_bytes, addr, requests, walks, loads) in [
        (SMALL, slab + SMALL - 8, 1, 1, 4),
        (SMALL, slab + SMALL - 7, 2, 2, 8),
        (SMALL, slab + SMALL - 71, 2, 1, 4),
        (LARGE, slab + SMALL - 7, 2, 1, 3),
        (LARGE, slab + LARGE - 7, 2, 2, 6),
        (GIANT, Region::PerCpu.base().0 - 7, 2, 2, 6),
    ] {
        for store in [false, true] {
            let mut model = model(&machine, pages(page_bytes, None));
            match store {
                true => model.store(0, 0, addr, 8, F),
                false => drop(model.load(0, addr, 8, F)),
            }
            let stats = model.tlb_stats();
            assert_eq!(
                (stats.requests, stats.walks),
                (requests, walks),
                "{addr:#x}"
            );
            assert_eq!(
                model.hierarchy().stats()[0].walks.requests,
                loads,
                "{addr:#x}"
            );
        }
    }
}

/// A core's TLBs and walk caches are its own; tables are in memory, which all have: the second core
/// walks as the first did, and finds the four entries, and the data, in the level that they share.
#[test]
fn each_core_translates_for_itself() {
    let l2 = cores::shared(2, 64, 8, Inclusion::Inclusive, 2);
    let mut machine = cores::machine(vec![machines::l1(4, 8), l2], Protocol::Mesi, 2, 2);
    machine.tlbs = vec![machines::tlb(1, &[SMALL], 4, 4)];
    machine.memory.walk_cache_entries = vec![4, 4, 4];
    let options = ModelOptions {
        cores: 2,
        ..ModelOptions::default()
    };
    let mut model = Model::new(&machine, PageMapOptions::SMALL, 1, options).expect("two cores");
    for (core, hits) in [(0, 0), (1, 4)] {
        model.use_core(core);
        for _ in 0..2 {
            model.load(0, Region::Slab.base().0, 8, F);
        }
        let stats = model.tlb_stats();
        assert_eq!((stats.requests, stats.dtlb_misses, stats.walks), (2, 1, 1));
        let shared = model.hierarchy().stats_of(core)[1];
        assert_eq!((shared.walks.requests, shared.walks.hits), (4, hits));
        assert_eq!(shared.loads.requests, 1);
    }
}

/// Pages of two sizes in one table may have the same number: a small one of per-CPU memory, and the
/// large one that begins 512 times as far out.
#[test]
fn pages_of_two_sizes_with_one_number_are_two() {
    let mut machine = walking();
    machine.tlbs = vec![machines::tlb(1, &SIZES, 1, 2)];
    let mut model = model(&machine, pages(LARGE, None));
    let small = Region::PerCpu.base().0;
    for (addr, walks) in [(small, 1), (small / SMALL * LARGE, 2), (small, 2)] {
        model.load(0, addr, 8, F);
        assert_eq!(model.tlb_stats().walks, walks, "{addr:#x}");
    }
}
