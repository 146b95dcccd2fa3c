//! The page's part on a pipe round trip: predicted against published, the slip, and what the
//! slopes support.

use super::html::{Page, code};
use super::num;
use super::pipe::{self, Slopes};
use super::published::{self, Published};
use super::records::{Group, Records};
use super::table::{Cell, Table};

/// Whether the page has this section at all.
#[must_use]
pub fn applies(records: &Records) -> bool {
    records
        .groups
        .iter()
        .any(|g| g.setting.kernel == "psi-pipe" && !g.curves.is_empty())
}

/// The modelled machine that a published series is set against: the one it names, in whatever
/// field; a machine that no run modelled has none.
fn machine_of(records: &Records, series: &[&Published]) -> Option<String> {
    let names = records.machine_names();
    let named = |text: &str| names.iter().find(|n| text.contains(n.as_str())).cloned();
    series.iter().find_map(|p| named(&p.machine)).or_else(|| {
        series
            .iter()
            .find_map(|p| named(&p.note).or_else(|| named(&p.source)))
    })
}

/// Groups of the model on `machine` with both sides on CPUs of their own, or whatever there is.
fn groups<'a>(records: &'a Records, machine: &str) -> Vec<&'a Group> {
    let of = |two: bool| -> Vec<&Group> {
        records
            .groups
            .iter()
            .filter(|g| {
                g.setting.kernel == "psi-pipe"
                    && g.setting.machine == machine
                    && g.curves.iter().any(|c| c.backend == "model")
                    && (!two || g.setting.rest.split(';').any(|p| p == "cpus=2"))
            })
            .collect()
    };
    let two = of(true);
    if two.is_empty() { of(false) } else { two }
}

fn modelled<'a>(group: &'a Group, metric: &'a str) -> impl Fn(&str, f64) -> Option<f64> + 'a {
    move |variant, depth| group.curve("model", variant, metric)?.at(depth)?.median
}

fn micro(ns: Option<f64>) -> Cell {
    Cell::value(ns.map(|v| v / 1000.0))
}

fn micro_difference(ns: Option<f64>) -> Cell {
    Cell::difference(ns.map(|v| v / 1000.0))
}

fn depth_words(depth: Option<f64>) -> String {
    match depth {
        None => "PSI off".to_string(),
        Some(0.0) => "root".to_string(),
        Some(d) => format!("{} levels", num::exact(d)),
    }
}

fn prediction_table(series: &[&Published], group: &Group, label: &str) -> Table {
    let mut table = Table::new(
        format!(
            "Round trip in us per operation, model of {label} against: {}",
            series[0].source
        ),
        &[
            "depth",
            "variant",
            "predicted",
            "published",
            "residual",
            "residual, share",
            "visits, model",
        ],
    );
    let visits = modelled(group, "visits_per_op");
    for p in pipe::predictions(series, modelled(group, "time_ns_per_op")) {
        let residual = p.residual_ns();
        table.rows.push(vec![
            Cell::text(depth_words(Some(p.depth))),
            Cell::text(p.variant.clone()),
            micro(p.predicted_ns),
            micro(Some(p.published_ns)),
            micro_difference(residual),
            Cell::Percent(residual.map(|r| r / p.published_ns)),
            visits(&p.variant, p.depth).map_or_else(|| Cell::value(None), Cell::Whole),
        ]);
    }
    table
}

fn slip_table(records: &Records, all: &[Vec<&Published>]) -> Table {
    let mut table = Table::new(
        "The slip at 5 levels, two CPUs: change in us per operation that the visits left out predict, beside the published change net of the root's",
        &[
            "series",
            "visits",
            "as posted",
            "visits, model",
            "as posted, model",
            "ns per visit, published before",
            "predicted change",
            "published change",
            "share explained",
        ],
    );
    for series in all {
        let Some(slip) = pipe::slip(series, 5.0) else {
            continue;
        };
        // A series of the repaired patch has no slip to explain.
        if series.iter().any(|p| p.after_variant == "cgroup")
            && !series.iter().any(|p| p.after_variant == "cgroup-as-posted")
        {
            continue;
        }
        let group = machine_of(records, series).and_then(|m| groups(records, &m).first().copied());
        let counted =
            |variant: &str| group.and_then(|g| modelled(g, "visits_per_op")(variant, 5.0));
        table.rows.push(vec![
            Cell::text(format!("{}: {}", series[0].machine, series[0].source)),
            Cell::Whole(slip.visits),
            Cell::Whole(slip.visits_as_posted),
            counted("parent").map_or_else(|| Cell::value(None), Cell::Whole),
            counted("cgroup-as-posted").map_or_else(|| Cell::value(None), Cell::Whole),
            Cell::value(Some(slip.visit_ns)),
            micro_difference(Some(slip.predicted_ns)),
            micro_difference(Some(slip.published_ns)),
            Cell::Percent(Some(slip.predicted_ns / slip.published_ns)),
        ]);
    }
    table
}

