//! Experiment files: what is accepted, what is refused and in which words, and the points and
//! judgements that come of them.

use std::path::Path;

use kwalk::experiment::{
    Against, BUILT_IN, Backend, Experiment, Lines, Measure, Placement, Start, Variant,
};
use kwalk::record::{Sample, Status};

const SMALL: &str = r#"
question = "How much?"
kernel = "psi-pipe"
axis = "depth"
variants = ["parent", "cgroup"]
layout = "6.2.1-ubuntu-x86-64"
machine = ["host", "i7-9700"]
backends = ["native", "model"]
start = ["warm", "polluted:16"]

[axes]
depth = [0, 5]
cpus = [1, 2]

[quick]
depth = 5
start = "flushed"

[[expect]]
where = { variant = "cgroup", layout = "6.2.1-ubuntu-x86-64", machine = "i7-9700", depth = [3, 5] }
metric = "visits_per_op"
minus = "parent"
value = 2
tolerance = 0.5
reason = "theory"

[[published]]
source = "mail"
machine = "i7-9700"
metric = "ops_per_s"
unit = "ops/s"
where = { layout = "6.2.1-ubuntu-x86-64", depth = 5, cpus = 2 }
variants = ["parent", "cgroup"]
before = 47821
after = 50884.5
"#;

fn parse(text: &str) -> Result<Experiment, String> {
    Experiment::parse("small", Path::new("small.toml"), text).map_err(|e| e.to_string())
}

fn small() -> Experiment {
    parse(SMALL).expect("SMALL is an experiment")
}

#[test]
fn built_in_experiments_are_whole() {
    for built_in in BUILT_IN {
        let experiment = Experiment::find(built_in.name).unwrap_or_else(|e| panic!("{e}"));
        assert!(experiment.question.ends_with('?'), "{}", built_in.name);
        assert!(experiment.variants.contains(&experiment.baseline));
        assert!(!experiment.expectations.is_empty(), "{}", built_in.name);
        let mut quick = experiment.clone();
        quick.apply_quick();
        assert!(
            quick.points().len() < experiment.points().len(),
            "{}",
            built_in.name
        );
    }
}

/// Mail A: 3 rows of the first table for each of two machines, and 4 rows of the rebased run.
#[test]
fn psi_pipe_holds_all_numbers_of_the_mail() {
    let pipe = Experiment::find("psi-pipe").expect("it is built in");
    let of = |machine: &str| {
        let rows = pipe.published.iter().filter(|p| p.machine == machine);
        rows.map(|p| (p.psi_off, p.condition("depth").map(str::to_string)))
            .collect::<Vec<_>>()
    };
    let at = |depth: &str| (false, Some(depth.to_string()));
    let first = [(true, None), at("0"), at("5")];
    assert_eq!(of("ryzen-5900hx"), first);
    assert_eq!(
        of("i7-9700"),
        [&first[..], &[at("0"), at("5"), at("8"), at("50")]].concat()
    );
}

#[test]
fn a_file_says_what_it_says() {
    let small = small();
    assert_eq!(small.axis, "depth");
    assert_eq!(small.axes["cpus"], [1, 2]);
    assert_eq!(small.starts, [Start::Warm, Start::Polluted { kib: 16 }]);
    assert_eq!(small.lines, [Lines::Walk]);
    assert_eq!(small.baseline, Variant::Parent);
    let expectation = &small.expectations[0];
    assert_eq!(expectation.measure, Measure::Value);
    assert_eq!(expectation.against, Some(Against::Minus(Variant::Parent)));
    assert_eq!((expectation.min, expectation.max), (Some(1.5), Some(2.5)));
    assert_eq!(small.published[0].after, Some(50_884.5));
}

