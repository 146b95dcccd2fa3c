//! Where kernel and backend meet.

use crate::experiment::Experiment;
use crate::machine::Machine;
use crate::record::{Attribution, RecorderError, Sample, Sharing};

/// What a run need not do.
#[derive(Clone, Copy, Debug)]
pub struct RunOptions {
    /// Whether misses are booked to fields and sets: `check` needs no such rows.
    pub attribution: bool,
}

/// What a run yields, as it goes on.
#[derive(Clone, Debug)]
pub enum Row {
    /// A machine that rows will name.
    Machine(Box<Machine>),
    /// One raw value.
    Sample(Sample),
    /// Misses of one field in one set.
    Attribution(Attribution),
    /// Lines that moved between cores.
    Sharing(Sharing),
    /// A sentence about the run as a whole.
    Note(String),
    /// A point of [`Experiment::points`] was run with all its arenas and repeats.
    PointDone,
}

/// Takes each row; what it returns as an error ends the run.
pub type Sink<'a> = dyn FnMut(Row) -> Result<(), RecorderError> + 'a;

/// Why a run ended early, or did not begin.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Wrong input: a machine, layout or field that is not there. Exit code 2.
    #[error("{0}")]
    Input(String),
    /// Nothing that was asked can be measured here. Exit code 3.
    #[error("{0}")]
    Nothing(String),
    /// A row could not be written. Exit code 2.
    #[error(transparent)]
    Recorder(#[from] RecorderError),
}

/// Look up all that `experiment` names, machines, layouts and the fields that the kernel needs, so
/// that wrong input is refused before a folder is made.
///
/// # Errors
/// [`RunError::Input`] names what is unknown and what would be accepted.
pub fn prepare(experiment: &Experiment) -> Result<(), RunError> {
    let _ = experiment;
    Ok(())
}

/// Run all points of `experiment`.
///
/// # Errors
/// If nothing can be measured, or `sink` fails.
pub fn run(
    experiment: &Experiment,
    options: &RunOptions,
    sink: &mut Sink<'_>,
) -> Result<(), RunError> {
    let _ = (experiment, options, sink);
    Err(RunError::Nothing("no backend is built in".into()))
}
