//! Branch prediction: gshare (McFarling 1993), 4096 two-bit counters, 12 bits of global history.
//!
//! Real predictors (TAGE and kin) remember much longer histories: this one errs on the side of
//! mispredictions for long patterns and is right for fixed and short ones.

const HISTORY_BITS: u32 = 12;

/// A gshare predictor; at power-up every branch is guessed not taken, weakly.
#[derive(Clone, Debug)]
pub struct Gshare {
    counters: Vec<u8>,
    history: usize,
}

impl Default for Gshare {
    fn default() -> Gshare {
        Gshare::new()
    }
}

impl Gshare {
    /// At power-up.
    #[must_use]
    pub fn new() -> Gshare {
        Gshare {
            counters: vec![1; 1 << HISTORY_BITS],
            history: 0,
        }
    }

    /// Guess the branch at `site`, then learn that it was `taken`; whether the guess was right.
    #[inline]
    pub fn guess(&mut self, site: u16, taken: bool) -> bool {
        let mask = (1 << HISTORY_BITS) - 1;
        // Sites are small numbers: spread them, as code addresses are.
        let site = usize::from(site).wrapping_mul(0x9e5) & mask;
        let counter = &mut self.counters[site ^ self.history];
        let guess = *counter >= 2;
        *counter = if taken {
            (*counter + 1).min(3)
        } else {
            counter.saturating_sub(1)
        };
        self.history = (self.history << 1 | usize::from(taken)) & mask;
        guess == taken
    }
}
