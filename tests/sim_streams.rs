//! `kwalk sim` on recorded streams, and on several traces, as a user meets it.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Output;

use assert_cmd::Command;

fn kwalk(args: &[&str]) -> Output {
    let mut kwalk = Command::new(env!("CARGO_BIN_EXE_kwalk"));
    kwalk.args(args).output().expect("it runs")
}

fn recorded(name: &str) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data/streams")
        .join(format!("{name}.full-roundtrip.txt.gz"));
    file.to_str().expect("a plain name").to_string()
}

const LRU: [&str; 2] = ["--machine", "textbook-32k-lru"];

fn stdout(output: &Output) -> String {
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout.clone()).expect("text")
}

/// One sentence on one line, nothing on standard output, exit code 2.
fn refused(args: &[&str]) -> String {
    let output = kwalk(args);
    let message = String::from_utf8(output.stderr.clone()).expect("text");
    let errors: Vec<&str> = message
        .lines()
        .filter(|l| !l.starts_with("kwalk: note: "))
        .collect();
    assert_eq!(output.status.code(), Some(2), "{args:?}: {message}");
    assert_eq!(errors.len(), 1, "{args:?}: {message}");
    assert!(
        !message.contains("panicked") && !message.contains('\x1b'),
        "{message}"
    );
    assert!(output.stdout.is_empty(), "{args:?}");
    errors[0].to_string()
}

/// By a naive LRU over the same file (tests/streams.rs): 6 misses inside PSI in 3 walks on x86-64; on
/// arm64 4, and 13 with the patch's reads.
#[test]
fn misses_inside_psi_are_told_per_walk_and_edits_beside_what_they_change() {
    let x86 = recorded("k612x.d5.1cpu");
    let text = stdout(&kwalk(&[
        "sim",
        "--format",
        "linux-stream",
        &x86,
        LRU[0],
        LRU[1],
    ]));
    let words = "L1D misses inside PSI: 2.00 per walk (6 in 3 walks, 12 group visits)";
    assert!(text.contains(words), "{text}");
    let arm = recorded("k612a64.d5.1cpu");
    let dir = tempfile::tempdir().expect("a temporary folder");
    let file = dir.path().join("patch.edits");
    fs::write(
        &file,
        "# the patch\nadd:cgroup.parent@192\n\n  add:cgroup.psi@1224 # its groups\n",
    )
    .expect("written");
    let file = file.to_str().expect("a plain name");
    for edits in [
        vec!["--edit", file],
        vec![
            "--edit",
            "add:cgroup.parent@192",
            "--edit",
            "add:cgroup.psi@1224",
        ],
    ] {
        let args = [&["sim", &arm][..], &LRU, &edits].concat();
        let text = stdout(&kwalk(&args));
        assert!(
            text.contains("4.33 per walk (13 in 3 walks, 18 group visits)"),
            "{text}"
        );
        assert!(
            text.contains("without the edits: 1.33 per walk (4)"),
            "{text}"
        );
    }
    let psi = stdout(&kwalk(&[
        "sim", &arm, LRU[0], LRU[1], "--lines", "psi", "--csv",
    ]));
    assert!(psi.contains(",l1d,,,inside_misses,0\n"), "{psi}");
}

#[test]
fn tables_fit_80_columns() {
    for name in ["k612x.d5.1cpu", "k612a64.d5.2cpu", "k61a64.d5.1cpu"] {
        for machine in ["textbook-32k-lru", "i7-9700"] {
            let file = recorded(name);
            let text = stdout(&kwalk(&["sim", &file, "--machine", machine]));
            // The first lines name the machine and the file, as long as they are.
            for line in text.lines().skip(2) {
                assert!(line.chars().count() <= 80, "{name}, {machine}: {line}");
            }
        }
    }
}

/// CSV: accesses sum up to those of the file (a read-modify-write is one of two lines), misses by
/// field to those of the level.
#[test]
fn csv_adds_up() {
    let file = recorded("k612x.d5.1cpu");
    let text = stdout(&kwalk(&["sim", &file, LRU[0], LRU[1], "--csv"]));
    let mut csv = csv::Reader::from_reader(text.as_bytes());
    let column = |name: &str, headers: &csv::StringRecord| {
        headers.iter().position(|h| h == name).expect("a column")
    };
    let headers = csv.headers().expect("a header").clone();
    let [function, deed, level, metric, value] =
        ["function", "deed", "level", "metric", "value"].map(|name| column(name, &headers));
    let (mut accesses, mut by_field, mut of_level) = (0, 0, 0);
    for row in csv.records() {
        let row = row.expect("a row");
        let count: u64 = row[value].parse().unwrap_or(0);
        match (&row[metric], &row[function], &row[level]) {
            ("accesses", ..) if &row[deed] == "modify" => accesses += 2 * count,
            ("accesses", ..) => accesses += count,
            ("misses", "", "l1d") if &row[1] == "0" => of_level += count,
            ("misses", function, "l1d") if !function.is_empty() => by_field += count,
            _ => {}
        }
    }
    // Lines of the recording that are accesses.
    assert_eq!(accesses, 5939);
    assert_eq!(by_field, of_level);
    assert!(of_level > 0);
}

