//! What CPUID tells, as a plain struct: the live one on x86, a recorded one in tests.
//!
//! CPUID answers for the CPU that it runs on, so it runs on a thread pinned to the CPU asked for:
//! on a hybrid processor another core would answer for other caches. How many CPUs share a cache
//! is not taken from it: leaf 4 has the largest number of APIC ids, not of CPUs.

use serde::{Deserialize, Serialize};

use super::sysfs::Tree;
use super::told::{Told, ToldCache};

/// CPUID of one CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Cpuid {
    /// Vendor string, such as `GenuineIntel`.
    pub vendor: String,
    /// Brand string.
    pub brand: Option<String>,
    /// Display family.
    pub family: u32,
    /// Display model.
    pub model: u32,
    /// Stepping.
    pub stepping: u32,
    /// Set where the hypervisor bit is: who it says it is.
    pub hypervisor: Option<String>,
    /// Leaf 0x1A of a hybrid processor: `core` or `atom`.
    pub core_type: Option<String>,
    /// Data and unified caches: leaf 4, AMD 0x8000001D.
    pub caches: Vec<CpuidCache>,
    /// Data TLBs: leaf 0x18, AMD 0x80000005 and 0x80000006.
    pub tlbs: Vec<CpuidTlb>,
    /// Clock of the time-stamp counter in Hz.
    pub tsc_hz: Option<u64>,
    /// The leaf that told it.
    pub tsc_leaf: Option<String>,
    /// Base clock in Hz, leaf 0x16.
    pub base_hz: Option<u64>,
    /// Highest clock in Hz, leaf 0x16.
    pub max_hz: Option<u64>,
    /// General performance counters of a thread: leaf 0xA, AMD 0x80000022.
    pub general_counters: Option<u32>,
}

/// One data or unified cache by CPUID.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CpuidCache {
    /// Level.
    pub level: u8,
    /// Sets.
    pub sets: u64,
    /// Ways.
    pub ways: u64,
    /// Line in bytes.
    pub line_bytes: u64,
}

/// One data TLB by CPUID.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CpuidTlb {
    /// 1 or 2.
    pub level: u8,
    /// Page sizes that it holds, in bytes.
    pub page_bytes: Vec<u64>,
    /// Entries.
    pub entries: u64,
}

impl Cpuid {
    /// Its caches in the form that all sources share.
    pub fn told(&self) -> Vec<ToldCache> {
        self.caches
            .iter()
            .map(|c| ToldCache {
                level: c.level,
                size_bytes: match c
                    .sets
                    .checked_mul(c.ways)
                    .and_then(|n| n.checked_mul(c.line_bytes))
                {
                    Some(bytes) => Told::Is(bytes),
                    None => Told::Unknown("sets * ways * line overflow".to_owned()),
                },
                ways: Told::Is(c.ways),
                sets: Told::Is(c.sets),
                line_bytes: Told::Is(c.line_bytes),
                shared_cpus: Vec::new(),
            })
            .collect()
    }
}

/// CPUID of `cpu` of this host, or as recorded in the `cpuid.toml` of another tree; the reason, in
/// words, where there is none.
pub fn of(tree: &Tree, cpu: u32) -> Result<Cpuid, String> {
    if tree.is_live() {
        return live(cpu);
    }
    match tree.text("cpuid.toml") {
        Told::Is(text) => toml::from_str(&text).map_err(|e| format!("cpuid.toml: {e}")),
        other => Err(format!("recorded CPUID: {}", other.words())),
    }
}

/// CPUID of `cpu`; the reason, in words, where there is none.
#[cfg(not(target_arch = "x86_64"))]
pub fn live(_cpu: u32) -> Result<Cpuid, String> {
    Err("this architecture has no CPUID".to_owned())
}

#[cfg(target_arch = "x86_64")]
pub use x86::live;

#[cfg(target_arch = "x86_64")]
mod x86 {
    use raw_cpuid::{Associativity, CacheType, CpuId, CpuIdReaderNative, DatType, Hypervisor};
    use rustix::thread::{CpuSet, sched_setaffinity};

    use super::{Cpuid, CpuidCache, CpuidTlb};

