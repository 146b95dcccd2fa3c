//! Writing a results folder while a run goes on.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::{
    Attribution, FolderError, Provenance, Sample, Sharing, Summary, Verdict, host_state, utc,
};
use crate::machine::Machine;
use crate::stats::summary::{summarise, verdicts};

/// Columns that every file begins with.
const KEY_HEADER: &[&str] = &[
    "schema",
    "experiment",
    "machine",
    "backend",
    "kernel",
    "variant",
    "layout",
    "placement",
    "pages",
    "start",
    "point",
    "axis",
    "x",
    "cpu",
];
const SAMPLE_HEADER: &[&str] = &[
    "seed", "repeat", "metric", "unit", "value", "status", "detail",
];
const SUMMARY_HEADER: &[&str] = &[
    "metric",
    "unit",
    "n",
    "median",
    "ci_low",
    "ci_high",
    "placement_share",
    "status",
];
const ATTRIBUTION_HEADER: &[&str] = &[
    "function",
    "struct",
    "field",
    "line",
    "set",
    "level",
    "cause",
    "misses_per_op",
    "misses_per_visit",
    "cycles_per_op",
];
const SHARING_HEADER: &[&str] = &[
    "struct",
    "line",
    "field_a",
    "field_b",
    "cpu_a",
    "cpu_b",
    "kind",
    "transfers_per_op",
];
/// All columns of `verdicts.csv`, which has no `x`.
pub(super) const VERDICT_HEADER: &[&str] = &[
    "schema",
    "experiment",
    "machine",
    "backend",
    "kernel",
    "variant",
    "layout",
    "placement",
    "pages",
    "start",
    "point",
    "axis",
    "cpu",
    "baseline",
    "what",
    "value",
    "unit",
    "ci_low",
    "ci_high",
    "p_adjusted",
    "words",
];

/// A row could not be written.
#[derive(Debug, thiserror::Error)]
#[error("{} cannot be written ({message}); what was measured before is kept", file.display())]
pub struct RecorderError {
    /// The file.
    pub file: PathBuf,
    /// Why.
    pub message: String,
}

/// The results folder of a run that goes on. Rows are flushed as they come, so an interrupted run
/// keeps what it measured; a run that fails before its first row leaves nothing behind, and what
/// `--force` replaces is deleted only when the first row of the new run is there.
#[derive(Debug)]
pub struct Recorder {
    dir: PathBuf,
    before: Before,
    provenance: Provenance,
    samples: Table,
    attributions: Table,
    sharings: Table,
    /// Kept for the summary.
    rows: Vec<Sample>,
    /// A row of any kind, or a machine, was written.
    begun: bool,
    finished: bool,
}

/// What was there before the run, to be restored if it fails before its first row.
#[derive(Debug, Default)]
struct Before {
    /// Where the folder that is being replaced waits.
    replaced: Option<PathBuf>,
    /// Folders above the results that had to be made, the innermost first.
    made: Vec<PathBuf>,
}

impl Before {
    fn restore(&self, dir: &Path) {
        // The error that led here is the one to report; what cannot be removed stays.
        let _ = fs::remove_dir_all(dir);
        for parent in &self.made {
            let _ = fs::remove_dir(parent);
        }
        if let Some(replaced) = &self.replaced {
            let _ = fs::rename(replaced, dir);
        }
    }
}

/// One CSV file.
#[derive(Debug)]
struct Table {
    file: PathBuf,
    writer: csv::Writer<File>,
}

impl Table {
    fn create(file: PathBuf, columns: &[&str]) -> Result<Table, RecorderError> {
        let failed = |error: csv::Error| RecorderError {
            file: file.clone(),
            message: error.to_string(),
        };
        // The header is written here, since a file without rows has one, too.
        let mut writer = csv::WriterBuilder::new()
            .has_headers(false)
            .from_path(&file)
            .map_err(failed)?;
        writer.write_record(columns).map_err(failed)?;
        let mut table = Table { file, writer };
        table.flush()?;
        Ok(table)
    }

    fn write(&mut self, row: impl Serialize) -> Result<(), RecorderError> {
        self.writer.serialize(row).map_err(|e| RecorderError {
            file: self.file.clone(),
            message: e.to_string(),
        })
    }

    fn flush(&mut self) -> Result<(), RecorderError> {
        self.writer.flush().map_err(|e| RecorderError {
            file: self.file.clone(),
            message: e.to_string(),
        })
    }
}

impl Recorder {
    /// Whether `dir` may become a results folder: it does not exist, or `force` and it is one
    /// already, or empty. Nothing is changed.
    ///
    /// # Errors
    /// If it may not.
    pub fn accepts(dir: &Path, force: bool) -> Result<(), FolderError> {
        match (dir.exists(), force) {
            (false, _) => Ok(()),
            (true, true) if replaceable(dir) => Ok(()),
            (true, false) => Err(FolderError::Exists(dir.into())),
            (true, true) => Err(FolderError::NotOurs(dir.into())),
        }
    }

