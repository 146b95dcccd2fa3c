//! Experiments that are part of the program, so that `list` and `run` work in any folder.

use std::path::Path;

use super::{Experiment, ExperimentError, hint, list};

/// An experiment file that was built in.
#[derive(Clone, Copy, Debug)]
pub struct BuiltIn {
    /// What `run` calls it.
    pub name: &'static str,
    /// Contents of the file.
    pub text: &'static str,
}

macro_rules! built_in {
    ($($name:literal in $folder:literal,)*) => {
        /// All built-in experiments, in the order of `list`.
        pub const BUILT_IN: &[BuiltIn] = &[
            $(BuiltIn {
                name: $name,
                text: include_str!(concat!(
                    env!("CARGO_MANIFEST_DIR"), "/experiments/", $folder, "/", $name, ".toml"
                )),
            },)*
        ];
    };
}

built_in! {
    "psi-walk" in "psi",
    "psi-depth" in "psi",
    "psi-pipe" in "psi",
    "psi-inner" in "psi",
    "small-difference" in "self",
}

impl Experiment {
    /// The experiment called `name`: built in, or else the file of that name.
    ///
    /// # Errors
    /// If there is neither, or the file is no experiment.
    pub fn find(name: &str) -> Result<Experiment, ExperimentError> {
        if let Some(built_in) = BUILT_IN.iter().find(|b| b.name == name) {
            let file = format!("{name} (built in)");
            return Experiment::parse(name, Path::new(&file), built_in.text);
        }
        let path = Path::new(name);
        if path.extension().is_some_and(|e| e == "toml") || path.exists() {
            return Experiment::read(path);
        }
        let known = BUILT_IN.iter().map(|b| b.name);
        Err(ExperimentError::UnknownExperiment {
            name: name.into(),
            known: list(known.clone()),
            hint: hint(name, known),
        })
    }

    /// The experiment in `file`.
    ///
    /// # Errors
    /// If it cannot be read or is no experiment.
    pub fn read(file: &Path) -> Result<Experiment, ExperimentError> {
        let text = std::fs::read_to_string(file).map_err(|source| ExperimentError::Read {
            file: file.into(),
            source,
        })?;
        let name = file
            .file_stem()
            .map(|stem| stem.to_string_lossy().into_owned())
            .unwrap_or_default();
        Experiment::parse(&name, file, &text)
    }
}
