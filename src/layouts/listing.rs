//! A struct as a listing in the manner of pahole: offsets, lines, holes, and what the PSI walk
//! touches. At most [`COLUMNS`] wide.

use std::fmt::Write as _;

use kernels::layout::{FieldLayout, Layout, MissingField, StructLayout};

use crate::wrap::wrap;

/// Width of a listing.
pub const COLUMNS: usize = 100;

/// Size of the line at which rules are drawn, in bytes.
const LINE_BYTES: u32 = 64;

/// What the PSI walk does with a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch {
    /// Only read.
    Read,
    /// Read and written.
    ReadWrite,
}

/// Fields that the PSI walk touches, from the recorded accesses of 6.1.192 and 6.12.118:
/// `psi_task_change` and `psi_task_switch`, heads of the walks included. `cgroup.self.parent` and
/// `cgroup.psi` of inner levels are read only where Linux walks cgroups instead of
/// `psi_group.parent`.
pub const HOT: &[(&str, &str, Touch)] = &[
    ("psi_group", "parent", Touch::Read),
    ("psi_group", "enabled", Touch::Read),
    ("psi_group", "pcpu", Touch::Read),
    ("psi_group", "avgs_work", Touch::Read),
    ("psi_group", "rtpoll_states", Touch::Read),
    ("psi_group_cpu", "seq", Touch::ReadWrite),
    ("psi_group_cpu", "tasks", Touch::ReadWrite),
    ("psi_group_cpu", "state_mask", Touch::ReadWrite),
    ("psi_group_cpu", "times", Touch::ReadWrite),
    ("psi_group_cpu", "state_start", Touch::ReadWrite),
    ("cgroup", "self.parent", Touch::Read),
    ("cgroup", "kn", Touch::Read),
    ("cgroup", "psi", Touch::Read),
    ("css_set", "dfl_cgrp", Touch::Read),
    ("kernfs_node", "id", Touch::Read),
    ("task_struct", "pid", Touch::Read),
    ("task_struct", "psi_flags", Touch::ReadWrite),
    ("task_struct", "cgroups", Touch::Read),
    ("task_struct", "in_iowait", Touch::Read),
    ("task_struct", "in_memstall", Touch::Read),
    ("task_struct", "flags", Touch::Read),
    ("task_struct", "thread_info.cpu", Touch::Read),
    ("rq", "curr", Touch::Read),
];

/// The listing of `struct_name` in `layout`.
pub fn listing(layout: &Layout, struct_name: &str) -> Result<String, MissingField> {
    let s = layout.of(struct_name)?;
    let mut out = head(layout, s);
    let mut text = String::new();
    let hot: Vec<(&FieldLayout, Touch)> = HOT
        .iter()
        .filter(|(of, ..)| *of == struct_name)
        .filter_map(|(of, field, touch)| Some((layout.field(of, field).ok()?, *touch)))
        .collect();
    let mut rows = Rows::default();
    for f in &s.fields {
        if s.fields_complete {
            rows.hole(&mut text, f.offset_bytes, "hole");
        }
        let touch = hot.iter().find(|(h, _)| *h == f).map(|(_, touch)| *touch);
        // An array without elements at the very end begins no line of the struct.
        if f.offset_bytes < s.size_bytes {
            rows.rule(&mut text, f.offset_bytes);
        }
        rows.field(&mut text, f, touch);
    }
    if s.fields_complete {
        rows.hole(&mut text, s.size_bytes, "padding");
    }
    out += &text;
    out += &format!("{:-<COLUMNS$}\n", "");
    out += &foot(s, &rows, &hot);
    Ok(out)
}

fn head(layout: &Layout, s: &StructLayout) -> String {
    let align = match s.align_bytes {
        Some(bytes) => format!("{bytes}-aligned"),
        None => "alignment not in the source".into(),
    };
    let form = layout.psi_form;
    let mut out = format!(
        "struct {}: {} bytes, {} of {LINE_BYTES} bytes, {align}\n",
        s.name,
        s.size_bytes,
        count(s.size_bytes.div_ceil(LINE_BYTES), "line"),
    );
    let mut say = |text: String| out += &wrap(&text, COLUMNS, "", "  ");
    say(format!(
        "layout: {}; Linux {}, {}",
        layout.name, layout.version, layout.arch
    ));
    say(format!("configuration: {}", layout.config));
    say(format!("source: {}", s.source));
    say(format!(
        "accesses of the PSI walk: {} psi_group_cpu, states {}; {}",
        if form.seq_in_group_cpu {
            "sequence count in every"
        } else {
            "no sequence count in"
        },
        if form.states_one_by_one {
            "tested one by one"
        } else {
            "tested all at once"
        },
        if form.recorded {
            "recorded"
        } else {
            "inferred from neighbouring versions"
        },
    ));
    let _ = writeln!(
        out,
        "\n{:>6} {:>6} {:>6}  {:<34}  {:<32}  PSI walk",
        "offset", "size", "bits", "type", "field"
    );
    out
}

