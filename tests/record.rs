//! Results folders: what is written, read back, refused, and left after a failure.

use std::fs;
use std::path::Path;

use kwalk::experiment::Experiment;
use kwalk::machine::{Confidence, Core, Machine, MainMemory};
use kwalk::record::{
    Attribution, FolderError, Keys, Provenance, Recorder, Results, Sample, Sharing, Status,
};

fn provenance() -> Provenance {
    let experiment = Experiment::find("psi-depth").expect("it is built in");
    Provenance::new(&experiment, "2026-11-30T21:55:34Z".into())
}

fn sample(depth: u64, value: Option<f64>) -> Sample {
    let keys = Keys {
        experiment: "psi-depth".into(),
        machine: "host:A, \"B\"".into(),
        backend: "native".into(),
        kernel: "psi-depth".into(),
        variant: "parent".into(),
        point: format!("depth={depth}"),
        axis: "depth".into(),
        x: depth.to_string(),
        ..Keys::default()
    };
    let metric = "cycles_per_visit".into();
    let detail = "one, two\nthree".into();
    Sample::new(
        &keys,
        1,
        0,
        metric,
        "cycles".into(),
        value,
        Status::Exact,
        detail,
    )
}

fn machine(name: &str) -> Machine {
    let (source, confidence) = (String::from("a test"), Confidence::Inferred);
    Machine {
        name: name.into(),
        title: "A machine".into(),
        arch: "x86-64".into(),
        core: Core {
            clock_hz: 1_000_000_000,
            tsc_hz: None,
            window: 1,
            issue_width: 1,
            load_ports: 1,
            store_ports: 1,
            memory_ports: 2,
            store_buffer: 1,
            forward_cycles: 1,
            locked_cycles: 1,
            mispredict_cycles: 1,
            source: source.clone(),
            confidence,
        },
        caches: Vec::new(),
        tlbs: Vec::new(),
        memory: MainMemory {
            latency_cycles: 100.0,
            page_walk_cycles: 10,
            walk_cache_entries: Vec::new(),
            source,
            confidence,
        },
        prefetchers: Vec::new(),
        interconnect: None,
    }
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(dir)
        .expect("the folder is there")
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    names.sort();
    names
}

const FILES: [&str; 7] = [
    "attribution.csv",
    "machines",
    "run.toml",
    "samples.csv",
    "sharing.csv",
    "summary.csv",
    "verdicts.csv",
];

#[test]
fn what_was_written_is_read_back() {
    let temp = tempfile::tempdir().expect("a temporary folder");
    let dir = temp.path().join("a/b");
    let mut recorder = Recorder::create(&dir, false, provenance()).expect("created");
    let samples = [sample(5, Some(0.1 + 0.2)), sample(8, None)];
    let text = || String::from("x");
    let keys = samples[0].keys();
    let attribution = Attribution::new(
        &keys,
        text(),
        text(),
        text(),
        1,
        2,
        text(),
        text(),
        0.5,
        0.25,
        7.0,
    );
    let sharing = Sharing::new(
        &keys,
        text(),
        1,
        text(),
        text(),
        text(),
        text(),
        text(),
        2.0,
    );
    recorder
        .machine(&machine("host:A, \"B\""))
        .expect("written");
    recorder.attribution(&attribution).expect("written");
    recorder.sharing(&sharing).expect("written");
    for sample in &samples {
        recorder.sample(sample.clone()).expect("written");
    }
    recorder.note("A note.").expect("written");
    recorder.note("A note.").expect("written");
    let finished = recorder.finish().expect("written");
    assert_eq!(names(&dir), FILES);
    assert_eq!(names(&dir.join("machines")), ["host-A-B.toml"]);

    let results = Results::read(&dir).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(results.samples, samples);
    assert_eq!(results.attributions, [attribution]);
    assert_eq!(results.sharings, [sharing]);
    assert_eq!(results.summaries, finished.summaries);
    assert_eq!(results.verdicts, finished.verdicts);
    assert_eq!(results.summaries.len(), 2);
    let provenance = results.provenance;
    assert_eq!(provenance.notes, ["A note."]);
    assert_eq!(provenance.machines, ["host:A, \"B\""]);
    assert_eq!(provenance.baseline, "parent");
    assert!(provenance.text.contains("psi-depth") && !provenance.finished.is_empty());
    let again = Experiment::parse("psi-depth", Path::new("run.toml"), &provenance.text);
    assert!(again.is_ok(), "the text of the experiment is kept whole");
    let file = dir.join("machines/host-A-B.toml");
    let read: Machine = toml::from_str(&fs::read_to_string(file).expect("read")).expect("parsed");
    assert_eq!(read, machine("host:A, \"B\""));
}