    type Native = CpuId<CpuIdReaderNative>;

    /// CPUID of `cpu`; the reason, in words, where there is none.
    pub fn live(cpu: u32) -> Result<Cpuid, String> {
        let pinned = std::thread::spawn(move || {
            if cpu as usize >= CpuSet::MAX_CPU {
                return Err(format!("CPU {cpu} is beyond what one affinity mask holds"));
            }
            let mut set = CpuSet::new();
            set.set(cpu as usize);
            sched_setaffinity(None, &set).map_err(|e| {
                format!("CPUID was not read: this process may not run on CPU {cpu} ({e})")
            })?;
            Ok(read(&CpuId::new()))
        });
        pinned
            .join()
            .unwrap_or_else(|_| Err("CPUID could not be read".to_owned()))
    }

    fn read(id: &Native) -> Cpuid {
        let features = id.get_feature_info();
        let vendor = id
            .get_vendor_info()
            .map_or_else(String::new, |v| v.as_str().to_owned());
        let guest = features.as_ref().is_some_and(|f| f.has_hypervisor());
        let (tsc_hz, tsc_leaf) = match tsc(id, guest) {
            Some((hz, leaf)) => (Some(hz), Some(leaf.to_owned())),
            None => (None, None),
        };
        let mhz = |mhz: u16| (mhz > 0).then(|| u64::from(mhz) * 1_000_000);
        let clocks = id.get_processor_frequency_info();
        Cpuid {
            brand: id
                .get_processor_brand_string()
                .map(|b| super::super::sysfs::one_spaced(b.as_str())),
            family: features.as_ref().map_or(0, |f| f.family_id().into()),
            model: features.as_ref().map_or(0, |f| f.model_id().into()),
            stepping: features.as_ref().map_or(0, |f| f.stepping_id().into()),
            hypervisor: guest.then(|| hypervisor(id)),
            core_type: core_type(&vendor),
            caches: caches(id),
            tlbs: tlbs(id, &vendor),
            tsc_hz,
            tsc_leaf,
            base_hz: clocks
                .as_ref()
                .and_then(|c| mhz(c.processor_base_frequency())),
            max_hz: clocks
                .as_ref()
                .and_then(|c| mhz(c.processor_max_frequency())),
            general_counters: general_counters(id, &vendor),
            vendor,
        }
    }

    /// Leaf 0xA, bits 15 to 8 of EAX (Intel SDM, volume 2A, CPUID); AMD: leaf 0x80000022, bits 3 to
    /// 0 of EBX where bit 0 of EAX says that it is version 2 (AMD APM, volume 3). 0 is not told.
    fn general_counters(id: &Native, vendor: &str) -> Option<u32> {
        let counters = match vendor {
            "AuthenticAMD" => {
                let leaf = 0x8000_0022;
                if raw_cpuid::cpuid!(0x8000_0000_u32).eax < leaf {
                    return None;
                }
                let told = raw_cpuid::cpuid!(leaf);
                if told.eax & 1 == 1 { told.ebx & 0xf } else { 0 }
            }
            _ => id
                .get_performance_monitoring_info()?
                .number_of_counters()
                .into(),
        };
        (counters > 0).then_some(counters)
    }

    fn hypervisor(id: &Native) -> String {
        match id.get_hypervisor_info().map(|h| h.identify()) {
            Some(Hypervisor::Unknown(..)) | None => "a hypervisor that gives no name".to_owned(),
            Some(known) => format!("{known:?}"),
        }
    }

    /// Leaf 0x1A, bits 31 to 24 of EAX: 0x40 is Core, 0x20 is Atom (Intel SDM, volume 2A, CPUID).
    fn core_type(vendor: &str) -> Option<String> {
        if vendor != "GenuineIntel" || raw_cpuid::cpuid!(0).eax < 0x1a {
            return None;
        }
        match raw_cpuid::cpuid!(0x1a, 0).eax >> 24 {
            0x40 => Some("core".to_owned()),
            0x20 => Some("atom".to_owned()),
            _ => None,
        }
    }

