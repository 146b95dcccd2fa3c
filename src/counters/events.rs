//! Which event counts which metric on whose processor: the table of its microarchitecture, or,
//! where there is none, what Linux names.

use std::collections::BTreeMap;

use perf_event::Builder;
use perf_event::events::{Cache, CacheId, CacheOp, CacheResult, Hardware, Raw};

use super::format::Encoding;
use super::plan::Need;
use super::pmu::Pmu;
use super::tables::{Event, Microarchitecture};

/// `(metric, unit)`, in the order of the results.
pub const METRICS: [(&str, &str); 11] = [
    ("cycles", "cycles"),
    ("instructions", "instructions"),
    ("l1d_misses", "misses"),
    ("l2_misses", "misses"),
    ("l3_hits", "hits"),
    ("l3_misses", "misses"),
    ("hitm", "transfers"),
    ("dtlb_misses", "misses"),
    ("page_walks", "walks"),
    ("memory_stall_cycles", "cycles"),
    ("branch_misses", "misses"),
];

/// What `perf_event_open` is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// By the fields of one PMU.
    Raw(Encoding),
    /// By Linux's number, for the PMU of that type where there are several.
    Generic(Hardware, Option<u32>),
    /// Load misses of a cache by Linux's number, likewise.
    Cache(CacheId, Option<u32>),
    /// No PMU tells its fields: asked for only to learn why there is none, and never counted.
    Unknown,
}

impl Default for Code {
    fn default() -> Code {
        Code::Raw(Encoding::default())
    }
}

/// An event to try.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Candidate {
    /// As the vendor or Linux calls it.
    pub name: String,
    /// Its fields, where it is encoded by them.
    pub fields: BTreeMap<String, u64>,
    /// What is asked for.
    pub code: Code,
    /// What it takes of the PMU.
    pub need: Need,
}

impl Candidate {
    /// Counts user space of the calling thread.
    #[must_use]
    pub fn builder(&self) -> Builder<'static> {
        let of_pmu = |mut builder: Builder<'static>, kind: Option<u32>| {
            // Linux takes the PMU's type from the upper half of a generic event's config.
            builder.attrs_mut().config |= u64::from(kind.unwrap_or(0)) << 32;
            builder
        };
        let mut builder = match self.code {
            Code::Unknown => Builder::new(Hardware::CPU_CYCLES),
            Code::Generic(event, kind) => of_pmu(Builder::new(event), kind),
            Code::Cache(which, kind) => of_pmu(
                Builder::new(Cache {
                    which,
                    operation: CacheOp::READ,
                    result: CacheResult::MISS,
                }),
                kind,
            ),
            Code::Raw(Encoding { kind, config }) => {
                let raw = Raw::new(config[0]).config1(config[1]).config2(config[2]);
                let mut builder = Builder::new(raw);
                builder.attrs_mut().type_ = kind;
                builder.attrs_mut().config3 = config[3];
                builder
            }
        };
        builder.exclude_kernel(true).exclude_hv(true);
        builder
    }
}

/// The event for `metric`: that of `table`, or, without one, what Linux names on `pmu` or knows by
/// number. Why there is none is a sentence. A metric that the table lacks is never replaced by
/// another event.
pub fn candidate(
    metric: &str,
    table: Option<&Microarchitecture>,
    pmu: Option<&Pmu>,
) -> Result<Candidate, String> {
    match table {
        Some(table) => {
            let event = table.event(metric)?;
            encoded(event, pmu)
        }
        None => named(metric, pmu)
            .or_else(|| generic(metric, pmu))
            .ok_or_else(|| {
                "Linux names no event for it, and the processor is in no table of events; the other \
                 counters and times still work"
                    .to_owned()
            }),
    }
}

fn encoded(event: &Event, pmu: Option<&Pmu>) -> Result<Candidate, String> {
    let fields = || {
        event
            .fields
            .iter()
            .map(|(name, value)| (name.as_str(), *value))
    };
    let code = match pmu {
        Some(pmu) => Code::Raw(pmu.encode(fields()).map_err(|why| {
            format!(
                "{}: {why}; the other counters and times still work",
                event.name
            )
        })?),
        None => Code::Unknown,
    };
    Ok(Candidate {
        name: event.name.clone(),
        fields: event.fields.clone(),
        code,
        need: Need {
            fixed: event.fixed,
            counters: event.counters,
            exclusive: event.exclusive.clone(),
        },
    })
}

/// Names of sysfs under which Linux lists the event for a metric: x86's, then Armv8's, then Apple's.
fn names(metric: &str) -> &'static [&'static str] {
    match metric {
        "cycles" => &["cpu-cycles", "cpu_cycles", "cycles"],
        "instructions" => &["instructions", "inst_retired"],
        "l1d_misses" => &["l1d_cache_refill"],
        "l2_misses" => &["l2d_cache_refill"],
        "l3_misses" => &["ll_cache_miss_rd"],
        "dtlb_misses" => &["l1d_tlb_refill"],
        "page_walks" => &["dtlb_walk"],
        "memory_stall_cycles" => &["stall_backend_mem"],
        "branch_misses" => &["branch-misses", "br_mis_pred_retired", "br_mis_pred"],
        _ => &[],
    }
}