/// 2 starts, 2 CPU counts, 2 depths, 2 variants: 16 on each machine; native knows the host only.
#[test]
fn points_are_the_grid_with_native_on_the_host() {
    let points = small().points();
    let count = |backend, machine: &str| {
        let same = points
            .iter()
            .filter(|p| p.backend == backend && p.machine == machine);
        same.count()
    };
    assert_eq!(points.len(), 48);
    assert_eq!(count(Backend::Native, "host"), 16);
    assert_eq!(count(Backend::Model, "host"), 16);
    assert_eq!(count(Backend::Model, "i7-9700"), 16);
    let columns: Vec<String> = points[..6].iter().map(|p| p.column()).collect();
    let expected = ["cpus=1;depth=0", "cpus=1;depth=5", "cpus=2;depth=0"];
    assert_eq!([&columns[0], &columns[2], &columns[4]], expected.each_ref());
    assert_eq!(points[0].variant, Variant::Parent);
    assert_eq!(points[1].variant, Variant::Cgroup);
}

#[test]
fn keys_repeat_the_plotted_axis_and_tell_a_change_of_lines() {
    let mut small = small();
    small
        .set("test", "lines", &["psi".into()])
        .expect("psi is accepted");
    let points = small.points();
    let point = points.last().expect("48 points");
    assert_eq!((point.depth(), point.cpus()), (5, 2));
    let keys = small.keys(point, "host:X", "0");
    assert_eq!(keys.point, "cpus=2;depth=5;lines=psi");
    assert_eq!((keys.axis.as_str(), keys.x.as_str()), ("depth", "5"));
    assert_eq!((keys.machine.as_str(), keys.cpu.as_str()), ("host:X", "0"));
    assert_eq!(
        (keys.kernel.as_str(), keys.start.as_str()),
        ("psi-pipe", "polluted:16")
    );
}

#[test]
fn quick_changes_what_it_names_only() {
    let mut quick = small();
    quick.apply_quick();
    assert_eq!(quick.axes["depth"], [5]);
    assert_eq!(quick.starts, [Start::Flushed]);
    assert_eq!(quick.axes["cpus"], [1, 2]);
}

#[test]
fn a_baseline_that_is_not_run_is_replaced() {
    let mut small = small();
    let variants = ["inner-off".to_string(), "cgroup".into()];
    small
        .set("test", "variant", &variants)
        .expect("both are known");
    assert_eq!(small.baseline, Variant::InnerOff);
}

