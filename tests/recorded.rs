//! The replica's accesses equal those of running Linux, as recorded, in order: object, level,
//! field, offset, width, load or store; the stack left out.
//!
//! The tree is built at the recorded addresses and starts from the recorded state (every byte that
//! a walk loads before it stores it). Each operation of the stream is then replayed by the replica,
//! and compared access by access. Globals have no label in a stream: there the test demands one
//! recorded address for each of ours and the other way round. The values that the walk stores into
//! counts, masks, times and flags are compared as well.

use std::collections::HashMap;
use std::path::PathBuf;

use kernels::arena::Random;
use kernels::memory::Addr;
use kernels::psi::{
    FIELDS, Outcome, Placement, PsiTree, TreeShape, Variant, task_change, task_switch,
};
use kernels::recorder::{Kind, Recorded, Recorder};
use kwalk::streams::{Access, Event, Stream};

/// One call of `psi_task_change` or `psi_task_switch`, without the stack.
struct Operation {
    cpu: u32,
    switch: bool,
    visits: u64,
    accesses: Vec<Access>,
}

/// The object that an access hits, or the address itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Place {
    Group(usize),
    GroupCpu(u32, usize),
    Cgroup(usize),
    Task(usize),
    Global(u64),
}

fn operations(stream: &Stream) -> Vec<Operation> {
    let mut done: Vec<Operation> = Vec::new();
    // Per CPU: the operation under way, its stack block, and whether the first store is awaited.
    let mut open: HashMap<u32, (usize, Option<u64>)> = HashMap::new();
    for event in &stream.events {
        match event {
            Event::Call { cpu, psi, name } => {
                let outer = matches!(name.as_str(), "psi_task_change" | "psi_task_switch");
                if outer {
                    let switch = name == "psi_task_switch";
                    done.push(Operation {
                        cpu: *cpu,
                        switch,
                        visits: 0,
                        accesses: Vec::new(),
                    });
                    open.insert(*cpu, (done.len() - 1, None));
                } else if name == "psi_group_change" && *psi {
                    done[open[cpu].0].visits += 1;
                }
            }
            Event::Access(a) if !a.psi => {
                open.remove(&a.cpu);
            }
            Event::Access(a) => {
                let Some((index, stack)) = open.get_mut(&a.cpu) else {
                    continue;
                };
                if stack.is_none() && a.write {
                    assert_eq!(a.label, None, "a function's first store goes to its stack");
                    *stack = Some(a.vaddr >> 14);
                }
                if *stack != Some(a.vaddr >> 14) {
                    done[*index].accesses.push(a.clone());
                }
            }
        }
    }
    done
}

/// `C0[4].tasks+8@8` -> (GroupCpu(0, 4), "tasks", 8); level `sys` is the last.
fn labelled(label: &str, depth: usize) -> (Place, String, u32) {
    let (object, rest) = label.split_once('.').expect("object.field");
    let (field, offset) = rest.rsplit_once('@').expect("field@offset");
    let (kind, index) = object
        .strip_suffix(']')
        .and_then(|o| o.split_once('['))
        .expect("kind[i]");
    let index = if index == "sys" {
        depth
    } else {
        index.parse().expect("a level")
    };
    let place = match kind.chars().next() {
        Some('G') => Place::Group(index),
        Some('C') => Place::GroupCpu(kind[1..].parse().expect("a CPU"), index),
        Some('c') => Place::Cgroup(index),
        Some('t') => Place::Task(index),
        other => panic!("object {other:?}"),
    };
    let name = field.split('+').next().unwrap_or(field).to_string();
    (place, name, offset.parse().expect("an offset"))
}

/// Objects of the tree by address.
struct Objects {
    bases: Vec<(u64, u64, Place)>,
}

impl Objects {
    fn of(tree: &PsiTree, cpus: u32) -> Objects {
        let mut bases = Vec::new();
        for (i, a) in tree.groups.iter().enumerate() {
            bases.push((a.0, 720, Place::Group(i)));
        }
        for cpu in 0..cpus {
            let shift =
                tree.globals.cpus[cpu as usize].difference - tree.globals.cpus[0].difference;
            for (i, a) in tree.group_cpus.iter().enumerate() {
                bases.push((a.0 + shift, 128, Place::GroupCpu(cpu, i)));
            }
        }
        for (i, a) in tree.cgroups.iter().enumerate() {
            bases.push((a.0, 1600, Place::Cgroup(i)));
        }
        for (i, a) in tree.globals.tasks.iter().enumerate() {
            bases.push((*a, 4000, Place::Task(i)));
        }
        Objects { bases }
    }

    fn find(&self, addr: Addr) -> (Place, u32) {
        self.bases
            .iter()
            .find(|(base, bytes, _)| (*base..base + bytes).contains(&addr.0))
            .map_or((Place::Global(addr.0), 0), |(base, _, place)| {
                (*place, (addr.0 - base) as u32)
            })
    }