fn named(metric: &str, pmu: Option<&Pmu>) -> Option<Candidate> {
    let pmu = pmu?;
    names(metric).iter().find_map(|name| {
        Some(Candidate {
            name: (*name).to_owned(),
            fields: super::format::fields(pmu.events.get(*name)?)?
                .into_iter()
                .collect(),
            code: Code::Raw(pmu.named(name)?),
            need: Need::default(),
        })
    })
}

fn generic(metric: &str, pmu: Option<&Pmu>) -> Option<Candidate> {
    let kind = pmu.filter(|pmu| pmu.is_hybrid()).map(|pmu| pmu.kind);
    let (name, code) = match metric {
        "cycles" => ("cpu-cycles", Code::Generic(Hardware::CPU_CYCLES, kind)),
        "instructions" => ("instructions", Code::Generic(Hardware::INSTRUCTIONS, kind)),
        "l1d_misses" => ("L1-dcache-load-misses", Code::Cache(CacheId::L1D, kind)),
        "l3_misses" => ("LLC-load-misses", Code::Cache(CacheId::LL, kind)),
        "dtlb_misses" => ("dTLB-load-misses", Code::Cache(CacheId::DTLB, kind)),
        "branch_misses" => (
            "branch-misses",
            Code::Generic(Hardware::BRANCH_MISSES, kind),
        ),
        _ => return None,
    };
    Some(Candidate {
        name: name.to_owned(),
        fields: BTreeMap::new(),
        code,
        need: Need::default(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::format::Format;
    use crate::counters::tables;

    fn pmu(name: &str, kind: u32, events: &[(&str, &str)]) -> Pmu {
        let format = |text: &str| Format::parse(text).unwrap();
        Pmu {
            name: name.to_owned(),
            kind,
            cpus: None,
            formats: [("event", "config:0-7"), ("umask", "config:8-15")]
                .map(|(name, text)| (name.to_owned(), format(text)))
                .into(),
            events: events
                .iter()
                .map(|&(name, text)| (name.to_owned(), text.to_owned()))
                .collect(),
            caps: BTreeMap::new(),
        }
    }

    fn table(name: &str) -> Microarchitecture {
        tables::all().into_iter().find(|t| t.name == name).unwrap()
    }

    /// With a table its event is taken, by the type of the PMU: on an E core never the number of the P
    /// core's. A field that the PMU lacks is a sentence.
    #[test]
    fn a_table_is_encoded_for_the_pmu() {
        let gracemont = table("intel-gracemont");
        let atom = pmu("cpu_atom", 10, &[]);
        let found = candidate("hitm", Some(&gracemont), Some(&atom)).unwrap();
        assert_eq!(found.name, "MEM_LOAD_UOPS_RETIRED.HITM");
        let config = [0x20d1, 0, 0, 0];
        assert_eq!(found.code, Code::Raw(Encoding { kind: 10, config }));
        let builder = found.builder();
        assert_eq!(
            (builder.attrs().type_, builder.attrs().config),
            (10, 0x20d1)
        );
        let skylake = table("intel-skylake");
        let why = candidate("memory_stall_cycles", Some(&skylake), Some(&atom)).unwrap_err();
        assert!(why.contains("no field cmask"), "{why}");
    }

    /// What a table lacks is never replaced: AMD has no HITM although Linux's names might have one.
    #[test]
    fn an_absent_metric_stays_absent() {
        let zen = table("amd-zen-3");
        let cpu = pmu(
            "cpu",
            4,
            &[("branch-misses", "event=0xc3"), ("hitm", "event=1")],
        );
        let why = candidate("hitm", Some(&zen), Some(&cpu)).unwrap_err();
        assert!(why.contains("modified"), "{why}");
        // Without a PMU the event is still asked for, so that Linux's refusal gives the reason.
        let asked = candidate("l2_misses", Some(&zen), None).unwrap();
        assert_eq!(asked.name, "l2_cache_req_stat.ls_rd_blk_c");
        assert_eq!(asked.code, Code::Unknown);
    }

    /// Without a table: what Linux names in sysfs, then its numbers, for this PMU on hybrids.
    #[test]
    fn unknown_processors_get_what_linux_names() {
        let apple = pmu(
            "apple_firestorm_pmu",
            9,
            &[("cycles", "event=0x02"), ("instructions", "event=0x8c")],
        );
        for (metric, config) in [("cycles", 0x02), ("instructions", 0x8c)] {
            let found = candidate(metric, None, Some(&apple)).unwrap();
            let Code::Raw(encoding) = found.code else {
                panic!("{found:?}")
            };
            assert_eq!((encoding.kind, encoding.config[0]), (9, config));
        }
        let why = candidate("hitm", None, Some(&apple)).unwrap_err();
        assert!(why.contains("in no table"), "{why}");
        let core = pmu("cpu_atom", 10, &[]);
        let cycles = candidate("cycles", None, Some(&core)).unwrap();
        assert_eq!(cycles.builder().attrs().config, 10 << 32);
        let cpu = pmu("cpu", 4, &[]);
        let found = candidate("l3_misses", None, Some(&cpu)).unwrap();
        // PERF_COUNT_HW_CACHE_LL is 2, a read 0, a miss 1 (perf_event_open(2)).
        assert_eq!(
            (
                found.builder().attrs().type_,
                found.builder().attrs().config
            ),
            (3, 0x1_0002)
        );
    }
}
