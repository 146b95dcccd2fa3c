//! What if an object or a field lay elsewhere, or a field more were read? Edits of a recorded stream.
//!
//! | edit | what it does |
//! |---|---|
//! | `align:OBJECT:BYTES` | each object begins at the next multiple of BYTES |
//! | `stride:OBJECT:BYTES` | objects lie BYTES apart, from the first of them on, in address order |
//! | `move:STRUCT.FIELD:OFFSET` | the field lies at OFFSET in every object of the struct |
//! | `add:STRUCT.FIELD@OFFSET` | a visit of an object of the struct reads 8 bytes more, at OFFSET |
//!
//! OBJECT is one object (`G[4]`), or a struct (`psi_group`) and means all its objects. In a stream of
//! PSI a visit of the `cgroup` of a level is the step on from its group, the load of
//! `psi_group.parent`: there the proposed patch reads `cgroup.self.parent` and `cgroup.psi` instead.
//! `psi_system` has no cgroup in the recording, so nothing is read there. Any other visit is a run of
//! accesses of one CPU to one object, with none to another object of its struct in between.
//!
//! Moved objects get physical memory that nothing else lies in, at the same distance from a page's
//! begin as their new address; what the recording could not name stays. Only places change: order,
//! sizes and values of the other accesses are as recorded.

mod apply;

use std::fmt;
use std::path::Path;

use super::reader::quoted;

pub use apply::apply;

/// What cannot be edited, and what could be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}{edit}: {what}")]
pub struct EditError {
    /// File and line, or nothing.
    pub place: String,
    /// The edit as given.
    pub edit: String,
    /// What is wrong with it and what would be accepted.
    pub what: String,
}

/// What an edit does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Each object begins at the next multiple of `bytes`, a power of two.
    Align {
        /// Object or struct.
        object: String,
        /// Alignment.
        bytes: u64,
    },
    /// Objects lie `bytes` apart.
    Stride {
        /// Object or struct.
        object: String,
        /// Distance.
        bytes: u64,
    },
    /// The field lies at `offset`.
    Move {
        /// Struct.
        structure: String,
        /// Field, all of it or `FIELD+N`.
        field: String,
        /// New offset in the object, in bytes.
        offset: u32,
    },
    /// 8 bytes more are read per visit.
    Add {
        /// Struct.
        structure: String,
        /// What the read is booked under.
        field: String,
        /// Offset in the object, in bytes.
        offset: u32,
    },
}

/// One edit, and where it was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// What it does.
    pub change: Change,
    text: String,
    place: String,
}

impl fmt::Display for Edit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// What is accepted, for messages.
const ACCEPTED: &str = "align:OBJECT:BYTES, stride:OBJECT:BYTES, move:STRUCT.FIELD:OFFSET or \
                        add:STRUCT.FIELD@OFFSET";
/// Words that an edit begins with.
const VERBS: [&str; 4] = ["align:", "stride:", "move:", "add:"];
/// Alignments, distances and offsets are at most this, in bytes.
const MOST: u64 = 1 << 20;

impl Edit {
    /// Whether `text` is an edit rather than the name of a file of edits.
    #[must_use]
    pub fn is_one(text: &str) -> bool {
        VERBS.iter().any(|verb| text.starts_with(verb))
    }

    /// The edit that `text` describes; `place` comes first in messages.
    ///
    /// # Errors
    /// If it is none.
    pub fn parse(text: &str, place: &str) -> Result<Edit, EditError> {
        let wrong = |what: String| EditError {
            place: place.into(),
            edit: quoted(text),
            what,
        };
        let parts = text.split_once(':');
        let (verb, rest) =
            parts.ok_or_else(|| wrong(format!("is no edit; accepted: {ACCEPTED}")))?;
        let split = match verb {
            "align" | "stride" | "move" => rest.rsplit_once(':'),
            "add" => rest.rsplit_once('@'),
            _ => {
                return Err(wrong(format!(
                    "\"{verb}\" is no edit; accepted: {ACCEPTED}"
                )));
            }
        };
        let (subject, number) =
            split.ok_or_else(|| wrong(format!("a part is missing; accepted: {ACCEPTED}")))?;
        let digits = number.strip_prefix("0x");
        let parsed = match digits {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => number.parse().ok(),
        };
        let of_bytes = |low: u64| {
            let value = parsed.filter(|n| (low..=MOST).contains(n));
            value.ok_or_else(|| {
                wrong(format!(
                    "{} is no number of bytes; accepted: {low} to {MOST}",
                    quoted(number)
                ))
            })
        };
        let field_of = || {
            let parts = subject.split_once('.');
            let parts = parts.filter(|(s, f)| !s.is_empty() && !f.is_empty());
            let (structure, field) =
                parts.ok_or_else(|| wrong(format!("no STRUCT.FIELD; accepted: {ACCEPTED}")))?;
            Ok((structure.to_string(), field.to_string()))
        };
        let change = match verb {
            "align" => {
                let bytes = of_bytes(1)?;
                if !bytes.is_power_of_two() {
                    return Err(wrong(format!(
                        "{bytes} is no alignment; accepted: a power of two up to {MOST}"
                    )));
                }
                let object = subject.to_string();
                Change::Align { object, bytes }
            }
            "stride" => Change::Stride {
                object: subject.to_string(),
                bytes: of_bytes(1)?,
            },
            verb => {
                let (structure, field) = field_of()?;
                let offset = of_bytes(0)? as u32;
                match verb {
                    "move" => Change::Move {
                        structure,
                        field,
                        offset,
                    },
                    _ => Change::Add {
                        structure,
                        field,
                        offset,
                    },
                }
            }
        };
        Ok(Edit {
            change,
            text: text.into(),
            place: place.into(),
        })
    }

    /// The edits in `text`, the content of `file`: one on a line; `#` begins a comment.
    ///
    /// # Errors
    /// The first line that is no edit.
    pub fn parse_all(file: &Path, text: &str) -> Result<Vec<Edit>, EditError> {
        let mut edits = Vec::new();
        for (i, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if !line.is_empty() {
                let place = format!("{}, line {}: ", file.display(), i + 1);
                edits.push(Edit::parse(line, &place)?);
            }
        }
        if edits.is_empty() {
            return Err(EditError {
                place: String::new(),
                edit: file.display().to_string(),
                what: format!("holds no edit; accepted: one on a line, {ACCEPTED}"),
            });
        }
        Ok(edits)
    }

    fn wrong(&self, what: String) -> EditError {
        EditError {
            place: self.place.clone(),
            edit: self.text.clone(),
            what,
        }
    }
}
