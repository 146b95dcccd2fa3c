//! The report of a results folder.

use std::path::{Path, PathBuf};

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
#[error("{}: no report is built in", .0.display())]
pub struct ReportError(PathBuf);

/// Writes `dir/report.html` and returns its path.
///
/// # Errors
/// Always.
pub fn write(dir: &Path) -> Result<PathBuf, ReportError> {
    Err(ReportError(dir.into()))
}

/// The report as plain text.
///
/// # Errors
/// Always.
pub fn text(dir: &Path) -> Result<String, ReportError> {
    Err(ReportError(dir.into()))
}
