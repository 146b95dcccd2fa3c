//! The loops of the self-check: pointer chases whose time per load is a latency.
//!
//! Unsafe is confined here to reads inside memory that the caller lends.
#![allow(unsafe_code)]

use crate::native::{between, clock};
use kernels::arena::Random;

/// A cycle of pointers in lent memory: each load's address is the value of the load before.
pub struct Ring<'a> {
    memory: &'a mut [u8],
    offsets: Vec<usize>,
    at: usize,
}

impl<'a> Ring<'a> {
    /// Link the words at `offsets` of `memory`, in that order, the last to the first.
    ///
    /// # Panics
    /// If there is no offset, or one that is not a multiple of 8 or leaves `memory`.
    pub fn new(memory: &'a mut [u8], offsets: Vec<usize>) -> Ring<'a> {
        assert!(!offsets.is_empty() && memory.as_ptr().addr().is_multiple_of(8));
        let start = memory.as_mut_ptr().expose_provenance();
        for (i, &offset) in offsets.iter().enumerate() {
            assert!(offset.is_multiple_of(8) && offset + 8 <= memory.len());
            let next = start + offsets[(i + 1) % offsets.len()];
            memory[offset..offset + 8].copy_from_slice(&next.to_ne_bytes());
        }
        Ring {
            at: start + offsets[0],
            memory,
            offsets,
        }
    }

    /// Loads of one round.
    pub fn loads(&self) -> u64 {
        self.offsets.len() as u64
    }

    /// Follow `loads` pointers from where the last chase ended; ticks per load.
    pub fn chase(&mut self, loads: u64) -> f64 {
        let begin = clock::begin();
        let mut at = self.at;
        for _ in 0..loads {
            // SAFETY: `at` is the address of a word of the cycle: `new` wrote only such values at
            // such addresses, inside `memory`, which stays borrowed and untouched.
            at = unsafe { std::ptr::with_exposed_provenance::<usize>(at).read_volatile() };
        }
        self.at = std::hint::black_box(at);
        (clock::end() - begin) as f64 / loads as f64
    }

    /// Load up to `loads` words of the cycle in random order, independent of each other; ticks per
    /// load. With `flushed`, their lines come from memory.
    pub fn fan_out(
        &mut self,
        loads: usize,
        random: &mut Random,
        flushed: bool,
    ) -> Result<f64, String> {
        let chosen: Vec<u32> = (0..loads)
            .map(|_| self.offsets[random.below(self.loads()) as usize] as u32)
            .collect();
        if flushed {
            for &offset in &chosen {
                between::flush_slice(&self.memory[offset as usize..][..1])?;
            }
        }
        // Fetches the list itself, so that its own misses do not count.
        std::hint::black_box(chosen.iter().fold(0, |a, b| a ^ b));
        let start = self.memory.as_ptr();
        let begin = clock::begin();
        for &offset in &chosen {
            // SAFETY: `new` checked that 8 bytes at each offset lie in `memory`, aligned.
            unsafe { start.add(offset as usize).cast::<u64>().read_volatile() };
        }
        Ok((clock::end() - begin) as f64 / loads as f64)
    }

    /// Flush the lines of the next `loads` words of a round that starts over.
    pub fn flush_and_restart(&mut self, loads: u64) -> Result<(), String> {
        for &offset in self.offsets.iter().take(loads as usize) {
            between::flush_slice(&self.memory[offset..offset + 1])?;
        }
        self.at = self.memory.as_ptr().expose_provenance() + self.offsets[0];
        Ok(())
    }
}

/// Dependent loads at offsets that a list names, so that any order can be replayed: the words
/// loaded are zero and are added to the next address.
///
/// The list must be small and lie where it disturbs nothing; ticks per load over `passes` passes.
///
/// # Panics
/// If an offset is not a multiple of 8 or leaves `memory`, or if a word there is not zero.
pub fn replay(memory: &[u8], offsets: &[u32], passes: u32) -> f64 {
    for &offset in offsets {
        let word = &memory[offset as usize..offset as usize + 8];
        assert!(
            offset.is_multiple_of(8) && word == [0; 8],
            "words to replay are zero"
        );
    }
    let start = memory.as_ptr();
    let mut carry = 0usize;
    let begin = clock::begin();
    for _ in 0..passes {
        for &offset in offsets {
            // SAFETY: the word lies in `memory` (checked above) and `carry` is zero, since all
            // words are; the compiler cannot know that, so each load waits for the last.
            carry = unsafe {
                start
                    .add(offset as usize)
                    .wrapping_add(carry)
                    .cast::<usize>()
                    .read_volatile()
            };
        }
    }
    std::hint::black_box(carry);
    (clock::end() - begin) as f64 / (f64::from(passes) * offsets.len() as f64)
}

/// Write `offsets` to `memory` and lend them as a list; the rest of `memory` stays as it is.
///
/// # Panics
/// If `memory` does not begin at a multiple of 4 or is too short.
pub fn as_words(memory: &mut [u8], offsets: impl Iterator<Item = u32>) -> &[u32] {
    // SAFETY: any bytes are valid as `u32` and back.
    let (before, words, _) = unsafe { memory.align_to_mut::<u32>() };
    assert!(before.is_empty(), "the list begins at a multiple of 4");
    let mut length = 0;
    for offset in offsets {
        words[length] = offset;
        length += 1;
    }
    &words[..length]
}

/// One random line for every `spacing_bytes` of `bytes` bytes, in random order.
///
/// The order is a uniform permutation, linked to one cycle by [`Ring::new`]: the same as Sattolo's.
/// With `spread`, lines are dealt so that each run of as many pages as a page has lines uses each
/// line offset once: caches indexed by the page offset are filled evenly.
pub fn scattered(
    bytes: usize,
    spacing_bytes: usize,
    line_bytes: usize,
    spread: bool,
    random: &mut Random,
) -> Vec<usize> {
    let lines = spacing_bytes / line_bytes;
    let mut deal: Vec<usize> = (0..lines).collect();
    let mut offsets = Vec::with_capacity(bytes / spacing_bytes);
    for i in 0..bytes / spacing_bytes {
        if spread && i % lines == 0 {
            random.shuffle(&mut deal);
        }
        let line = if spread { deal[i % lines] } else { 0 };
        offsets.push(i * spacing_bytes + line * line_bytes);
    }
    random.shuffle(&mut offsets);
    offsets
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A chase of exactly one round ends where it began, and one step less does not: one cycle.
    #[test]
    fn a_ring_is_one_cycle_over_all_its_words() {
        let mut memory = vec![0u64; 1024];
        let (_, bytes, _) = {
            // SAFETY: any bytes are valid as bytes.
            unsafe { memory.align_to_mut::<u8>() }
        };
        let offsets = scattered(8192, 64, 64, false, &mut Random(5));
        let mut ring = Ring::new(bytes, offsets);
        assert_eq!(ring.loads(), 128);
        let first = ring.at;
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..128 {
            assert!(seen.insert(ring.at), "visited twice within a round");
            ring.chase(1);
        }
        assert_eq!(ring.at, first);
    }

    /// 128 pages of 64 lines: each page once, each line offset exactly twice.
    #[test]
    fn scattered_lines_fill_page_offsets_evenly() {
        let offsets = scattered(128 * 4096, 4096, 64, true, &mut Random(1));
        let mut pages: Vec<usize> = offsets.iter().map(|o| o / 4096).collect();
        pages.sort_unstable();
        assert_eq!(pages, (0..128).collect::<Vec<_>>());
        let mut per_line = [0; 64];
        offsets.iter().for_each(|o| per_line[o % 4096 / 64] += 1);
        assert_eq!(per_line, [2; 64]);
    }

    #[test]
    #[should_panic(expected = "words to replay are zero")]
    fn replay_refuses_words_that_would_lead_astray() {
        replay(&[1; 64], &[0], 1);
    }
}
