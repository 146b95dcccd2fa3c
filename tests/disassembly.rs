//! What the compiler made of the native kernels: one instruction per access, and as much work beside
//! them as the model's window is told.
//!
//! Looks at the release binary, since that is what measures: debug builds say so and do nothing.

use std::path::Path;
use std::process::Command;

use kernels::native::Native;
use kernels::psi::{
    BARE_VISIT_WORK, FIELDS, IMUL_EVERY, Placement, PsiTree, TreeShape, VISIT_WORK, Variant, Walks,
    bare_walks, bare_walks_native, task_changes, task_changes_native,
};
use kernels::recorder::{Kind, Recorded, Recorder};
use kwalk::native::mapping::{self, Pages};

/// A binary that holds the native kernels, or why it is not looked at.
fn release_binary() -> Result<&'static Path, String> {
    if cfg!(debug_assertions) {
        return Err(
            "the native kernels are looked at in release builds (cargo test --release)".into(),
        );
    }
    if !cfg!(target_arch = "x86_64") {
        return Err("instructions are told apart for x86-64 only".into());
    }
    Ok(Path::new(env!("CARGO_BIN_EXE_kwalk")))
}

/// One instruction: address, mnemonic, operands.
#[derive(Clone, Debug)]
struct Instruction {
    address: u64,
    mnemonic: String,
    operands: String,
}

impl Instruction {
    fn touches_memory(&self) -> bool {
        self.operands.contains('(')
            && !matches!(self.mnemonic.as_str(), "lea" | "nop" | "nopw" | "nopl")
    }

    fn on_stack(&self) -> bool {
        self.operands.contains("%rsp")
    }

    /// Loads and stores the same place.
    fn modifies_memory(&self) -> bool {
        let place_last = self.operands.trim_end().ends_with(')');
        place_last
            && ["inc", "dec", "add", "sub", "and", "or", "xor"]
                .iter()
                .any(|m| {
                    self.mnemonic
                        .strip_prefix(m)
                        .is_some_and(|rest| rest.len() <= 1)
                })
    }

    fn target(&self) -> Option<u64> {
        let jump = self.mnemonic.starts_with('j') && !self.operands.contains('*');
        let word = self.operands.split_whitespace().next()?;
        jump.then(|| u64::from_str_radix(word, 16).ok()).flatten()
    }
}

/// The instructions of the symbol whose name contains `name`.
fn disassembled(binary: &Path, name: &str) -> Result<Vec<Instruction>, String> {
    let out = Command::new("objdump")
        .args(["-d", "--no-show-raw-insn", "-C"])
        .arg(binary)
        .output()
        .map_err(|e| format!("objdump (binutils) cannot be run: {e}"))?;
    let text = String::from_utf8_lossy(&out.stdout);
    let head = format!("{name}>:");
    let body = text
        .split("\n\n")
        .find(|part| part.lines().any(|l| l.ends_with(&head)));
    let body = body.unwrap_or_else(|| panic!("{name} is a symbol of its own"));
    Ok(body
        .lines()
        .filter_map(|line| {
            let (address, rest) = line.trim().split_once(":\t")?;
            let rest = rest.split('#').next()?.split('<').next()?.trim();
            let (mnemonic, operands) = rest.split_once(' ').unwrap_or((rest, ""));
            Some(Instruction {
                address: u64::from_str_radix(address, 16).ok()?,
                mnemonic: mnemonic.to_string(),
                operands: operands.trim().to_string(),
            })
        })
        .collect())
}

/// Loops without a loop in them: the instructions from the target of a backward jump to the jump.
fn innermost_loops(code: &[Instruction]) -> Vec<&[Instruction]> {
    let at = |address: u64| code.iter().position(|i| i.address == address);
    let mut spans: Vec<(usize, usize)> = code
        .iter()
        .enumerate()
        .filter_map(|(end, jump)| Some((at(jump.target()?)?, end)))
        .filter(|(start, end)| start <= end)
        .collect();
    let all = spans.clone();
    spans.retain(|a| !all.iter().any(|b| b != a && a.0 <= b.0 && b.1 <= a.1));
    spans
        .into_iter()
        .map(|(start, end)| &code[start..=end])
        .collect()
}

