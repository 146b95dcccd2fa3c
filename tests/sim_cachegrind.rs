//! Whole programs: traced by lackey into our caches, and run under cachegrind, to the last miss.
//!
//! The two tools of valgrind see the same addresses: valgrind places program, heap and stack
//! itself, without randomness, and gives the program the same environment under both. So the same
//! program with the same arguments, environment and folder makes the same references, as far as it
//! does not look at clocks, process numbers or random bytes.
//!
//! cachegrind's rules, which the counts follow here:
//! - An instruction that reads and writes the same place is one read (lackey's `M`).
//! - Its LL is asked for what I1 or D1 missed: instructions and data share it.
//! - A reference that crosses two lines misses once, if either line misses; and if it does, LL is
//!   asked for *both* lines, also for one that D1 has. That is a rule of cachegrind, not of caches:
//!   kwalk asks each level for the lines that the level inside missed. [`Oracle`] does as cachegrind
//!   does, with kwalk's caches; what the rule changes is counted and bounded below.
//! - Data of more than the smallest line is cut to that size.
//!
//! The L1D is compared with kwalk's `Hierarchy` itself; LL, which here has instructions in it, with
//! caches of kwalk put together as cachegrind's are.

#[path = "common/machines.rs"]
mod machines;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use kwalk::machine::{Inclusion, Replacement};
use kwalk::model::cache::Cache;
use kwalk::model::hierarchy::{Hierarchy, Kind as Access};
use kwalk::trace::{Format, Kind, Reference, Source, Trace};

/// One of cachegrind's caches.
#[derive(Clone, Copy, Debug)]
struct Shape {
    sets: u32,
    ways: u32,
}

/// Three caches of one line size. Powers of two, as cachegrind wants sets.
#[derive(Clone, Copy, Debug)]
struct Shapes {
    line_bytes: u32,
    i1: Shape,
    d1: Shape,
    ll: Shape,
}

const fn shape(sets: u32, ways: u32) -> Shape {
    Shape { sets, ways }
}

/// Usual ones; ways that are no power of two and large lines; small ones, so that all levels evict.
const SHAPES: [Shapes; 3] = [
    Shapes {
        line_bytes: 64,
        i1: shape(64, 8),
        d1: shape(64, 8),
        ll: shape(1024, 16),
    },
    Shapes {
        line_bytes: 128,
        i1: shape(32, 12),
        d1: shape(32, 12),
        ll: shape(256, 5),
    },
    Shapes {
        line_bytes: 64,
        i1: shape(16, 2),
        d1: shape(8, 3),
        ll: shape(64, 4),
    },
];

fn table(level: u8, shape: Shape, line_bytes: u32) -> kwalk::machine::Cache {
    let (lru, inclusion) = (Replacement::Lru, Inclusion::NonInclusive);
    let mut table = machines::cache(level, shape.sets, shape.ways, lru, inclusion);
    table.line_bytes = line_bytes;
    table
}

/// What both count; instructions only here, to see that the traces are the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    instructions: u64,
    i1_misses: u64,
    ll_instruction_misses: u64,
    reads: u64,
    d1_read_misses: u64,
    ll_read_misses: u64,
    writes: u64,
    d1_write_misses: u64,
    ll_write_misses: u64,
}

/// cachegrind's three caches made of kwalk's, and kwalk's L1D beside them.
struct Oracle {
    shapes: Shapes,
    i1: Cache,
    d1: Cache,
    ll: Cache,
    counts: Counts,
    hierarchy: Hierarchy,
    /// Misses of `hierarchy`'s L1D, once per reference: reads and writes.
    once: [u64; 2],
    /// References that cross lines and of which D1 misses both lines, and one line.
    both_missed: u64,
    one_missed: u64,
}

/// Whether one of the lines from `first` to `last` is not there; afterwards all are.
fn misses(cache: &mut Cache, first: u64, last: u64) -> u64 {
    let mut misses = 0;
    for line in first..=last {
        if cache.lookup(line, false).is_none() {
            cache.fill(line, false);
            misses += 1;
        }
    }
    misses
}

impl Oracle {
    fn new(shapes: Shapes) -> Oracle {
        let of = |level, shape| table(level, shape, shapes.line_bytes);
        let cache = |level, shape| Cache::new(&of(level, shape), 0).expect("a cache");
        let (d1, ll) = (of(1, shapes.d1), of(2, shapes.ll));
        Oracle {
            shapes,
            i1: cache(1, shapes.i1),
            d1: cache(1, shapes.d1),
            ll: cache(2, shapes.ll),
            counts: Counts::default(),
            hierarchy: Hierarchy::new(&[d1, ll], &[1], 0).expect("two levels"),
            once: [0; 2],
            both_missed: 0,
            one_missed: 0,
        }
    }

