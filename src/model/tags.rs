//! The search for a tag among those of a set: the innermost loop of the model.
//!
//! Uses `unsafe` for the vector and prefetch instructions that every x86-64 processor has; elsewhere, and
//! for what is no multiple of four, plain comparisons.

#![allow(unsafe_code)]

/// Which of four tags are `tag`, a bit each.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn equal(tags: &[u32; 4], tag: u32) -> u32 {
    use std::arch::x86_64::{
        _mm_castsi128_ps, _mm_cmpeq_epi32, _mm_loadu_si128, _mm_movemask_ps, _mm_set1_epi32,
    };
    // SAFETY: x86-64 always has SSE2, and 16 bytes are read from an array of 16, whatever its
    // alignment.
    unsafe {
        let tags = _mm_loadu_si128(tags.as_ptr().cast());
        let equal = _mm_cmpeq_epi32(tags, _mm_set1_epi32(tag as i32));
        _mm_movemask_ps(_mm_castsi128_ps(equal)) as u32
    }
}

/// Which of four tags are `tag`, a bit each.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn equal(tags: &[u32; 4], tag: u32) -> u32 {
    let bit = |way: usize| u32::from(tags[way] == tag) << way;
    bit(0) | bit(1) | bit(2) | bit(3)
}

/// The first of `tags` that is `tag`. Four are compared at once, so that no branch depends on where
/// the line is.
#[inline(always)]
pub fn position(tags: &[u32], tag: u32) -> Option<usize> {
    let (sixteens, rest) = tags.as_chunks::<16>();
    for (number, sixteen) in sixteens.iter().enumerate() {
        let found = equal_of_16(sixteen, tag);
        if found != 0 {
            return Some(16 * number + found.trailing_zeros() as usize);
        }
    }
    let done = tags.len() - rest.len();
    let (fours, rest) = rest.as_chunks::<4>();
    let found = match fours {
        [] => 0,
        [a] => equal(a, tag),
        [a, b] => equal(a, tag) | equal(b, tag) << 4,
        [a, b, c, ..] => equal(a, tag) | equal(b, tag) << 4 | equal(c, tag) << 8,
    };
    if found != 0 {
        return Some(done + found.trailing_zeros() as usize);
    }
    let at = rest.iter().position(|other| *other == tag)?;
    Some(tags.len() - rest.len() + at)
}

#[inline(always)]
fn equal_of_16(tags: &[u32; 16], tag: u32) -> u32 {
    let (fours, _) = tags.as_chunks::<4>();
    let low = equal(&fours[0], tag) | equal(&fours[1], tag) << 4;
    low | equal(&fours[2], tag) << 8 | equal(&fours[3], tag) << 12
}

/// Tell the processor that `items[at]` is needed soon. No more than a hint: nothing else depends on it.
#[inline(always)]
pub fn fetch_ahead<T>(items: &[T], at: usize) {
    #[cfg(target_arch = "x86_64")]
    if let Some(item) = items.get(at) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing that the program sees, and faults on no address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(item).cast()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (items, at);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each tag of sets of 1 to 70 ways is found where it is, the first of equals, and others are not.
    #[test]
    fn every_way_is_found() {
        for ways in 1..=70_u32 {
            let tags: Vec<u32> = (0..ways).map(|way| u32::MAX - way).collect();
            for way in 0..ways {
                assert_eq!(
                    position(&tags, u32::MAX - way),
                    Some(way as usize),
                    "{ways}"
                );
            }
            assert_eq!(position(&tags, 7), None, "{ways}");
            assert_eq!(position(&vec![7; ways as usize], 7), Some(0), "{ways}");
        }
    }
}
