//! The model's L1D, true LRU, against cachegrind: the same accesses as a program, to the last miss.

#[path = "common/cachegrind.rs"]
mod cachegrind;
#[path = "common/machines.rs"]
mod machines;

use cachegrind::{Access, D1, Misses, cachegrind, modelled};
use kernels::arena::{Random, Region};
use kernels::memory::{Addr, Memory};
use kernels::psi::{Placement, PsiTree, TreeShape, Variant, Walks, bare_walks, task_changes};
use kernels::recorder::{Kind, Recorder};
use kwalk::model::page_map::{Frames, PageMapOptions};
use kwalk::model::{Model, ModelOptions};

/// L1Ds of facts about real cores: i7-9700, Neoverse N1 and Ice Lake.
const SHAPES: [D1; 3] = [
    D1 { sets: 64, ways: 8 },
    D1 { sets: 256, ways: 4 },
    D1 { sets: 64, ways: 12 },
];

fn compare(what: &str, accesses: &[Access]) -> Vec<Misses> {
    let count = |d1: D1| {
        let ours = modelled(accesses, d1);
        if let Some(theirs) = cachegrind(accesses, d1) {
            assert_eq!(ours, theirs, "{what}, {d1:?}: model, then cachegrind");
        }
        ours
    };
    SHAPES.into_iter().map(count).collect()
}

/// `lines` loads 4096 bytes apart, each followed by a store 64 bytes on: of 64 sets they fill two
/// with `lines` lines each. Under LRU all hit up to as many lines as ways, all miss beyond. With
/// 256 sets, 4096 bytes are 64 sets: the lines spread over 4 pairs of sets.
#[test]
fn strided_conflicts() {
    for lines in [4_u64, 8, 9, 12, 13, 40] {
        let mut accesses = Vec::new();
        for i in 0..lines {
            let object = Region::Slab.base().plus(4096 * i);
            accesses.push((object, false, 8));
            accesses.push((object.plus(64), true, 4));
        }
        let misses = compare(&format!("{lines} strided lines"), &accesses);
        let all_or_none = |ways| if lines > ways { lines } else { 0 };
        let of_four = (0..4)
            .map(|residue| (lines + 3 - residue) / 4)
            .filter(|share| *share > 4)
            .sum();
        let theory = [all_or_none(8), of_four, all_or_none(12)];
        for (counted, expected) in misses.into_iter().zip(theory) {
            let expected = Misses {
                reads: expected,
                writes: expected,
            };
            assert_eq!(counted, expected, "{lines} lines");
        }
    }
}

/// Accesses of all widths anywhere in 128 KiB, some across two lines, in both kinds of memory.
#[test]
fn random_accesses() {
    let mut random = Random(7);
    let mut accesses = Vec::new();
    for _ in 0..3000 {
        let bytes = 1 << random.below(5);
        let region = [Region::Slab, Region::PerCpu][random.below(2) as usize];
        let addr = region.base().plus(random.below(64 << 10));
        accesses.push((addr, random.below(3) == 0, bytes));
    }
    compare("random", &accesses);
}

/// A walk like that of PSI: per level a 1024-aligned group read at 0, 8, 120 and 640, an entry of
/// per-CPU data read and written, and a 4096-aligned cgroup read at two lines.
fn walk(levels: u64, seed: u64) -> Vec<Access> {
    let mut random = Random(seed);
    let mut order: Vec<u64> = (0..levels).collect();
    random.shuffle(&mut order);
    let mut accesses = Vec::new();
    for (level, &place) in order.iter().enumerate() {
        let group = Region::Slab.base().plus(1024 * place);
        let cgroup = Region::Slab.base().plus((4 << 20) + 4096 * place);
        let cpu = Region::PerCpu.base().plus(320 * level as u64);
        let at = |base: Addr, offset, write, bytes| (base.plus(offset), write, bytes);
        accesses.extend([
            at(group, 48, false, 8),
            at(cpu, 16, false, 4),
            at(cpu, 8, false, 4),
            at(cpu, 8, true, 4),
            at(group, 8, false, 1),
            at(cpu, 0, false, 4),
            at(cpu, 48, false, 8),
            at(cpu, 48, true, 8),
            at(cpu, 44, true, 4),
            at(group, 640, false, 4),
            at(group, 120, false, 8),
            at(cgroup, 200, false, 8),
            at(cgroup, 1120, false, 8),
        ]);
    }
    accesses
}

#[test]
fn walks_over_aligned_objects() {
    for levels in [5, 8, 16, 50, 100] {
        compare(&format!("{levels} levels"), &walk(levels, levels));
    }
}

/// The PSI kernel itself: one enqueue and one dequeue walk, and bare walks, as recorded at nominal
/// addresses, as a program; and the model of the kernel, not of its list of accesses.
#[test]
fn psi_walks() {
    for layout in ["6.18.2-ubuntu-x86-64", "6.12.118-debian-arm64"] {
        for (depth, placement) in [
            (8, Placement::Slab),
            (16, Placement::Slab),
            (50, Placement::Slab),
            (50, Placement::Packed),
        ] {
            for variant in [Variant::Parent, Variant::Cgroup] {
                for bare in [false, true] {
                    let layout = kwalk::layouts::find(layout).expect("a built-in layout");
                    let placement = placement.clone();
                    let shape = TreeShape {
                        depth,
                        cpus: 2,
                        variant,
                        placement,
                        seed: 7,
                    };
                    let tree = PsiTree::new(layout, &shape).expect("a tree");
                    let what = format!("{}, {shape:?}, bare {bare}", layout.name);
                    let accesses = recorded(&tree, variant, bare);
                    for (misses, shape) in compare(&what, &accesses).into_iter().zip(SHAPES) {
                        let ours = modelled_kernel(&tree, variant, bare, shape);
                        assert_eq!(ours, misses, "{what}, {shape:?}: kernel, then its accesses");
                    }
                }
            }
        }
    }
}

/// One period of walks.
fn psi_period<M: Memory>(
    mem: &mut M,
    tree: &PsiTree,
    variant: Variant,
    bare: bool,
    time: &mut u64,
) {
    let walks = Walks {
        variant,
        offsets: &tree.offsets,
        globals: &tree.globals,
        zero: 0,
    };
    if bare {
        bare_walks(mem, &walks, 1);
    } else {
        task_changes(mem, &walks, 2, time);
    }
}

fn recorded(tree: &PsiTree, variant: Variant, bare: bool) -> Vec<Access> {
    let mut arena = tree.arena.clone();
    let mut mem = Recorder::new(&mut arena);
    psi_period(&mut mem, tree, variant, bare, &mut 0);
    mem.accesses
        .iter()
        .map(|a| (a.addr, a.kind == Kind::Store, a.bytes))
        .collect()
}

/// Steady-state misses of one period on the model: the second of two.
fn modelled_kernel(tree: &PsiTree, variant: Variant, bare: bool, d1: D1) -> Misses {
    let machine = machines::machine(vec![machines::l1(d1.sets, d1.ways)]);
    let pages = PageMapOptions {
        page_bytes: 4096,
        frames: Frames::Identity,
        host_page_bytes: None,
    };
    let mut model = Model::new(&machine, pages, 0, ModelOptions::default()).expect("a model");
    let mut arena = tree.arena.clone();
    let mut mem = model.on(&mut arena);
    let mut time = 0;
    psi_period(&mut mem, tree, variant, bare, &mut time);
    mem.begin_region();
    psi_period(&mut mem, tree, variant, bare, &mut time);
    let level = mem.end_region().levels[0];
    Misses {
        reads: level.loads.misses,
        writes: level.stores.misses,
    }
}
