//! Map of L1D sets by depth: which sets overflow, and with which fields.

use super::causes::variants_with_misses;
use super::chart::{self, px};
use super::finding::is_primary;
use super::html::{Page, details, escape};
use super::num;
use super::records::{Group, Records};
use super::table::{Cell, Table};
use std::collections::BTreeMap;

/// Conflict misses per operation by set and depth (bits of the non-negative number).
type Map = BTreeMap<(u32, u64), f64>;

fn map_of(group: &Group, variant: &str) -> Map {
    let mut out = Map::new();
    for m in &group.misses {
        if &*m.variant == variant && &*m.level == "l1d" && &*m.cause == "conflict" && m.per_op > 0.0
        {
            *out.entry((m.set, m.x.to_bits())).or_default() += m.per_op;
        }
    }
    out
}

/// Depths at which the model ran, ascending.
fn depths(group: &Group) -> Vec<f64> {
    let mut out: Vec<f64> = group.misses.iter().map(|m| m.x).collect();
    out.extend(
        group
            .curves
            .iter()
            .filter(|c| c.backend == "model")
            .flat_map(|c| c.points.iter().filter_map(|p| p.x)),
    );
    out.sort_by(f64::total_cmp);
    out.dedup();
    out
}

/// Number of L1D sets that the machine's file gives; otherwise as many as the rows need.
fn sets(records: &Records, machine: &str, group: &Group) -> u32 {
    let told = records.cache(machine, "l1d").map(|(sets, _)| sets);
    let used = group
        .misses
        .iter()
        .filter(|m| &*m.level == "l1d")
        .map(|m| m.set + 1)
        .max()
        .unwrap_or(1);
    told.unwrap_or(0).max(used)
}

fn heat_map(
    id: u32,
    title: &str,
    axis: &str,
    map: &Map,
    depths: &[f64],
    sets: u32,
    high: f64,
) -> String {
    let (left, top, cell_w) = (44.0, 6.0, 11.0);
    let cell_h = (256.0 / f64::from(sets)).clamp(0.5, 8.0);
    let width = left + cell_w * depths.len() as f64 + 6.0;
    let height = top + cell_h * f64::from(sets) + 40.0;
    let base = top + cell_h * f64::from(sets);
    let mut overflowing: Vec<u32> = map.keys().map(|(set, _)| *set).collect();
    overflowing.dedup();
    let desc = format!(
        "One row per L1D set, one column per {axis}; {} of {sets} sets have conflict misses. The table below lists them.",
        overflowing.len()
    );
    let width = width.max(240.0);
    let mut out = chart::open(id, width, height, title, &desc);
    out.push_str(&format!(
        "<rect class=\"frame\" x=\"{left}\" y=\"{top}\" width=\"{}\" height=\"{}\"/>",
        px(cell_w * depths.len() as f64),
        px(base - top)
    ));
    let mut levels = vec![String::new(); 5];
    for ((set, bits), value) in map {
        let Some(column) = depths.iter().position(|d| d.to_bits() == *bits) else {
            continue;
        };
        let level = ((value / high * 5.0).ceil() as usize).clamp(1, 5);
        levels[level - 1].push_str(&format!(
            "M{} {:.2}h{}v{:.2}h-{}z",
            px(left + cell_w * column as f64),
            top + cell_h * f64::from(*set),
            px(cell_w),
            cell_h,
            px(cell_w)
        ));
    }
    for (i, path) in levels.iter().enumerate().filter(|(_, p)| !p.is_empty()) {
        out.push_str(&format!("<path class=\"h{}\" d=\"{path}\"/>", i + 1));
    }
    let step = (sets / 4).max(1);
    for set in (0..sets).step_by(step as usize).chain([sets - 1]) {
        if set == sets - 1 || set + step / 2 < sets {
            out.push_str(&format!(
                "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{set}</text>",
                px(left - 4.0),
                px(top + cell_h * (f64::from(set) + 0.5) + 4.0)
            ));
        }
    }
    let mut last = f64::NEG_INFINITY;
    let deepest = left + cell_w * (depths.len() as f64 - 0.5);
    for (i, depth) in depths.iter().enumerate() {
        let x = left + cell_w * (i as f64 + 0.5);
        let is_last = i + 1 == depths.len();
        if is_last || (x - last >= 24.0 && deepest - x >= 24.0) {
            last = x;
            out.push_str(&format!(
                "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                px(x),
                px(base + 14.0),
                num::exact(*depth)
            ));
        }
    }
    out.push_str(&format!(
        "<text x=\"{}\" y=\"{}\">{} (one column each)</text><text transform=\"translate(11 {}) rotate(-90)\" text-anchor=\"middle\">L1D set</text></svg>\n",
        px(left),
        px(height - 8.0),
        escape(axis),
        px((top + base) / 2.0)
    ));
    out
}

