//! `din`: the text of the cache simulator Dinero (Edler and Hill), in both of its forms.
//!
//! - Traditional (Dinero III; `-informat d` of Dinero IV): `label address`. Labels 0 read, 1 write,
//!   2 instruction fetch; addresses are hexadecimal, with or without `0x`. Dinero takes 4 bytes at
//!   the address rounded down to a multiple of 4, and the rest of the line as a comment.
//! - Extended (`-informat D`): `label address size` with labels r, w and i; the size is hexadecimal
//!   and must be there; the rest is a comment.
//!
//! In a traditional record a third word that begins with a decimal digit is taken as the size, as
//! in an extended one, and then the address as it is: so `write` keeps sizes and crossings in a
//! form that Dinero still reads. Labels that are no reference (3 to 5; m, c and v: miscellaneous,
//! copy back, invalidate) are refused.

use std::io::{self, Write};

use super::lackey::hex;
use super::reader::Wrong;
use super::{Kind, Reference};

/// What is accepted, for messages.
pub(super) const ACCEPTED: &str = "\"label address [size]\" in hexadecimal, the label being 0 or r (read), 1 or w (write), 2 or i \
     (instruction fetch)";

/// Size of a traditional record, in bytes.
const WORD_BYTES: u64 = 4;

/// The reference of `line`.
#[inline]
pub(super) fn parse(line: &[u8]) -> Result<Reference, Wrong> {
    let mut words = line
        .split(|&byte| byte == b' ' || byte == b'\t')
        .filter(|word| !word.is_empty());
    let label = words.next().ok_or(Wrong::Record("it is empty"))?;
    let (kind, extended) = match label {
        b"0" => (Kind::Load, false),
        b"1" => (Kind::Store, false),
        b"2" => (Kind::Fetch, false),
        b"r" => (Kind::Load, true),
        b"w" => (Kind::Store, true),
        b"i" => (Kind::Fetch, true),
        _ => return Err(Wrong::Record("the label is unknown")),
    };
    let addr = words
        .next()
        .ok_or(Wrong::Record("the address is missing"))?;
    let addr = number(addr).ok_or(Wrong::Record("the address is no 64-bit number"))?;
    let third = words.next();
    let size = if extended {
        Some(third.ok_or(Wrong::Record("the size is missing"))?)
    } else {
        third.filter(|word| word[0].is_ascii_digit())
    };
    let Some(size) = size else {
        return Wrong::check(kind, addr & !(WORD_BYTES - 1), WORD_BYTES, 0);
    };
    let bytes = number(size).ok_or(Wrong::Record("the size is no number"))?;
    Wrong::check(kind, addr, bytes, 0)
}

fn number(word: &[u8]) -> Option<u64> {
    let digits = word
        .strip_prefix(b"0x")
        .or_else(|| word.strip_prefix(b"0X"));
    hex(digits.unwrap_or(word))
}

/// Write `references` as traditional records with the size as third word, which begins with a
/// decimal digit. A modify is a read and a write; sites are lost.
///
/// # Errors
/// Those of `out`.
pub fn write(references: &[Reference], out: &mut dyn Write) -> io::Result<()> {
    for reference in references {
        let labels: &[u8] = match reference.kind {
            Kind::Load => &[0],
            Kind::Store => &[1],
            Kind::Modify => &[0, 1],
            Kind::Fetch => &[2],
        };
        for label in labels {
            let Reference { addr, bytes, .. } = reference;
            let zero = match format!("{bytes:x}").as_bytes() {
                [b'a'..=b'f', ..] => "0",
                _ => "",
            };
            writeln!(out, "{label} {addr:x} {zero}{bytes:x}")?;
        }
    }
    Ok(())
}
