//! The formats, by name and by what a trace begins with.

use std::fmt;

use super::{din, lackey};

/// How a trace is written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// valgrind --tool=lackey --trace-mem=yes
    Lackey,
    /// Dinero: `label address [size]` in hexadecimal
    Din,
    /// little-endian 64-bit addresses
    RawU64,
}

impl Format {
    /// As `--format` takes it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Format::Lackey => "lackey",
            Format::Din => "din",
            Format::RawU64 => "raw-u64",
        }
    }

    /// What one record looks like, for messages.
    #[must_use]
    pub fn accepted(self) -> &'static str {
        match self {
            Format::Lackey => lackey::ACCEPTED,
            Format::Din => din::ACCEPTED,
            Format::RawU64 => "8 bytes per address, little-endian",
        }
    }

    /// The format that the name of a file claims: it ends in `.lackey`, `.din`, `.u64` or `.raw`,
    /// or in one of these and `.gz`.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Format> {
        let name = name.strip_suffix(".gz").unwrap_or(name);
        let (_, extension) = name.rsplit_once('.')?;
        match extension {
            "lackey" => Some(Format::Lackey),
            "din" => Some(Format::Din),
            "u64" | "raw" => Some(Format::RawU64),
            _ => None,
        }
    }

    /// The format of a trace that begins with `head`: by the first line that is a record, or
    /// `raw-u64` if `head` is no text. Addresses hold bytes that text does not: the upper ones of a
    /// user's address are 0, of a kernel's 0xff.
    #[must_use]
    pub fn of_content(head: &[u8]) -> Option<Format> {
        let text = |byte: &u8| byte.is_ascii_graphic() || b" \t\r\n".contains(byte);
        if !head.iter().all(text) {
            return Some(Format::RawU64);
        }
        let first = head
            .split(|&byte| byte == b'\n')
            .find(|line| !lackey::is_comment(line))?;
        if first.is_empty() {
            // An empty line, or valgrind's comments and nothing else so far.
            return lackey::is_comment(head).then_some(Format::Lackey);
        }
        // The last line of `head` may be cut: its begin decides.
        match first {
            [b'I', b' ', ..] | [b' ', b'L' | b'S' | b'M', b' ', ..] => Some(Format::Lackey),
            [b'0'..=b'2' | b'r' | b'w' | b'i', b' ' | b'\t', ..] => Some(Format::Din),
            _ => None,
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_beginnings_tell_the_format() {
        for (name, format) in [
            ("a.lackey", Some(Format::Lackey)),
            ("a.din.gz", Some(Format::Din)),
            ("b/a.u64", Some(Format::RawU64)),
            ("a.raw.gz", Some(Format::RawU64)),
            ("a.gz", None),
            ("din", None),
            ("-", None),
        ] {
            assert_eq!(Format::of_name(name), format, "{name}");
        }
        for (head, format) in [
            (
                &b"==1== Lackey\n==1== \nI  04,3\n"[..],
                Some(Format::Lackey),
            ),
            (b"==1== Lackey\n", Some(Format::Lackey)),
            (b" S 1fff000768,8\n", Some(Format::Lackey)),
            (b"0 1000\n", Some(Format::Din)),
            (b"w 0x1000 8\r\n", Some(Format::Din)),
            (b"\x40\x10\x60\x00\x00\x00\x00\x00", Some(Format::RawU64)),
            (b"Hello\n", None),
            (b"3 1000\n", None),
            (b"", None),
        ] {
            let shown = head.escape_ascii();
            assert_eq!(Format::of_content(head), format, "{shown}");
        }
    }
}
