//! The block of a set, words of 32 bits: epoch, ways that hold a line, ages (of LRU and FIFO), tags.

use crate::model::replacement::ages;

pub(super) const EPOCH: usize = 0;
pub(super) const HELD: usize = 1;
pub(super) const AGES_AT: usize = 2;

/// A word of 64 bits from two of a block.
#[inline(always)]
pub(super) fn word(block: &[u32], at: usize) -> u64 {
    u64::from(block[at]) | u64::from(block[at + 1]) << 32
}

#[inline(always)]
pub(super) fn put_word(block: &mut [u32], at: usize, word: u64) {
    block[at] = word as u32;
    block[at + 1] = (word >> 32) as u32;
}

/// Make `way` the youngest of the ages of `words` words in `block`.
///
/// Every word is written, at an address that does not depend on the way: processors that let no load
/// pass a store whose address is not known yet (speculative store bypass disabled) would else wait
/// for the search before they look at the next reference.
#[inline(always)]
pub(super) fn renew_in(block: &mut [u32], words: usize, way: usize) {
    let age = match words {
        1 => ages::age(word(block, AGES_AT), way),
        2 => {
            let (low, high) = (word(block, AGES_AT), word(block, AGES_AT + 2));
            ages::age(if way < 8 { low } else { high }, way % 8)
        }
        _ => ages::age(word(block, AGES_AT + way / 8 * 2), way % 8),
    };
    for number in 0..words {
        let at = AGES_AT + 2 * number;
        let raised = ages::raised_below(word(block, at), age);
        let youngest = ages::with_age(raised, way % 8, 0);
        put_word(block, at, if way / 8 == number { youngest } else { raised });
    }
}
