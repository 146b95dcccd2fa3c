//! Where a line may be: its set, counted over all slices.

use super::ModelError;
use crate::machine;

/// How lines find their set.
#[derive(Clone, Debug)]
pub struct Index {
    /// `sets - 1` of a cache of one slice and a power of two of sets: all that inner ones need.
    mask: Option<u64>,
    sets: u64,
    remainder: Remainder,
    slices: Slices,
}

/// How a line finds its slice.
#[derive(Clone, Debug)]
enum Slices {
    /// One slice.
    One,
    /// Parity of the line bits of each mask; the set comes from the low line bits.
    Hash(Vec<u64>),
    /// Line modulo the number of slices; the set comes from the quotient, for else a slice would
    /// use only some of its sets.
    Modulo(u64),
}

/// `n % divisor` for `n` below 2^62 by a multiplication (Granlund and Montgomery, PLDI 1994): with
/// `magic = ceil(2^(62 + l) / divisor)` and `2^l >= divisor`, `n * magic >> (62 + l)` is the quotient.
#[derive(Clone, Copy, Debug)]
struct Remainder {
    divisor: u64,
    magic: u64,
    shift: u32,
}

/// Lines are below this: an address of 64 bits has lines of at least 8 bytes.
const LINE_BITS: u32 = 62;

impl Remainder {
    fn by(divisor: u64) -> Remainder {
        let shift = LINE_BITS + divisor.next_power_of_two().trailing_zeros();
        Remainder {
            divisor,
            // At most 2^63.
            magic: (1_u128 << shift).div_ceil(u128::from(divisor)) as u64,
            shift,
        }
    }

    #[inline(always)]
    fn of(self, n: u64) -> u64 {
        let quotient = ((u128::from(n) * u128::from(self.magic)) >> self.shift) as u64;
        n - quotient * self.divisor
    }
}

impl Index {
    /// The index of a cache.
    ///
    /// # Errors
    /// If the masks do not number the slices, or use bits within a line.
    pub fn new(cache: &machine::Cache) -> Result<Index, ModelError> {
        let hash = &cache.slice_hash;
        let error = |what: String, accepted: &str| ModelError {
            table: format!("cache level {}", cache.level),
            what,
            accepted: accepted.into(),
        };
        let slices = if cache.slices == 1 && hash.is_empty() {
            Slices::One
        } else if hash.is_empty() {
            Slices::Modulo(u64::from(cache.slices))
        } else if hash.len() < 32 && 1_u64 << hash.len() == u64::from(cache.slices) {
            if hash.iter().any(|m| m % u64::from(cache.line_bytes) != 0) {
                let what = format!("slice_hash = {hash:#x?} uses bits within the line");
                return Err(error(what, "address bits from that of line_bytes on"));
            }
            let shift = cache.line_bytes.trailing_zeros();
            Slices::Hash(hash.iter().map(|mask| mask >> shift).collect())
        } else {
            let what = format!(
                "{} slice_hash masks for {} slices",
                hash.len(),
                cache.slices
            );
            return Err(error(
                what,
                "log2(slices) masks, or none for line modulo slices",
            ));
        };
        let sets = u64::from(cache.sets);
        let plain = sets.is_power_of_two() && matches!(slices, Slices::One);
        Ok(Index {
            mask: plain.then(|| sets - 1),
            sets,
            remainder: Remainder::by(sets),
            slices,
        })
    }

    /// How many of the lowest bits of a line its set tells: lines that have the set and the bits above
    /// those in common are one.
    #[must_use]
    pub fn bits_told(&self) -> u32 {
        match self.slices {
            Slices::One | Slices::Hash(_) => self.sets.trailing_zeros(),
            Slices::Modulo(_) => 0,
        }
    }

    /// The set of `line`, which is below 2^62.
    #[inline(always)]
    #[must_use]
    pub fn set_of(&self, line: u64) -> usize {
        match self.mask {
            Some(mask) => (line & mask) as usize,
            None => self.set_in_slice(line),
        }
    }

    /// [`set_of`](Index::set_of) of each of `lines`, into `sets`; how sets are found is looked up once.
    #[inline(always)]
    pub fn sets_of(&self, lines: impl Iterator<Item = u64>, sets: &mut [u32]) {
        let pairs = sets.iter_mut().zip(lines);
        match (self.mask, &self.slices) {
            (Some(mask), _) => pairs.for_each(|(set, line)| *set = (line & mask) as u32),
            (None, Slices::One) => {
                pairs.for_each(|(set, line)| *set = self.remainder.of(line) as u32)
            }
            _ => pairs.for_each(|(set, line)| *set = self.set_in_slice(line) as u32),
        }
    }

    #[inline(never)]
    fn set_in_slice(&self, line: u64) -> usize {
        let (slice, line) = match &self.slices {
            Slices::One => (0, line),
            Slices::Hash(masks) => {
                let bits = masks
                    .iter()
                    .enumerate()
                    .map(|(i, mask)| u64::from((line & mask).count_ones() & 1) << i);
                (bits.sum(), line)
            }
            Slices::Modulo(slices) => (line % slices, line / slices),
        };
        (slice * self.sets + self.remainder.of(line)) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn remainder_is_that_of_division(divisor in 1_u64..=1 << 20, n in 0_u64..1 << 62) {
            prop_assert_eq!(Remainder::by(divisor).of(n), n % divisor);
        }

        #[test]
        fn remainder_next_to_multiples(divisor in 1_u64..=1 << 20, k in 0_u64..1 << 41) {
            let multiple = k * divisor;
            for n in [multiple.saturating_sub(1), multiple, multiple + 1] {
                prop_assert_eq!(Remainder::by(divisor).of(n), n % divisor);
            }
        }
    }
}
