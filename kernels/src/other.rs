//! Other data: what runs between two operations and takes their lines out of the caches.

use crate::memory::{Field, Memory, Word};

/// Touch `lines` lines from `base` on, each once, in scattered order: one 8-byte load per line, and
/// a store to every second one (of the lines that a pipe round trip touches about half are dirty;
/// facts: psi_observed.md). Returns the sum of what was loaded.
///
/// The order is affine in a power of two, `line = i * 0x9e3779b1 + 0x55 mod 2^k`, so that no
/// prefetcher sees a stream; the loads are independent of each other.
#[inline(always)]
pub fn touch_other<M: Memory>(mem: &mut M, base: M::Word, field: Field, lines: u64) -> M::Word {
    let span = lines.next_power_of_two();
    let mut sum = M::Word::from(0);
    for i in 0..span {
        let line = i.wrapping_mul(0x9e37_79b1).wrapping_add(0x55) & (span - 1);
        if line >= lines {
            continue;
        }
        let at = base.map(|b| b.wrapping_add(line * 64));
        let seen = mem.load::<8>(at, field);
        sum = sum.with(seen, |a, b| a.wrapping_add(b));
        if line & 1 == 1 {
            mem.store::<8>(at, field, seen.map(|v| v.wrapping_add(1)));
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arena::{Arena, Region};
    use crate::recorder::{Kind, Recorder};

    /// Every line once, every second one stored: also where the number is no power of two.
    #[test]
    fn each_line_is_touched_once() {
        for lines in [1_u64, 7, 64, 100, 1000] {
            let mut arena = Arena::new();
            let base = Region::Other.base();
            arena.reserve(base, lines * 64);
            let mut mem = Recorder::new(&mut arena);
            touch_other(
                &mut mem,
                base.0,
                Field {
                    id: 0,
                    offset_bytes: 0,
                },
                lines,
            );
            let loads = mem.accesses.iter().filter(|a| a.kind == Kind::Load);
            let mut touched: Vec<u64> = loads.map(|a| (a.addr.0 - base.0) / 64).collect();
            touched.sort_unstable();
            assert_eq!(touched, (0..lines).collect::<Vec<_>>());
            assert_eq!(mem.accesses.len() as u64, lines + lines / 2);
        }
    }
}
