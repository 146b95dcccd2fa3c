//! What each struct costs, line by line, like a pahole listing with heat.

use super::causes::variants_with_misses;
use super::finding::{candidate, is_primary};
use super::html::{Page, details};
use super::num;
use super::records::{Group, Records};
use super::table::{Cell, Table};
use std::collections::BTreeMap;

/// What one field costs.
#[derive(Clone, Copy, Default)]
struct Cost {
    l1d: f64,
    l2: f64,
    l3: f64,
    dtlb: f64,
    cycles: f64,
}

/// Depth of the listing: 50 if the model ran it, otherwise the deepest.
fn listed_depth(group: &Group) -> Option<f64> {
    if group.misses.iter().any(|m| m.x == 50.0) {
        return Some(50.0);
    }
    group.misses.iter().map(|m| m.x).max_by(f64::total_cmp)
}

/// By struct, then line and field.
fn costs(group: &Group, variant: &str, x: f64) -> BTreeMap<String, BTreeMap<(u32, String), Cost>> {
    let mut out: BTreeMap<String, BTreeMap<(u32, String), Cost>> = BTreeMap::new();
    for m in group
        .misses
        .iter()
        .filter(|m| &*m.variant == variant && m.x == x)
    {
        let cost = out
            .entry(m.structure.to_string())
            .or_default()
            .entry((m.line, m.field.to_string()))
            .or_default();
        let misses = if m.per_visit.is_finite() {
            m.per_visit
        } else {
            0.0
        };
        match &*m.level {
            "l1d" => cost.l1d += misses,
            "l2" => cost.l2 += misses,
            "l3" => cost.l3 += misses,
            "dtlb" => cost.dtlb += misses,
            _ => {}
        }
        if m.cycles_per_op.is_finite() {
            cost.cycles += m.cycles_per_op;
        }
    }
    out
}

/// One listing. `high` is the largest cost of a field in this setting, so that bars compare.
fn listing(group: &Group, variant: &str, x: f64, high: f64, label: &str) -> Table {
    let mut table = Table::new(
        format!(
            "{variant}: misses per visit and cycles per operation by field at {} {}, model, {label}",
            group.axis,
            num::exact(x)
        ),
        &[
            "field",
            "L1D misses per visit",
            "L2",
            "L3",
            "dTLB",
            "cycles per operation",
            "share of the largest",
        ],
    );
    let structs = costs(group, variant, x);
    let total: f64 = structs
        .values()
        .flat_map(BTreeMap::values)
        .map(|c| c.cycles)
        .sum();
    for (name, fields) in structs {
        let mut line = None;
        let sum: f64 = fields.values().map(|c| c.cycles).sum();
        table.rows.push(vec![Cell::text(format!(
            "struct {name}: {} cycles per operation",
            num::short(Some(sum))
        ))]);
        for ((at, field), cost) in &fields {
            if line != Some(*at) {
                line = Some(*at);
                table.rows.push(vec![Cell::text(format!(
                    "line {at}: bytes {} to {}",
                    u64::from(*at) * 64,
                    u64::from(*at) * 64 + 63
                ))]);
            }
            table.rows.push(vec![
                Cell::text(field.clone()),
                Cell::value(Some(cost.l1d)),
                Cell::value(Some(cost.l2)),
                Cell::value(Some(cost.l3)),
                Cell::value(Some(cost.dtlb)),
                Cell::value(Some(cost.cycles)),
                Cell::Bar(if high > 0.0 { cost.cycles / high } else { 0.0 }),
            ]);
        }
    }
    table.rows.push(vec![Cell::text(format!(
        "all structs: {} cycles of latency per operation",
        num::short(Some(total))
    ))]);
    table
}

/// The section.
pub fn section(records: &Records, page: &mut Page) {
    page.section("structs", "The cost in each struct, line by line");
    if records.groups.iter().all(|g| g.misses.is_empty()) {
        page.absent(
            "attribution.csv holds no row, so there is no listing.",
            &format!("kwalk run {} --backend model", records.experiment_names()),
        );
        return;
    }
    page.para(
        "Fields that missed at least once, by struct and 64-byte line, as the model says. Cycles are the \
         latency that the misses of the field add, all levels together. The core overlaps accesses, so they are an upper bound of what \
         taking the misses away can save, not a share of the run's time.",
    );
    for (i, group) in records.groups.iter().enumerate() {
        let Some(x) = listed_depth(group) else {
            continue;
        };
        let label = records.label(&group.setting);
        let variants = variants_with_misses(records, group);
        let high = variants
            .iter()
            .flat_map(|v| costs(group, v, x).into_values())
            .flat_map(BTreeMap::into_values)
            .map(|c| c.cycles)
            .fold(0.0, f64::max);
        let primary = is_primary(records, i);
        let mut collapsed = String::new();
        if primary {
            page.heading(&label);
        }
        for variant in &variants {
            let table = listing(group, variant, x, high, &label);
            let main = records.is_baseline(variant) || Some(variant) == candidate(records);
            if primary && main {
                page.table(&table);
            } else {
                collapsed.push_str(&details(variant, &table.html()));
            }
        }
        if primary {
            page.raw(&collapsed);
        } else {
            page.raw(&details(&label, &collapsed));
        }
    }
}
