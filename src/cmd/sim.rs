//! `kwalk sim`.

use std::fmt::Write as _;
use std::io::{BufWriter, Write};

use anyhow::bail;
use kernels::memory::Field;

use super::machine::{first_allowed, host_machine};
use super::sim_cores;
use super::sim_stream::{Output, StreamArgs, Streams};
use super::trace_in::{self, Format};
use crate::machine::{Machine, catalogue};
use crate::model::classify::Cause;
use crate::model::hierarchy::Kind as Access;
use crate::model::page_map::{Frames, PageMapOptions};
use crate::model::{Access as Asked, Model, ModelOptions};
use crate::trace::{Kind, Reference, Trace, din};

/// Run any program's trace through the modelled caches and TLBs of one core.
///
/// Counts only: a trace does not say what depends on what, so there is no time. A modify is a load
/// and a store. A reference that crosses lines is one request for each. Instruction fetches are
/// left out.
///
/// Recorded streams of Linux run at their physical addresses, each CPU on a core of its own, with
/// misses by function, field and cause, and with what-if edits.
#[derive(Debug, clap::Args)]
pub(super) struct SimArgs {
    /// Trace file, gzip or not; - is standard input. Several run on a core each, in turns
    #[arg(value_name = "TRACE", required = true)]
    traces: Vec<String>,
    /// How they are written down [default: by their names, or how they begin]
    #[arg(long, value_name = "NAME")]
    format: Option<Format>,
    #[command(flatten)]
    streams: StreamArgs,
    /// Machine: a catalogue name, a machine file, or host
    #[arg(long, value_name = "NAME", required_unless_present = "to")]
    machine: Option<String>,
    /// Pages, a power of two from 4096 to 1073741824
    #[arg(long, value_name = "BYTES", default_value_t = 4096)]
    page_bytes: u64,
    /// The trace is that of a guest whose host maps it by pages of this size
    #[arg(long, value_name = "BYTES")]
    host_page_bytes: Option<u64>,
    /// Draws page frames, and victims where replacement is random
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Physical addresses are those of the trace, instead of frames drawn by the seed
    #[arg(long)]
    identity: bool,
    /// Print CSV
    #[arg(long)]
    csv: bool,
    /// Write in another format to standard output: the trace (din), or its misses (cachegrind)
    #[arg(long, value_name = "FORMAT", conflicts_with = "csv")]
    to: Option<To>,
}

/// The machine that is this host.
const HOST: &str = "host";

/// Formats that are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum To {
    /// Dinero: `label address size` in hexadecimal
    Din,
    /// For cg_annotate and KCachegrind: struct as file, offset as line; of recorded streams only
    Cachegrind,
}

/// References of a trace, by kind.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub loads: u64,
    pub stores: u64,
    pub modifies: u64,
    pub fetches: u64,
}

impl Counts {
    /// One more of `kind`.
    pub(super) fn add(&mut self, kind: Kind) {
        *match kind {
            Kind::Fetch => &mut self.fetches,
            Kind::Load => &mut self.loads,
            Kind::Store => &mut self.stores,
            Kind::Modify => &mut self.modifies,
        } += 1;
    }
}

/// What a reference is to the caches: a modify is a load and a store.
pub(super) fn accesses(kind: Kind) -> &'static [Access] {
    match kind {
        Kind::Fetch => &[],
        Kind::Load => &[Access::Load],
        Kind::Store => &[Access::Store],
        Kind::Modify => &[Access::Load, Access::Store],
    }
}

