//! The report from folders that are made here by formula: what it says must be what the CSV says.

#[path = "report/folder.rs"]
mod folder;

use folder::{Folder, scratch};
use kwalk::record::Summary;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

fn page(dir: &Path) -> String {
    let path = kwalk::report::write(dir).expect("a complete folder has a report");
    std::fs::read_to_string(path).unwrap()
}

/// Rows of the table whose caption begins with `caption`: cells as `<data value>` where there is
/// one, otherwise as text.
fn table(page: &str, caption: &str) -> Vec<Vec<String>> {
    let start = page
        .find(&format!("<caption>{caption}"))
        .unwrap_or_else(|| panic!("no table {caption}"));
    let end = page[start..].find("</table>").unwrap() + start;
    page[start..end]
        .split("<tr>")
        .skip(1)
        .map(|row| {
            row.split("<t")
                .skip(1)
                .filter(|c| c.starts_with("h ") || c.starts_with("d"))
                .map(cell)
                .collect()
        })
        .collect()
}

fn cell(html: &str) -> String {
    if let Some((_, rest)) = html.split_once("<data value=\"") {
        return rest.split('"').next().unwrap().to_string();
    }
    let mut text = String::new();
    let mut inside = false;
    for c in html.split_once('>').unwrap().1.chars() {
        match c {
            '<' => inside = true,
            '>' => inside = false,
            c if !inside => text.push(c),
            _ => {}
        }
    }
    text.trim().to_string()
}

/// Tag names in order, with their attributes; panics where `<` opens none.
fn tags(page: &str) -> Vec<(String, String)> {
    let body = match (page.find("<style>"), page.find("</style>")) {
        (Some(a), Some(b)) => format!("{}{}", &page[..a], &page[b + 8..]),
        _ => page.to_string(),
    };
    body.split('<')
        .skip(1)
        .map(|piece| {
            let tag = piece.split('>').next().unwrap();
            let (name, attributes) = tag.split_once(char::is_whitespace).unwrap_or((tag, ""));
            (name.to_string(), attributes.to_string())
        })
        .collect()
}

/// Every value of the metric that is drawn stands in the table of its chart, at its depth and
/// under its variant, with the digits of the CSV (seven, by `<data value>`); nothing else does.
#[test]
fn tables_of_the_curves_equal_the_csv() {
    let dir = scratch();
    let folder = Folder::small();
    folder.write(dir.path());
    let page = page(dir.path());
    let mut compared = 0;
    for machine in &folder.machines {
        for start in &folder.starts {
            let rows = table(
                &page,
                &format!(
                    "TSC cycles per visit by variant (tsc_cycles_per_visit, median and interval), {}, {start}",
                    machine.name
                ),
            );
            let head = &rows[0];
            for row in &rows[1..] {
                for (name, shown) in head.iter().zip(row).skip(1) {
                    let (variant, backend) = name.split_once(", ").unwrap();
                    let backend = if backend == "measured" {
                        "native"
                    } else {
                        backend
                    };
                    let expected =
                        folder.cost(machine, backend, variant, start, row[0].parse().unwrap());
                    let shown: f64 = shown.parse().unwrap();
                    assert!(
                        (shown / expected - 1.0).abs() < 1e-6,
                        "{name} at {}: {shown} for {expected}",
                        row[0]
                    );
                    compared += 1;
                }
            }
            assert_eq!(rows.len() - 1, folder.depths.len());
        }
    }
    // Two variants and two starts; one machine has native and model, the other the model only.
    assert_eq!(compared, folder.depths.len() * 2 * 2 * 3);
}

