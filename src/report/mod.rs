//! The report: a results folder as one page that stands alone, and as plain text.
//!
//! It reads records only, never a backend; every number on the page is a cell of a CSV file or
//! is computed from such cells in view of the reader. Charts are small SVG of our own: their
//! text stays text, their colours are CSS variables that follow light and dark, and each has a
//! title, a description and a table. plotters' SVG backend fixes colours and fonts in attributes
//! and writes no title, so it could do none of that.

mod answer;
mod causes;
pub(crate) mod chart;
mod curves;
mod finding;
mod group;
pub(crate) mod html;
mod machines;
mod method;
mod model_error;
mod num;
mod pipe;
mod pipe_section;
mod published;
mod read;
mod records;
mod set_map;
mod sharing;
mod struct_heat;
mod style;
mod table;
mod text;

use records::Records;
use std::path::{Path, PathBuf};

/// Why there is no report. Each is one sentence.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// Not a folder.
    #[error("{} is not a folder; `kwalk run` writes one, by default under out/", .0.display())]
    NoFolder(PathBuf),
    /// A file of the folder is missing.
    #[error("{} is missing; a results folder as `kwalk run` writes it holds run.toml, samples.csv, summary.csv and verdicts.csv", .0.display())]
    NoFile(PathBuf),
    /// A file cannot be read.
    #[error("{}: cannot be read: {source}", file.display())]
    Read {
        /// Which.
        file: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A column is missing.
    #[error("{}: column `{column}` is missing; the header must hold every column of schema 1", file.display())]
    Column {
        /// Which file.
        file: PathBuf,
        /// Which column.
        column: String,
    },
    /// A row cannot be read.
    #[error("{}, line {line}: {message}; rows must be as `kwalk run` wrote them", file.display())]
    Row {
        /// Which file.
        file: PathBuf,
        /// 1-based, header included.
        line: u64,
        /// What is wrong.
        message: String,
    },
    /// TOML that is none.
    #[error("{}: {message}; it must be TOML as `kwalk run` wrote it", file.display())]
    Toml {
        /// Which file.
        file: PathBuf,
        /// What is wrong.
        message: String,
    },
    /// Another version of the columns.
    #[error("{}: schema is {found}; this version of kwalk reads schema 1", file.display())]
    Schema {
        /// Which file.
        file: PathBuf,
        /// What it says.
        found: String,
    },
    /// Nothing to report.
    #[error("{} holds no row in summary.csv; run the experiment again", .0.display())]
    Empty(PathBuf),
    /// The report cannot be written.
    #[error("{}: cannot be written: {source}; `kwalk report --text` needs no file", file.display())]
    Write {
        /// Which file.
        file: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

/// Writes `dir/report.html` from the records in `dir` and returns its path. An earlier report is
/// replaced as a whole or not at all.
pub fn write(dir: &Path) -> Result<PathBuf, ReportError> {
    let records = read(dir)?;
    let page = page(&records);
    let path = dir.join("report.html");
    let draft = dir.join(".report.html.part");
    let written = std::fs::write(&draft, page).and_then(|()| std::fs::rename(&draft, &path));
    written.map_err(|source| {
        // The draft is ours and may not exist; the error that matters is the first one.
        let _ = std::fs::remove_file(&draft);
        ReportError::Write {
            file: path.clone(),
            source,
        }
    })?;
    Ok(path)
}

/// The answer, its table and the method in 72 columns of plain text.
pub fn text(dir: &Path) -> Result<String, ReportError> {
    Ok(text::render(&read(dir)?))
}

fn read(dir: &Path) -> Result<Records, ReportError> {
    let records = Records::read(dir)?;
    if records.groups.iter().all(|g| g.curves.is_empty()) {
        return Err(ReportError::Empty(dir.to_path_buf()));
    }
    Ok(records)
}

fn page(records: &Records) -> String {
    let mut page = html::Page::default();
    answer::section(records, &mut page);
    curves::section(records, &mut page);
    causes::section(records, &mut page);
    set_map::section(records, &mut page);
    struct_heat::section(records, &mut page);
    sharing::section(records, &mut page);
    model_error::section(records, &mut page);
    pipe_section::section(records, &mut page);
    machines::section(records, &mut page);
    method::section(records, &mut page);
    let question = records
        .experiments
        .iter()
        .find_map(|e| e.get("question")?.as_str());
    let title = format!("kwalk: {}", records.experiment_names());
    page.finish(&title, question.unwrap_or("Results of one run."))
}
