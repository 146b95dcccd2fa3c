//! Lines that several cores use, as `perf c2c` shows them: who touches which bytes, and what that
//! costs.

use std::fmt::Write as _;

use crate::streams::shared::{SharedLine, SharedLines};

/// Lines shown at most.
const MOST_LINES: usize = 12;
/// Offsets of one core shown at most.
const MOST_SPOTS: usize = 4;

/// The table, within 80 columns. `name` says what lies at a spot; nothing, where nobody knows.
pub(super) fn text(shared: &SharedLines, name: &dyn Fn(u32) -> String) -> String {
    let contended = shared.contended();
    let mut text = String::from("\nlines shared by cores and written by at least one");
    if contended.is_empty() {
        text.push_str(": none\n");
    } else {
        text.push_str(
            "\nline, core       loads  stores went, sharing  offsets, what (w: written)\n",
        );
    }
    for (address, line) in contended.iter().take(MOST_LINES) {
        one(*address, line, name, &mut text);
    }
    let rest = contended.len().saturating_sub(MOST_LINES);
    if rest > 0 {
        let went: u64 = contended
            .iter()
            .skip(MOST_LINES)
            .map(|(_, l)| l.transfers())
            .sum();
        let _ = writeln!(text, "  {rest} more lines, which went {went} times");
    }
    let _ = writeln!(
        text,
        "  {} lines are only read, by several cores",
        shared.read_only()
    );
    text
}

fn one(address: u64, line: &SharedLine, name: &dyn Fn(u32) -> String, text: &mut String) {
    let went = match line.transfers() {
        0 => "-".to_string(),
        went => format!("{went} {}", line.kind()),
    };
    let _ = writeln!(text, "{:31}{went}", format!("{address:#x}"));
    for (core, user) in &line.users {
        let head = format!("  core {core:<6}{:>8}{:>8}", user.loads, user.stores);
        let mut head = format!("{head:45}");
        // Written bytes first: they are what makes a line go. Offsets of one name share a row.
        let mut rows: Vec<(bool, String, Vec<u32>)> = Vec::new();
        for (offset, (what, written)) in &user.spots {
            let name = name(*what);
            match rows.iter_mut().find(|(w, n, _)| w == written && *n == name) {
                Some((.., offsets)) => offsets.push(*offset),
                None => rows.push((*written, name, vec![*offset])),
            }
        }
        rows.sort_by_key(|(written, ..)| !written);
        for (written, name, offsets) in rows.iter().take(MOST_SPOTS) {
            let mark = if *written { "w " } else { "" };
            let offsets: Vec<String> = offsets.iter().map(u32::to_string).collect();
            let spot = format!("{mark}{} {name}", offsets.join(","));
            let spot: String = spot.chars().take(80 - head.len()).collect();
            let _ = writeln!(text, "{head}{}", spot.trim_end());
            head = " ".repeat(head.len());
        }
        let rest = rows.len().saturating_sub(MOST_SPOTS);
        if rest > 0 {
            let _ = writeln!(text, "{head}+ {rest} more");
        }
    }
}
