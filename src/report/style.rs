//! How it looks: one style sheet for light, dark, phone and print, and the marks that tell
//! variants apart without colour.

/// Colours are variables, so that charts follow light and dark. Variants use darkened Okabe-Ito
/// colours (distinct under the common forms of colour blindness, at least 4.5:1 on the background
/// in light and dark); shape and dash repeat what colour says.
pub const CSS: &str = "\
:root{--bg:#fff;--fg:#1a1a1a;--soft:#575757;--rule:#c9c9c9;--card:#f4f4f2;--warn:#fff1cc;--hot:#b8430b;
--v0:#005f96;--v1:#b8430b;--v2:#006b50;--v3:#93406f;--v4:#775300;--v5:#4a4fb0;--v6:#4d4d4d;
--compulsory:#8a8a8a;--capacity:#3f8fc4;--conflict:#b8430b}
@media (prefers-color-scheme:dark){:root{--bg:#16181b;--fg:#e8e8e6;--soft:#b0b0ac;--rule:#484c52;--card:#1f2226;--warn:#4a3b0d;--hot:#ff8a3d;
--v0:#56b4e9;--v1:#ff8a3d;--v2:#2fcb9b;--v3:#e79ac4;--v4:#e6c229;--v5:#a9b0ff;--v6:#c8c8c8;
--compulsory:#9a9a9a;--capacity:#4f9fd4;--conflict:#ff8a3d}}
*{box-sizing:border-box}
body{margin:0 auto;padding:1rem;max-width:72rem;background:var(--bg);color:var(--fg);font:1rem/1.5 system-ui,sans-serif;overflow-wrap:break-word}
h1{font-size:1.6rem;line-height:1.2;margin:.5rem 0}h2{font-size:1.3rem;margin:2.2rem 0 .5rem;border-bottom:1px solid var(--rule)}h3{font-size:1.05rem;margin:1.4rem 0 .3rem}
p,ul{max-width:60rem}code,pre{font-family:ui-monospace,monospace;font-size:.92em}pre{overflow-x:auto;background:var(--card);padding:.6rem}
a{color:var(--v0)}nav ul{display:flex;flex-wrap:wrap;gap:.2rem 1rem;padding:0;list-style:none}
.answer li{margin:.5rem 0}.answer{padding-left:1.2rem;font-size:1.05rem}
.note,figcaption small,.absent{color:var(--soft);font-size:.92rem}.absent{border-left:4px solid var(--rule);padding-left:.7rem}
.grid{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,27rem),1fr));gap:1rem;align-items:start}
.small{grid-template-columns:repeat(auto-fit,minmax(min(100%,16rem),1fr))}
figure{margin:.5rem 0;min-width:0}.grid figure{max-width:36rem}.small figure{max-width:21rem}figcaption{font-weight:600;margin-bottom:.3rem}
svg{display:block;width:100%;height:auto;overflow:visible}svg.key{display:inline-block;width:2.4rem;height:.9rem;vertical-align:-.1rem;margin-right:.3rem}
svg text{fill:var(--fg);font:12px system-ui,sans-serif}svg .soft{fill:var(--soft)}
.legend{display:flex;flex-wrap:wrap;gap:.1rem 1rem;list-style:none;padding:0;margin:.3rem 0;font-size:.9rem}
.ax{stroke:var(--fg);fill:none}.gr{stroke:var(--rule);stroke-width:.6;fill:none}.ln{fill:none;stroke-width:1.7}.da{stroke-dasharray:5 3;stroke-width:1.4}.ci{fill:none;stroke-width:1}.ho{fill:var(--bg);stroke-width:1.2}.bd{fill:var(--rule);fill-opacity:.35}
.s0{stroke:var(--v0)}.s1{stroke:var(--v1)}.s2{stroke:var(--v2)}.s3{stroke:var(--v3)}.s4{stroke:var(--v4)}.s5{stroke:var(--v5)}.s6{stroke:var(--v6)}
.f0{fill:var(--v0)}.f1{fill:var(--v1)}.f2{fill:var(--v2)}.f3{fill:var(--v3)}.f4{fill:var(--v4)}.f5{fill:var(--v5)}.f6{fill:var(--v6)}
.compulsory{fill:var(--compulsory)}.capacity{fill:var(--capacity)}.conflict{fill:var(--conflict)}.hatch{fill:url(#hatch)}
.h1,.h2,.h3,.h4,.h5{fill:var(--hot)}.h1{fill-opacity:.2}.h2{fill-opacity:.4}.h3{fill-opacity:.6}.h4{fill-opacity:.8}.frame{fill:var(--card);stroke:var(--rule)}
.scroll{overflow-x:auto;max-width:100%}.scroll:focus-visible,summary:focus-visible,a:focus-visible{outline:3px solid var(--v0);outline-offset:2px}
table{border-collapse:collapse;font-size:.9rem;margin:.4rem 0}caption{text-align:left;color:var(--soft);padding:.2rem 0}
th,td{padding:.2rem .55rem;text-align:left;vertical-align:top;border-bottom:1px solid var(--rule)}thead th{border-bottom:2px solid var(--fg);vertical-align:bottom}tbody th{font-weight:500}
td:has(>data){text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}td small{color:var(--soft)}td.na{color:var(--soft);font-style:italic}
tr.rule th{background:var(--card);font-weight:600}td.b{min-width:7rem}td.b i{display:block;height:.8rem;margin-top:.25rem;background:var(--hot);print-color-adjust:exact;-webkit-print-color-adjust:exact}
mark{background:var(--warn);color:var(--fg);padding:0 .25rem;border-radius:.2rem}
details{margin:.3rem 0}summary{cursor:pointer;color:var(--v0)}
@media (max-width:30rem){body{padding:.7rem}svg text{font-size:13px}}
@media print{:root{--bg:#fff;--fg:#000;--soft:#444;--rule:#bbb;--card:#f4f4f2;--warn:#fff1cc;--hot:#b8430b;--v0:#005f96;--v1:#b8430b;--v2:#006b50;--v3:#93406f;--v4:#775300;--v5:#4a4fb0;--v6:#4d4d4d;--compulsory:#8a8a8a;--capacity:#3f8fc4;--conflict:#b8430b}
body{max-width:none;font-size:10pt}nav{display:none}figure,tr{break-inside:avoid}h2,h3{break-after:avoid}.scroll{overflow:visible}svg *{print-color-adjust:exact;-webkit-print-color-adjust:exact}}
";

/// Shared by all charts: the hatching that marks conflict misses where colour is not seen.
pub const DEFS: &str = "<svg width=\"0\" height=\"0\" style=\"position:absolute;width:0;height:0\" aria-hidden=\"true\" focusable=\"false\"><defs>\
<pattern id=\"hatch\" width=\"4\" height=\"4\" patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate(45)\">\
<rect width=\"1\" height=\"4\" style=\"fill:var(--bg)\"/></pattern></defs></svg>\n";

/// How many variants have a colour and a mark of their own.
pub const MARKS: usize = 7;

/// Path of the mark of variant `index`, around (`x`, `y`), in pixels.
#[must_use]
pub fn mark(index: usize, x: f64, y: f64) -> String {
    let shape = match index % MARKS {
        0 => "m-3 0a3 3 0 1 0 6 0a3 3 0 1 0-6 0z",
        1 => "m-3-3h6v6h-6z",
        2 => "m0-4l4 7h-8z",
        3 => "m0-4l4 4l-4 4l-4-4z",
        4 => "m0 4l4-7h-8z",
        5 => "m-1-4h2v3h3v2h-3v3h-2v-3h-3v-2h3z",
        _ => "m-4-1.5l4 3l4-3v3l-4 3l-4-3z",
    };
    format!("M{x:.1} {y:.1}{shape}")
}
