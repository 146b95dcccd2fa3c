//! A results folder by formula: PSI walks whose misses follow from the placement.

use kwalk::record::{Attribution, Keys, Sample, Status, Summary, Verdict};
use serde::Serialize;
use std::path::Path;

/// An empty folder that goes when the test ends; kept where `KWALK_KEEP` is set, to be looked at.
pub fn scratch() -> tempfile::TempDir {
    let mut dir = tempfile::tempdir().unwrap();
    if std::env::var_os("KWALK_KEEP").is_some() {
        dir.disable_cleanup(true);
        eprintln!("kept: {}", dir.path().display());
    }
    dir
}

/// A machine of the folder.
pub struct Machine {
    pub name: String,
    pub ways: u32,
    pub native: bool,
}

/// What is in the folder.
pub struct Folder {
    pub machines: Vec<Machine>,
    pub variants: Vec<String>,
    pub depths: Vec<u32>,
    pub starts: Vec<String>,
    pub fields_suffix: String,
    pub note: String,
    pub model: bool,
    pub pipe: bool,
}

/// One field of the walk: struct, name, line in the struct, sets that its line can lie in.
const FIELDS: [(&str, &str, u32, u32); 6] = [
    ("cgroup", "self.parent", 2, 1),
    ("cgroup", "psi", 18, 1),
    ("psi_group", "pcpu", 0, 4),
    ("psi_group", "avgs_work", 1, 4),
    ("psi_group", "rtpoll_states", 10, 4),
    ("psi_group_cpu", "tasks", 0, 50),
];

impl Folder {
    /// Two machines, two variants, ten depths, two starts.
    pub fn small() -> Folder {
        Folder {
            machines: vec![
                Machine {
                    name: "host:Test CPU".into(),
                    ways: 12,
                    native: true,
                },
                Machine {
                    name: "i7-9700".into(),
                    ways: 8,
                    native: false,
                },
            ],
            variants: ["parent", "cgroup"].map(String::from).to_vec(),
            depths: vec![0, 1, 4, 8, 9, 13, 16, 25, 32, 50],
            starts: ["warm", "polluted:16"].map(String::from).to_vec(),
            fields_suffix: String::new(),
            note: "hugetlb-2m was refused: no free huge page; thp was used".into(),
            model: true,
            pipe: false,
        }
    }

    /// As large as a full run.
    pub fn full() -> Folder {
        let variants = [
            "parent",
            "cgroup",
            "cgroup-as-posted",
            "cgroup-ino-check",
            "inner-off",
            "parent-prefetch",
            "ancestors-array",
        ];
        let mut depths: Vec<u32> = (0..=14).collect();
        depths.extend([16, 20, 24, 25, 28, 29, 32, 40, 50, 64, 100, 200]);
        Folder {
            variants: variants.map(String::from).to_vec(),
            depths,
            starts: ["warm", "polluted:16", "polluted:3072", "flushed"]
                .map(String::from)
                .to_vec(),
            ..Folder::small()
        }
    }

    fn touches_cgroup(&self, variant: &str) -> bool {
        variant.starts_with("cgroup") || Some(variant) == self.variants.get(1).map(String::as_str)
    }

    /// Misses per visit of field `i`: one line per level, `sets` sets, LRU, cyclic: all miss when
    /// there are more levels in a set than ways. A start that is not warm misses everything.
    fn misses(
        &self,
        machine: &Machine,
        variant: &str,
        start: &str,
        depth: u32,
        i: usize,
    ) -> (&'static str, f64) {
        let (structure, _, _, sets) = FIELDS[i];
        if structure == "cgroup" && !self.touches_cgroup(variant) {
            return ("conflict", 0.0);
        }
        if start.starts_with("flushed") || start.starts_with("polluted") {
            return ("capacity", 1.0);
        }
        (
            "conflict",
            if depth > sets * machine.ways {
                1.0
            } else {
                0.0
            },
        )
    }

