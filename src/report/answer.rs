//! The answer first: from which depth a variant is slower, by how much, and why.

use super::causes::{self, Why};
use super::finding::{Finding, backend_words, candidate, depths, findings, is_primary};
use super::html::{Page, code, details};
use super::num;
use super::records::{Group, Records};
use super::table::{Cell, Table};
use crate::record::Verdict;

/// "is slower than `parent` from depth 12 on".
fn where_slower(f: &Finding<'_>, axis: &str) -> String {
    let than = format!("than {}", code(&f.baseline));
    match (f.tested_to, f.first, f.from) {
        (None, _, _) => format!("has no difference {than} that could be tested"),
        (Some(to), None, _) => format!(
            "is not slower {than} at any {axis} up to {}",
            num::exact(to)
        ),
        (Some(_), Some(first), Some(from)) if first == from => {
            format!("is slower {than} from {axis} {} on", num::exact(first))
        }
        (Some(_), Some(first), Some(from)) => format!(
            "is slower {than} at {axis} {} first and from {} on always",
            num::exact(first),
            num::exact(from)
        ),
        (Some(to), Some(first), None) => format!(
            "is slower {than} at {axis} {} first but no longer at {}",
            num::exact(first),
            num::exact(to)
        ),
    }
}

/// "+0.31 [0.1, 0.5] at 8, +8.2 [8, 8.4] at 25 and ... TSC cycles per visit".
fn how_much(f: &Finding<'_>) -> Option<String> {
    let parts: Vec<String> = f
        .shifts
        .iter()
        .zip(&f.ratios)
        .filter_map(|((x, j), ratio)| {
            let v = &(*j)?.verdict;
            num::finite(v.value)?;
            let range = match num::interval(v.ci_low, v.ci_high) {
                r if r.is_empty() => r,
                r => format!(" {r}"),
            };
            let ratio = ratio.map_or(String::new(), |r| {
                format!(" (ratio {})", num::short(Some(r)))
            });
            Some(format!(
                "{}{range}{ratio} at {}",
                num::signed(v.value),
                num::exact(*x)
            ))
        })
        .collect();
    (!parts.is_empty()).then(|| format!("{} {}", num::list(&parts), f.unit))
}

/// Depth of a knee with its interval: `12 [11, 13]`.
fn knee_value(verdict: &Verdict) -> String {
    let at = num::exact(verdict.value.unwrap_or_default());
    match (num::finite(verdict.ci_low), num::finite(verdict.ci_high)) {
        (Some(low), Some(high)) => format!("{at} [{}, {}]", num::exact(low), num::exact(high)),
        _ => at,
    }
}

fn knee_words(f: &Finding<'_>) -> String {
    match f.knee {
        None => "no knee".to_string(),
        Some(j) => {
            let v = &j.verdict;
            let range = num::interval(v.ci_low, v.ci_high);
            format!(
                "knee at {} {range}",
                num::exact(v.value.unwrap_or_default())
            )
            .trim_end()
            .to_string()
        }
    }
}

fn because(why: Option<&Why>, f: &Finding<'_>, x: f64, axis: &str) -> Option<String> {
    let why = why?;
    let fields: Vec<String> = why.fields.iter().map(|n| code(n)).collect();
    let beyond = match why.level.as_str() {
        "L1D" if why.extra_l2_per_visit > 0.05 * why.extra_per_visit => format!(
            "; {} misses per visit more go past the L2",
            num::short(Some(why.extra_l2_per_visit))
        ),
        "L1D" => "; the L2 holds them".to_string(),
        _ => String::new(),
    };
    Some(format!(
        "Why, as the model says: at {axis} {}, {} has {} {} {} misses per visit more than {}, on {}, in {} {}{beyond}.",
        num::exact(x),
        code(&f.variant),
        num::short(Some(why.extra_per_visit)),
        why.level,
        why.cause,
        code(&f.baseline),
        num::list(&fields),
        why.sets,
        if why.sets == 1 { "set" } else { "sets" },
    ))
}

/// The answer for one machine and experiment.
pub struct Answer {
    /// Machine and setting.
    pub place: String,
    /// Plain sentences; backquotes mark names.
    pub sentences: Vec<String>,
}

