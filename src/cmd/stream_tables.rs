//! What `kwalk sim` prints of a recorded stream: tables within 80 columns.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use super::shared_table;
use crate::machine::Machine;
use crate::model::attribution::MissLevel;
use crate::model::classify::Cause;
use crate::streams::edit::Edit;
use crate::streams::replay::{Replayed, spot_name};
use crate::streams::steps::{Deed, Round};

/// What was run, and what came of it.
pub(super) struct Told<'a> {
    pub machine: &'a Machine,
    pub names: &'a [String],
    pub round: &'a Round,
    pub replayed: &'a Replayed,
    pub rounds: u32,
    /// Whether the recorded path is PSI.
    pub psi: bool,
    pub psi_lines: bool,
    pub edits: &'a [Edit],
    /// The round without the edits, and its L1D misses inside the path.
    pub before: Option<(&'a Round, u64)>,
}

/// All, in the order of the tables.
pub(super) const CAUSES: [Cause; 6] = [
    Cause::Compulsory,
    Cause::Capacity,
    Cause::Conflict,
    Cause::TrueSharing,
    Cause::FalseSharing,
    Cause::Translation,
];

/// Rows of a table at most; `--csv` has all.
const MOST_ROWS: usize = 14;
/// Columns of a name, and of a number.
const NAME: usize = 37;
const NUMBER: usize = 9;

impl Told<'_> {
    /// Caches from the innermost on, and TLBs.
    pub(super) fn levels(&self) -> Vec<MissLevel> {
        let caches = self.machine.caches.iter();
        let mut levels: Vec<MissLevel> = caches.map(|c| MissLevel::Cache(c.level)).collect();
        let tlbs = [(1, MissLevel::Dtlb), (2, MissLevel::Stlb)];
        let has = |number: u8| self.machine.tlbs.iter().any(|tlb| tlb.level == number);
        levels.extend(
            tlbs.into_iter()
                .filter(|(n, _)| has(*n))
                .map(|(_, level)| level),
        );
        levels
    }

    /// Walks over the groups; 0 where others than these were recorded.
    pub(super) fn walks(&self, round: &Round) -> u64 {
        if self.psi { round.walks } else { 0 }
    }

    fn path(&self) -> &'static str {
        if self.psi { "PSI" } else { "the recorded path" }
    }

    /// Accesses by what `key` makes of them, and misses by level.
    fn sums<K: Ord>(
        &self,
        of_step: impl Fn(u16, u16) -> K,
    ) -> Vec<(K, u64, BTreeMap<MissLevel, u64>, f64)> {
        let mut sums: BTreeMap<K, (u64, BTreeMap<MissLevel, u64>, f64)> = BTreeMap::new();
        for step in &self.round.steps {
            sums.entry(of_step(step.site, step.target)).or_default().0 += 1;
        }
        for row in &self.replayed.misses {
            let sum = sums.entry(of_step(row.function, row.field)).or_default();
            *sum.1.entry(row.level).or_default() += row.misses;
            sum.2 += row.cycles;
        }
        let sums = sums.into_iter();
        let mut all: Vec<_> = sums
            .map(|(key, (n, misses, cycles))| (key, n, misses, cycles))
            .collect();
        let first = |misses: &BTreeMap<MissLevel, u64>| {
            misses.get(&MissLevel::Cache(1)).copied().unwrap_or(0)
        };
        // Stable: equals stay in the order of their keys.
        all.sort_by(|a, b| {
            let by_misses = first(&b.2).cmp(&first(&a.2));
            by_misses.then(b.3.total_cmp(&a.3)).then(b.1.cmp(&a.1))
        });
        all
    }
}

/// The table.
pub(super) fn text(told: &Told<'_>) -> String {
    let mut text = String::new();
    head(told, &mut text);
    inside(told, &mut text);
    causes(told, &mut text);
    let names = &told.round.names;
    let function = |site: u16, _| {
        let site = &names.sites[usize::from(site)];
        (site.path > 0, site.function.clone())
    };
    let sums = told.sums(function).into_iter();
    let mark = "*";
    let rows = sums.map(|((inside, name), accesses, misses, cycles)| {
        let mark = if inside { mark } else { " " };
        (format!("{mark} {name}"), accesses, misses, cycles)
    });
    let title = format!("by function ({mark} inside)");
    table(told, &title, rows.collect(), &mut text);
    let field = |_, target: u16| names.targets[usize::from(target)].owner.path();
    table(told, "by struct.field@offset", told.sums(field), &mut text);
    if told.round.cores.len() > 1 {
        cores(told, &mut text);
        let spot = |number: u32| spot_name(told.round, number);
        text.push_str(&shared_table::text(&told.replayed.shared, &spot));
    }
    text
}

fn plural(count: u64, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        _ => format!("{count} {what}s"),
    }
}

fn head(told: &Told<'_>, text: &mut String) {
    let count = |deed: Deed| told.round.steps.iter().filter(|s| s.deed == deed).count() as u64;
    let cores = plural(told.round.cores.len() as u64, "core");
    let _ = writeln!(text, "{} ({})", told.machine.title, told.machine.name);
    for name in told.names {
        let file = Path::new(name).file_name();
        let file = file.map_or(name.clone(), |f| f.to_string_lossy().into_owned());
        let _ = writeln!(text, "{file}");
    }
    for edit in told.edits {
        let _ = writeln!(text, "  with {edit}");
    }
    let which = if told.psi_lines {
        ", PSI's lines only"
    } else {
        ""
    };
    let _ = writeln!(
        text,
        "{cores}{which}; round {} of {} counted: {}, {}, {}",
        told.rounds,
        told.rounds,
        plural(count(Deed::Load), "load"),
        plural(count(Deed::Store), "store"),
        plural(count(Deed::Modify), "read-modify-write"),
    );
}

