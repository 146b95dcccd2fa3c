//! [`Native`]: a kernel on real memory. The only unsafe code of this crate.
#![allow(unsafe_code)]

use core::ptr;

use crate::memory::{Field, Memory};

/// Real memory of this process: every access is one volatile load or store at `base + offset`.
///
/// Volatile, so that the compiler neither merges nor drops an access. Two threads may race on a
/// word as they do in Linux; every access is of a machine width, and aligned to it but for pairs of
/// 4-byte counters, so that the hardware makes it whole.
///
/// What it walks over is chosen by whoever builds it: see [`Native::new`].
#[derive(Debug)]
pub struct Native(());

impl Native {
    /// Memory access for addresses that the caller mapped.
    ///
    /// # Safety
    /// Every address that a kernel forms from what it is given, and from the pointers that lie in
    /// there, must be mapped, writable, aligned to its width and used by nobody as Rust data for as
    /// long as this value is used.
    #[must_use]
    pub unsafe fn new() -> Native {
        Native(())
    }
}

#[inline(always)]
fn at<T>(base: u64, field: Field) -> *mut T {
    ptr::with_exposed_provenance_mut(base.wrapping_add(u64::from(field.offset_bytes)) as usize)
}

/// A word of 8 bytes on a 4-byte boundary: arm64 loads two counters as one (`ldp`), and so do we.
#[derive(Clone, Copy)]
#[repr(C, packed(4))]
struct Pair(u64);

#[cfg(target_arch = "x86_64")]
type Wide = core::arch::x86_64::__m128i;
#[cfg(target_arch = "aarch64")]
type Wide = core::arch::aarch64::uint64x2_t;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
type Wide = [u64; 2];

impl Memory for Native {
    type Word = u64;

    #[inline(always)]
    fn load<const BYTES: usize>(&mut self, base: u64, field: Field) -> u64 {
        // SAFETY: `new` made its caller promise that these addresses are mapped and aligned.
        unsafe {
            match BYTES {
                1 => u64::from(ptr::read_volatile(at::<u8>(base, field))),
                2 => u64::from(ptr::read_volatile(at::<u16>(base, field))),
                4 => u64::from(ptr::read_volatile(at::<u32>(base, field))),
                8 => ptr::read_volatile(at::<Pair>(base, field)).0,
                16 => {
                    // One 16-byte load where the machine has one; its value steers nothing.
                    let wide: [u64; 2] =
                        core::mem::transmute(ptr::read_volatile(at::<Wide>(base, field)));
                    wide[0]
                }
                _ => unreachable!(),
            }
        }
    }

    #[inline(always)]
    fn store<const BYTES: usize>(&mut self, base: u64, field: Field, value: u64) {
        // SAFETY: as for `load`.
        unsafe {
            match BYTES {
                1 => ptr::write_volatile(at::<u8>(base, field), value as u8),
                2 => ptr::write_volatile(at::<u16>(base, field), value as u16),
                4 => ptr::write_volatile(at::<u32>(base, field), value as u32),
                8 => ptr::write_volatile(at::<u64>(base, field), value),
                _ => unreachable!(),
            }
        }
    }

    #[inline(always)]
    fn locked_add<const BYTES: usize>(&mut self, base: u64, field: Field, delta: u64) -> u64 {
        use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};
        // SAFETY: as for `load`; the width is the atomic's own.
        unsafe {
            match BYTES {
                4 => u64::from((*at::<AtomicU32>(base, field)).fetch_add(delta as u32, SeqCst)),
                8 => (*at::<AtomicU64>(base, field)).fetch_add(delta, SeqCst),
                _ => unreachable!(),
            }
        }
    }

    #[inline(always)]
    fn prefetch(&mut self, base: u64, field: Field) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a prefetch of any address is allowed.
        unsafe {
            use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(at::<i8>(base, field));
        }
        #[cfg(target_arch = "aarch64")]
        // SAFETY: a prefetch of any address is allowed.
        unsafe {
            core::arch::asm!(
                "prfm pldl1keep, [{address}]",
                address = in(reg) at::<u8>(base, field),
                options(nostack, readonly, preserves_flags)
            );
        }
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        let _ = (base, field);
    }

    #[inline(always)]
    fn branch(&mut self, _site: u16, _on: u64, _taken: bool) {}

    #[inline(always)]
    fn fence(&mut self) {
        core::sync::atomic::fence(core::sync::atomic::Ordering::SeqCst);
    }

    #[inline(always)]
    fn enter(&mut self, _function: u16) {}

    #[inline(always)]
    fn work(&mut self, _instructions: u32) {}
}
