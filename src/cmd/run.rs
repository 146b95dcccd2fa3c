//! `kwalk run`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::bail;
use indicatif::{ProgressBar, ProgressStyle};

use super::table;
use crate::experiment::{Experiment, ExperimentError};
use crate::record::notes::folded;
use crate::record::{Provenance, Recorder, default_folder, utc};
use crate::report;
use crate::run::{self, Row, RunOptions};
use crate::wrap::wrap;

/// Run experiments and write one results folder for each.
#[derive(Debug, clap::Args)]
pub(super) struct RunArgs {
    /// Names from `kwalk list`, or files
    #[arg(required = true, value_name = "EXPERIMENT")]
    experiments: Vec<String>,
    /// What runs the kernel: native, model
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    backend: Vec<String>,
    /// Machines that the model models: catalogue names, or host
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    machine: Vec<String>,
    /// Layouts: names, or btf for that of the Linux that runs
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    layout: Vec<String>,
    /// Other values for one key, such as depth=5,50 or start=warm; repeatable
    #[arg(long, value_name = "KEY=V1,V2")]
    set: Vec<String>,
    /// Measurements of each point
    #[arg(long, value_name = "N")]
    repeats: Option<String>,
    /// A first answer within 10 s: fewer points and repeats
    #[arg(long)]
    quick: bool,
    /// Results folder; with several experiments the folder of their folders
    /// [default: out/EXPERIMENT-DATE-TIME]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Overwrite an existing results folder of kwalk
    #[arg(long)]
    force: bool,
}

pub(super) fn run(args: &RunArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    // All of them are read before the first runs: a slip in the last must not cost a run.
    let mut runs = Vec::new();
    for name in &args.experiments {
        let experiment = chosen(name, args)?;
        run::prepare(&experiment)?;
        let dir = match (&args.out, args.experiments.len()) {
            (Some(dir), 1) => dir.clone(),
            (Some(dir), _) => dir.join(&experiment.name),
            (None, _) => default_folder(&experiment.name, SystemTime::now()),
        };
        Recorder::accepts(&dir, args.force)?;
        if runs.iter().any(|(_, other)| *other == dir) {
            bail!("experiment {name} is named twice; accepted: each once");
        }
        runs.push((experiment, dir));
    }
    for (experiment, dir) in &runs {
        one(experiment, dir, args.force, out)?;
    }
    Ok(())
}

/// The experiment called `name`, with what the options change.
fn chosen(name: &str, args: &RunArgs) -> Result<Experiment, ExperimentError> {
    let mut experiment = Experiment::find(name)?;
    if args.quick {
        experiment.apply_quick();
    }
    for (key, values) in [
        ("backend", &args.backend),
        ("machine", &args.machine),
        ("layout", &args.layout),
    ] {
        if !values.is_empty() {
            experiment.set(&format!("--{key}"), key, values)?;
        }
    }
    if let Some(repeats) = &args.repeats {
        experiment.set("--repeats", "repeats", std::slice::from_ref(repeats))?;
    }
    for setting in &args.set {
        let Some((key, values)) = setting.split_once('=') else {
            return Err(ExperimentError::Value {
                place: "--set".into(),
                key: "setting".into(),
                value: setting.clone(),
                accepted: "key=value or key=value,value".into(),
                hint: String::new(),
            });
        };
        let values: Vec<String> = values.split(',').map(str::to_string).collect();
        experiment.set("--set", key.trim(), &values)?;
    }
    Ok(experiment)
}

fn one(
    experiment: &Experiment,
    dir: &Path,
    force: bool,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let provenance = Provenance::new(experiment, utc(SystemTime::now()));
    let mut recorder = Recorder::create(dir, force, provenance)?;
    for file in experiment.streams() {
        recorder.keep_stream(file)?;
    }
    let bar = progress(experiment);
    let options = RunOptions { attribution: true };
    let outcome = run::run(experiment, &options, &mut |row| match row {
        Row::Machine(machine) => recorder.machine(&machine),
        Row::Sample(sample) => recorder.sample(sample),
        Row::Attribution(row) => recorder.attribution(&row),
        Row::Sharing(row) => recorder.sharing(&row),
        Row::Note(note) => recorder.note(&note),
        Row::PointDone => {
            bar.inc(1);
            Ok(())
        }
    });
    bar.finish_and_clear();
    outcome?;
    let finished = recorder.finish()?;
    table::print(&finished.summaries, experiment.baseline.name(), out)?;
    writeln!(out, "results  {}", finished.dir.display())?;
    let report = report::write(&finished.dir)?;
    writeln!(out, "report   {}", report.display())?;
    out.flush()?;
    eprint!("{}", notes(&finished.notes, width()));
    Ok(())
}

/// What the run says of itself, under a heading and within `width` columns.
fn notes(notes: &[String], width: usize) -> String {
    let mut text = String::new();
    if !notes.is_empty() {
        text.push_str("\nnotes\n");
    }
    for note in folded(notes) {
        text.push_str(&wrap(&note, width, "- ", "  "));
    }
    text
}

/// Columns of the terminal behind standard error, at most 100: longer lines are hard to read.
fn width() -> usize {
    let columns = rustix::termios::tcgetwinsize(std::io::stderr()).map_or(0, |size| size.ws_col);
    match usize::from(columns) {
        0 => 80,
        columns => columns.clamp(40, 100),
    }
}

/// One step per point, on standard error; nothing where that is no terminal.
fn progress(experiment: &Experiment) -> ProgressBar {
    let bar = ProgressBar::new(experiment.points().len() as u64);
    let style = "{prefix}  {bar:40}  {pos}/{len} points  {eta} left";
    bar.set_style(ProgressStyle::with_template(style).expect("the template is right"));
    bar.set_prefix(experiment.name.clone());
    bar
}
