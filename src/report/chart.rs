//! Line charts: value over depth, with intervals, marks and a description for those who do not
//! see them.

use super::html::escape;
use super::{num, style};

const WIDTH: f64 = 480.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 52.0;
const RIGHT: f64 = 8.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 46.0;

/// One point: x, y, and the interval of y if it is shown.
pub type Dot = (f64, f64, Option<(f64, f64)>);

/// One line.
pub struct Line {
    /// Name in the legend.
    pub name: String,
    /// Colour and mark.
    pub index: usize,
    /// The model's lines are dashed with hollow marks.
    pub dashed: bool,
    /// By x.
    pub points: Vec<Dot>,
}

/// A chart.
pub struct Chart<'a> {
    /// Unique on the page.
    pub id: u32,
    /// What it shows.
    pub title: &'a str,
    /// Axis name.
    pub x_label: &'a str,
    /// Quantity and unit.
    pub y_label: &'a str,
    /// The lines.
    pub lines: Vec<Line>,
    /// Values between which it is shaded: what counts as good.
    pub band: Option<(f64, f64)>,
}

/// A coordinate with one decimal.
pub fn px(v: f64) -> String {
    let text = format!("{v:.1}");
    text.strip_suffix(".0").map(String::from).unwrap_or(text)
}

/// Horizontal place of `x` on a scale linear in log(1 + x), so that 0 has a place and small
/// depths have room.
pub fn log_scale(x: f64, max: f64, from: f64, to: f64) -> f64 {
    let share = if max > 0.0 {
        x.max(0.0).ln_1p() / max.ln_1p()
    } else {
        0.0
    };
    from + share * (to - from)
}

/// Round steps that divide `low..high` into about `count` parts.
pub fn ticks(low: f64, high: f64, count: f64) -> Vec<f64> {
    let span = high - low;
    if !span.is_finite() || span <= 0.0 {
        return vec![low];
    }
    let raw = span / count;
    let unit = 10f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|f| f * unit)
        .find(|s| *s >= raw)
        .unwrap_or(raw);
    let first = (low / step).ceil() as i64;
    let last = (high / step + 1e-9).floor() as i64;
    (first..=last).map(|i| i as f64 * step).collect()
}

/// The SVG opening tag with title and description.
pub fn open(id: u32, width: f64, height: f64, title: &str, desc: &str) -> String {
    format!(
        "<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-labelledby=\"t{id} d{id}\"><title id=\"t{id}\">{}</title><desc id=\"d{id}\">{}</desc>\n",
        px(width),
        px(height),
        escape(title),
        escape(desc)
    )
}

/// Tick labels of the depths that have room, and a small tick for each.
fn x_axis(values: &[f64], max: f64, label: &str) -> String {
    let base = HEIGHT - BOTTOM;
    let at = |x: f64| log_scale(x, max, LEFT + 8.0, WIDTH - RIGHT - 8.0);
    let mut out = format!(
        "<path class=\"ax\" d=\"M{LEFT} {base}H{}",
        px(WIDTH - RIGHT)
    );
    for x in values {
        out.push_str(&format!("M{} {base}v4", px(at(*x))));
    }
    out.push_str("\"/>\n");
    let mut shown: Vec<f64> = Vec::new();
    // Ends first, then round numbers, then whatever has room.
    let mut order: Vec<f64> = values.to_vec();
    let rank = |x: f64| {
        if x == max || x == 0.0 {
            0
        } else if [1.0, 2.0, 4.0, 8.0, 16.0, 25.0, 50.0, 100.0].contains(&x) {
            1
        } else {
            2
        }
    };
    order.sort_by(|a, b| rank(*a).cmp(&rank(*b)).then(b.total_cmp(a)));
    for x in order {
        if shown.iter().all(|s| (at(*s) - at(x)).abs() >= 19.0) {
            shown.push(x);
            out.push_str(&format!(
                "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                px(at(x)),
                px(base + 17.0),
                num::exact(x)
            ));
        }
    }
    out.push_str(&format!(
        "\n<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{} (scale: log(1 + {}))</text>\n",
        px((LEFT + WIDTH) / 2.0),
        px(HEIGHT - 8.0),
        escape(label),
        escape(label)
    ));
    out
}

