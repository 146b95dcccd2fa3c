//! `kwalk list`.

use std::io::Write;

use crate::experiment::{BUILT_IN, Experiment};

/// List the built-in experiments and their questions.
#[derive(Debug, clap::Args)]
pub(super) struct ListArgs {}

pub(super) fn list(_args: &ListArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let width = BUILT_IN.iter().map(|b| b.name.len()).max().unwrap_or(0);
    for built_in in BUILT_IN {
        let experiment = Experiment::find(built_in.name)?;
        writeln!(out, "{:width$}  {}", experiment.name, experiment.question)?;
    }
    Ok(())
}
