//! `kwalk report`.

use std::io::Write;
use std::path::PathBuf;

use crate::report;

/// Write report.html of a results folder, or print it as text.
#[derive(Debug, clap::Args)]
pub(super) struct ReportArgs {
    /// Results folder that `kwalk run` wrote
    dir: PathBuf,
    /// Print plain text of 72 columns instead, for a mailing list
    #[arg(long)]
    text: bool,
}

pub(super) fn report(args: &ReportArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    if args.text {
        out.write_all(report::text(&args.dir)?.as_bytes())?;
    } else {
        writeln!(out, "{}", report::write(&args.dir)?.display())?;
    }
    Ok(())
}
