//! Recorded access streams of Linux: a text format, one access per line, read into structs, edited,
//! and run through the model.
//!
//! `#` lines are the header (addresses of objects, names of columns), `CALL name` lines mark function
//! entries, `MARK` lines phases; all others are one access:
//! `n cpu psi pc RW size vaddr paddr value label`. The third column is `psi` (1 inside
//! `psi_task_change` and `psi_task_switch`) or, in streams of other paths, `in` (the number of the
//! path that the access belongs to, 0 for none). A label `-` is a place that the recording could not
//! name. Text, or text compressed by gzip.
//!
//! - [`label`]: whose bytes an access touches: struct, object, field, offset.
//! - [`edit`]: what if an object or a field lay elsewhere, or a field more were read?
//! - [`steps`]: the accesses of a round, ready to run: read-modify-writes joined, names numbered.
//! - [`replay`]: rounds of them on a modelled machine; misses by function, field and cause.
//! - [`shared`]: lines that several cores use.
//! - [`cachegrind`]: the same as a file for `cg_annotate`.
//! - [`background`]: what runs between two operations of a kernel.
//!
//! A stream holds order, addresses, sizes and values, exactly; it says nothing about time, and
//! nothing about what depends on what.

pub mod background;
pub mod cachegrind;
pub mod edit;
pub mod label;
mod reader;
pub mod replay;
pub mod shared;
pub mod steps;

use std::path::PathBuf;

use kernels::psi::RecordedPlacement;

pub use reader::looks_like_a_stream;

/// What can be wrong with a stream file.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// It cannot be read.
    #[error("{file}: {source}; a recorded stream (text, or text compressed by gzip) would do")]
    Read {
        /// File.
        file: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A line makes no sense.
    #[error("{file}, line {line}: {what}")]
    Line {
        /// File.
        file: PathBuf,
        /// 1-based.
        line: usize,
        /// What is wrong and what would be accepted.
        what: String,
    },
}

/// One access of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// CPU that made it.
    pub cpu: u32,
    /// Third column: the recorded path that it belongs to, 0 for none.
    pub path: u8,
    /// `path == 1`: in a stream of PSI, inside `psi_task_change` or `psi_task_switch`.
    pub psi: bool,
    /// Function and offset of the instruction.
    pub pc: String,
    /// Store, or load.
    pub write: bool,
    /// Width, 1 to [`MOST_ACCESS_BYTES`].
    pub bytes: u32,
    /// Virtual address.
    pub vaddr: u64,
    /// Physical address.
    pub paddr: u64,
    /// Value loaded or stored, its first 8 bytes; `None` where not recorded.
    pub value: Option<u64>,
    /// `object.field@offset`, where known.
    pub label: Option<String>,
}

/// Widest access of any recorded architecture: a vector register.
pub const MOST_ACCESS_BYTES: u32 = 64;

impl Access {
    /// The function that makes it: the instruction without its offset.
    #[must_use]
    pub fn function(&self) -> &str {
        self.pc.split('+').next().unwrap_or(&self.pc)
    }
}

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A function is entered.
    Call {
        /// CPU.
        cpu: u32,
        /// Inside PSI.
        psi: bool,
        /// Function.
        name: String,
    },
    /// An access.
    Access(Access),
}

impl Event {
    /// CPU that it happens on.
    #[must_use]
    pub fn cpu(&self) -> u32 {
        match self {
            Event::Call { cpu, .. } => *cpu,
            Event::Access(access) => access.cpu,
        }
    }
}

/// What the third column says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Column {
    /// Inside PSI or not.
    #[default]
    Psi,
    /// Number of the recorded path.
    In,
}

/// An object that the header names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// As labels spell it.
    pub name: String,
    /// C name of its struct.
    pub structure: String,
    /// Virtual address.
    pub vaddr: u64,
}

/// A whole file.
#[derive(Clone, Debug, Default)]
pub struct Stream {
    /// Object addresses from the header of a stream of PSI.
    pub placement: RecordedPlacement,
    /// Other objects that the header names.
    pub objects: Vec<Object>,
    /// What the third column says.
    pub column: Column,
    /// Lines of the file.
    pub lines: usize,
    /// In order.
    pub events: Vec<Event>,
}

impl Stream {
    /// All accesses, in order.
    pub fn accesses(&self) -> impl Iterator<Item = &Access> {
        self.events.iter().filter_map(|event| match event {
            Event::Access(access) => Some(access),
            Event::Call { .. } => None,
        })
    }

    /// CPUs that make accesses, rising.
    #[must_use]
    pub fn cpus(&self) -> Vec<u32> {
        let mut cpus: Vec<u32> = self.accesses().map(|access| access.cpu).collect();
        cpus.sort_unstable();
        cpus.dedup();
        cpus
    }
}
