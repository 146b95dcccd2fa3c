//! When the lines that prefetchers have asked for arrive.

/// The last few of these lines, and when they arrive, in ticks.
#[derive(Clone, Debug)]
pub(super) struct InFlight(Vec<(u64, u64)>);

const IN_FLIGHT: usize = 256;

impl InFlight {
    pub fn new() -> InFlight {
        InFlight(vec![(u64::MAX, 0); IN_FLIGHT])
    }

    pub fn add(&mut self, line: u64, arrives_at: u64) {
        self.0[line as usize % IN_FLIGHT] = (line, arrives_at);
    }

    /// 0 if it is not known: long ago.
    pub fn arrival(&self, line: u64) -> u64 {
        let (known, arrives_at) = self.0[line as usize % IN_FLIGHT];
        if known == line { arrives_at } else { 0 }
    }
}
