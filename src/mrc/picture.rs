//! Curves as one SVG that stands alone: miss ratio over size.

use super::Curve;
use crate::machine::host::size_words;
use crate::report::chart::px;
use crate::report::html::escape;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 380.0;
const LEFT: f64 = 56.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 50.0;

/// Colours of light and dark; those of the report's first two variants. Dashes repeat what colour
/// says.
const STYLE: &str = "\
svg{--bg:#fff;--fg:#1a1a1a;--rule:#c9c9c9;--v0:#005f96;--v1:#b8430b}\
@media (prefers-color-scheme:dark){svg{--bg:#16181b;--fg:#e8e8e6;--rule:#484c52;--v0:#56b4e9;--v1:#ff8a3d}}\
rect{fill:var(--bg)}text{fill:var(--fg);font:12px system-ui,sans-serif}\
path{fill:none;stroke:var(--fg)}.gr{stroke:var(--rule);stroke-width:.6}.s0,.s1{stroke-width:1.8}\
.s0{stroke:var(--v0)}.s1{stroke:var(--v1);stroke-dasharray:6 3}.co{stroke-dasharray:2 3}";

/// The SVG of `curves`, the fully associative one first; `trace` is for the title. Sizes are on a
/// scale of powers of two.
#[must_use]
pub fn svg(curves: &[Curve], trace: &str) -> String {
    let sizes = curves.iter().flat_map(|c| {
        let first = c.steps.iter().map(|s| s.ways).find(|ways| *ways > 0);
        [
            c.size_bytes(first.unwrap_or(1)),
            c.size_bytes(c.enough_ways().max(1)),
        ]
    });
    let (mut low, mut high) = (f64::INFINITY, 1.0_f64);
    for size in sizes {
        low = low.min((size as f64).log2().floor());
        high = high.max((size as f64).log2().ceil());
    }
    if !low.is_finite() || low >= high {
        low = high - 1.0;
    }
    let base = HEIGHT - BOTTOM;
    let at_x = |bytes: f64| {
        let share = (bytes.max(1.0).log2() - low) / (high - low);
        LEFT + share.clamp(0.0, 1.0) * (WIDTH - RIGHT - LEFT)
    };
    let at_y = |ratio: f64| base - ratio * (base - TOP);
    let title = format!("Miss ratio of LRU caches: {trace}");
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
         aria-labelledby=\"t d\"><title id=\"t\">{}</title><desc id=\"d\">{}</desc>\n\
         <style>{STYLE}</style><rect width=\"{WIDTH}\" height=\"{HEIGHT}\"/>\n",
        escape(&title),
        escape(&description(curves))
    );
    for tenth in 0..=5 {
        let ratio = f64::from(tenth) / 5.0;
        let y = px(at_y(ratio));
        out += &format!(
            "<path class=\"gr\" d=\"M{LEFT} {y}H{}\"/><text x=\"{}\" y=\"{}\" text-anchor=\"end\">{ratio}</text>\n",
            px(WIDTH - RIGHT),
            px(LEFT - 6.0),
            px(at_y(ratio) + 4.0),
        );
    }
    // At most ten labels, at whole powers of two.
    let apart = ((high - low) / 9.0).ceil().max(1.0);
    let mut power = low;
    while power <= high {
        let bytes = power.exp2();
        let x = px(at_x(bytes));
        out += &format!(
            "<path d=\"M{x} {base}v4\"/><text x=\"{x}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
            px(base + 18.0),
            size_words(bytes as u64)
        );
        power += apart;
    }
    out += &format!(
        "<path d=\"M{LEFT} {base}H{}\"/><text x=\"{}\" y=\"{}\" text-anchor=\"middle\">size of the \
         cache (powers of two)</text>\n<text transform=\"translate(14 {}) rotate(-90)\" \
         text-anchor=\"middle\">misses per request</text>\n",
        px(WIDTH - RIGHT),
        px((LEFT + WIDTH) / 2.0),
        px(HEIGHT - 12.0),
        px((TOP + base) / 2.0)
    );
    for (i, curve) in curves.iter().enumerate() {
        let class = i.min(1);
        let x = LEFT + 10.0 + 190.0 * i as f64;
        out += &format!(
            "<path class=\"s{class}\" d=\"{}\"/><path class=\"s{class}\" d=\"M{} 20h30\"/><text \
             x=\"{}\" y=\"24\">{}</text>\n",
            stairs(curve, &at_x, &at_y),
            px(x),
            px(x + 36.0),
            name(curve)
        );
    }
    if let Some(curve) = curves.first() {
        let y = px(at_y(curve.compulsory as f64 / curve.requests.max(1) as f64));
        out += &format!(
            "<path class=\"co\" d=\"M{LEFT} {y}H{}\"/><path class=\"co\" d=\"M450 20h30\"/><text \
             x=\"486\" y=\"24\">compulsory misses</text>\n",
            px(WIDTH - RIGHT)
        );
    }
    out + "</svg>\n"
}

fn name(curve: &Curve) -> String {
    match curve.sets {
        1 => "fully associative".into(),
        sets => format!("{sets} sets"),
    }
}

/// The steps as a path. What is less than half a pixel apart is drawn once: curves have millions of
/// steps.
fn stairs(curve: &Curve, at_x: &dyn Fn(f64) -> f64, at_y: &dyn Fn(f64) -> f64) -> String {
    let mut path = String::new();
    let mut drawn = f64::NEG_INFINITY;
    let mut level = at_y(curve.miss_ratio(0));
    for step in curve.steps.iter().filter(|step| step.ways > 0) {
        let x = at_x(curve.size_bytes(step.ways) as f64);
        let y = at_y(step.misses as f64 / curve.requests.max(1) as f64);
        if path.is_empty() {
            path = format!("M{LEFT} {}H{}V{}", px(level), px(x), px(y));
            drawn = x;
        } else if x - drawn >= 0.5 {
            path += &format!("V{}H{}V{}", px(level), px(x), px(y));
            drawn = x;
        }
        level = y;
    }
    if path.is_empty() {
        path = format!("M{LEFT} {}", px(level));
    }
    path + &format!("V{}H{}", px(level), px(WIDTH - RIGHT))
}

/// In words, for a screen reader.
fn description(curves: &[Curve]) -> String {
    let words = curves.iter().map(|c| {
        let enough = c.enough_ways();
        format!(
            "{}: of {} requests {} miss with 1 way and {} with {enough} ways ({}), which are \
             compulsory misses.",
            name(c),
            c.requests,
            c.misses(1),
            c.misses(enough),
            size_words(c.size_bytes(enough))
        )
    });
    words.collect::<Vec<_>>().join(" ")
}
