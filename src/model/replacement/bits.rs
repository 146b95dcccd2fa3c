//! A few bits a set.

/// `per_set` bits for each of a number of sets, each set from a new word on.
#[derive(Clone, Debug)]
pub struct Bits {
    per_set: usize,
    words: usize,
    bits: Vec<u64>,
}

impl Bits {
    /// All clear.
    pub fn new(sets: usize, per_set: usize) -> Bits {
        let words = per_set.div_ceil(64);
        Bits {
            per_set,
            words,
            bits: vec![0; sets * words],
        }
    }

    #[inline]
    pub fn get(&self, set: usize, bit: usize) -> bool {
        self.bits[set * self.words + bit / 64] >> (bit % 64) & 1 == 1
    }

    #[inline]
    pub fn put(&mut self, set: usize, bit: usize, value: bool) {
        let word = &mut self.bits[set * self.words + bit / 64];
        *word = *word & !(1 << (bit % 64)) | u64::from(value) << (bit % 64);
    }

    /// The bits of a set that has one word.
    #[inline]
    pub fn word(&self, set: usize) -> u64 {
        self.bits[set * self.words]
    }

    /// As [`word`](Bits::word).
    #[inline]
    pub fn word_mut(&mut self, set: usize) -> &mut u64 {
        &mut self.bits[set * self.words]
    }

    /// The first clear bit; `None` if all are set.
    pub fn first_clear(&self, set: usize) -> Option<usize> {
        let words = &self.bits[set * self.words..][..self.words];
        let full = words.iter().take_while(|word| **word == u64::MAX).count();
        let first = words
            .get(full)
            .map(|word| 64 * full + word.trailing_ones() as usize);
        first.filter(|bit| *bit < self.per_set)
    }

    pub fn clear(&mut self, set: usize) {
        self.bits[set * self.words..][..self.words].fill(0);
    }
}