#[test]
fn what_is_wrong_is_one_sentence() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let write = |name: &str, bytes: &[u8]| {
        let path: PathBuf = dir.path().join(name);
        fs::write(&path, bytes).expect("written");
        path.to_str().expect("a plain name").to_string()
    };
    let whole = fs::read(recorded("k612x.d5.1cpu")).expect("a recording");
    let good =
        "# n cpu psi pc RW size vaddr paddr value label\n1 0 0 f+0x4 R 8 0x1000 0x1000 0x0 -\n";
    let path = good.replace("psi pc", "in pc");
    for (name, bytes, words) in [
        ("cut.gz", &whole[..5000], "gzip breaks off"),
        ("empty.txt", b"", "line 1: the file ends"),
        (
            "header.txt",
            b"# cgroups 0x1\n# x\n",
            "line 2: the file ends",
        ),
        (
            "field.txt",
            &format!("{good}1 0 0 f X 8 0x1 0x1 0x0 -\n").into_bytes(),
            "line 3: \"X\" is neither",
        ),
        (
            "number.txt",
            &format!("{good}1 0 0 f R 8 0x1 0xq 0x0 -\n").into_bytes(),
            "line 3: \"0xq\" is no",
        ),
        (
            "short.txt",
            &format!("{good}1 0 0 f R").into_bytes(),
            "line 3: 5 columns",
        ),
        ("not.gz", b"this is no gzip\n", "line 1: "),
        (
            "binary.gz",
            &[0x1f, 0x8b, 8, 0, 0, 255, 255, 1, 2, 3],
            "line 1: gzip breaks off",
        ),
    ] {
        let file = write(name, bytes);
        let message = refused(&["sim", "--format", "linux-stream", &file, LRU[0], LRU[1]]);
        assert!(
            message.contains(words) && message.contains(name),
            "{name}: {message}"
        );
    }
    let good = write("good.txt", good.as_bytes());
    let path = write("path.txt", path.as_bytes());
    let din = write("t.din", b"0 1000\n");
    let bad = write("bad.edits", b"# none\nadd:cgroup.psi@8\nalgin:G[0]:64\n");
    let none = write("none.edits", b"# none\n");
    let x86 = recorded("k612x.d5.1cpu");
    let stream = ["--format", "linux-stream", LRU[0], LRU[1]];
    for (args, words) in [
        (vec!["no/such"], "no/such"),
        (vec![&good, "--cpu", "1"], "--cpu 1"),
        (vec![&path, "--lines", "psi"], "--lines psi"),
        (vec![&good, "--lines", "psi"], "--lines all"),
        (vec![&x86, "--edit", "add:cgruop.psi@8"], "near: cgroup"),
        (vec![&x86, "--edit", "no/such.edits"], "no/such.edits"),
        (vec![&x86, "--edit", &bad], "bad.edits, line 3"),
        (vec![&x86, "--edit", &none], "holds no edit"),
    ] {
        let args = [&["sim"][..], &args, &stream].concat();
        let message = refused(&args);
        assert!(message.contains(words), "{args:?}: {message}");
    }
    for (args, words) in [
        (
            vec![din.as_str(), LRU[0], LRU[1], "--rounds", "2"],
            "--rounds",
        ),
        (
            vec![&din, LRU[0], LRU[1], "--to", "cachegrind"],
            "--to cachegrind",
        ),
        (vec![&x86, "--to", "cachegrind"], "--machine"),
        (vec![&x86, "--to", "din", LRU[0], LRU[1]], "--to din"),
        (vec![&din, &din, "--to", "din"], "--to din"),
        (vec![&x86, &din, LRU[0], LRU[1]], "t.din"),
        (vec!["-", "-", LRU[0], LRU[1]], "given twice"),
    ] {
        let args = [&["sim"][..], &args].concat();
        let message = refused(&args);
        assert!(message.contains(words), "{args:?}: {message}");
    }
    // More traces than the machine has cores.
    let many = vec![din.as_str(); 9];
    let args = [&["sim"][..], &many, &LRU].concat();
    let message = refused(&args);
    assert!(
        message.contains("9 cores") && message.contains("1 to 8"),
        "{message}"
    );
}

