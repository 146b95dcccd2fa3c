//! `raw-u64`: addresses as little-endian 64-bit words.
//!
//! There is nothing but addresses in it, so each is taken as a load of one byte: it says which
//! line is used, and never crosses one. `write` makes such a trace of any other.

use std::io::{self, Write};

use super::input::Input;
use super::{Kind, Place, Reference, TraceError};

/// Bytes of one address.
const BYTES: usize = 8;

/// An open trace.
pub(super) struct Raw {
    pub input: Input,
    buffer: Vec<u8>,
    /// Bytes decoded so far.
    offset: u64,
}

impl Raw {
    /// Blocks of `references`.
    pub(super) fn new(input: Input, references: usize) -> Raw {
        Raw {
            input,
            buffer: vec![0; references * BYTES],
            offset: 0,
        }
    }

    /// Append the references of one block; whether it was a full one, and what is wrong after it.
    pub(super) fn read(&mut self, into: &mut Vec<Reference>) -> (bool, Option<TraceError>) {
        let (count, error) = self.input.fill(&mut self.buffer);
        let (words, rest) = self.buffer[..count].as_chunks::<BYTES>();
        into.extend(words.iter().map(|word| Reference {
            kind: Kind::Load,
            bytes: 1,
            addr: u64::from_le_bytes(*word),
            site: 0,
        }));
        let begin = self.offset + (count - rest.len()) as u64;
        self.offset += count as u64;
        if let Some(error) = error {
            return (
                false,
                Some(self.input.error(error, Place::Byte(self.offset))),
            );
        }
        let cut = (!rest.is_empty()).then(|| TraceError::Cut {
            file: self.input.name.clone(),
            place: Place::Byte(begin),
            what: format!("{} of the 8 bytes of an address are there", rest.len()),
        });
        (count == self.buffer.len(), cut)
    }
}

/// Write the addresses of `references`, one word for each.
///
/// # Errors
/// Those of `out`.
pub fn write(references: &[Reference], out: &mut dyn Write) -> io::Result<()> {
    let words: Vec<u8> = references
        .iter()
        .flat_map(|reference| reference.addr.to_le_bytes())
        .collect();
    out.write_all(&words)
}
