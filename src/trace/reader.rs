//! A trace of any format, block by block.

use super::error::excerpt;
use super::input::Input;
use super::lines::Lines;
use super::raw::Raw;
use super::{Format, Kind, MOST_BYTES, Place, Reference, Source, TraceError, din, lackey};

/// References of one block: large enough that what is done once per block does not matter, and
/// small enough for an L2.
pub const BLOCK_REFERENCES: usize = 64 << 10;

/// What is wrong with one line; the place is the reader's business.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    /// It is no record.
    Record(&'static str),
    /// Too few or too many bytes.
    Size(u64),
    /// Address and size: beyond the last address.
    Beyond(u64, u64),
}

impl Wrong {
    /// The reference, if there can be one.
    #[inline]
    pub(super) fn check(kind: Kind, addr: u64, bytes: u64, site: u64) -> Result<Reference, Wrong> {
        if bytes == 0 || bytes > u64::from(MOST_BYTES) {
            return Err(Wrong::Size(bytes));
        }
        if addr.checked_add(bytes - 1).is_none() {
            return Err(Wrong::Beyond(addr, bytes));
        }
        Ok(Reference {
            kind,
            bytes: bytes as u32,
            addr,
            site,
        })
    }

    fn at(self, at: At, file: String, format: Format) -> TraceError {
        let place = Place::Line(at.line);
        match self {
            // The rest may have made a record of it.
            Wrong::Record(what) if at.cut => TraceError::Cut {
                file,
                place: Place::Byte(at.offset),
                what: format!(
                    "the last line, {}, holds {} and no newline ({what})",
                    at.line, at.excerpt
                ),
            },
            Wrong::Record(what) => TraceError::Record {
                file,
                place,
                excerpt: at.excerpt,
                format: format.name(),
                what,
                accepted: format.accepted(),
            },
            Wrong::Size(bytes) => TraceError::Size { file, place, bytes },
            Wrong::Beyond(addr, bytes) => TraceError::Beyond {
                file,
                place,
                addr,
                bytes,
            },
        }
    }
}

/// A line that is wrong.
struct At {
    line: u64,
    offset: u64,
    excerpt: String,
    /// The trace ends in it.
    cut: bool,
}

enum Decoder {
    Raw(Raw),
    Din(Lines),
    /// With the address of the last instruction.
    Lackey(Lines, u64),
    /// Under this name, what somebody else has decoded.
    Ready(String, std::vec::IntoIter<Reference>),
}

/// An open trace.
pub struct Trace {
    decoder: Decoder,
    format: Format,
    guess: Option<&'static str>,
    block: usize,
    references: u64,
    unended: bool,
    ended: bool,
    error: Option<TraceError>,
}

impl Trace {
    /// Open `source` as `format`; `None` guesses it from the name, or else from how the trace
    /// begins.
    ///
    /// # Errors
    /// If it cannot be opened, is empty, or its format is asked for and not to be guessed.
    pub fn open(source: Source, format: Option<Format>) -> Result<Trace, TraceError> {
        Trace::in_blocks(source, format, BLOCK_REFERENCES)
    }

    /// [`open`](Trace::open) with blocks of at most `block` references, which is at least 1. What
    /// is read does not depend on it.
    ///
    /// # Errors
    /// As those of [`open`](Trace::open).
    pub fn in_blocks(
        source: Source,
        format: Option<Format>,
        block: usize,
    ) -> Result<Trace, TraceError> {
        let input = Input::open(source)?;
        if input.head.is_empty() {
            return Err(TraceError::Empty {
                file: input.name,
                what: "is empty",
                accepted: format.map_or("of lackey, din or raw-u64", Format::accepted),
            });
        }
        let block = block.max(1);
        let (format, guess) = match format {
            Some(format) => (format, None),
            None => guess(&input)?,
        };
        let decoder = match format {
            Format::Lackey => Decoder::Lackey(Lines::new(input), 0),
            Format::Din => Decoder::Din(Lines::new(input)),
            Format::RawU64 => Decoder::Raw(Raw::new(input, block)),
        };
        Ok(Trace {
            decoder,
            format,
            guess,
            block,
            references: 0,
            unended: false,
            ended: false,
            error: None,
        })
    }

    /// References that somebody else has read from what is called `name`: at least one.
    #[must_use]
    pub fn ready(name: &str, references: Vec<Reference>) -> Trace {
        Trace {
            decoder: Decoder::Ready(name.to_string(), references.into_iter()),
            format: Format::RawU64,
            guess: None,
            block: BLOCK_REFERENCES,
            references: 0,
            unended: false,
            ended: false,
            error: None,
        }
    }