fn story_table(slopes: &Slopes, model: &[(String, Slopes)]) -> Table {
    let mut table = Table::new(
        format!(
            "Slope from {} to {} levels, ns per level and operation, and what each story says of it",
            num::exact(slopes.from),
            num::exact(slopes.to)
        ),
        &[
            "story",
            "before",
            "after",
            "after minus before",
            "ratio",
            "unit cost before, ns",
            "unit cost after, ns",
        ],
    );
    let mut row = |name: String, s: &Slopes, cost: Option<(f64, f64)>| {
        table.rows.push(vec![
            Cell::text(name),
            Cell::value(Some(s.before_ns)),
            Cell::value(Some(s.after_ns)),
            Cell::difference(Some(s.after_ns - s.before_ns)),
            Cell::value(Some(s.ratio())),
            match cost {
                Some((before, _)) => Cell::value(Some(before)),
                None => Cell::text("from the model"),
            },
            match cost {
                Some((_, after)) => Cell::value(Some(after)),
                None => Cell::text("from the model"),
            },
        ]);
    };
    row(
        "published, per visit".into(),
        slopes,
        Some(slopes.visit_ns()),
    );
    let scaled = |ratio: f64| Slopes {
        after_ns: slopes.before_ns * ratio,
        ..slopes.clone()
    };
    row(
        "each line costs the same: 6 to 4".into(),
        &scaled(pipe::LINES_PER_VISIT_PATCHED / pipe::LINES_PER_VISIT),
        Some(slopes.line_ns()),
    );
    row(
        "each 4 KiB page costs the same: 3 to 2".into(),
        &scaled(pipe::PAGES_PER_VISIT_PATCHED / pipe::PAGES_PER_VISIT),
        Some(slopes.page_ns()),
    );
    for (label, s) in model {
        row(
            format!("caches as modelled (L1 conflicts and all else): {label}"),
            s,
            None,
        );
    }
    table
}

/// What the slopes support, in sentences that follow from the numbers.
fn judgement(slopes: &Slopes, model: &[(String, Slopes)]) -> Vec<String> {
    let needed = slopes.after_ns - slopes.before_ns;
    let lines = pipe::LINES_PER_VISIT_PATCHED / pipe::LINES_PER_VISIT;
    let off = slopes.ratio() / lines - 1.0;
    let (line, _) = slopes.line_ns();
    let (visit_before, visit_after) = slopes.visit_ns();
    let mut out = vec![format!(
        "The published slopes, {} and {} ns per level and operation, have the ratio {:.3}; lines per visit (6 to 4) and pages per visit (3 to 2) both have {lines:.3}, {} away. \
         As lines that is {} ns each, before and after; as pages it is {} ns more for the one page more.",
        num::short(Some(slopes.before_ns)),
        num::short(Some(slopes.after_ns)),
        slopes.ratio(),
        num::percent(Some(off.abs())),
        num::short(Some(line)),
        num::short(Some(visit_after - visit_before)),
    )];
    if off.abs() > 0.05 {
        out.push("That is too far away for either story alone.".to_string());
    } else {
        out.push(
            "The ratio supports costs in proportion to lines or to pages and cannot tell the two apart. As posted, with the slip, one level \
             more would cost 4 visits instead of 6, so the ratio would be 1.0 at 6 lines to 4: this series does not have the slip."
                .to_string(),
        );
    }
    let most = model
        .iter()
        .map(|(label, s)| (label, s.after_ns - s.before_ns))
        .max_by(|a, b| a.1.total_cmp(&b.1));
    match most {
        Some((label, covered)) => out.push(format!(
            "L1 conflicts, with all else that the model has, give at most {} of the {} ns per level that the patch adds ({}, start and setting {label}); the rest, {} ns, stays unexplained by the model.",
            num::short(Some(covered)),
            num::short(Some(needed)),
            num::percent(Some(covered / needed)),
            num::short(Some(needed - covered))
        )),
        None => out.push(
            "What L1 conflicts can give at most is not known here: the model of that machine did not run at both depths.".to_string(),
        ),
    }
    out.push(
        "What would tell them apart: huge pages behind the same lines (a page story loses its cost, a line story keeps it); coloured \
         placement (L1 conflicts go, lines and pages stay); a cold start of increasing size (a line story grows with the level that the \
         lines come from); dTLB and L2 miss counters in such a guest, which nobody has published."
            .to_string(),
    );
    out
}

