//! Misses per visit by cause, and the cause behind the difference of two variants.

use super::chart::{self, log_scale, px, ticks};
use super::html::{Page, details, escape};
use super::num;
use super::records::{Group, Records};
use super::table::{Cell, Table};
use std::collections::{BTreeMap, BTreeSet};

const CAUSES: [&str; 3] = ["compulsory", "capacity", "conflict"];

/// Why one variant misses more than another at one depth, as the model books it.
#[derive(Clone, Debug, PartialEq)]
pub struct Why {
    /// Level in words: `L1D` or `L2`.
    pub level: String,
    /// `compulsory`, `capacity` or `conflict`.
    pub cause: String,
    /// Extra misses of this level and cause, per visit.
    pub extra_per_visit: f64,
    /// Extra misses of the L2 of all causes, per visit.
    pub extra_l2_per_visit: f64,
    /// `struct.field` that carry at least 80 % of it, largest first, at most four.
    pub fields: Vec<String>,
    /// Sets in which the variant has more of these misses, with all that it has there per
    /// operation; the fullest first.
    pub sets: Vec<(u32, f64)>,
}

/// The cause whose L1D or L2 misses per visit differ most between `variant` and `baseline` at
/// `x`; none if the model did not run or they do not differ by 0.005 misses.
#[must_use]
pub fn why(group: &Group, variant: &str, baseline: &str, x: f64) -> Option<Why> {
    let mut by_cause: BTreeMap<(&str, &str), f64> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    let rows = || {
        group.misses.iter().filter_map(|m| {
            let sign = match &*m.variant {
                v if v == variant => 1.0,
                v if v == baseline => -1.0,
                _ => return None,
            };
            (m.x == x && m.per_visit.is_finite()).then_some((m, sign))
        })
    };
    for (m, sign) in rows() {
        seen.insert(sign > 0.0);
        if matches!(&*m.level, "l1d" | "l2") {
            *by_cause.entry((&m.level, &m.cause)).or_default() += sign * m.per_visit;
        }
    }
    if seen.len() < 2 {
        return None;
    }
    let ((level, cause), extra) = by_cause
        .iter()
        .max_by(|a, b| a.1.total_cmp(b.1))
        .map(|(k, v)| (*k, *v))?;
    if extra < 0.005 {
        return None;
    }
    let mut fields: BTreeMap<String, f64> = BTreeMap::new();
    let mut sets: BTreeMap<u32, (f64, f64)> = BTreeMap::new();
    for (m, sign) in rows().filter(|(m, _)| &*m.level == level && &*m.cause == cause) {
        *fields
            .entry(format!("{}.{}", m.structure, m.field))
            .or_default() += sign * m.per_visit;
        let set = sets.entry(m.set).or_default();
        set.0 += sign * m.per_visit;
        set.1 += if sign > 0.0 { m.per_op } else { 0.0 };
    }
    let mut sets: Vec<(u32, f64)> = sets
        .into_iter()
        .filter(|(_, (more, _))| *more > 1e-9)
        .map(|(set, (_, own))| (set, own))
        .collect();
    sets.sort_by(|a, b| b.1.total_cmp(&a.1));
    let mut ranked: Vec<(String, f64)> = fields.into_iter().filter(|(_, v)| *v > 0.0).collect();
    ranked.sort_by(|a, b| b.1.total_cmp(&a.1));
    let all: f64 = ranked.iter().map(|(_, v)| v).sum();
    let mut carried = 0.0;
    let fields = ranked
        .into_iter()
        .take_while(|(_, v)| {
            let more = carried < 0.8 * all;
            carried += v;
            more
        })
        .take(4)
        .map(|(name, _)| name)
        .collect();
    Some(Why {
        level: level_words(level),
        cause: cause.to_string(),
        extra_per_visit: extra,
        extra_l2_per_visit: by_cause
            .iter()
            .filter(|((level, _), _)| *level == "l2")
            .map(|(_, v)| v)
            .sum(),
        fields,
        sets,
    })
}

/// `l1d` as `L1D`.
#[must_use]
pub fn level_words(level: &str) -> String {
    match level {
        "memory" => "memory".to_string(),
        "dtlb" => "dTLB".to_string(),
        other => other.to_uppercase(),
    }
}

type Stack = BTreeMap<u64, [f64; 3]>;

