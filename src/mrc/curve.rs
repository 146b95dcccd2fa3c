//! Misses over size: steps, what lies on them, and where they fall most.

/// From this many ways on, up to the next step, there are this many misses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Ways of each set; lines of the cache, where there is one set.
    pub ways: u64,
    /// Misses, compulsory ones included.
    pub misses: u64,
}

/// Misses of an LRU cache of `sets` sets, for every number of ways.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Curve {
    /// Line in bytes.
    pub line_bytes: u64,
    /// Sets; 1 is fully associative.
    pub sets: u64,
    /// Requests: lines of all references, one by one.
    pub requests: u64,
    /// Misses at first uses, that no size avoids: different lines.
    pub compulsory: u64,
    /// By ways, from 0 ways (all requests miss) to as many as leave the compulsory misses alone;
    /// only where misses change.
    pub steps: Vec<Step>,
}

impl Curve {
    /// Misses with `ways` ways.
    #[must_use]
    pub fn misses(&self, ways: u64) -> u64 {
        let after = self.steps.partition_point(|step| step.ways <= ways);
        match after.checked_sub(1) {
            Some(at) => self.steps[at].misses,
            None => self.requests,
        }
    }

    /// Misses divided by requests, with `ways` ways; 0 of no requests.
    #[must_use]
    pub fn miss_ratio(&self, ways: u64) -> f64 {
        self.misses(ways) as f64 / self.requests.max(1) as f64
    }

    /// Size in bytes of a cache with `ways` ways.
    #[must_use]
    pub fn size_bytes(&self, ways: u64) -> u64 {
        ways.saturating_mul(self.sets)
            .saturating_mul(self.line_bytes)
    }

    /// Fewest ways with which only compulsory misses are left.
    #[must_use]
    pub fn enough_ways(&self) -> u64 {
        self.steps.last().map_or(0, |step| step.ways)
    }

    /// At most `most` knees, by ways: steps from 2 ways on at which at least a hundredth of all
    /// requests stop to miss, and at least three times as many as at a way between half and twice
    /// as many ways, on average. The deepest ones if there are more.
    #[must_use]
    pub fn knees(&self, most: usize) -> Vec<Step> {
        let drop = |pair: &[Step]| pair[0].misses - pair[1].misses;
        let sharp = |pair: &[Step]| {
            let ways = pair[1].ways;
            let (low, high) = (ways / 2, ways.saturating_mul(2));
            let around = self.misses(low) - self.misses(high);
            drop(pair) as f64 >= 3.0 * around as f64 / (high - low) as f64
        };
        let mut deep: Vec<&[Step]> = self
            .steps
            .windows(2)
            .filter(|pair| pair[1].ways > 1 && drop(pair) >= self.requests.div_ceil(100))
            .filter(|pair| sharp(pair))
            .collect();
        deep.sort_by_key(|pair| std::cmp::Reverse(drop(pair)));
        let mut knees: Vec<Step> = deep.iter().take(most).map(|pair| pair[1]).collect();
        knees.sort_by_key(|step| step.ways);
        knees
    }

    /// Columns of [`rows`](Curve::rows).
    pub const COLUMNS: [&str; 7] = [
        "line_bytes",
        "sets",
        "ways",
        "size_bytes",
        "misses",
        "compulsory_misses",
        "miss_ratio",
    ];

    /// A row of a table for each step.
    pub fn rows(&self) -> impl Iterator<Item = [String; 7]> + '_ {
        self.steps.iter().map(|step| {
            [
                self.line_bytes.to_string(),
                self.sets.to_string(),
                step.ways.to_string(),
                self.size_bytes(step.ways).to_string(),
                step.misses.to_string(),
                self.compulsory.to_string(),
                self.miss_ratio(step.ways).to_string(),
            ]
        })
    }
}
