//! Result folders: their default names, and reading them back.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::de::DeserializeOwned;

use super::{Attribution, Provenance, Sample, Sharing, Summary, Verdict};

/// Why a results folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// It is there already.
    #[error(
        "results folder {} exists; name another one with --out, or overwrite it with --force",
        .0.display()
    )]
    Exists(PathBuf),
    /// `--force`, but it is not ours.
    #[error(
        "results folder {} exists and holds no run.toml of kwalk, so --force does not overwrite \
         it; name another one with --out",
        .0.display()
    )]
    NotOurs(PathBuf),
    /// The file system refuses.
    #[error("results folder {} cannot be written ({source}); name another one with --out", dir.display())]
    Unwritable {
        /// The folder.
        dir: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Something to be read is missing or unreadable.
    #[error("{} cannot be read ({source}); a results folder of kwalk run is expected", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file does not hold what it should.
    #[error("{} does not hold what kwalk writes there: {message}", file.display())]
    Malformed {
        /// The file.
        file: PathBuf,
        /// The parser's words.
        message: String,
    },
}

/// All rows of a results folder.
#[derive(Clone, Debug)]
pub struct Results {
    /// The folder.
    pub dir: PathBuf,
    /// `run.toml`.
    pub provenance: Provenance,
    /// `samples.csv`.
    pub samples: Vec<Sample>,
    /// `summary.csv`; empty after an interrupted run.
    pub summaries: Vec<Summary>,
    /// `attribution.csv`.
    pub attributions: Vec<Attribution>,
    /// `sharing.csv`.
    pub sharings: Vec<Sharing>,
    /// `verdicts.csv`; empty after an interrupted run.
    pub verdicts: Vec<Verdict>,
}

impl Results {
    /// Read the folder that a run wrote.
    ///
    /// # Errors
    /// If a file is missing or holds something else.
    pub fn read(dir: &Path) -> Result<Results, FolderError> {
        let file = dir.join("run.toml");
        let text = std::fs::read_to_string(&file).map_err(|source| FolderError::Unreadable {
            file: file.clone(),
            source,
        })?;
        let provenance = toml::from_str(&text).map_err(|e| FolderError::Malformed {
            file,
            message: e.message().replace('\n', " "),
        })?;
        Ok(Results {
            dir: dir.into(),
            provenance,
            samples: rows(&dir.join("samples.csv"))?,
            summaries: rows(&dir.join("summary.csv"))?,
            attributions: rows(&dir.join("attribution.csv"))?,
            sharings: rows(&dir.join("sharing.csv"))?,
            verdicts: rows(&dir.join("verdicts.csv"))?,
        })
    }
}

fn rows<Row: DeserializeOwned>(file: &Path) -> Result<Vec<Row>, FolderError> {
    let bytes = std::fs::read(file).map_err(|source| FolderError::Unreadable {
        file: file.into(),
        source,
    })?;
    csv::Reader::from_reader(bytes.as_slice())
        .into_deserialize()
        .collect::<Result<_, _>>()
        .map_err(|e| FolderError::Malformed {
            file: file.into(),
            message: e.to_string(),
        })
}

/// `out/<experiment>-<date>-<time>` in UTC, such as `out/psi-depth-20261130-215534`; a number is
/// added where a run of the same second has that name.
#[must_use]
pub fn default_folder(experiment: &str, now: SystemTime) -> PathBuf {
    let (date, time) = civil(now);
    let name = format!(
        "{experiment}-{:04}{:02}{:02}-{:02}{:02}{:02}",
        date[0], date[1], date[2], time[0], time[1], time[2]
    );
    let out = Path::new("out");
    std::iter::once(out.join(&name))
        .chain((2..).map(|n| out.join(format!("{name}-{n}"))))
        .find(|dir| !dir.exists())
        .expect("the numbers do not end")
}

/// `now` in UTC as `2026-11-30T21:55:34Z`.
#[must_use]
pub fn utc(now: SystemTime) -> String {
    let (date, time) = civil(now);
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z",
        date[0], date[1], date[2], time[0], time[1], time[2]
    )
}

/// Year, month, day and hour, minute, second in UTC. A clock before 1970 counts as 1970.
///
/// Days are counted from 1 March of year 0, so that the leap day ends a year and the lengths of the
/// months follow `(153 * month + 2) / 5`; 400 years have 146,097 days.
fn civil(now: SystemTime) -> ([u64; 3], [u64; 3]) {
    let seconds = now
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    // From 1 March of year 0 to 1 January 1970.
    const DAYS_TO_1970: u64 = 719_468;
    let days = seconds / 86_400 + DAYS_TO_1970;
    let era = days / 146_097;
    let day_of_era = days % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 {
        march_month + 3
    } else {
        march_month - 9
    };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let time = [seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60];
    ([year, month, day], time)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Seconds since 1970 by counting: 365 days a year and a leap day for each leap year passed.
    /// 2000-02-29 is 30 years (7 leap days: 1972 to 1996) and 59 days after 1970-01-01; 2100 has
    /// no leap day, so its 1 March is 31 + 28 days into the year, after 130 years with 32 leap days
    /// (1972 to 2096).
    #[test]
    fn dates_are_those_of_the_calendar() {
        let day = |days: u64| days * 86_400;
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (day(1) - 1, "1970-01-01T23:59:59Z"),
            (day(30 * 365 + 7 + 59), "2000-02-29T00:00:00Z"),
            (day(30 * 365 + 7 + 60), "2000-03-01T00:00:00Z"),
            (day(130 * 365 + 32 + 58), "2100-02-28T00:00:00Z"),
            (day(130 * 365 + 32 + 59), "2100-03-01T00:00:00Z"),
            (day(31 * 365 + 8 - 1), "2000-12-31T00:00:00Z"),
        ] {
            let now = UNIX_EPOCH + Duration::from_secs(seconds);
            assert_eq!(utc(now), text, "{seconds}");
        }
    }

    #[test]
    fn the_default_folder_is_named_after_experiment_and_second() {
        let dir = default_folder("psi-depth", UNIX_EPOCH + Duration::from_secs(3_661));
        assert_eq!(dir, Path::new("out/psi-depth-19700101-010101"));
    }
}
