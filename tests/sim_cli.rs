//! `kwalk sim` and `kwalk mrc` as a user meets them: every bad trace of the corpus is one sentence
//! and exit code 2; good ones give counts that theory gives.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use assert_cmd::Command;
use kwalk::trace::{Format, Source, Trace, TraceError};

fn kwalk() -> Command {
    Command::new(env!("CARGO_BIN_EXE_kwalk"))
}

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus/trace")
}

/// A line of expected.csv.
struct Bad {
    file: String,
    format: Option<&'static str>,
    kind: String,
    words: String,
}

/// Every file of the corpus, with what is expected of it.
fn bad_traces() -> Vec<Bad> {
    let mut csv = csv::Reader::from_path(corpus().join("expected.csv")).expect("it is there");
    let mut all = Vec::new();
    for row in csv.records() {
        let row = row.expect("a row");
        let format = match &row[1] {
            "" => None,
            "lackey" => Some("lackey"),
            "raw-u64" => Some("raw-u64"),
            other => panic!("format {other}"),
        };
        all.push(Bad {
            file: row[0].to_string(),
            format,
            kind: row[2].to_string(),
            words: row[3].to_string(),
        });
    }
    let files = fs::read_dir(corpus()).expect("a folder").count();
    assert_eq!(files, all.len() + 1, "every file is expected");
    all
}

fn one_sentence(what: &str, output: &Output) -> String {
    let message = String::from_utf8(output.stderr.clone()).expect("text");
    let (notes, errors): (Vec<&str>, Vec<&str>) = message
        .lines()
        .partition(|l| l.starts_with("kwalk: note: "));
    assert!(notes.len() <= 3, "{what}: {message}");
    assert_eq!(errors.len(), 1, "{what}: {message}");
    assert!(errors[0].starts_with("kwalk: "), "{what}: {message}");
    assert!(!message.contains('\x1b'), "{what}: {message}");
    assert_eq!(output.status.code(), Some(2), "{what}: {message}");
    assert!(output.stdout.is_empty(), "{what}");
    errors[0].to_string()
}

#[test]
fn bad_traces_are_one_sentence() {
    for bad in bad_traces() {
        let file = corpus().join(&bad.file);
        let file = file.to_str().expect("a plain name");
        let format = bad.format.map(|format| ["--format", format]);
        for command in [&["mrc"][..], &["sim", "--machine", "textbook-32k-lru"]] {
            let mut kwalk = kwalk();
            kwalk
                .args(command)
                .arg(file)
                .args(format.into_iter().flatten());
            let output = kwalk.output().expect("it runs");
            let message = one_sentence(&bad.file, &output);
            assert!(message.contains(&bad.words), "{}: {message}", bad.file);
            assert!(message.contains(&bad.file), "{}: {message}", bad.file);
        }
    }
}

/// The readers say the same as the command, by kind.
#[test]
fn bad_traces_have_their_kind() {
    for bad in bad_traces().iter().filter(|bad| bad.kind != "no-data") {
        let file = corpus().join(&bad.file);
        let format = bad.format.map(|format| match format {
            "lackey" => Format::Lackey,
            _ => Format::RawU64,
        });
        let read = || -> Result<(), TraceError> {
            let mut trace = Trace::open(Source::named(file.to_str().expect("plain")), format)?;
            let mut block = Vec::new();
            while trace.read_block(&mut block)? {}
            Ok(())
        };
        let error = read().expect_err(&bad.file);
        assert_eq!(error.kind(), bad.kind, "{}: {error}", bad.file);
    }
}

#[test]
fn wrong_options_are_one_sentence() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let trace = dir.path().join("t.din");
    fs::write(&trace, "0 1000\n").expect("written");
    let trace = trace.to_str().expect("a plain name");
    for (args, words) in [
        (&["mrc", "no/such"][..], "no/such"),
        (&["mrc", trace, "--line", "48"], "--line 48"),
        (&["mrc", trace, "--line", "0"], "--line 0"),
        (&["mrc", trace, "--sets", "0"], "--sets 0"),
        (&["mrc", trace, "--sets", "1048577"], "--sets 1048577"),
        (
            &["mrc", trace, "--svg", "no/such/folder.svg"],
            "no/such/folder.svg",
        ),
        (&["sim", trace, "--machine", "i7"], "i7-9700"),
        (&["sim", "no/such", "--machine", "i7-9700"], "no/such"),
        (
            &["sim", trace, "--machine", "i7-9700", "--page-bytes", "3"],
            "page",
        ),
    ] {
        let output = kwalk().args(args).output().expect("it runs");
        let message = one_sentence(&format!("{args:?}"), &output);
        assert!(message.contains(words), "{args:?}: {message}");
    }
}

/// 10 sweeps over 600 lines. The L1D of textbook-32k-lru has 64 sets of 8 ways: 24 of the sets get
/// 10 lines (600 = 9 * 64 + 24) and 40 get 9; all are more than 8, so all of 6000 requests miss: 600
/// are compulsory, and the others are capacity misses, since 600 lines are more than its 512.
fn sweeps() -> String {
    let lines = (0..6000_u64).map(|i| format!("0 {:x} 8\n", i % 600 * 64));
    lines.collect()
}

