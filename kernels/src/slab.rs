//! SLUB as far as it decides addresses: size classes, slabs, and a freelist in random order.
//!
//! Sources: Linux `mm/slub.c` and `mm/slab_common.c`; checked against `/sys/kernel/slab` of running
//! systems by whoever has one (`kwalk layout show`). Not modelled: per-CPU partial slabs, merging of
//! caches, objects of others that are freed in between.

use crate::arena::{Random, Region};
use crate::memory::Addr;

/// Page size that slabs are made of, in bytes.
pub const PAGE_BYTES: u64 = 4096;

/// `slub_max_order`: slabs of up to 8 pages (PAGE_ALLOC_COSTLY_ORDER).
const MAX_ORDER: u32 = 3;

/// Sizes of the `kmalloc-*` caches, in bytes.
pub const KMALLOC_CLASSES: [u32; 13] = [
    8, 16, 32, 64, 96, 128, 192, 256, 512, 1024, 2048, 4096, 8192,
];

/// The class that serves a `kmalloc` of `bytes`; `None` beyond 8 KiB, which is not slab memory.
#[must_use]
pub fn kmalloc_class(bytes: u32) -> Option<u32> {
    KMALLOC_CLASSES.into_iter().find(|c| *c >= bytes)
}

/// Order of the slabs of a cache: `2^order` pages each.
///
/// A slab should hold at least `4 * (fls(cpus) + 1)` objects; the smallest order that does, and
/// wastes at most 1/16 of the slab, then 1/8, then 1/4, wins. So kmalloc-1k has slabs of 8 objects
/// with one CPU and of 16 with two.
#[must_use]
pub fn slab_order(object_bytes: u32, cpus: u32) -> u32 {
    let size = u64::from(object_bytes);
    let wanted = 4 * (u64::from(u32::BITS - cpus.leading_zeros()) + 1);
    let most = (PAGE_BYTES << MAX_ORDER) / size;
    let least = wanted.min(most).max(1);
    let first = (0..=MAX_ORDER)
        .find(|order| (PAGE_BYTES << order) / size >= least)
        .unwrap_or(MAX_ORDER);
    for fraction in [16, 8, 4, 2] {
        for order in first..=MAX_ORDER {
            let slab = PAGE_BYTES << order;
            if slab % size <= slab / fraction {
                return order;
            }
        }
    }
    first
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
    #[must_use]
    pub fn new(object_bytes: u32, cpus: u32) -> Cache {
        let slab_bytes = PAGE_BYTES << slab_order(object_bytes, cpus);
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
                kmalloc_class(1816 + 8 * (level + 1)),
                Some(class),
                "level {level}"
            );
        }
        assert_eq!(kmalloc_class(8193), None);
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
