//! The same accesses as a program under cachegrind, and in the model: two counts to compare.
//!
//! The program is straight-line assembly, one `mov` or `add` per access at its nominal address, in
//! a loop that touches no other memory. It runs twice, with 3 and with 13 rounds: a tenth of the
//! difference is what one round misses once the start is forgotten.

#![allow(dead_code, reason = "each test program uses a part of it")]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use kernels::memory::Addr;
use kwalk::model::hierarchy::Kind;
use kwalk::model::page_map::{Frames, PageMapOptions};
use kwalk::model::{Model, ModelOptions};

use super::machines;

/// One access: nominal address, whether it writes, and how many bytes (1, 2, 4, 8 or 16).
pub type Access = (Addr, bool, u8);

/// Shape of the L1D; 64-byte lines, true LRU.
#[derive(Clone, Copy, Debug)]
pub struct D1 {
    pub sets: u32,
    pub ways: u32,
}

/// L1D misses of one round in the steady state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Misses {
    pub reads: u64,
    pub writes: u64,
}

/// What the model counts: nominal addresses, as cachegrind knows no others; an access that
/// straddles two lines counts once.
pub fn modelled(accesses: &[Access], d1: D1) -> Misses {
    let machine = machines::machine(vec![machines::l1(d1.sets, d1.ways)]);
    let pages = PageMapOptions {
        page_bytes: 4096,
        frames: Frames::Identity,
        host_page_bytes: None,
    };
    let mut model = Model::new(&machine, pages, 0, ModelOptions::default()).unwrap();
    let mut round = || {
        let mut misses = Misses {
            reads: 0,
            writes: 0,
        };
        for &(addr, write, bytes) in accesses {
            let kind = if write { Kind::Store } else { Kind::Load };
            let missed = model.present(addr.0, u64::from(bytes), kind);
            misses.reads += u64::from(missed && !write);
            misses.writes += u64::from(missed && write);
        }
        misses
    };
    // Under LRU, what is in a set after a round depends on that round alone.
    round();
    round();
    round()
}

/// What cachegrind counts; `None`, with a loud line, where it cannot be asked.
pub fn cachegrind(accesses: &[Access], d1: D1) -> Option<Misses> {
    let program = Program::build(accesses)?;
    let few = program.run(3, d1);
    let many = program.run(13, d1);
    let per_round = |few: u64, many: u64| {
        assert_eq!((many - few) % 10, 0, "rounds in the steady state are alike");
        (many - few) / 10
    };
    Some(Misses {
        reads: per_round(few.reads, many.reads),
        writes: per_round(few.writes, many.writes),
    })
}

/// Accesses as a program, in a folder that goes with it.
pub struct Program {
    folder: tempfile::TempDir,
}

impl Program {
    /// Assemble and link it; `None`, with a loud line, where that or cachegrind cannot be had.
    pub fn build(accesses: &[Access]) -> Option<Program> {
        if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
            eprintln!("SKIPPED: the cachegrind comparison writes x86-64 assembly for Linux");
            return None;
        }
        for tool in ["valgrind", "cc"] {
            let answer = Command::new(tool).arg("--version").output();
            if !answer.is_ok_and(|a| a.status.success()) {
                eprintln!(
                    "SKIPPED: the cachegrind comparison needs `{tool}`: `make deps` installs it"
                );
                return None;
            }
        }
        let folder = tempfile::tempdir().expect("a temporary folder");
        let program = Program { folder };
        let source = program.path().with_extension("s");
        std::fs::write(&source, assembly(accesses)).expect("the temporary folder is writable");
        let cc = Command::new("cc")
            .args([
                "-nostdlib",
                "-static",
                "-no-pie",
                "-Wl,--build-id=none",
                "-o",
            ])
            .args([&program.path(), &source])
            .output()
            .expect("cc was there a moment ago");
        let stderr = String::from_utf8_lossy(&cc.stderr);
        assert!(cc.status.success(), "cc: {stderr}");
        Some(program)
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("walk")
    }

    /// `rounds` times all accesses under cachegrind; what the whole program misses.
    pub fn run(&self, rounds: usize, d1: D1) -> Misses {
        run(&self.path(), rounds, d1)
    }
}

/// A program that maps the pages of `accesses` and makes them as often as it has arguments, its
/// own name included.
fn assembly(accesses: &[Access]) -> String {
    let pages: BTreeSet<u64> = accesses
        .iter()
        .flat_map(|(addr, _, bytes)| [addr.0 >> 12, (addr.0 + u64::from(*bytes) - 1) >> 12])
        .collect();
    let mut text = String::from(
        ".section .note.GNU-stack,\"\",@progbits\n.text\n.globl _start\n_start:\nmovq (%rsp), %r12\n",
    );
    for page in pages {
        // mmap(page, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS, -1, 0)
        write!(
            text,
            "movl $9, %eax\nmovabsq ${}, %rdi\nmovl $4096, %esi\nmovl $3, %edx\nmovl $0x32, %r10d\n\
             movq $-1, %r8\nxorl %r9d, %r9d\nsyscall\ncmpq %rdi, %rax\njne failed\n",
            page << 12
        )
        .unwrap();
    }
    text.push_str("again:\n");
    for (addr, write, bytes) in accesses {
        let (suffix, register) = match bytes {
            1 => ("b", "%cl"),
            2 => ("w", "%cx"),
            4 => ("l", "%ecx"),
            8 => ("q", "%rcx"),
            16 => ("ups", "%xmm1"),
            _ => panic!("{bytes} bytes is no access"),
        };
        // Valgrind drops a load whose value nobody uses: each is added to the one before.
        let access = match (write, bytes) {
            (true, _) => format!("mov{suffix} {register}, (%rax)"),
            (false, 16) => "movups (%rax), %xmm1\npaddq %xmm1, %xmm0".into(),
            (false, _) => format!("add{suffix} (%rax), {register}"),
        };
        writeln!(text, "movabsq ${}, %rax\n{access}", addr.0).unwrap();
    }
    text.push_str("subq $1, %r12\njnz again\nxorl %edi, %edi\nmovl $60, %eax\nsyscall\n");
    text.push_str("failed:\nmovl $1, %edi\nmovl $60, %eax\nsyscall\n");
    text
}

fn run(program: &Path, rounds: usize, d1: D1) -> Misses {
    let out = program.with_extension(format!("{rounds}.out"));
    let valgrind = Command::new("valgrind")
        .args(["--tool=cachegrind", "--cache-sim=yes", "--LL=8388608,16,64"])
        .arg(format!("--D1={},{},64", d1.sets * d1.ways * 64, d1.ways))
        .arg(format!("--cachegrind-out-file={}", out.display()))
        .arg(program)
        .args(vec!["x"; rounds - 1])
        .output()
        .expect("valgrind was there a moment ago");
    let stderr = String::from_utf8_lossy(&valgrind.stderr);
    assert!(valgrind.status.success(), "valgrind: {stderr}");
    let text = std::fs::read_to_string(&out).expect("cachegrind writes its counts");
    let line = |key: &str| {
        let line = text.lines().find_map(|l| l.strip_prefix(key));
        let line = line.unwrap_or_else(|| panic!("{key} is in cachegrind's file"));
        line.split_whitespace().collect::<Vec<_>>()
    };
    let (names, counts) = (line("events:"), line("summary:"));
    let count = |name: &str| -> u64 {
        let column = names.iter().position(|n| *n == name);
        counts[column.expect("cachegrind counts D1 misses")]
            .parse()
            .expect("a count is a number")
    };
    Misses {
        reads: count("D1mr"),
        writes: count("D1mw"),
    }
}
