//! What commands that read a trace have in common.

use std::io::{self, Write};

use crate::trace::{Format, Source, Trace, TraceError};

/// Which trace.
#[derive(Debug, clap::Args)]
pub(super) struct TraceArgs {
    /// Trace file, gzip or not; - is standard input
    #[arg(value_name = "TRACE")]
    trace: String,
    /// How it is written down [default: by its name, or how it begins]
    #[arg(long, value_name = "NAME")]
    format: Option<Format>,
}

/// Open it; a guessed format is told on standard error.
pub(super) fn open(args: &TraceArgs) -> Result<Trace, TraceError> {
    let trace = Trace::open(Source::named(&args.trace), args.format)?;
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
