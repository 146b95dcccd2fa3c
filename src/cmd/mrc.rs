//! `kwalk mrc`.

use std::fmt::Write as _;
use std::io::Write;
use std::path::PathBuf;

use anyhow::Context;

use super::trace_in::{self, TraceArgs};
use crate::machine::host::size_words;
use crate::mrc::{Curve, MrcError, StackDistances, picture};
use crate::trace::Kind;

/// Misses of LRU caches of every size, from one pass over a trace.
///
/// Data references only; a modify is one. A reference that crosses lines is one request for each.
#[derive(Debug, clap::Args)]
pub(super) struct MrcArgs {
    #[command(flatten)]
    trace: TraceArgs,
    /// Line, a power of two
    #[arg(long, value_name = "BYTES", default_value_t = 64)]
    line: u64,
    /// And of caches of N sets (line modulo N), for every number of ways
    #[arg(long, value_name = "N")]
    sets: Option<u64>,
    /// Print every size at which misses change, as CSV
    #[arg(long)]
    csv: bool,
    /// Draw it to FILE as well
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

pub(super) fn mrc(args: &MrcArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    if !args.line.is_power_of_two() || args.line > 1 << 30 {
        return Err(MrcError::Line(args.line).into());
    }
    let shift = args.line.trailing_zeros();
    let mut distances = vec![StackDistances::new(1)?];
    if let Some(sets) = args.sets {
        distances.push(StackDistances::new(sets)?);
    }
    let mut trace = trace_in::open(&args.trace.trace, args.trace.format)?;
    let (mut block, mut fetches) = (Vec::new(), 0_u64);
    while trace.read_block(&mut block)? {
        for reference in &block {
            if reference.kind == Kind::Fetch {
                fetches += 1;
                continue;
            }
            for line in reference.lines(shift) {
                for distances in &mut distances {
                    distances.request(line)?;
                }
            }
        }
    }
    trace_in::tell(&trace, fetches)?;
    let curves: Vec<Curve> = distances.iter().map(|d| d.curve(args.line)).collect();
    if let Some(file) = &args.svg {
        std::fs::write(file, picture::svg(&curves, trace.name())).with_context(|| {
            format!("{}: cannot be written; --csv needs no file", file.display())
        })?;
    }
    if args.csv {
        let rows = curves.iter().flat_map(Curve::rows);
        trace_in::csv(&Curve::COLUMNS, rows, out)?;
        return Ok(());
    }
    for curve in &curves {
        out.write_all(digest(curve).as_bytes())?;
    }
    Ok(())
}

/// Rows of a digest that are no powers of two.
const MOST_KNEES: usize = 12;

/// Powers of two and knees, within 80 columns.
fn digest(curve: &Curve) -> String {
    let mut text = String::new();
    let of = match curve.sets {
        1 => "fully associative".to_string(),
        sets => format!("{sets} sets"),
    };
    let _ = writeln!(
        text,
        "{of}, LRU, {}-byte lines: {} requests for {} lines",
        curve.line_bytes, curve.requests, curve.compulsory
    );
    let knees = curve.knees(MOST_KNEES);
    let enough = curve.enough_ways();
    let mut rows: Vec<u64> = (0..63)
        .map(|power| 1 << power)
        .take_while(|ways| *ways < enough)
        .chain(knees.iter().map(|knee| knee.ways))
        .chain([enough.max(1)])
        .collect();
    rows.sort_unstable();
    rows.dedup();
    let _ = writeln!(
        text,
        "{:>10} {:>10} {:>14} {:>11} {:>14}",
        "size", "ways", "misses", "miss ratio", "not compulsory"
    );
    for ways in rows {
        let misses = curve.misses(ways);
        let knee = if knees.iter().any(|k| k.ways == ways) {
            "  knee"
        } else {
            ""
        };
        let _ = writeln!(
            text,
            "{:>10} {ways:>10} {misses:>14} {:>11.6} {:>14}{knee}",
            size_words(curve.size_bytes(ways)),
            curve.miss_ratio(ways),
            misses - curve.compulsory.min(misses),
        );
    }
    text
}