    fn caches(id: &Native) -> Vec<CpuidCache> {
        let mut caches: Vec<CpuidCache> = id
            .get_cache_parameters()
            .into_iter()
            .flatten()
            .filter(|c| matches!(c.cache_type(), CacheType::Data | CacheType::Unified))
            .map(|c| CpuidCache {
                level: c.level(),
                sets: c.sets() as u64,
                ways: (c.associativity() * c.physical_line_partitions()) as u64,
                line_bytes: c.coherency_line_size() as u64,
            })
            .collect();
        caches.sort_by_key(|c| c.level);
        caches
    }

    fn tlbs(id: &Native, vendor: &str) -> Vec<CpuidTlb> {
        const K4: u64 = 4 << 10;
        const M2: u64 = 2 << 20;
        let mut found = Vec::new();
        if vendor == "AuthenticAMD" {
            // Reserved fields read as disabled.
            let mut push = |level, page, entries: u64, way: Associativity| {
                if entries > 0 && way != Associativity::Disabled {
                    found.push(CpuidTlb {
                        level,
                        page_bytes: vec![page],
                        entries,
                    });
                }
            };
            if let Some(l1) = id.get_l1_cache_and_tlb_info() {
                push(1, K4, l1.dtlb_4k_size().into(), l1.dtlb_4k_associativity());
                push(
                    1,
                    M2,
                    l1.dtlb_2m_4m_size().into(),
                    l1.dtlb_2m_4m_associativity(),
                );
            }
            if let Some(l2) = id.get_l2_l3_cache_and_tlb_info() {
                let unit = l2_tlb_unit();
                let (k4, m2) = (l2.dtlb_4k_size(), l2.dtlb_2m_4m_size());
                push(2, K4, unit * u64::from(k4), l2.dtlb_4k_associativity());
                push(2, M2, unit * u64::from(m2), l2.dtlb_2m_4m_associativity());
            }
            return found;
        }
        for dat in id
            .get_deterministic_address_translation_info()
            .into_iter()
            .flatten()
        {
            if !matches!(
                dat.cache_type(),
                DatType::DataTLB | DatType::UnifiedTLB | DatType::LoadOnly
            ) {
                continue;
            }
            let pages = [
                (dat.has_4k_entries(), K4),
                (dat.has_2mb_entries(), M2),
                (dat.has_1gb_entries(), 1 << 30),
            ];
            found.push(CpuidTlb {
                level: dat.cache_level(),
                page_bytes: pages.iter().filter(|p| p.0).map(|p| p.1).collect(),
                entries: u64::from(dat.ways()) * u64::from(dat.sets()),
            });
        }
        found
    }

    /// Entries per unit of the L2 TLB sizes: 32 where bit 14 of leaf 0x80000021's EAX says so
    /// (AMD APM, volume 3, L2TlbSizeX32), else 1.
    fn l2_tlb_unit() -> u64 {
        let leaf = 0x8000_0021;
        let says_so = raw_cpuid::cpuid!(0x8000_0000_u32).eax >= leaf
            && raw_cpuid::cpuid!(leaf).eax >> 14 & 1 == 1;
        if says_so { 32 } else { 1 }
    }

    /// The time-stamp counter's clock: what the hypervisor says of it first, since it may scale
    /// it, then leaf 0x15, then the base clock of leaf 0x16, at which Intel's counter runs where
    /// the crystal's clock is not told (Intel SDM, volume 3B, time-stamp counter).
    fn tsc(id: &Native, guest: bool) -> Option<(u64, &'static str)> {
        let told = guest
            .then(|| id.get_hypervisor_info()?.tsc_frequency())
            .flatten()
            .filter(|&khz| khz > 0)
            .map(|khz| (u64::from(khz) * 1000, "CPUID 0x40000010"));
        let crystal = || {
            let hz = id.get_tsc_info()?.tsc_frequency()?;
            (hz > 0).then_some((hz, "CPUID 0x15"))
        };
        let base = || {
            let mhz = id
                .get_processor_frequency_info()?
                .processor_base_frequency();
            (mhz > 0).then(|| (u64::from(mhz) * 1_000_000, "CPUID 0x16, base clock"))
        };
        told.or_else(crystal).or_else(base)
    }
}
