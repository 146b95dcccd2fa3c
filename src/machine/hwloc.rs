//! The caches of a CPU as hwloc sees them: a third opinion beside sysfs and CPUID.

use super::told::ToldCache;

/// The data and unified caches above `cpu`; the reason, in words, where there are none.
#[cfg(not(feature = "hwloc"))]
pub fn live(_cpu: u32) -> Result<Vec<ToldCache>, String> {
    Err("kwalk was built without its feature hwloc".to_owned())
}

/// The data and unified caches above `cpu`; the reason, in words, where there are none.
#[cfg(feature = "hwloc")]
pub fn live(cpu: u32) -> Result<Vec<ToldCache>, String> {
    use hwlocality::Topology;
    use hwlocality::object::attributes::{CacheAssociativity, ObjectAttributes};
    use hwlocality::object::types::CacheType;

    use super::told::Told;

    // Without it hwloc gives up, but not without writing to standard error itself.
    if !std::path::Path::new("/sys/devices/system/cpu/cpu0/topology").is_dir() {
        return Err("hwloc needs /sys/devices/system/cpu, which is not there".to_owned());
    }
    let topology = Topology::new().map_err(|e| format!("hwloc failed: {e}"))?;
    let pu = topology
        .pu_with_os_index(cpu as usize)
        .ok_or_else(|| format!("hwloc does not see CPU {cpu}"))?;
    let or_unknown = |value: Option<u64>| match value {
        Some(value) => Told::Is(value),
        None => Told::Unknown("hwloc has 0".to_owned()),
    };
    let mut caches: Vec<ToldCache> = pu
        .ancestors()
        .filter_map(|object| match object.attributes() {
            Some(ObjectAttributes::Cache(cache))
                if cache.cache_type() != CacheType::Instruction =>
            {
                Some(ToldCache {
                    level: u8::try_from(cache.depth()).ok()?,
                    size_bytes: or_unknown(cache.size().map(Into::into)),
                    ways: match cache.associativity() {
                        CacheAssociativity::Ways(ways) => Told::Is(ways.get() as u64),
                        // As sysfs has it.
                        CacheAssociativity::Full => Told::Is(0),
                        CacheAssociativity::Unknown => Told::Unknown("hwloc has 0".to_owned()),
                    },
                    // hwloc does not tell sets; computing them would only repeat the others.
                    sets: Told::Absent,
                    line_bytes: or_unknown(cache.line_size().map(|line| line.get() as u64)),
                    shared_cpus: Vec::new(),
                })
            }
            _ => None,
        })
        .collect();
    caches.sort_by_key(|c| c.level);
    Ok(caches)
}