    /// Create the folder `dir` with empty tables. An existing one is refused; with `force` it is
    /// replaced if it is the results folder of an earlier run, or empty.
    ///
    /// # Errors
    /// If the folder exists or cannot be written. Then nothing was changed.
    pub fn create(
        dir: &Path,
        force: bool,
        provenance: Provenance,
    ) -> Result<Recorder, FolderError> {
        let unwritable = |source| FolderError::Unwritable {
            dir: dir.into(),
            source,
        };
        let mut before = Before {
            replaced: None,
            made: dir
                .ancestors()
                .skip(1)
                .take_while(|parent| !parent.as_os_str().is_empty() && !parent.exists())
                .map(Path::to_path_buf)
                .collect(),
        };
        Recorder::accepts(dir, force)?;
        if dir.exists() {
            let aside = aside(dir);
            fs::rename(dir, &aside).map_err(unwritable)?;
            before.replaced = Some(aside);
        }
        let created = fs::create_dir_all(dir.join("machines"))
            .map_err(unwritable)
            .and_then(|()| {
                Recorder::tables(dir, provenance).map_err(|e| unwritable(io::Error::other(e)))
            });
        match created {
            Ok(mut recorder) => {
                recorder.before = before;
                Ok(recorder)
            }
            Err(error) => {
                before.restore(dir);
                Err(error)
            }
        }
    }

    fn tables(dir: &Path, mut provenance: Provenance) -> Result<Recorder, RecorderError> {
        provenance.host = host_state(Path::new("/"));
        let table =
            |name: &str, own: &[&str]| Table::create(dir.join(name), &[KEY_HEADER, own].concat());
        let mut recorder = Recorder {
            dir: dir.into(),
            before: Before::default(),
            provenance,
            samples: table("samples.csv", SAMPLE_HEADER)?,
            attributions: table("attribution.csv", ATTRIBUTION_HEADER)?,
            sharings: table("sharing.csv", SHARING_HEADER)?,
            rows: Vec::new(),
            begun: false,
            finished: false,
        };
        recorder.write_end_tables()?;
        recorder.write_provenance()?;
        Ok(recorder)
    }

    /// The folder.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Samples so far.
    #[must_use]
    pub fn samples(&self) -> &[Sample] {
        &self.rows
    }