    fn base(&self, place: Place) -> u64 {
        self.bases
            .iter()
            .find(|(_, _, p)| *p == place)
            .expect("a known object")
            .0
    }
}

/// Pointers are linked by the tree; task bits beside in_memstall have no counterpart in it.
fn is_data(field: &str) -> bool {
    matches!(
        field,
        "tasks"
            | "state_mask"
            | "times"
            | "state_start"
            | "enabled"
            | "psi_flags"
            | "avgs_work"
            | "rtpoll_states"
            | "seq"
    )
}

/// Give the tree the state that the stream starts from.
fn take_state(tree: &mut PsiTree, objects: &Objects, operations: &[Operation], depth: usize) {
    let mut known = std::collections::HashSet::new();
    for access in operations.iter().flat_map(|o| &o.accesses) {
        let Some(label) = &access.label else { continue };
        let (place, field, offset) = labelled(label, depth);
        for byte in 0..access.bytes {
            let first = known.insert((place, offset + byte));
            if first && !access.write && is_data(&field) {
                let value = access.value.expect("a value") >> (8 * byte) & 0xff;
                let at = Addr(objects.base(place)).plus(u64::from(offset + byte));
                tree.arena.write(at, 1, value);
            }
        }
    }
}

fn replay(tree: &mut PsiTree, o: &Operation, depth: usize) -> (Vec<Recorded>, Outcome<u64>) {
    let label = |a: &Access| a.label.as_ref().map(|l| labelled(l, depth));
    let task = |a: &Access| match label(a) {
        Some((Place::Task(i), field, _)) => Some((i, field)),
        _ => None,
    };
    let globals = tree.globals.clone();
    let idle = globals.cpus[o.cpu as usize].idle_task;
    let address = |i: Option<usize>| i.map_or(idle, |i| globals.tasks[i]);
    let time = o
        .accesses
        .iter()
        .find(|a| a.write && label(a).is_some_and(|(_, f, _)| f == "state_start"))
        .map_or(0, |a| a.value.expect("a time"));
    let offsets = tree.offsets;
    let outcome;
    let mut mem;
    if o.switch {
        let prev = task(&o.accesses[0]).map(|(i, _)| i);
        // curr->in_memstall is read in the visits; who is switched to is known by its pid or flags.
        let next = o
            .accesses
            .iter()
            .filter_map(task)
            .find(|(i, f)| Some(*i) != prev && (f == "pid" || f == "psi_flags"))
            .map(|(i, _)| i);
        let sleep = o
            .accesses
            .iter()
            .filter_map(task)
            .any(|(i, f)| Some(i) == prev && f == "flags");
        let tasks = (address(prev), address(next));
        tree.set_current(o.cpu, Addr(tasks.1));
        mem = Recorder::new(&mut tree.arena);
        outcome = task_switch(
            &mut mem,
            Variant::Parent,
            &offsets,
            &globals,
            o.cpu,
            tasks,
            sleep,
            time,
        );
    } else {
        mem = Recorder::new(&mut tree.arena);
        let (i, _) = o.accesses.iter().find_map(task).expect("a task");
        let flags: Vec<u64> = o
            .accesses
            .iter()
            .filter(|a| task(a).is_some_and(|(_, f)| f == "psi_flags"))
            .map(|a| a.value.expect("flags"))
            .collect();
        let change = (flags[0] & !flags[1], flags[1] & !flags[0]);
        let task = globals.tasks[i];
        outcome = task_change(
            &mut mem,
            Variant::Parent,
            &offsets,
            &globals,
            o.cpu,
            task,
            change,
            time,
        );
    }
    (mem.accesses, outcome)
}