    /// TSC cycles per visit: 4.4 and 5.5 per miss on the model of this formula; the host is so
    /// much higher that the model is 8 % under it.
    pub fn cost(
        &self,
        machine: &Machine,
        backend: &str,
        variant: &str,
        start: &str,
        depth: u32,
    ) -> f64 {
        let misses: f64 = (0..FIELDS.len())
            .map(|i| self.misses(machine, variant, start, depth, i).1)
            .sum();
        let model = 4.4 + 5.5 * misses;
        if backend == "native" {
            model / 0.92
        } else {
            model
        }
    }

    fn keys(
        &self,
        machine: &Machine,
        backend: &str,
        variant: &str,
        start: &str,
        depth: u32,
    ) -> Keys {
        Keys {
            experiment: "psi-depth".into(),
            machine: machine.name.clone(),
            backend: backend.into(),
            kernel: "psi-depth".into(),
            variant: variant.into(),
            layout: "6.18.44-guest-x86-64".into(),
            placement: "slab".into(),
            pages: "thp".into(),
            start: start.into(),
            point: format!("depth={depth}"),
            axis: "depth".into(),
            x: depth.to_string(),
            cpu: if backend == "native" {
                "1".into()
            } else {
                "0".into()
            },
        }
    }

    /// Writes it all into `dir`.
    pub fn write(&self, dir: &Path) {
        let (mut samples, mut summary) = (Vec::new(), Vec::new());
        let (mut misses, mut verdicts) = (Vec::new(), Vec::new());
        for machine in &self.machines {
            let mut backends = Vec::new();
            if machine.native {
                backends.push("native");
            }
            if self.model {
                backends.push("model");
            }
            for backend in backends {
                for start in &self.starts {
                    for variant in &self.variants {
                        for depth in &self.depths {
                            self.point(
                                machine,
                                backend,
                                variant,
                                start,
                                *depth,
                                &mut samples,
                                &mut summary,
                            );
                            if backend == "model" {
                                self.attribution(machine, variant, start, *depth, &mut misses);
                            }
                        }
                        self.judge(machine, backend, variant, start, &mut verdicts);
                    }
                }
            }
        }
        if self.pipe {
            self.pipe_rows(&mut summary);
        }
        csv(dir, "samples.csv", &samples);
        csv(dir, "summary.csv", &summary);
        csv(dir, "attribution.csv", &misses);
        csv(dir, "verdicts.csv", &verdicts);
        self.toml(dir);
    }

    #[allow(clippy::too_many_arguments)]
    fn point(
        &self,
        machine: &Machine,
        backend: &str,
        variant: &str,
        start: &str,
        depth: u32,
        samples: &mut Vec<Sample>,
        summary: &mut Vec<Summary>,
    ) {
        let keys = self.keys(machine, backend, variant, start, depth);
        let value = self.cost(machine, backend, variant, start, depth);
        let native = backend == "native";
        let status = if native {
            Status::Exact
        } else {
            Status::Estimated
        };
        for repeat in 0..2 {
            samples.push(Sample::new(
                &keys,
                7,
                repeat,
                "tsc_cycles_per_visit".into(),
                "cycles".into(),
                Some(value),
                status,
                String::new(),
            ));
        }
        let interval = |share: f64| native.then_some(value * share);
        summary.push(Summary::new(
            &keys,
            "tsc_cycles_per_visit".into(),
            "cycles".into(),
            11,
            Some(value),
            interval(0.99),
            interval(1.01),
            None,
            status,
        ));
        if native {
            samples.push(Sample::new(
                &keys,
                7,
                0,
                "l1d_misses_per_visit".into(),
                "misses".into(),
                None,
                Status::Unavailable,
                "no hardware counters: the hypervisor shows no PMU".into(),
            ));
            summary.push(Summary::new(
                &keys,
                "l1d_misses_per_visit".into(),
                "misses".into(),
                0,
                None,
                None,
                None,
                None,
                Status::Unavailable,
            ));
        }
    }