pub(super) fn sim(args: &SimArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let to = args.to;
    if to == Some(To::Din) && args.machine.is_some() {
        bail!("--to din does not run the trace; accepted: no --machine with it");
    }
    let mut streams = args.traces.iter();
    if streams.any(|name| trace_in::is_stream(name, args.format)) {
        return sim_streams(args, out);
    }
    if let Some(option) = args.streams.given() {
        bail!("{option} needs recorded streams (--format linux-stream); all other options work");
    }
    if to == Some(To::Cachegrind) {
        bail!(
            "--to cachegrind: a program's trace names no function and no field; accepted: recorded streams \
             (--format linux-stream), or valgrind --tool=cachegrind PROGRAM"
        );
    }
    if to == Some(To::Din) {
        let [name] = &args.traces[..] else {
            bail!("--to din: {} traces; accepted: one", args.traces.len());
        };
        return convert(&mut trace_in::open(name, args.format)?, out);
    }
    // clap has asked for it.
    let machine = machine(args.machine.as_deref().unwrap_or(HOST))?;
    let frames = if args.identity {
        Frames::Identity
    } else {
        Frames::Seeded
    };
    let pages = PageMapOptions {
        page_bytes: args.page_bytes,
        frames,
        host_page_bytes: args.host_page_bytes,
    };
    let [name] = &args.traces[..] else {
        let names = &args.traces;
        return sim_cores::run(
            names,
            args.format,
            &machine,
            pages,
            args.seed,
            args.csv,
            out,
        );
    };
    let mut model = Model::new(&machine, pages, args.seed, ModelOptions::default())?;
    let mut trace = trace_in::open(name, args.format)?;
    let (mut block, mut counts) = (Vec::new(), Counts::default());
    let mut asked = Vec::with_capacity(AT_ONCE);
    while trace.read_block(&mut block)? {
        drive(&mut model, &block, &mut counts, &mut asked);
    }
    trace_in::tell(&trace, counts.fetches)?;
    if !args.identity {
        trace_in::note(&format!(
            "page frames are drawn by seed {}: in which sets of physically indexed levels data \
             falls is assumed; --identity takes the trace's addresses for physical ones",
            args.seed
        ));
    }
    let rows = rows(&machine, &model, counts);
    if args.csv {
        let cells = rows
            .iter()
            .map(|row| [&machine.name, &row.level, row.metric, &row.value].map(String::from));
        trace_in::csv(&["machine", "level", "metric", "value"], cells, out)?;
    } else {
        out.write_all(table(&machine, &rows).as_bytes())?;
    }
    Ok(())
}

/// Recorded streams.
fn sim_streams(args: &SimArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let other = |name: &&String| !trace_in::is_stream(name, args.format);
    if let Some(name) = args.traces.iter().find(other) {
        bail!(
            "{name}: does not begin as a recorded stream, as the other traces do; accepted: traces of one \
             kind, or --format linux-stream"
        );
    }
    let streams = Streams::read(&args.traces, &args.streams)?;
    let output = match (args.to, args.csv) {
        (Some(To::Din), _) => return streams.write_din(out),
        (Some(To::Cachegrind), _) => Output::Cachegrind,
        (None, true) => Output::Csv,
        (None, false) => Output::Tables,
    };
    let Some(name) = &args.machine else {
        bail!("--to cachegrind counts misses, so it needs --machine NAME");
    };
    let pages = PageMapOptions {
        page_bytes: args.page_bytes,
        // The recording has physical addresses.
        frames: Frames::Identity,
        host_page_bytes: args.host_page_bytes,
    };
    streams.run(&machine(name)?, pages, args.seed, output, out)
}

fn machine(name: &str) -> anyhow::Result<Machine> {
    if name == HOST {
        return Ok(host_machine(first_allowed())?.machine);
    }
    Ok(catalogue::find(name)?)
}

/// Accesses that are shown to the model at once.
const AT_ONCE: usize = 4096;

/// Show a block of references to the model, in order. `asked` is room for what they ask for.
fn drive(model: &mut Model, block: &[Reference], counts: &mut Counts, asked: &mut Vec<Asked>) {
    let shift = model.hierarchy().line_shift();
    // Nothing is booked here.
    let field = Field {
        id: 0,
        offset_bytes: 0,
    };
    for reference in block {
        counts.add(reference.kind);
        for kind in accesses(reference.kind) {
            for line in reference.lines(shift) {
                asked.push(Asked {
                    addr: reference.addr.max(line << shift),
                    field,
                    // One byte of each line stands for all of it.
                    bytes: 1,
                    kind: *kind,
                });
                // A reference may have any number of lines.
                if asked.len() == AT_ONCE {
                    model.present_all(asked);
                    asked.clear();
                }
            }
        }
    }
    model.present_all(asked);
    asked.clear();
}

fn convert(trace: &mut Trace, out: &mut dyn Write) -> anyhow::Result<()> {
    // Standard output by itself is flushed at each line.
    let mut out = BufWriter::with_capacity(64 << 10, out);
    let mut block = Vec::new();
    while trace.read_block(&mut block)? {
        din::write(&block, &mut out)?;
    }
    trace_in::tell(trace, 0)?;
    Ok(out.flush()?)
}