fn tree(variant: Variant, depth: u32) -> PsiTree {
    let layout = kwalk::layouts::find("6.18.2-ubuntu-x86-64").expect("a built-in layout");
    let shape = TreeShape {
        depth,
        cpus: 2,
        variant,
        placement: Placement::Slab,
        seed: 1,
    };
    PsiTree::new(layout, &shape).expect("a tree")
}

/// Accesses of `walks` walks of the replica.
fn recorded(t: &PsiTree, variant: Variant, walks: u64, bare: bool) -> Vec<Recorded> {
    let mut arena = t.arena.clone();
    let mut mem = Recorder::new(&mut arena);
    let w = Walks {
        variant,
        offsets: &t.offsets,
        globals: &t.globals,
        zero: 0,
    };
    if bare {
        bare_walks(&mut mem, &w, walks);
    } else {
        task_changes(&mut mem, &w, walks, &mut 0);
    }
    mem.accesses
}

/// Accesses as instructions, at least: a load and a store of one place may be one.
fn fewest_instructions(accesses: &[Recorded]) -> usize {
    let merged = accesses
        .windows(2)
        .filter(|w| w[0].kind == Kind::Load && w[1].kind == Kind::Store && w[0].addr == w[1].addr)
        .count();
    accesses.len() - merged
}

/// The bare walk of a `parent` variant, whose steps are the shortest: its loop holds exactly the
/// accesses of one visit and one step, each one instruction, none on the stack, no call, no panic.
#[test]
fn a_bare_visit_is_one_instruction_per_access() {
    let code = match release_binary().and_then(|b| disassembled(b, "bare_walks_native")) {
        Ok(code) => code,
        Err(why) => return eprintln!("SKIPPED: {why}"),
    };
    let (deep, flat) = (tree(Variant::Parent, 9), tree(Variant::Parent, 8));
    let of = |t: &PsiTree| recorded(t, Variant::Parent, 1, true);
    let (deeper, less) = (of(&deep), of(&flat));
    let accesses = deeper.len() - less.len();
    let instructions = fewest_instructions(&deeper) - fewest_instructions(&less);
    let counts = |body: &[Instruction]| {
        let memory: Vec<&Instruction> = body.iter().filter(|i| i.touches_memory()).collect();
        let twice = memory.iter().filter(|i| i.modifies_memory()).count();
        (memory.len(), memory.len() + twice)
    };
    let clean: Vec<&[Instruction]> = innermost_loops(&code)
        .into_iter()
        .filter(|body| counts(body) == (instructions, accesses))
        .filter(|body| {
            !body
                .iter()
                .any(|i| i.on_stack() || i.mnemonic.starts_with("call"))
        })
        .collect();
    assert!(
        !clean.is_empty(),
        "no loop makes {accesses} accesses in {instructions} instructions"
    );
    // `psi_group.pcpu` at 48 and `enabled` at 8 are constants of the family: 0x30(…) and 0x8(…).
    let constant = clean.iter().any(|body| {
        body.iter().any(|i| i.operands.starts_with("0x30("))
            && body.iter().any(|i| i.operands.starts_with("0x8("))
    });
    assert!(
        constant,
        "no clean loop has the offsets of the layouts compiled in"
    );
    // `parent-imul` makes the same accesses, and counts its visits: compare, branch, add, jump.
    let every = format!("${:#x},", IMUL_EVERY - 1);
    for body in clean {
        let beside = body.len() - instructions;
        let counts_visits = body
            .iter()
            .any(|i| i.mnemonic == "cmp" && i.operands.starts_with(&every));
        assert!(
            beside <= if counts_visits { 14 } else { 10 },
            "{beside} instructions beside the accesses: {body:#?}"
        );
    }
}

/// Set for the run of this test program that cachegrind watches: kernel, depth, walks.
const WALKED: &str = "KWALK_TEST_WALKED";

/// What cachegrind watches: nothing, unless `work` asked for it.
#[test]
#[allow(unsafe_code)]
fn walked_under_cachegrind() {
    let Ok(asked) = std::env::var(WALKED) else {
        return;
    };
    let words: Vec<&str> = asked.split(' ').collect();
    let number = |i: usize| words[i].parse::<u64>().expect("a number");
    let t = tree(Variant::Parent, number(1) as u32);
    let mapped = mapping::map(&t.arena, Pages::FourK).expect("memory");
    let globals = t.globals.moved(|a| mapped.host(a));
    // SAFETY: the globals and all pointers behind them are those of `mapped`, which lives on.
    let mut mem = unsafe { Native::new() };
    let walks = Walks {
        variant: Variant::Parent,
        offsets: &t.offsets,
        globals: &globals,
        zero: 0,
    };
    let done = match words[0] {
        "bare" => bare_walks_native(&mut mem, &walks, number(2)),
        _ => task_changes_native(&mut mem, &walks, number(2), &mut 0),
    };
    assert_eq!(done.visits, number(2) * (number(1) + 1));
}

