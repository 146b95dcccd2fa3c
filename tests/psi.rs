//! The PSI kernels on all rungs: what they sum, how often they visit and access, and which lines.

use std::collections::BTreeSet;

use kernels::layout::Layout;
use kernels::memory::{Memory, Word};
use kernels::native::Native;
use kernels::psi::{
    FIELDS, Globals, Outcome, Pipe, Placement, PsiOffsets, PsiTree, Scheduler, TreeShape, Variant,
    Walks, account_irqtime, bare_walks, bare_walks_native, go_idle, half_trip, half_trip_native,
    period, round_trips, round_trips_native, task_changes, task_changes_native, task_switch,
};
use kernels::recorder::{Kind, Recorded, Recorder};
use kwalk::machine::catalogue;
use kwalk::model::page_map::PageMapOptions;
use kwalk::model::{Model, ModelOptions};
use kwalk::native::mapping::{self, Pages};
use proptest::prelude::*;

const X86: &str = "6.18.2-ubuntu-x86-64";

fn layout(name: &str) -> &'static Layout {
    kwalk::layouts::find(name).expect("a built-in layout")
}

fn tree(layout: &Layout, depth: u32, variant: Variant, seed: u64) -> PsiTree {
    let shape = TreeShape {
        depth,
        cpus: 2,
        variant,
        placement: Placement::Slab,
        seed,
    };
    PsiTree::new(layout, &shape).expect("a tree")
}

/// The operations of the experiments.
#[derive(Clone, Copy, Debug)]
enum Operation {
    Bare,
    Changes,
    Trips(Scheduler),
    Halves,
}

const OPERATIONS: [Operation; 5] = [
    Operation::Bare,
    Operation::Changes,
    Operation::Trips(Scheduler::Cfs),
    Operation::Trips(Scheduler::Eevdf),
    Operation::Halves,
];

/// Six operations, a multiple of every period.
const COUNT: u64 = 6;

fn generic<M: Memory>(mem: &mut M, walks: Walks<'_>, operation: Operation) -> Outcome<u64> {
    let mut time = 0;
    let plain = |o: Outcome<M::Word>| Outcome {
        visits: o.visits,
        sum: o.sum.get(),
        last: 0,
    };
    let pipe = |scheduler| Pipe { walks, scheduler };
    match operation {
        Operation::Bare => plain(bare_walks(mem, &walks, COUNT)),
        Operation::Changes => plain(task_changes(mem, &walks, COUNT, &mut time)),
        Operation::Trips(s) => plain(round_trips(mem, &pipe(s), 0, COUNT, &mut time)),
        Operation::Halves => {
            let pipe = pipe(Scheduler::Cfs);
            go_idle(mem, &pipe, &mut time);
            let mut total = Outcome::<u64>::none();
            for cpu in [0, 1].repeat(COUNT as usize / 2) {
                let done = plain(half_trip(mem, &pipe, cpu, M::Word::from(0), &mut time));
                total.visits += done.visits;
                total.sum = total.sum.wrapping_add(done.sum);
            }
            total
        }
    }
}

fn native(mem: &mut Native, walks: Walks<'_>, operation: Operation) -> Outcome<u64> {
    let mut time = 0;
    let pipe = |scheduler| Pipe { walks, scheduler };
    let mut total = match operation {
        Operation::Bare => bare_walks_native(mem, &walks, COUNT),
        Operation::Changes => task_changes_native(mem, &walks, COUNT, &mut time),
        Operation::Trips(s) => round_trips_native(mem, &pipe(s), 0, COUNT, &mut time),
        Operation::Halves => {
            let pipe = pipe(Scheduler::Cfs);
            go_idle(mem, &pipe, &mut time);
            let mut total = Outcome::<u64>::none();
            for cpu in [0, 1].repeat(COUNT as usize / 2) {
                let done = half_trip_native(mem, &pipe, cpu, 0, &mut time);
                total.visits += done.visits;
                total.sum = total.sum.wrapping_add(done.sum);
            }
            total
        }
    };
    total.last = 0;
    total
}

