//! Recorded streams: what is read, what edits do to it, and what a model makes of it, against a naive
//! LRU that parses the files by itself, and against figures that were counted from recordings
//! independently of kwalk (facts on observed streams of PSI).

use std::io::Write as _;
use std::path::{Path, PathBuf};

use kernels::memory::Addr;
use kernels::psi::{
    FIELDS, Placement, PsiTree, TreeShape, Variant, Walks, is_psi_line, task_changes,
};
use kernels::recorder::{Kind, Recorder};
use kwalk::machine::{Machine, catalogue};
use kwalk::model::page_map::{Frames, PageMapOptions};
use kwalk::streams::background::Background;
use kwalk::streams::edit::{self, Edit};
use kwalk::streams::replay::{Replayed, Rounds};
use kwalk::streams::steps::{Choice, Deed, Round};
use kwalk::streams::{Access, Event, Stream};
use proptest::prelude::*;

const RECORDED: [(&str, u64); 4] = [
    // Offset of cgroup.psi in that build.
    ("k612x.d5.1cpu", 1224),
    ("k612a64.d5.1cpu", 1224),
    ("k612a64.d5.2cpu", 1224),
    ("k61a64.d5.1cpu", 1120),
];

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data/streams")
        .join(format!("{name}.full-roundtrip.txt.gz"))
}

fn text_of(name: &str) -> String {
    let mut text = String::new();
    let file = std::fs::File::open(data(name)).expect("a recording");
    std::io::Read::read_to_string(&mut flate2::read::MultiGzDecoder::new(file), &mut text)
        .expect("whole");
    text
}

/// 64 sets of true LRU; `Vec`s moved about.
struct Naive {
    sets: Vec<Vec<u64>>,
    ways: usize,
}

impl Naive {
    fn new(ways: usize) -> Naive {
        Naive {
            sets: vec![Vec::new(); 64],
            ways,
        }
    }

    /// Whether `line` misses.
    fn misses(&mut self, line: u64) -> bool {
        let set = &mut self.sets[(line % 64) as usize];
        let at = set.iter().position(|l| *l == line);
        if let Some(at) = at {
            set.remove(at);
        }
        set.push(line);
        if set.len() > self.ways {
            set.remove(0);
        }
        at.is_none()
    }
}

/// Misses of the last of four rounds of `text`, inside PSI and in all; CPU `cpu` only. `patch`: with
/// the two reads of the cgroup at each step from group to group; cgroups lie in the direct map, where
/// the page offset decides on the set, and a page of their own makes them lines of their own, but for
/// the leaf, which the recording touches.
fn naive(text: &str, cpu: &str, ways: usize, psi_lines: bool, patch: Option<u64>) -> (u64, u64) {
    let hex = |word: &str| u64::from_str_radix(&word[2..], 16).expect("an address");
    let mut cgroups = Vec::new();
    let mut difference = 0;
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if line.starts_with("# cgroups") {
            cgroups = words[2..].iter().map(|w| hex(w)).collect();
        } else if words.len() > 9 && words[9].starts_with("cg[") {
            difference = hex(words[7]).wrapping_sub(hex(words[6]));
        }
    }
    let mut cache = Naive::new(ways);
    let mut last = (0, 0);
    for _ in 0..4 {
        last = (0, 0);
        for line in text.lines().filter(|l| !l.starts_with('#')) {
            let words: Vec<&str> = line.split_whitespace().collect();
            if words[3] == "CALL" || words[1] != cpu {
                continue;
            }
            let label = words[9];
            let of_psi = ["G[", "C0[", "C1[", "cg["]
                .iter()
                .any(|p| label.starts_with(p));
            let inside = words[2] == "1";
            if psi_lines && !(inside && of_psi) {
                continue;
            }
            let (from, bytes) = (hex(words[7]), words[5].parse::<u64>().expect("a size"));
            let mut lines: Vec<u64> = (from / 64..=(from + bytes - 1) / 64).collect();
            let level = label
                .strip_prefix("G[")
                .and_then(|l| l.strip_suffix("].parent@0"));
            if let (Some(psi), Some(level), true) = (patch, level, inside)
                && let Ok(level) = level.parse::<usize>()
            {
                let base = cgroups[level].wrapping_add(difference);
                lines.extend([(base + 192) / 64, (base + psi) / 64]);
            }
            for line in lines {
                let missed = u64::from(cache.misses(line));
                last.1 += missed;
                last.0 += if inside { missed } else { 0 };
            }
        }
    }
    last
}

