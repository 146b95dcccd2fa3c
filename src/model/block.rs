//! Many requests at once, in order: what a trace has and a kernel has not.
//!
//! A request is a line with what is asked of it. Several of the same line one after another are one
//! with a larger count, where using a line once more changes nothing.

use super::classify::Cause;
use super::stats::{Kind, MAX_LEVELS};

/// Requests that are worked on together: few enough that all of it stays close to the processor.
pub(super) const REQUESTS: usize = 512;

/// A line and what is asked of it, packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Request(u64);

/// Bits below the line: three of kind, then these.
const FLAG_BITS: u32 = 5;
const DIRTY: u64 = 1 << 3;
const WRITEBACK: u64 = 1 << 4;

/// Lines are below this.
pub(super) const LINE_BITS: u32 = 64 - FLAG_BITS;

impl Request {
    /// A request that reads `line`, or makes it dirty if `kind` is a store.
    #[inline(always)]
    pub fn new(line: u64, kind: Kind) -> Request {
        let dirty = u64::from(kind == Kind::Store) * DIRTY;
        Request(line << FLAG_BITS | dirty | kind as u64)
    }

    /// An inner level evicted `line`, which was dirty.
    #[inline(always)]
    pub fn writeback(line: u64) -> Request {
        Request(line << FLAG_BITS | WRITEBACK | DIRTY)
    }

    /// The same asked of the next level, which keeps what it has.
    #[inline(always)]
    pub fn outwards(self) -> Request {
        Request(self.0 & !DIRTY)
    }

    /// Once more, by a `kind`.
    #[inline(always)]
    pub fn also(self, kind: Kind) -> Request {
        Request(self.0 | Request::new(0, kind).0 & DIRTY)
    }

    #[inline(always)]
    pub fn line(self) -> u64 {
        self.0 >> FLAG_BITS
    }

    /// Of no meaning for a writeback.
    #[inline(always)]
    pub fn kind(self) -> usize {
        (self.0 & 7) as usize
    }

    #[inline(always)]
    pub fn is_demand(self) -> bool {
        self.kind() <= Kind::Store as usize
    }

    /// Neither of what follows.
    #[inline(always)]
    pub fn is_plain(self) -> bool {
        self.0 & (DIRTY | WRITEBACK) == 0
    }

    #[inline(always)]
    pub fn is_dirty(self) -> bool {
        self.0 & DIRTY != 0
    }

    #[inline(always)]
    pub fn is_writeback(self) -> bool {
        self.0 & WRITEBACK != 0
    }
}

/// Most requests that a level can get for [`REQUESTS`] of the innermost: each level sends on what it
/// was asked for and, for each that it takes in, a line that it evicts.
const MOST: usize = REQUESTS * MAX_LEVELS;

/// Requests to a level, in order, and to which of the innermost level's each belongs.
#[derive(Clone, Debug)]
pub(super) struct Requests {
    all: Box<[Request; MOST]>,
    origins: Box<[u32; MOST]>,
    len: usize,
}

impl Requests {
    pub fn new() -> Requests {
        Requests {
            all: Box::new([Request(0); MOST]),
            origins: Box::new([0; MOST]),
            len: 0,
        }
    }

    #[inline(always)]
    pub fn push(&mut self, request: Request, origin: u32) {
        // Never beyond, which the remainder tells the compiler.
        self.all[self.len % MOST] = request;
        self.origins[self.len % MOST] = origin;
        self.len += 1;
    }

    pub fn clear(&mut self) {
        self.len = 0;
    }

    pub fn all(&self) -> (&[Request], &[u32]) {
        (&self.all[..self.len], &self.origins[..self.len])
    }
}

/// Up to [`REQUESTS`] requests to the innermost level, and how they fared.
#[derive(Clone, Debug)]
pub(super) struct Block {
    pub requests: Vec<Request>,
    pub len: usize,
    /// By request, where its line lies in the innermost level.
    pub slots: Vec<u32>,
    /// By request, the level that served it.
    pub levels: Vec<u8>,
    /// By level that is classified and request, why it missed or would have.
    pub causes: [Vec<Cause>; MAX_LEVELS],
}

impl Block {
    pub fn new() -> Block {
        Block {
            // One more: merging writes before it knows whether to keep.
            requests: vec![Request(0); REQUESTS + 1],
            len: 0,
            slots: vec![0; REQUESTS],
            levels: vec![0; REQUESTS],
            causes: std::array::from_fn(|_| vec![Cause::Compulsory; REQUESTS]),
        }
    }

    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// How many more there is room for.
    pub fn room(&self) -> usize {
        REQUESTS - self.len
    }

    /// One more; its number.
    ///
    /// # Panics
    /// If there is no room.
    #[inline(always)]
    pub fn push(&mut self, request: Request) -> usize {
        assert!(self.len < REQUESTS, "a full block");
        self.requests[self.len] = request;
        self.len += 1;
        self.len - 1
    }

    /// The last request's line is used once more.
    #[inline(always)]
    pub fn again(&mut self, kind: Kind) {
        let last = &mut self.requests[self.len - 1];
        *last = last.also(kind);
    }

    /// Loads of `addresses`, no more than there is room for, in lines of `2^shift` bytes. `last` is
    /// the line before, and then that of the last; it is not asked for again if `merged`.
    #[inline(always)]
    pub fn load_all(&mut self, addresses: &[u64], shift: u32, merged: bool, last: &mut u64) {
        let room = &mut self.requests[self.len..];
        assert!(addresses.len() < room.len(), "no room in the block");
        let (mut before, mut len) = (*last, 0);
        for addr in addresses {
            // Written always and kept at need: there is no branch to be guessed wrong.
            let line = addr >> shift;
            room[len] = Request::new(line, Kind::Load);
            len += usize::from(line != before || !merged);
            before = line;
        }
        *last = before;
        self.len += len;
    }
}
