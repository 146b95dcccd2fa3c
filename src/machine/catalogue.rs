//! Machines by name: the built-in catalogue, and machine files.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use super::{Fault, Machine};

/// The built-in machine files, by name.
const BUILT_IN: &[(&str, &str)] = &[
    ("alder-lake-e", include_str!("catalogue/alder-lake-e.toml")),
    ("alder-lake-p", include_str!("catalogue/alder-lake-p.toml")),
    ("apple-m1", include_str!("catalogue/apple-m1.toml")),
    ("cascade-lake", include_str!("catalogue/cascade-lake.toml")),
    (
        "emerald-rapids",
        include_str!("catalogue/emerald-rapids.toml"),
    ),
    ("genoa", include_str!("catalogue/genoa.toml")),
    ("i7-9700", include_str!("catalogue/i7-9700.toml")),
    (
        "icelake-client",
        include_str!("catalogue/icelake-client.toml"),
    ),
    ("icelake-sp", include_str!("catalogue/icelake-sp.toml")),
    ("ivy-bridge", include_str!("catalogue/ivy-bridge.toml")),
    ("milan", include_str!("catalogue/milan.toml")),
    ("neoverse-n1", include_str!("catalogue/neoverse-n1.toml")),
    ("neoverse-n2", include_str!("catalogue/neoverse-n2.toml")),
    ("neoverse-v1", include_str!("catalogue/neoverse-v1.toml")),
    ("neoverse-v2", include_str!("catalogue/neoverse-v2.toml")),
    ("rome", include_str!("catalogue/rome.toml")),
    ("ryzen-5900hx", include_str!("catalogue/ryzen-5900hx.toml")),
    (
        "sapphire-rapids",
        include_str!("catalogue/sapphire-rapids.toml"),
    ),
    (
        "textbook-32k-lru",
        include_str!("catalogue/textbook-32k-lru.toml"),
    ),
    (
        "textbook-48k-lru",
        include_str!("catalogue/textbook-48k-lru.toml"),
    ),
    ("turin", include_str!("catalogue/turin.toml")),
];

/// A machine file is a few KiB; more than this is no machine file.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Why there is no machine. Each is one sentence that names the file and the key.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// Not in the catalogue.
    #[error(
        "machine {name:?} is unknown; accepted are {known}, or a file whose name has a '/' or \
         ends in .toml"
    )]
    Unknown {
        /// As given.
        name: String,
        /// All accepted names.
        known: String,
    },
    /// The file cannot be read.
    #[error("{}: {reason}; a machine file is accepted, as `kwalk machine NAME --toml` writes it", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// What the operating system said.
        reason: String,
    },
    /// Not TOML, or a key is unknown, missing or of another type.
    #[error("{}, {at}: {reason}", file.display())]
    Toml {
        /// The file.
        file: PathBuf,
        /// Line, with its text.
        at: String,
        /// What is wrong and what would be accepted.
        reason: String,
    },
    /// A value that the model cannot take.
    #[error("{}: {fault}", file.display())]
    Invalid {
        /// The file.
        file: PathBuf,
        /// Key and reason.
        fault: Fault,
    },
    /// The host tells nothing of its caches.
    #[error(
        "neither sysfs nor CPUID tells the caches of CPU {cpu}{why}; name a machine that is like \
         it with --machine NAME ({known}), which the model takes; native runs work without it"
    )]
    NoCaches {
        /// Linux's CPU.
        cpu: u32,
        /// What was looked at, in words.
        why: String,
        /// All catalogue names.
        known: String,
    },
    /// No such CPU.
    #[error("CPU {cpu} is not there; accepted are {online}")]
    NoCpu {
        /// Linux's CPU.
        cpu: u32,
        /// The CPUs that are online, as a list.
        online: String,
    },
}

/// The names of the catalogue, sorted.
pub fn names() -> impl Iterator<Item = &'static str> {
    BUILT_IN.iter().map(|&(name, _)| name)
}

/// The names of the catalogue in one line, for messages.
pub fn known() -> String {
    names().collect::<Vec<_>>().join(", ")
}

/// The machine of that name; a name with a `/` or that ends in `.toml` is a file.
pub fn find(name: &str) -> Result<Machine, MachineError> {
    if name.contains('/') || name.ends_with(".toml") {
        return read_file(Path::new(name));
    }
    match BUILT_IN.iter().find(|&&(known, _)| known == name) {
        Some((_, text)) => parse(Path::new(&format!("catalogue/{name}.toml")), text),
        None => Err(MachineError::Unknown {
            name: name.to_owned(),
            known: known(),
        }),
    }
}

/// Reads and checks a machine file.
pub fn read_file(file: &Path) -> Result<Machine, MachineError> {
    let unreadable = |reason: String| MachineError::Unreadable {
        file: file.to_owned(),
        reason,
    };
    let text = read_text(file).map_err(|e| unreadable(e.to_string()))?;
    parse(file, &text)
}

/// The text of a regular file of at most [`MAX_FILE_BYTES`]: devices and pipes may never end.
fn read_text(file: &Path) -> io::Result<String> {
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let mut text = String::new();
    let read = File::open(file)?
        .take(MAX_FILE_BYTES + 1)
        .read_to_string(&mut text)?;
    if read as u64 > MAX_FILE_BYTES {
        return Err(io::Error::other("longer than 1 MiB"));
    }
    Ok(text)
}

/// The machine in `text`; `file` is for messages.
pub fn parse(file: &Path, text: &str) -> Result<Machine, MachineError> {
    let machine: Machine = toml::from_str(text).map_err(|e| MachineError::Toml {
        file: file.to_owned(),
        at: line_at(text, e.span().map_or(0, |span| span.start)),
        reason: e.message().replace('\n', "; "),
    })?;
    machine.check().map_err(|fault| MachineError::Invalid {
        file: file.to_owned(),
        fault,
    })?;
    Ok(machine)
}

/// The line that holds byte `offset`, by number and text, so that a message names the key.
fn line_at(text: &str, offset: usize) -> String {
    let before = text.get(..offset).unwrap_or(text);
    let number = before.matches('\n').count();
    let line = text.lines().nth(number).unwrap_or("").trim();
    // A hostile line may be long; the begin is enough to find it.
    let short: String = line.chars().take(60).collect();
    format!("line {} `{short}`", number + 1)
}
