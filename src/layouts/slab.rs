//! Where SLUB puts heap objects: size class, alignment, pages per slab; and what a host says.
//!
//! The rules, their source and what they leave out: [`kernels::slab`].

use std::fmt::Write as _;
use std::path::Path;

pub use kernels::slab::{KMALLOC_CLASSES_BYTES, kmalloc_class_bytes};
use kernels::slab::{LARGEST_ORDER, PAGE_BYTES, slab_order};

/// Geometry of one slab cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlabCache {
    /// As under `/sys/kernel/slab`.
    pub name: String,
    /// What an object may use, in bytes.
    pub object_bytes: u32,
    /// Distance between neighbouring objects, in bytes.
    pub slot_bytes: u32,
    /// Alignment of every object, in bytes.
    pub align_bytes: u32,
    /// Objects in one slab.
    pub objects_per_slab: u32,
    /// A slab has `2^order` pages.
    pub order: u32,
}

impl SlabCache {
    /// Size of one slab, in bytes.
    #[must_use]
    pub fn slab_bytes(&self) -> u32 {
        (PAGE_BYTES as u32) << self.order
    }
}

/// `kmalloc-192`, `kmalloc-1k`: the name of a class.
#[must_use]
pub fn kmalloc_name(class_bytes: u32) -> String {
    if class_bytes >= 1024 {
        format!("kmalloc-{}k", class_bytes / 1024)
    } else {
        format!("kmalloc-{class_bytes}")
    }
}

/// The cache that serves a kmalloc of `bytes` on a Linux with `cpus` CPUs present.
///
/// Objects are aligned to the largest power of two that divides the class (6.12 on; before, classes
/// 96 and 192 had only the smallest alignment of the architecture).
#[must_use]
pub fn predicted(bytes: u32, cpus: u32) -> Option<SlabCache> {
    let class = kmalloc_class_bytes(bytes)?;
    let align = 1 << class.trailing_zeros();
    predicted_cache(&kmalloc_name(class), class, align, cpus)
}

/// The geometry of a cache of its own, for objects of `object_bytes` aligned to `align_bytes` (a
/// power of two, 8 at least). `None` if no slab can hold one.
#[must_use]
pub fn predicted_cache(
    name: &str,
    object_bytes: u32,
    align_bytes: u32,
    cpus: u32,
) -> Option<SlabCache> {
    let slot_bytes = object_bytes.checked_next_multiple_of(align_bytes)?;
    let order = slab_order(slot_bytes, cpus)?;
    Some(SlabCache {
        name: name.into(),
        object_bytes,
        slot_bytes,
        align_bytes,
        objects_per_slab: ((PAGE_BYTES as u32) << order) / slot_bytes,
        order,
    })
}

/// The cache `name` below `sysfs_root` (`/sys/kernel/slab` on a host). A refusal is a sentence.
pub fn read(sysfs_root: &Path, name: &str) -> Result<SlabCache, String> {
    let number = |key: &str| {
        let path = sysfs_root.join(name).join(key);
        let text = std::fs::read_to_string(&path)
            .map_err(|e| format!("{} cannot be read: {e}", path.display()))?;
        text.trim().parse::<u32>().map_err(|_| {
            let shown: String = text.trim().chars().take(20).collect();
            format!("{} holds \"{shown}\", which is no number", path.display())
        })
    };
    let cache = SlabCache {
        name: name.into(),
        object_bytes: number("object_size")?,
        slot_bytes: number("slab_size")?,
        align_bytes: number("align")?,
        objects_per_slab: number("objs_per_slab")?,
        order: number("order")?,
    };
    if cache.order > LARGEST_ORDER {
        return Err(format!(
            "{}: order {} is beyond {LARGEST_ORDER}, the largest that Linux allocates",
            sysfs_root.join(name).display(),
            cache.order
        ));
    }
    Ok(cache)
}

/// Each way in which a host differs from the rules, one sentence each; none if it does not.
#[must_use]
pub fn differences(predicted: &SlabCache, observed: &SlabCache) -> Vec<String> {
    [
        (
            "object size",
            predicted.object_bytes,
            observed.object_bytes,
            " B",
        ),
        (
            "distance of objects",
            predicted.slot_bytes,
            observed.slot_bytes,
            " B",
        ),
        (
            "alignment",
            predicted.align_bytes,
            observed.align_bytes,
            " B",
        ),
        (
            "objects per slab",
            predicted.objects_per_slab,
            observed.objects_per_slab,
            "",
        ),
        ("slab order", predicted.order, observed.order, ""),
    ]
    .into_iter()
    .filter(|(_, rule, host, _)| rule != host)
    .map(|(what, rule, host, unit)| {
        format!(
            "{}: {what} is {host}{unit} here, {rule}{unit} by the rules",
            observed.name
        )
    })
    .collect()
}

/// Number of CPUs in a list of sysfs such as `0-3,8`; `None` if it is not one.
#[must_use]
pub fn cpus_in_list(list: &str) -> Option<u32> {
    let mut cpus = 0_u32;
    for part in list.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        cpus = cpus.checked_add(last.checked_sub(first)?.checked_add(1)?)?;
    }
    Some(cpus)
}

/// A cgroup is allocated with one pointer per ancestor and itself behind it.
const ANCESTOR_BYTES: u32 = 8;

/// Deeper than any experiment goes.
const MAX_LEVEL: u32 = 1000;

