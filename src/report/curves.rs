//! Cost per visit over depth: one pair of charts per setting, the curves themselves and their
//! difference to the baseline.

use super::chart::{Chart, Line};
use super::finding::{backend_words, metric_words};
use super::html::{Page, figure};
use super::num;
use super::records::{Group, Records};
use super::table::{Cell, Table};

fn line_name(variant: &str, backend: &str) -> String {
    format!("{variant}, {}", backend_words(backend))
}

/// The curves of one metric, in colour order, measured before modelled.
fn lines(records: &Records, group: &Group, metric: &str) -> Vec<Line> {
    let mut out = Vec::new();
    for variant in &records.variants {
        for backend in group.backends() {
            let Some(curve) = group.curve(&backend, variant, metric) else {
                continue;
            };
            let points: Vec<_> = curve
                .points
                .iter()
                .filter_map(|p| Some((p.x?, p.median?, p.low.zip(p.high))))
                .collect();
            if points.is_empty() {
                continue;
            }
            let dashed = backend == "model";
            out.push(Line {
                name: line_name(variant, &backend),
                index: records.variant_index(variant),
                dashed,
                points: points
                    .into_iter()
                    .map(|(x, y, ci)| (x, y, ci.filter(|_| !dashed)))
                    .collect(),
            });
        }
    }
    out
}

fn curve_table(records: &Records, group: &Group, metric: &str, caption: String) -> Table {
    let mut head = vec![group.axis.clone()];
    let mut columns = Vec::new();
    for variant in &records.variants {
        for backend in group.backends() {
            if let Some(curve) = group.curve(&backend, variant, metric) {
                head.push(line_name(variant, &backend));
                columns.push(curve);
            }
        }
    }
    let mut labels: Vec<(f64, String)> = Vec::new();
    for point in columns.iter().flat_map(|c| &c.points) {
        if !labels.iter().any(|(_, l)| *l == point.label) {
            labels.push((point.x.unwrap_or(f64::INFINITY), point.label.clone()));
        }
    }
    labels.sort_by(|a, b| a.0.total_cmp(&b.0));
    let rows = labels
        .into_iter()
        .map(|(_, label)| {
            let mut row = vec![Cell::text(label.clone())];
            for curve in &columns {
                let point = curve.points.iter().find(|p| p.label == label);
                row.push(match point {
                    None => Cell::text("not run"),
                    Some(p) => Cell::Value {
                        value: p.median,
                        low: p.low,
                        high: p.high,
                        signed: false,
                    },
                });
            }
            row
        })
        .collect();
    Table {
        caption,
        head,
        rows,
    }
}

/// Shifts of all variants as lines and as a table.
fn differences(records: &Records, group: &Group, unit: &str, metric: &str) -> (Vec<Line>, Table) {
    let mut lines = Vec::new();
    let mut table = Table::new(
        "",
        &["variant", "from", &group.axis, "difference", "adjusted p"],
    );
    for variant in &records.variants {
        for backend in group.backends() {
            let mut points = Vec::new();
            for judged in &group.verdicts {
                let v = &judged.verdict;
                let unit_fits = v.unit == unit || v.unit == metric;
                if v.what != "shift" || v.variant != *variant || v.backend != backend || !unit_fits
                {
                    continue;
                }
                let Some(x) = judged.x else { continue };
                table.rows.push(vec![
                    Cell::text(variant.clone()),
                    Cell::text(backend_words(&backend)),
                    Cell::Whole(x),
                    Cell::Value {
                        value: v.value,
                        low: v.ci_low,
                        high: v.ci_high,
                        signed: true,
                    },
                    match num::finite(v.p_adjusted) {
                        Some(p) => Cell::value(Some(p)),
                        None => Cell::text("none"),
                    },
                ]);
                if let Some(y) = num::finite(v.value) {
                    let ci = num::finite(v.ci_low).zip(num::finite(v.ci_high));
                    points.push((x, y, ci.filter(|_| backend != "model")));
                }
            }
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            if !points.is_empty() {
                lines.push(Line {
                    name: line_name(variant, &backend),
                    index: records.variant_index(variant),
                    dashed: backend == "model",
                    points,
                });
            }
        }
    }
    (lines, table)
}

/// The section.
pub fn section(records: &Records, page: &mut Page) {
    page.section("curves", "Cost per visit over depth");
    page.para(
        "Solid lines with filled marks were measured, bars are 95 % intervals of the median; dashed lines with hollow marks \
         are what the model says. One colour and one mark per variant. The depth axis is linear in log(1 + depth), so that \
         small depths have room; each depth that was run has a tick.",
    );
    for group in &records.groups {
        let label = records.label(&group.setting);
        let Some((metric, unit)) = group.metric() else {
            if !group.curves.is_empty() {
                page.absent(
                    &format!("{label}: no cost metric was measured."),
                    &format!("kwalk run {}", records.experiment_names()),
                );
            }
            continue;
        };
        let words = metric_words(&metric);
        let chart = Chart {
            id: page.id(),
            title: &format!("{words} over {}, {label}", group.axis),
            x_label: &group.axis,
            y_label: &words,
            lines: lines(records, group, &metric),
            band: None,
        };
        let caption = format!("{words} by variant ({metric}, median and interval), {label}");
        let table = curve_table(records, group, &metric, caption);
        page.heading(&label);
        let without: Vec<String> = group
            .backends()
            .into_iter()
            .filter(|b| {
                !group.curves.iter().any(|c| {
                    c.backend == *b
                        && c.metric == metric
                        && c.points.iter().any(|p| p.median.is_some())
                })
            })
            .collect();
        if !without.is_empty() {
            page.note(&format!("No {metric} from: {}.", without.join(", ")));
        }
        page.raw("<div class=\"grid\">\n");
        if chart.lines.is_empty() {
            page.note(&format!(
                "The axis {} is not numeric: table only.",
                group.axis
            ));
            page.table(&table);
        } else {
            page.raw(&figure(&words, &chart.svg(), &chart.legend(), &table));
        }
        let (lines, mut table) = differences(records, group, &unit, &metric);
        if !lines.is_empty() {
            let title = format!("Difference to the baseline in {words}, {label}");
            table.caption = title.clone();
            let chart = Chart {
                id: page.id(),
                title: &title,
                x_label: &group.axis,
                y_label: &format!("{words}, minus baseline"),
                lines,
                band: None,
            };
            page.raw(&figure(
                "Difference to the baseline",
                &chart.svg(),
                &chart.legend(),
                &table,
            ));
        }
        page.raw("</div>\n");
    }
}