/// One number. `level` is `trace`, `l1d`, `l2`, ..., `dtlb` or `stlb`.
struct Row {
    level: String,
    metric: &'static str,
    value: String,
}

/// As CSV files spell it.
pub(super) fn level_name(level: u8) -> String {
    match level {
        1 => "l1d".into(),
        level => format!("l{level}"),
    }
}

/// Quantities of a cache level, in the order of the table.
const OF_LEVEL: [&str; 13] = [
    "loads",
    "stores",
    "load_misses",
    "store_misses",
    "hits",
    "misses",
    "miss_ratio",
    "compulsory_misses",
    "capacity_misses",
    "conflict_misses",
    "evictions",
    "writebacks",
    "back_invalidations",
];

fn rows(machine: &Machine, model: &Model, counts: Counts) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut add = |level: &str, metric, value: String| {
        rows.push(Row {
            level: level.to_string(),
            metric,
            value,
        });
    };
    for (metric, count) in [
        ("loads", counts.loads),
        ("stores", counts.stores),
        ("modifies", counts.modifies),
        ("fetches_left_out", counts.fetches),
    ] {
        add("trace", metric, count.to_string());
    }
    for (cache, stats) in machine.caches.iter().zip(model.hierarchy().stats()) {
        let level = level_name(cache.level);
        let requests = stats.loads.requests + stats.stores.requests;
        let misses = stats.demand_misses();
        let ratio = (requests > 0).then(|| misses as f64 / requests as f64);
        // Empty, not 0, where nobody looked.
        let cause = |cause: Cause| match cache.level {
            1 => stats.causes[cause as usize].to_string(),
            _ => String::new(),
        };
        let values = [
            stats.loads.requests.to_string(),
            stats.stores.requests.to_string(),
            stats.loads.misses.to_string(),
            stats.stores.misses.to_string(),
            (requests - misses).to_string(),
            misses.to_string(),
            ratio.map_or(String::new(), |ratio| format!("{ratio:.6}")),
            cause(Cause::Compulsory),
            cause(Cause::Capacity),
            cause(Cause::Conflict),
            stats.evictions.to_string(),
            stats.writebacks.to_string(),
            stats.back_invalidations.to_string(),
        ];
        for (metric, value) in OF_LEVEL.into_iter().zip(values) {
            add(&level, metric, value);
        }
    }
    let tlb = model.tlb_stats();
    for (number, level, requests, misses) in [
        (1, "dtlb", tlb.requests, tlb.dtlb_misses),
        (2, "stlb", tlb.dtlb_misses, tlb.walks),
    ] {
        // A level may be several tables, one for each page size.
        if machine.tlbs.iter().any(|own| own.level == number) {
            add(level, "requests", requests.to_string());
            add(level, "misses", misses.to_string());
        }
    }
    if !machine.tlbs.is_empty() {
        add("tlb", "page_walks", tlb.walks.to_string());
    }
    rows
}

/// Within 80 columns: quantities down, levels across.
fn table(machine: &Machine, rows: &[Row]) -> String {
    let value = |level: &str, metric: &str| {
        let row = rows.iter().find(|r| r.level == level && r.metric == metric);
        row.map_or("", |row| row.value.as_str())
    };
    let count = |metric| value("trace", metric);
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{} ({}), one core\ntrace: {} loads, {} stores, {} modifies, {} fetches left out\n",
        machine.title,
        machine.name,
        count("loads"),
        count("stores"),
        count("modifies"),
        count("fetches_left_out"),
    );
    let levels: Vec<String> = machine.caches.iter().map(|c| level_name(c.level)).collect();
    let _ = write!(text, "{:18}", "");
    for level in &levels {
        let _ = write!(text, " {level:>14}");
    }
    text.push('\n');
    for metric in OF_LEVEL {
        let _ = write!(text, "{:18}", metric.replace('_', " "));
        for level in &levels {
            let value = value(level, metric);
            let _ = write!(text, " {:>14}", if value.is_empty() { "-" } else { value });
        }
        text.push('\n');
    }
    text.push('\n');
    for row in rows.iter().filter(|row| row.level.ends_with("tlb")) {
        let name = format!("{} {}", row.level, row.metric.replace('_', " "));
        let _ = writeln!(text, "{name:18} {:>14}", row.value);
    }
    text
}