/// The columns of schema 1; files without rows have them, too.
#[test]
fn every_file_has_its_header() {
    let temp = tempfile::tempdir().expect("a temporary folder");
    let dir = temp.path().join("r");
    Recorder::create(&dir, false, provenance())
        .expect("created")
        .finish()
        .expect("written");
    let keys = "schema,experiment,machine,backend,kernel,variant,layout,placement,pages,start,\
                point,axis,x,cpu";
    for (file, own) in [
        ("samples.csv", "seed,repeat,metric,unit,value,status,detail"),
        (
            "summary.csv",
            "metric,unit,n,median,ci_low,ci_high,placement_share,status",
        ),
        (
            "attribution.csv",
            "function,struct,field,line,set,level,cause,misses_per_op,misses_per_visit,\
             cycles_per_op",
        ),
        (
            "sharing.csv",
            "struct,line,field_a,field_b,cpu_a,cpu_b,kind,transfers_per_op",
        ),
    ] {
        let text = fs::read_to_string(dir.join(file)).expect("read");
        assert_eq!(text, format!("{keys},{own}\n"), "{file}");
    }
    let keys = keys.replace(",x,", ",");
    let own = "baseline,what,value,unit,ci_low,ci_high,p_adjusted,words";
    let text = fs::read_to_string(dir.join("verdicts.csv")).expect("read");
    assert_eq!(text, format!("{keys},{own}\n"));
}

/// The run ends without `finish`, as when it is interrupted or a backend fails.
#[test]
fn a_run_that_fails_keeps_its_rows_and_leaves_nothing_without_any() {
    let temp = tempfile::tempdir().expect("a temporary folder");
    let dir = temp.path().join("a/b");
    let mut recorder = Recorder::create(&dir, false, provenance()).expect("created");
    recorder.machine(&machine("m")).expect("written");
    drop(recorder);
    assert!(names(temp.path()).is_empty(), "nor the folders above it");

    let mut recorder = Recorder::create(&dir, false, provenance()).expect("created");
    recorder.sample(sample(5, Some(1.0))).expect("written");
    let on_disk = fs::read_to_string(dir.join("samples.csv")).expect("read");
    assert_eq!(
        on_disk.matches("cycles_per_visit").count(),
        1,
        "flushed as it came"
    );
    drop(recorder);
    let results = Results::read(&dir).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(results.samples.len(), 1);
    assert_eq!(results.summaries.len(), 1);
    assert_eq!(results.provenance.finished, "", "interrupted");
}

#[test]
fn an_existing_folder_is_refused_and_force_replaces_results_only() {
    let temp = tempfile::tempdir().expect("a temporary folder");
    let dir = temp.path().join("r");
    let create = |force| Recorder::create(&dir, force, provenance());
    let mut first = create(false).expect("created");
    first.sample(sample(5, Some(1.0))).expect("written");
    first.finish().expect("written");
    assert!(matches!(create(false), Err(FolderError::Exists(_))));

    // A forced run that fails before its first row leaves the old results.
    drop(create(true).expect("ours"));
    assert_eq!(Results::read(&dir).expect("still there").samples.len(), 1);
    assert_eq!(names(temp.path()), ["r"]);

    let mut second = create(true).expect("ours");
    second.sample(sample(5, Some(2.0))).expect("written");
    second.finish().expect("written");
    let samples = Results::read(&dir).expect("written anew").samples;
    assert_eq!(samples[0].value, Some(2.0));
    assert_eq!(names(temp.path()), ["r"]);

    let foreign = temp.path().join("f");
    fs::create_dir(&foreign).expect("created");
    let create = || Recorder::create(&foreign, true, provenance());
    fs::write(foreign.join("run.toml"), "mine = 1").expect("written");
    assert!(matches!(create(), Err(FolderError::NotOurs(_))));
    assert_eq!(names(&foreign), ["run.toml"]);
    fs::remove_file(foreign.join("run.toml")).expect("removed");
    create()
        .expect("an empty folder may be used")
        .finish()
        .expect("written");

    let file = temp.path().join("file");
    fs::write(&file, "text").expect("written");
    assert!(matches!(
        Recorder::create(&file, true, provenance()),
        Err(FolderError::NotOurs(_))
    ));
    assert!(matches!(
        Recorder::create(&file.join("below"), false, provenance()),
        Err(FolderError::Unwritable { .. })
    ));
    assert_eq!(fs::read_to_string(&file).expect("read"), "text");
}

#[test]
fn what_is_no_results_folder_is_refused_in_a_sentence() {
    let temp = tempfile::tempdir().expect("a temporary folder");
    let message = Results::read(temp.path()).expect_err("empty").to_string();
    assert!(
        message.contains("run.toml") && message.contains("kwalk run"),
        "{message}"
    );
    fs::write(temp.path().join("run.toml"), "schema = \"one\"").expect("written");
    let message = Results::read(temp.path())
        .expect_err("no schema")
        .to_string();
    assert!(message.contains("run.toml"), "{message}");
}
