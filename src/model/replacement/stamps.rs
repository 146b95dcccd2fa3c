//! The time of the last use, or fill, of each of many ways: a victim is searched for.

/// Times of `per_set` things in each of a number of sets; 0 is never.
#[derive(Clone, Debug)]
pub struct Stamps {
    per_set: usize,
    clock: u64,
    times: Vec<u64>,
}

impl Stamps {
    pub fn new(sets: usize, per_set: usize) -> Stamps {
        Stamps {
            per_set,
            clock: 0,
            times: vec![0; sets * per_set],
        }
    }

    fn of(&self, set: usize) -> &[u64] {
        &self.times[set * self.per_set..][..self.per_set]
    }

    #[inline]
    pub fn renew(&mut self, set: usize, which: usize) {
        self.clock += 1;
        self.times[set * self.per_set + which] = self.clock;
    }

    /// The oldest; of equals the first.
    #[inline]
    pub fn oldest(&self, set: usize) -> usize {
        let times = self.of(set);
        (0..times.len()).min_by_key(|&i| times[i]).unwrap_or(0)
    }

    pub fn clear(&mut self, set: usize) {
        self.times[set * self.per_set..][..self.per_set].fill(0);
    }
}