fn machine(ways: usize) -> Machine {
    let name = match ways {
        8 => "textbook-32k-lru",
        _ => "textbook-48k-lru",
    };
    catalogue::find(name).expect("built in")
}

const ROUNDS: Rounds = Rounds {
    rounds: 8,
    pages: PageMapOptions {
        page_bytes: 4096,
        frames: Frames::Identity,
        host_page_bytes: None,
    },
    seed: 1,
};

fn replayed(stream: &Stream, choice: Choice, ways: usize) -> (u64, u64, Round) {
    let round = Round::of(std::slice::from_ref(stream), choice);
    let done = Replayed::of(&round, &machine(ways), ROUNDS).expect("it can be modelled");
    let all = done.cores.iter().map(|core| core.levels[0].demand_misses());
    (done.inside_misses(&round), all.sum(), round)
}

fn patch(psi: u64) -> Vec<Edit> {
    [
        "add:cgroup.parent@192".into(),
        format!("add:cgroup.psi@{psi}"),
    ]
    .iter()
    .map(|text: &String| Edit::parse(text, "").expect("an edit"))
    .collect()
}

#[test]
fn misses_of_recordings_are_those_of_a_naive_lru() {
    for (name, psi) in RECORDED {
        let text = text_of(name);
        let stream = Stream::read(&data(name)).expect("a recording");
        let (edited, _) = edit::apply(&stream, &patch(psi)).expect("the patch");
        for cpu in stream.cpus() {
            for ways in [8, 12] {
                for psi_lines in [true, false] {
                    let choice = Choice {
                        cpu: Some(cpu),
                        psi_lines,
                    };
                    for (stream, patch) in [(&stream, None), (&edited, Some(psi))] {
                        let expected = naive(&text, &cpu.to_string(), ways, psi_lines, patch);
                        let (inside, all, _) = replayed(stream, choice, ways);
                        let at = format!("{name}, CPU {cpu}, {ways} ways, {psi_lines}, {patch:?}");
                        assert_eq!((inside, all), expected, "{at}");
                    }
                }
            }
        }
    }
}

/// At 5 levels PSI's lines fit 8 ways, with and without the patch: 0 and 0. With the rest of the round
/// trip 6.12 misses 1.8 and 5.7 per walk with 8 ways (averages over many round trips; this is one of
/// them, so within 1.5) and 0 and 0 with 12.
#[test]
fn misses_at_5_levels_are_those_published() {
    for (name, psi) in RECORDED
        .into_iter()
        .filter(|(name, _)| name.ends_with("1cpu"))
    {
        let stream = Stream::read(&data(name)).expect("a recording");
        let (edited, _) = edit::apply(&stream, &patch(psi)).expect("the patch");
        for ways in [8, 12] {
            for stream in [&stream, &edited] {
                let choice = Choice {
                    psi_lines: true,
                    ..Choice::default()
                };
                assert_eq!(replayed(stream, choice, ways).0, 0, "{name}, {ways} ways");
            }
        }
        if name.starts_with("k612a64") {
            for (stream, ways, published) in [
                (&stream, 8, 1.8),
                (&edited, 8, 5.7),
                (&stream, 12, 0.0),
                (&edited, 12, 0.0),
            ] {
                let (inside, _, round) = replayed(stream, Choice::default(), ways);
                let per_walk = inside as f64 / round.walks as f64;
                let off = (per_walk - published).abs();
                let most = if ways == 8 { 1.5 } else { 0.0 };
                assert!(
                    off <= most,
                    "{ways} ways: {per_walk}, published {published}"
                );
            }
        }
    }
}

/// Visits: one CPU 2(N+1) or 3(N+1) with EEVDF and 4(N+1) with CFS, two CPUs 6(N+1).
#[test]
fn walks_and_visits_are_counted() {
    for ((name, _), visits) in RECORDED.into_iter().zip([12, 18, 36, 24]) {
        let stream = Stream::read(&data(name)).expect("a recording");
        let round = Round::of(&[stream], Choice::default());
        assert_eq!(round.visits, visits, "{name}");
        assert!((3..=6).contains(&round.walks), "{name}: {}", round.walks);
    }
}

