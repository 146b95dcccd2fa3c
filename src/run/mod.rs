//! Where kernel and backend meet: points become cases, cases run on real memory or on a model, and
//! what they yield becomes rows.

mod case;
mod machines;
mod modelled;
mod native;
mod rows;

pub use case::{Case, Position};

use std::collections::HashMap;
use std::path::PathBuf;

use kernels::layout::Layout;
use kernels::psi::{PsiOffsets, RecordedPlacement};

use crate::experiment::{Backend, Experiment, Placement, Point, Start};
use crate::layouts;
use crate::machine::Machine;
use crate::native::affinity;
use crate::record::{Attribution, RecorderError, Sample, Sharing};
use crate::streams::Stream;
use crate::streams::background::Background;

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

fn input(error: impl std::fmt::Display) -> RunError {
    RunError::Input(error.to_string())
}

/// All data that points name, read once.
pub(crate) struct Sources {
    layouts: HashMap<String, Layout>,
    streams: HashMap<PathBuf, RecordedPlacement>,
    backgrounds: HashMap<PathBuf, Background>,
}

impl Sources {
    fn read(experiment: &Experiment) -> Result<Sources, RunError> {
        let mut sources = Sources {
            layouts: HashMap::new(),
            streams: HashMap::new(),
            backgrounds: HashMap::new(),
        };
        for name in &experiment.layouts {
            let layout = layouts::resolve(name).map_err(input)?;
            PsiOffsets::resolve(&layout).map_err(input)?;
            sources.layouts.insert(name.clone(), layout);
        }
        for placement in &experiment.placements {
            if let Placement::Stream(path) = placement {
                let stream = Stream::read(path).map_err(input)?;
                sources.streams.insert(path.clone(), stream.placement);
            }
        }
        for start in &experiment.starts {
            if let Start::Stream(path) = start {
                let background = Background::read(path).map_err(input)?;
                sources.backgrounds.insert(path.clone(), background);
            }
        }
        Ok(sources)
    }

    /// What runs between two operations of `point`, if its start is a recording.
    fn background(&self, point: &Point) -> Option<&Background> {
        match &point.start {
            Start::Stream(path) => Some(&self.backgrounds[path]),
            _ => None,
        }
    }

    fn layout(&self, point: &Point) -> &Layout {
        &self.layouts[&point.layout]
    }

    fn placement(&self, point: &Point) -> kernels::psi::Placement {
        match &point.placement {
            Placement::Slab => kernels::psi::Placement::Slab,
            Placement::Packed => kernels::psi::Placement::Packed,
            Placement::Coloured => kernels::psi::Placement::Coloured,
            Placement::Stream(path) => {
                kernels::psi::Placement::Recorded(self.streams[path].clone())
            }
        }
    }
}

/// Look up all that `experiment` names, machines, layouts, streams and the fields that the kernel
/// needs, and place every tree once, so that wrong input is refused before a folder is made.
///
/// # Errors
/// [`RunError::Input`] names what is unknown and what would be accepted.
pub fn prepare(experiment: &Experiment) -> Result<(), RunError> {
    let sources = Sources::read(experiment)?;
    if experiment.backends.contains(&Backend::Model) {
        for name in experiment.machines.iter().filter(|n| *n != machines::HOST) {
            machines::find(name)?;
        }
    }
    let mut placed: Vec<(String, String, u64)> = Vec::new();
    for point in experiment.points() {
        let key = (
            point.layout.clone(),
            point.placement.to_string(),
            point.depth(),
        );
        if !placed.contains(&key) {
            Case::new(experiment, &sources, &point, experiment.seed)?;
            placed.push(key);
        }
    }
    Ok(())
}

/// Run all points of `experiment`: native first, alone on the machine, then the models.
///
/// # Errors
/// If nothing can be measured, or `sink` fails.
pub fn run(
    experiment: &Experiment,
    options: &RunOptions,
    sink: &mut Sink<'_>,
) -> Result<(), RunError> {
    let sources = Sources::read(experiment)?;
    note_layouts(&sources, sink)?;
    let points = experiment.points();
    let (natives, models): (Vec<Point>, Vec<Point>) = points
        .into_iter()
        .partition(|p| p.backend == Backend::Native);
    if models.is_empty() && !natives.is_empty() && natives.iter().all(|p| p.cpus() == 2) {
        // Points that need two CPUs are unavailable rows beside others; alone they are nothing.
        affinity::choose(2).map_err(|e| RunError::Nothing(e.to_string()))?;
    }
    if models.is_empty()
        && !natives.is_empty()
        && natives.iter().all(|p| matches!(p.start, Start::Stream(_)))
    {
        return Err(RunError::Nothing(format!(
            "{}; --backend model runs these points, other starts work on native",
            native::NO_STREAM
        )));
    }
    let asked = machines::Asked {
        native: !natives.is_empty(),
        models: models.iter().map(|p| p.machine.clone()).collect(),
    };
    let machines = machines::Machines::new(&asked, sink)?;
    if !natives.is_empty() {
        native::run(experiment, &sources, &machines, &natives, sink)?;
    }
    if !models.is_empty() {
        modelled::run(experiment, &sources, &machines, &models, *options, sink)?;
    }
    Ok(())
}

/// What a reader should know of a layout: assumptions stay visible.
fn note_layouts(sources: &Sources, sink: &mut Sink<'_>) -> Result<(), RunError> {
    let mut names: Vec<&String> = sources.layouts.keys().collect();
    names.sort();
    for name in names {
        let layout = &sources.layouts[name];
        if !layout.psi_form.recorded {
            sink(Row::Note(format!(
                "layout {name} (Linux {}): the order and width of its accesses are inferred from the nearest recorded version",
                layout.version
            )))?;
        }
        if !layout.allocation.strides_observed {
            sink(Row::Note(format!(
                "layout {name}: the distance between psi_group_cpu objects ({:?} bytes) is inferred from the nearest recorded version",
                layout.allocation.group_cpu_strides_bytes
            )))?;
        }
    }
    Ok(())
}
