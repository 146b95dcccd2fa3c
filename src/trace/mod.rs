//! Traces of memory references, from any program: read as a stream, in constant memory.
//!
//! Three formats are read ([`Format`]), plain or compressed by gzip, from a file or from standard
//! input:
//!
//! - `lackey`: what `valgrind --tool=lackey --trace-mem=yes --log-file=FILE PROGRAM` writes.
//! - `din`: Dinero's text, the traditional form and the extended one of Dinero IV; also written.
//! - `raw-u64`: addresses as little-endian 64-bit words, one after another and nothing else.
//!
//! ```no_run
//! use kwalk::trace::{Source, Trace};
//!
//! let mut trace = Trace::open(Source::named("t.lackey.gz"), None)?;
//! let mut block = Vec::new();
//! while trace.read_block(&mut block)? {
//!     for reference in &block {
//!         println!("{:?} {:#x} {}", reference.kind, reference.addr, reference.bytes);
//!     }
//! }
//! # Ok::<(), kwalk::trace::TraceError>(())
//! ```
//!
//! Not read: values, dependencies between references, threads. A trace says which addresses are
//! used in which order, not when.

pub mod din;
mod error;
mod format;
mod input;
pub mod lackey;
mod lines;
pub mod raw;
mod reader;

use std::ops::RangeInclusive;

pub use error::{Place, TraceError};
pub use format::Format;
pub use input::Source;
pub use reader::{BLOCK_REFERENCES, Trace};

/// What a reference does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Reads data.
    Load,
    /// Writes data.
    Store,
    /// Reads data and writes it back, by one instruction.
    Modify,
    /// Reads an instruction.
    Fetch,
}

/// One reference to memory.
///
/// What a reader yields has 1 to [`MOST_BYTES`] bytes and ends at 2^64 - 1 or before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference {
    /// What it does.
    pub kind: Kind,
    /// Bytes from `addr` on.
    pub bytes: u32,
    /// Address of the first byte; virtual, in traces of programs.
    pub addr: u64,
    /// Address of the instruction that makes it; 0 where the trace does not tell.
    pub site: u64,
}

/// Most bytes of one reference: a page. Instructions that save all registers of a core stay below
/// 4 KiB, so what is more was no size.
pub const MOST_BYTES: u32 = 4096;

impl Reference {
    /// Address of the last byte.
    #[inline]
    #[must_use]
    pub fn last(self) -> u64 {
        self.addr
            .saturating_add(u64::from(self.bytes.saturating_sub(1)))
    }

    /// Numbers of all lines that it touches, of `1 << shift` bytes each: a reference that crosses
    /// lines counts in each of them. With the shift of a page it yields pages. A shift beyond 63
    /// is 63.
    #[inline]
    #[must_use]
    pub fn lines(self, shift: u32) -> RangeInclusive<u64> {
        let shift = shift.min(63);
        self.addr >> shift..=self.last() >> shift
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 64-byte lines: byte 60 to 67 lie in lines 0 and 1, 4096 bytes from 0 on in 64 lines, and the
    /// last byte of all in line 2^58 - 1.
    #[test]
    fn a_reference_counts_in_every_line_that_it_touches() {
        for (addr, bytes, first, last) in [
            (0, 64, 0, 0),
            (63, 1, 0, 0),
            (63, 2, 0, 1),
            (60, 8, 0, 1),
            (0, 4096, 0, 63),
            (1, 4096, 0, 64),
            (u64::MAX, 1, (1 << 58) - 1, (1 << 58) - 1),
        ] {
            let reference = Reference {
                kind: Kind::Load,
                bytes,
                addr,
                site: 0,
            };
            assert_eq!(reference.lines(6), first..=last, "{addr:#x}, {bytes} bytes");
        }
    }
}
