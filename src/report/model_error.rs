//! The model against the host, wherever both ran. Never left out.

use super::chart::{Chart, Line};
use super::finding::metric_words;
use super::html::{Page, details, figure};
use super::num;
use super::records::{Group, Records};
use super::table::{Cell, Table};

/// Distance beyond the host's interval, as a share of the host's value, up to which a point
/// counts as right.
const RIGHT: f64 = 0.2;

/// One point on which both ran.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    /// Variant.
    pub variant: String,
    /// Axis value.
    pub x: f64,
    /// Host's median.
    pub host: f64,
    /// Host's interval; without one, the median twice.
    pub interval: (f64, f64),
    /// Model's median.
    pub model: f64,
}

impl Pair {
    /// (model - host) / host.
    #[must_use]
    pub fn error(&self) -> Option<f64> {
        (self.host != 0.0).then(|| (self.model - self.host) / self.host)
    }

    /// How far the model lies outside the host's interval, as a share of the host's median; 0
    /// inside it.
    #[must_use]
    pub fn beyond_interval(&self) -> Option<f64> {
        let (low, high) = self.interval;
        let outside = (low - self.model).max(self.model - high).max(0.0);
        (self.host != 0.0).then(|| outside / self.host.abs())
    }
}

/// Error over many points.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ErrorSummary {
    /// Points.
    pub n: usize,
    /// Median of the signed error.
    pub median: Option<f64>,
    /// Median of its size.
    pub median_size: Option<f64>,
    /// 90th percentile of its size.
    pub p90_size: Option<f64>,
    /// Share of points at most 20 % beyond the host's interval.
    pub right_share: Option<f64>,
}

/// Summary of `pairs`.
#[must_use]
pub fn summarize<'a>(pairs: impl Iterator<Item = &'a Pair>) -> ErrorSummary {
    let (mut errors, mut sizes, mut right) = (Vec::new(), Vec::new(), 0usize);
    for pair in pairs {
        let (Some(error), Some(beyond)) = (pair.error(), pair.beyond_interval()) else {
            continue;
        };
        errors.push(error);
        sizes.push(error.abs());
        right += usize::from(beyond <= RIGHT);
    }
    ErrorSummary {
        n: errors.len(),
        median: num::quantile(&errors, 0.5),
        median_size: num::quantile(&sizes, 0.5),
        p90_size: num::quantile(&sizes, 0.9),
        right_share: (!errors.is_empty()).then(|| right as f64 / errors.len() as f64),
    }
}

/// All points of `group` on which both backends have a value of the metric that is drawn.
#[must_use]
pub fn pairs(records: &Records, group: &Group) -> Vec<Pair> {
    let Some((metric, _)) = group.metric() else {
        return Vec::new();
    };
    let mut out = Vec::new();
    for variant in &records.variants {
        let host = group.curve("native", variant, &metric);
        let model = group.curve("model", variant, &metric);
        let (Some(host), Some(model)) = (host, model) else {
            continue;
        };
        for point in &host.points {
            let both = point
                .x
                .and_then(|x| Some((x, point.median?, model.at(x)?.median?)));
            if let Some((x, median, modelled)) = both {
                out.push(Pair {
                    variant: variant.clone(),
                    x,
                    host: median,
                    interval: point.low.zip(point.high).unwrap_or((median, median)),
                    model: modelled,
                });
            }
        }
    }
    out
}

fn summary_row(first: [String; 2], s: ErrorSummary) -> Vec<Cell> {
    let [a, b] = first;
    let mut row = vec![Cell::text(a), Cell::text(b), Cell::text(s.n.to_string())];
    row.extend([s.median, s.median_size, s.p90_size, s.right_share].map(Cell::Percent));
    row
}

