//! `lackey`: text of valgrind's tool of that name.
//!
//! `I  addr,size` fetches an instruction; ` L addr,size` loads, ` S addr,size` stores and
//! ` M addr,size` does both, by the instruction before them. Addresses are hexadecimal, sizes
//! decimal. Lines that begin with `==`, `--` or `**` are valgrind's own and skipped. Anything else
//! is an error: if lackey writes to the terminal, what the program prints gets between its lines,
//! or into them, so it should write to a file (`--log-file`).

use super::reader::Wrong;
use super::{Kind, Reference};

/// What is accepted, for messages.
pub(super) const ACCEPTED: &str = "\"I  addr,size\", \" L addr,size\", \" S addr,size\" or \" M addr,size\", and lines that begin \
     with == or -- (valgrind's --log-file keeps what the program prints apart)";

/// Whether valgrind says `line` of itself.
pub(super) fn is_comment(line: &[u8]) -> bool {
    matches!(line, [b'=', b'=', ..] | [b'-', b'-', ..] | [b'*', b'*', ..])
}

/// The reference of `line`; `None` for a comment. `site` is the last instruction fetched.
#[inline]
pub(super) fn parse(line: &[u8], site: &mut u64) -> Result<Option<Reference>, Wrong> {
    let (kind, rest) = match line {
        [b'I', b' ', b' ', rest @ ..] => (Kind::Fetch, rest),
        [b' ', b'L', b' ', rest @ ..] => (Kind::Load, rest),
        [b' ', b'S', b' ', rest @ ..] => (Kind::Store, rest),
        [b' ', b'M', b' ', rest @ ..] => (Kind::Modify, rest),
        _ if is_comment(line) => return Ok(None),
        _ => return Err(Wrong::Record("it begins like none")),
    };
    let Some(comma) = rest.iter().position(|&byte| byte == b',') else {
        return Err(Wrong::Record("there is no comma"));
    };
    let addr = hex(&rest[..comma]).ok_or(Wrong::Record("the address is no 64-bit number"))?;
    let bytes = decimal(&rest[comma + 1..]).ok_or(Wrong::Record("the size is no number"))?;
    if kind == Kind::Fetch {
        *site = addr;
    }
    Wrong::check(kind, addr, bytes, *site).map(Some)
}

/// A hexadecimal number of 64 bits, of either case.
#[inline]
pub(super) fn hex(digits: &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for &byte in digits {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            b'A'..=b'F' => byte - b'A' + 10,
            _ => return None,
        };
        if value >> 60 != 0 {
            return None;
        }
        value = value << 4 | u64::from(digit);
    }
    (!digits.is_empty()).then_some(value)
}

/// A decimal number of 64 bits.
#[inline]
fn decimal(digits: &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for &byte in digits {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        value = value.checked_mul(10)?.checked_add(digit)?;
    }
    (!digits.is_empty()).then_some(value)
}