    fn show(&mut self, mut reference: Reference) {
        reference.bytes = reference.bytes.min(self.shapes.line_bytes);
        let lines = reference.lines(self.shapes.line_bytes.trailing_zeros());
        let (first, last) = (*lines.start(), *lines.end());
        let counts = &mut self.counts;
        let fetch = reference.kind == Kind::Fetch;
        let inner = if fetch { &mut self.i1 } else { &mut self.d1 };
        let missed = misses(inner, first, last);
        let ll_missed = missed > 0 && misses(&mut self.ll, first, last) > 0;
        let (all, inner_misses, ll_misses) = match reference.kind {
            Kind::Fetch => (
                &mut counts.instructions,
                &mut counts.i1_misses,
                &mut counts.ll_instruction_misses,
            ),
            Kind::Load | Kind::Modify => (
                &mut counts.reads,
                &mut counts.d1_read_misses,
                &mut counts.ll_read_misses,
            ),
            Kind::Store => (
                &mut counts.writes,
                &mut counts.d1_write_misses,
                &mut counts.ll_write_misses,
            ),
        };
        *all += 1;
        *inner_misses += u64::from(missed > 0);
        *ll_misses += u64::from(ll_missed);
        if fetch {
            return;
        }
        let store = reference.kind == Kind::Store;
        let access = if store { Access::Store } else { Access::Load };
        let mut any = false;
        for line in lines {
            any |= self.hierarchy.access(line, access).level() > 0;
        }
        self.once[usize::from(store)] += u64::from(any);
        if first != last {
            self.both_missed += u64::from(missed == 2);
            self.one_missed += u64::from(missed == 1);
        }
    }
}

/// A program with its arguments, in a folder of its own.
struct Program {
    path: &'static str,
    arguments: &'static [&'static str],
    /// How many of [`SHAPES`] it is compared in: time is short, and Python long.
    shapes: usize,
}

/// What the distributions have.
const SMALL: [Program; 6] = [
    Program {
        path: "/bin/ls",
        arguments: &["-a"],
        shapes: 3,
    },
    Program {
        path: "/usr/bin/sort",
        arguments: &["words"],
        shapes: 3,
    },
    Program {
        path: "/bin/gzip",
        arguments: &["-c", "words"],
        shapes: 3,
    },
    Program {
        path: "/usr/bin/git",
        arguments: &["--version"],
        shapes: 3,
    },
    Program {
        path: "/usr/bin/awk",
        arguments: &[
            "{ n[$1 % 7]++ } END { for (i in n) print i, n[i] }",
            "words",
        ],
        shapes: 3,
    },
    Program {
        path: "/bin/sed",
        arguments: &["s/1/one/g", "words"],
        shapes: 3,
    },
];

/// Its objects lie where its hash seed says, which is fixed below.
const PYTHON: Program = Program {
    path: "/usr/bin/python3",
    arguments: &["-S", "-c", "print(1)"],
    shapes: 1,
};

impl Program {
    /// Valgrind's tool `tool` on it; nothing that differs from run to run may reach the program.
    fn under(&self, tool: &str, folder: &Path) -> Command {
        // The log goes to descriptor 9, which is the pipe; the program's own output to nowhere.
        let mut command = Command::new("sh");
        command
            .args(["-c", "exec \"$@\" 9>&1 >/dev/null 2>&1 </dev/null", "sh"])
            .args(["valgrind", &format!("--tool={tool}"), "--vgdb=no"])
            .env_clear()
            .envs([
                ("PATH", "/usr/bin:/bin"),
                ("LC_ALL", "C"),
                ("HOME", "/"),
                ("PYTHONHASHSEED", "0"),
            ])
            .current_dir(folder)
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit());
        command
    }

    /// Its references, shown to all of `oracles`.
    fn trace(&self, folder: &Path, oracles: &mut [Oracle]) {
        let mut child = self
            .under("lackey", folder)
            .args(["--trace-mem=yes", "--log-fd=9", self.path])
            .args(self.arguments)
            .spawn()
            .expect("valgrind was there a moment ago");
        let pipe = child.stdout.take().expect("it was piped");
        let source = Source::of(self.path, Box::new(pipe));
        let mut trace = Trace::open(source, Some(Format::Lackey)).expect("a trace");
        let mut block = Vec::new();
        while trace.read_block(&mut block).expect("a whole trace") {
            for oracle in &mut *oracles {
                block.iter().for_each(|reference| oracle.show(*reference));
            }
        }
        assert!(child.wait().expect("it ends").success(), "{}", self.path);
    }

    fn cachegrind(&self, folder: &Path, shapes: Shapes) -> Counts {
        let out = tempfile::NamedTempFile::new().expect("a temporary file");
        let line = shapes.line_bytes;
        let option =
            |name: &str, s: Shape| format!("--{name}={},{},{line}", s.sets * s.ways * line, s.ways);
        let output = self
            .under("cachegrind", folder)
            .args(["--cache-sim=yes", "--log-fd=9"])
            .arg(format!("--cachegrind-out-file={}", out.path().display()))
            .args([
                option("I1", shapes.i1),
                option("D1", shapes.d1),
                option("LL", shapes.ll),
            ])
            .arg(self.path)
            .args(self.arguments)
            .output()
            .expect("valgrind was there a moment ago");
        let log = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{}: {log}", self.path);
        let text = fs::read_to_string(out.path()).expect("cachegrind writes its counts");
        let words = |key: &str| -> Vec<String> {
            let line = text.lines().find_map(|l| l.strip_prefix(key));
            let line = line.unwrap_or_else(|| panic!("{key} is in cachegrind's file"));
            line.split_whitespace().map(str::to_string).collect()
        };
        let (names, counts) = (words("events:"), words("summary:"));
        let count = |name: &str| -> u64 {
            let column = names.iter().position(|n| n == name);
            let column = column.unwrap_or_else(|| panic!("cachegrind counts {name}"));
            counts[column].parse().expect("a count is a number")
        };
        Counts {
            instructions: count("Ir"),
            i1_misses: count("I1mr"),
            ll_instruction_misses: count("ILmr"),
            reads: count("Dr"),
            d1_read_misses: count("D1mr"),
            ll_read_misses: count("DLmr"),
            writes: count("Dw"),
            d1_write_misses: count("D1mw"),
            ll_write_misses: count("DLmw"),
        }
    }
}

