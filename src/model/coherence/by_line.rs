//! Maps by line.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Line numbers are spread already by a multiplication.
#[derive(Clone, Copy, Debug, Default)]
pub struct LineHasher(u64);

impl Hasher for LineHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }
    fn write_u64(&mut self, n: u64) {
        // Fibonacci hashing; the high half, where a table takes its bits from, swapped in.
        self.0 = (self.0 ^ n)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(32);
    }
}

/// A map by line.
pub type ByLine<V> = HashMap<u64, V, BuildHasherDefault<LineHasher>>;
