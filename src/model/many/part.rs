//! A line of an access, packed.

/// A line of an access: the number of its request, that of its translation, and how many further
/// accesses there are of this line alone before any of another.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part(u64);

/// Most further accesses that a part counts.
pub(super) const MOST_AGAIN: usize = 0xffff;
const AGAIN_AT: u32 = 48;

impl Part {
    #[inline(always)]
    pub fn new(request: usize, translation: usize) -> Part {
        Part(request as u64 | (translation as u64) << 32)
    }

    #[inline(always)]
    pub fn with_again(self, count: usize) -> Part {
        Part(self.0 | (count as u64) << AGAIN_AT)
    }

    #[inline(always)]
    pub fn again(self) -> usize {
        (self.0 >> AGAIN_AT) as usize
    }

    #[inline(always)]
    pub fn request(self) -> usize {
        self.0 as u32 as usize
    }

    /// 0: it cost nothing.
    #[inline(always)]
    pub fn translation(self) -> usize {
        (self.0 >> 32) as usize & 0xffff
    }
}
