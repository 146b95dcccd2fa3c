//! The backing store of a run: images of the memory that a kernel walks over, at nominal addresses.
//!
//! The same images serve every rung. The model reads and writes them in place; native maps each
//! region to host memory of the page size asked for and moves the pointers that lie in it
//! ([`Arena::relocated`]). Nominal regions begin at multiples of 1 GiB, host mappings at multiples
//! of 2 MiB, so both agree on every address bit that an L1D set or a page offset is made of.

use crate::memory::Addr;

/// Part of the address space; the regions differ in what maps them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Region {
    /// Linux's direct map: slab objects. Backed by the page size of the experiment.
    Slab,
    /// Per-CPU chunks in vmalloc space: always 4 KiB pages (facts: first chunk is full by the time
    /// that cgroups are made).
    PerCpu,
    /// Linux's image: static objects such as `psi_system`. Page size of the experiment.
    Static,
    /// Other data, touched between operations. Page size of the experiment.
    Other,
}

impl Region {
    /// All regions, in address order.
    pub const ALL: [Region; 4] = [Region::Slab, Region::PerCpu, Region::Static, Region::Other];

    /// First nominal address of the region; it is 1 GiB long.
    #[must_use]
    pub const fn base(self) -> Addr {
        Addr((self as u64 + 1) << 30)
    }

    /// The region that holds `addr`.
    #[must_use]
    pub fn of(addr: Addr) -> Option<Region> {
        let slot = (addr.0 >> 30).checked_sub(1)?;
        Region::ALL.get(usize::try_from(slot).ok()?).copied()
    }
}

/// The bytes of one region, from `start` on.
#[derive(Clone, Debug, Default)]
pub struct Image {
    /// Nominal address of the first byte; a multiple of 2 MiB.
    pub start: Addr,
    /// Contents.
    pub bytes: Vec<u8>,
}

/// A word that holds an address, or a difference of addresses, in `target`: it moves with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pointer {
    /// Where the word lies.
    pub slot: Addr,
    /// The region that it moves with.
    pub target: Region,
}

/// Images of all regions and the places of the pointers in them.
#[derive(Clone, Debug)]
pub struct Arena {
    images: [Image; 4],
    pointers: Vec<Pointer>,
}

const IMAGE_ALIGN_BYTES: u64 = 2 << 20;

impl Default for Arena {
    fn default() -> Arena {
        Arena::new()
    }
}

impl Arena {
    /// An arena without any memory.
    #[must_use]
    pub fn new() -> Arena {
        let images = Region::ALL.map(|r| Image {
            start: r.base(),
            bytes: Vec::new(),
        });
        Arena {
            images,
            pointers: Vec::new(),
        }
    }

    /// The image of `region`.
    #[must_use]
    pub fn image(&self, region: Region) -> &Image {
        &self.images[region as usize]
    }

    /// All pointers, in the order of their writing.
    #[must_use]
    pub fn pointers(&self) -> &[Pointer] {
        &self.pointers
    }

    /// Make `bytes` bytes from `addr` on exist, zeroed where they are new.
    ///
    /// # Panics
    /// If the range leaves its region.
    pub fn reserve(&mut self, addr: Addr, bytes: u64) {
        let region = Region::of(addr).expect("an address that an arena reserves lies in a region");
        let end = addr.0 + bytes;
        assert!(
            end <= region.base().0 + (1 << 30),
            "{bytes} bytes at {addr} leave their region"
        );
        let image = &mut self.images[region as usize];
        let start = addr.0 / IMAGE_ALIGN_BYTES * IMAGE_ALIGN_BYTES;
        if image.bytes.is_empty() {
            image.start = Addr(start);
        } else if start < image.start.0 {
            let grow = usize::try_from(image.start.0 - start).expect("64-bit host");
            image.bytes.splice(0..0, core::iter::repeat_n(0, grow));
            image.start = Addr(start);
        }
        let length = usize::try_from(end - image.start.0).expect("64-bit host");
        if image.bytes.is_empty() {
            // Fresh zeroed pages, which cost nothing until they are used.
            image.bytes = vec![0; length];
        } else if image.bytes.len() < length {
            image.bytes.resize(length, 0);
        }
    }