/// Each replacement makes the file wrong; the message names place, key, value, what is accepted.
#[test]
fn what_is_wrong_is_refused_in_a_sentence() {
    for (from, to, words) in [
        (
            "question = \"How much?\"",
            "",
            &["small.toml", "question", "missing"][..],
        ),
        (
            "\"psi-pipe\"",
            "\"psi-pip\"",
            &["kernel", "psi-pip ", "psi-inner", "did you mean psi-pipe?"],
        ),
        (
            "kernel = \"psi-pipe\"",
            "",
            &["kernel", "missing", "psi-depth"],
        ),
        (
            "\"parent\", \"cgroup\"]\nlayout",
            "\"parnt\"]\nlayout",
            &[
                "variants",
                "parnt",
                "ancestors-array",
                "did you mean parent?",
            ],
        ),
        (
            "variants = [\"parent\", \"cgroup\"]\nlayout",
            "layout",
            &["variants", "missing"],
        ),
        (
            "\"polluted:16\"]",
            "\"polluted:0\"]",
            &["start", "polluted:0", "polluted:KiB"],
        ),
        (
            "\"polluted:16\"]",
            "\"cold\"]",
            &["start", "cold", "flushed"],
        ),
        ("\"polluted:16\"]", "\"warm\"]", &["start", "warm", "once"]),
        (
            "depth = [0, 5]",
            "depth = [-1]",
            &["[axes]", "depth", "-1", "0 to 1000"],
        ),
        (
            "depth = [0, 5]",
            "depth = [1000000]",
            &["depth", "1000000", "0 to 1000"],
        ),
        ("depth = [0, 5]", "depth = []", &["depth", "empty"]),
        (
            "depth = [0, 5]",
            "depth = [1.5]",
            &["depth", "1.5", "whole number"],
        ),
        ("cpus = [1, 2]", "cpus = [0]", &["cpus", "0", "1 to 2"]),
        (
            "cpus = [1, 2]",
            "cups = [1]",
            &["[axes]", "cups", "did you mean cpus?"],
        ),
        (
            "axis = \"depth\"",
            "axis = \"width\"",
            &["axis", "width", "cpus, depth"],
        ),
        (
            "axis = \"depth\"",
            "axis = \"depth\"\naxiss = 1",
            &["axiss", "question", "axes", "did you mean axis?"],
        ),
        (
            "axis = \"depth\"",
            "axis = \"depth\"\ndepth = 1",
            &["depth", "[axes]"],
        ),
        (
            "axis = \"depth\"",
            "axis = \"depth\"\nplacement = \"heap\"",
            &["placement", "heap", "slab, packed, coloured, stream:FILE"],
        ),
        (
            "axis = \"depth\"",
            "axis = \"depth\"\nplacement = \"stream:no.txt\"",
            &["placement", "stream:no.txt", "exists"],
        ),
        (
            "axis = \"depth\"",
            "axis = \"depth\"\npages = \"1g\"",
            &["pages", "1g", "4k, thp, hugetlb-2m"],
        ),
        (
            "axis = \"depth\"",
            "axis = \"depth\"\nlines = \"all\"",
            &["lines", "all", "walk, psi"],
        ),
        (
            "axis = \"depth\"",
            "axis = \"depth\"\nrepeats = 0",
            &["repeats", "0", "1 to"],
        ),
        (
            "axis = \"depth\"",
            "axis = \"depth\"\nrepeats = [1, 2]",
            &["repeats", "list of 2", "one value"],
        ),
        (
            "axis = \"depth\"",
            "axis = \"depth\"\nbaseline = \"inner-off\"",
            &["baseline", "inner-off", "parent, cgroup"],
        ),
        (
            "\"native\", \"model\"]",
            "\"gem5\"]",
            &["backends", "gem5", "native, model"],
        ),
        (
            "start = \"flushed\"",
            "strat = \"flushed\"",
            &["[quick]", "strat", "did you mean start?"],
        ),
        (
            "start = \"flushed\"",
            "start = \"ice\"",
            &["[quick]", "ice"],
        ),
        (
            "machine = \"i7-9700\", depth",
            "machine = \"host\", depth",
            &["[[expect]] 1", "machine", "host", "catalogue"],
        ),
        (
            "where = { variant = \"cgroup\", layout = \"6.2.1-ubuntu-x86-64\", ",
            "where = { variant = \"cgroup\", ",
            &["[[expect]] 1", "layout", "missing"],
        ),
        (
            "depth = [3, 5] }",
            "depth = [3, 5000] }",
            &["[[expect]] 1", "depth", "5000"],
        ),
        (
            "depth = [3, 5] }",
            "width = 3 }",
            &["[[expect]] 1", "width", "depth"],
        ),
        (
            "minus = \"parent\"",
            "minus = \"cgroup\"",
            &["[[expect]] 1", "variant", "cgroup"],
        ),
        (
            "minus = \"parent\"",
            "minus = \"parent\"\nover = \"parent\"",
            &["over", "either"],
        ),
        (
            "minus = \"parent\"",
            "minuss = \"parent\"",
            &["[[expect]] 1", "minuss", "did you mean minus?"],
        ),
        ("value = 2\n", "", &["[[expect]] 1", "value", "min"]),
        (
            "value = 2\n",
            "value = \"two\"\n",
            &["value", "two", "number"],
        ),
        (
            "reason = \"theory\"",
            "",
            &["[[expect]] 1", "reason", "missing"],
        ),
        (
            "tolerance = 0.5",
            "tolerance = 0.5\nwhat = \"slope\"",
            &["what", "slope", "knee"],
        ),
        (
            "after = 50884.5",
            "",
            &["[[published]] 1", "before and after"],
        ),
        (
            "source = \"mail\"",
            "source = \"\"",
            &["[[published]] 1", "source"],
        ),
        ("kernel = ", "kernel == ", &["small.toml", "line 3"]),
    ] {
        let text = SMALL.replacen(from, to, 1);
        assert_ne!(text, SMALL, "{from} is in the file");
        let message = parse(&text).expect_err(to);
        assert!(!message.contains('\n'), "{message}");
        for word in words {
            assert!(message.contains(word), "{word} is not in: {message}");
        }
    }
}

