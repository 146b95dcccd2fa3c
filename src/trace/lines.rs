//! A stream of bytes as lines of text, without a copy of each.

use std::io;

use super::input::Input;

/// Longest line: no record comes near it, and memory stays constant whatever comes.
pub(super) const MOST_LINE_BYTES: usize = 64 << 10;

/// Bytes that are held at once.
const BUFFER_BYTES: usize = 4 * MOST_LINE_BYTES;

/// One line, without its end.
pub(super) struct Line<'a> {
    /// What is on it; a carriage return before the newline is no part of it.
    pub text: &'a [u8],
    /// 1-based.
    pub number: u64,
    /// Of its first byte, from the start of the trace on.
    pub offset: u64,
    /// Whether a newline ends it; else the trace ends.
    pub ended: bool,
    /// Longer than [`MOST_LINE_BYTES`]: only the begin is here.
    pub too_long: bool,
}

/// Lines of an [`Input`].
pub(super) struct Lines {
    pub input: Input,
    buffer: Vec<u8>,
    from: usize,
    to: usize,
    number: u64,
    /// Of `buffer[from]`.
    offset: u64,
    at_end: bool,
    error: Option<io::Error>,
}

impl Lines {
    pub(super) fn new(input: Input) -> Lines {
        Lines {
            input,
            buffer: vec![0; BUFFER_BYTES],
            from: 0,
            to: 0,
            number: 0,
            offset: 0,
            at_end: false,
            error: None,
        }
    }

    /// 1-based number of the line that comes next.
    pub(super) fn next_number(&self) -> u64 {
        self.number + 1
    }

    /// The next line; `None` at the end, and after an error, which comes when all lines before it
    /// are through.
    #[inline]
    pub(super) fn next_line(&mut self) -> Result<Option<Line<'_>>, io::Error> {
        let mut newline = memchr::memchr(b'\n', &self.buffer[self.from..self.to]);
        if newline.is_none() {
            self.refill();
            newline = memchr::memchr(b'\n', &self.buffer[self.from..self.to]);
        }
        let held = self.to - self.from;
        let (length, taken) = match newline {
            Some(at) => (at, at + 1),
            None if held <= MOST_LINE_BYTES => {
                if let Some(error) = self.error.take() {
                    // The line that it cuts is not whole.
                    self.from = self.to;
                    return Err(error);
                }
                if held == 0 {
                    return Ok(None);
                }
                (held, held)
            }
            None => (held, held),
        };
        let begin = self.from;
        let too_long = length > MOST_LINE_BYTES;
        let kept = length.min(MOST_LINE_BYTES);
        let (number, offset) = (self.number + 1, self.offset);
        self.from += taken;
        self.number = number;
        self.offset += taken as u64;
        let text = &self.buffer[begin..begin + kept];
        Ok(Some(Line {
            text: text.strip_suffix(b"\r").unwrap_or(text),
            number,
            offset,
            ended: newline.is_some(),
            too_long,
        }))
    }

    /// Move what is left to the front and fill up.
    #[cold]
    fn refill(&mut self) {
        if self.at_end {
            return;
        }
        self.buffer.copy_within(self.from..self.to, 0);
        self.to -= self.from;
        self.from = 0;
        let (count, error) = self.input.fill(&mut self.buffer[self.to..]);
        self.to += count;
        self.at_end = self.to < self.buffer.len();
        self.error = error;
    }
}
