//! [`Recorder`]: a kernel on an arena, with every access written down.

use crate::arena::Arena;
use crate::memory::{Addr, Field, Memory};

/// What an access does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Plain load.
    Load,
    /// Plain store.
    Store,
    /// Locked read-modify-write.
    Locked,
    /// Prefetch hint.
    Prefetch,
}

/// One access, in program order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Recorded {
    /// Function of the replica that makes it.
    pub function: u16,
    /// Field.
    pub field: Field,
    /// Address of its first byte.
    pub addr: Addr,
    /// Width in bytes; 0 for a prefetch.
    pub bytes: u8,
    /// What it does.
    pub kind: Kind,
}

/// Runs a kernel on an arena and keeps the access stream: for tests, and for tools that want it.
#[derive(Debug)]
pub struct Recorder<'a> {
    arena: &'a mut Arena,
    function: u16,
    /// The stream so far.
    pub accesses: Vec<Recorded>,
}

impl<'a> Recorder<'a> {
    /// A recorder over `arena`, with an empty stream.
    pub fn new(arena: &'a mut Arena) -> Recorder<'a> {
        Recorder {
            arena,
            function: 0,
            accesses: Vec::new(),
        }
    }

    fn note(&mut self, base: u64, field: Field, bytes: usize, kind: Kind) -> Addr {
        let addr = Addr(base).plus(u64::from(field.offset_bytes));
        let function = self.function;
        self.accesses.push(Recorded {
            function,
            field,
            addr,
            bytes: bytes as u8,
            kind,
        });
        addr
    }
}

impl Memory for Recorder<'_> {
    type Word = u64;

    fn load<const BYTES: usize>(&mut self, base: u64, field: Field) -> u64 {
        let addr = self.note(base, field, BYTES, Kind::Load);
        self.arena.read(addr, BYTES.min(8))
    }

    fn store<const BYTES: usize>(&mut self, base: u64, field: Field, value: u64) {
        let addr = self.note(base, field, BYTES, Kind::Store);
        self.arena.write(addr, BYTES, value);
    }

    fn locked_add<const BYTES: usize>(&mut self, base: u64, field: Field, delta: u64) -> u64 {
        let addr = self.note(base, field, BYTES, Kind::Locked);
        let old = self.arena.read(addr, BYTES);
        self.arena.write(addr, BYTES, old.wrapping_add(delta));
        old
    }

    fn prefetch(&mut self, base: u64, field: Field) {
        self.note(base, field, 0, Kind::Prefetch);
    }

    fn branch(&mut self, _site: u16, _on: u64, _taken: bool) {}

    fn fence(&mut self) {}

    fn enter(&mut self, function: u16) {
        self.function = function;
    }

    fn work(&mut self, _instructions: u32) {}
}
