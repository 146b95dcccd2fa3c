//! What is known of the line in a way: its key, and flags below it. 0: the way holds none.

/// Written since it came.
pub(super) const DIRTY: u64 = 1;
/// Brought by a prefetcher, and not asked for since.
pub(super) const PREFETCHED: u64 = 2;
/// Below the key of a line: no key is 0.
pub(super) const FLAG_BITS: u32 = 2;
pub(super) const FLAGS: u64 = DIRTY | PREFETCHED;

#[inline(always)]
pub(super) fn key_of(line: u64) -> u64 {
    (line + 1) << FLAG_BITS
}

#[inline]
pub(super) fn line_of(entry: u64) -> u64 {
    (entry >> FLAG_BITS) - 1
}

/// The tag of a line that has bits beyond its tag.
#[inline]
pub(super) fn wide_tag(rest: u64) -> u32 {
    ((rest ^ rest >> 32) as u32).max(1)
}
