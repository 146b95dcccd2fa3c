//! `start = "stream:FILE"`: a recorded round trip between two operations.

use std::fs;
use std::path::Path;

use assert_cmd::Command;

const NAME: &str = "k612a64.d5.1cpu.full-roundtrip.txt.gz";

fn kwalk() -> Command {
    Command::new(env!("CARGO_BIN_EXE_kwalk"))
}

fn experiment(start: &str) -> String {
    format!(
        "question = \"?\"\nkernel = \"psi-depth\"\nvariants = [\"parent\"]\n\
         layout = \"6.12.118-debian-arm64\"\nplacement = \"slab\"\npages = \"4k\"\nstart = \"{start}\"\n\
         machine = \"textbook-32k-lru\"\nbackends = [\"model\"]\nrepeats = 1\nseed = 1\n[axes]\ndepth = [8]\n"
    )
}

/// The recording goes along with the results, and the experiment beside it finds it there: same rows.
/// On native its points are unavailable, and say why; alone, nothing can be measured (exit 3).
#[test]
fn a_run_can_be_repeated_from_its_folder() {
    let recorded = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data/streams")
        .join(NAME);
    let dir = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| dir.path().join(name);
    fs::copy(&recorded, at(NAME)).expect("copied");
    fs::write(at("between.toml"), experiment(&format!("stream:{NAME}"))).expect("written");
    let run = |file: &Path, out: &str| {
        let ran = kwalk()
            .arg("run")
            .arg(file)
            .arg("--out")
            .arg(at(out))
            .output()
            .expect("it runs");
        assert!(
            ran.status.success(),
            "{}",
            String::from_utf8_lossy(&ran.stderr)
        );
        fs::read_to_string(at(out).join("samples.csv")).expect("samples")
    };
    let first = run(&at("between.toml"), "first");
    assert!(first.contains(&format!(",stream:{NAME},")), "{first}");
    fs::remove_file(at(NAME)).expect("removed");
    let again = at("first").join("between.toml");
    fs::copy(at("between.toml"), &again).expect("copied");
    assert_eq!(run(&again, "second"), first);

    let native = kwalk()
        .args(["run", "--backend", "native", "--out"])
        .arg(at("third"))
        .arg(&again)
        .output()
        .expect("it runs");
    let message = String::from_utf8_lossy(&native.stderr);
    assert_eq!(native.status.code(), Some(3), "{message}");
    assert!(message.contains("another machine's memory"), "{message}");
}

#[test]
fn wrong_recordings_are_one_sentence() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| dir.path().join(name);
    fs::write(at("inside.txt"), "1 0 1 f R 8 0x1 0x1 0x0 -\n").expect("written");
    fs::write(at("bad.txt"), "1 0 0 f R 8 0x1 0x1 0x0 -\n1 0\n").expect("written");
    for (start, words) in [
        ("stream:inside.txt", "line 1"),
        ("stream:bad.txt", "line 2"),
        ("stream:none.txt", "stream:none.txt"),
        ("stream:", "stream:FILE"),
    ] {
        fs::write(at("e.toml"), experiment(start)).expect("written");
        let ran = kwalk()
            .arg("run")
            .arg(at("e.toml"))
            .arg("--out")
            .arg(at("out"))
            .output()
            .expect("it runs");
        let message = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.code(), Some(2), "{start}: {message}");
        assert_eq!(message.lines().count(), 1, "{start}: {message}");
        assert!(message.contains(words), "{start}: {message}");
        assert!(
            !at("out").exists(),
            "{start}: refused before a folder is made"
        );
    }
}