/// Counts of one more visit, from cachegrind: instructions, reads and writes. A read-modify-write is
/// one read there.
fn per_visit(experiment: &str) -> Result<[f64; 3], String> {
    let count = |depth: u32, repeats: u32| -> Result<[f64; 3], String> {
        let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
        let out = folder.path().join("cachegrind.out");
        let run = Command::new("valgrind")
            .args(["--tool=cachegrind", "--cache-sim=yes"])
            .arg(format!("--cachegrind-out-file={}", out.display()))
            .arg(std::env::current_exe().map_err(|e| e.to_string())?)
            .args(["--exact", "walked_under_cachegrind"])
            .env(WALKED, format!("{experiment} {depth} {repeats}"))
            .output()
            .map_err(|e| format!("valgrind cannot be run: {e}"))?;
        assert!(
            run.status.success(),
            "{}",
            String::from_utf8_lossy(&run.stderr)
        );
        let text = std::fs::read_to_string(&out).map_err(|e| e.to_string())?;
        let line = |name: &str| {
            let line = text
                .lines()
                .find_map(|l| l.strip_prefix(name))
                .expect("a line of cachegrind");
            line.split_whitespace()
                .map(str::to_string)
                .collect::<Vec<_>>()
        };
        let (events, totals) = (line("events:"), line("summary:"));
        let of = |event: &str| -> f64 {
            let at = events
                .iter()
                .position(|e| e == event)
                .expect("an event of cachegrind");
            totals[at].parse().expect("a number")
        };
        Ok([of("Ir"), of("Dr"), of("Dw")])
    };
    // Rounds and levels twice: what is left of the difference is visits alone.
    let grown = |depth| -> Result<[f64; 3], String> {
        let (few, many) = (count(depth, 100)?, count(depth, 1100)?);
        Ok([0, 1, 2].map(|i| (many[i] - few[i]) / 1000.0))
    };
    let (less, more) = (grown(20)?, grown(40)?);
    Ok([0, 1, 2].map(|i| (more[i] - less[i]) / 20.0))
}

/// The compiled visit makes the replica's accesses and few others (the stack's: registers run out),
/// and as many instructions beside them as `VISIT_WORK` and `BARE_VISIT_WORK` tell the model, give or
/// take a fifth.
#[test]
fn work() {
    if let Err(why) = release_binary() {
        return eprintln!("SKIPPED: {why}");
    }
    for (experiment, bare, declared) in [
        ("bare", true, BARE_VISIT_WORK),
        ("changes", false, VISIT_WORK),
    ] {
        let [instructions, reads, writes] = match per_visit(experiment) {
            Ok(counts) => counts,
            Err(why) => return eprintln!("SKIPPED: {why}"),
        };
        let of = |depth| recorded(&tree(Variant::Parent, depth), Variant::Parent, 2, bare);
        let (more, less) = (of(40), of(20));
        let per_visit =
            |count: fn(&[Recorded]) -> usize| (count(&more) - count(&less)) as f64 / 40.0;
        let (fewest, accesses) = (per_visit(fewest_instructions), per_visit(<[_]>::len));
        let memory = reads + writes;
        assert!(
            memory >= fewest - 0.1 && memory <= 1.2 * accesses,
            "{experiment}: {memory:.2} memory instructions per visit for {accesses:.2} accesses, {fewest:.2} at least"
        );
        let beside = instructions - memory;
        let declared = f64::from(declared);
        assert!(
            (beside - declared).abs() <= (0.2 * declared).max(2.0),
            "{experiment}: {beside:.1} instructions beside memory accesses, declared {declared}"
        );
    }
}

/// Every field of the tables has a name of its own: the disassembly cannot tell, the reader must.
#[test]
fn fields_are_named_once() {
    let mut names = FIELDS.to_vec();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), FIELDS.len());
}
