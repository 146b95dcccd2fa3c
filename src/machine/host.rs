//! The machine at hand: geometry as sysfs, CPUID and hwloc tell it, compared with each other; the
//! rest by processor family, until it is measured ([`Calibration`]).

use std::path::Path;

use serde::Serialize;

pub use super::calibration::Calibration;
use super::catalogue::{MachineError, known};
use super::cpuid::{self, Cpuid};
use super::family::{self, Family, Identity};
use super::geometry::Geometry;
use super::hwloc;
use super::linux::{self, Platform};
use super::sysfs::{Tree, list_words};
pub use super::told::Fact;
use super::told::{ToldCache, disagreements};
use super::{Cache, Machine};

/// This host as a machine, with all that is known of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HostMachine {
    /// What the model models.
    pub machine: Machine,
    /// Name of the processor family that the defaults are from.
    pub family: String,
    /// Everything that was told.
    pub facts: Vec<Fact>,
    /// Where sources differ, one sentence each.
    pub disagreements: Vec<String>,
    /// What was assumed or could not be had, one sentence each.
    pub notes: Vec<String>,
}

/// What there is beside sysfs; an error is the reason in words.
#[derive(Clone, Debug)]
pub struct Sources {
    /// CPUID of the CPU.
    pub cpuid: Result<Cpuid, String>,
    /// hwloc's caches of the CPU.
    pub hwloc: Result<Vec<ToldCache>, String>,
}

/// The machine that `cpu` belongs to. `root` is `/`, or a recorded tree of sysfs and procfs, in
/// which a file `cpuid.toml` holds the recorded [`Cpuid`].
pub fn read(root: &Path, cpu: u32) -> Result<HostMachine, MachineError> {
    let tree = Tree::new(root);
    let sources = Sources {
        cpuid: cpuid::of(&tree, cpu),
        hwloc: match tree.is_live() {
            true => hwloc::live(cpu),
            false => Err("this is a recorded tree".to_owned()),
        },
    };
    assemble(&tree, cpu, &sources)
}

/// [`read`] with the sources beside sysfs given.
pub fn assemble(tree: &Tree, cpu: u32, sources: &Sources) -> Result<HostMachine, MachineError> {
    let mut notes = Vec::new();
    let online = tree.online();
    if online.is_empty() {
        notes.push("/sys/devices/system/cpu is not there: CPUID alone is used.".to_owned());
    } else if !online.contains(&cpu) {
        return Err(MachineError::NoCpu {
            cpu,
            online: list_words(&online),
        });
    }
    let cpuid = sources.cpuid.as_ref();
    let id = linux::identity(tree, cpu, cpuid.ok());
    let platform = linux::platform(tree, cpu, cpuid.ok());
    let family = family::of(&id);
    notes.extend(family_notes(&family, &id));
    if id.arch == "x86-64" {
        notes.extend(cpuid.err().map(|why| format!("{why}.")));
    }
    notes.extend(
        sources
            .hwloc
            .as_ref()
            .err()
            .map(|why| format!("hwloc is not asked: {why}.")),
    );

    let sysfs_caches = tree.caches(cpu);
    let cpuid_caches = cpuid.map(Cpuid::told).unwrap_or_default();
    let hwloc_caches = sources.hwloc.clone().unwrap_or_default();
    let as_told = match platform {
        Platform::Guest(_) => ", as told by the guest",
        Platform::BareMetal(_) | Platform::Unknown => "",
    };
    let all = [
        ("sysfs", &*sysfs_caches),
        ("CPUID", &*cpuid_caches),
        ("hwloc", &*hwloc_caches),
    ];
    let geometry = Geometry {
        tree,
        family: &family,
        as_told,
        sources: &all,
    };
    let caches = geometry.caches(&mut notes);
    if caches.first().is_none_or(|c| c.level != 1) {
        return Err(MachineError::NoCaches {
            cpu,
            why: no_caches(tree, cpu, &all, &notes),
            known: known(),
        });
    }
    notes.extend(level_notes(&caches, &platform));
    notes.extend(differing_cpus(tree, &online, cpu));

    let mut facts = linux::identity_facts(&id, cpu);
    facts.push(platform_fact(&platform));
    facts.extend(cache_facts(tree, &online, &all));
    facts.extend(cpuid.ok().into_iter().flat_map(cpuid_facts));
    facts.extend(linux::state_facts(tree, cpu));
    let mut differing = disagreements(&all, as_told);
    differing.extend(
        cpuid
            .ok()
            .into_iter()
            .flat_map(|c| tlb_disagreements(c, &family, as_told)),
    );
    let machine = Machine {
        name: format!("host:{}", id.model_name.as_deref().unwrap_or(&family.title)),
        title: format!("this host's CPU {cpu}; defaults of {}", family.title),
        arch: id.arch.clone(),
        core: core(tree, cpu, cpuid.ok(), &family),
        caches,
        tlbs: family.tlbs.clone(),
        memory: family.memory.clone(),
        prefetchers: family.prefetchers.clone(),
        interconnect: None,
    };
    Ok(HostMachine {
        machine,
        family: family.name,
        facts,
        disagreements: differing,
        notes,
    })
}