    /// Its name, for messages.
    #[must_use]
    pub fn name(&self) -> &str {
        match &self.decoder {
            Decoder::Ready(name, _) => name,
            Decoder::Raw(raw) => &raw.input.name,
            Decoder::Din(lines) | Decoder::Lackey(lines, _) => &lines.input.name,
        }
    }

    /// The format that it is read as.
    #[must_use]
    pub fn format(&self) -> Format {
        self.format
    }

    /// What the format was guessed from, in words; `None` where it was given.
    #[must_use]
    pub fn guessed_from(&self) -> Option<&'static str> {
        self.guess
    }

    /// References read so far.
    #[must_use]
    pub fn references(&self) -> u64 {
        self.references
    }

    /// Whether the last line was a record without a newline: it may have been cut within its size.
    #[must_use]
    pub fn last_line_is_unended(&self) -> bool {
        self.unended
    }

    /// Put the next references into `into`, in place of what is there; `false` after the last,
    /// with `into` empty. Before an error come all references before it.
    ///
    /// # Errors
    /// The first thing that is wrong with the trace, in its order; after that, the trace is at its
    /// end.
    pub fn read_block(&mut self, into: &mut Vec<Reference>) -> Result<bool, TraceError> {
        into.clear();
        if !self.ended {
            self.decode(into);
            self.references += into.len() as u64;
        }
        if !into.is_empty() {
            return Ok(true);
        }
        match self.error.take() {
            Some(error) => Err(error),
            None => Ok(false),
        }
    }

    fn decode(&mut self, into: &mut Vec<Reference>) {
        let block = self.block;
        let (more, error) = match &mut self.decoder {
            Decoder::Ready(_, references) => {
                into.extend(references.by_ref().take(block));
                (references.len() > 0, None)
            }
            Decoder::Raw(raw) => raw.read(into),
            Decoder::Din(lines) => {
                let parse = |line: &[u8]| din::parse(line).map(Some);
                read_text(lines, Format::Din, block, into, &mut self.unended, parse)
            }
            Decoder::Lackey(lines, site) => {
                let parse = |line: &[u8]| lackey::parse(line, site);
                read_text(lines, Format::Lackey, block, into, &mut self.unended, parse)
            }
        };
        self.ended = !more || error.is_some();
        self.error = error;
        if self.ended && self.error.is_none() && self.references == 0 && into.is_empty() {
            self.error = Some(TraceError::Empty {
                file: self.name().to_string(),
                what: "holds no reference",
                accepted: self.format.accepted(),
            });
        }
    }
}

/// One block of lines: whether there may be more, and what is wrong after it.
fn read_text(
    lines: &mut Lines,
    format: Format,
    block: usize,
    into: &mut Vec<Reference>,
    unended: &mut bool,
    mut parse: impl FnMut(&[u8]) -> Result<Option<Reference>, Wrong>,
) -> (bool, Option<TraceError>) {
    while into.len() < block {
        let line = match lines.next_line() {
            Ok(Some(line)) => line,
            Ok(None) => return (false, None),
            Err(error) => {
                let place = Place::Line(lines.next_number());
                return (false, Some(lines.input.error(error, place)));
            }
        };
        let parsed = if line.too_long {
            Err(Wrong::Record("it is longer than 64 KiB"))
        } else {
            parse(line.text)
        };
        match parsed {
            Ok(Some(reference)) => {
                *unended |= !line.ended;
                into.push(reference);
            }
            Ok(None) => {}
            Err(wrong) => {
                let at = At {
                    line: line.number,
                    offset: line.offset,
                    excerpt: excerpt(line.text),
                    cut: !line.ended && !line.too_long,
                };
                let file = lines.input.name.clone();
                return (false, Some(wrong.at(at, file, format)));
            }
        }
    }
    (true, None)
}

fn guess(input: &Input) -> Result<(Format, Option<&'static str>), TraceError> {
    if let Some(format) = Format::of_name(&input.name) {
        return Ok((format, Some("its name")));
    }
    match Format::of_content(&input.head) {
        Some(format) => Ok((format, Some("how it begins"))),
        None => {
            let first = input.head.split(|&byte| byte == b'\n').next();
            Err(TraceError::UnknownFormat {
                file: input.name.clone(),
                excerpt: excerpt(first.unwrap_or_default()),
            })
        }
    }
}