/// A walk over 50 levels at recorded addresses, written down as a recording is.
fn fifty_levels() -> Stream {
    let file =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/placements/k612a64.d50.1cpu.txt");
    let placement = Stream::read(&file).expect("a placement").placement;
    let layout = kwalk::layouts::find("6.12.118-debian-arm64").expect("built in");
    let shape = TreeShape {
        depth: 50,
        cpus: 1,
        variant: Variant::Parent,
        placement: Placement::Recorded(placement),
        seed: 1,
    };
    let mut tree = PsiTree::new(layout, &shape).expect("a tree");
    let (globals, offsets) = (tree.globals.clone(), tree.offsets);
    let walks = Walks {
        variant: Variant::Parent,
        offsets: &offsets,
        globals: &globals,
        zero: 0,
    };
    let mut mem = Recorder::new(&mut tree.arena);
    task_changes(&mut mem, &walks, 1, &mut 0);
    let accesses = mem.accesses;
    let object = |structure: &str, addr: Addr, offset: u32| {
        let (objects, kind) = match structure {
            "psi_group" => (&tree.groups, "G"),
            "psi_group_cpu" => (&tree.group_cpus, "C0"),
            _ => (&tree.cgroups, "cg"),
        };
        let base = addr.0 - u64::from(offset);
        let level = objects.iter().position(|o| o.0 == base).expect("an object");
        match (kind, level) {
            ("G" | "C0", 50) => format!("{kind}[sys]"),
            _ => format!("{kind}[{level}]"),
        }
    };
    let mut stream = Stream::default();
    stream.placement.cgroups = tree.cgroups.iter().map(|c| c.0).collect();
    stream.events.push(Event::Call {
        cpu: 0,
        psi: true,
        name: "psi_task_change".into(),
    });
    for access in accesses {
        let (structure, field) = FIELDS[usize::from(access.field.id)];
        let offset = access.field.offset_bytes;
        let label = is_psi_line(access.field.id).then(|| {
            format!(
                "{}.{field}@{offset}",
                object(structure, access.addr, offset)
            )
        });
        stream.events.push(Event::Access(Access {
            cpu: 0,
            path: 1,
            psi: true,
            pc: "psi_group_change+0".into(),
            write: access.kind == Kind::Store,
            bytes: u32::from(access.bytes),
            vaddr: access.addr.0,
            paddr: access.addr.0,
            value: None,
            label,
        }));
    }
    stream
}

/// 159 misses per walk with 8 ways and 261 with the patch, 123 and 225 with 12: counted
/// independently from the same addresses; within 1 %. The patch is an edit here.
#[test]
fn misses_at_50_levels_are_those_published() {
    let stream = fifty_levels();
    let (edited, _) = edit::apply(&stream, &patch(1224)).expect("the patch");
    let choice = Choice {
        psi_lines: true,
        ..Choice::default()
    };
    for (stream, ways, published) in [
        (&stream, 8, 159.0),
        (&edited, 8, 261.0),
        (&stream, 12, 123.0),
        (&edited, 12, 225.0),
    ] {
        let (inside, _, round) = replayed(stream, choice, ways);
        assert_eq!(round.walks, 1);
        let off = (inside as f64 - published).abs() / published;
        assert!(off <= 0.01, "{ways} ways: {inside}, published {published}");
    }
}

/// 50 cgroups 2304 bytes apart spread their `parent` and `psi` over all sets: 36 lines of stride
/// 2304 = 36 lines visit 64 / gcd(36, 64) = 16 sets, 50 objects over 16 sets are at most 4 a set. So
/// the patch's reads no longer miss, and what is left are the 159 of before, give or take those that
/// share their sets.
#[test]
fn cgroups_at_another_stride_no_longer_conflict() {
    let mut edits = vec![Edit::parse("stride:cgroup:2304", "").expect("an edit")];
    edits.extend(patch(1224));
    let (edited, _) = edit::apply(&fifty_levels(), &edits).expect("edits");
    let choice = Choice {
        psi_lines: true,
        ..Choice::default()
    };
    let (inside, ..) = replayed(&edited, choice, 8);
    assert!((155..200).contains(&inside), "{inside}");
}