#[test]
fn sim_counts_what_theory_says() {
    let output = kwalk()
        .args([
            "sim",
            "-",
            "--machine",
            "textbook-32k-lru",
            "--csv",
            "--identity",
        ])
        .write_stdin(sweeps())
        .output()
        .expect("it runs");
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(text.starts_with("machine,level,metric,value\n"), "{text}");
    for row in [
        "trace,loads,6000",
        "l1d,loads,6000",
        "l1d,stores,0",
        "l1d,misses,6000",
        "l1d,hits,0",
        "l1d,miss_ratio,1.000000",
        "l1d,compulsory_misses,600",
        "l1d,capacity_misses,5400",
        "l1d,conflict_misses,0",
        "l2,misses,600",
    ] {
        let row = format!("\ntextbook-32k-lru,{row}\n");
        assert!(text.contains(&row), "{row} in {text}");
    }
}

/// What crosses a line counts in both, a modify is a load and a store, a fetch is left out, and
/// 256 bytes from the middle of a line on touch 5 lines.
#[test]
fn sim_counts_lines() {
    let text = "==1== x\nI  400000,3\n L 103e,4\n M 2000,8\n S 301c,256\n";
    let output = kwalk()
        .args(["sim", "-", "--machine", "textbook-32k-lru", "--csv"])
        .write_stdin(text)
        .output()
        .expect("it runs");
    let notes = String::from_utf8(output.stderr).expect("text");
    assert!(
        notes.contains("1 of 4 references fetch instructions"),
        "{notes}"
    );
    let text = String::from_utf8(output.stdout).expect("text");
    for row in [
        "trace,modifies,1",
        "trace,fetches_left_out,1",
        "l1d,loads,3",
        "l1d,stores,6",
        "l1d,load_misses,3",
        "l1d,store_misses,5",
    ] {
        assert!(text.contains(&format!(",{row}\n")), "{row} in {text}");
    }
}

/// The last addresses of all are addresses.
#[test]
fn the_end_of_memory_is_memory() {
    let bytes: Vec<u8> = [u64::MAX, u64::MAX - 63, u64::MAX - 64, 0]
        .into_iter()
        .flat_map(u64::to_le_bytes)
        .collect();
    for machine in [
        "textbook-32k-lru",
        "i7-9700",
        "ryzen-5900hx",
        "sapphire-rapids",
    ] {
        for identity in [None, Some("--identity")] {
            let output = kwalk()
                .args([
                    "sim",
                    "-",
                    "--format",
                    "raw-u64",
                    "--csv",
                    "--machine",
                    machine,
                ])
                .args(identity)
                .write_stdin(bytes.clone())
                .output()
                .expect("it runs");
            let text = String::from_utf8(output.stdout).expect("text");
            assert!(text.contains("l1d,misses,3\n"), "{machine}: {text}");
        }
    }
    let output = kwalk()
        .args(["mrc", "-", "--format", "raw-u64", "--csv", "--line", "1"])
        .write_stdin(bytes)
        .output()
        .expect("it runs");
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(text.contains("\n1,1,0,0,4,4,1\n"), "{text}");
}

/// 600 lines swept 10 times: all 6000 requests miss below 600 lines, and 600 do from there on.
#[test]
fn mrc_in_all_its_forms() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let svg = dir.path().join("curve.svg");
    let run = |args: &[&str]| {
        let output = kwalk()
            .args(args)
            .write_stdin(sweeps())
            .output()
            .expect("it runs");
        assert!(output.status.success(), "{args:?}");
        String::from_utf8(output.stdout).expect("text")
    };
    let csv = run(&["mrc", "-", "--csv", "--sets", "600"]);
    let expected = "line_bytes,sets,ways,size_bytes,misses,compulsory_misses,miss_ratio\n\
                    64,1,0,0,6000,600,1\n64,1,600,38400,600,600,0.1\n\
                    64,600,0,0,6000,600,1\n64,600,1,38400,600,600,0.1\n";
    assert_eq!(csv, expected);
    let svg_name = svg.to_str().expect("a plain name");
    let text = run(&["mrc", "-", "--sets", "12", "--svg", svg_name]);
    assert!(
        text.lines().all(|line| line.chars().count() <= 80),
        "{text}"
    );
    let knee = text.lines().find(|l| l.ends_with("knee")).expect("a knee");
    let cells: Vec<&str> = knee.split_whitespace().collect();
    assert_eq!(
        cells,
        ["37.5", "KiB", "600", "600", "0.100000", "0", "knee"]
    );
    let svg = fs::read_to_string(svg).expect("it was drawn");
    assert!(svg.starts_with("<svg ") && svg.contains("12 sets"), "{svg}");
}

#[test]
fn sim_writes_din() {
    let output = kwalk()
        .args(["sim", "-", "--to", "din"])
        .write_stdin("I  400000,3\n L 103e,4\n M 2000,16\n")
        .output()
        .expect("it runs");
    assert!(output.status.success());
    assert_eq!(
        output.stdout,
        b"2 400000 3\n0 103e 4\n0 2000 10\n1 2000 10\n"
    );
}

#[test]
fn sim_tables_fit_a_terminal() {
    for machine in ["i7-9700", "ryzen-5900hx", "neoverse-n1"] {
        let output = kwalk()
            .args(["sim", "-", "--machine", machine])
            .write_stdin(sweeps())
            .output()
            .expect("it runs");
        let text = String::from_utf8(output.stdout).expect("text");
        for word in [
            "l1d",
            "miss ratio",
            "conflict misses",
            "writebacks",
            "dtlb misses",
        ] {
            assert!(text.contains(word), "{word} in {text}");
        }
        assert!(
            text.lines().all(|line| line.chars().count() <= 80),
            "{text}"
        );
    }
}
