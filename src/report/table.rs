//! A table, once: rendered as HTML behind the charts, and as plain text for a mailing list.

use super::html::escape;
use super::num;
use crate::wrap::wrap;

/// One cell.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Words or a name.
    Text(String),
    /// A value with its interval, if there is one. Missing is "not measured".
    Value {
        /// Median or estimate.
        value: Option<f64>,
        /// Lower end of the interval.
        low: Option<f64>,
        /// Upper end of the interval.
        high: Option<f64>,
        /// Whether a plus sign is shown: for differences.
        signed: bool,
    },
    /// A value of an axis or a count: all its digits, no more.
    Whole(f64),
    /// A share, shown in percent.
    Percent(Option<f64>),
    /// A share of the table's largest value, 0..=1, as a bar.
    Bar(f64),
    /// A mark that something is not as sure as the rest: `memory`, `inferred`, `told`.
    Mark(String),
}

impl Cell {
    /// A value without interval.
    #[must_use]
    pub fn value(value: Option<f64>) -> Cell {
        Cell::Value {
            value,
            low: None,
            high: None,
            signed: false,
        }
    }

    /// A difference without interval.
    #[must_use]
    pub fn difference(value: Option<f64>) -> Cell {
        Cell::Value {
            value,
            low: None,
            high: None,
            signed: true,
        }
    }

    /// Words.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Cell {
        Cell::Text(text.into())
    }

    /// The cell as plain text.
    #[must_use]
    pub fn plain(&self) -> String {
        match self {
            Cell::Text(text) | Cell::Mark(text) => text.clone(),
            Cell::Whole(value) => num::exact(*value),
            Cell::Percent(share) => num::percent(*share),
            Cell::Value {
                value,
                low,
                high,
                signed,
            } => {
                let text = if *signed {
                    num::signed(*value)
                } else {
                    num::short(*value)
                };
                match num::interval(*low, *high) {
                    range if range.is_empty() || num::finite(*value).is_none() => text,
                    range => format!("{text} {range}"),
                }
            }
            Cell::Bar(share) => "#".repeat((share.clamp(0.0, 1.0) * 10.0).round() as usize),
        }
    }

    fn html(&self) -> String {
        match self {
            Cell::Text(text) => format!("<td>{}</td>", escape(text)),
            Cell::Percent(share) => match num::finite(*share) {
                None => format!("<td class=\"na\">{}</td>", num::NOT_MEASURED),
                Some(v) => format!(
                    "<td><data value=\"{}\">{}</data></td>",
                    num::exact(v),
                    minus(&num::percent(*share))
                ),
            },
            Cell::Whole(value) => {
                format!(
                    "<td><data value=\"{0}\">{0}</data></td>",
                    num::exact(*value)
                )
            }
            Cell::Mark(text) => format!("<td><mark>{}</mark></td>", escape(text)),
            Cell::Bar(share) => format!(
                "<td class=\"b\"><i style=\"width:{:.0}%\"></i></td>",
                share.clamp(0.0, 1.0) * 100.0
            ),
            Cell::Value {
                value,
                low,
                high,
                signed,
            } => match num::finite(*value) {
                None => format!("<td class=\"na\">{}</td>", num::NOT_MEASURED),
                Some(v) => {
                    let shown = if *signed {
                        num::signed(*value)
                    } else {
                        num::short(*value)
                    };
                    let range = num::interval(*low, *high);
                    let range = if range.is_empty() {
                        String::new()
                    } else {
                        format!(" <small>{}</small>", minus(&range))
                    };
                    format!(
                        "<td><data value=\"{}\">{}</data>{range}</td>",
                        num::exact(v),
                        minus(&shown)
                    )
                }
            },
        }
    }
}

/// A real minus sign, which a screen reader reads as one. Exponents keep theirs.
fn minus(text: &str) -> String {
    text.replace('-', "\u{2212}").replace("e\u{2212}", "e-")
}

/// A table with a caption.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// What it shows, with units.
    pub caption: String,
    /// One name per column.
    pub head: Vec<String>,
    /// Rows of as many cells; the first one names the row. A row of one cell is a rule across.
    pub rows: Vec<Vec<Cell>>,
}