/// A folder with a file of words, the same each time.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let words: String = (0..200_u32)
        .map(|i| format!("{}\n", i * 7919 % 1009))
        .collect();
    fs::write(folder.path().join("words"), words).expect("the folder is writable");
    folder
}

fn valgrind_is_there() -> bool {
    let valgrind = Command::new("valgrind").arg("--version").output();
    let there = valgrind.is_ok_and(|v| v.status.success());
    if !there {
        eprintln!("SKIPPED: whole programs need `valgrind`: `make deps` installs it");
    }
    there
}

/// What does not depend on caches: whether both tools saw the same run.
fn references(counts: Counts) -> [u64; 3] {
    [counts.instructions, counts.reads, counts.writes]
}

/// Compare one program; `false`, loudly, where it is not there.
fn compare(program: &Program) -> bool {
    if !Path::new(program.path).exists() {
        eprintln!("SKIPPED: {} is not there", program.path);
        return false;
    }
    let folder = folder();
    // A program may take another course in another run (clocks, process numbers): then there is
    // nothing to compare, and it runs again. A difference in misses alone is never forgiven.
    for _ in 0..3 {
        let shapes = SHAPES.iter().take(program.shapes);
        let mut oracles: Vec<Oracle> = shapes.map(|shapes| Oracle::new(*shapes)).collect();
        program.trace(folder.path(), &mut oracles);
        let counted: Vec<Counts> = oracles
            .iter()
            .map(|oracle| program.cachegrind(folder.path(), oracle.shapes))
            .collect();
        let same =
            |(oracle, theirs): (&Oracle, &Counts)| references(oracle.counts) == references(*theirs);
        if oracles.iter().zip(&counted).all(same) {
            for (oracle, theirs) in oracles.iter().zip(counted) {
                check(program, oracle, theirs);
            }
            return true;
        }
        eprintln!(
            "{}: two runs differ in their references; again",
            program.path
        );
    }
    panic!("{}: no two runs with the same references", program.path);
}

fn check(program: &Program, oracle: &Oracle, theirs: Counts) {
    let what = format!("{}, {:?}", program.path, oracle.shapes);
    let ours = oracle.counts;
    assert_eq!(ours, theirs, "{what}: kwalk's caches, then cachegrind");
    // The L1D of a hierarchy, if a crossing reference is counted once.
    let once = [theirs.d1_read_misses, theirs.d1_write_misses];
    assert_eq!(oracle.once, once, "{what}: L1D of the hierarchy");
    // By lines, it misses once more for each crossing of which both lines miss.
    let by_line = oracle.hierarchy.stats()[0].demand_misses();
    let d1 = theirs.d1_read_misses + theirs.d1_write_misses;
    assert_eq!(by_line, d1 + oracle.both_missed, "{what}: L1D by lines");
    eprintln!(
        "{}: {} data references, D1 {d1}, LL data {} misses; crossings: {} miss both lines, {} one",
        program.path,
        ours.reads + ours.writes,
        ours.ll_read_misses + ours.ll_write_misses,
        oracle.both_missed,
        oracle.one_missed
    );
}

#[test]
fn programs_miss_what_cachegrind_counts() {
    if valgrind_is_there() {
        let compared = SMALL.iter().filter(|program| compare(program)).count();
        assert!(compared >= 4, "{compared} programs compared");
    }
}

/// Apart from the others, so that they run side by side.
#[test]
fn python_misses_what_cachegrind_counts() {
    if valgrind_is_there() {
        compare(&PYTHON);
    }
}
