//! What a kernel may do to memory, and the two things that it may run on besides a model:
//! real memory and a plain recording.

use core::fmt;

/// A nominal byte address: one that an [`Arena`](crate::arena::Arena) chose, never a host pointer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Addr(pub u64);

impl Addr {
    /// The address `bytes` further on.
    #[must_use]
    pub fn plus(self, bytes: u64) -> Addr {
        Addr(self.0.wrapping_add(bytes))
    }
}

impl fmt::Display for Addr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// Which field an access touches: its name, and its place in the object.
///
/// `id` indexes the kernel's table of names (for PSI, `psi::FIELDS`); native code compiles
/// it away, the model books costs under it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Field {
    /// Index in the kernel's table of `(struct, field)` names.
    pub id: u16,
    /// Offset in the object, in bytes; for an element of an array, that element's.
    pub offset_bytes: u32,
}

impl Field {
    /// The same field, `bytes` further on: an element of an array.
    #[must_use]
    #[inline(always)]
    pub fn at(self, bytes: u32) -> Field {
        Field {
            id: self.id,
            offset_bytes: self.offset_bytes + bytes,
        }
    }
}

/// A loaded value. On native it is the plain `u64`; in the model it also knows when it is ready,
/// so that a load whose address came from another load cannot start before that.
pub trait Word: Copy + From<u64> {
    /// The value, for a decision: a branch is predicted, so nothing waits for it.
    fn get(self) -> u64;
    /// A value computed from this one.
    #[must_use]
    fn map(self, f: impl FnOnce(u64) -> u64) -> Self;
    /// A value computed from two: ready when both are.
    #[must_use]
    fn with(self, other: Self, f: impl FnOnce(u64, u64) -> u64) -> Self;
}

impl Word for u64 {
    #[inline(always)]
    fn get(self) -> u64 {
        self
    }
    #[inline(always)]
    fn map(self, f: impl FnOnce(u64) -> u64) -> u64 {
        f(self)
    }
    #[inline(always)]
    fn with(self, other: u64, f: impl FnOnce(u64, u64) -> u64) -> u64 {
        f(self, other)
    }
}

/// Memory as a kernel sees it. `BYTES` is 1, 2, 4, 8 or 16, as Linux makes the access; a 16-byte
/// load yields its first 8 bytes.
///
/// Accesses happen in program order. `base` is a word because the address of an access may depend
/// on an earlier load.
pub trait Memory {
    /// What a load yields.
    type Word: Word;

    /// Load `BYTES` bytes of `field` of the object at `base`, zero-extended.
    fn load<const BYTES: usize>(&mut self, base: Self::Word, field: Field) -> Self::Word;

    /// Store the low `BYTES` bytes of `value`.
    fn store<const BYTES: usize>(&mut self, base: Self::Word, field: Field, value: Self::Word);

    /// Atomically add `delta` and yield the old value: one locked read-modify-write.
    fn locked_add<const BYTES: usize>(
        &mut self,
        base: Self::Word,
        field: Field,
        delta: u64,
    ) -> Self::Word;

    /// Hint that the line of `field` will be loaded soon.
    fn prefetch(&mut self, base: Self::Word, field: Field);

    /// A conditional branch at `site` that depends on `on`: the model's predictor sees it, native
    /// code has it anyway.
    fn branch(&mut self, site: u16, on: Self::Word, taken: bool);

    /// A full memory fence.
    fn fence(&mut self);

    /// The accesses that follow are made by `function` (an index in the kernel's table of function
    /// names): the model books costs under it, native compiles it away.
    fn enter(&mut self, function: u16);

    /// `instructions` that touch no memory: they take room in the core's window. Nothing on native.
    fn work(&mut self, instructions: u32);
}
