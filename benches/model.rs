//! Accesses per second of the model, and of what else could count the same misses, in one run.
//!
//! The stream is one PSI walk of 50 cgroups (`psi_task_change`, variant `parent`), again and again
//! on warm caches: about 1100 accesses, 15 % of which miss the L1D. The peers:
//!
//! - **cachegrind**, D1 of the i7-9700 and an LL, on the same accesses as a program. It has no
//!   time, no TLB, no causes and two levels, but simulates the program's two instructions per
//!   access as well. Its start is taken out by running the program with two numbers of rounds.
//! - **A naive LRU**: a `Vec` per set of one level that lines are moved about in.
//!
//! Goals, as ratios, since seconds are the host's: the model with timing, TLBs, three levels and
//! causes is at least as fast per access as cachegrind's caches alone (ratio 1.0 or more). Wall
//! clocks of shared machines err: measurements take turns, and each row is the median of several.
//!
//! `cargo bench --bench model`; `cargo test --benches` runs everything once, briefly.

#[path = "../tests/common/cachegrind.rs"]
mod cachegrind;
#[path = "../tests/common/machines.rs"]
mod machines;

use std::hint::black_box;
use std::time::Instant;

use cachegrind::{Access, D1, Program};
use kernels::arena::{Arena, Random, Region};
use kernels::memory::{Field, Memory};
use kernels::psi::{Placement, PsiTree, TreeShape, Variant, Walks, task_changes};
use kernels::recorder::{Kind as Recorded, Recorder};
use kwalk::machine::{Machine, catalogue};
use kwalk::model::modelled::Timed;
use kwalk::model::page_map::PageMapOptions;
use kwalk::model::{Model, ModelOptions};

const DEPTH: u32 = 50;
const D1_OF_I7: D1 = D1 { sets: 64, ways: 8 };

/// Data of the random stream: more than the L2 holds, so that most of its accesses miss L1D and L2.
const RANDOM_BYTES: u64 = 8 << 20;

/// Makes a number of rounds; yields seconds.
type Rounds<'a> = Box<dyn FnMut(u64) -> f64 + 'a>;

struct Contender<'a> {
    name: &'static str,
    accesses_per_round: u64,
    rounds: u64,
    run: Rounds<'a>,
    /// Accesses per second, by measurement.
    rates: Vec<f64>,
}

fn tree() -> PsiTree {
    let layout = kwalk::layouts::find("6.18.2-ubuntu-x86-64").expect("a built-in layout");
    let shape = TreeShape {
        depth: DEPTH,
        cpus: 2,
        variant: Variant::Parent,
        placement: Placement::Slab,
        seed: 1,
    };
    PsiTree::new(layout, &shape).expect("a tree")
}

/// The accesses of two walks: an enqueue and a dequeue, after which all is as before.
fn recorded(tree: &mut PsiTree) -> Vec<Access> {
    let (globals, offsets) = (tree.globals.clone(), tree.offsets);
    let mut mem = Recorder::new(&mut tree.arena);
    task_changes(&mut mem, &walks(&globals, &offsets), 2, &mut 0);
    mem.accesses
        .iter()
        .map(|a| (a.addr, a.kind != Recorded::Load, a.bytes))
        .collect()
}

fn walks<'a>(
    globals: &'a kernels::psi::Globals,
    offsets: &'a kernels::psi::PsiOffsets,
) -> Walks<'a> {
    Walks {
        variant: Variant::Parent,
        offsets,
        globals,
        zero: 0,
    }
}

fn seconds(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}

fn model(machine: &Machine, classify: &[u8]) -> Model {
    let options = ModelOptions {
        classify: classify.to_vec(),
        ..ModelOptions::default()
    };
    Model::new(machine, PageMapOptions::HUGE, 1, options).expect("a catalogue machine")
}

/// The walk as kernels run it on the model, timed and booked.
fn walk<'a>(machine: &Machine, classify: &[u8]) -> Rounds<'a> {
    let mut tree = tree();
    let mut model = model(machine, classify);
    let mut time = 0;
    let mut go = move |rounds: u64| {
        let (globals, offsets) = (&tree.globals, &tree.offsets);
        let mut mem = model.on(&mut tree.arena);
        mem.begin_region();
        black_box(task_changes(
            &mut mem,
            &walks(globals, offsets),
            2 * rounds,
            &mut time,
        ));
        black_box(mem.end_region());
    };
    go(10);
    Box::new(move |rounds| seconds(|| go(rounds)))
}

