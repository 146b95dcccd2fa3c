//! Lines that several cores use, as `perf c2c` shows them: who touches which bytes, and what that
//! costs.

use std::fmt::Write as _;

use crate::streams::shared::{SharedLine, SharedLines};

/// Lines shown at most.
const MOST_LINES: usize = 12;
/// Offsets of one core shown at most.
const MOST_SPOTS: usize = 4;

/// The table, within 80 columns. `name` says what lies at a spot; nothing, where nobody knows.
pub(super) fn text(shared: &SharedLines, name: &dyn Fn(u16) -> String) -> String {
    let contended = shared.contended();
    let mut text = String::from("\nlines shared by cores and written by at least one");
    if contended.is_empty() {
        text.push_str(": none\n");
    } else {
        text.push_str(
            "\nline, core         loads  stores  went, sharing  offset: what (w written)\n",
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

fn one(address: u64, line: &SharedLine, name: &dyn Fn(u16) -> String, text: &mut String) {
    let went = match line.transfers() {
        0 => "-".to_string(),
        went => format!("{went} {}", line.kind()),
    };
    let _ = writeln!(text, "{:32}{went:>13}", format!("{address:#x}"));
    for (core, user) in &line.users {
        let mut head = format!(
            "  core {core:<9}{:>8}{:>8}{:15}",
            user.loads, user.stores, ""
        );
        // Written bytes first: they are what makes a line go.
        let mut spots: Vec<(&u32, &(u16, bool))> = user.spots.iter().collect();
        spots.sort_by_key(|(offset, (_, written))| (!written, **offset));
        for (offset, (what, written)) in spots.iter().take(MOST_SPOTS) {
            let mark = if *written { "w" } else { " " };
            let spot = format!("{offset:>2}{mark} {}", name(*what));
            let spot: String = spot.chars().take(48).collect();
            let _ = writeln!(text, "{head}{}", spot.trim_end());
            head = " ".repeat(head.chars().count());
        }
        let rest = spots.len().saturating_sub(MOST_SPOTS);
        if rest > 0 {
            let _ = writeln!(text, "{head}+ {rest} offsets");
        }
    }
}