fn on_recorder(
    t: &PsiTree,
    variant: Variant,
    operation: Operation,
) -> (Outcome<u64>, Vec<Recorded>) {
    let mut arena = t.arena.clone();
    let mut mem = Recorder::new(&mut arena);
    let walks = Walks {
        variant,
        offsets: &t.offsets,
        globals: &t.globals,
        zero: 0,
    };
    let outcome = generic(&mut mem, walks, operation);
    (outcome, mem.accesses)
}

fn on_model(t: &PsiTree, variant: Variant, operation: Operation) -> Outcome<u64> {
    let machine = catalogue::find("textbook-48k-lru").expect("a catalogue machine");
    let options = ModelOptions::default();
    let mut model = Model::new(&machine, PageMapOptions::HUGE, 1, options).expect("a model");
    let mut arena = t.arena.clone();
    let walks = Walks {
        variant,
        offsets: &t.offsets,
        globals: &t.globals,
        zero: 0,
    };
    generic(&mut model.on(&mut arena), walks, operation)
}

#[allow(unsafe_code)]
fn on_host(t: &PsiTree, variant: Variant, operation: Operation) -> Outcome<u64> {
    let mapped = mapping::map(&t.arena, Pages::FourK).expect("memory");
    let globals: Globals = t.globals.moved(|a| mapped.host(a));
    // SAFETY: the globals and all pointers behind them are those of `mapped`, which lives on.
    let mut mem = unsafe { Native::new() };
    let walks = Walks {
        variant,
        offsets: &t.offsets,
        globals: &globals,
        zero: 0,
    };
    native(&mut mem, walks, operation)
}

/// One kernel, three memories: the same visits and the same sum, whatever the variant, layout,
/// depth and operation.
#[test]
fn every_rung_computes_the_same() {
    for name in kwalk::layouts::names() {
        for variant in Variant::ALL {
            for depth in [0, 1, 2, 7] {
                let t = tree(layout(name), depth, variant, u64::from(depth) + 5);
                for operation in OPERATIONS {
                    let (recorded, _) = on_recorder(&t, variant, operation);
                    let at = format!("{name}, {variant:?}, depth {depth}, {operation:?}");
                    assert_eq!(on_model(&t, variant, operation), recorded, "model: {at}");
                    assert_eq!(on_host(&t, variant, operation), recorded, "native: {at}");
                }
            }
        }
    }
}

/// Visits of an operation over N cgroups and `psi_system` (facts: psi.md section 6,
/// psi_observed.md): a walk N + 1, a round trip on one CPU 4(N+1) with CFS and 14(N+1) in six with
/// EEVDF, half of one on two CPUs 3(N+1). With `inner-off` a walk visits the leaf and the system;
/// as posted, the switch from idle visits `psi_system` alone.
#[test]
fn visits_are_those_of_the_formulas() {
    for depth in [0, 1, 3, 20] {
        for variant in Variant::ALL {
            let n = match variant {
                Variant::InnerOff => u64::from(depth.min(1)),
                _ => u64::from(depth),
            };
            let half = match variant {
                Variant::CgroupAsPosted => 2 * (n + 1) + 1,
                _ => 3 * (n + 1),
            };
            let t = tree(layout(X86), depth, variant, 3);
            for (operation, expected) in [
                (Operation::Bare, COUNT * (n + 1)),
                (Operation::Changes, COUNT * (n + 1)),
                (Operation::Trips(Scheduler::Cfs), COUNT * 4 * (n + 1)),
                (Operation::Trips(Scheduler::Eevdf), 14 * (n + 1)),
                (Operation::Halves, COUNT * half),
            ] {
                let (outcome, _) = on_recorder(&t, variant, operation);
                assert_eq!(
                    outcome.visits, expected,
                    "{variant:?}, depth {depth}, {operation:?}"
                );
            }
        }
    }
    assert_eq!(COUNT % period(Scheduler::Eevdf), 0);
}