    fn attribution(
        &self,
        machine: &Machine,
        variant: &str,
        start: &str,
        depth: u32,
        out: &mut Vec<Attribution>,
    ) {
        let keys = self.keys(machine, "model", variant, start, depth);
        for (i, (structure, field, line, sets)) in FIELDS.into_iter().enumerate() {
            let (cause, per_visit) = self.misses(machine, variant, start, depth, i);
            if per_visit == 0.0 {
                continue;
            }
            let per_op = per_visit * f64::from(depth + 1) / f64::from(sets);
            for set in 0..sets {
                let set = (line + 64 / sets * set) % 64;
                out.push(Attribution::new(
                    &keys,
                    "psi_group_change".into(),
                    structure.into(),
                    format!("{field}{}", self.fields_suffix),
                    line,
                    set,
                    "l1d".into(),
                    cause.into(),
                    per_op,
                    per_visit / f64::from(sets),
                    per_op * 5.5,
                ));
            }
        }
    }

    fn judge(
        &self,
        machine: &Machine,
        backend: &str,
        variant: &str,
        start: &str,
        out: &mut Vec<Verdict>,
    ) {
        let baseline = &self.variants[0];
        if variant == baseline {
            return;
        }
        let native = backend == "native";
        let mut knee = None;
        for depth in &self.depths {
            let base = self.cost(machine, backend, baseline, start, *depth);
            let value = self.cost(machine, backend, variant, start, *depth);
            let shift = value - base;
            if shift > 0.0 && knee.is_none() {
                knee = Some(f64::from(*depth));
            }
            let interval = |d: f64| native.then_some(shift + d);
            for (what, value, unit, low, high, p) in [
                (
                    "shift",
                    shift,
                    "cycles",
                    interval(-0.2),
                    interval(0.2),
                    Some(if shift > 0.2 { 0.001 } else { 0.9 }),
                ),
                ("ratio", value / base, "ratio", None, None, None),
            ] {
                out.push(Verdict {
                    words: format!("{variant} {what}"),
                    what: what.into(),
                    value: Some(value),
                    unit: unit.into(),
                    ci_low: low,
                    ci_high: high,
                    p_adjusted: p.filter(|_| native),
                    ..self.verdict(machine, backend, variant, start, *depth)
                });
            }
        }
        out.push(Verdict {
            point: String::new(),
            what: "knee".into(),
            value: knee,
            unit: "depth".into(),
            ..self.verdict(machine, backend, variant, start, 0)
        });
    }

    fn verdict(
        &self,
        machine: &Machine,
        backend: &str,
        variant: &str,
        start: &str,
        depth: u32,
    ) -> Verdict {
        let keys = self.keys(machine, backend, variant, start, depth);
        Verdict {
            schema: 1,
            experiment: keys.experiment,
            machine: keys.machine,
            backend: keys.backend,
            kernel: keys.kernel,
            variant: keys.variant,
            layout: keys.layout,
            placement: keys.placement,
            pages: keys.pages,
            start: keys.start,
            point: keys.point,
            axis: keys.axis,
            cpu: keys.cpu,
            baseline: self.variants[0].clone(),
            what: String::new(),
            value: None,
            unit: String::new(),
            ci_low: None,
            ci_high: None,
            p_adjusted: None,
            words: String::new(),
        }
    }

    /// Round trips on an i7-9700: 40 ns per visit with four lines, 60 with six.
    fn pipe_rows(&self, out: &mut Vec<Summary>) {
        let machine = &self.machines[1];
        for (variant, visit_ns) in [
            ("parent", 40.0),
            ("cgroup", 60.0),
            ("cgroup-as-posted", 60.0),
        ] {
            for depth in [0, 5, 8, 50] {
                let visits = match variant {
                    "cgroup-as-posted" => 4.0 * f64::from(depth + 1) + 2.0,
                    _ => 6.0 * f64::from(depth + 1),
                };
                let keys = Keys {
                    experiment: "psi-pipe".into(),
                    kernel: "psi-pipe".into(),
                    point: format!("cpus=2;depth={depth}"),
                    axis: "cpus".into(),
                    x: "2".into(),
                    ..self.keys(machine, "model", variant, "warm", depth)
                };
                for (metric, unit, value) in [
                    ("time_ns_per_op", "ns", visits * visit_ns),
                    ("visits_per_op", "visits", visits),
                ] {
                    out.push(Summary::new(
                        &keys,
                        metric.into(),
                        unit.into(),
                        1,
                        Some(value),
                        None,
                        None,
                        None,
                        Status::Estimated,
                    ));
                }
            }
        }
    }