/// Sets that overflow at the deepest depth, with their fields.
fn set_table(group: &Group, variants: &[String], deepest: f64, label: &str) -> Table {
    let mut table = Table::new(
        format!(
            "L1D conflict misses per operation at {} {}, model, {label}",
            group.axis,
            num::exact(deepest)
        ),
        &[
            "variant",
            "sets",
            "misses per operation",
            "struct.field (misses per operation)",
        ],
    );
    for variant in variants {
        let mut by_set: BTreeMap<u32, BTreeMap<String, f64>> = BTreeMap::new();
        for m in &group.misses {
            let of = &*m.variant == variant.as_str() && m.x == deepest;
            if of && &*m.level == "l1d" && &*m.cause == "conflict" && m.per_op > 0.0 {
                *by_set
                    .entry(m.set)
                    .or_default()
                    .entry(format!("{}.{}", m.structure, m.field))
                    .or_default() += m.per_op;
            }
        }
        if by_set.is_empty() {
            table.rows.push(vec![
                Cell::text(variant.clone()),
                Cell::text("none"),
                Cell::value(Some(0.0)),
                Cell::text("no set overflows"),
            ]);
        }
        for (set, fields) in by_set {
            let mut ranked: Vec<(&String, &f64)> = fields.iter().collect();
            ranked.sort_by(|a, b| b.1.total_cmp(a.1));
            let names: Vec<String> = ranked
                .iter()
                .map(|(name, v)| format!("{name} ({})", num::short(Some(**v))))
                .collect();
            table.rows.push(vec![
                Cell::text(variant.clone()),
                Cell::text(set.to_string()),
                Cell::value(Some(fields.values().sum())),
                Cell::text(names.join(", ")),
            ]);
        }
    }
    table
}

/// The section.
pub fn section(records: &Records, page: &mut Page) {
    page.section("sets", "Which L1D sets overflow");
    if records.groups.iter().all(|g| g.misses.is_empty()) {
        page.absent(
            "attribution.csv holds no row, so there is no set map.",
            &format!("kwalk run {} --backend model", records.experiment_names()),
        );
        return;
    }
    page.para(
        "Conflict misses of the L1D per operation, by set (rows) and depth (columns), as the model says. Empty is none. \
         The shades are fifths of the largest value of the setting, the same for all its variants.",
    );
    for (i, group) in records.groups.iter().enumerate() {
        let variants = variants_with_misses(records, group);
        let depths = depths(group);
        let Some(deepest) = group.misses.iter().map(|m| m.x).max_by(f64::total_cmp) else {
            continue;
        };
        let label = records.label(&group.setting);
        let maps: Vec<Map> = variants.iter().map(|v| map_of(group, v)).collect();
        let high = maps
            .iter()
            .flat_map(Map::values)
            .copied()
            .fold(0.0, f64::max);
        let sets = sets(records, &group.setting.machine, group);
        let mut inner = String::new();
        if high > 0.0 {
            inner.push_str(&legend(high));
            inner.push_str("<div class=\"grid small\">\n");
            for (variant, map) in variants.iter().zip(&maps) {
                if map.is_empty() {
                    inner.push_str(&format!(
                        "<p class=\"note\">{}: no L1D conflict miss at any depth.</p>\n",
                        escape(variant)
                    ));
                    continue;
                }
                let title = format!("{variant}: L1D conflict misses by set, {label}");
                inner.push_str(&format!(
                    "<figure><figcaption>{}</figcaption>\n{}</figure>\n",
                    escape(variant),
                    heat_map(page.id(), &title, &group.axis, map, &depths, sets, high)
                ));
            }
            inner.push_str("</div>\n");
        } else {
            inner.push_str("<p>No variant has an L1D conflict miss at any depth.</p>\n");
        }
        inner.push_str(&details(
            &format!("Sets and fields at {} {}", group.axis, num::exact(deepest)),
            &set_table(group, &variants, deepest, &label).html(),
        ));
        if is_primary(records, i) {
            page.heading(&label);
            page.raw(&inner);
        } else {
            page.raw(&details(&label, &inner));
        }
    }
}

fn legend(high: f64) -> String {
    let items: String = (1..=5)
        .map(|i| {
            format!(
                "<li><svg class=\"key\" viewBox=\"0 0 38 14\" aria-hidden=\"true\"><rect class=\"h{i}\" width=\"38\" height=\"14\"/></svg>up to {}</li>",
                num::short(Some(high * f64::from(i) / 5.0))
            )
        })
        .collect();
    format!("<ul class=\"legend\">{items}<li>misses per operation and set</li></ul>\n")
}