/// Independent loads at random places, timed and booked.
fn random<'a>(machine: &Machine, loads: u64) -> Rounds<'a> {
    let mut arena = Arena::new();
    let base = Region::Slab.base();
    arena.reserve(base, RANDOM_BYTES);
    let mut model = model(machine, &[1]);
    let mut random = Random(1);
    let field = Field {
        id: 0,
        offset_bytes: 0,
    };
    let mut go = move |rounds: u64| {
        let mut mem = model.on(&mut arena);
        mem.begin_region();
        for _ in 0..rounds * loads {
            let at = base.plus(random.below(RANDOM_BYTES / 8) * 8);
            black_box(mem.load::<8>(Timed::from(at.0), field));
        }
        black_box(mem.end_region());
    };
    go(100);
    Box::new(move |rounds| seconds(|| go(rounds)))
}

/// One level, true LRU, most recent last.
fn naive<'a>(accesses: &'a [Access]) -> Rounds<'a> {
    let mut sets: Vec<Vec<u64>> = vec![Vec::new(); D1_OF_I7.sets as usize];
    let mut go = move |rounds: u64| {
        let mut misses = 0_u64;
        for _ in 0..rounds {
            for (addr, _, bytes) in accesses {
                for line in addr.0 / 64..=(addr.0 + u64::from(*bytes) - 1) / 64 {
                    let set = &mut sets[(line % u64::from(D1_OF_I7.sets)) as usize];
                    match set.iter().position(|l| *l == line) {
                        Some(at) => {
                            set.remove(at);
                        }
                        None => misses += 1,
                    }
                    set.push(line);
                    if set.len() > D1_OF_I7.ways as usize {
                        set.remove(0);
                    }
                }
            }
        }
        black_box(misses);
    };
    go(10);
    Box::new(move |rounds| seconds(|| go(rounds)))
}

/// The program with many rounds, less the program with one.
fn under_cachegrind<'a>(program: &'a Program) -> Rounds<'a> {
    Box::new(move |rounds| {
        let more = seconds(|| {
            program.run(rounds as usize + 1, D1_OF_I7);
        });
        let start = seconds(|| {
            program.run(1, D1_OF_I7);
        });
        (more - start).max(1e-9)
    })
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

fn main() {
    // Without it, by `cargo test`, whether everything runs is all that is asked.
    let measure = std::env::args().any(|a| a == "--bench");
    let (turns, scale) = if measure { (7, 1) } else { (1, 50) };
    let machine = catalogue::find("i7-9700").expect("a catalogue machine");
    let accesses = recorded(&mut tree());
    let per_round = accesses.len() as u64;
    let program = Program::build(&accesses);

    let mut contenders = Vec::new();
    let mut add = |name, accesses_per_round, rounds: u64, run| {
        contenders.push(Contender {
            name,
            accesses_per_round,
            rounds: (rounds / scale).max(2),
            run,
            rates: Vec::new(),
        });
    };
    add(
        "model, walk, 3C on L1D",
        per_round,
        1000,
        walk(&machine, &[1]),
    );
    add("model, walk, no 3C", per_round, 1000, walk(&machine, &[]));
    add("model, random misses", 1000, 500, random(&machine, 1000));
    add("naive Vec LRU, walk", per_round, 1000, naive(&accesses));
    if let Some(program) = &program {
        let run = under_cachegrind(program);
        add("cachegrind, walk", per_round, 4000, run);
    }
    for _ in 0..turns {
        for c in &mut contenders {
            let seconds = (c.run)(c.rounds);
            let accesses = c.rounds * c.accesses_per_round;
            c.rates.push(accesses as f64 / seconds);
        }
    }

    let ours = median(&contenders[0].rates);
    println!(
        "{per_round} accesses in two walks of {DEPTH} cgroups; i7-9700, 3 levels, TLBs, timing"
    );
    println!("{:24} {:>12} {:>16}", "", "M accesses/s", "model (3C) / it");
    for c in &contenders {
        let rate = median(&c.rates);
        println!("{:24} {:>12.1} {:>16.2}", c.name, rate / 1e6, ours / rate);
    }
    if program.is_none() {
        println!("cachegrind: not measured (see above)");
    }
}
