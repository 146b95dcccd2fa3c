//! Machines with their sources, what was run and how, what could not be had, the limits, and the
//! command that repeats it.

use super::html::{Page, code, details, escape};
use super::records::Records;
use super::table::{Cell, Table};

/// Confidences that are less than a reading at the source or a measurement.
const WEAK: [&str; 3] = ["memory", "inferred", "told"];

/// What a confidence means, for the reader.
const MEANING: &str = "verified: read at the source named; measured: by kwalk on this host; told: as CPUID or sysfs say, in a guest the \
     hypervisor; memory: from memory of manuals, a prior; inferred: from a relative, or assumed.";

/// `value` as text; long arrays stay arrays.
fn plain(value: &toml::Value) -> String {
    match value {
        toml::Value::String(text) => text.clone(),
        toml::Value::Integer(i) if *i > 1 << 32 => format!("{i:#x}"),
        other => other.to_string(),
    }
}

/// One row per table of a machine's file: what, values, confidence, source.
fn machine_table(name: &str, table: &toml::Table) -> Table {
    let mut out = Table::new(
        format!("{name}: what the model knows, with source and confidence"),
        &["part", "confidence", "values", "source"],
    );
    let mut add = |part: String, t: &toml::Table| {
        let text = |key: &str| t.get(key).map(plain);
        let values: Vec<String> = t
            .iter()
            .filter(|(k, v)| !matches!(k.as_str(), "source" | "confidence") && !is_nested(v))
            .map(|(k, v)| {
                format!(
                    "{k} {}",
                    if k.ends_with("_hz") {
                        v.to_string()
                    } else {
                        plain(v)
                    }
                )
            })
            .collect();
        let confidence = text("confidence").unwrap_or_else(|| "not given".to_string());
        out.rows.push(vec![
            Cell::text(part),
            if WEAK.contains(&confidence.as_str()) || confidence == "not given" {
                Cell::Mark(confidence)
            } else {
                Cell::text(confidence)
            },
            Cell::text(values.join("; ")),
            Cell::text(text("source").unwrap_or_else(|| "no source".to_string())),
        ]);
    };
    for (key, value) in table {
        match value {
            toml::Value::Table(t) => add(key.clone(), t),
            toml::Value::Array(items) => {
                for item in items.iter().filter_map(toml::Value::as_table) {
                    let level = item.get("level").map(|l| format!(", level {}", plain(l)));
                    add(format!("{key}{}", level.unwrap_or_default()), item);
                }
            }
            _ => {}
        }
    }
    out
}

fn is_nested(value: &toml::Value) -> bool {
    match value {
        toml::Value::Table(_) => true,
        toml::Value::Array(items) => items.iter().any(toml::Value::is_table),
        _ => false,
    }
}

/// Tables of a machine whose confidence is weak.
fn weak_parts(table: &toml::Table) -> usize {
    let weak = |t: &toml::Table| {
        let c = t.get("confidence").and_then(|v| v.as_str());
        usize::from(c.is_some_and(|c| WEAK.contains(&c)))
    };
    table
        .values()
        .map(|v| match v {
            toml::Value::Table(t) => weak(t),
            toml::Value::Array(items) => items
                .iter()
                .filter_map(toml::Value::as_table)
                .map(weak)
                .sum(),
            _ => 0,
        })
        .sum()
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

/// Notes and refusals of the run.
#[must_use]
pub fn notes(records: &Records) -> Vec<String> {
    sentences(
        records,
        &["notes", "note", "refusals", "refused", "warnings", "limits"],
    )
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
    for experiment in &records.experiments {
        let text = |key: &str| experiment.get(key).map(plain);
        let parts: Vec<String> = [
            "kernel",
            "variants",
            "layout",
            "placement",
            "pages",
            "start",
            "repeats",
            "seed",
            "seeds",
        ]
        .iter()
        .filter_map(|k| Some(format!("{k} = {}", text(k)?)))
        .collect();
        out.push(format!("Experiment as written: {}.", parts.join(", ")));
    }
    out
}

/// How medians and intervals are made.
pub const INTERVALS: &str = "Values are medians; intervals are 95 % percentile bootstrap intervals of the median (ci_low, ci_high in the CSV), over \
     repeats and placements together; placement_share in summary.csv says how much of the variance lies between placements. \
     Fewer than five values have no interval. Values marked spoiled stay in samples.csv.";

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

/// Metrics that were refused, multiplexed or disturbed.
#[must_use]
pub fn absences(records: &Records) -> Table {
    let mut table = Table::new(
        "Metrics that could not be had, were scaled or were disturbed",
        &[
            "metric",
            "machine",
            "backend",
            "status",
            "raw values",
            "reason",
        ],
    );
    for (a, n) in &records.absences {
        table.rows.push(vec![
            Cell::text(a.metric.clone()),
            Cell::text(a.machine.clone()),
            Cell::text(a.backend.clone()),
            Cell::text(a.status.clone()),
            Cell::text(n.to_string()),
            Cell::text(if a.reason.is_empty() {
                "no reason given".to_string()
            } else {
                a.reason.clone()
            }),
        ]);
    }
    table
}

/// The sections at the end.
pub fn section(records: &Records, page: &mut Page) {
    machines(records, page);
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
    let notes = notes(records);
    if notes.is_empty() {
        page.para("run.toml holds none.");
    } else {
        page.list(&notes, "plain");
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

fn machines(records: &Records, page: &mut Page) {
    page.section("machines", "Machines");
    if records.machines.is_empty() {
        page.absent(
            "machines/ holds no file, so nothing is known about the machines here.",
            "kwalk machine NAME --toml",
        );
        return;
    }
    page.note(MEANING);
    for (file, table) in &records.machines {
        let text = |key: &str| table.get(key).and_then(|v| v.as_str()).unwrap_or_default();
        let name = if text("name").is_empty() {
            file
        } else {
            text("name")
        };
        let weak = weak_parts(table);
        let parts = machine_table(name, table);
        page.heading(name);
        page.para(&format!(
            "{}{}",
            if text("title").is_empty() {
                String::new()
            } else {
                format!("{}. ", text("title"))
            },
            if weak == 0 {
                "Every part is verified or measured.".to_string()
            } else {
                format!(
                    "{weak} of {} parts rest on memory, inference or what was told.",
                    parts.rows.len()
                )
            }
        ));
        page.raw(&details(
            &format!("{name}: all parts with source and confidence"),
            &parts.html(),
        ));
    }
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

    /// A weak table is marked, a verified one is not; a table without confidence is not passed off as sure.
    #[test]
    fn confidence_is_shown() {
        let table: toml::Table = "name = \"m\"\n[core]\nwindow = 5\nsource = \"s\"\nconfidence = \"memory\"\n[[caches]]\nlevel = 1\nsource = \"t\"\nconfidence = \"verified\"\n[other]\nx = 1\n"
            .parse()
            .unwrap();
        let rows = machine_table("m", &table).rows;
        let cell = |part: &str| {
            rows.iter()
                .find(|r| r[0].plain().starts_with(part))
                .unwrap()[1]
                .clone()
        };
        assert_eq!(cell("core"), Cell::Mark("memory".into()));
        assert_eq!(cell("caches, level 1"), Cell::text("verified"));
        assert_eq!(cell("other"), Cell::Mark("not given".into()));
        assert_eq!(weak_parts(&table), 1);
    }
}