    #[inline]
    fn place(&self, addr: Addr, bytes: usize) -> (usize, core::ops::Range<usize>) {
        let region = ((addr.0 >> 30) as usize).wrapping_sub(1);
        let offset = (addr.0.wrapping_sub(self.images[region].start.0)) as usize;
        (region, offset..offset + bytes)
    }

    /// The little-endian value of `bytes` (1, 2, 4 or 8) bytes at `addr`.
    ///
    /// # Panics
    /// If nothing was reserved there: a kernel went astray.
    #[inline]
    #[must_use]
    pub fn read(&self, addr: Addr, bytes: usize) -> u64 {
        let (region, range) = self.place(addr, bytes);
        let mut word = [0; 8];
        word[..bytes].copy_from_slice(&self.images[region].bytes[range]);
        u64::from_le_bytes(word)
    }

    /// Write the low `bytes` (1, 2, 4 or 8) bytes of `value` at `addr`.
    ///
    /// # Panics
    /// If nothing was reserved there.
    #[inline]
    pub fn write(&mut self, addr: Addr, bytes: usize, value: u64) {
        let (region, range) = self.place(addr, bytes);
        self.images[region].bytes[range].copy_from_slice(&value.to_le_bytes()[..bytes]);
    }

    /// Write the address `target` at `slot`, to be moved with the region of `target`.
    pub fn write_pointer(&mut self, slot: Addr, target: Addr) {
        let region = Region::of(target).expect("a pointer points into a region");
        self.write(slot, 8, target.0);
        self.pointers.push(Pointer {
            slot,
            target: region,
        });
    }

    /// Write `difference` at `slot`, to be moved with `target`: what is added to a number that is
    /// no address and yields one in `target` (`__per_cpu_offset[cpu]`).
    pub fn write_difference(&mut self, slot: Addr, difference: u64, target: Region) {
        self.write(slot, 8, difference);
        self.pointers.push(Pointer { slot, target });
    }

    /// The images as they must look when each region is moved by `moved_by[region]` bytes.
    #[must_use]
    pub fn relocated(&self, moved_by: [u64; 4]) -> Arena {
        let mut moved = self.clone();
        for p in &self.pointers {
            let word = self
                .read(p.slot, 8)
                .wrapping_add(moved_by[p.target as usize]);
            moved.write(p.slot, 8, word);
        }
        moved
    }
}

/// A seeded stream of numbers (SplitMix64, Steele, Lea and Flood 2014): the only randomness here.
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    /// The next number.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`, by multiplication: the bias is below `bound / 2^64`.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Shuffle `items` (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            let j = self.below(i as u64 + 1) as usize;
            items.swap(i, j);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_grow_both_ways_and_keep_what_is_in_them() {
        let mut arena = Arena::new();
        let high = Region::Slab.base().plus(9 << 20);
        arena.reserve(high, 64);
        arena.write(high, 8, 0x0123_4567_89ab_cdef);
        let low = Region::Slab.base().plus(3 << 20);
        arena.reserve(low, 8);
        assert_eq!(arena.read(high, 8), 0x0123_4567_89ab_cdef);
        assert_eq!(arena.read(low, 8), 0);
        assert_eq!(arena.read(high.plus(1), 2), 0xabcd);
    }

    #[test]
    fn relocation_moves_pointers_with_their_target_and_nothing_else() {
        let mut arena = Arena::new();
        let (slot, per_cpu) = (Region::Slab.base(), Region::PerCpu.base());
        arena.reserve(slot, 32);
        arena.reserve(per_cpu, 64);
        arena.write_pointer(slot, per_cpu.plus(8));
        arena.write(slot.plus(8), 8, per_cpu.0);
        arena.write_difference(slot.plus(16), per_cpu.0 - 0x1000, Region::PerCpu);
        let moved = arena.relocated([1 << 20, 5 << 21, 0, 0]);
        assert_eq!(moved.read(slot, 8), per_cpu.0 + 8 + (5 << 21));
        assert_eq!(
            moved.read(slot.plus(8), 8),
            per_cpu.0,
            "a plain number stays"
        );
        assert_eq!(moved.read(slot.plus(16), 8), per_cpu.0 - 0x1000 + (5 << 21));
    }
}
