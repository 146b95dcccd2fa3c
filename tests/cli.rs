//! The command as a user meets it: output, exit codes, and one sentence for each wrong input.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::Stdio;

use assert_cmd::Command;
use kwalk::experiment::BUILT_IN;
use predicates::str::contains;

/// `kwalk` in a folder of its own, so that whatever it leaves is seen.
fn kwalk(dir: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kwalk"));
    command.current_dir(dir);
    command
}

fn is_empty(dir: &Path) -> bool {
    fs::read_dir(dir)
        .expect("the folder is there")
        .next()
        .is_none()
}

#[test]
fn list_names_every_experiment_with_its_question() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let output = kwalk(dir.path()).arg("list").assert().success();
    let text = String::from_utf8(output.get_output().stdout.clone()).expect("text");
    assert_eq!(text.lines().count(), BUILT_IN.len());
    for (line, built_in) in text.lines().zip(BUILT_IN) {
        assert!(
            line.starts_with(built_in.name) && line.ends_with('?'),
            "{line}"
        );
    }
}

#[test]
fn version_names_the_revision() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    kwalk(dir.path())
        .arg("--version")
        .assert()
        .success()
        .stdout(contains(env!("CARGO_PKG_VERSION")).and_contains(kwalk::record::revision()));
}

/// Both words in one line.
trait AndContains {
    fn and_contains(self, word: &str) -> predicates::BoxPredicate<str>;
}

impl AndContains for predicates::str::ContainsPredicate {
    fn and_contains(self, word: &str) -> predicates::BoxPredicate<str> {
        use predicates::prelude::*;
        predicates::BoxPredicate::new(self.and(contains(word)))
    }
}

#[test]
fn completions_are_written_for_every_shell() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        kwalk(dir.path())
            .args(["completions", shell])
            .assert()
            .success()
            .stdout(contains("kwalk"));
    }
}

/// Each wrong input: exit code 2, one line on standard error that holds these words, nothing on
/// standard output and nothing left in the folder.
#[test]
fn wrong_input_is_one_sentence_and_leaves_nothing() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    for (args, words) in [
        (
            &["run", "psi-dept"][..],
            &["psi-dept", "psi-walk, psi-depth", "did you mean psi-depth?"][..],
        ),
        (&["check", "nothing"], &["nothing", "psi-inner"]),
        (&["run", "missing.toml"], &["missing.toml", "kwalk list"]),
        (&["run", "."], &[".", "kwalk list"]),
        (
            &["run", "psi-depth", "--set", "depth=-1"],
            &["--set", "depth = -1", "0 to 1000"],
        ),
        (
            &["run", "psi-depth", "--set", "depth=1000000"],
            &["depth = 1000000", "0 to 1000"],
        ),
        (
            &["run", "psi-depth", "--set", "depth=ten"],
            &["depth = ten", "0 to 1000"],
        ),
        (
            &["run", "psi-depth", "--set", "depth=5,,8"],
            &["depth = \"\"", "0 to 1000"],
        ),
        (
            &["run", "psi-depth", "--set", "dpeth=5"],
            &["dpeth", "did you mean depth?"],
        ),
        (
            &["run", "psi-depth", "--set", "cpus=2"],
            &["cpus", "seeds, depth"],
        ),
        (
            &["run", "psi-depth", "--set", "depth"],
            &["--set", "key=value"],
        ),
        (
            &["run", "psi-depth", "--set", "variant=cgruop"],
            &["variant = cgruop", "did you mean cgroup?"],
        ),
        (
            &["run", "psi-depth", "--set", "start=polluted:x"],
            &["polluted:x", "polluted:KiB"],
        ),
        (
            &["run", "psi-depth", "--set", "placement=heap"],
            &["placement = heap", "coloured"],
        ),
        (
            &["run", "psi-depth", "--set", "placement=stream:no"],
            &["stream:no", "exists"],
        ),
        (
            &["run", "psi-depth", "--set", "pages=1g"],
            &["pages = 1g", "hugetlb-2m"],
        ),
        (
            &["run", "psi-depth", "--set", "lines=all"],
            &["lines = all", "walk, psi"],
        ),
        (
            &["run", "psi-depth", "--set", "seed=-3"],
            &["seed = -3", "from 0"],
        ),
        (
            &["run", "psi-depth", "--set", "seeds=0"],
            &["seeds = 0", "from 1"],
        ),
        (
            &["run", "psi-depth", "--repeats", "0"],
            &["--repeats", "from 1"],
        ),
        (
            &["run", "psi-depth", "--backend", "simulator"],
            &["--backend", "native, model"],
        ),
        (
            &["run", "psi-depth", "--machine", ""],
            &["--machine", "empty"],
        ),
        (
            &["run", "psi-depth", "psi-depth", "--out", "o"],
            &["psi-depth", "twice"],
        ),
        // The first is right and must not run.
        (
            &["run", "psi-walk", "psi-dept"],
            &["psi-dept", "did you mean psi-depth?"],
        ),
    ] {
        let output = kwalk(dir.path()).args(args).assert().code(2);
        let output = output.get_output();
        let message = String::from_utf8(output.stderr.clone()).expect("text");
        assert!(message.starts_with("kwalk: "), "{args:?}: {message}");
        assert_eq!(message.lines().count(), 1, "{args:?}: {message}");
        for word in words {
            assert!(
                message.contains(word),
                "{args:?}: {word} is not in: {message}"
            );
        }
        assert!(output.stdout.is_empty(), "{args:?}");
        assert!(is_empty(dir.path()), "{args:?}");
    }
}

