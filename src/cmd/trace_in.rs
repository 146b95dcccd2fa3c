//! What commands that read a trace have in common.

use std::io::{self, Write};

use std::path::Path;

use crate::streams::steps::{Choice, Deed, Round};
use crate::streams::{Stream, StreamError, looks_like_a_stream};
use crate::trace::{self, Kind, Reference, Source, Trace};

/// How a trace is written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Format {
    /// valgrind --tool=lackey --trace-mem=yes
    Lackey,
    /// Dinero: `label address [size]` in hexadecimal
    Din,
    /// little-endian 64-bit addresses
    RawU64,
    /// recorded accesses of Linux, with fields and functions
    LinuxStream,
}

impl Format {
    fn of_program(self) -> Option<trace::Format> {
        match self {
            Format::Lackey => Some(trace::Format::Lackey),
            Format::Din => Some(trace::Format::Din),
            Format::RawU64 => Some(trace::Format::RawU64),
            Format::LinuxStream => None,
        }
    }
}

/// Which trace.
#[derive(Debug, clap::Args)]
pub(super) struct TraceArgs {
    /// Trace file, gzip or not; - is standard input
    #[arg(value_name = "TRACE")]
    pub trace: String,
    /// How it is written down [default: by its name, or how it begins]
    #[arg(long, value_name = "NAME")]
    pub format: Option<Format>,
}

/// Whether the trace called `name` is a recorded stream: as `format` says, or else how it begins.
pub(super) fn is_stream(name: &str, format: Option<Format>) -> bool {
    match format {
        Some(format) => format == Format::LinuxStream,
        None => looks_like_a_stream(name),
    }
}

/// Read a recorded stream that has accesses.
pub(super) fn stream(name: &str) -> Result<Stream, StreamError> {
    let file = Path::new(name);
    let stream = Stream::read(file)?;
    if stream.accesses().next().is_none() {
        return Err(StreamError::Line {
            file: file.into(),
            line: stream.lines.max(1),
            what: "the file ends, and no line of it is an access; accepted: a recorded stream, of lines \"n cpu psi pc RW size \
                   vaddr paddr value label\""
                .into(),
        });
    }
    Ok(stream)
}

/// The accesses of a round, at physical addresses.
pub(super) fn references(round: &Round) -> Vec<Reference> {
    let reference = |step: &crate::streams::steps::Step| Reference {
        kind: match step.deed {
            Deed::Load => Kind::Load,
            Deed::Store => Kind::Store,
            Deed::Modify => Kind::Modify,
        },
        bytes: step.bytes,
        addr: step.paddr,
        site: 0,
    };
    round.steps.iter().map(reference).collect()
}

/// Open it; a guessed format is told on standard error. A recorded stream yields physical addresses.
pub(super) fn open(name: &str, format: Option<Format>) -> anyhow::Result<Trace> {
    if is_stream(name, format) {
        let round = Round::of(&[stream(name)?], Choice::default());
        return Ok(Trace::ready(name, references(&round)));
    }
    let trace = Trace::open(Source::named(name), format.and_then(Format::of_program))?;
    if let Some(guess) = trace.guessed_from() {
        note(&format!(
            "{}: read as {}, by {guess}; --format names another",
            trace.name(),
            trace.format()
        ));
    }
    Ok(trace)
}

/// What is to say of a trace that was read: fetches left out, a line without an end. An error if
/// nothing but fetches is in it.
pub(super) fn tell(trace: &Trace, fetches: u64) -> anyhow::Result<()> {
    if trace.last_line_is_unended() {
        note(&format!(
            "{}: the last line has no newline: its size may be cut",
            trace.name()
        ));
    }
    if fetches > 0 {
        note(&format!(
            "{}: {fetches} of {} references fetch instructions and are left out",
            trace.name(),
            trace.references()
        ));
    }
    if fetches == trace.references() {
        anyhow::bail!(
            "{}: all {fetches} references fetch instructions; accepted: a trace with loads or stores \
             (of lackey: --trace-mem=yes)",
            trace.name()
        );
    }
    Ok(())
}

/// Write a header and rows as CSV.
pub(super) fn csv<const N: usize>(
    columns: &[&str; N],
    rows: impl Iterator<Item = [String; N]>,
    out: &mut dyn Write,
) -> io::Result<()> {
    // csv wraps errors of the output: a reader that left must stay to be told from others.
    let unwrapped = |error: csv::Error| match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    };
    let mut csv = csv::Writer::from_writer(out);
    csv.write_record(columns).map_err(unwrapped)?;
    for row in rows {
        csv.write_record(row).map_err(unwrapped)?;
    }
    csv.flush()
}

/// One line on standard error; a closed one is no reason to stop.
pub(super) fn note(text: &str) {
    let _ = writeln!(io::stderr(), "kwalk: note: {text}");
}
