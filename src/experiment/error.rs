//! What can be wrong with an experiment.

use std::path::PathBuf;

/// What can be wrong with an experiment, or with what the command line changes in it. Each message
/// names the place and the key and says what would have been accepted.
#[derive(Debug, thiserror::Error)]
pub enum ExperimentError {
    /// Neither a file nor built in.
    #[error("experiment {name} is neither a file nor built in; built in are {known}{hint}")]
    UnknownExperiment {
        /// As given.
        name: String,
        /// Built-in names.
        known: String,
        /// `; did you mean ...?` or empty.
        hint: String,
    },
    /// The file is there and cannot be read.
    #[error("{}: cannot be read as an experiment ({source}); accepted: a name from `kwalk list`, or a file", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Not TOML.
    #[error("{}: line {line} is no TOML: {message}", file.display())]
    Toml {
        /// The file.
        file: PathBuf,
        /// 1-based.
        line: usize,
        /// The parser's words.
        message: String,
    },
    /// A key that means nothing there.
    #[error("{place}: key {key} is unknown; accepted are {known}{hint}")]
    UnknownKey {
        /// File and table, or option.
        place: String,
        /// As given.
        key: String,
        /// Accepted keys.
        known: String,
        /// `; did you mean ...?` or empty.
        hint: String,
    },
    /// A value that the key does not take.
    #[error("{place}: {key} = {value} is refused; accepted: {accepted}{hint}")]
    Value {
        /// File and table, or option.
        place: String,
        /// The key.
        key: String,
        /// As given.
        value: String,
        /// What would be accepted.
        accepted: String,
        /// `; did you mean ...?` or empty.
        hint: String,
    },
    /// A key that must be there.
    #[error("{place}: key {key} is missing; accepted: {accepted}")]
    Missing {
        /// File and table.
        place: String,
        /// The key.
        key: String,
        /// What would be accepted.
        accepted: String,
    },
}

impl ExperimentError {
    pub(crate) fn value(
        place: &str,
        key: &str,
        value: impl std::fmt::Display,
        accepted: impl Into<String>,
    ) -> ExperimentError {
        ExperimentError::Value {
            place: place.into(),
            key: key.into(),
            value: value.to_string(),
            accepted: accepted.into(),
            hint: String::new(),
        }
    }
}