#[test]
fn usage_errors_exit_with_2() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    for args in [
        &["run"][..],
        &["walk"],
        &["run", "psi-depth", "--dept=1"],
        &[],
    ] {
        kwalk(dir.path()).args(args).assert().code(2);
    }
}

#[test]
fn a_file_that_is_wrong_is_named_with_its_key() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let text = "question = \"?\"\nkernel = \"psi-walk\"\nvariants = [\"parent\"]\n\
                [axes]\ndepth = [-1]\n";
    fs::write(dir.path().join("mine.toml"), text).expect("written");
    let output = kwalk(dir.path())
        .args(["run", "mine.toml"])
        .assert()
        .code(2);
    let message = String::from_utf8(output.get_output().stderr.clone()).expect("text");
    for word in ["kwalk: mine.toml", "[axes]", "depth = -1", "0 to 1000"] {
        assert!(message.contains(word), "{word} is not in: {message}");
    }
    assert_eq!(fs::read_dir(dir.path()).expect("read").count(), 1);
}

#[test]
fn an_existing_folder_is_refused_and_left_alone() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let existing = dir.path().join("there");
    fs::create_dir(&existing).expect("created");
    fs::write(existing.join("precious"), "text").expect("written");
    for (option, word) in [(None, "--force"), (Some("--force"), "run.toml")] {
        kwalk(dir.path())
            .args(["run", "psi-depth", "--out", "there"])
            .args(option)
            .assert()
            .code(2)
            .stderr(contains("there exists").and_contains(word));
        let text = fs::read_to_string(existing.join("precious")).expect("read");
        assert_eq!(text, "text");
        assert_eq!(fs::read_dir(&existing).expect("read").count(), 1);
    }
}

/// A folder below a file cannot be made, not even by root.
#[test]
fn an_unwritable_folder_is_refused() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    fs::write(dir.path().join("file"), "").expect("written");
    kwalk(dir.path())
        .args(["run", "psi-depth", "--out", "file/below"])
        .assert()
        .code(2)
        .stderr(contains("file/below").and_contains("--out"));
    assert_eq!(fs::read_dir(dir.path()).expect("read").count(), 1);
}

/// `kwalk list | true`: the reader is gone before the first line is written.
#[test]
fn a_closed_pipe_is_no_error() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    for args in [&["list"][..], &["completions", "bash"]] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut child = std::process::Command::new(env!("CARGO_BIN_EXE_kwalk"))
            .args(args)
            .current_dir(dir.path())
            .stdout(writer)
            .stderr(Stdio::piped())
            .spawn()
            .expect("started");
        let mut message = String::new();
        let mut stderr = child.stderr.take().expect("it was piped");
        stderr.read_to_string(&mut message).expect("text");
        let status = child.wait().expect("ended");
        assert!(
            status.success() && message.is_empty(),
            "{args:?}: {message}"
        );
    }
}