/// One CPU's accesses, one line each; `0xffff…` is the kernel's half.
fn lines(accesses: &[(u32, &str, &str, u64, &str)]) -> Stream {
    let mut text = String::from("# n cpu psi pc RW size vaddr paddr value object.field@offset\n");
    for (n, (cpu, pc, kind, paddr, label)) in accesses.iter().enumerate() {
        text += &format!(
            "{n} {cpu} 1 {pc} {kind} 8 {:#x} {paddr:#x} 0x0 {label}\n",
            paddr | 0xffff << 48
        );
    }
    Stream::parse(&text).expect("a stream")
}

#[test]
fn a_read_and_a_write_by_one_instruction_are_one() {
    for (accesses, deeds) in [
        (
            vec![(0, "f+4", "R", 0x1000, "-"), (0, "f+4", "W", 0x1000, "-")],
            vec![Deed::Modify],
        ),
        // Another instruction, another address, another CPU, and an access in between.
        (
            vec![(0, "f+4", "R", 0x1000, "-"), (0, "f+8", "W", 0x1000, "-")],
            vec![Deed::Load, Deed::Store],
        ),
        (
            vec![(0, "f+4", "R", 0x1000, "-"), (0, "f+4", "W", 0x1008, "-")],
            vec![Deed::Load, Deed::Store],
        ),
        (
            vec![(0, "f+4", "R", 0x1000, "-"), (1, "f+4", "W", 0x1000, "-")],
            vec![Deed::Load, Deed::Store],
        ),
        (
            vec![
                (0, "f+4", "R", 0x1000, "-"),
                (1, "g+0", "R", 0x2000, "-"),
                (0, "f+4", "W", 0x1000, "-"),
            ],
            vec![Deed::Modify, Deed::Load],
        ),
    ] {
        let round = Round::of(&[lines(&accesses)], Choice::default());
        let found: Vec<Deed> = round.steps.iter().map(|s| s.deed).collect();
        assert_eq!(found, deeds, "{accesses:?}");
    }
}

/// Two cores that store in turns to one line: each store of the steady state takes it from the other.
/// The same word is true sharing, words side by side are false; and after an edit that moves one of
/// them to another line, nothing goes.
#[test]
fn shared_lines_are_told_apart_by_bytes() {
    let both = |second: u64, label: &str| {
        lines(&[
            (0, "f+4", "W", 0x1000, "mm0.a@0"),
            (1, "g+4", "W", second, label),
        ])
    };
    let same = both(0x1000, "mm0.a@0");
    let beside = both(0x1008, "mm0.b@8");
    let apart = edit::apply(
        &beside,
        &[Edit::parse("move:mm_struct.b:64", "").expect("an edit")],
    );
    let (apart, _) = apart.expect("it moves");
    for (stream, kind, went) in [(&same, "true", 2), (&beside, "false", 2), (&apart, "-", 0)] {
        let round = Round::of(std::slice::from_ref(stream), Choice::default());
        let done = Replayed::of(&round, &machine(8), ROUNDS).expect("it can be modelled");
        let contended = done.shared.contended();
        let found: u64 = contended.iter().map(|(_, line)| line.transfers()).sum();
        assert_eq!(found, went, "{kind}");
        if went > 0 {
            assert_eq!(contended[0].1.kind(), kind);
            assert_eq!(contended[0].0, 0x1000);
        }
    }
}

#[test]
fn edits_that_match_nothing_name_what_is_near() {
    let stream = Stream::read(&data("k612x.d5.1cpu")).expect("a recording");
    for (text, words) in [
        ("add:cgruop.parent@192", "near: cgroup"),
        ("move:psi_group.enabeld:64", "near: enabled"),
        ("move:psi_grup.enabled:64", "near: psi_group"),
        (
            "move:psi_group.enabled:48",
            "would lie on psi_group.pcpu@48",
        ),
        ("align:G[6]:64", "near: G[0], G[1], G[2]"),
        ("stride:psi_group:128", "overlap"),
    ] {
        let edit = Edit::parse(text, "").expect(text);
        let error = edit::apply(&stream, &[edit]).expect_err(text).to_string();
        assert!(error.contains(words), "{text}: {error}");
        assert!(error.starts_with(text), "{error}");
    }
    for text in [
        "",
        "align",
        "align:G[4]",
        "align:G[4]:48",
        "align:G[4]:0",
        "move:psi_group:8",
        "move:psi_group.:8",
        "add:cgroup.x",
        "add:cgroup.x@-1",
        "add:cgroup.x@1048577",
        "drop:cgroup.x",
    ] {
        let error = Edit::parse(text, "").expect_err(text).to_string();
        assert!(error.contains("accepted: "), "{text}: {error}");
    }
}

