//! References per second of the trace readers, and of what `kwalk mrc` does with them.
//!
//! Goal: reading `raw-u64` must not be what limits the model, which presents some tens of millions
//! of references a second: at least 300 M references/s. Files are in memory (in Linux's page
//! cache); each row is the median of several runs.
//!
//! `cargo bench --bench trace`; `cargo test --benches` runs everything once, briefly.

use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use kernels::arena::Random;
use kwalk::mrc::StackDistances;
use kwalk::trace::{Kind, Reference, Source, Trace, din, raw};

/// What programs do: instructions in a row, and each third one with data.
fn references(count: u64) -> Vec<Reference> {
    let mut random = Random(1);
    let mut site = 0x401_0000;
    let data = |kind, addr, site| Reference {
        kind,
        bytes: 8,
        addr,
        site,
    };
    (0..count)
        .map(|i| match i % 4 {
            0 => data(Kind::Load, 0x1f_fe00_0000 + 8 * random.below(1 << 17), site),
            1 => data(Kind::Store, 0x1f_ff00_0000 + 8 * random.below(1 << 9), site),
            _ => {
                site += 4;
                data(Kind::Fetch, site, site)
            }
        })
        .collect()
}

fn lackey(references: &[Reference]) -> Vec<u8> {
    let line = |r: &Reference| match r.kind {
        Kind::Fetch => format!("I  {:08x},{}\n", r.addr, r.bytes),
        Kind::Load => format!(" L {:08x},{}\n", r.addr, r.bytes),
        Kind::Store => format!(" S {:08x},{}\n", r.addr, r.bytes),
        Kind::Modify => format!(" M {:08x},{}\n", r.addr, r.bytes),
    };
    references.iter().map(line).collect::<String>().into_bytes()
}

/// Millions of references per second of `read`, the median of `turns`.
fn rate(turns: usize, mut read: impl FnMut() -> u64) -> f64 {
    let mut rates: Vec<f64> = (0..turns)
        .map(|_| {
            let start = Instant::now();
            let count = read();
            count as f64 / start.elapsed().as_secs_f64() / 1e6
        })
        .collect();
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

fn read(file: &Path, mut each: impl FnMut(&[Reference])) -> u64 {
    let name = file.to_str().expect("a plain name");
    let mut trace = Trace::open(Source::named(name), None).expect("a trace");
    let mut block = Vec::new();
    while trace.read_block(&mut block).expect("a whole trace") {
        each(&block);
    }
    trace.references()
}

fn main() {
    // Without it, by `cargo test`, whether everything runs is all that is asked.
    let measure = std::env::args().any(|a| a == "--bench");
    let (turns, count) = if measure { (9, 4_000_000) } else { (1, 10_000) };
    let references = references(count);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut words = Vec::new();
    raw::write(&references, &mut words).expect("memory takes all");
    let mut records = Vec::new();
    din::write(&references, &mut records).expect("memory takes all");
    println!("{count} references, in the page cache");
    println!("{:34} {:>16}", "", "M references/s");
    for (name, bytes) in [
        ("t.u64", words.repeat(if measure { 8 } else { 1 })),
        ("t.lackey", lackey(&references)),
        ("t.din", records),
    ] {
        let file = folder.path().join(name);
        fs::write(&file, bytes).expect("the folder is writable");
        let read_only = rate(turns, || {
            read(&file, |block| {
                black_box(block);
            })
        });
        println!("{:34} {read_only:>16.1}", format!("read {name}"));
    }
    let file = folder.path().join("t.u64");
    fs::write(&file, words).expect("the folder is writable");
    for sets in [1, 64] {
        let distances = rate(turns.min(3), || {
            let mut distances = StackDistances::new(sets).expect("a number of sets");
            read(&file, |block| {
                for reference in block {
                    for line in reference.lines(6) {
                        black_box(distances.request(line).expect("few lines"));
                    }
                }
            })
        });
        println!(
            "{:34} {distances:>16.1}",
            format!("stack distances, {sets} sets")
        );
    }
}