/// Machines of every kind of state that a case could leave to the next: inclusive, exclusive and drawn
/// replacement; more jobs than are handed on at once, with pages, starts and seeds changing between
/// them.
const SWEEP: &str = r#"
question = "Does it matter how many threads model it?"
kernel   = "psi-depth"
axis     = "depth"
variants = ["parent", "cgroup"]
layout   = "6.18.2-ubuntu-x86-64"
pages    = ["4k", "thp"]
start    = ["warm", "polluted:16", "flushed"]
machine  = ["i7-9700", "rome", "drawn.toml"]
backends = ["model"]
seed     = 5
seeds    = 2

[axes]
depth = [0, 3, 12]
"#;

/// Every table of a results folder, by name.
fn tables(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let files = fs::read_dir(folder).expect("a results folder");
    let mut tables: Vec<_> = files
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|e| e == "csv"))
        .map(|path| {
            let name = path.file_name().expect("a file").to_string_lossy();
            (name.into_owned(), fs::read(&path).expect("read"))
        })
        .collect();
    tables.sort();
    tables
}

/// Points are modelled side by side, and a model is taken over by whichever case comes next; neither
/// may be seen in a row, nor in the order of rows.
#[test]
fn a_sweep_is_the_same_on_any_number_of_threads() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let textbook =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("src/machine/catalogue/textbook-32k-lru.toml");
    let drawn = fs::read_to_string(textbook).expect("read");
    let drawn = drawn
        .replace("\"lru\"", "\"random\"")
        .replace("\"textbook-32k-lru\"", "\"drawn\"");
    assert!(drawn.contains("\"random\"") && drawn.contains("\"drawn\""));
    fs::write(dir.path().join("drawn.toml"), drawn).expect("written");
    fs::write(dir.path().join("sweep.toml"), SWEEP).expect("written");
    let run = |threads: &str, out: &str| {
        kwalk(dir.path())
            .env("RAYON_NUM_THREADS", threads)
            .args(["run", "sweep.toml", "--out", out])
            .assert()
            .success();
        tables(&dir.path().join(out))
    };
    let alone = run("1", "one");
    let names: Vec<&str> = alone.iter().map(|(name, _)| name.as_str()).collect();
    for name in ["attribution.csv", "samples.csv", "summary.csv"] {
        assert!(names.contains(&name), "{name} is not in {names:?}");
    }
    for (threads, out) in [("4", "four"), ("4", "four-again"), ("3", "three")] {
        let together = run(threads, out);
        assert_eq!(together.len(), alone.len());
        for ((name, expected), (other, bytes)) in alone.iter().zip(&together) {
            assert_eq!(name, other);
            // The tables are long: what differs is shown by the first line of it.
            let lines = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
            let (expected, bytes) = (lines(expected), lines(bytes));
            let differs = expected.lines().zip(bytes.lines()).find(|(a, b)| a != b);
            assert_eq!(differs, None, "{name} on {threads} threads");
            assert!(expected == bytes, "{name} on {threads} threads: more rows");
        }
    }
    // Each case has its row, and they stand in the order of points and seeds.
    let samples = alone.iter().find(|(name, _)| name == "samples.csv");
    let mut rows = csv::Reader::from_reader(&samples.expect("above").1[..]);
    let header = rows.headers().expect("a header").clone();
    let column = |name: &str| header.iter().position(|h| h == name).expect("a column");
    let (metric, seed) = (column("metric"), column("seed"));
    let cases = rows.records().map(|row| row.expect("a row"));
    let cases = cases.filter(|row| &row[metric] == "visits_per_op");
    let seeds: Vec<String> = cases.map(|row| row[seed].to_owned()).collect();
    let points = 3 * 3 * 2 * 2 * 3; // machines, depths, variants, pages, starts
    assert_eq!(seeds, ["5", "6"].repeat(points));
}
