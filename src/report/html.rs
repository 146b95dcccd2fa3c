//! The page: escaping, sections, paragraphs, collapsed parts, and the frame around them.

use super::style;
use super::table::Table;

/// `text` as HTML text or attribute value. Control characters, which HTML cannot carry, become
/// U+FFFD.
#[must_use]
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(c),
            c if c.is_control() => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// `text`, escaped, with what stands between backquotes as code.
#[must_use]
pub fn inline(text: &str) -> String {
    let mut out = String::new();
    let parts: Vec<&str> = text.split('`').collect();
    for (i, part) in parts.iter().enumerate() {
        let closed = i + 1 < parts.len();
        match (i % 2 == 1, closed) {
            (true, true) => out.push_str(&format!("<code>{}</code>", escape(part))),
            (true, false) => out.push_str(&format!("`{}", escape(part))),
            (false, _) => out.push_str(&escape(part)),
        }
    }
    out
}

/// A name for use between backquotes in a sentence: it may hold none itself.
#[must_use]
pub fn code(name: &str) -> String {
    format!("`{}`", name.replace('`', "'"))
}

/// A page under construction.
#[derive(Default)]
pub struct Page {
    body: String,
    sections: Vec<(String, String)>,
    ids: u32,
}

impl Page {
    /// Begin a section; the one before it ends.
    pub fn section(&mut self, id: &str, title: &str) {
        if !self.sections.is_empty() {
            self.body.push_str("</section>\n");
        }
        self.body.push_str(&format!(
            "<section id=\"{id}\" aria-labelledby=\"{id}-h\">\n<h2 id=\"{id}-h\">{}</h2>\n",
            escape(title)
        ));
        self.sections.push((id.to_string(), title.to_string()));
    }

    /// A heading within the section.
    pub fn heading(&mut self, text: &str) {
        self.body.push_str(&format!("<h3>{}</h3>\n", inline(text)));
    }

    /// A paragraph of plain text; backquotes mark code.
    pub fn para(&mut self, text: &str) {
        self.body.push_str(&format!("<p>{}</p>\n", inline(text)));
    }

    /// A small print line: how to read what stands above it.
    pub fn note(&mut self, text: &str) {
        self.body
            .push_str(&format!("<p class=\"note\">{}</p>\n", inline(text)));
    }

    /// What is absent, and which command gives it.
    pub fn absent(&mut self, what: &str, command: &str) {
        self.body.push_str(&format!(
            "<p class=\"absent\">{} To get it: <code>{}</code></p>\n",
            inline(what),
            escape(command)
        ));
    }

    /// A list of sentences.
    pub fn list(&mut self, items: &[String], class: &str) {
        self.body.push_str(&format!("<ul class=\"{class}\">\n"));
        for item in items {
            self.body.push_str(&format!("<li>{}</li>\n", inline(item)));
        }
        self.body.push_str("</ul>\n");
    }

    /// A table in the open.
    pub fn table(&mut self, table: &Table) {
        self.body.push_str(&table.html());
    }

    /// Ready HTML.
    pub fn raw(&mut self, html: &str) {
        self.body.push_str(html);
    }

    /// A number that no other element of the page has as its id.
    pub fn id(&mut self) -> u32 {
        self.ids += 1;
        self.ids
    }

    /// The whole document.
    #[must_use]
    pub fn finish(mut self, title: &str, subtitle: &str) -> String {
        if !self.sections.is_empty() {
            self.body.push_str("</section>\n");
        }
        let nav: String = self
            .sections
            .iter()
            .map(|(id, title)| format!("<li><a href=\"#{id}\">{}</a></li>", escape(title)))
            .collect();
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n\
             <title>{title}</title>\n<style>\n{css}</style>\n</head>\n<body>\n{defs}\
             <header><h1>{title}</h1>\n<p>{subtitle}</p>\n</header>\n\
             <nav aria-label=\"Sections\"><ul>{nav}</ul></nav>\n<main>\n{body}</main>\n</body>\n</html>\n",
            title = escape(title),
            subtitle = inline(subtitle),
            css = style::CSS,
            defs = style::DEFS,
            body = self.body,
        )
    }
}

/// A collapsed part.
#[must_use]
pub fn details(summary: &str, inner: &str) -> String {
    format!(
        "<details><summary>{}</summary>\n{inner}</details>\n",
        inline(summary)
    )
}

/// A chart with its legend, its caption and the table of its numbers.
#[must_use]
pub fn figure(caption: &str, svg: &str, legend: &str, table: &Table) -> String {
    format!(
        "<figure><figcaption>{}</figcaption>\n{svg}{legend}{}</figure>\n",
        inline(caption),
        details("The numbers of this chart", &table.html())
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// HTML's five special characters never come through; backquotes only ever make `code`.
    #[test]
    fn markup_in_names_is_text() {
        assert_eq!(
            escape("<b a=\"1\">&'\u{0}"),
            "&lt;b a=&quot;1&quot;&gt;&amp;&#39;\u{fffd}"
        );
        assert_eq!(inline("a `<i>` b"), "a <code>&lt;i&gt;</code> b");
        assert_eq!(inline("a ` b"), "a ` b");
        assert_eq!(code("x`y"), "`x'y`");
    }
}
