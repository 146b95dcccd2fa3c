//! What was run and how, what could not be had, the limits, and the command that repeats it.

use super::html::{Page, code, details, escape};
use super::num;
use super::records::{Group, Records};
use super::table::{Cell, Table};
use crate::record::notes::{PERF, folded, without_event};

/// `value` as text; long arrays stay arrays.
#[must_use]
pub fn plain(value: &toml::Value) -> String {
    match value {
        toml::Value::String(text) => text.clone(),
        toml::Value::Integer(i) if *i > 1 << 32 => format!("{i:#x}"),
        other => other.to_string(),
    }
}

/// Every leaf of `run.toml` as `path`, `value`; lists of numbers are one leaf.
fn leaves(prefix: &str, table: &toml::Table, out: &mut Vec<(String, String)>) {
    for (key, value) in table {
        let path = if prefix.is_empty() {
            key.clone()
        } else {
            format!("{prefix}.{key}")
        };
        leaf(&path, value, out);
    }
}

fn leaf(path: &str, value: &toml::Value, out: &mut Vec<(String, String)>) {
    match value {
        toml::Value::Table(t) => leaves(path, t, out),
        toml::Value::Array(items) if items.iter().any(|v| v.is_table() || v.is_str()) => {
            for (i, item) in items.iter().enumerate() {
                leaf(&format!("{path}[{}]", i + 1), item, out);
            }
        }
        toml::Value::String(text) => out.push((path.to_string(), text.clone())),
        other => out.push((path.to_string(), other.to_string())),
    }
}

/// Sentences under one of `keys`, wherever in `run.toml`.
fn sentences(records: &Records, keys: &[&str]) -> Vec<String> {
    let mut all = Vec::new();
    leaves("", &records.run, &mut all);
    let wanted = |path: &str| {
        path.split('.').any(|part| {
            let name = part.split('[').next().unwrap_or_default();
            keys.contains(&name)
        })
    };
    let mut out: Vec<String> = Vec::new();
    for (_, text) in all
        .into_iter()
        .filter(|(path, text)| wanted(path) && text != "[]" && !text.is_empty())
    {
        if !out.contains(&text) {
            out.push(text);
        }
    }
    out
}

/// Notes and refusals of the run, each reason once: what [`folded_absences`] says is left out.
#[must_use]
pub fn notes(records: &Records) -> Vec<String> {
    let all = sentences(
        records,
        &["notes", "note", "refusals", "refused", "warnings", "limits"],
    );
    let told = folded_absences(records);
    let mut out = folded(&all);
    out.retain(|note| {
        !told
            .iter()
            .any(|a| note.contains(": unavailable: ") && note.ends_with(&a.reason))
    });
    out
}

/// What the model says that it leaves out.
#[must_use]
pub fn not_modelled(records: &Records) -> Vec<String> {
    sentences(records, &["not_modelled"])
}

/// The command that made this folder.
#[must_use]
pub fn command(records: &Records) -> Option<String> {
    match records.run.get("command")? {
        toml::Value::String(text) => Some(text.clone()),
        toml::Value::Array(words) => {
            let words: Vec<String> = words.iter().map(|w| quote(&plain(w))).collect();
            Some(words.join(" "))
        }
        _ => None,
    }
}

/// A word as a shell would need it.
fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_string()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// What was run, in sentences.
#[must_use]
pub fn what_was_run(records: &Records) -> Vec<String> {
    let mut out = Vec::new();
    for (backend, samples) in &records.samples {
        let seeds = records
            .seeds
            .get(backend)
            .map_or(0, std::collections::BTreeSet::len);
        let ns: Vec<u32> = records
            .groups
            .iter()
            .flat_map(|g| &g.curves)
            .filter(|c| c.backend == *backend)
            .flat_map(|c| c.points.iter().filter(|p| p.median.is_some()).map(|p| p.n))
            .collect();
        let (low, high) = (
            ns.iter().min().copied().unwrap_or(0),
            ns.iter().max().copied().unwrap_or(0),
        );
        let values = if low == high {
            format!("{low}")
        } else {
            format!("{low} to {high}")
        };
        out.push(format!(
            "{backend}: {samples} raw values, {seeds} {} (arena seeds), {values} {} behind each median.",
            if seeds == 1 { "placement" } else { "placements" },
            if high == 1 { "value" } else { "values" }
        ));
    }
    out.extend(as_run(records));
    out
}

