//! References per second of the model beside the simplest exact LRU in C (`move_to_front.c`), in one
//! run, on the same addresses: three levels of true LRU, 32 KiB / 8, 256 KiB / 4, 12 MiB / 16.
//!
//! - **count**: misses only.
//! - **full**: with 3C of the L1D, field attribution, TLBs and the cycle estimate.
//!
//! Goals, as ratios to the C code: counting 1.5 on both random streams and 1.0 on both walks; full
//! 0.6 and 0.35. Clocks of shared machines err: contenders take turns, and a rate is the median of
//! several. The misses of C and of counting must be equal, or there is nothing to compare; with TLBs,
//! page walks use the caches too.
//!
//! `cargo bench --bench references`, with `-- walk` only the streams with that in their names; `cargo test --benches` runs everything once, briefly.

#[path = "../tests/common/machines.rs"]
mod machines;

use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use kernels::arena::Random;
use kernels::memory::Field;
use kwalk::machine::{Inclusion, Machine, Replacement};
use kwalk::model::hierarchy::{Hierarchy, Kind};
use kwalk::model::page_map::PageMapOptions;
use kwalk::model::{Access, Model, ModelOptions};

const LINE_BYTES: u64 = 64;
/// Where in a node a walk reads, in bytes.
const FIELDS: [u64; 5] = [0, 8, 32, 56, 56];

fn machine() -> Machine {
    let lru = |level, sets, ways| {
        machines::cache(level, sets, ways, Replacement::Lru, Inclusion::NonInclusive)
    };
    let mut machine = machines::machine(vec![lru(1, 64, 8), lru(2, 1024, 4), lru(3, 12288, 16)]);
    machine.core.window = 224;
    machine.core.issue_width = 4;
    machine.core.load_ports = 2;
    machine.core.memory_ports = 3;
    machine.tlbs = vec![
        machines::tlb(1, &[4096], 16, 4),
        machines::tlb(1, &[2 << 20], 8, 4),
        machines::tlb(2, &[4096, 2 << 20], 128, 12),
    ];
    machine
}

fn random(lines: u64, count: usize) -> Vec<u64> {
    let mut random = Random(1);
    (0..count)
        .map(|_| random.below(lines) * LINE_BYTES)
        .collect()
}

/// A walk over a random cycle of `nodes` nodes of one line, each read at [`FIELDS`].
fn walk(nodes: u64, count: usize) -> Vec<u64> {
    let mut cycle: Vec<u64> = (0..nodes).collect();
    Random(1).shuffle(&mut cycle);
    let nodes = cycle.iter().cycle();
    nodes
        .flat_map(|node| FIELDS.map(|offset| node * LINE_BYTES + offset))
        .take(count)
        .collect()
}

/// Seconds, and the misses of the three levels.
type Run = (f64, [u64; 3]);

fn timed(work: impl FnOnce() -> [u64; 3]) -> Run {
    let start = Instant::now();
    let misses = work();
    (start.elapsed().as_secs_f64(), misses)
}

#[inline(never)]
fn count(machine: &Machine, addresses: &[u64]) -> Run {
    let mut caches = Hierarchy::new(&machine.caches, &[], 1).expect("a hierarchy");
    timed(|| {
        caches.load_all(black_box(addresses));
        let stats = caches.stats();
        std::array::from_fn(|k| stats[k].loads.misses)
    })
}

#[inline(never)]
fn full(machine: &Machine, addresses: &[u64]) -> Run {
    let pages = PageMapOptions {
        frames: kwalk::model::page_map::Frames::Identity,
        ..PageMapOptions::SMALL
    };
    let mut model = Model::new(machine, pages, 1, ModelOptions::default()).expect("a model");
    timed(|| {
        model.begin_region();
        let access = |(i, addr): (usize, &u64)| Access {
            addr: *addr,
            field: Field {
                id: (i % FIELDS.len()) as u16,
                offset_bytes: (addr % LINE_BYTES) as u32,
            },
            bytes: 8,
            kind: Kind::Load,
        };
        let mut accesses = Vec::with_capacity(1024);
        for (number, part) in black_box(addresses).chunks(1000).enumerate() {
            accesses.clear();
            let numbered = part.iter().enumerate();
            accesses.extend(numbered.map(|(i, addr)| access((1000 * number + i, addr))));
            model.run(&accesses);
        }
        let stats = model.end_region();
        std::array::from_fn(|k| stats.levels[k].loads.misses)
    })
}

