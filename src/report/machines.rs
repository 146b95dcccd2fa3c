//! The machines of a run, each number with its source and confidence.

use super::html::{Page, details};
use super::method::plain;
use super::records::Records;
use super::table::{Cell, Table};

/// Confidences that are less than a reading at the source or a measurement.
const WEAK: [&str; 3] = ["memory", "inferred", "told"];

/// What a confidence means, for the reader.
const MEANING: &str = "verified: read at the source named; measured: by kwalk on this host; told: as CPUID or sysfs say, in a guest the \
     hypervisor; memory: from memory of manuals, a prior; inferred: from a relative, or assumed.";

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

/// The section.
pub fn section(records: &Records, page: &mut Page) {
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