    /// Append to `samples.csv`, and flush what was appended to the other tables.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn sample(&mut self, sample: Sample) -> Result<(), RecorderError> {
        self.begin();
        self.samples.write(&sample)?;
        if !self.provenance.machines.contains(&sample.machine) {
            self.provenance.machines.push(sample.machine.clone());
        }
        self.rows.push(sample);
        self.samples.flush()?;
        self.attributions.flush()?;
        self.sharings.flush()
    }

    /// Append to `attribution.csv`.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn attribution(&mut self, row: &Attribution) -> Result<(), RecorderError> {
        self.begin();
        self.attributions.write(row)
    }

    /// Append to `sharing.csv`.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn sharing(&mut self, row: &Sharing) -> Result<(), RecorderError> {
        self.begin();
        self.sharings.write(row)
    }

    /// Write `machines/NAME.toml`; what a file name cannot hold in NAME becomes `-`.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn machine(&mut self, machine: &Machine) -> Result<(), RecorderError> {
        let file = self.dir.join("machines").join(file_name(&machine.name));
        let text = toml::to_string(machine).map_err(|e| RecorderError {
            file: file.clone(),
            message: e.to_string(),
        })?;
        fs::write(&file, text).map_err(|e| RecorderError {
            file,
            message: e.to_string(),
        })
    }

    /// Remember a sentence about the run for `run.toml`; the same one is kept once.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn note(&mut self, note: &str) -> Result<(), RecorderError> {
        if self.provenance.notes.iter().any(|n| n == note) {
            return Ok(());
        }
        self.provenance.notes.push(note.into());
        self.write_provenance()
    }

    /// Copy `file`, a recording that the run needs, into the folder `streams`, so that the run can be
    /// repeated.
    ///
    /// # Errors
    /// If it cannot be copied, or another file of that name was kept.
    pub fn keep_stream(&self, file: &Path) -> Result<(), RecorderError> {
        let failed = |message: String| RecorderError {
            file: file.into(),
            message,
        };
        let folder = self.dir.join("streams");
        let name = file.file_name().unwrap_or_default();
        let copy = folder.join(name);
        fs::create_dir_all(&folder).map_err(|e| failed(e.to_string()))?;
        let content = fs::read(file).map_err(|e| failed(e.to_string()))?;
        if fs::read(&copy).is_ok_and(|kept| kept != content) {
            return Err(failed(
                "another recording of that name is kept already; accepted: a name of its own for each".into(),
            ));
        }
        fs::write(&copy, content).map_err(|e| failed(e.to_string()))
    }

    /// Write summary and verdicts and the end of the run.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn finish(mut self) -> Result<Finished, RecorderError> {
        self.begin();
        self.finished = true;
        self.attributions.flush()?;
        self.sharings.flush()?;
        let (summaries, verdicts) = self.write_end_tables()?;
        self.provenance.finished = utc(std::time::SystemTime::now());
        self.write_provenance()?;
        Ok(Finished {
            dir: self.dir.clone(),
            summaries,
            verdicts,
            notes: self.provenance.notes.clone(),
        })
    }

    fn write_end_tables(&mut self) -> Result<(Vec<Summary>, Vec<Verdict>), RecorderError> {
        let columns = [KEY_HEADER, SUMMARY_HEADER].concat();
        let mut table = Table::create(self.dir.join("summary.csv"), &columns)?;
        let summaries = summarise(&self.rows);
        for row in &summaries {
            table.write(row)?;
        }
        table.flush()?;
        let mut table = Table::create(self.dir.join("verdicts.csv"), VERDICT_HEADER)?;
        let verdicts = verdicts(&self.rows, &self.provenance.baseline);
        for row in &verdicts {
            table.write(row)?;
        }
        table.flush()?;
        Ok((summaries, verdicts))
    }

    /// Written beside and renamed: `run.toml` is whole at any time.
    fn write_provenance(&self) -> Result<(), RecorderError> {
        let file = self.dir.join("run.toml");
        let failed = |message: String| RecorderError {
            file: file.clone(),
            message,
        };
        let text = toml::to_string(&self.provenance).map_err(|e| failed(e.to_string()))?;
        let beside = self.dir.join(".run.toml");
        fs::write(&beside, text)
            .and_then(|()| fs::rename(&beside, &file))
            .map_err(|e| failed(e.to_string()))
    }

    fn begin(&mut self) {
        self.begun = true;
        if let Some(replaced) = self.before.replaced.take() {
            // The new results are there; an old folder that cannot be removed does no harm.
            let _ = fs::remove_dir_all(replaced);
        }
    }
}

impl Drop for Recorder {
    /// A run that failed: keep its rows, or, if there are none, leave things as they were.
    fn drop(&mut self) {
        if !self.begun {
            self.before.restore(&self.dir);
        } else if !self.finished {
            // A failed run reports its own error; these only add what can still be kept.
            let _ = self.attributions.flush();
            let _ = self.sharings.flush();
            let _ = self.write_end_tables();
            let _ = self.write_provenance();
        }
    }
}

/// What [`Recorder::finish`] leaves for the terminal.
#[derive(Clone, Debug)]
pub struct Finished {
    /// The folder.
    pub dir: PathBuf,
    /// Rows of `summary.csv`.
    pub summaries: Vec<Summary>,
    /// Rows of `verdicts.csv`.
    pub verdicts: Vec<Verdict>,
    /// Of `run.toml`.
    pub notes: Vec<String>,
}

/// Results of an earlier run, or an empty folder.
fn replaceable(dir: &Path) -> bool {
    let ours = fs::read_to_string(dir.join("run.toml"))
        .is_ok_and(|text| toml::from_str::<Provenance>(&text).is_ok());
    ours || fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_none())
}

/// A hidden name beside `dir` that is not taken.
fn aside(dir: &Path) -> PathBuf {
    let name = dir.file_name().unwrap_or_default().to_string_lossy();
    (0..)
        .map(|n| dir.with_file_name(format!(".{name}.replaced-{n}")))
        .find(|path| !path.exists())
        .expect("the numbers do not end")
}

/// `name` with all but letters, digits, `.`, `_` and `-` replaced by `-`, and `.toml`.
fn file_name(name: &str) -> String {
    let safe: String = name
        .chars()
        .map(|c| match c {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '.' | '_' | '-' => c,
            _ => '-',
        })
        .collect();
    let collapsed: Vec<&str> = safe.split('-').filter(|part| !part.is_empty()).collect();
    format!("{}.toml", collapsed.join("-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_names_become_file_names() {
        for (name, file) in [
            ("i7-9700", "i7-9700.toml"),
            ("host:AMD EPYC 9B14", "host-AMD-EPYC-9B14.toml"),
            (
                "host:Xeon(R) CPU @ 2.2GHz / 8",
                "host-Xeon-R-CPU-2.2GHz-8.toml",
            ),
            ("../x", "..-x.toml"),
        ] {
            assert_eq!(file_name(name), file);
        }
    }
}