/// Misses per visit of one level by depth (as bits of the non-negative number) and cause.
fn stack(group: &Group, variant: &str, level: &str) -> Stack {
    // Depths that were modelled without a miss are bars of no height, not gaps.
    let modelled = group
        .curves
        .iter()
        .filter(|c| c.backend == "model" && c.variant == variant)
        .flat_map(|c| c.points.iter().filter(|p| p.median.is_some()))
        .filter_map(|p| p.x);
    let mut out: Stack = modelled.map(|x| (x.to_bits(), [0.0; 3])).collect();
    for m in &group.misses {
        if &*m.variant == variant
            && &*m.level == level
            && m.per_visit.is_finite()
            && let Some(i) = CAUSES.iter().position(|c| *c == &*m.cause)
        {
            out.entry(m.x.to_bits()).or_default()[i] += m.per_visit;
        }
    }
    out
}

/// Stacked bars of one variant. `high` is the same for all variants of a setting.
fn bars(id: u32, title: &str, axis: &str, stack: &Stack, high: f64, max: f64) -> String {
    let (width, height, left, top, bottom) = (300.0, 200.0, 44.0, 8.0, 40.0);
    let base = height - bottom;
    let total: f64 = stack.values().last().map_or(0.0, |s| s.iter().sum());
    let mut out = chart::open(
        id,
        width,
        height,
        title,
        &format!(
            "Stacked bars of L1D misses per visit by cause over {axis}; at the deepest, {} of which {} are conflict misses. All values are in the table below.",
            num::short(Some(total)),
            num::short(stack.values().last().map(|s| s[2]))
        ),
    );
    let at_y = |v: f64| base - v / high * (base - top);
    for tick in ticks(0.0, high, 4.0) {
        out.push_str(&format!(
            "<path class=\"gr\" d=\"M{left} {0}H{width}\"/><text x=\"{1}\" y=\"{2}\" text-anchor=\"end\">{3}</text>",
            px(at_y(tick)),
            px(left - 4.0),
            px(at_y(tick) + 4.0),
            num::exact((tick * 1e6).round() / 1e6)
        ));
    }
    let at_x = |x: f64| log_scale(x, max, left + 6.0, width - 8.0);
    let mut paths = [String::new(), String::new(), String::new()];
    for (bits, parts) in stack {
        let x = at_x(f64::from_bits(*bits)) - 3.0;
        let mut from = 0.0;
        for (i, part) in parts.iter().enumerate() {
            if *part > 0.0 {
                let (y0, y1) = (at_y(from), at_y(from + part));
                paths[i].push_str(&format!("M{} {}h6V{}h-6z", px(x), px(y0), px(y1)));
                from += part;
            }
        }
    }
    for (path, cause) in paths.iter().zip(CAUSES) {
        if !path.is_empty() {
            out.push_str(&format!("<path class=\"{cause}\" d=\"{path}\"/>"));
        }
    }
    if !paths[2].is_empty() {
        out.push_str(&format!("<path class=\"hatch\" d=\"{}\"/>", paths[2]));
    }
    out.push_str(&format!(
        "<path class=\"ax\" d=\"M{left} {base}H{width}\"/>"
    ));
    let mut shown: Vec<f64> = Vec::new();
    for x in [0.0, max, 8.0, 25.0, 50.0, 2.0, 16.0] {
        let known = stack.contains_key(&x.to_bits());
        if known && shown.iter().all(|s| (at_x(*s) - at_x(x)).abs() > 20.0) {
            shown.push(x);
            out.push_str(&format!(
                "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                px(at_x(x)),
                px(base + 14.0),
                num::exact(x)
            ));
        }
    }
    out.push_str(&format!(
        "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{2} (log(1 + {2}))</text><text transform=\"translate(11 {3}) rotate(-90)\" text-anchor=\"middle\">L1D misses per visit</text></svg>\n",
        px((left + width) / 2.0),
        px(height - 6.0),
        escape(axis),
        px((top + base) / 2.0)
    ));
    out
}

fn numbers(group: &Group, variants: &[String], label: &str) -> Table {
    let mut table = Table::new(
        format!("Misses per visit by cause, model, {label}"),
        &[
            "variant",
            &group.axis,
            "L1D compulsory",
            "L1D capacity",
            "L1D conflict",
            "L2 all causes",
        ],
    );
    for variant in variants {
        let l2 = stack(group, variant, "l2");
        for (bits, parts) in stack(group, variant, "l1d") {
            let mut row = vec![
                Cell::text(variant.clone()),
                Cell::Whole(f64::from_bits(bits)),
            ];
            row.extend(parts.iter().map(|v| Cell::value(Some(*v))));
            row.push(Cell::value(Some(
                l2.get(&bits).map_or(0.0, |s| s.iter().sum()),
            )));
            table.rows.push(row);
        }
    }
    table
}

/// Variants of `group` with attribution, in colour order.
#[must_use]
pub fn variants_with_misses(records: &Records, group: &Group) -> Vec<String> {
    records
        .variants
        .iter()
        .filter(|v| group.misses.iter().any(|m| *m.variant == **v))
        .cloned()
        .collect()
}

