//! `run.toml`: what a reader of the results must know to judge or repeat the run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::SCHEMA;
use crate::experiment::Experiment;

/// Contents of `run.toml`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Provenance {
    /// Version of the columns.
    pub schema: u32,
    /// Version of kwalk.
    pub version: String,
    /// Git revision that it was built from, or `unknown`.
    pub revision: String,
    /// The command as given.
    pub command: Vec<String>,
    /// Name of the experiment.
    pub experiment: String,
    /// Its file, or `NAME (built in)`.
    pub file: String,
    /// Variant that the others are compared with.
    pub baseline: String,
    /// Of the first arena.
    pub seed: u64,
    /// Start of the run in UTC.
    pub started: String,
    /// Its end; empty: interrupted.
    #[serde(default)]
    pub finished: String,
    /// Machines that rows name, in the order of their appearance.
    #[serde(default)]
    pub machines: Vec<String>,
    /// What was refused or disturbed, one sentence each.
    #[serde(default)]
    pub notes: Vec<String>,
    /// State of the host: what sysfs and procfs say, by name.
    #[serde(default)]
    pub host: BTreeMap<String, String>,
    /// Text of the experiment's file. What the command changed is in `command`.
    #[serde(default)]
    pub text: String,
}

impl Provenance {
    /// Of a run of `experiment` that starts now, before anything was measured.
    #[must_use]
    pub fn new(experiment: &Experiment, started: String) -> Provenance {
        Provenance {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION").into(),
            revision: revision().into(),
            command: command_line(),
            experiment: experiment.name.clone(),
            file: experiment.file.display().to_string(),
            baseline: experiment.baseline.to_string(),
            seed: experiment.seed,
            started,
            text: experiment.text.clone(),
            ..Provenance::default()
        }
    }
}

/// Git revision that this program was built from, or `unknown`.
#[must_use]
pub fn revision() -> &'static str {
    env!("KWALK_REVISION")
}

/// The command as given; what is not UTF-8 in it is replaced.
#[must_use]
pub fn command_line() -> Vec<String> {
    std::env::args_os()
        .map(|arg| arg.to_string_lossy().into_owned())
        .collect()
}