/// What of each experiment ran, from the rows: options and `--quick` may have changed the file.
fn as_run(records: &Records) -> Vec<String> {
    let mut names: Vec<&str> = Vec::new();
    for group in &records.groups {
        if !names.contains(&group.setting.experiment.as_str()) {
            names.push(&group.setting.experiment);
        }
    }
    let mut out = Vec::new();
    for name in names {
        let groups: Vec<&Group> = records
            .groups
            .iter()
            .filter(|g| g.setting.experiment == name && !g.curves.is_empty())
            .collect();
        let distinct = |get: &dyn Fn(&Group) -> Vec<String>| {
            let mut all: Vec<String> = Vec::new();
            for value in groups.iter().flat_map(|g| get(g)) {
                if !value.is_empty() && !all.contains(&value) {
                    all.push(value);
                }
            }
            all.join(" ")
        };
        let axis = groups.first().map_or("depth", |g| g.axis.as_str());
        let parts = [
            (
                "variants",
                distinct(&|g| {
                    let ran = |v: &&String| g.curves.iter().any(|c| c.variant == **v);
                    records.variants.iter().filter(ran).cloned().collect()
                }),
            ),
            (
                axis,
                distinct(&|g| g.axis_values().into_iter().map(num::exact).collect()),
            ),
            ("other axes", distinct(&|g| vec![g.setting.rest.clone()])),
            ("layout", distinct(&|g| vec![g.setting.layout.clone()])),
            (
                "placement",
                distinct(&|g| vec![g.setting.placement.clone()]),
            ),
            ("pages", distinct(&|g| vec![g.setting.pages.clone()])),
            ("start", distinct(&|g| vec![g.setting.start.clone()])),
        ];
        let parts: Vec<String> = parts
            .into_iter()
            .filter(|(_, values)| !values.is_empty())
            .map(|(key, values)| format!("{key} {values}"))
            .collect();
        out.push(format!("{name} as it ran: {}.", parts.join("; ")));
    }
    out
}

/// How medians and intervals are made.
pub const INTERVALS: &str = "Values are medians; intervals are 95 % percentile bootstrap intervals of the median (ci_low, ci_high in the CSV), over \
     repeats and placements together; placement_share in summary.csv says how much of the variance lies between placements. \
     Fewer than five values have no interval. A difference is the Hodges-Lehmann estimate over pairs that were measured in one pass, with the \
     interval and p of Wilcoxon's signed ranks; the interval also covers the placements' own differences; p is adjusted by Holm over the \
     points of a curve. Variants that are compared take turns on each other's memory, pass by pass. Values marked spoiled stay in samples.csv.";

/// Limits that hold for every report.
#[must_use]
pub fn limits() -> Vec<String> {
    [
        "Figures marked model are estimates for the machine as its file describes it; only where the host ran too is their error known.",
        "The kernels replay the data accesses of the Linux path; its code fetches, interrupts and all else that it does are not run.",
        "Set numbers are those of the addresses that the arena chose; in a guest, the sets of L2 and L3 on the host are not known.",
        "In a guest, what CPUID and sysfs tell about caches is what the hypervisor says.",
    ]
    .map(String::from)
    .to_vec()
}

/// Metrics that could not be had, were scaled or were disturbed for one reason.
pub struct Absent {
    /// Which.
    pub metrics: Vec<String>,
    /// Where.
    pub machine: String,
    /// On what.
    pub backend: String,
    /// `unavailable`, `partial` or `spoiled`.
    pub status: String,
    /// Raw values of all of them.
    pub values: u64,
    /// Why.
    pub reason: String,
}

impl Absent {
    /// As a sentence.
    #[must_use]
    pub fn sentence(&self) -> String {
        format!(
            "{} {} of {} on {} ({} raw values): {}.",
            self.backend,
            self.status,
            self.metrics.join(", "),
            self.machine,
            self.values,
            self.reason.trim_end_matches('.')
        )
    }
}