/// The folder's first machine has 12 ways and one line per level in the set of `psi` and in that
/// of `self.parent`: the first depth with conflict misses is 13, and the two fields in their two
/// sets are the cause. On the second (8 ways) it is 9. Ten depths: 13 is among them, of 9 the
/// next one run.
#[test]
fn the_answer_names_depth_cause_and_status() {
    let dir = scratch();
    let folder = Folder::small();
    folder.write(dir.path());
    let page = page(dir.path());
    let start = page.find("class=\"answer\"").unwrap();
    let answer = &page[start..start + page[start..].find("</section>").unwrap()];
    assert_eq!(
        answer.matches("class=\"answer\"").count(),
        folder.machines.len()
    );
    for words in [
        "Measured: <code>cgroup</code> is slower than <code>parent</code> from depth 13 on",
        "The model says: <code>cgroup</code> is slower than <code>parent</code> from depth 13 on",
        "L1D conflict misses per visit more than <code>parent</code>, on <code>cgroup.psi</code> and <code>cgroup.self.parent</code>, in 2 sets",
        "Nothing was measured on this machine",
        "knee at 9",
    ] {
        assert!(answer.contains(words), "{words} in {answer}");
    }
}

/// One line per level in a set of `ways`, LRU, cyclic: with more levels than ways each of the
/// D + 1 visits misses. At depth 50 the set of `psi` has 51 conflict misses per operation.
#[test]
fn set_table_and_listing_equal_the_attribution() {
    let dir = scratch();
    let folder = Folder::small();
    folder.write(dir.path());
    let page = page(dir.path());
    let rows = table(
        &page,
        "L1D conflict misses per operation at depth 50, model, host:Test CPU, warm",
    );
    let sets: BTreeMap<&str, (&str, &str)> = rows[1..]
        .iter()
        .filter(|r| r[0] == "cgroup")
        .map(|r| (r[1].as_str(), (r[2].as_str(), r[3].as_str())))
        .collect();
    assert_eq!(sets["18"], ("51", "cgroup.psi (51.0)"));
    assert_eq!(sets["2"], ("51", "cgroup.self.parent (51.0)"));
    let rows = table(
        &page,
        "cgroup: misses per visit and cycles per operation by field at depth 50, model, host:Test CPU, warm",
    );
    let psi = rows.iter().find(|r| r[0] == "psi").unwrap();
    assert_eq!(psi[1], "1");
    assert!(page.contains("line 18: bytes 1152 to 1215"));
}

/// The model is 8 % under the host everywhere: median and 90th percentile are 8 %, and as the
/// host's interval is 1 % wide on each side, every point is within 20 % beyond it.
#[test]
fn model_error_is_shown_per_start() {
    let dir = scratch();
    let folder = Folder::small();
    folder.write(dir.path());
    let rows = table(&page(dir.path()), "Model against host");
    assert_eq!(
        rows.len() - 1,
        folder.starts.len(),
        "one row per start of the machine that ran both"
    );
    for row in &rows[1..] {
        for (shown, expected) in row[3..].iter().zip([-0.08, 0.08, 0.08, 1.0]) {
            assert!(
                (shown.parse::<f64>().unwrap() - expected).abs() < 1e-6,
                "{row:?}"
            );
        }
        assert_eq!(row[2], (folder.depths.len() * 2).to_string());
    }
}

