//! The answer, its table and the method as plain text of 72 columns, for a mailing list.

use super::answer;
use super::finding::{self, Finding};
use super::method;
use super::model_error;
use super::num;
use super::pipe_section;
use super::records::{Judged, Records};
use super::table::{Cell, Table};
use crate::wrap::wrap;

/// Columns of the text.
pub const WIDTH: usize = 72;

/// The columns `keep` of `table`, under shorter names.
fn select(table: &Table, keep: &[(usize, &str)]) -> Table {
    Table {
        caption: table.caption.clone(),
        head: keep.iter().map(|(_, name)| (*name).to_string()).collect(),
        rows: table
            .rows
            .iter()
            .map(|row| {
                keep.iter()
                    .filter_map(|(i, _)| row.get(*i).cloned())
                    .collect()
            })
            .collect(),
    }
}

/// `+12.0 ±0.2`: the difference with the wider side of its interval.
fn difference(judged: Option<&Judged>) -> String {
    let Some(verdict) = judged.map(|j| &j.verdict) else {
        return "not run".to_string();
    };
    let Some(value) = num::finite(verdict.value) else {
        return num::NOT_MEASURED.to_string();
    };
    let sides = num::finite(verdict.ci_low).zip(num::finite(verdict.ci_high));
    let text = num::signed(Some(value));
    match sides {
        Some((low, high)) => {
            let side = (value - low).max(high - value).max(0.0);
            format!("{text} ±{}", num::short(Some(side)))
        }
        None => text,
    }
}

/// One table per setting and backend, with the variants below each other.
fn tables(records: &Records, findings: &[Finding<'_>]) -> Vec<Table> {
    let mut out: Vec<((usize, String), Table)> = Vec::new();
    for f in findings.iter().filter(|f| !f.baseline.is_empty()) {
        let key = (f.group, f.backend.clone());
        let at = out.iter().position(|(k, _)| *k == key).unwrap_or_else(|| {
            let group = &records.groups[f.group];
            let mut head = vec!["variant".to_string(), "knee".into(), "from".into()];
            head.extend(
                f.shifts
                    .iter()
                    .map(|(x, _)| format!("at {}", num::exact(*x))),
            );
            let table = Table {
                caption: format!(
                    "{}, {}: {} minus {}",
                    records.label(&group.setting),
                    finding::backend_words(&f.backend),
                    f.unit,
                    f.baseline
                ),
                head,
                rows: Vec::new(),
            };
            out.push((key, table));
            out.len() - 1
        });
        let from = match (f.tested_to, f.first(), f.from()) {
            (None, ..) => "not tested".to_string(),
            (_, None, _) => "never".to_string(),
            (_, Some(first), from) if from == Some(first) => num::exact(first),
            (_, Some(first), _) => format!("{}?", num::exact(first)),
        };
        let mut row = vec![
            f.variant.clone(),
            f.knee.map_or("none".to_string(), |j| {
                num::exact(j.verdict.value.unwrap_or_default())
            }),
            from,
        ];
        row.extend(f.shifts.iter().map(|(_, judged)| difference(*judged)));
        out[at]
            .1
            .rows
            .push(row.into_iter().map(Cell::Text).collect());
    }
    out.into_iter().map(|(_, table)| table).collect()
}

fn heading(out: &mut String, title: &str) {
    out.push_str(&format!(
        "\n{title}\n{}\n",
        "-".repeat(title.chars().count())
    ));
}

fn item(out: &mut String, text: &str) {
    let wrapped = wrap(&format!("- {}", clean(text)), WIDTH, "", "  ");
    out.push_str(&wrapped);
}

/// Without backquotes and control characters.
fn clean(text: &str) -> String {
    text.chars()
        .filter(|c| *c != '`')
        .map(|c| {
            if c.is_control() && c != '\n' {
                '\u{fffd}'
            } else {
                c
            }
        })
        .collect()
}

/// The text.
#[must_use]
pub fn render(records: &Records) -> String {
    let mut out = wrap(
        &format!("kwalk: {}", clean(&records.experiment_names())),
        WIDTH,
        "",
        "  ",
    );
    if let Some(question) = records
        .experiments
        .iter()
        .find_map(|e| e.get("question")?.as_str())
    {
        out.push_str(&wrap(&clean(question), WIDTH, "", ""));
    }
    heading(&mut out, "Answer");
    let findings = finding::findings(records);
    let answers = answer::answers(records, &findings);
    if answers.is_empty() {
        item(&mut out, "verdicts.csv compares no two variants.");
    }
    for answer in answers {
        out.push_str(&wrap(&clean(&answer.place), WIDTH, "", "  "));
        for sentence in answer.sentences {
            item(&mut out, &sentence);
        }
    }
    heading(&mut out, "Difference to the baseline");
    let about = format!(
        "from: first slower {}, with ? if some deeper one is not; ±: the wider side of the 95 % interval.",
        records.groups.first().map_or("depth", |g| &g.axis)
    );
    out.push_str(&wrap(&clean(&about), WIDTH, "", ""));
    for table in tables(records, &findings) {
        out.push('\n');
        out.push_str(&clean(&table.text(WIDTH)));
    }
    heading(&mut out, "Model error against the host");
    let errors = model_error::table(records, false);
    if errors.rows.is_empty() {
        item(
            &mut out,
            "not known: no point was both measured and modelled.",
        );
    } else {
        let columns = [
            (0, "setting"),
            (2, "points"),
            (3, "median"),
            (5, "90 %"),
            (6, "within"),
        ];
        out.push_str(&clean(&select(&errors, &columns).text(WIDTH)));
        let meaning = "within: share of points at most 20 % beyond the host's interval.";
        out.push_str(&wrap(meaning, WIDTH, "", ""));
    }
    if pipe_section::applies(records) {
        heading(&mut out, "Published round trips");
        let (predictions, slip) = pipe_section::tables(records);
        let columns = [
            (0, "depth"),
            (1, "variant"),
            (2, "predicted"),
            (3, "published"),
            (4, "residual"),
            (5, "share"),
        ];
        for table in predictions {
            out.push_str(&clean(&select(&table, &columns).text(WIDTH)));
            out.push('\n');
        }
        let columns = [
            (0, "series"),
            (1, "visits"),
            (2, "as posted"),
            (6, "predicted"),
            (7, "published"),
            (8, "share"),
        ];
        if !slip.rows.is_empty() {
            out.push_str(&clean(&select(&slip, &columns).text(WIDTH)));
        }
    }
    heading(&mut out, "Method");
    for sentence in method::what_was_run(records) {
        item(&mut out, &sentence);
    }
    item(&mut out, &answer::how_decided());
    item(&mut out, method::INTERVALS);
    for note in method::notes(records) {
        item(&mut out, &note);
    }
    for absence in method::folded_absences(records) {
        item(&mut out, &absence.sentence());
    }
    heading(&mut out, "Limits");
    for limit in method::not_modelled(records)
        .into_iter()
        .chain(method::limits())
    {
        item(&mut out, &limit);
    }
    heading(&mut out, "Repeat it");
    let command = method::command(records).unwrap_or_else(|| "not in run.toml".to_string());
    out.push_str(&wrap(&clean(&command), WIDTH, "", "  "));
    debug_assert!(out.lines().all(|l| l.chars().count() <= WIDTH));
    out
}