/// Two edits may swap two fields; each alone would lie on the other.
#[test]
fn fields_can_be_swapped() {
    let stream = Stream::read(&data("k612x.d5.1cpu")).expect("a recording");
    let edits = ["move:psi_group.enabled:48", "move:psi_group.pcpu:8"];
    let edits = edits.map(|text| Edit::parse(text, "").expect("an edit"));
    let (edited, _) = edit::apply(&stream, &edits).expect("a swap");
    let count = |stream: &Stream, end: &str| {
        let labels = stream.accesses().filter_map(|a| a.label.as_deref());
        labels.filter(|label| label.ends_with(end)).count()
    };
    assert_eq!(
        count(&stream, "].enabled@8"),
        count(&edited, "].enabled@48")
    );
    assert_eq!(count(&stream, "].pcpu@48"), count(&edited, "].pcpu@8"));
}

/// Three calls of PSI cut a round trip into three gaps; all that is not PSI's is in them.
#[test]
fn a_background_is_what_is_not_psi() {
    for (name, gaps) in [("k612a64.d5.1cpu", 3), ("k61a64.d5.1cpu", 4)] {
        let stream = Stream::read(&data(name)).expect("a recording");
        let background = Background::of(&stream).expect("a round trip");
        assert_eq!(background.gaps.len(), gaps, "{name}");
        let outside = stream.accesses().filter(|a| !a.psi).count();
        assert_eq!(
            background.gaps.iter().map(Vec::len).sum::<usize>(),
            outside,
            "{name}"
        );
    }
    assert_eq!(Background::of(&Stream::default()), None);
}

const GOOD: &str = "5 0 1 f+0x9 W 8 0xffa0 0x42 0x6 C0[4].tasks+8@8\n";

#[test]
fn bad_lines_are_refused_with_their_number() {
    for (line, words) in [
        ("1 0\n", "2 columns"),
        ("1 x 1 f R 8 0x1 0x1 0x1 -\n", "cpu is \"x\""),
        ("1 0 2 f R 8 0x1 0x1 0x1 -\n", "psi is \"2\""),
        ("1 0 1 f Q 8 0x1 0x1 0x1 -\n", "neither R nor W"),
        ("1 0 1 f R 0 0x1 0x1 0x1 -\n", "size is \"0\""),
        ("1 0 1 f R 65 0x1 0x1 0x1 -\n", "1 to 64"),
        ("1 0 1 f R 8 1 0x1 0x1 -\n", "no address"),
        ("1 0 1 f R 8 0x1 0xg 0x1 -\n", "64-bit"),
        ("1 0 1 f R 8 0x1 0x12345678123456789 0x1 -\n", "64-bit"),
        ("1 0 1 f R 8 0xffffffffffffffff 0x1 0x1 -\n", "beyond"),
        ("1 0 1 f R 8 0x1 0x1 zz -\n", "no address"),
        ("1 0 1 CALL\n", "CALL without a name"),
        ("1 0 1 f R 8 0x1 0x", "the file ends within this line"),
        ("# cgroups 12\n", "no address"),
        ("# cgroups c0=0x1 0x2\n", "names no object"),
        ("\u{7}\u{1b}[31m\n", "1 columns"),
    ] {
        let text = format!("{GOOD}\n{line}");
        let (at, what) = Stream::parse(&text).expect_err(line);
        assert_eq!(at, 3, "{line:?}: {what}");
        assert!(what.contains(words), "{line:?}: {what}");
        assert!(!what.contains('\u{1b}'), "{line:?}: {what}");
    }
}

fn gzipped(text: &[u8]) -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(text).expect("memory");
    gzip.finish().expect("memory")
}

/// gzip that breaks off says after how many whole lines; a wrong line before it comes first.
#[test]
fn cut_gzip_is_refused_at_its_line() {
    let whole = std::fs::read(data("k612x.d5.1cpu")).expect("a recording");
    let (line, what) = Stream::decode(&whole[..whole.len() / 2]).expect_err("cut");
    assert!(line > 1000, "{line}: {what}");
    assert!(what.contains("gzip breaks off"), "{what}");
    let mut wrong = b"nonsense\n".to_vec();
    wrong.extend(GOOD.repeat(1000).bytes());
    let wrong = gzipped(&wrong);
    let (line, what) = Stream::decode(&wrong[..wrong.len() - 4]).expect_err("cut and wrong");
    assert_eq!((line, what.contains("columns")), (1, true), "{what}");
}