/// The family's core at this host's clocks, as far as they are told.
fn core(tree: &Tree, cpu: u32, cpuid: Option<&Cpuid>, family: &Family) -> super::Core {
    let mut core = family.core.clone();
    core.source = format!("defaults of family {}: {}", family.name, core.source);
    core.tsc_hz = cpuid.and_then(|c| c.tsc_hz);
    let path = format!("sys/devices/system/cpu/cpu{cpu}/cpufreq/cpuinfo_max_freq");
    let cpufreq = tree
        .number(&path)
        .value()
        .and_then(|khz| khz.checked_mul(1000));
    let leaf = cpuid.and_then(|c| c.max_hz);
    let told = [(cpufreq, "cpuinfo_max_freq of sysfs"), (leaf, "CPUID 0x16")];
    let told = told
        .into_iter()
        .find_map(|(hz, source)| Some((hz.filter(|&hz| hz > 0)?, source)));
    if let Some((hz, source)) = told {
        core.clock_hz = hz;
        core.source = format!(
            "highest clock {} GHz: told, {source}; {}",
            hz as f64 / 1e9,
            core.source
        );
    }
    core
}

fn family_notes(family: &Family, id: &Identity) -> Vec<String> {
    let mut notes = Vec::new();
    if family.is_fallback() {
        notes.push(
            "fallback: kwalk has no data of this processor; core limits, latencies, policies and \
             TLBs are those of a common core until they are measured."
                .to_owned(),
        );
    }
    if family.core_type.is_some() && id.core_type.is_none() {
        notes.push(
            "a hybrid processor that does not tell this CPU's core type: it is taken for a P core."
                .to_owned(),
        );
    }
    notes
}

/// What is not told of the outer levels.
fn level_notes(caches: &[Cache], platform: &Platform) -> Vec<String> {
    let last = caches.last().map_or(0, |c| c.level);
    let mut notes = Vec::new();
    if last < 3 {
        notes.push(format!(
            "no L{} is told; a cache beyond L{last}, such as a system-level cache, counts as memory.",
            last + 1
        ));
    } else if matches!(platform, Platform::Guest(_)) {
        notes.push(
            "in a guest the size of the L3 is as its hypervisor tells it: other guests may share \
             it, and another part of it may be meant."
                .to_owned(),
        );
    }
    notes
}

/// On hybrids: which CPUs have which caches.
fn differing_cpus(tree: &Tree, online: &[u32], cpu: u32) -> Option<String> {
    let mut kinds: Vec<(String, Vec<u32>)> = Vec::new();
    for &other in online {
        let caches = tree.caches(other);
        let words: Vec<String> = caches
            .iter()
            .map(|c| {
                let size = c
                    .size_bytes
                    .value()
                    .map_or("?".to_owned(), |&b| size_words(b));
                format!("L{} {size}", c.level)
            })
            .collect();
        let words = words.join(", ");
        match kinds.iter_mut().find(|(kind, _)| *kind == words) {
            Some((_, cpus)) => cpus.push(other),
            None => kinds.push((words, vec![other])),
        }
    }
    if kinds.len() < 2 {
        return None;
    }
    let words: Vec<String> = kinds
        .iter()
        .map(|(kind, cpus)| format!("CPU {} has {kind}", list_words(cpus)))
        .collect();
    Some(format!(
        "the CPUs differ: {}; this is CPU {cpu}, another one is had with --cpu.",
        words.join("; ")
    ))
}

/// Why there is no L1, in words that follow "the caches of CPU N".
fn no_caches(tree: &Tree, cpu: u32, all: &[(&str, &[ToldCache])], notes: &[String]) -> String {
    if all.iter().all(|(_, list)| list.is_empty()) {
        let folder = format!("sys/devices/system/cpu/cpu{cpu}/cache");
        return match tree.path(&folder).is_dir() {
            true => format!(" (/{folder} has no data cache)"),
            false => format!(" (/{folder} is not there)"),
        };
    }
    let left_out: Vec<&str> = notes
        .iter()
        .filter(|note| note.contains("is left out"))
        .map(|note| note.trim_end_matches('.'))
        .collect();
    match left_out.is_empty() {
        true => " (there is no L1 among them)".to_owned(),
        false => format!(" ({})", left_out.join("; ")),
    }
}