/// Two programs in turns. Stores to one word, and to words side by side of one line: each takes the
/// line from the other, but for the very first, 2 x 100 - 1. Loads of one line by both: nothing goes.
#[test]
fn several_traces_run_on_a_core_each() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let write = |name: &str, record: &str| {
        let path = dir.path().join(name);
        fs::write(&path, record.repeat(100)).expect("written");
        path.to_str().expect("a plain name").to_string()
    };
    let store = write("a.din", "1 1000 8\n");
    let beside = write("b.din", "1 1008 8\n");
    let load = write("c.din", "0 1000 8\n");
    for (traces, words) in [
        ([&store, &store], "199 true"),
        ([&store, &beside], "199 false"),
        ([&load, &load], ": none"),
    ] {
        let text = stdout(&kwalk(&["sim", traces[0], traces[1], LRU[0], LRU[1]]));
        assert!(text.contains(words), "{traces:?}: {text}");
    }
    let text = stdout(&kwalk(&["sim", &store, &load, LRU[0], LRU[1], "--csv"]));
    // The loads take what the stores wrote, each of the 100; the stores, all but the first, take it back.
    assert!(text.contains(",0x1000,transfers,199\n"), "{text}");
    // Recordings: two of one CPU are two cores.
    let x86 = recorded("k612x.d5.1cpu");
    let text = stdout(&kwalk(&["sim", &x86, &x86, LRU[0], LRU[1]]));
    assert!(text.contains("1 (CPU 0 of file 2)"), "{text}");
}

/// A recording converted to din makes the same cold misses as itself.
#[test]
fn a_recording_is_a_trace_as_well() {
    let x86 = recorded("k612x.d5.1cpu");
    let din = stdout(&kwalk(&["sim", &x86, "--to", "din"]));
    let mut file = tempfile::Builder::new()
        .suffix(".din")
        .tempfile()
        .expect("a file");
    file.write_all(din.as_bytes()).expect("written");
    let file = file.path().to_str().expect("a plain name");
    let args = ["sim", file, LRU[0], LRU[1], "--identity", "--csv"];
    let of_din = stdout(&kwalk(&args));
    let args = ["sim", &x86, LRU[0], LRU[1], "--rounds", "1", "--csv"];
    let of_stream = stdout(&kwalk(&args));
    let count = |text: &str, begin: &str| {
        let line = text
            .lines()
            .find(|l| l.starts_with(begin))
            .expect(begin)
            .to_string();
        line.rsplit(',').next().expect("a value").to_string()
    };
    let misses = count(&of_din, "textbook-32k-lru,l1d,misses,");
    let begin = "textbook-32k-lru,0,,,,,,,l1d,,,misses,";
    assert_eq!(misses, count(&of_stream, begin));
    assert!(stdout(&kwalk(&["mrc", &x86])).contains("requests"));
}

/// `cg_annotate` reads it, and its totals are ours: 3397 + 193 reads... counted from the file: loads and
/// read-modify-writes are reads.
#[test]
fn cachegrind_files_are_read_by_cg_annotate() {
    let x86 = recorded("k612x.d5.1cpu");
    let out = stdout(&kwalk(&["sim", &x86, LRU[0], LRU[1], "--to", "cachegrind"]));
    let summary = out.lines().last().expect("a summary").to_string();
    let counts: Vec<u64> = summary
        .strip_prefix("summary: ")
        .expect("a summary")
        .split(' ')
        .map(|n| n.parse().expect("a number"))
        .collect();
    let mut sums = [0; 6];
    for line in out
        .lines()
        .filter(|l| l.starts_with(|c: char| c.is_ascii_digit()))
    {
        let numbers = line.split(' ').skip(1);
        for (sum, number) in sums.iter_mut().zip(numbers) {
            *sum += number.parse::<u64>().expect("a number");
        }
    }
    assert_eq!(counts, sums);
    assert!(out.contains("\nfl=psi_group\nfn="), "structs are files");
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(out.as_bytes()).expect("written");
    let annotated = match std::process::Command::new("cg_annotate")
        .arg(file.path())
        .output()
    {
        Ok(annotated) => annotated,
        Err(error) => {
            eprintln!("NOT TESTED: cg_annotate cannot be run ({error}); valgrind has it");
            return;
        }
    };
    let text = String::from_utf8_lossy(&annotated.stdout);
    assert!(annotated.status.success(), "{text}");
    let totals = text
        .lines()
        .find(|l| l.contains("PROGRAM TOTALS"))
        .expect("totals");
    let totals: Vec<u64> = totals
        .replace(',', "")
        .split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect();
    assert_eq!(totals, counts);
    assert!(text.contains("psi_group_cpu:record_times"), "{text}");
}