/// A bare visit: 4 loads, 4 loads and stores of counters, and what the variant loads to get on
/// (psi.md section 4): `parent` once per visit, `cgroup` two fields of each cgroup and of the root,
/// the inode check two more. One `cgroup.psi` at the start of a `parent` walk.
#[test]
fn bare_walks_access_what_they_document() {
    let depth = 9;
    let n = u64::from(depth);
    for (variant, steps) in [
        (Variant::Parent, 1 + (n + 1)),
        (Variant::Cgroup, 2 * (n + 1)),
        // The root's psi is not loaded: its inode number says what it is.
        (Variant::CgroupInoCheck, 4 * (n + 1) - 1),
        // The array's address, and its end.
        (Variant::AncestorsArray, 1 + (n + 2)),
    ] {
        let t = tree(layout(X86), depth, variant, 2);
        let (_, accesses) = on_recorder(&t, variant, Operation::Bare);
        let loads = accesses.iter().filter(|a| a.kind == Kind::Load).count() as u64;
        let stores = accesses.iter().filter(|a| a.kind == Kind::Store).count() as u64;
        assert_eq!(loads, COUNT * (8 * (n + 1) + steps), "{variant:?}: loads");
        assert_eq!(stores, COUNT * 4 * (n + 1), "{variant:?}: stores");
    }
}

/// Lines per visit that can be cold (facts): 4 without the patch, 6 with it. Over N levels: 4(N+1)
/// lines of groups, and with the patch two lines of each cgroup and of the root; without it the
/// leaf's cgroup has two (`kn` and `psi`). The host object of `psi_system` may start within a line,
/// which splits nothing here: its three fields stay on three lines.
#[test]
fn lines_of_a_walk() {
    let depth = 12;
    let n = u64::from(depth);
    for (variant, expected) in [
        (Variant::Parent, 4 * (n + 1) + 2),
        (Variant::Cgroup, 4 * (n + 1) + 2 * (n + 1)),
    ] {
        let t = tree(layout(X86), depth, variant, 4);
        let (_, accesses) = on_recorder(&t, variant, Operation::Changes);
        let lines: BTreeSet<u64> = accesses
            .iter()
            .filter(|a| kernels::psi::is_psi_line(a.field.id))
            .map(|a| a.addr.0 / 64)
            .collect();
        assert_eq!(lines.len() as u64, expected, "{variant:?}");
    }
}

/// `psi_account_irqtime`: three lines per visit, without `avgs_work`; nothing where the build has no
/// IRQ time, which `times` of seven states tells.
#[test]
fn irq_time_leaves_avgs_work_alone() {
    let run = |name: &str| {
        let t = tree(layout(name), 4, Variant::Parent, 1);
        let mut arena = t.arena.clone();
        let mut mem = Recorder::new(&mut arena);
        let (v, o, g) = (Variant::Parent, &t.offsets, &t.globals);
        let outcome = account_irqtime(&mut mem, v, o, g, 0, g.tasks[0], 7, 1000);
        (outcome.map(|o| o.visits), mem.accesses)
    };
    assert_eq!(run(X86), (None, Vec::new()));
    let (visits, accesses) = run("6.18.2-defconfig-arm64");
    assert_eq!(visits, Some(5));
    assert!(
        accesses
            .iter()
            .all(|a| FIELDS[usize::from(a.field.id)].1 != "avgs_work")
    );
    let group_fields = ["psi_group", "psi_group_cpu"];
    let lines: BTreeSet<u64> = accesses
        .iter()
        .filter(|a| group_fields.contains(&FIELDS[usize::from(a.field.id)].0))
        .map(|a| a.addr.0 / 64)
        .collect();
    // psi_system is not line-aligned on arm64, but its two fields lie on two lines all the same.
    assert_eq!(lines.len(), 15, "3 lines of each of 5 groups");
}

/// A switch between two tasks of one cgroup that both stay runnable visits no group: the leaf has
/// ONCPU already, and nothing but ONCPU differs.
#[test]
fn a_preemption_within_a_cgroup_visits_nothing() {
    let t = tree(layout(X86), 6, Variant::Parent, 1);
    let mut arena = t.arena.clone();
    let mut mem = Recorder::new(&mut arena);
    let walks = Walks {
        variant: Variant::Parent,
        offsets: &t.offsets,
        globals: &t.globals,
        zero: 0,
    };
    let mut time = 0;
    assert_eq!(
        task_changes(&mut mem, &walks, 1, &mut time).visits,
        7,
        "the second task is runnable"
    );
    let tasks = (t.globals.tasks[0], t.globals.tasks[1]);
    let switch = |mem: &mut Recorder<'_>, sleep| {
        task_switch(
            mem,
            Variant::Parent,
            &t.offsets,
            &t.globals,
            0,
            tasks,
            sleep,
            5000,
        )
        .visits
    };
    assert_eq!(switch(&mut mem, false), 0);
}

