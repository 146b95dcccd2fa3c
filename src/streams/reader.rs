//! Text to [`Stream`]: every line that makes no sense is refused with its number.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use super::{Access, Column, Event, MOST_ACCESS_BYTES, Object, Stream, StreamError};

/// No recorded round trip comes near this; a file that does is not one.
const MOST_BYTES: u64 = 1 << 30;

/// gzip's magic number and its only method, deflate.
const GZIP: [u8; 3] = [0x1f, 0x8b, 8];

/// Standard input.
const STDIN: &str = "-";

impl Stream {
    /// Read `file`, plain or compressed by gzip; `-` is standard input. A header without any access
    /// is read as well: it is a placement.
    ///
    /// # Errors
    /// [`StreamError`] names the file, the line and what would be accepted.
    pub fn read(file: &Path) -> Result<Stream, StreamError> {
        let wrong = |(line, what)| StreamError::Line {
            file: file.to_path_buf(),
            line,
            what,
        };
        let fail = |source| StreamError::Read {
            file: file.to_path_buf(),
            source,
        };
        let mut stored = Vec::new();
        let read: Box<dyn Read> = if file == Path::new(STDIN) {
            Box::new(io::stdin())
        } else {
            Box::new(File::open(file).map_err(fail)?)
        };
        read.take(MOST_BYTES)
            .read_to_end(&mut stored)
            .map_err(fail)?;
        Stream::decode(&stored).map_err(wrong)
    }

    /// Decode the bytes of a file.
    ///
    /// # Errors
    /// A 1-based line and what is wrong with it: as [`parse`](Stream::parse), or where gzip breaks
    /// off.
    pub fn decode(stored: &[u8]) -> Result<Stream, (usize, String)> {
        if !stored.starts_with(&GZIP) {
            return Stream::parse(&String::from_utf8_lossy(stored));
        }
        let mut text = Vec::new();
        let read = flate2::bufread::MultiGzDecoder::new(BufReader::new(stored))
            .take(MOST_BYTES)
            .read_to_end(&mut text);
        match read {
            Ok(_) => Stream::parse(&String::from_utf8_lossy(&text)),
            // What was decompressed before may be wrong itself, and earlier.
            Err(error) => {
                let whole = text
                    .iter()
                    .rposition(|b| *b == b'\n')
                    .map_or(0, |at| at + 1);
                let lines = String::from_utf8_lossy(&text[..whole]);
                Stream::parse(&lines)?;
                let what = format!(
                    "gzip breaks off here ({error}); accepted: a whole gzip file, or the text uncompressed"
                );
                Err((lines.lines().count() + 1, what))
            }
        }
    }

    /// Parse the text of a stream; an error is a 1-based line and what is wrong with it.
    ///
    /// # Errors
    /// The first line that is neither header, call, mark nor access.
    pub fn parse(text: &str) -> Result<Stream, (usize, String)> {
        let mut stream = Stream::default();
        for (i, line) in text.split_inclusive('\n').enumerate() {
            stream.lines = i + 1;
            let ended = line.ends_with('\n');
            let line = line.trim_end_matches(['\n', '\r']);
            let wrong = |what: String| {
                // The rest may have made sense of it.
                let cut = if ended {
                    ""
                } else {
                    "; the file ends within this line"
                };
                (i + 1, format!("{what}{cut}"))
            };
            if let Some(header) = line.strip_prefix('#') {
                read_header(header, &mut stream).map_err(wrong)?;
            } else if !line.trim().is_empty()
                && let Some(event) = read_event(line, stream.column).map_err(wrong)?
            {
                stream.events.push(event);
            }
        }
        Ok(stream)
    }
}

/// Whether the file called `name` begins as a recorded stream does. Standard input cannot be looked
/// at without being read: `false`.
#[must_use]
pub fn looks_like_a_stream(name: &str) -> bool {
    let Ok(file) = File::open(name) else {
        return false;
    };
    let head_of = |read: &mut dyn Read| {
        let mut head = Vec::new();
        let _ = read.take(16).read_to_end(&mut head);
        head
    };
    let mut file = BufReader::new(file);
    let mut head = head_of(&mut file);
    if head.starts_with(&GZIP) {
        let again = head.as_slice().chain(file);
        head = head_of(&mut flate2::read::MultiGzDecoder::new(again));
    }
    head.starts_with(b"# trace ") || head.starts_with(b"# kernel key ")
}

/// `word`, quoted, at most 32 characters of it, nothing unprintable: files may hold any byte.
pub(super) fn quoted(word: &str) -> String {
    const MOST: usize = 32;
    let cut: String = word.chars().take(MOST).collect();
    let dots = if cut.len() < word.len() { "..." } else { "" };
    format!("\"{}{dots}\"", cut.escape_debug())
}

