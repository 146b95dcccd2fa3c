//! Recorded access streams of Linux: a text format, one access per line, read into structs.
//!
//! `#` lines are the header (addresses of objects), `CALL name` lines mark function entries, all
//! others are one access: `n cpu psi pc RW size vaddr paddr value label`. A label `-` is a place
//! that the recording could not name.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use kernels::psi::RecordedPlacement;

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
    /// Inside `psi_task_change` or `psi_task_switch`.
    pub psi: bool,
    /// Function and offset of the instruction.
    pub pc: String,
    /// Store, or load.
    pub write: bool,
    /// Width.
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

/// A whole file.
#[derive(Clone, Debug, Default)]
pub struct Stream {
    /// Object addresses from the header.
    pub placement: RecordedPlacement,
    /// In order.
    pub events: Vec<Event>,
}

impl Stream {
    /// Read `file`; a name that ends in `.gz` is decompressed.
    ///
    /// # Errors
    /// [`StreamError`] names the file, the line and what would be accepted.
    pub fn read(file: &Path) -> Result<Stream, StreamError> {
        let fail = |source| StreamError::Read {
            file: file.to_path_buf(),
            source,
        };
        let mut bytes = Vec::new();
        let opened = File::open(file).map_err(fail)?;
        if file.extension().is_some_and(|e| e == "gz") {
            flate2::read::MultiGzDecoder::new(opened)
                .take(MOST_BYTES)
                .read_to_end(&mut bytes)
                .map_err(fail)?;
        } else {
            opened
                .take(MOST_BYTES)
                .read_to_end(&mut bytes)
                .map_err(fail)?;
        }
        let text = String::from_utf8_lossy(&bytes);
        Stream::parse(&text).map_err(|(line, what)| StreamError::Line {
            file: file.to_path_buf(),
            line,
            what,
        })
    }

    /// Parse the text of a stream; an error is a 1-based line and what is wrong with it.
    ///
    /// # Errors
    /// The first line that is neither header, call, mark nor access.
    pub fn parse(text: &str) -> Result<Stream, (usize, String)> {
        let mut stream = Stream::default();
        for (i, line) in text.lines().enumerate() {
            let wrong = |what: &str| (i + 1, what.to_string());
            if let Some(header) = line.strip_prefix('#') {
                read_header(header, &mut stream.placement).map_err(|what| wrong(&what))?;
            } else if !line.trim().is_empty()
                && let Some(event) = read_event(line).map_err(|what| wrong(&what))?
            {
                stream.events.push(event);
            }
        }
        Ok(stream)
    }
}

/// No recorded round trip comes near this; a file that does is not one.
const MOST_BYTES: u64 = 1 << 30;

fn hex(word: &str) -> Result<u64, String> {
    let digits = word
        .strip_prefix("0x")
        .ok_or_else(|| format!("\"{word}\" is no address; 0x… would be"))?;
    u64::from_str_radix(digits, 16).map_err(|_| format!("\"{word}\" is no 64-bit address"))
}

fn read_header(header: &str, placement: &mut RecordedPlacement) -> Result<(), String> {
    let mut words = header.split_whitespace();
    let list = match words.next() {
        Some("cgroups") => &mut placement.cgroups,
        Some("psi_groups") => &mut placement.groups,
        Some("pcpu") => &mut placement.cookies,
        Some("tasks") => &mut placement.tasks,
        Some("percpu") => {
            // percpu offsets {0: '0x…', 1: '0x…'}
            for word in words.filter(|w| w.contains("0x")) {
                let word = word.trim_matches(|c: char| !c.is_ascii_hexdigit() && c != 'x');
                placement.per_cpu_offsets.push(hex(word)?);
            }
            return Ok(());
        }
        _ => return Ok(()),
    };
    for word in words {
        list.push(hex(word)?);
    }
    Ok(())
}

fn read_event(line: &str) -> Result<Option<Event>, String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let number = |i: usize, what: &str| -> Result<u32, String> {
        let word = words.get(i).ok_or_else(|| format!("no {what}"))?;
        word.parse()
            .map_err(|_| format!("{what} \"{word}\" is no number"))
    };
    let (cpu, psi) = match words.get(3) {
        Some(&"MARK") => return Ok(None),
        Some(_) => (number(1, "cpu")?, number(2, "psi column")? == 1),
        None => return Err("fewer than four columns".into()),
    };
    if words[3] == "CALL" {
        let name = words.get(4).ok_or("CALL without a name")?;
        return Ok(Some(Event::Call {
            cpu,
            psi,
            name: (*name).to_string(),
        }));
    }
    if words.len() < 9 {
        return Err(format!("{} columns; an access has 9 or 10", words.len()));
    }
    let write = match words[4] {
        "R" => false,
        "W" => true,
        other => return Err(format!("\"{other}\" is neither R nor W")),
    };
    Ok(Some(Event::Access(Access {
        cpu,
        psi,
        pc: words[3].to_string(),
        write,
        bytes: number(5, "size")?,
        vaddr: hex(words[6])?,
        paddr: hex(words[7])?,
        value: hex(words[8]).ok(),
        label: words
            .get(9)
            .filter(|l| **l != "-")
            .map(|l| (*l).to_string()),
    })))
}