/// Runs of cgroup levels (the root is level 0) whose objects come from one class, for a
/// `struct cgroup` of `size_bytes`: first level, last level, class; the class is `None` where the
/// page allocator serves. Source: Linux,
/// kernel/cgroup/cgroup.c, `cgroup_create` asks for `size + 8 * (level + 1)` bytes.
#[must_use]
pub fn cgroup_classes(size_bytes: u32) -> Vec<(u32, u32, Option<u32>)> {
    let mut runs: Vec<(u32, u32, Option<u32>)> = Vec::new();
    for level in 0..=MAX_LEVEL {
        let class = kmalloc_class_bytes(size_bytes.saturating_add(ANCESTOR_BYTES * (level + 1)));
        match runs.last_mut() {
            Some((_, last, same)) if *same == class => *last = level,
            _ => runs.push((level, level, class)),
        }
    }
    runs
}

/// How objects of a struct come to be, in sentences: class and geometry by the rules for `cpus`
/// CPUs, and each difference to the host's caches below `sysfs_root` where they can be read. Empty
/// for a struct of which nothing is known.
#[must_use]
pub fn allocation_notes(
    struct_name: &str,
    size_bytes: u32,
    cpus: u32,
    sysfs_root: Option<&Path>,
) -> Vec<String> {
    let mut notes = Vec::new();
    let mut say = |prefix: &str, cache: Option<SlabCache>| match cache {
        Some(cache) => {
            let mut note = format!(
                "{prefix}{}: {} B apart, {}-aligned, {} in a slab of {} KiB",
                cache.name,
                cache.slot_bytes,
                cache.align_bytes,
                cache.objects_per_slab,
                cache.slab_bytes() / 1024,
            );
            match sysfs_root.map(|root| read(root, &cache.name)) {
                None => {}
                Some(Err(why)) => _ = write!(note, "; not compared with the host: {why}"),
                Some(Ok(host)) => match &differences(&cache, &host)[..] {
                    [] => note += "; the same on this host",
                    differ => _ = write!(note, "; differs on this host: {}", differ.join("; ")),
                },
            }
            notes.push(note);
        }
        None => notes.push(format!("{prefix}page allocator: no slab")),
    };
    match struct_name {
        "cgroup" => {
            for (first, last, class) in cgroup_classes(size_bytes) {
                let prefix = match last {
                    MAX_LEVEL if first == 0 => "every level: ".to_string(),
                    MAX_LEVEL => format!("level {first} on: "),
                    _ => format!("level {first} to {last}: "),
                };
                say(&prefix, class.and_then(|c| predicted(c, cpus)));
            }
        }
        "psi_group" | "css_set" => say("", predicted(size_bytes, cpus)),
        "kernfs_node" => say(
            "",
            predicted_cache("kernfs_node_cache", size_bytes, 8, cpus),
        ),
        _ => {}
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1 CPU: 4 * (1 + 1) = 8 objects wanted, 8 KiB for kmalloc-1k, order 1 (seen in the recorded
    /// guests). 2 CPUs: 12 wanted, 12 KiB, so order 2 and 16 objects. 8 CPUs: 4 * (4 + 1) = 20
    /// wanted, 20 KiB, order 3 and 32 objects. 2 KiB: 24 KiB, order 3. 4 KiB: 12 do not fit into 8
    /// pages, so 8 wanted.
    #[test]
    fn order_follows_the_number_of_cpus() {
        for (bytes, cpus, objects, order) in [
            (720, 1, 8, 1),
            (720, 2, 16, 2),
            (720, 8, 32, 3),
            (1824, 1, 8, 2),
            (1824, 2, 16, 3),
            (2312, 2, 8, 3),
            (2312, 64, 8, 3),
            (8192, 2, 4, 3),
        ] {
            let cache = predicted(bytes, cpus).expect("below 8 KiB");
            assert_eq!(
                (cache.objects_per_slab, cache.order),
                (objects, order),
                "{bytes} B, {cpus} CPUs"
            );
        }
    }

    /// 1816 + 8 * 29 = 2048 is the last that fits 2 KiB: level 28. 1792 + 8 * 32 = 2048: level 31.
    /// 1984 + 8 * 8 = 2048: level 7. 2304 is beyond 2 KiB at once; 2304 + 8 * 224 = 4096: level
    /// 223; 2304 + 8 * 736 = 8192: level 735.
    #[test]
    fn cgroups_outgrow_their_class_with_depth() {
        for (size, first_runs) in [
            (1816, [(0, 28, Some(2048)), (29, 284, Some(4096))]),
            (1792, [(0, 31, Some(2048)), (32, 287, Some(4096))]),
            (1984, [(0, 7, Some(2048)), (8, 263, Some(4096))]),
            (2304, [(0, 223, Some(4096)), (224, 735, Some(8192))]),
        ] {
            assert_eq!(cgroup_classes(size)[..2], first_runs, "size {size}");
        }
    }

    /// An object that no slab can hold is refused, and none of these overflows.
    #[test]
    fn absurd_sizes_are_refused() {
        for bytes in [0, (4096 << 10) + 1, u32::MAX - 7, u32::MAX] {
            assert_eq!(predicted_cache("x", bytes, 8, 2), None, "{bytes}");
        }
        let largest = predicted_cache("x", 4096 << 10, 8, 2).expect("fills the largest slab");
        assert_eq!((largest.objects_per_slab, largest.order), (1, 10));
    }

    #[test]
    fn lists_of_cpus() {
        for (list, cpus) in [
            ("0", Some(1)),
            ("0-3,8\n", Some(5)),
            ("", None),
            ("3-1", None),
            ("0-4294967295", None),
        ] {
            assert_eq!(cpus_in_list(list), cpus, "{list:?}");
        }
    }
}