/// What was refused, multiplexed or disturbed, each reason once.
#[must_use]
pub fn folded_absences(records: &Records) -> Vec<Absent> {
    let mut out: Vec<Absent> = Vec::new();
    for (a, n) in &records.absences {
        let reason = match without_event(&a.reason) {
            "" => "no reason given",
            reason => reason,
        };
        let same = out.iter_mut().find(|o| {
            o.machine == a.machine
                && o.backend == a.backend
                && o.status == a.status
                && o.reason == reason
        });
        match same {
            Some(o) => {
                o.values += n;
                if !o.metrics.contains(&a.metric) {
                    o.metrics.push(a.metric.clone());
                }
            }
            None => out.push(Absent {
                metrics: vec![a.metric.clone()],
                machine: a.machine.clone(),
                backend: a.backend.clone(),
                status: a.status.clone(),
                values: *n,
                reason: reason.to_string(),
            }),
        }
    }
    out
}

/// The same as a table.
#[must_use]
pub fn absences(records: &Records) -> Table {
    let mut table = Table::new(
        "Metrics that could not be had, were scaled or were disturbed",
        &[
            "status",
            "backend",
            "machine",
            "metrics",
            "raw values",
            "reason",
        ],
    );
    for a in folded_absences(records) {
        table.rows.push(vec![
            Cell::text(a.status),
            Cell::text(a.backend),
            Cell::text(a.machine),
            Cell::text(a.metrics.join(", ")),
            Cell::Whole(a.values as f64),
            Cell::text(a.reason),
        ]);
    }
    table
}

/// The sections at the end.
pub fn section(records: &Records, page: &mut Page) {
    page.section("method", "Method");
    page.list(&what_was_run(records), "plain");
    page.para(INTERVALS);
    if records.other_cpus > 0 {
        page.note(&format!(
            "{} rows of summary.csv repeat a point for another CPU; the charts show `all` where it exists, otherwise the first CPU.",
            records.other_cpus
        ));
    }
    page.heading("Notes and refusals of this run");
    let (perf, notes): (Vec<String>, Vec<String>) =
        (notes(records).into_iter()).partition(|note| note.starts_with(PERF));
    if notes.is_empty() {
        page.para("run.toml holds none.");
    } else {
        page.list(&notes, "plain");
    }
    for command in perf.iter().filter_map(|note| note.strip_prefix(PERF)) {
        page.para("The same events are counted by perf, for a check of the counters, with:");
        page.raw(&format!("<pre tabindex=\"0\">{}</pre>\n", escape(command)));
    }
    let absent = absences(records);
    if absent.rows.is_empty() {
        page.para(
            "Every metric that was asked for was measured; no value was scaled or disturbed.",
        );
    } else {
        page.table(&absent);
    }
    page.section("limits", "What is not modelled, and other limits");
    let left_out = not_modelled(records);
    if left_out.is_empty() {
        page.para("run.toml does not list what the model leaves out; the documentation of each model module does.");
    } else {
        page.list(&left_out, "plain");
    }
    page.list(&limits(), "plain");
    page.section("repeat", "Repeat it");
    match command(records) {
        Some(command) => {
            let dir = records
                .dir
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            page.raw(&format!("<pre tabindex=\"0\">{}</pre>\n", escape(&command)));
            page.note(&format!(
                "This page: {}. An existing folder is not written over: give another with --out.",
                code(&format!("kwalk report {}", quote(&dir)))
            ));
        }
        None => page.para("run.toml does not hold the command."),
    }
    let mut rows = Vec::new();
    leaves("", &records.run, &mut rows);
    let mut table = Table::new("Everything in run.toml", &["key", "value"]);
    table.rows = rows
        .into_iter()
        .map(|(key, value)| vec![Cell::text(key), Cell::text(value)])
        .collect();
    page.raw(&details(
        "Provenance: everything in run.toml",
        &table.html(),
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Only words that a shell would take apart are quoted.
    #[test]
    fn shell_words() {
        for (word, expected) in [
            ("psi-depth", "psi-depth"),
            ("a b", "'a b'"),
            ("", "''"),
            ("it's", "'it'\\''s'"),
        ] {
            assert_eq!(quote(word), expected);
        }
    }
}