/// "warm +1.2 measured, +1.1 model" for findings that differ from `own` in what `name` tells.
fn elsewhere(findings: &[&Finding<'_>], name: impl Fn(&Finding<'_>) -> String) -> Vec<String> {
    let mut out: Vec<(String, Vec<String>)> = Vec::new();
    for f in findings {
        let Some((_, Some(judged))) = f.shifts.last() else {
            continue;
        };
        if num::finite(judged.verdict.value).is_none() {
            continue;
        }
        let value = format!(
            "{} {}",
            num::signed(judged.verdict.value),
            backend_words(&f.backend)
        );
        let name = name(f);
        match out.iter_mut().find(|(n, _)| *n == name) {
            Some((_, values)) => values.push(value),
            None => out.push((name, vec![value])),
        }
    }
    out.into_iter()
        .map(|(name, values)| format!("{name} {}", values.join(", ")))
        .collect()
}

/// The answers, one per machine and experiment that has verdicts.
#[must_use]
pub fn answers(records: &Records, findings: &[Finding<'_>]) -> Vec<Answer> {
    let mut out = Vec::new();
    for (index, group) in records.groups.iter().enumerate() {
        let compared: Vec<&Finding<'_>> = findings
            .iter()
            .filter(|f| f.group == index && !f.baseline.is_empty())
            .collect();
        let Some(candidate) = candidate(records) else {
            continue;
        };
        // Where the candidate was not run, whatever was run stands for it.
        let candidate = match compared.iter().find(|f| f.variant == *candidate) {
            Some(f) => &f.variant,
            None => match compared.first() {
                Some(f) => &f.variant,
                None => continue,
            },
        };
        if is_primary(records, index) {
            out.push(answer(records, findings, index, group, candidate));
        }
    }
    out
}

fn answer(
    records: &Records,
    findings: &[Finding<'_>],
    index: usize,
    group: &Group,
    candidate: &str,
) -> Answer {
    let of_group: Vec<&Finding<'_>> = findings
        .iter()
        .filter(|f| f.group == index && f.variant == candidate)
        .collect();
    let mut sentences: Vec<String> = of_group
        .iter()
        .map(|f| {
            let who = match f.backend.as_str() {
                "native" => "Measured",
                "model" => "The model says",
                "live" => "Measured on the running Linux",
                other => other,
            };
            let much = how_much(f).map_or(String::new(), |m| format!(": {m}"));
            format!(
                "{who}: {} {} ({}){much}.",
                code(&f.variant),
                where_slower(f, &group.axis),
                knee_words(f)
            )
        })
        .collect();
    if of_group.iter().all(|f| f.backend == "model") {
        sentences
            .push("Nothing was measured on this machine; all of this is the model's.".to_string());
    }
    sentences.push(reason(records, group, of_group[0]));
    let unit = &of_group[0].unit;
    let deepest = of_group[0]
        .shifts
        .last()
        .map_or(String::new(), |(x, _)| num::exact(*x));
    let own = &group.setting;
    let other_starts: Vec<&Finding<'_>> = findings
        .iter()
        .filter(|f| {
            let s = &records.groups[f.group].setting;
            let same = s.machine == own.machine && s.experiment == own.experiment;
            f.group != index && same && f.variant == candidate
        })
        .collect();
    let starts = elsewhere(&other_starts, |f| {
        records
            .label_without_machine(&records.groups[f.group].setting)
            .join(", ")
    });
    let other_variants: Vec<&Finding<'_>> = findings
        .iter()
        .filter(|f| f.group == index && f.variant != candidate && !f.baseline.is_empty())
        .collect();
    let variants = elsewhere(&other_variants, |f| code(&f.variant));
    for (what, list) in [("Other starts", starts), ("Other variants", variants)] {
        if !list.is_empty() {
            sentences.push(format!(
                "{what}, difference at {} {deepest} in {unit}: {}.",
                group.axis,
                list.join("; ")
            ));
        }
    }
    Answer {
        place: records.label(own),
        sentences,
    }
}

/// Why, at the deepest quoted depth that the model ran.
fn reason(records: &Records, group: &Group, f: &Finding<'_>) -> String {
    let deepest = depths(records)
        .into_iter()
        .rev()
        .find(|x| group.misses.iter().any(|m| m.x == *x));
    let reason = deepest.and_then(|x| {
        let why = causes::why(group, &f.variant, &f.baseline, x);
        because(why.as_ref(), f, x, &group.axis)
    });
    match reason {
        Some(reason) => reason,
        None if group.misses.is_empty() => {
            "Why is not known: the model did not run here.".to_string()
        }
        None => "The model finds no cache miss that explains a difference.".to_string(),
    }
}

/// One row per finding.
#[must_use]
pub fn table(records: &Records, findings: &[&Finding<'_>], caption: &str) -> Table {
    let depths = depths(records);
    let axis = findings
        .first()
        .map_or("depth", |f| records.groups[f.group].axis.as_str());
    let mut head = vec![
        "machine",
        "setting",
        "from",
        "variant",
        "knee",
        "slower from",
    ]
    .into_iter()
    .map(String::from)
    .collect::<Vec<_>>();
    head.extend(
        depths
            .iter()
            .map(|x| format!("at {axis} {}", num::exact(*x))),
    );
    head.push("unit".to_string());
    let mut table = Table {
        caption: caption.to_string(),
        head,
        rows: Vec::new(),
    };
    for f in findings {
        let setting = &records.groups[f.group].setting;
        let mut row = vec![
            Cell::text(setting.machine.clone()),
            Cell::text(records.label_without_machine(setting).join(", ")),
            Cell::text(backend_words(&f.backend)),
            Cell::text(f.variant.clone()),
            Cell::text(match f.knee {
                Some(j) => knee_value(&j.verdict),
                None => "none found".to_string(),
            }),
        ];
        if f.baseline.is_empty() {
            row.push(Cell::text("baseline"));
        } else {
            row.push(match (f.first, f.from, f.tested_to) {
                (_, _, None) => Cell::text("not tested"),
                (None, _, Some(_)) => Cell::text("never"),
                (Some(a), Some(b), _) if a == b => Cell::Whole(a),
                (Some(a), Some(b), _) => {
                    Cell::text(format!("{} (always: {})", num::exact(a), num::exact(b)))
                }
                (Some(a), None, _) => Cell::text(format!("{} (not always)", num::exact(a))),
            });
        }
        for (_, judged) in &f.shifts {
            row.push(match judged {
                Some(j) => Cell::Value {
                    value: j.verdict.value,
                    low: j.verdict.ci_low,
                    high: j.verdict.ci_high,
                    signed: true,
                },
                None if f.baseline.is_empty() => Cell::text("baseline"),
                None => Cell::text("not run"),
            });
        }
        row.push(Cell::text(f.unit.clone()));
        table.rows.push(row);
    }
    table
}

/// How "slower" is decided, in one sentence.
pub const HOW_DECIDED: &str = "Slower means: the adjusted p is below 0.05 (or, where there is no p, the interval lies above 0), and the \
     difference is at least 1 % of the baseline; a knee is where the slope of the difference changes, as verdicts.csv gives it. Rows \
     from the model are estimates, not measurements; intervals of the model span placements, not errors of the model.";

/// The section.
pub fn section(records: &Records, page: &mut Page) {
    page.section("answer", "Answer");
    let findings = findings(records);
    if findings.iter().all(|f| f.baseline.is_empty()) {
        page.absent(
            "verdicts.csv compares no two variants, so there is no answer, only the curves.",
            &format!("kwalk run {}", records.experiment_names()),
        );
        return;
    }
    for answer in answers(records, &findings) {
        page.heading(&answer.place);
        page.list(&answer.sentences, "answer");
    }
    page.note(HOW_DECIDED);
    let main: Vec<&Finding<'_>> = findings
        .iter()
        .filter(|f| Some(&f.variant) == candidate(records))
        .collect();
    let all: Vec<&Finding<'_>> = findings.iter().collect();
    let caption = |what: &str| {
        format!(
            "{what}: knee, first slower depth, and difference to the baseline with its interval"
        )
    };
    let name = candidate(records).cloned().unwrap_or_default();
    page.table(&table(records, &main, &caption(&name)));
    if all.len() > main.len() {
        page.raw(&details(
            "The same for all variants",
            &table(records, &all, &caption("All variants")).html(),
        ));
    }
}