/// `visits_per_level`: group visits of the recorded round trip over N + 1 (facts: one CPU 4 with CFS,
/// 2 or 3 with EEVDF; two CPUs 6).
fn compare(file: &str, layout: &str, visits_per_level: u64) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data/streams")
        .join(file);
    let stream = Stream::read(&path).expect("a readable stream");
    let depth = stream.placement.cgroups.len();
    let cpus = stream.placement.per_cpu_offsets.len() as u32;
    let layout = kwalk::layouts::find(layout).expect("a built-in layout");
    let shape = TreeShape {
        depth: depth as u32,
        cpus,
        variant: Variant::Parent,
        placement: Placement::Recorded(stream.placement.clone()),
        seed: 1,
    };
    let mut tree = PsiTree::new(layout, &shape).expect("a tree at recorded addresses");
    let objects = Objects::of(&tree, cpus);
    let operations = operations(&stream);
    assert!(!operations.is_empty(), "{file}: no operation found");
    take_state(&mut tree, &objects, &operations, depth);
    let seq_per_visit = layout.psi_form.seq_in_group_cpu;

    let (mut ours_of, mut theirs_of) = (HashMap::new(), HashMap::new());
    let mut compared = 0;
    for (n, operation) in operations.iter().enumerate() {
        // A stream may end within an operation: compare what is there.
        let (ours, outcome) = replay(&mut tree, operation, depth);
        let last = n + 1 == operations.len();
        if !last {
            assert_eq!(
                ours.len(),
                operation.accesses.len(),
                "{file}, operation {n}: accesses"
            );
            assert_eq!(
                outcome.visits, operation.visits,
                "{file}, operation {n}: visits"
            );
        }
        for (i, (our, their)) in ours.iter().zip(&operation.accesses).enumerate() {
            let at = format!("{file}, operation {n}, access {i}: ours {our:?}, recorded {their:?}");
            assert_eq!(our.kind == Kind::Store, their.write, "load or store; {at}");
            assert_eq!(u32::from(our.bytes), their.bytes, "width; {at}");
            let (place, offset) = objects.find(our.addr);
            match (place, &their.label) {
                (Place::Global(address), None) => {
                    let theirs = *ours_of.entry(address).or_insert(their.vaddr);
                    assert_eq!(theirs, their.vaddr, "one global of Linux for ours; {at}");
                    let ours = *theirs_of.entry(their.vaddr).or_insert(address);
                    assert_eq!(ours, address, "one global of ours for Linux's; {at}");
                }
                (_, Some(label)) => {
                    let (object, field, label_offset) = labelled(label, depth);
                    assert_eq!((place, offset), (object, label_offset), "object; {at}");
                    let (_, name) = FIELDS[usize::from(our.field.id)];
                    let same = name.split('.').next() == Some(&field)
                        || (name.starts_with("in_") && field.starts_with("in_"));
                    assert!(same, "field {name} is {field}; {at}");
                    let timed = matches!(name, "times" | "state_start" | "seq");
                    if their.write && is_data(&field) && !(timed && seq_per_visit) {
                        let stored = tree.arena.read(our.addr, their.bytes as usize);
                        let later = ours[i + 1..]
                            .iter()
                            .any(|a| a.kind == Kind::Store && a.addr == our.addr);
                        if !later {
                            assert_eq!(Some(stored), their.value, "value stored; {at}");
                        }
                    }
                }
                (place, None) => panic!("we hit {place:?}, Linux no object; {at}"),
            }
            compared += 1;
        }
    }
    let visits: u64 = operations.iter().map(|o| o.visits).sum();
    assert_eq!(
        visits,
        visits_per_level * (depth as u64 + 1),
        "{file}: visits"
    );
    // A visit that finds no state on makes 15 accesses and the step to the next group one.
    assert!(
        compared as u64 > 16 * visits,
        "{file}: only {compared} accesses compared"
    );
}

#[test]
fn one_cpu_6_12_arm64() {
    compare(
        "k612a64.d5.1cpu.full-roundtrip.txt.gz",
        "6.12.118-debian-arm64",
        3,
    );
}

#[test]
fn two_cpus_6_12_arm64() {
    compare(
        "k612a64.d5.2cpu.full-roundtrip.txt.gz",
        "6.12.118-debian-arm64",
        6,
    );
}

#[test]
fn one_cpu_6_12_x86_64() {
    compare(
        "k612x.d5.1cpu.full-roundtrip.txt.gz",
        "6.12.118-debian-x86-64",
        2,
    );
}

#[test]
fn one_cpu_6_1_arm64() {
    compare(
        "k61a64.d5.1cpu.full-roundtrip.txt.gz",
        "6.1.192-debian-arm64",
        4,
    );
}

/// A reader of files from anywhere must refuse, never panic: every line of a real stream, cut,
/// shuffled and spoiled.
#[test]
fn spoiled_streams_are_refused_in_a_sentence() {
    for (text, line) in [
        ("# cgroups 12\n", 1),
        ("1 0 1\n", 1),
        ("\n1 x 1 f+0 R 8 0x1 0x1 0x1 -\n", 2),
        ("1 0 1 f+0 Q 8 0x1 0x1 0x1 -\n", 1),
        ("1 0 1 f+0 R 8 0x1 0xg 0x1 -\n", 1),
        ("1 0 1 CALL\n", 1),
    ] {
        let (at, what) = Stream::parse(text).expect_err(text);
        assert_eq!(at, line, "{text:?}: {what}");
    }
    let mut random = Random(3);
    let good = "5 0 1 f+0x9 W 8 0xffa0 0x42 0x6 C0[4].tasks+8@8";
    for _ in 0..2000 {
        let mut bytes = good.as_bytes().to_vec();
        for _ in 0..=random.below(4) {
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] = random.below(128) as u8;
        }
        bytes.truncate(1 + random.below(bytes.len() as u64) as usize);
        let _ = Stream::parse(&String::from_utf8_lossy(&bytes));
    }
}