#[test]
fn a_stream_is_found_beside_the_file() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let file = dir.path().join("e.toml");
    let text = SMALL.replacen("axis =", "placement = \"stream:addresses.txt\"\naxis =", 1);
    std::fs::write(&file, text).expect("written");
    let stream = dir.path().join("addresses.txt");
    std::fs::write(&stream, "").expect("written");
    let experiment = Experiment::read(&file).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(experiment.placements, [Placement::Stream(stream)]);
    assert_eq!(experiment.name, "e");
}

#[test]
fn an_expectation_runs_on_the_model_with_what_it_compares() {
    let small = small();
    let narrowed = small
        .narrowed("test", &small.expectations[0])
        .expect("it was read");
    assert_eq!(narrowed.backends, [Backend::Model]);
    assert_eq!(narrowed.machines, ["i7-9700"]);
    assert_eq!(narrowed.variants, [Variant::Cgroup, Variant::Parent]);
    assert_eq!(narrowed.axes["depth"], [3, 5]);
    assert_eq!(narrowed.repeats, 1);
}

/// Samples of the narrowed experiment: `of(variant, depth, seed)` is the metric.
fn answers(small: &Experiment, of: impl Fn(Variant, u64, u64) -> f64) -> Vec<Sample> {
    let narrowed = small
        .narrowed("test", &small.expectations[0])
        .expect("it was read");
    let mut samples = Vec::new();
    for point in narrowed.points() {
        for seed in 1..=2 {
            let keys = narrowed.keys(&point, "i7-9700", "0");
            let value = Some(of(point.variant, point.depth(), seed));
            let metric = small.expectations[0].metric.clone();
            let status = Status::Estimated;
            samples.push(Sample::new(
                &keys,
                seed,
                0,
                metric,
                "1".into(),
                value,
                status,
                "".into(),
            ));
        }
    }
    samples
}

/// `cgroup` minus `parent` must be 1.5 to 2.5 at both depths, on both CPU counts, for both seeds.
#[test]
fn a_value_must_hold_at_every_point_and_for_every_seed() {
    let small = small();
    let expectation = &small.expectations[0];
    let holds = answers(&small, |variant, depth, seed| {
        (depth + seed) as f64 + if variant == Variant::Cgroup { 2.0 } else { 0.0 }
    });
    let judgement = expectation.judge(&holds);
    assert!(judgement.holds, "{}", judgement.got);
    assert_eq!(judgement.got, "2");

    let one_off = answers(&small, |variant, depth, seed| {
        match (variant, depth, seed) {
            (Variant::Parent, ..) => 1.0,
            (_, 5, 2) => 7.0,
            _ => 3.0,
        }
    });
    let judgement = expectation.judge(&one_off);
    assert!(!judgement.holds);
    assert!(
        judgement.got.starts_with("2..6; 6 at cgroup"),
        "{}",
        judgement.got
    );
    assert!(judgement.got.ends_with("x=5 seed=2"), "{}", judgement.got);

    let nothing = expectation.judge(&[]);
    assert!(!nothing.holds, "what was not run was not verified");
}

#[test]
fn a_knee_is_judged_per_curve_and_flat_counts_as_beyond() {
    let text = SMALL
        .replacen(
            "depth = [3, 5] }",
            "depth = [0, 1, 2, 3, 4, 5, 6, 7], cpus = 1 }",
            1,
        )
        .replacen(
            "minus = \"parent\"\nvalue = 2\ntolerance = 0.5",
            "what = \"knee\"\nmin = 5",
            1,
        );
    for (rise, max, holds, got) in [
        (Some(5), None, true, "5"),
        (Some(4), None, false, "4"),
        (None, None, true, "none"),
        (None, Some(6.0), false, "none"),
    ] {
        let mut small = parse(&text).expect("a knee is an expectation");
        small.expectations[0].max = max;
        let samples = answers(&small, |_, depth, _| {
            if rise.is_some_and(|at| depth >= at) {
                20.0
            } else {
                10.0
            }
        });
        let judgement = small.expectations[0].judge(&samples);
        assert_eq!(
            (judgement.holds, judgement.got.as_str()),
            (holds, got),
            "{rise:?} {max:?}"
        );
    }
}