/// The section, if the run holds a pipe round trip.
pub fn section(records: &Records, page: &mut Page) {
    if !applies(records) {
        return;
    }
    page.section("pipe", "A pipe round trip against published numbers");
    let all: Vec<Published> = records
        .experiments
        .iter()
        .flat_map(published::published)
        .collect();
    if all.is_empty() {
        page.absent(
            "run.toml holds no experiment with [[published]] round trips, so there is nothing to compare with.",
            "kwalk run psi-pipe --backend model",
        );
        return;
    }
    page.para(
        "Predicted is the modelled time of all walks of one round trip plus one constant per series: the published time at the root \
         before the change minus the modelled time of the walks there. Nothing else is fitted; the residual is published minus predicted.",
    );
    let series = published::series(&all);
    for series in &series {
        predicted(records, page, series);
    }
    page.heading("The slip of the patch as posted");
    page.para(&format!(
        "As posted, the switch from idle to a task starts from the idle task, whose only group is {}. On two CPUs the visits of a round \
         trip over N levels drop from 6(N+1) to 4(N+1)+2; work is left out, not made cheaper.",
        code("psi_system")
    ));
    let slips = slip_table(records, &series);
    if slips.rows.is_empty() {
        page.note("No published series has both the root and 5 levels of the patch as posted.");
    } else {
        page.table(&slips);
    }
    for series in &series {
        stories(records, page, series);
    }
}

fn predicted(records: &Records, page: &mut Page, series: &[&Published]) {
    let title = format!("{}: {}", series[0].machine, series[0].source);
    page.heading(&title);
    if published::at(series, 0.0).is_none() {
        page.note("This series has no root column to calibrate on: no prediction.");
        return;
    }
    let Some(machine) = machine_of(records, series) else {
        page.absent(
            "No run modelled this machine: no prediction.",
            "kwalk run psi-pipe --backend model --machine NAME",
        );
        return;
    };
    for group in groups(records, &machine) {
        let time = modelled(group, "time_ns_per_op");
        match pipe::constant_ns(series, &time) {
            Some(constant) => page.para(&format!(
                "{}: constant {} us per operation.",
                records.label(&group.setting),
                num::short(Some(constant / 1000.0))
            )),
            None => page.note("The model did not run the root: no calibration."),
        }
        page.table(&prediction_table(
            series,
            group,
            &records.label(&group.setting),
        ));
    }
}

fn stories(records: &Records, page: &mut Page, series: &[&Published]) {
    let Some(slopes) = pipe::published_slopes(series, 8.0, 50.0) else {
        return;
    };
    page.heading(&format!("What the slopes support: {}", series[0].source));
    let variants = (
        series[0].before_variant.as_str(),
        series[0].after_variant.as_str(),
    );
    let model: Vec<(String, Slopes)> = machine_of(records, series)
        .map(|machine| groups(records, &machine))
        .unwrap_or_default()
        .into_iter()
        .filter_map(|g| {
            let slopes = pipe::modelled_slopes(variants, 8.0, 50.0, modelled(g, "time_ns_per_op"))?;
            Some((records.label(&g.setting), slopes))
        })
        .collect();
    page.table(&story_table(&slopes, &model));
    page.list(&judgement(&slopes, &model), "stories");
}

/// Predictions of each series, and the slip, for plain text.
#[must_use]
pub fn tables(records: &Records) -> (Vec<Table>, Table) {
    let all: Vec<Published> = records
        .experiments
        .iter()
        .flat_map(published::published)
        .collect();
    let series = published::series(&all);
    let mut predictions = Vec::new();
    for series in series.iter().filter(|s| published::at(s, 0.0).is_some()) {
        let groups = machine_of(records, series).map(|m| groups(records, &m));
        for group in groups.unwrap_or_default() {
            let label = records.label(&group.setting);
            predictions.push(prediction_table(series, group, &label));
        }
    }
    (predictions, slip_table(records, &series))
}
