//! The order in which the ways of a set were used, or filled.
//!
//! Per way the number of others that were used later: 0 is the youngest, `ways - 1` the oldest. Eight
//! of these bytes make a word, and a word is updated at once, so that a use costs a few
//! instructions and no branch that could be guessed wrong. A [`Cache`](super::super::cache::Cache)
//! keeps the words of a set beside its tags.

const LOW: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;
/// In bytes without a way: never the oldest, never below anything.
const NO_WAY: u64 = 0x7f;

/// Most ways whose ages fit bytes with a bit to spare, `NO_WAY` aside.
pub const MOST_WAYS: usize = 127;

/// Words that the ages of `ways` ways take.
#[must_use]
pub const fn words(ways: usize) -> usize {
    ways.div_ceil(8)
}

/// Word `number` of the ages at power-up: the first way is the oldest.
#[must_use]
pub fn fresh(ways: usize, number: usize) -> u64 {
    let age = |way: usize| match ways.checked_sub(way + 1) {
        Some(age) => age as u64,
        None => NO_WAY,
    };
    (0..8).fold(0, |word, i| word | age(8 * number + i) << (8 * i))
}

/// The age at byte `at` of `word`.
#[inline(always)]
#[must_use]
pub fn age(word: u64, at: usize) -> u64 {
    word >> (8 * at) & 0xff
}

/// `word` with one more at each byte below `age`. No byte borrows or carries, as all are below 0x80.
#[inline(always)]
#[must_use]
pub fn raised_below(word: u64, age: u64) -> u64 {
    let below = ((age * LOW) | HIGH).wrapping_sub(word + LOW) & HIGH;
    word + (below >> 7)
}

/// `word` with one less at each byte above `age`, bytes without a way aside.
#[must_use]
pub fn lowered_above(word: u64, age: u64) -> u64 {
    (0..8).fold(0, |lowered, i| {
        let byte = word >> (8 * i) & 0xff;
        let above = byte > age && byte != NO_WAY;
        lowered | (byte - u64::from(above)) << (8 * i)
    })
}

/// `word` with `age` at byte `at`.
#[inline(always)]
#[must_use]
pub fn with_age(word: u64, at: usize, age: u64) -> u64 {
    word & !(0xff << (8 * at)) | age << (8 * at)
}

/// The high bits of the bytes of `word` that are `age`: the lowest of them is right, others above it
/// may be marked wrongly.
#[inline(always)]
#[must_use]
pub fn of_age(word: u64, age: u64) -> u64 {
    let differs = word ^ (age * LOW);
    differs.wrapping_sub(LOW) & !differs & HIGH
}

/// The byte that the lowest mark of [`of_age`] stands for.
#[inline(always)]
#[must_use]
pub fn first(marks: u64) -> usize {
    marks.trailing_zeros() as usize / 8
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// A use of way after way, beside a list that is moved about in.
        #[test]
        fn uses_are_those_of_a_list(ways in 1_usize..=MOST_WAYS, uses in proptest::collection::vec(0_usize..MOST_WAYS, 1..200)) {
            let mut words: Vec<u64> = (0..words(ways)).map(|number| fresh(ways, number)).collect();
            let mut list: Vec<usize> = (0..ways).collect();
            for used in uses {
                let way = used % ways;
                let old = age(words[way / 8], way % 8);
                for word in &mut words {
                    *word = raised_below(*word, old);
                }
                words[way / 8] = with_age(words[way / 8], way % 8, 0);
                list.retain(|w| *w != way);
                list.push(way);
                let oldest = words.iter().enumerate().find_map(|(i, word)| {
                    let marks = of_age(*word, ways as u64 - 1);
                    (marks != 0).then(|| 8 * i + first(marks))
                });
                prop_assert_eq!(oldest, Some(list[0]));
            }
        }
    }
}