/// A page that stands alone: no script, no link but to itself, known elements only, every id
/// once and every reference to one that exists, every chart with title, description and table.
#[test]
fn the_page_is_well_formed_and_stands_alone() {
    let dir = scratch();
    Folder::full().write(dir.path());
    let page = page(dir.path());
    for absent in [
        "<script", "http://", "https://", "@import", "src=", "<img", "<link",
    ] {
        assert!(!page.contains(absent), "{absent}");
    }
    assert!(page.matches("url(").count() == page.matches("url(#hatch)").count());
    let tags = tags(&page);
    let mut open: Vec<&str> = Vec::new();
    let void = ["meta", "!DOCTYPE"];
    let mut ids = BTreeSet::new();
    for (name, attributes) in &tags {
        if let Some(closed) = name.strip_prefix('/') {
            assert_eq!(open.pop(), Some(closed), "elements close in order");
        } else if !attributes.ends_with('/')
            && !name.ends_with('/')
            && !void.contains(&name.as_str())
        {
            open.push(name);
        }
        if let Some(id) = attribute(attributes, "id") {
            assert!(ids.insert(id.clone()), "id {id} twice");
        }
    }
    assert!(open.is_empty(), "{open:?} left open");
    for (name, attributes) in &tags {
        for id in attribute(attributes, "aria-labelledby")
            .unwrap_or_default()
            .split_whitespace()
        {
            assert!(ids.contains(id), "{id}");
        }
        if let Some(target) = attribute(attributes, "href") {
            assert!(ids.contains(target.strip_prefix('#').unwrap()), "{target}");
        }
        if name == "svg" && attributes.contains("viewBox") && !attributes.contains("class=\"key\"")
        {
            assert!(attributes.contains("role=\"img\"") && attributes.contains("aria-labelledby"));
        }
    }
    let charts = page.matches("role=\"img\"").count();
    assert_eq!(page.matches("<desc ").count(), charts);
    assert!(charts > 20);
    assert!(page.contains("prefers-color-scheme:dark") && page.contains("@media print"));
    // A full run: 27 depths, 7 variants, 4 starts, 2 machines.
    assert!(page.len() < 3_000_000, "{} bytes", page.len());
}

fn attribute(attributes: &str, name: &str) -> Option<String> {
    let (_, rest) = format!(" {attributes}")
        .split_once(&format!(" {name}=\""))
        .map(|(a, b)| (a.to_string(), b.to_string()))?;
    Some(rest.split('"').next().unwrap().to_string())
}

/// Names from a hostile folder appear as text. Only elements that the report itself uses may
/// occur, whatever the names are.
#[test]
fn hostile_names_are_text() {
    const EVIL: &str = "</table><script>alert('x')</script><img src=x onerror=\"y\">`<b>";
    let dir = scratch();
    let mut folder = Folder::small();
    folder.machines[0].name = format!("host:{EVIL}");
    folder.starts[0] = EVIL.to_string();
    folder.fields_suffix = EVIL.to_string();
    folder.variants[1] = EVIL.to_string();
    folder.note = EVIL.to_string();
    folder.write(dir.path());
    let page = page(dir.path());
    assert!(page.contains("&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;"));
    let known: BTreeSet<&str> = [
        "!DOCTYPE",
        "html",
        "head",
        "meta",
        "title",
        "style",
        "body",
        "svg",
        "defs",
        "pattern",
        "rect",
        "header",
        "h1",
        "h2",
        "h3",
        "p",
        "nav",
        "ul",
        "li",
        "a",
        "main",
        "section",
        "code",
        "pre",
        "div",
        "table",
        "caption",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "data",
        "small",
        "details",
        "summary",
        "figure",
        "figcaption",
        "desc",
        "path",
        "text",
        "mark",
        "i",
    ]
    .into();
    for (name, attributes) in tags(&page) {
        let bare = name.trim_start_matches('/');
        assert!(known.contains(bare), "<{name} {attributes}>");
        assert!(attribute(&attributes, "onerror").is_none());
    }
    let text = kwalk::report::text(dir.path()).unwrap();
    assert!(text.lines().all(|l| l.chars().count() <= 72));
}

/// perf's command of a run that counted stands apart, to be copied, and not among the notes.
#[test]
fn the_command_of_perf_can_be_copied() {
    let dir = scratch();
    let mut folder = Folder::small();
    let command = "perf stat -e '{cpu/event=0x3c/u}' -- taskset -c 0 COMMAND";
    folder.note = format!("{}{command}", kwalk::record::notes::PERF);
    folder.write(dir.path());
    let page = page(dir.path());
    let shown = command.replace('\'', "&#39;");
    assert!(page.contains(&format!("<pre tabindex=\"0\">{shown}</pre>")));
    assert!(!page.contains(&format!("<li>{}", kwalk::record::notes::PERF)));
    let text = kwalk::report::text(dir.path()).unwrap();
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains(command), "{text}");
}

