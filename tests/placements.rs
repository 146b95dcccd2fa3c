//! L1D misses of a walk at recorded and at drawn addresses, by a naive LRU, against the figures
//! that were taken from the recordings themselves (facts: psi_observed.md).

use std::path::PathBuf;

use kernels::psi::{Placement, PsiTree, TreeShape, Variant, Walks, is_psi_line, task_changes};
use kernels::recorder::Recorder;
use kwalk::streams::Stream;

/// Misses of one walk in steady state: PSI lines only, 64 sets, true LRU, `Vec`s moved about.
fn misses_per_walk(tree: &mut PsiTree, variant: Variant, ways: usize) -> usize {
    let (globals, offsets) = (tree.globals.clone(), tree.offsets);
    let mut sets: Vec<Vec<u64>> = vec![Vec::new(); 64];
    let mut misses = 0;
    // Two walks settle any LRU set whose lines come round in the same order each time; four do no
    // harm.
    let walks = Walks {
        variant,
        offsets: &offsets,
        globals: &globals,
        zero: 0,
    };
    let mut time = 0;
    for _ in 0..4 {
        let mut mem = Recorder::new(&mut tree.arena);
        task_changes(&mut mem, &walks, 1, &mut time);
        misses = 0;
        for access in mem.accesses.iter().filter(|a| is_psi_line(a.field.id)) {
            let line = access.addr.0 / 64;
            let set = &mut sets[(line % 64) as usize];
            if let Some(at) = set.iter().position(|l| *l == line) {
                set.remove(at);
            } else {
                misses += 1;
            }
            set.push(line);
            if set.len() > ways {
                set.remove(0);
            }
        }
    }
    misses
}

fn tree(layout: &str, depth: u32, variant: Variant, placement: Placement, seed: u64) -> PsiTree {
    let layout = kwalk::layouts::find(layout).expect("a built-in layout");
    let shape = TreeShape {
        depth,
        cpus: 1,
        variant,
        placement,
        seed,
    };
    PsiTree::new(layout, &shape).expect("a tree")
}

/// 159 / 261 with 8 ways, 123 / 225 with 12, without and with the patch: counted independently of
/// kwalk from the same addresses; within 1 %.
#[test]
fn recorded_placement_at_50_levels() {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data/placements/k612a64.d50.1cpu.txt");
    let placement = Stream::read(&file).expect("a readable placement").placement;
    for (variant, ways, expected) in [
        (Variant::Parent, 8, 159),
        (Variant::Cgroup, 8, 261),
        (Variant::Parent, 12, 123),
        (Variant::Cgroup, 12, 225),
    ] {
        let placement = Placement::Recorded(placement.clone());
        let mut tree = tree("6.12.118-debian-arm64", 50, variant, placement, 1);
        let misses = misses_per_walk(&mut tree, variant, ways);
        let off = (misses as f64 - f64::from(expected)).abs() / f64::from(expected);
        assert!(
            off <= 0.01,
            "{variant:?}, {ways} ways: {misses} misses, {expected} counted"
        );
    }
}

/// Placements drawn by the rules of the allocators come out as the recorded one does: 155 to 165
/// without the patch and 258 to 268 with it.
#[test]
fn drawn_placements_at_50_levels() {
    for seed in 1..=40 {
        for (variant, low, high) in [(Variant::Parent, 155, 165), (Variant::Cgroup, 258, 268)] {
            let mut tree = tree("6.12.118-debian-arm64", 50, variant, Placement::Slab, seed);
            let misses = misses_per_walk(&mut tree, variant, 8);
            assert!(
                (low..=high).contains(&misses),
                "seed {seed}, {variant:?}: {misses}"
            );
        }
    }
}

/// No address is used twice: objects of a tree never overlap, whatever the placement and the seed.
#[test]
fn objects_do_not_overlap() {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data/placements/k612a64.d50.1cpu.txt");
    let recorded = Placement::Recorded(Stream::read(&file).expect("readable").placement);
    for placement in [
        Placement::Slab,
        Placement::Packed,
        Placement::Coloured,
        recorded,
    ] {
        for seed in 1..=20 {
            for depth in [0, 1, 7, 50] {
                let t = tree(
                    "6.12.118-debian-arm64",
                    depth,
                    Variant::Parent,
                    placement.clone(),
                    seed,
                );
                let mut ranges: Vec<(u64, u64)> = Vec::new();
                ranges.extend(t.cgroups.iter().map(|a| (a.0, 2304)));
                ranges.extend(t.groups.iter().map(|a| (a.0, 720)));
                ranges.extend(t.group_cpus.iter().map(|a| (a.0, 128)));
                ranges.extend(t.globals.tasks.map(|a| (a, 4736)));
                let c = &t.globals.cpus[0];
                ranges.extend([(c.psi_seq, 4), (c.rq, 2688), (c.clock, 48)]);
                ranges.push((t.globals.per_cpu_offset, 8));
                ranges.sort_unstable();
                for pair in ranges.windows(2) {
                    let free = pair[0].0 + pair[0].1 <= pair[1].0;
                    assert!(free, "{placement:?}, seed {seed}, depth {depth}: {pair:x?}");
                }
            }
        }
    }
}