/// Pressure off in a group (cgroup.pressure): one visit that ends the state, then only the switch
/// and the mask are looked at; the walk goes on.
#[test]
fn disabled_groups_are_walked_but_not_counted() {
    let t = tree(layout(X86), 3, Variant::Parent, 1);
    let mut arena = t.arena.clone();
    for group in &t.groups {
        let at = group.plus(u64::from(t.offsets.enabled.offset_bytes));
        arena.write(at, 1, 0);
    }
    let mut mem = Recorder::new(&mut arena);
    let walks = Walks {
        variant: Variant::Parent,
        offsets: &t.offsets,
        globals: &t.globals,
        zero: 0,
    };
    let mut time = 0;
    let times = |accesses: &[Recorded]| {
        accesses
            .iter()
            .filter(|a| FIELDS[usize::from(a.field.id)].1 == "times")
            .count()
    };
    assert_eq!(task_changes(&mut mem, &walks, 1, &mut time).visits, 4);
    assert_eq!(
        times(&mem.accesses),
        8,
        "NONIDLE of 4 groups ends: a load and a store each"
    );
    assert_eq!(task_changes(&mut mem, &walks, 1, &mut time).visits, 4);
    assert_eq!(times(&mem.accesses), 8, "and is counted no more");
}

/// A layout without a field that the kernel needs: an error naming struct, field and layout.
#[test]
fn a_missing_field_is_named() {
    let full = layout("6.12.118-debian-arm64");
    for (of, field) in [
        ("psi_group", "parent"),
        ("psi_group", "enabled"),
        ("psi_group", "pcpu"),
        ("psi_group", "avgs_work"),
        ("psi_group", "rtpoll_states"),
        ("psi_group_cpu", "tasks"),
        ("psi_group_cpu", "state_mask"),
        ("psi_group_cpu", "times"),
        ("psi_group_cpu", "state_start"),
        ("cgroup", "kn"),
        ("cgroup", "psi"),
        ("css_set", "dfl_cgrp"),
        ("kernfs_node", "id"),
        ("task_struct", "pid"),
        ("task_struct", "psi_flags"),
        ("task_struct", "cgroups"),
        ("task_struct", "in_memstall"),
        ("task_struct", "in_iowait"),
        ("task_struct", "flags"),
    ] {
        let mut less = full.clone();
        let s = less
            .structs
            .iter_mut()
            .find(|s| s.name == of)
            .expect("a struct");
        s.fields.retain(|f| f.name != field);
        let error = PsiOffsets::resolve(&less).expect_err(field);
        let words = error.to_string();
        for part in [of, field, "6.12.118-debian-arm64"] {
            assert!(words.contains(part), "{words} does not name {part}");
        }
    }
    let mut none = full.clone();
    none.structs.retain(|s| s.name != "css_set");
    let words = PsiOffsets::resolve(&none).expect_err("css_set").to_string();
    assert!(
        words.contains("css_set") && words.contains("6.12.118"),
        "{words}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// After whole pairs of enqueue and dequeue every counter of tasks is what it was, and no count
    /// ever goes below zero, which a wrapped 32-bit word would show.
    #[test]
    fn counts_return_to_where_they_began(
        depth in 0_u32..40,
        seed in any::<u64>(),
        variant in (0..Variant::ALL.len()).prop_map(|i| Variant::ALL[i]),
        pairs in 1_u64..4,
    ) {
        let t = tree(layout(X86), depth, variant, seed);
        let mut arena = t.arena.clone();
        let mut mem = Recorder::new(&mut arena);
        let walks = Walks { variant, offsets: &t.offsets, globals: &t.globals, zero: 0 };
        let mut time = 0;
        task_changes(&mut mem, &walks, 2 * pairs, &mut time);
        for counts in &t.group_cpus {
            for state in 0..4 {
                let at = counts.plus(u64::from(t.offsets.tasks.offset_bytes) + 4 * state);
                let running = u64::from(state == 2);
                prop_assert_eq!(arena.read(at, 4), running);
            }
        }
    }
}