/// Empty, NaN and infinite values are "not measured", in table and sentence; 0 stays 0, and a
/// value of which the status says that it is unavailable is none.
#[test]
fn what_is_not_a_number_is_not_measured() {
    let dir = scratch();
    let folder = Folder::small();
    folder.write(dir.path());
    let path = dir.path().join("summary.csv");
    let mut rows: Vec<Summary> = csv::Reader::from_path(&path)
        .unwrap()
        .deserialize()
        .collect::<Result<_, _>>()
        .unwrap();
    let depths = folder.depths.clone();
    for row in &mut rows {
        if row.backend == "native"
            && row.variant == "cgroup"
            && row.start == "warm"
            && row.metric == "tsc_cycles_per_visit"
        {
            let at = depths.iter().position(|d| d.to_string() == row.x).unwrap();
            row.median = match at {
                0 => None,
                1 => Some(f64::NAN),
                2 => Some(f64::INFINITY),
                3 => Some(0.0),
                4 => {
                    row.status = kwalk::record::Status::Unavailable;
                    Some(0.0)
                }
                _ => row.median,
            };
        }
    }
    let mut writer = csv::Writer::from_path(&path).unwrap();
    for row in rows {
        writer.serialize(row).unwrap();
    }
    writer.flush().unwrap();
    let page = page(dir.path());
    let rows = table(
        &page,
        "TSC cycles per visit by variant (tsc_cycles_per_visit, median and interval), host:Test CPU, warm",
    );
    let column = rows[0]
        .iter()
        .position(|h| h == "cgroup, measured")
        .unwrap();
    let shown: Vec<&str> = rows[1..6].iter().map(|r| r[column].as_str()).collect();
    assert_eq!(
        shown,
        [
            "not measured",
            "not measured",
            "not measured",
            "0",
            "not measured"
        ]
    );
    assert!(!page.contains("NaN") && !page.contains(">inf"));
}

/// What is wrong with a folder is said in one sentence that names the file, and no report and no
/// draft of one is left behind.
#[test]
fn broken_folders_are_one_sentence() {
    type Break = fn(&Path);
    let cases: [(&str, Break, &[&str]); 8] = [
        (
            "no summary",
            |d| std::fs::remove_file(d.join("summary.csv")).unwrap(),
            &["summary.csv", "missing"],
        ),
        (
            "no run",
            |d| std::fs::remove_file(d.join("run.toml")).unwrap(),
            &["run.toml", "missing"],
        ),
        (
            "no column",
            |d| edit(d, "verdicts.csv", "p_adjusted", "p"),
            &["verdicts.csv", "`p_adjusted`"],
        ),
        (
            "cut",
            |d| cut(d, "samples.csv"),
            &["samples.csv", "line", "cells"],
        ),
        (
            "schema of rows",
            |d| edit(d, "summary.csv", "\n1,", "\n2,"),
            &["summary.csv", "schema is 2", "reads schema 1"],
        ),
        (
            "schema of the run",
            |d| edit(d, "run.toml", "schema = 1", "schema = 9"),
            &["run.toml", "schema is 9"],
        ),
        (
            "no TOML",
            |d| edit(d, "run.toml", "schema = 1", "schema = "),
            &["run.toml"],
        ),
        (
            "no number",
            |d| edit(d, "summary.csv", "exact\n", "perhaps\n"),
            &["summary.csv", "line"],
        ),
    ];
    for (what, break_it, words) in cases {
        let dir = scratch();
        Folder::small().write(dir.path());
        break_it(dir.path());
        let error = kwalk::report::write(dir.path())
            .expect_err(what)
            .to_string();
        assert!(!error.contains('\n'), "{what}: {error}");
        for word in words {
            assert!(error.contains(word), "{what}: {error}");
        }
        assert!(
            !dir.path().join("report.html").exists()
                && !dir.path().join(".report.html.part").exists()
        );
        assert!(kwalk::report::text(dir.path()).is_err(), "{what}");
    }
    let error = kwalk::report::write(Path::new("/nonexistent/folder")).unwrap_err();
    assert!(error.to_string().contains("not a folder"));
}

