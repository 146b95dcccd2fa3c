//! Where the bytes of a trace come from: a file or standard input, decompressed if need be.

use std::fs::File;
use std::io::{self, BufReader, Cursor, ErrorKind, Read};

use super::{Place, TraceError};

/// A trace to be opened.
pub struct Source {
    name: String,
    read: Option<Box<dyn Read>>,
}

impl Source {
    /// The file called `name`; `-` is standard input.
    #[must_use]
    pub fn named(name: &str) -> Source {
        Source {
            name: name.to_string(),
            read: None,
        }
    }

    /// What `read` yields; `name` is for messages, and its ending for the format.
    #[must_use]
    pub fn of(name: &str, read: Box<dyn Read>) -> Source {
        Source {
            name: name.to_string(),
            read: Some(read),
        }
    }
}

/// Bytes that are looked at to tell gzip and format.
const HEAD_BYTES: usize = 4096;

/// gzip's magic number and its only method, deflate. Without the method, one address in 65,536
/// would begin a gzip file.
const GZIP: [u8; 3] = [0x1f, 0x8b, 8];

/// An open trace, as bytes.
pub(super) struct Input {
    /// For messages.
    pub name: String,
    /// The first bytes; they are also the first that [`fill`](Input::fill) yields.
    pub head: Vec<u8>,
    gzip: bool,
    read: Box<dyn Read>,
}

impl Input {
    pub(super) fn open(source: Source) -> Result<Input, TraceError> {
        let Source { mut name, read } = source;
        let mut read: Box<dyn Read> = match read {
            Some(read) => read,
            None if name == "-" => {
                name = "standard input".into();
                Box::new(io::stdin())
            }
            None => match File::open(&name) {
                Ok(file) => Box::new(file),
                Err(source) => return Err(TraceError::Open { file: name, source }),
            },
        };
        let (head, error) = head_of(&mut read);
        let gzip = head.starts_with(&GZIP);
        let mut input = Input {
            name,
            head,
            gzip,
            read,
        };
        if let Some(error) = error {
            return Err(input.error(error, Place::Byte(input.head.len() as u64)));
        }
        if gzip {
            let compressed = Cursor::new(std::mem::take(&mut input.head)).chain(input.read);
            let compressed = BufReader::with_capacity(64 << 10, compressed);
            input.read = Box::new(flate2::bufread::MultiGzDecoder::new(compressed));
            let (head, error) = head_of(&mut input.read);
            input.head = head;
            if let Some(error) = error {
                // It comes again after the head was read, unless there is nothing before it.
                if input.head.is_empty() {
                    return Err(input.error(error, Place::Byte(0)));
                }
                input.read = Box::new(Failing(Some(error)));
            }
        }
        input.read = Box::new(Cursor::new(input.head.clone()).chain(input.read));
        Ok(input)
    }

    /// Read until `buffer` is full: how many bytes there were, and why not more, unless it is the
    /// end.
    pub(super) fn fill(&mut self, buffer: &mut [u8]) -> (usize, Option<io::Error>) {
        fill(&mut self.read, buffer)
    }

    /// `error` at `place`, as an error of this trace.
    pub(super) fn error(&self, error: io::Error, place: Place) -> TraceError {
        let file = self.name.clone();
        let of_gzip = matches!(
            error.kind(),
            ErrorKind::InvalidInput | ErrorKind::InvalidData | ErrorKind::UnexpectedEof
        );
        if self.gzip && of_gzip {
            return TraceError::Gzip {
                file,
                place,
                reason: error.to_string(),
            };
        }
        TraceError::Read {
            file,
            place,
            source: error,
        }
    }
}

/// Yields an error that a look ahead has met, once.
struct Failing(Option<io::Error>);

impl Read for Failing {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        match self.0.take() {
            Some(error) => Err(error),
            None => Ok(0),
        }
    }
}

fn head_of(read: &mut dyn Read) -> (Vec<u8>, Option<io::Error>) {
    let mut head = vec![0; HEAD_BYTES];
    let (count, error) = fill(read, &mut head);
    head.truncate(count);
    (head, error)
}

fn fill(read: &mut dyn Read, buffer: &mut [u8]) -> (usize, Option<io::Error>) {
    let mut count = 0;
    while count < buffer.len() {
        match read.read(&mut buffer[count..]) {
            Ok(0) => break,
            Ok(more) => count += more,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return (count, Some(error)),
        }
    }
    (count, None)
}