fn foot(s: &StructLayout, rows: &Rows, hot: &[(&FieldLayout, Touch)]) -> String {
    let mut text = format!(
        "size {} bytes, {}",
        s.size_bytes,
        count(s.size_bytes.div_ceil(LINE_BYTES), "line")
    );
    if !s.fields_complete {
        text += "; not all fields are listed, so a gap is not a hole";
    } else if rows.holes == 0 {
        text += "; no holes";
    } else {
        let _ = write!(
            text,
            "; {} with {} bytes",
            count(rows.holes, "hole"),
            rows.hole_bytes
        );
    }
    if s.fields_complete && rows.padding_bytes > 0 {
        let _ = write!(text, "; padding of {} bytes at the end", rows.padding_bytes);
    }
    if !hot.is_empty() {
        let mut lines: Vec<u32> = hot
            .iter()
            .map(|(f, _)| f.offset_bytes / LINE_BYTES)
            .collect();
        lines.sort_unstable();
        lines.dedup();
        let list: Vec<String> = lines.iter().map(u32::to_string).collect();
        let _ = write!(
            text,
            "; * = touched by the PSI walk (r read, w written), first bytes in line{} {}",
            if lines.len() == 1 { "" } else { "s" },
            list.join(", ")
        );
    }
    wrap(&text, COLUMNS, "", "  ")
}

/// What has been listed so far.
#[derive(Default)]
struct Rows {
    /// One past the last byte that a field covers, bit fields included.
    end_bytes: u32,
    /// Line of the last rule, if one was drawn.
    line: Option<u32>,
    /// The last field that stands for itself, for rules of lines that it spans.
    last: String,
    holes: u32,
    hole_bytes: u32,
    padding_bytes: u32,
}

impl Rows {
    /// Draw the rules up to the line of `offset`.
    fn rule(&mut self, out: &mut String, offset: u32) {
        let line = offset / LINE_BYTES;
        if self.line.is_some_and(|drawn| drawn >= line) {
            return;
        }
        // Lines that begin inside the last field and in which no other field begins.
        let first = self.line.map_or(0, |drawn| drawn + 1);
        let spanned = line.min(self.end_bytes.div_ceil(LINE_BYTES));
        if first < spanned {
            let which = if first + 1 == spanned {
                format!("line {first}")
            } else {
                format!("lines {first}-{}", spanned - 1)
            };
            let _ = writeln!(
                out,
                "{:-<COLUMNS$}",
                format!("-- {which}, within {} ", self.last)
            );
        }
        let _ = writeln!(out, "{:-<COLUMNS$}", format!("-- line {line} "));
        self.line = Some(line);
    }

    /// List the gap before `until`, if there is one.
    fn hole(&mut self, out: &mut String, until: u32, what: &str) {
        if until <= self.end_bytes {
            return;
        }
        let bytes = until - self.end_bytes;
        self.rule(out, self.end_bytes);
        let _ = writeln!(out, "{:>6} {bytes:>6} {:>6}  ({what})", self.end_bytes, "");
        if what == "hole" {
            self.holes += 1;
            self.hole_bytes += bytes;
        } else {
            self.padding_bytes += bytes;
        }
        self.last = format!("({what})");
        self.end_bytes = until;
    }

    fn field(&mut self, out: &mut String, f: &FieldLayout, touch: Option<Touch>) {
        // A bit field whose place is not known carries its width behind a colon.
        let (name, width) = f.name.split_once(':').unwrap_or((&f.name, ""));
        let bits = match f.bits {
            Some((first, 1)) => first.to_string(),
            Some((first, bits)) => format!("{first}-{}", first + bits - 1),
            None if !width.is_empty() => format!("?:{width}"),
            None => String::new(),
        };
        let touch = match touch {
            Some(Touch::Read) => "* r",
            Some(Touch::ReadWrite) => "* rw",
            None => "",
        };
        let row = format!(
            "{:>6} {:>6} {bits:>6}  {:<34}  {:<32}  {touch}",
            f.offset_bytes,
            f.size_bytes,
            cut(&f.type_name, 34),
            cut(name, 32),
        );
        let _ = writeln!(out, "{}", row.trim_end());
        let bytes = match f.bits {
            Some((first, bits)) => first.saturating_add(bits).div_ceil(8),
            None => f.size_bytes,
        };
        let end = f.offset_bytes.saturating_add(bytes);
        if end > self.end_bytes {
            self.end_bytes = end;
            self.last = name.into();
        }
    }
}

/// `1 line`, `2 lines`.
fn count(number: u32, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// `text`, or its beginning and an ellipsis if it has more than `width` characters.
fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.into();
    }
    text.chars().take(width - 1).chain(['…']).collect()
}
