//! Which event counts which metric on whose processor.

use perf_event::Builder;
use perf_event::events::{Cache, CacheId, CacheOp, CacheResult, Hardware, Raw};

/// `(metric, unit)`, in the order of the results.
pub const METRICS: [(&str, &str); 6] = [
    ("cycles", "cycles"),
    ("instructions", "instructions"),
    ("l1d_misses", "misses"),
    ("l2_misses", "misses"),
    ("l3_misses", "misses"),
    ("dtlb_misses", "misses"),
];

/// Whose events a processor has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vendor {
    /// Intel Core and Xeon since Skylake.
    Intel,
    /// AMD Zen 3 to Zen 5 (families 0x19 and 0x1a).
    AmdZen3,
    /// Other AMD Zen (family 0x17).
    AmdZen,
    /// Armv8 PMU.
    Arm,
    /// Another: generic events only.
    Other,
}

impl Vendor {
    /// That of the processor we run on.
    pub fn of_this_host() -> Vendor {
        #[cfg(target_arch = "x86_64")]
        let cpuid = {
            let cpuid = raw_cpuid::CpuId::new();
            let family = cpuid.get_feature_info().map(|f| f.family_id());
            let vendor = cpuid.get_vendor_info().map(|v| v.as_str().to_owned());
            vendor.zip(family)
        };
        #[cfg(not(target_arch = "x86_64"))]
        let cpuid: Option<(String, u8)> = None;
        Vendor::of(
            std::env::consts::ARCH,
            cpuid.as_ref().map(|(vendor, family)| (&**vendor, *family)),
        )
    }

    /// From Rust's name of the architecture, and CPUID's vendor and family where there is CPUID.
    fn of(arch: &str, cpuid: Option<(&str, u8)>) -> Vendor {
        match (arch, cpuid) {
            (_, Some(("GenuineIntel", 6..))) => Vendor::Intel,
            (_, Some(("AuthenticAMD", 0x19..))) => Vendor::AmdZen3,
            (_, Some(("AuthenticAMD", 0x17))) => Vendor::AmdZen,
            ("aarch64", None) => Vendor::Arm,
            _ => Vendor::Other,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Code {
    Generic(Hardware),
    Cache(CacheId),
    Raw(u64),
}

/// An event to try.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// As the vendor or Linux calls it.
    pub name: String,
    code: Code,
}

impl Candidate {
    /// Counts user space of the calling thread.
    pub fn builder(&self) -> Builder<'static> {
        let mut builder = match self.code {
            Code::Generic(event) => Builder::new(event),
            Code::Cache(which) => Builder::new(Cache {
                which,
                operation: CacheOp::READ,
                result: CacheResult::MISS,
            }),
            Code::Raw(config) => Builder::new(Raw::new(config)),
        };
        builder.exclude_kernel(true).exclude_hv(true);
        builder
    }
}

/// Events for `metric`, the preferred one first.
///
/// Sources: Intel SDM, MEM_LOAD_RETIRED (event 0xd1; umask 0x10 L2_MISS, 0x20 L3_MISS); AMD PPR
/// and the event lists of Linux's perf for Zen 3 to 5 (L2CacheReqStat 0x64 umask 0x08; demand fills
/// from DRAM or MMIO 0x43 umask 0x48: AMD's own L3 counters are system-wide); Arm ARM, common
/// events (0x03 L1D_CACHE_REFILL, 0x17 L2D_CACHE_REFILL, 0x37 LL_CACHE_MISS_RD, 0x05
/// L1D_TLB_REFILL).
pub fn candidates(metric: &str, vendor: Vendor) -> Vec<Candidate> {
    let candidate = |name: &str, code| Candidate {
        name: name.into(),
        code,
    };
    let mut found = Vec::new();
    let generic = match metric {
        "cycles" => Some(("cpu-cycles", Code::Generic(Hardware::CPU_CYCLES))),
        "instructions" => Some(("instructions", Code::Generic(Hardware::INSTRUCTIONS))),
        "l1d_misses" => Some(("L1-dcache-load-misses", Code::Cache(CacheId::L1D))),
        "l3_misses" => Some(("LLC-load-misses", Code::Cache(CacheId::LL))),
        "dtlb_misses" => Some(("dTLB-load-misses", Code::Cache(CacheId::DTLB))),
        _ => None,
    };
    let raw = match (metric, vendor) {
        ("l2_misses", Vendor::Intel) => Some(("MEM_LOAD_RETIRED.L2_MISS", 0x10d1)),
        ("l3_misses", Vendor::Intel) => Some(("MEM_LOAD_RETIRED.L3_MISS", 0x20d1)),
        ("l2_misses", Vendor::AmdZen | Vendor::AmdZen3) => {
            Some(("l2_cache_req_stat.ls_rd_blk_c", 0x0864))
        }
        ("l3_misses", Vendor::AmdZen3) => Some(("ls_dmnd_fills_from_sys.dram_io_all", 0x4843)),
        ("l1d_misses", Vendor::Arm) => Some(("L1D_CACHE_REFILL", 0x03)),
        ("l2_misses", Vendor::Arm) => Some(("L2D_CACHE_REFILL", 0x17)),
        ("l3_misses", Vendor::Arm) => Some(("LL_CACHE_MISS_RD", 0x37)),
        ("dtlb_misses", Vendor::Arm) => Some(("L1D_TLB_REFILL", 0x05)),
        _ => None,
    };
    found.extend(generic.map(|(name, code)| candidate(name, code)));
    found.extend(raw.map(|(name, config)| candidate(name, Code::Raw(config))));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_has_an_event_where_vendors_have_one() {
        for vendor in [Vendor::Intel, Vendor::AmdZen3, Vendor::Arm] {
            for (metric, _) in METRICS {
                assert!(
                    !candidates(metric, vendor).is_empty(),
                    "{metric} {vendor:?}"
                );
            }
        }
        assert!(candidates("l2_misses", Vendor::Other).is_empty());
    }

    #[test]
    fn vendors_are_told_by_architecture_and_cpuid() {
        for (arch, cpuid, expected) in [
            ("x86_64", Some(("GenuineIntel", 6)), Vendor::Intel),
            ("x86_64", Some(("AuthenticAMD", 0x1a)), Vendor::AmdZen3),
            ("x86_64", Some(("AuthenticAMD", 0x17)), Vendor::AmdZen),
            ("x86_64", Some(("AuthenticAMD", 0x10)), Vendor::Other),
            ("x86_64", Some(("CentaurHauls", 6)), Vendor::Other),
            ("aarch64", None, Vendor::Arm),
            ("riscv64", None, Vendor::Other),
        ] {
            assert_eq!(Vendor::of(arch, cpuid), expected, "{arch} {cpuid:?}");
        }
    }

    /// Raw codes as perf writes them: umask in bits 8 to 15, event in bits 0 to 7.
    #[test]
    fn raw_codes_are_umask_and_event() {
        for (metric, vendor, event, umask) in [
            ("l2_misses", Vendor::Intel, 0xd1, 0x10),
            ("l3_misses", Vendor::Intel, 0xd1, 0x20),
            ("l2_misses", Vendor::AmdZen, 0x64, 0x08),
            ("l3_misses", Vendor::AmdZen3, 0x43, 0x48),
        ] {
            let code = candidates(metric, vendor).last().unwrap().code;
            assert_eq!(code, Code::Raw(umask << 8 | event), "{metric} {vendor:?}");
        }
    }
}
