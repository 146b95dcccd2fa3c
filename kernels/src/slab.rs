//! SLUB as far as it decides addresses: size classes, slabs, and a freelist in random order.
//!
//! Sources: Linux, mm/slub.c (`calculate_order`, `calc_slab_order`) and mm/slab_common.c
//! (`kmalloc_info`), as of 6.8 and later; earlier ones agree for every power-of-two size. Checked
//! against `/sys/kernel/slab` of running systems by whoever has one (`kwalk layout show`). Not
//! modelled: per-CPU partial slabs, merging of caches, objects of others that are freed in between,
//! `slub_min_order` and other boot parameters, slab debugging, the larger smallest class of arm64
//! (128 B before 6.5), and the 16 copies of RANDOM_KMALLOC_CACHES, which have the same geometry.

use crate::arena::{Random, Region};
use crate::memory::Addr;

/// Page size that slabs are made of, in bytes.
pub const PAGE_BYTES: u64 = 4096;

/// Slabs of up to 8 pages (`slub_max_order`, PAGE_ALLOC_COSTLY_ORDER), if an object fits.
const MAX_ORDER: u32 = 3;

/// The largest that a slab gets when not even one object fits into `2^MAX_ORDER` pages
/// (MAX_PAGE_ORDER).
pub const LARGEST_ORDER: u32 = 10;

/// Sizes of the `kmalloc-*` caches, in bytes. Larger requests go to the page allocator.
pub const KMALLOC_CLASSES_BYTES: [u32; 13] = [
    8, 16, 32, 64, 96, 128, 192, 256, 512, 1024, 2048, 4096, 8192,
];

/// The class that serves a `kmalloc` of `bytes`, in bytes; `None` above 8 KiB, which is not slab
/// memory, and for 0.
#[must_use]
pub fn kmalloc_class_bytes(bytes: u32) -> Option<u32> {
    KMALLOC_CLASSES_BYTES
        .into_iter()
        .find(|&class| bytes > 0 && bytes <= class)
}

/// Order of the slabs of a cache whose objects lie `slot_bytes` apart: `2^order` pages each. `None`
/// if no slab can hold one.
///
/// A slab should hold at least `4 * (fls(cpus) + 1)` objects, if that many fit into 8 pages; the
/// smallest order that does, and wastes at most 1/16 of the slab, then 1/8, 1/4, 1/2, wins. So
/// kmalloc-1k has slabs of 8 objects with one CPU and of 16 with two.
#[must_use]
pub fn slab_order(slot_bytes: u32, cpus: u32) -> Option<u32> {
    let slot = u64::from(slot_bytes);
    if slot == 0 {
        return None;
    }
    let wanted = 4 * (u64::from(u32::BITS - cpus.leading_zeros()) + 1);
    let most = (PAGE_BYTES << MAX_ORDER) / slot;
    let least = order_of(wanted.min(most.max(1)) * slot);
    for fraction in [16, 8, 4, 2] {
        for order in least..=MAX_ORDER {
            let slab = PAGE_BYTES << order;
            if slab % slot <= slab / fraction {
                return Some(order);
            }
        }
    }
    Some(order_of(slot)).filter(|&order| order <= LARGEST_ORDER)
}

/// The smallest power of two of pages that holds `bytes`.
fn order_of(bytes: u64) -> u32 {
    bytes
        .div_ceil(PAGE_BYTES)
        .next_power_of_two()
        .trailing_zeros()
}

/// Where slabs come from: blocks of a region, aligned to their size, with gaps between.
#[derive(Clone, Debug)]
pub struct Blocks {
    next: u64,
}

impl Blocks {
    /// Blocks from `offset_bytes` into `region` on.
    #[must_use]
    pub fn new(region: Region, offset_bytes: u64) -> Blocks {
        Blocks {
            next: region.base().0 + offset_bytes,
        }
    }

    /// A block of `bytes`, aligned to `align_bytes`, behind a gap of up to seven of its size: other
    /// caches' slabs lie there.
    pub fn take(&mut self, bytes: u64, align_bytes: u64, random: &mut Random) -> Addr {
        let start = self.next.next_multiple_of(align_bytes) + bytes * random.below(8);
        let start = start.next_multiple_of(align_bytes);
        self.next = start + bytes;
        Addr(start)
    }
}