impl Table {
    /// An empty table.
    #[must_use]
    pub fn new(caption: impl Into<String>, head: &[&str]) -> Table {
        Table {
            caption: caption.into(),
            head: head.iter().map(ToString::to_string).collect(),
            rows: Vec::new(),
        }
    }

    /// As HTML, in a box of its own that scrolls where the screen is narrow.
    #[must_use]
    pub fn html(&self) -> String {
        let mut out = format!(
            "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{0}\"><table><caption>{0}</caption>\n<thead><tr>",
            escape(&self.caption)
        );
        for name in &self.head {
            out.push_str(&format!("<th scope=\"col\">{}</th>", escape(name)));
        }
        out.push_str("</tr></thead>\n<tbody>\n");
        for row in &self.rows {
            match row.as_slice() {
                [only] if self.head.len() > 1 => out.push_str(&format!(
                    "<tr class=\"rule\"><th scope=\"rowgroup\" colspan=\"{}\">{}</th></tr>\n",
                    self.head.len(),
                    escape(&only.plain())
                )),
                [first, rest @ ..] => {
                    out.push_str(&format!(
                        "<tr><th scope=\"row\">{}</th>",
                        escape(&first.plain())
                    ));
                    for cell in rest {
                        out.push_str(&cell.html());
                    }
                    out.push_str("</tr>\n");
                }
                [] => {}
            }
        }
        out.push_str("</tbody></table></div>\n");
        out
    }

    /// As text of at most `width` columns: a table if it fits, otherwise one paragraph per row.
    #[must_use]
    pub fn text(&self, width: usize) -> String {
        let plain: Vec<Vec<String>> = self
            .rows
            .iter()
            .map(|row| row.iter().map(Cell::plain).collect())
            .collect();
        let mut widths: Vec<usize> = self.head.iter().map(|h| h.chars().count()).collect();
        for row in plain.iter().filter(|row| row.len() > 1) {
            for (i, cell) in row.iter().enumerate() {
                widths[i] = widths[i].max(cell.chars().count());
            }
        }
        let mut out = wrap(&self.caption, width, "", "");
        let total: usize = widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1);
        let fits = total <= width;
        let line = |cells: &[String]| {
            let mut text = String::new();
            for (i, cell) in cells.iter().enumerate() {
                let pad = widths[i].saturating_sub(cell.chars().count());
                let number =
                    i > 0 && cell.starts_with(|c: char| c.is_ascii_digit() || c == '+' || c == '-');
                let (left, right) = if number { (pad, 0) } else { (0, pad) };
                text.push_str(&" ".repeat(left));
                text.push_str(cell);
                text.push_str(&" ".repeat(right + 2));
            }
            format!("{}\n", text.trim_end())
        };
        if fits {
            out.push_str(&line(&self.head));
            out.push_str(&format!("{}\n", "-".repeat(total)));
        }
        for row in &plain {
            match row.as_slice() {
                [only] => out.push_str(&wrap(only, width, "", "")),
                cells if fits => out.push_str(&line(cells)),
                cells => {
                    let text: Vec<String> = cells
                        .iter()
                        .zip(&self.head)
                        .filter(|(cell, _)| !cell.is_empty())
                        .map(|(cell, head)| format!("{head}: {cell}"))
                        .collect();
                    out.push_str(&wrap(&text.join("; "), width, "", "  "));
                }
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A value that is not there is said to be so, in both forms; a cell's text is never markup.
    #[test]
    fn cells_in_both_forms() {
        let table = Table {
            caption: "c".into(),
            head: vec!["k".into(), "v".into()],
            rows: vec![
                vec![Cell::text("<a>"), Cell::value(Some(f64::NAN))],
                vec![Cell::text("b"), Cell::difference(Some(-1.5))],
            ],
        };
        let html = table.html();
        assert!(html.contains("&lt;a&gt;") && !html.contains("<a>"));
        assert!(html.contains("class=\"na\">not measured"));
        assert!(html.contains("<data value=\"-1.5\">\u{2212}1.50</data>"));
        assert!(table.text(72).contains("not measured"));
        assert!(table.text(8).lines().all(|l| l.chars().count() <= 8));
    }
}