/// Builds the C code; `None`, said loudly, where there is no C compiler.
fn compiled(folder: &Path) -> Option<std::path::PathBuf> {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/move_to_front.c");
    let program = folder.join("move_to_front");
    let done = Command::new("cc")
        .args(["-O2", "-o"])
        .arg(&program)
        .arg(source)
        .status();
    if done.is_ok_and(|status| status.success()) {
        return Some(program);
    }
    eprintln!("NOT MEASURED: `cc` cannot build {source}; the model's own rates follow");
    None
}

fn in_c(program: &Path, addresses: &Path) -> Run {
    let done = Command::new(program)
        .arg(addresses)
        .arg("1")
        .output()
        .expect("it was built");
    let text = String::from_utf8(done.stdout).expect("it prints numbers");
    let mut words = text.split_whitespace();
    let seconds = words
        .next()
        .and_then(|w| w.parse().ok())
        .expect("seconds first");
    let mut miss = || {
        words
            .next()
            .and_then(|w| w.parse().ok())
            .expect("then misses")
    };
    (seconds, [miss(), miss(), miss()])
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    // Without it, by `cargo test`, whether everything runs is all that is asked.
    let measure = std::env::args().any(|a| a == "--bench");
    // How often contenders take turns, and with how many references.
    let number = |key: &str, otherwise: usize| {
        let value = std::env::var(key).ok();
        value.and_then(|v| v.parse().ok()).unwrap_or(otherwise)
    };
    let (turns, references) = match measure {
        true => (number("TURNS", 5), number("REFERENCES", 20_000_000)),
        false => (1, 200_000),
    };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let program = compiled(folder.path());
    let machine = machine();
    let streams = [
        ("random, 256 lines", random(256, references), 1.5, 0.6),
        ("random, 65,536 lines", random(65536, references), 1.5, 0.6),
        ("walk, 256 nodes", walk(256, references), 1.0, 0.35),
        ("walk, 65,536 nodes", walk(65536, references), 1.0, 0.35),
    ];
    println!("{references} references, millions per second; ratios to C, and their goals");
    println!(
        "{:22}{:>8}{:>8}{:>8}{:>16}{:>16}",
        "", "C", "count", "full", "count / C", "full / C"
    );
    let wanted: Vec<String> = std::env::args()
        .skip(1)
        .filter(|a| !a.starts_with('-'))
        .collect();
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|part| name.contains(part));
    for (name, addresses, count_goal, full_goal) in streams.iter().filter(|s| is_wanted(s.0)) {
        let file = folder.path().join("addresses");
        let bytes: Vec<u8> = addresses.iter().flat_map(|a| a.to_le_bytes()).collect();
        fs::write(&file, bytes).expect("a temporary file");
        let mut rates = [const { Vec::new() }; 3];
        for _ in 0..turns {
            let counted = count(&machine, addresses);
            let filled = full(&machine, addresses);
            let mut runs = vec![counted, filled];
            if let Some(program) = &program {
                let peer = in_c(program, &file);
                assert_eq!(peer.1, counted.1, "{name}: C, then kwalk");
                runs.push(peer);
            }
            for (rates, (seconds, _)) in rates.iter_mut().zip(runs) {
                rates.push(references as f64 / seconds / 1e6);
            }
        }
        let [count, full, peer] = &mut rates;
        let (count, full) = (median(count), median(full));
        if peer.is_empty() {
            println!("{name:22}{:>8}{count:>8.1}{full:>8.1}", "");
            continue;
        }
        let peer = median(peer);
        println!(
            "{name:22}{peer:>8.1}{count:>8.1}{full:>8.1}{:>9.2} ({count_goal:>4}){:>9.2} ({full_goal:>4})",
            count / peer,
            full / peer
        );
    }
}