/// One cache: hands out objects as SLUB does.
#[derive(Clone, Debug)]
pub struct Cache {
    object_bytes: u32,
    slab_bytes: u64,
    /// Free objects of the present slab, last first.
    free: Vec<Addr>,
    fresh: bool,
}

impl Cache {
    /// A cache of objects `object_bytes` apart on a system with `cpus` CPUs.
    ///
    /// # Panics
    /// If no slab can hold one.
    #[must_use]
    pub fn new(object_bytes: u32, cpus: u32) -> Cache {
        let order = slab_order(object_bytes, cpus).expect("a slab that holds an object");
        let slab_bytes = PAGE_BYTES << order;
        Cache {
            object_bytes,
            slab_bytes,
            free: Vec::new(),
            fresh: true,
        }
    }

    /// Objects per slab.
    #[must_use]
    pub fn objects_per_slab(&self) -> u64 {
        self.slab_bytes / u64::from(self.object_bytes)
    }

    /// The next object. The first slab is one that others already took objects from.
    pub fn take(&mut self, blocks: &mut Blocks, random: &mut Random) -> Addr {
        if let Some(object) = self.free.pop() {
            return object;
        }
        let slab = blocks.take(self.slab_bytes, self.slab_bytes, random);
        let objects = self.objects_per_slab();
        self.free = (0..objects)
            .map(|i| slab.plus(i * u64::from(self.object_bytes)))
            .collect();
        // SLAB_FREELIST_RANDOM.
        random.shuffle(&mut self.free);
        if core::mem::take(&mut self.fresh) {
            let left = 1 + random.below(objects);
            self.free.truncate(left as usize);
        }
        self.free
            .pop()
            .expect("a new slab has at least one free object")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// facts/psi.md section 2, from /sys/kernel/slab of a guest with two CPUs, and the recorded
    /// placement of a guest with one.
    #[test]
    fn orders_are_those_of_running_systems() {
        for (object_bytes, cpus, objects) in [
            (1024, 2, 16),
            (2048, 2, 16),
            (4096, 2, 8),
            (1024, 1, 8),
            (4096, 1, 8),
        ] {
            let cache = Cache::new(object_bytes, cpus);
            assert_eq!(
                cache.objects_per_slab(),
                objects,
                "{object_bytes} bytes, {cpus} CPUs"
            );
        }
    }

    /// v6.2: 1816 bytes and 8 per ancestor slot; level n has n + 1 slots.
    #[test]
    fn cgroups_of_6_2_outgrow_their_class_at_level_29() {
        for (level, class) in [(1, 2048), (28, 2048), (29, 4096), (50, 4096)] {
            assert_eq!(
                kmalloc_class_bytes(1816 + 8 * (level + 1)),
                Some(class),
                "level {level}"
            );
        }
    }

    #[test]
    fn classes_have_sharp_edges() {
        for (bytes, class) in [
            (0, None),
            (1, Some(8)),
            (8, Some(8)),
            (9, Some(16)),
            (65, Some(96)),
            (97, Some(128)),
            (129, Some(192)),
            (193, Some(256)),
            (1024, Some(1024)),
            (1025, Some(2048)),
            (8192, Some(8192)),
            (8193, None),
            (u32::MAX, None),
        ] {
            assert_eq!(kmalloc_class_bytes(bytes), class, "{bytes}");
        }
    }

    #[test]
    fn objects_are_distinct_aligned_and_fill_slab_after_slab() {
        let (mut blocks, mut random) = (Blocks::new(Region::Slab, 0), Random(7));
        let mut cache = Cache::new(1024, 2);
        let objects: Vec<u64> = (0..100)
            .map(|_| cache.take(&mut blocks, &mut random).0)
            .collect();
        let mut sorted = objects.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), 100);
        assert!(objects.iter().all(|a| a % 1024 == 0));
        // Whole slabs in between: each slab's 16 objects are handed out before the next slab's.
        let slab = |a: &u64| a >> 14;
        let changes = objects
            .windows(2)
            .filter(|w| slab(&w[0]) != slab(&w[1]))
            .count();
        assert!(
            (6..=7).contains(&changes),
            "{changes} changes of slab in 100 objects of 16"
        );
    }
}
