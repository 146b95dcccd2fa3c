//! What can be wrong with a trace: one sentence each, with the place.

use std::fmt;
use std::io;

/// Where in a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A line of text, from 1 on.
    Line(u64),
    /// A byte of the trace (after decompression), from 0 on.
    Byte(u64),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Line(line) => write!(f, "line {line}"),
            Place::Byte(byte) => write!(f, "byte {byte}"),
        }
    }
}

/// Why a trace cannot be read, or not to its end. `file` is the name as given, or `standard input`.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// It cannot be opened.
    #[error("{file}: cannot be opened: {source}; accepted: a trace file, or - for standard input")]
    Open {
        /// Which trace.
        file: String,
        /// What the operating system said.
        source: io::Error,
    },
    /// Reading fails.
    #[error("{file}, {place}: cannot be read: {source}; what comes before was read")]
    Read {
        /// Which trace.
        file: String,
        /// Up to where it was read.
        place: Place,
        /// What the operating system said.
        source: io::Error,
    },
    /// It begins like gzip and is not, or no longer.
    #[error(
        "{file}, {place} of what it decompresses to: no valid gzip: {reason}; accepted: a whole gzip \
         file, or the trace uncompressed"
    )]
    Gzip {
        /// Which trace.
        file: String,
        /// How far it could be decompressed.
        place: Place,
        /// What is wrong.
        reason: String,
    },
    /// There is no byte in it, or no reference.
    #[error("{file}: {what}; accepted: a trace of at least one reference ({accepted})")]
    Empty {
        /// Which trace.
        file: String,
        /// Which of the two.
        what: &'static str,
        /// What a reference looks like.
        accepted: &'static str,
    },
    /// Neither name nor content tell the format.
    #[error(
        "{file}, line 1: {excerpt} is no record of a known format; name the format with --format \
         lackey, din or raw-u64"
    )]
    UnknownFormat {
        /// Which trace.
        file: String,
        /// How it begins.
        excerpt: String,
    },
    /// A line is no record.
    #[error("{file}, {place}: {excerpt} is no {format} record: {what}; accepted: {accepted}")]
    Record {
        /// Which trace.
        file: String,
        /// The line.
        place: Place,
        /// The line's text, shortened.
        excerpt: String,
        /// Name of the format.
        format: &'static str,
        /// What is wrong with it.
        what: &'static str,
        /// What a record looks like.
        accepted: &'static str,
    },
    /// It ends in the middle of a record.
    #[error(
        "{file}: is cut in the middle of a record, {place}: {what}; what comes before is whole"
    )]
    Cut {
        /// Which trace.
        file: String,
        /// Where the record begins that is cut.
        place: Place,
        /// What is there and what is missing.
        what: String,
    },
    /// A reference of no bytes, or of more than a page.
    #[error("{file}, {place}: a size of {bytes} bytes; accepted: 1 to 4096")]
    Size {
        /// Which trace.
        file: String,
        /// Where.
        place: Place,
        /// The size.
        bytes: u64,
    },
    /// A reference that ends beyond the last address.
    #[error(
        "{file}, {place}: {bytes} bytes from {addr:#x} on end beyond the last address, 2^64 - 1; \
         accepted: references that end there or before"
    )]
    Beyond {
        /// Which trace.
        file: String,
        /// Where.
        place: Place,
        /// First byte.
        addr: u64,
        /// Size.
        bytes: u64,
    },
}

impl TraceError {
    /// One word for the kind of error: `open`, `read`, `gzip`, `empty`, `unknown-format`, `record`,
    /// `cut`, `size` or `beyond`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            TraceError::Open { .. } => "open",
            TraceError::Read { .. } => "read",
            TraceError::Gzip { .. } => "gzip",
            TraceError::Empty { .. } => "empty",
            TraceError::UnknownFormat { .. } => "unknown-format",
            TraceError::Record { .. } => "record",
            TraceError::Cut { .. } => "cut",
            TraceError::Size { .. } => "size",
            TraceError::Beyond { .. } => "beyond",
        }
    }
}

/// At most 32 bytes of `line`, quoted, with everything unprintable escaped: traces may hold any
/// byte, terminals may not be shown them.
pub(super) fn excerpt(line: &[u8]) -> String {
    const MOST: usize = 32;
    let cut = &line[..line.len().min(MOST)];
    let dots = if line.len() > MOST { "..." } else { "" };
    format!("\"{}{dots}\"", cut.escape_ascii())
}
