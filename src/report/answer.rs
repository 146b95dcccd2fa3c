//! The answer first: from which depth a variant is slower, by how much, and why.

use super::causes::{self, Why};
use super::finding::{
    Finding, MODEL_SHARE_THAT_MATTERS, P_LIMIT, SHARE_THAT_MATTERS, backend_words, candidate,
    depths, findings, is_primary,
};
use super::html::{Page, code, details};
use super::num;
use super::records::{Group, Records};
use super::table::{Cell, Table};
use crate::record::Verdict;
use crate::stats::KNEE_SHARE;

/// "is slower than `parent` at depth 0, 2 to 7 and from 9 on".
fn where_slower(f: &Finding<'_>, axis: &str) -> String {
    let than = format!("than {}", code(&f.baseline));
    match (f.tested_to, f.where_slower()) {
        (None, _) => format!("has no difference {than} that could be tested"),
        (Some(to), None) => format!(
            "is not slower {than} at any {axis} up to {}",
            num::exact(to)
        ),
        (Some(_), Some(at)) => match at.strip_prefix("from ") {
            Some(on) => format!("is slower {than} from {axis} {on}"),
            None => format!("is slower {than} at {axis} {at}"),
        },
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

/// "sets 2 (52.0 such misses per operation), 18 (51.0) and 3 others, of 12 ways each".
fn sets_words(why: &Why, ways: Option<u32>) -> String {
    const NAMED: usize = 4;
    let mut names: Vec<String> = why
        .sets
        .iter()
        .take(NAMED)
        .enumerate()
        .map(|(i, (set, misses))| {
            let unit = if i == 0 { " misses per operation" } else { "" };
            format!("{set} ({}{unit})", num::short(Some(*misses)))
        })
        .collect();
    if why.sets.len() > NAMED {
        names.push(format!("{} more", why.sets.len() - NAMED));
    }
    let ways = ways.map_or(String::new(), |w| format!(", {w} ways each"));
    let noun = if why.sets.len() == 1 { "set" } else { "sets" };
    format!("{} {noun}: {}{ways}", why.sets.len(), num::list(&names))
}

fn because(why: &Why, f: &Finding<'_>, at: &str, ways: Option<u32>) -> String {
    let fields: Vec<String> = why.fields.iter().map(|n| code(n)).collect();
    let beyond = match why.level.as_str() {
        "L1D" if why.extra_l2_per_visit > 0.05 * why.extra_per_visit => format!(
            "; {} misses per visit more go past the L2",
            num::short(Some(why.extra_l2_per_visit))
        ),
        "L1D" => "; the L2 holds them".to_string(),
        _ => String::new(),
    };
    format!(
        "{at}, {} has {} {} {} misses per visit more than {}, on {}, in {}{beyond}.",
        code(&f.variant),
        num::short(Some(why.extra_per_visit)),
        why.level,
        why.cause,
        code(&f.baseline),
        num::list(&fields),
        sets_words(why, ways),
    )
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
    let mut sentences: Vec<String> = Vec::new();
    if of_group.iter().all(|f| f.backend == "model") {
        sentences.push(
            "Nothing was measured on this machine; all that follows is the model's.".to_string(),
        );
    }
    sentences.extend(of_group.iter().map(|f| {
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
    }));
    let modelled = of_group.iter().copied().find(|f| f.backend == "model");
    sentences.extend(reasons(records, group, modelled.unwrap_or(of_group[0])));
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

/// Why, at the model's knee and at the deepest quoted depth that the model ran.
fn reasons(records: &Records, group: &Group, f: &Finding<'_>) -> Vec<String> {
    if group.misses.is_empty() {
        return vec!["Why is not known: the model did not run here.".to_string()];
    }
    let ran = |x: &f64| group.misses.iter().any(|m| m.x == *x);
    let deepest = depths(records).into_iter().rev().find(ran);
    let knee = f.knee.and_then(|j| num::finite(j.verdict.value));
    let mut out = Vec::new();
    for (x, what) in [(knee, ", the knee"), (deepest, "")] {
        let Some(x) = x.filter(|x| what.is_empty() || Some(*x) != deepest) else {
            continue;
        };
        let Some(why) = causes::why(group, &f.variant, &f.baseline, x) else {
            continue;
        };
        let ways = records
            .cache(&group.setting.machine, &why.level)
            .map(|c| c.1);
        let at = format!("at {} {}{what}", group.axis, num::exact(x));
        out.push(format!(
            "Why, as the model says: {}",
            because(&why, f, &at, ways)
        ));
    }
    if out.is_empty() {
        out.push("The model finds no cache miss that explains a difference.".to_string());
    }
    out
}

/// One row per finding.
#[must_use]
pub fn table(records: &Records, findings: &[&Finding<'_>], caption: &str) -> Table {
    let depths = depths(records);
    let axis = findings
        .first()
        .map_or("depth", |f| records.groups[f.group].axis.as_str());
    let mut head = vec!["machine", "setting", "from", "variant", "knee", "slower at"]
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
            row.push(Cell::text(match (f.tested_to, f.where_slower()) {
                (None, _) => "not tested".to_string(),
                (Some(_), None) => "never".to_string(),
                (Some(_), Some(at)) => at,
            }));
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

/// How "slower" is decided.
#[must_use]
pub fn how_decided() -> String {
    format!(
        "Slower means: the adjusted p is below {P_LIMIT} and the interval lies above 0 (each where there is one), and the \
         difference is at least {} of the baseline, for the model {}. A knee is the first point of the variant's own curve that lies \
         {} and three standard errors above its lowest plateau, with the next two, as verdicts.csv gives it; a slow first point is none. Rows \
         from the model are estimates, not measurements; intervals of the model span placements, not errors of the model.",
        num::percent(Some(SHARE_THAT_MATTERS)),
        num::percent(Some(MODEL_SHARE_THAT_MATTERS)),
        num::percent(Some(KNEE_SHARE)),
    )
}

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
    page.note(&how_decided());
    let main: Vec<&Finding<'_>> = findings
        .iter()
        .filter(|f| Some(&f.variant) == candidate(records))
        .collect();
    let all: Vec<&Finding<'_>> = findings.iter().collect();
    let caption = |what: &str| {
        format!("{what}: knee, slower depths, and difference to the baseline with its interval")
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