fn hex(word: &str) -> Result<u64, String> {
    let digits = word.strip_prefix("0x").ok_or_else(|| {
        format!(
            "{} is no address; accepted: 0x and hexadecimal digits",
            quoted(word)
        )
    })?;
    u64::from_str_radix(digits, 16).map_err(|_| {
        format!(
            "{} is no 64-bit number; accepted: 0x and 1 to 16 hexadecimal digits",
            quoted(word)
        )
    })
}

fn read_header(header: &str, stream: &mut Stream) -> Result<(), String> {
    let mut words = header.split_whitespace();
    let first = words.next().unwrap_or_default();
    let placement = &mut stream.placement;
    let list = match first {
        "cgroups" | "memcgs" if header.contains('=') => {
            let structure = if first == "cgroups" {
                "cgroup"
            } else {
                "mem_cgroup"
            };
            return named(words, structure, &mut stream.objects);
        }
        "cgroups" => &mut placement.cgroups,
        "psi_groups" => &mut placement.groups,
        "pcpu" => &mut placement.cookies,
        "tasks" => &mut placement.tasks,
        "percpu" => {
            // percpu offsets {0: '0x…', 1: '0x…'}
            for word in words.filter(|w| w.contains("0x")) {
                let word = word.trim_matches(|c: char| !c.is_ascii_hexdigit() && c != 'x');
                placement.per_cpu_offsets.push(hex(word)?);
            }
            return Ok(());
        }
        "n" => {
            let rest: Vec<&str> = words.take(2).collect();
            stream.column = match rest[..] {
                ["cpu", "in"] => Column::In,
                _ => Column::Psi,
            };
            return Ok(());
        }
        _ => {
            // task0 task_struct 0x…
            if let [Some(structure), Some(address), None] =
                [words.next(), words.next(), words.next()]
                && address.starts_with("0x")
            {
                stream.objects.push(Object {
                    name: first.to_string(),
                    structure: structure.to_string(),
                    vaddr: hex(address)?,
                });
            }
            return Ok(());
        }
    };
    for word in words {
        list.push(hex(word)?);
    }
    Ok(())
}

/// `P=0x… c0=0x…`
fn named<'a>(
    words: impl Iterator<Item = &'a str>,
    structure: &str,
    objects: &mut Vec<Object>,
) -> Result<(), String> {
    for word in words {
        let (name, address) = word
            .split_once('=')
            .ok_or_else(|| format!("{} names no object; accepted: NAME=0x…", quoted(word)))?;
        objects.push(Object {
            name: name.to_string(),
            structure: structure.to_string(),
            vaddr: hex(address)?,
        });
    }
    Ok(())
}

fn read_event(line: &str, column: Column) -> Result<Option<Event>, String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let number = |i: usize, what: &str, low: u32, high: u32| -> Result<u32, String> {
        let word = words.get(i).copied().unwrap_or_default();
        let parsed = word.parse().ok().filter(|n| (low..=high).contains(n));
        parsed.ok_or_else(|| {
            format!(
                "{what} is {}; accepted: a number from {low} to {high}",
                quoted(word)
            )
        })
    };
    let name = words.get(3).copied().unwrap_or_default();
    if name == "MARK" {
        return Ok(None);
    }
    if words.len() < 4 {
        return Err(format!(
            "{} columns; accepted: n cpu psi pc RW size vaddr paddr value label, or n cpu psi CALL name",
            words.len()
        ));
    }
    let cpu = number(1, "cpu", 0, 65_535)?;
    let path = match column {
        Column::Psi => number(2, "psi", 0, 1)?,
        Column::In => number(2, "in", 0, 255)?,
    } as u8;
    if name == "CALL" {
        let name = words
            .get(4)
            .ok_or("CALL without a name; accepted: CALL and a function")?;
        return Ok(Some(Event::Call {
            cpu,
            psi: path == 1,
            name: (*name).to_string(),
        }));
    }
    if words.len() < 9 {
        return Err(format!(
            "{} columns; accepted: the 10 of an access, n cpu psi pc RW size vaddr paddr value label (of \
             which the label may be missing)",
            words.len()
        ));
    }
    let write = match words[4] {
        "R" => false,
        "W" => true,
        other => return Err(format!("{} is neither R nor W", quoted(other))),
    };
    let bytes = number(5, "size", 1, MOST_ACCESS_BYTES)?;
    let address = |i: usize| -> Result<u64, String> {
        let address = hex(words[i])?;
        match address.checked_add(u64::from(bytes) - 1) {
            Some(_) => Ok(address),
            None => Err(format!(
                "{bytes} bytes from {address:#x} on end beyond the last address, 2^64 - 1"
            )),
        }
    };
    Ok(Some(Event::Access(Access {
        cpu,
        path,
        psi: path == 1,
        pc: name.to_string(),
        write,
        bytes,
        vaddr: address(6)?,
        paddr: address(7)?,
        value: match words[8] {
            "-" => None,
            word => Some(hex(word)?),
        },
        label: words
            .get(9)
            .filter(|l| **l != "-")
            .map(|l| (*l).to_string()),
    })))
}