fn edit(dir: &Path, file: &str, from: &str, to: &str) {
    let path = dir.join(file);
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains(from), "{file} holds {from:?}");
    std::fs::write(path, text.replace(from, to)).unwrap();
}

fn cut(dir: &Path, file: &str) {
    let path = dir.join(file);
    let text = std::fs::read_to_string(&path).unwrap();
    let last = text.trim_end().rfind('\n').unwrap();
    std::fs::write(path, &text[..last + 20]).unwrap();
}

/// Without a model there is no attribution: the sections that need it say so and name the
/// command; the measured answer stands. The folder may then lack the file.
#[test]
fn a_native_run_says_what_is_absent() {
    let dir = scratch();
    let mut folder = Folder::small();
    folder.machines.truncate(1);
    folder.model = false;
    folder.write(dir.path());
    std::fs::remove_file(dir.path().join("attribution.csv")).unwrap();
    let page = page(dir.path());
    assert!(page.contains("Why is not known: the model did not run here."));
    assert_eq!(
        page.matches("kwalk run psi-depth --backend model</code>")
            .count(),
        3
    );
    assert!(page.contains("the model&#39;s error is not known here"));
    assert!(!page.contains("The model says:"));
}

/// The pipe section: mail A's rates against a model of 40 ns per visit at four lines and 60 at
/// six. Constant: 1e9/55718.9 - 6 * 40 = 17707 ns. At 50 levels before: 17707 + 306 * 40 =
/// 29947 ns, published 39054, so 9.11 us stay unexplained.
#[test]
fn pipe_against_published_numbers() {
    let dir = scratch();
    let mut folder = Folder::small();
    folder.pipe = true;
    folder.write(dir.path());
    let page = page(dir.path());
    assert!(page.contains("constant 17.7 us"));
    let rows = table(
        &page,
        "Round trip in us per operation, model of i7-9700, psi-pipe, cpus=2, warm against: rebased",
    )
    .into_iter()
    .skip(1)
    .map(|r| ((r[0].clone(), r[1].clone()), r))
    .collect::<BTreeMap<_, _>>();
    let row = &rows[&("50 levels".to_string(), "parent".to_string())];
    let number = |i: usize| row[i].parse::<f64>().unwrap();
    assert!(
        (number(2) - 29.947).abs() < 1e-3
            && (number(3) - 39.054).abs() < 1e-3
            && (number(4) - 9.107).abs() < 1e-3
    );
    assert_eq!(row[6], "306");
    assert_eq!(rows[&("root".to_string(), "parent".to_string())][4], "0");
    let rows = table(&page, "The slip at 5 levels");
    assert_eq!(rows.len(), 2, "one series as posted");
    assert_eq!(&rows[1][1..5], ["36", "26", "36", "26"]);
    assert!(page.contains("cannot tell the two apart"));
}

/// At most 72 columns; the same numbers as the page, and the command.
#[test]
fn the_text_fits_a_mailing_list() {
    let dir = scratch();
    let mut folder = Folder::full();
    folder.pipe = true;
    folder.write(dir.path());
    let text = kwalk::report::text(dir.path()).unwrap();
    for line in text.lines() {
        assert!(line.chars().count() <= 72, "{line}");
    }
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in [
        "is slower than parent",
        "Method",
        "Repeat it",
        "kwalk run psi-depth",
        "Model error",
        "counters",
    ] {
        assert!(flat.contains(words), "{words} in\n{text}");
    }
    assert!(!text.contains('`') && !text.contains("<td"));
}