fn pieces() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        Just("0"),
        Just("1"),
        Just("70000"),
        Just("-"),
        Just("CALL"),
        Just("MARK"),
        Just("R"),
        Just("W"),
        Just("8"),
        Just("64"),
        Just("0x0"),
        Just("0xffffffffffffffff"),
        Just("0xfffffffffffffff0"),
        Just("psi_task_change"),
        Just("f+0x4"),
        Just("G[0].parent@0"),
        Just("cg[0].psi@4294967295"),
        Just("].@1"),
        Just("a.b@2"),
        Just("user"),
        Just("# cgroups"),
        Just("# n cpu in"),
        Just("# a b 0x5"),
        Just("# percpu"),
        Just("0x10=0x10"),
        Just("\u{1b}"),
    ];
    let line = prop::collection::vec(word, 0..11).prop_map(|words| words.join(" "));
    // Most lines are accesses, so that something is left to be run.
    let access = (
        0..3_u8,
        0..2_u8,
        "[RW]",
        1..=64_u8,
        any::<u64>(),
        any::<u64>(),
        0..6_usize,
    )
        .prop_map(|(cpu, psi, kind, bytes, v, p, label)| {
            let label = [
                "-",
                "G[0].parent@0",
                "G[sys].parent@0",
                "cg[0].psi@8",
                "mm0.a+8@16",
                "x+9",
            ][label];
            format!(
                "1 {cpu} {psi} f+{} {kind} {bytes} {v:#x} {p:#x} 0x0 {label}",
                v % 3
            )
        });
    let any = prop_oneof![1 => line, 12 => access];
    prop::collection::vec(any, 0..40).prop_map(|lines| lines.join("\n"))
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..400), gzip in any::<bool>()) {
        let stored = if gzip { gzipped(&bytes) } else { bytes };
        let cut = stored.len() * 9 / 10;
        for stored in [&stored[..], &stored[..cut]] {
            if let Err((line, what)) = Stream::decode(stored) {
                prop_assert!(line > 0 && !what.contains('\n') && !what.contains('\u{1b}'), "{}", what);
            }
        }
    }

    /// What is read can be labelled, edited and run, or is refused: nothing panics, and every access
    /// is counted.
    #[test]
    fn what_is_read_can_be_run(text in pieces(), edits in prop::collection::vec(0..6_usize, 0..3)) {
        let Ok(stream) = Stream::parse(&text) else { return Ok(()); };
        let known = ["add:cgroup.parent@192", "add:mm_struct.z@1048576", "align:psi_group:1048576",
            "stride:G[0]:64", "move:mm_struct.a:1048576", "align:cgroup:1"];
        let edits: Vec<Edit> = edits.iter().map(|i| Edit::parse(known[*i], "").expect("an edit")).collect();
        let stream = edit::apply(&stream, &edits).map_or(stream, |(edited, _)| edited);
        let _ = Background::of(&stream);
        let round = Round::of(std::slice::from_ref(&stream), Choice::default());
        if round.steps.is_empty() { return Ok(()); }
        let modified = round.steps.iter().filter(|s| s.deed == Deed::Modify).count();
        prop_assert_eq!(round.steps.len() + modified, stream.accesses().count());
        let rounds = Rounds { rounds: 2, ..ROUNDS };
        let done = Replayed::of(&round, &machine(8), rounds).expect("three cores at most");
        let requests: u64 = done.cores.iter()
            .map(|c| c.levels[0].loads.requests + c.levels[0].stores.requests).sum();
        prop_assert!(requests >= round.steps.len() as u64);
    }

    #[test]
    fn any_edit_is_read_or_refused(text in "(align|stride|move|add|x)?:?[a-z.\\[\\]0-9]{0,8}[:@.]?[0-9a-fx]{0,9}") {
        if let Err(error) = Edit::parse(&text, "") {
            prop_assert!(error.to_string().contains("accepted"), "{}", error);
        }
    }
}