fn inside(told: &Told<'_>, text: &mut String) {
    let misses = told.replayed.inside_misses(told.round);
    let path = told.path();
    let per_walk = |misses: u64, walks: u64| misses as f64 / walks as f64;
    let _ = match told.walks(told.round) {
        0 => writeln!(text, "\nL1D misses inside {path}: {misses}"),
        walks => writeln!(
            text,
            "\nL1D misses inside {path}: {:.2} per walk ({misses} in {}, {})",
            per_walk(misses, walks),
            plural(walks, "walk"),
            plural(told.round.visits, "group visit"),
        ),
    };
    if let Some((round, before)) = told.before {
        let _ = match told.walks(round) {
            0 => writeln!(text, "without the edits: {before}"),
            walks => writeln!(
                text,
                "without the edits: {:.2} per walk ({before})",
                per_walk(before, walks)
            ),
        };
    }
}

fn causes(told: &Told<'_>, text: &mut String) {
    let shown: Vec<Cause> = CAUSES
        .into_iter()
        .filter(|c| match c {
            // All misses of a TLB are of one cause, and are in the column before.
            Cause::Translation => false,
            Cause::TrueSharing | Cause::FalseSharing => told.round.cores.len() > 1,
            _ => true,
        })
        .collect();
    let _ = write!(text, "\n{:8}{:>8}", "misses", "all");
    for cause in &shown {
        let _ = write!(text, "{:>12}", cause.name().replace("-sharing", " sh."));
    }
    text.push('\n');
    for level in told.levels() {
        let all = told.replayed.misses_where(|row| row.level == level);
        let _ = write!(text, "{:8}{all:>8}", level.name());
        for cause in &shown {
            let cell = match level {
                MissLevel::Dtlb | MissLevel::Stlb => "-".into(),
                MissLevel::Cache(_) => told.replayed.by_cause(level, *cause).to_string(),
            };
            let _ = write!(text, "{cell:>12}");
        }
        text.push('\n');
    }
    let upgrades = told
        .replayed
        .cores
        .iter()
        .map(|core| core.coherence.upgrades)
        .sum();
    if upgrades > 0 {
        let _ = writeln!(
            text,
            "  {} counted as l1d misses: stores to lines that others hold too",
            plural(upgrades, "upgrade")
        );
    }
}

/// `name`, at most `width` columns of it.
fn cut(name: &str, width: usize) -> String {
    if name.chars().count() <= width {
        return name.into();
    }
    name.chars().take(width - 2).chain("..".chars()).collect()
}

type Sum = (String, u64, BTreeMap<MissLevel, u64>, f64);

/// Rows with misses: name, accesses, misses of caches and the DTLB.
fn table(told: &Told<'_>, title: &str, sums: Vec<Sum>, text: &mut String) {
    let levels: Vec<MissLevel> = told
        .levels()
        .into_iter()
        .filter(|level| *level != MissLevel::Stlb)
        .take(3)
        .collect();
    let _ = write!(text, "\n{:NAME$}{:>NUMBER$}", cut(title, NAME), "accesses");
    for level in &levels {
        let _ = write!(text, "{:>NUMBER$}", level.name());
    }
    text.push('\n');
    let missing: Vec<&Sum> = sums.iter().filter(|sum| !sum.2.is_empty()).collect();
    let all = sums.len();
    for (name, accesses, misses, _) in missing.iter().take(MOST_ROWS) {
        let _ = write!(text, "{:NAME$}{accesses:>NUMBER$}", cut(name, NAME));
        for level in &levels {
            let misses = misses.get(level).copied().unwrap_or(0);
            let _ = write!(text, "{misses:>NUMBER$}");
        }
        text.push('\n');
    }
    let rest = missing.len().saturating_sub(MOST_ROWS);
    let without = all - missing.len();
    let _ = match rest {
        0 => writeln!(text, "  {without} more without a miss"),
        _ => writeln!(text, "  {rest} more with misses (--csv), {without} without"),
    };
}

fn cores(told: &Told<'_>, text: &mut String) {
    let _ = writeln!(
        text,
        "\n{:26}{:>9}{:>11}{:>10}{:>10}{:>14}",
        "core", "accesses", "l1d misses", "transfers", "upgrades", "invalidations"
    );
    for (core, ((file, cpu), stats)) in told
        .round
        .cores
        .iter()
        .zip(&told.replayed.cores)
        .enumerate()
    {
        let of = match told.names.len() {
            1 => format!("{core} (CPU {cpu})"),
            _ => format!("{core} (CPU {cpu} of file {})", file + 1),
        };
        let first = &stats.levels[0];
        let _ = writeln!(
            text,
            "{of:26}{:>9}{:>11}{:>10}{:>10}{:>14}",
            told.round
                .steps
                .iter()
                .filter(|s| usize::from(s.core) == core)
                .count(),
            first.demand_misses(),
            stats.coherence.transfers,
            stats.coherence.upgrades,
            stats.coherence.invalidations,
        );
    }
    text.push_str("  transfers: lines that another core supplied, page tables among them\n");
}
