//! Many accesses at once against the same one by one: caches, TLBs, clock and books must not differ in
//! anything.

#[path = "common/machines.rs"]
mod machines;

use kernels::memory::Field;
use kwalk::machine::{Inclusion, Machine, Replacement};
use kwalk::model::hierarchy::{Hierarchy, Kind};
use kwalk::model::page_map::PageMapOptions;
use kwalk::model::{Access, Model, ModelOptions};
use proptest::prelude::*;

/// One policy of each kind: renewed by use, by order, with a state of its own, drawn.
const POLICIES: [&str; 7] = [
    "lru",
    "fifo",
    "bit-plru",
    "tree-plru",
    "srrip",
    "random",
    "QLRU_H11_M1_R1_U2",
];

/// Of one level: sets, ways, policy, and whether it is told everything or nothing of the others.
type LevelShape = (u32, u32, usize, u32);

fn machine(levels: &[LevelShape], tlbs: bool, walk_caches: bool) -> Machine {
    let caches = levels.iter().enumerate();
    let caches = caches.map(|(k, (sets, ways, policy, kind))| {
        let inclusion = match (k, kind) {
            (1.., 5) => Inclusion::Inclusive,
            (1.., 6) => Inclusion::Exclusive,
            _ => Inclusion::NonInclusive,
        };
        let policy: Replacement = POLICIES[*policy].parse().expect("a policy");
        // 8, 12 and 16 ways of LRU have a way of their own.
        machines::cache(k as u8 + 1, *sets, *ways, policy, inclusion)
    });
    let mut machine = machines::machine(caches.collect());
    machine.core.issue_width = 4;
    machine.core.load_ports = 2;
    machine.core.memory_ports = 3;
    if tlbs {
        machine.tlbs = vec![
            machines::tlb(1, &[4096], 2, 2),
            machines::tlb(1, &[2 << 20], 1, 2),
            machines::tlb(2, &[4096, 2 << 20], 3, 2),
        ];
    }
    if walk_caches {
        machine.memory.walk_cache_entries = vec![2, 1];
    }
    machine
}

fn access() -> impl Strategy<Value = Access> {
    let kind = prop_oneof![
        6 => Just(Kind::Load),
        3 => Just(Kind::Store),
        1 => Just(Kind::Prefetch),
    ];
    // Some lines of some pages; offsets that straddle lines, and pages at the last line.
    let place = (0_u64..12, 0_u64..64, 0_u64..64);
    (place, 1_u8..=16, kind, 0_u16..5).prop_map(|((page, line, byte), bytes, kind, id)| Access {
        addr: 0x1000_0000 + page * 4096 + (line * line / 64) * 64 + byte,
        // A prefetch is of one line.
        bytes: if kind == Kind::Prefetch { 1 } else { bytes },
        kind,
        field: Field {
            id,
            offset_bytes: byte as u32,
        },
    })
}

/// Accesses, some of which come several times in a row.
fn accesses() -> impl Strategy<Value = Vec<Access>> {
    prop::collection::vec((access(), 1_usize..4), 1..1500).prop_map(|runs| {
        let repeated = |(access, times)| std::iter::repeat_n(access, times);
        runs.into_iter().flat_map(repeated).collect()
    })
}

fn levels() -> impl Strategy<Value = Vec<LevelShape>> {
    let sets = prop_oneof![Just(1_u32), Just(3), Just(4), Just(16)];
    let ways = prop_oneof![Just(2_u32), Just(4), Just(8), Just(12), Just(16)];
    let policy = prop_oneof![3 => Just(0), 2 => 0..POLICIES.len()];
    prop::collection::vec((sets, ways, policy, 0_u32..8), 1..=3)
}

fn one_by_one(model: &mut Model, accesses: &[Access]) {
    for access in accesses {
        let (addr, bytes) = (access.addr, access.bytes.into());
        match access.kind {
            Kind::Store => model.store(0, 0, addr, bytes, access.field),
            Kind::Prefetch => model.prefetch(0, addr, access.field),
            _ => drop(model.load(0, addr, bytes, access.field)),
        }
    }
}

fn contents(hierarchy: &Hierarchy) -> Vec<Vec<(u64, bool)>> {
    let levels = 0..hierarchy.depth();
    levels
        .map(|k| hierarchy.cache(k).contents().collect())
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn all_at_once_is_one_by_one(
        levels in levels(),
        (tlbs, walk_caches, huge, guest) in any::<(bool, bool, bool, bool)>(),
        classified in prop::sample::subsequence(vec![1_u8, 2, 3], 0..=3),
        accesses in accesses(),
        cut in any::<prop::sample::Index>(),
        seed in 0_u64..4,
    ) {
        let machine = machine(&levels, tlbs, walk_caches);
        let mut pages = if huge { PageMapOptions::HUGE } else { PageMapOptions::SMALL };
        pages.host_page_bytes = guest.then_some(4096);
        let depth = levels.len();
        let options = ModelOptions {
            classify: classified.into_iter().filter(|k| usize::from(*k) <= depth).collect(),
            ..ModelOptions::default()
        };
        let mut all = Model::new(&machine, pages, seed, options.clone()).expect("a model");
        let mut each = Model::new(&machine, pages, seed, options).expect("a model");
        // Some outside of time, some outside of a region, some in one: all at once, in two parts, and
        // one by one afterwards, which finds what the others left.
        let (before, after) = accesses.split_at(cut.index(accesses.len()));
        all.present_all(before);
        for access in before {
            each.present(access.addr, access.bytes.into(), access.kind);
        }
        all.run(after);
        one_by_one(&mut each, after);
        all.begin_region();
        each.begin_region();
        all.run(before);
        all.run(after);
        one_by_one(&mut all, before);
        for part in [before, after, before] {
            one_by_one(&mut each, part);
        }
        prop_assert_eq!(all.end_region(), each.end_region());
        prop_assert_eq!(all.misses(), each.misses());
        prop_assert_eq!(contents(all.hierarchy()), contents(each.hierarchy()));
        prop_assert_eq!(all.hierarchy().stats(), each.hierarchy().stats());
    }

    #[test]
    fn counting_all_at_once_is_one_by_one(
        levels in levels(),
        classified in prop::sample::subsequence(vec![1_u8, 2, 3], 0..=3),
        accesses in accesses(),
        cut in any::<prop::sample::Index>(),
        wide in any::<bool>(),
    ) {
        let machine = machine(&levels, false, false);
        let depth = levels.len();
        let classify: Vec<u8> =
            classified.into_iter().filter(|k| usize::from(*k) <= depth).collect();
        let new = || Hierarchy::new(&machine.caches, &classify, 7).expect("caches");
        let (mut all, mut each) = (new(), new());
        // Lines beyond what tags tell apart, too.
        let far = |(i, access): (usize, &Access)| match wide && i % 3 == 0 {
            true => access.addr | 1 << 63,
            false => access.addr,
        };
        let addresses: Vec<u64> = accesses.iter().enumerate().map(far).collect();
        let (first, second) = addresses.split_at(cut.index(addresses.len()));
        all.load_all(first);
        all.load_all(second);
        for addr in &addresses {
            each.access(addr >> 6, Kind::Load);
        }
        // What was used last is known by its place.
        let last = addresses[addresses.len() - 1] >> 6;
        prop_assert_eq!(all.access(last, Kind::Store), each.access(last, Kind::Store));
        prop_assert_eq!(all.stats(), each.stats());
        prop_assert_eq!(contents(&all), contents(&each));
    }
}