    fn toml(&self, dir: &Path) {
        let mut run = toml::Table::new();
        run.insert("schema".into(), 1.into());
        run.insert(
            "command".into(),
            "kwalk run psi-depth --backend native,model --machine i7-9700".into(),
        );
        run.insert("revision".into(), "0123abc".into());
        run.insert("notes".into(), vec![self.note.clone()].into());
        run.insert(
            "not_modelled".into(),
            vec!["prefetchers".to_string(), "code fetches".to_string()].into(),
        );
        let experiments = if self.pipe {
            vec![EXPERIMENT, PIPE]
        } else {
            vec![EXPERIMENT]
        };
        run.insert("experiments".into(), experiments.into());
        std::fs::write(dir.join("run.toml"), run.to_string()).unwrap();
        std::fs::create_dir_all(dir.join("machines")).unwrap();
        for (i, machine) in self.machines.iter().enumerate() {
            let mut table: toml::Table = MACHINE.parse().unwrap();
            table.insert("name".into(), machine.name.clone().into());
            std::fs::write(dir.join(format!("machines/{i}.toml")), table.to_string()).unwrap();
        }
    }
}

fn csv<T: Serialize>(dir: &Path, file: &str, rows: &[T]) {
    let mut writer = csv::Writer::from_path(dir.join(file)).unwrap();
    for row in rows {
        writer.serialize(row).unwrap();
    }
    writer.flush().unwrap();
}

const EXPERIMENT: &str = r#"
question = "From which depth is walking cgroups slower than following psi_group->parent?"
kernel = "psi-depth"
variants = ["parent", "cgroup"]
layout = "6.18.44-guest-x86-64"
"#;

/// The rates of the patch's thread, Feb 2023.
const PIPE: &str = r#"
question = "What does a pipe round trip pay?"
kernel = "psi-pipe"
variants = ["parent", "cgroup"]
[[published]]
source = "rebased"
machine = "i7-9700"
metric = "ops_per_s"
unit = "1/s"
where = { depth = 0 }
variants = ["parent", "cgroup"]
before = 55718.9
after = 55862.2
[[published]]
source = "rebased"
machine = "i7-9700"
metric = "ops_per_s"
unit = "1/s"
where = { depth = 8 }
variants = ["parent", "cgroup"]
before = 48902.4
after = 47476.6
[[published]]
source = "rebased"
machine = "i7-9700"
metric = "ops_per_s"
unit = "1/s"
where = { depth = 50 }
variants = ["parent", "cgroup"]
before = 25605.74
after = 20417.28
[[published]]
source = "as posted"
machine = "i7-9700"
metric = "ops_per_s"
unit = "1/s"
where = { depth = 0 }
variants = ["parent", "cgroup-as-posted"]
before = 55352
after = 56036
[[published]]
source = "as posted"
machine = "i7-9700"
metric = "ops_per_s"
unit = "1/s"
where = { depth = 5 }
variants = ["parent", "cgroup-as-posted"]
before = 47821
after = 50884
"#;

const MACHINE: &str = r#"
name = "x"
title = "A machine of this test"
arch = "x86-64"
[core]
clock_hz = 4_700_000_000
window = 224
source = "memory of the optimisation manual"
confidence = "memory"
[[caches]]
level = 1
sets = 64
ways = 12
line_bytes = 64
source = "CPUID leaf 4"
confidence = "told"
[memory]
latency_cycles = 200
source = "measured by a chase"
confidence = "measured"
"#;
