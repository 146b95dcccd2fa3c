//! `kwalk check`.

use std::io::Write;

use super::CheckFailed;
use crate::experiment::Experiment;
use crate::record::Sample;
use crate::run::{self, Row, RunOptions};

/// Verify what theory says about experiments, on the model.
#[derive(Debug, clap::Args)]
pub(super) struct CheckArgs {
    /// Names from `kwalk list`, or files
    #[arg(required = true, value_name = "EXPERIMENT")]
    experiments: Vec<String>,
}

pub(super) fn check(args: &CheckArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let experiments = args
        .experiments
        .iter()
        .map(|name| Experiment::find(name))
        .collect::<Result<Vec<_>, _>>()?;
    let (mut failed, mut all) = (0, 0);
    for experiment in &experiments {
        if experiment.expectations.is_empty() {
            eprintln!("note: {} states no expectation", experiment.name);
        }
        for (i, expectation) in experiment.expectations.iter().enumerate() {
            let place = format!("{}: [[expect]] {}", experiment.file.display(), i + 1);
            let narrowed = experiment.narrowed(&place, expectation)?;
            let samples = samples(&narrowed)?;
            let judgement = expectation.judge(&samples);
            all += 1;
            failed += usize::from(!judgement.holds);
            writeln!(
                out,
                "{:6}  {} {}: {} [{}]: got {} ({})",
                if judgement.holds { "ok" } else { "FAILED" },
                experiment.name,
                i + 1,
                expectation.statement(),
                expectation.conditions(),
                judgement.got,
                expectation.reason,
            )?;
        }
    }
    if failed > 0 {
        return Err(CheckFailed { failed, all }.into());
    }
    writeln!(out, "{all} expectations hold")?;
    Ok(())
}

fn samples(experiment: &Experiment) -> anyhow::Result<Vec<Sample>> {
    run::prepare(experiment)?;
    let mut samples = Vec::new();
    let options = RunOptions { attribution: false };
    run::run(experiment, &options, &mut |row| {
        if let Row::Sample(sample) = row {
            samples.push(sample);
        }
        Ok(())
    })?;
    Ok(samples)
}
