//! The answer, its table and the method as plain text of 72 columns, for a mailing list.

use super::answer::{self, Finding};
use super::method;
use super::model_error;
use super::pipe_section;
use super::records::Records;
use super::table::{Table, wrap};

/// Columns of the text.
pub const WIDTH: usize = 72;

/// One row per finding, short enough for [`WIDTH`]; intervals follow in brackets.
fn table(records: &Records, findings: &[&Finding<'_>], machine: &str) -> Table {
    let full = answer::table(records, findings, machine);
    // The machine is the caption, and the unit is said once below the answer.
    let keep: Vec<usize> = (1..full.head.len() - 1).collect();
    Table {
        caption: full.caption,
        head: keep.iter().map(|i| full.head[*i].clone()).collect(),
        rows: full
            .rows
            .iter()
            .map(|row| keep.iter().filter_map(|i| row.get(*i).cloned()).collect())
            .collect(),
    }
}

fn heading(out: &mut String, title: &str) {
    out.push_str(&format!(
        "\n{title}\n{}\n",
        "-".repeat(title.chars().count())
    ));
}

fn item(out: &mut String, text: &str) {
    let wrapped = wrap(&format!("- {}", clean(text)), WIDTH, "  ");
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
        "  ",
    );
    if let Some(question) = records
        .experiments
        .iter()
        .find_map(|e| e.get("question")?.as_str())
    {
        out.push_str(&wrap(&clean(question), WIDTH, ""));
    }
    heading(&mut out, "Answer");
    let findings = answer::findings(records);
    let answers = answer::answers(records, &findings);
    if answers.is_empty() {
        item(&mut out, "verdicts.csv compares no two variants.");
    }
    for answer in answers {
        out.push_str(&wrap(&clean(&answer.place), WIDTH, "  "));
        for sentence in answer.sentences {
            item(&mut out, &sentence);
        }
    }
    let mut units: Vec<&str> = findings.iter().map(|f| f.unit.as_str()).collect();
    units.sort_unstable();
    units.dedup();
    heading(&mut out, "Difference to the baseline");
    out.push_str(&wrap(
        &format!("In {}.", clean(&units.join(" or "))),
        WIDTH,
        "",
    ));
    for machine in records.machine_names() {
        let of_machine: Vec<&Finding<'_>> = findings
            .iter()
            .filter(|f| {
                records.groups[f.group].setting.machine == machine && !f.baseline.is_empty()
            })
            .collect();
        if !of_machine.is_empty() {
            out.push('\n');
            out.push_str(&clean(&table(records, &of_machine, &machine).text(WIDTH)));
        }
    }
    heading(&mut out, "Model error against the host");
    let errors = model_error::table(records, false);
    if errors.rows.is_empty() {
        item(
            &mut out,
            "not known: no point was both measured and modelled.",
        );
    } else {
        out.push_str(&clean(&errors.text(WIDTH)));
    }
    if pipe_section::applies(records) {
        heading(&mut out, "Published round trips");
        for table in pipe_section::tables(records) {
            out.push_str(&clean(&table.text(WIDTH)));
            out.push('\n');
        }
    }
    heading(&mut out, "Method");
    for sentence in method::what_was_run(records) {
        item(&mut out, &sentence);
    }
    item(&mut out, answer::HOW_DECIDED);
    item(&mut out, method::INTERVALS);
    for note in method::notes(records) {
        item(&mut out, &note);
    }
    for (absence, n) in &records.absences {
        item(
            &mut out,
            &format!(
                "{} {} on {}: {} ({}).",
                absence.backend,
                absence.metric,
                absence.machine,
                absence.status,
                if absence.reason.is_empty() {
                    format!("{n} raw values, no reason given")
                } else {
                    absence.reason.clone()
                }
            ),
        );
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
    out.push_str(&wrap(&clean(&command), WIDTH, "  "));
    debug_assert!(out.lines().all(|l| l.chars().count() <= WIDTH));
    out
}