impl Chart<'_> {
    /// Lowest and highest y, intervals and 0 included.
    fn range(&self) -> (f64, f64) {
        let mut low = 0f64;
        let mut high = 0f64;
        for (_, y, ci) in self.lines.iter().flat_map(|l| &l.points) {
            let (a, b) = ci.unwrap_or((*y, *y));
            low = low.min(a.min(*y));
            high = high.max(b.max(*y));
        }
        if let Some((a, b)) = self.band {
            low = low.min(a * 1.2);
            high = high.max(b * 1.2);
        }
        if high <= low {
            high = low + 1.0;
        }
        let pad = (high - low) * 0.04;
        (if low < 0.0 { low - pad } else { low }, high + pad)
    }

    /// In words, for a screen reader.
    fn description(&self) -> String {
        let lines: Vec<String> = self
            .lines
            .iter()
            .filter_map(|l| {
                let (first, last) = (l.points.first()?, l.points.last()?);
                Some(format!(
                    "{} goes from {} at {} to {} at {}",
                    l.name,
                    num::short(Some(first.1)),
                    num::exact(first.0),
                    num::short(Some(last.1)),
                    num::exact(last.0)
                ))
            })
            .collect();
        format!(
            "{} over {}. {}. All values are in the table below.",
            self.y_label,
            self.x_label,
            lines.join("; ")
        )
    }

    /// The SVG.
    #[must_use]
    pub fn svg(&self) -> String {
        let (low, high) = self.range();
        let mut xs: Vec<f64> = self
            .lines
            .iter()
            .flat_map(|l| l.points.iter().map(|p| p.0))
            .collect();
        xs.sort_by(f64::total_cmp);
        xs.dedup();
        let max = xs.last().copied().unwrap_or(1.0);
        let base = HEIGHT - BOTTOM;
        let at_x = |x: f64| log_scale(x, max, LEFT + 8.0, WIDTH - RIGHT - 8.0);
        let at_y = |y: f64| base - (y - low) / (high - low) * (base - TOP);
        let mut out = open(self.id, WIDTH, HEIGHT, self.title, &self.description());
        if let Some((a, b)) = self.band {
            out.push_str(&format!(
                "<rect class=\"bd\" x=\"{LEFT}\" y=\"{}\" width=\"{}\" height=\"{}\"/>",
                px(at_y(b)),
                px(WIDTH - RIGHT - LEFT),
                px(at_y(a) - at_y(b))
            ));
        }
        for tick in ticks(low, high, 6.0) {
            let y = px(at_y(tick));
            out.push_str(&format!(
                "<path class=\"{}\" d=\"M{LEFT} {y}H{}\"/><text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\n",
                if tick == 0.0 { "ax" } else { "gr" },
                px(WIDTH - RIGHT),
                px(LEFT - 6.0),
                px(at_y(tick) + 4.0),
                num::exact((tick * 1e6).round() / 1e6)
            ));
        }
        out.push_str(&format!(
            "<text transform=\"translate(13 {}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n",
            px((TOP + base) / 2.0),
            escape(self.y_label)
        ));
        out.push_str(&x_axis(&xs, max, self.x_label));
        // The model first, so that what was measured lies on top.
        for line in self
            .lines
            .iter()
            .filter(|l| l.dashed)
            .chain(self.lines.iter().filter(|l| !l.dashed))
        {
            out.push_str(&line_svg(line, &at_x, &at_y));
        }
        out.push_str("</svg>\n");
        out
    }

    /// The legend as HTML, so that it stays readable where the chart is small.
    #[must_use]
    pub fn legend(&self) -> String {
        let items: String = self
            .lines
            .iter()
            .map(|l| format!("<li>{}{}</li>", key(l.index, l.dashed), escape(&l.name)))
            .collect();
        format!("<ul class=\"legend\">{items}</ul>\n")
    }
}

fn line_svg(line: &Line, at_x: &dyn Fn(f64) -> f64, at_y: &dyn Fn(f64) -> f64) -> String {
    let class = line.index % style::MARKS;
    let (mut path, mut bars, mut marks) = (String::new(), String::new(), String::new());
    for (i, (x, y, ci)) in line.points.iter().enumerate() {
        let (px_x, px_y) = (at_x(*x), at_y(*y));
        path.push_str(&format!(
            "{}{} {}",
            if i == 0 { "M" } else { "L" },
            px(px_x),
            px(px_y)
        ));
        marks.push_str(&style::mark(class, px_x, px_y));
        if let Some((low, high)) = ci {
            bars.push_str(&format!(
                "M{} {}V{}",
                px(px_x),
                px(at_y(*low)),
                px(at_y(*high))
            ));
            bars.push_str(&format!("m-3 0h6M{} {}h6", px(px_x - 3.0), px(at_y(*low))));
        }
    }
    let (dash, fill) = if line.dashed {
        (" da", format!("ho s{class}"))
    } else {
        ("", format!("f{class}"))
    };
    let bars = if bars.is_empty() {
        String::new()
    } else {
        format!("<path class=\"ci s{class}\" d=\"{bars}\"/>")
    };
    format!(
        "<path class=\"ln{dash} s{class}\" d=\"{path}\"/>{bars}<path class=\"{fill}\" d=\"{marks}\"/>\n"
    )
}

/// A piece of line with its mark, for a legend.
#[must_use]
pub fn key(index: usize, dashed: bool) -> String {
    let class = index % style::MARKS;
    let (dash, fill) = if dashed {
        (" da", format!("ho s{class}"))
    } else {
        ("", format!("f{class}"))
    };
    format!(
        "<svg class=\"key\" viewBox=\"0 0 38 14\" aria-hidden=\"true\" focusable=\"false\"><path class=\"ln{dash} s{class}\" d=\"M1 7H37\"/><path class=\"{fill}\" d=\"{}\"/></svg>",
        style::mark(class, 19.0, 7.0)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Steps are 1, 2 or 5 times a power of ten, lie within the range, and include both ends
    /// when those are round.
    #[test]
    fn round_ticks() {
        assert_eq!(ticks(0.0, 10.0, 5.0), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(ticks(-1.0, 1.0, 4.0), [-1.0, -0.5, 0.0, 0.5, 1.0]);
        assert_eq!(ticks(3.0, 3.0, 4.0), [3.0]);
        assert_eq!(ticks(0.0, f64::INFINITY, 4.0), [0.0]);
    }

    /// log(1 + x): 0 at the left, the largest depth at the right, 16 of 200 beyond the middle.
    #[test]
    fn small_depths_have_room() {
        assert_eq!(log_scale(0.0, 200.0, 0.0, 100.0), 0.0);
        assert_eq!(log_scale(200.0, 200.0, 0.0, 100.0), 100.0);
        assert!(log_scale(16.0, 200.0, 0.0, 100.0) > 50.0);
    }
}