/// The section.
pub fn section(records: &Records, page: &mut Page) {
    page.section("causes", "Misses per visit, by cause");
    if records.groups.iter().all(|g| g.misses.is_empty()) {
        page.absent(
            "attribution.csv holds no row: causes come from the model, which did not run.",
            &format!("kwalk run {} --backend model", records.experiment_names()),
        );
        return;
    }
    page.para(
        "The model books each L1D miss as compulsory (first touch), capacity (a fully associative \
         LRU cache of the same size misses too) or conflict (that one would have hit). \
         These are model counts, not measurements.",
    );
    page.raw(
        "<ul class=\"legend\"><li><svg class=\"key\" viewBox=\"0 0 38 14\" aria-hidden=\"true\"><rect class=\"conflict\" width=\"38\" height=\"14\"/><rect class=\"hatch\" width=\"38\" height=\"14\"/></svg>conflict (hatched, top)</li>\
         <li><svg class=\"key\" viewBox=\"0 0 38 14\" aria-hidden=\"true\"><rect class=\"capacity\" width=\"38\" height=\"14\"/></svg>capacity (middle)</li>\
         <li><svg class=\"key\" viewBox=\"0 0 38 14\" aria-hidden=\"true\"><rect class=\"compulsory\" width=\"38\" height=\"14\"/></svg>compulsory (bottom)</li></ul>\n",
    );
    for (i, group) in records.groups.iter().enumerate() {
        let variants = variants_with_misses(records, group);
        if variants.is_empty() {
            continue;
        }
        let label = records.label(&group.setting);
        let stacks: Vec<Stack> = variants.iter().map(|v| stack(group, v, "l1d")).collect();
        let high = stacks
            .iter()
            .flat_map(|s| s.values().map(|p| p.iter().sum::<f64>()))
            .fold(0.0, f64::max);
        let max = stacks
            .iter()
            .filter_map(|s| Some(f64::from_bits(*s.keys().last()?)))
            .fold(1.0, f64::max);
        let mut inner = String::from("<div class=\"grid small\">\n");
        for (variant, stack) in variants.iter().zip(&stacks) {
            let title = format!("{variant}: L1D misses per visit, {label}");
            let svg = bars(
                page.id(),
                &title,
                &group.axis,
                stack,
                if high > 0.0 { high * 1.05 } else { 1.0 },
                max,
            );
            inner.push_str(&format!(
                "<figure><figcaption>{}</figcaption>\n{svg}</figure>\n",
                escape(variant)
            ));
        }
        inner.push_str("</div>\n");
        inner.push_str(&details(
            "The numbers of these charts",
            &numbers(group, &variants, &label).html(),
        ));
        if super::finding::is_primary(records, i) {
            page.heading(&label);
            page.raw(&inner);
        } else {
            page.raw(&details(&label, &inner));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::records::Miss;
    use super::*;

    fn miss(variant: &str, field: &str, set: u32, cause: &str, per_visit: f64) -> Miss {
        Miss {
            backend: "model".into(),
            variant: variant.into(),
            x: 50.0,
            structure: "cgroup".into(),
            field: field.into(),
            line: 0,
            set,
            level: "l1d".into(),
            cause: cause.into(),
            per_op: per_visit * 51.0,
            per_visit,
            cycles_per_op: 0.0,
        }
    }

    /// `b` has 0.3 capacity misses more and 1.5 conflict misses more, the latter on two fields
    /// in two sets: conflict is the answer, the larger field first.
    #[test]
    fn the_largest_difference_is_the_cause() {
        let group = Group {
            misses: vec![
                miss("a", "x", 1, "capacity", 0.2),
                miss("b", "x", 1, "capacity", 0.5),
                miss("a", "x", 1, "conflict", 0.5),
                miss("b", "x", 1, "conflict", 0.5),
                miss("b", "psi", 2, "conflict", 1.0),
                miss("b", "parent", 3, "conflict", 0.5),
            ],
            ..Group::default()
        };
        let why = why(&group, "b", "a", 50.0).unwrap();
        assert_eq!(
            (why.level.as_str(), why.cause.as_str()),
            ("L1D", "conflict")
        );
        assert!((why.extra_per_visit - 1.5).abs() < 1e-9);
        assert_eq!(why.fields, ["cgroup.psi", "cgroup.parent"]);
        // Per operation there are 51 visits.
        assert_eq!(why.sets, [(2, 51.0), (3, 25.5)]);
        assert_eq!(super::why(&group, "b", "absent", 50.0), None);
        assert_eq!(super::why(&group, "a", "b", 50.0), None);
    }
}