fn platform_fact(platform: &Platform) -> Fact {
    let (value, source) = match platform {
        Platform::Guest(who) => ("virtual machine", who.as_str()),
        Platform::BareMetal(who) => ("bare metal", who.as_str()),
        Platform::Unknown => (
            "unknown (nothing tells)",
            "CPUID, DMI, /sys/hypervisor, device tree",
        ),
    };
    Fact::told("platform", value, "", source)
}

/// Every level by every source, and of sysfs how many instances there are.
fn cache_facts(tree: &Tree, online: &[u32], all: &[(&str, &[ToldCache])]) -> Vec<Fact> {
    let mut facts = Vec::new();
    for &(name, caches) in all {
        for c in caches {
            let value = format!(
                "{} bytes, {} sets, {} ways, line {}",
                c.size_bytes.words(),
                c.sets.words(),
                c.ways.words(),
                c.line_bytes.words()
            );
            facts.push(Fact::told(
                &format!("L{} by {name}", c.level),
                value,
                "",
                name,
            ));
        }
    }
    let mut instances: std::collections::BTreeMap<u8, std::collections::BTreeSet<Vec<u32>>> =
        std::collections::BTreeMap::new();
    for &cpu in online {
        for c in tree
            .caches(cpu)
            .into_iter()
            .filter(|c| !c.shared_cpus.is_empty())
        {
            instances.entry(c.level).or_default().insert(c.shared_cpus);
        }
    }
    for (level, sets) in instances {
        facts.push(Fact::told(
            &format!("L{level} instances"),
            sets.len().to_string(),
            "",
            "shared_cpu_list of sysfs, CPUs online",
        ));
    }
    facts
}

fn cpuid_facts(cpuid: &Cpuid) -> Vec<Fact> {
    let hz = |hz: Option<u64>| {
        hz.map_or_else(|| "unknown (no leaf tells)".to_owned(), |hz| hz.to_string())
    };
    let mut facts = vec![Fact::told(
        "TSC clock",
        hz(cpuid.tsc_hz),
        "Hz",
        cpuid
            .tsc_leaf
            .as_deref()
            .unwrap_or("CPUID 0x15, 0x16, 0x40000010"),
    )];
    if cpuid.base_hz.is_some() || cpuid.max_hz.is_some() {
        facts.push(Fact::told(
            "base clock",
            hz(cpuid.base_hz),
            "Hz",
            "CPUID 0x16",
        ));
        facts.push(Fact::told(
            "highest clock",
            hz(cpuid.max_hz),
            "Hz",
            "CPUID 0x16",
        ));
    }
    for tlb in &cpuid.tlbs {
        let pages: Vec<String> = tlb.page_bytes.iter().map(|&p| size_words(p)).collect();
        facts.push(Fact::told(
            &format!("data TLB level {}, {}", tlb.level, pages.join("+")),
            tlb.entries.to_string(),
            "entries",
            "CPUID",
        ));
    }
    facts
}

/// Where CPUID and the family's data differ in the entries of a TLB of 4 KiB pages.
fn tlb_disagreements(cpuid: &Cpuid, family: &Family, as_told: &str) -> Vec<String> {
    if family.is_fallback() {
        return Vec::new();
    }
    let mut found = Vec::new();
    for tlb in cpuid.tlbs.iter().filter(|t| t.page_bytes.contains(&4096)) {
        let ours = family
            .tlbs
            .iter()
            .find(|t| t.level == tlb.level && t.page_bytes.contains(&4096));
        let Some(ours) = ours else { continue };
        let entries = u64::from(ours.sets) * u64::from(ours.ways);
        if entries == tlb.entries {
            continue;
        }
        // L2TlbSizeX32 of AMD's CPUID, which hypervisors leave out.
        let in_32s = match tlb.entries.checked_mul(32) == Some(entries) && tlb.level == 2 {
            true => " (the same if CPUID counts in units of 32, as AMD's may)",
            false => "",
        };
        found.push(format!(
            "data TLB level {} for 4 KiB pages: {} entries by CPUID{as_told}, {entries} by family \
             {}{in_32s}; the family's are used.",
            tlb.level, tlb.entries, family.name
        ));
    }
    found
}

/// A size as `48 KiB` or `1.25 MiB`.
pub fn size_words(bytes: u64) -> String {
    let (unit, name) = match bytes {
        0..0x400 => return format!("{bytes} B"),
        0x400..0x10_0000 => (1u64 << 10, "KiB"),
        0x10_0000..0x4000_0000 => (1 << 20, "MiB"),
        _ => (1 << 30, "GiB"),
    };
    let text = format!("{:.3}", bytes as f64 / unit as f64);
    format!(
        "{} {name}",
        text.trim_end_matches('0').trim_end_matches('.')
    )
}