/// Error by setting and, if wanted, by variant.
#[must_use]
pub fn table(records: &Records, by_variant: bool) -> Table {
    let mut table = Table::new(
        "Model against host: (model - host) / host of the metric drawn above",
        &[
            "setting",
            "variants",
            "points",
            "median error",
            "median size",
            "90th percentile",
            "within 20 % beyond the interval",
        ],
    );
    for group in &records.groups {
        let pairs = pairs(records, group);
        if pairs.is_empty() {
            continue;
        }
        let label = records.label(&group.setting);
        if by_variant {
            for variant in records
                .variants
                .iter()
                .filter(|v| pairs.iter().any(|p| p.variant == **v))
            {
                let of = pairs.iter().filter(|p| p.variant == *variant);
                table
                    .rows
                    .push(summary_row([label.clone(), variant.clone()], summarize(of)));
            }
        } else {
            table
                .rows
                .push(summary_row([label, "all".into()], summarize(pairs.iter())));
        }
    }
    table
}

/// The section.
pub fn section(records: &Records, page: &mut Page) {
    page.section("error", "Model error against the host");
    let overview = table(records, false);
    if overview.rows.is_empty() {
        page.absent(
            "No point was both measured and modelled on the same machine, so the model's error is not known here.",
            &format!("kwalk run {} --backend native,model", records.experiment_names()),
        );
        return;
    }
    page.table(&overview);
    page.raw(&details(
        "The same by variant",
        &table(records, true).html(),
    ));
    page.note(
        "A point counts as right if the model lies within the host's 95 % interval or at most 20 % of the host's value outside it \
         (the shaded band, interval aside). Machines that are not this host have no such check: their figures stand on the model alone.",
    );
    page.raw("<div class=\"grid\">\n");
    for group in &records.groups {
        let pairs = pairs(records, group);
        if pairs.is_empty() {
            continue;
        }
        let label = records.label(&group.setting);
        let words = metric_words(&group.metric().unwrap_or_default().0);
        let mut numbers = Table::new(
            format!("{words}: host and model, {label}"),
            &[
                "variant",
                &group.axis,
                "host",
                "model",
                "error",
                "beyond the interval",
            ],
        );
        let mut lines: Vec<Line> = Vec::new();
        for variant in &records.variants {
            let mut points = Vec::new();
            for pair in pairs.iter().filter(|p| p.variant == *variant) {
                numbers.rows.push(vec![
                    Cell::text(variant.clone()),
                    Cell::Whole(pair.x),
                    Cell::Value {
                        value: Some(pair.host),
                        low: Some(pair.interval.0),
                        high: Some(pair.interval.1),
                        signed: false,
                    },
                    Cell::value(Some(pair.model)),
                    Cell::Percent(pair.error()),
                    Cell::Percent(pair.beyond_interval()),
                ]);
                if let Some(error) = pair.error() {
                    points.push((pair.x, error * 100.0, None));
                }
            }
            if !points.is_empty() {
                lines.push(Line {
                    name: variant.clone(),
                    index: records.variant_index(variant),
                    dashed: false,
                    points,
                });
            }
        }
        let chart = Chart {
            id: page.id(),
            title: &format!("Model error over {}, {label}", group.axis),
            x_label: &group.axis,
            y_label: "(model - host) / host, in %",
            lines,
            band: Some((-RIGHT * 100.0, RIGHT * 100.0)),
        };
        page.raw(&figure(&label, &chart.svg(), &chart.legend(), &numbers));
    }
    page.raw("</div>\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(host: f64, interval: (f64, f64), model: f64) -> Pair {
        Pair {
            variant: "v".into(),
            x: 1.0,
            host,
            interval,
            model,
        }
    }

    /// Host 10 in [9, 11]: 10.5 is inside; 13 is 2 outside, 20 % of 10, still right; 13.1 is
    /// not. Errors 5 %, 30 %, 31 %: median 30 %, and by interpolation the 90th percentile is
    /// 30 % + 0.8 of 1 %.
    #[test]
    fn error_beyond_the_interval() {
        let pairs = [10.5, 13.0, 13.1].map(|m| pair(10.0, (9.0, 11.0), m));
        let s = summarize(pairs.iter());
        assert_eq!(s.n, 3);
        assert!((s.median.unwrap() - 0.3).abs() < 1e-9);
        assert!((s.p90_size.unwrap() - 0.308).abs() < 1e-9);
        assert!((s.right_share.unwrap() - 2.0 / 3.0).abs() < 1e-9);
        assert_eq!(summarize([].iter()).right_share, None);
        assert_eq!(summarize([pair(0.0, (0.0, 0.0), 1.0)].iter()).n, 0);
    }
}
