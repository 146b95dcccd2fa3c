//! What happens between two operations: lines are flushed, or other data is touched.
//!
//! Unsafe is confined here to cache-line instructions and reads inside mappings that are alive.
#![allow(unsafe_code)]

use memmap2::MmapRaw;

/// Flush `bytes` bytes at `offset` of `map` from all caches, then wait until that is done.
///
/// x86-64: `clflushopt` where there is one, otherwise `clflush`, then `mfence`; arm64:
/// `dc civac`, then `dsb ish`. `Err` names a processor that has no such instruction.
///
/// # Panics
/// If the range leaves the mapping.
pub fn flush_mapped(map: &MmapRaw, offset: usize, bytes: usize) -> Result<(), String> {
    assert!(
        offset
            .checked_add(bytes)
            .is_some_and(|end| end <= map.len()),
        "{bytes} bytes at {offset} leave a mapping of {} bytes",
        map.len()
    );
    // SAFETY: the range lies inside a mapping that `map` keeps alive.
    unsafe { flush(map.as_ptr().add(offset), bytes) }
}

/// Flush the lines of `bytes` from all caches; see [`flush_mapped`].
pub fn flush_slice<T>(bytes: &[T]) -> Result<(), String> {
    // SAFETY: the range is that of a live slice.
    unsafe { flush(bytes.as_ptr().cast(), size_of_val(bytes)) }
}

/// Copy `bytes` to `offset`.
///
/// # Panics
/// If that is beyond the mapping.
pub fn fill_mapped(map: &mut MmapRaw, offset: usize, bytes: &[u8]) {
    assert!(offset + bytes.len() <= map.len(), "beyond the mapping");
    // SAFETY: the range lies in the mapping, which is writable memory of ours alone, and `bytes` is no
    // part of it: nobody has a reference to what is mapped.
    unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), map.as_mut_ptr().add(offset), bytes.len());
    }
}

/// Read one byte of each 64-byte line of `bytes` bytes at `offset` of `map`.
///
/// # Panics
/// If the range leaves the mapping.
pub fn touch_mapped(map: &MmapRaw, offset: usize, bytes: usize) {
    assert!(
        offset
            .checked_add(bytes)
            .is_some_and(|end| end <= map.len()),
        "{bytes} bytes at {offset} leave a mapping of {} bytes",
        map.len()
    );
    for at in (offset..offset + bytes).step_by(64) {
        // SAFETY: `at` lies inside a live readable mapping; a volatile read of a byte that
        // another thread may write is all that is done with it.
        unsafe { map.as_ptr().add(at).read_volatile() };
    }
}

/// # Safety
/// `start..start + bytes` must be mapped and readable.
#[cfg(target_arch = "x86_64")]
unsafe fn flush(start: *const u8, bytes: usize) -> Result<(), String> {
    use std::sync::OnceLock;
    static OPT: OnceLock<bool> = OnceLock::new();
    let opt = *OPT.get_or_init(|| {
        raw_cpuid::CpuId::new()
            .get_extended_feature_info()
            .is_some_and(|f| f.has_clflushopt())
    });
    // 64 bytes on every x86-64 processor so far; a longer line is merely flushed twice.
    let first = start.addr() & !63;
    for line in (first..start.addr() + bytes).step_by(64) {
        let line = start.with_addr(line);
        // SAFETY: the line holds a byte of a mapped range, so it is mapped; CPUID shows
        // `clflushopt`, and every x86-64 processor has `clflush`.
        unsafe {
            if opt {
                core::arch::asm!("clflushopt [{0}]", in(reg) line, options(nostack, preserves_flags));
            } else {
                core::arch::x86_64::_mm_clflush(line);
            }
        }
    }
    // SAFETY: SSE2 is part of x86-64.
    unsafe { core::arch::x86_64::_mm_mfence() };
    Ok(())
}

/// # Safety
/// `start..start + bytes` must be mapped and readable.
#[cfg(target_arch = "aarch64")]
unsafe fn flush(start: *const u8, bytes: usize) -> Result<(), String> {
    let ctr: u64;
    // SAFETY: Linux lets user code read `ctr_el0` (or emulates the read).
    unsafe {
        core::arch::asm!("mrs {0}, ctr_el0", out(reg) ctr, options(nomem, nostack, preserves_flags));
    }
    // DminLine: log2 of the words (4 bytes) of the smallest data line (Arm ARM, CTR_EL0).
    let line_bytes = 4usize << ((ctr >> 16) & 0xf);
    let first = start.addr() & !(line_bytes - 1);
    for line in (first..start.addr() + bytes).step_by(line_bytes) {
        // SAFETY: the line is mapped and Linux lets user code clean and invalidate (SCTLR_EL1.UCI).
        unsafe {
            core::arch::asm!("dc civac, {0}", in(reg) line, options(nostack, preserves_flags));
        }
    }
    // SAFETY: a barrier.
    unsafe { core::arch::asm!("dsb ish", options(nostack, preserves_flags)) };
    Ok(())
}

/// # Safety
/// None: nothing is done.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
unsafe fn flush(_start: *const u8, _bytes: usize) -> Result<(), String> {
    Err(format!(
        "user code cannot flush cache lines on {}; starts `warm` and `polluted:KiB` still work",
        std::env::consts::ARCH
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flushing_keeps_what_is_written() {
        let mut bytes: Vec<u8> = (0..1000).map(|i| i as u8).collect();
        bytes[999] = 7;
        for part in [&bytes[3..4], &bytes[..], &bytes[500..500]] {
            if cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
                flush_slice(part).unwrap();
            }
        }
        assert!((0..999).all(|i| bytes[i] == i as u8) && bytes[999] == 7);
    }

    #[test]
    #[should_panic(expected = "leave a mapping")]
    fn a_range_outside_the_mapping_is_refused() {
        let map: MmapRaw = memmap2::MmapMut::map_anon(4096).unwrap().into();
        let _ = flush_mapped(&map, 4000, 97);
    }
}
