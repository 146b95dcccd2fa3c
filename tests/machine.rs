//! Machines: the catalogue (`products`), hostile files, and hosts from recorded
//! trees of sysfs and procfs. No test depends on the machine that it runs on.

use std::path::{Path, PathBuf};

use kwalk::machine::catalogue::{self, MachineError};
use kwalk::machine::cpuid::{Cpuid, CpuidCache};
use kwalk::machine::host::{self, Calibration, HostMachine, Sources};
use kwalk::machine::sysfs::Tree;
use kwalk::machine::told::{Told, ToldCache};
use kwalk::machine::{Confidence, Inclusion, Machine, Replacement, family};
use proptest::prelude::*;

#[path = "machine/products.rs"]
mod products;

use products::{fault_of, sources};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

fn tree(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data/sysfs")
        .join(name)
}

fn recorded(name: &str, cpu: u32) -> HostMachine {
    host::read(&tree(name), cpu).unwrap_or_else(|e| panic!("{name}: {e}"))
}

fn fact<'a>(host: &'a HostMachine, what: &str) -> &'a str {
    let found = host.facts.iter().find(|f| f.what == what);
    &found.unwrap_or_else(|| panic!("no fact {what:?}")).value
}

/// `(level, sets, ways, size)` of each cache.
fn shapes(machine: &Machine) -> Vec<(u8, u32, u32, u64)> {
    machine
        .caches
        .iter()
        .map(|c| (c.level, c.sets, c.ways, c.size_bytes()))
        .collect()
}

#[test]
fn every_catalogue_machine_survives_toml_and_json() {
    for name in catalogue::names() {
        let machine = catalogue::find(name).unwrap();
        let text = toml::to_string(&machine).unwrap();
        assert_eq!(
            catalogue::parse(Path::new("t.toml"), &text).unwrap(),
            machine
        );
        let json = serde_json::to_string(&machine).unwrap();
        assert_eq!(serde_json::from_str::<Machine>(&json).unwrap(), machine);
    }
}

#[test]
fn an_unknown_name_lists_all_names() {
    let error = catalogue::find("i7-9701").unwrap_err().to_string();
    assert!(
        error.contains("i7-9701") && !error.contains('\n'),
        "{error}"
    );
    for name in catalogue::names() {
        assert!(error.contains(name), "{error} lacks {name}");
    }
}

/// A name with a slash or that ends in `.toml` is a file, and what is not a machine file is one
/// sentence that names it. A device that never ends and a folder are refused, not read.
#[test]
fn files_are_read_and_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let good = dir.path().join("mine.toml");
    let machine = catalogue::find("i7-9700").unwrap();
    std::fs::write(&good, toml::to_string(&machine).unwrap()).unwrap();
    assert_eq!(catalogue::find(good.to_str().unwrap()).unwrap(), machine);
    let binary = dir.path().join("binary.toml");
    std::fs::write(&binary, [0xff, 0xfe, 0]).unwrap();
    let long = dir.path().join("long.toml");
    std::fs::write(&long, "#".repeat(2 << 20)).unwrap();
    for name in [
        "missing.toml",
        "/dev/zero",
        dir.path().to_str().unwrap(),
        binary.to_str().unwrap(),
        long.to_str().unwrap(),
    ] {
        let error = catalogue::find(name).unwrap_err();
        assert!(matches!(error, MachineError::Unreadable { .. }), "{error}");
        let error = error.to_string();
        assert!(error.contains(name) && !error.contains('\n'), "{error}");
    }
}

/// Each line of a good file is spoiled once; the message names the file and the key, in one line.
#[test]
fn a_wrong_value_is_refused_by_key() {
    let good = toml::to_string(&catalogue::find("textbook-32k-lru").unwrap()).unwrap();
    for (line, wrong, key) in [
        ("arch = \"x86-64\"", "arch = \"mips\"", "arch"),
        ("window = 224", "window = 0", "core.window"),
        ("window = 224", "window = -1", "window = -1"),
        ("window = 224", "windows = 224", "windows"),
        ("window = 224", "window = 4294967296", "window"),
        ("window = 224", "", "window"),
        ("clock_hz = 1000000000", "clock_hz = 0", "core.clock_hz"),
        ("level = 1", "level = 3", "caches[0].level"),
        ("level = 1", "level = 255", "caches[0].level"),
        ("level = 2", "level = 1", "caches[1].level"),
        ("sets = 64", "sets = 0", "caches[0].sets"),
        ("sets = 64", "sets = 4294967295", "caches[0]"),
        ("ways = 8", "ways = 0", "caches[0].ways"),
        ("line_bytes = 64", "line_bytes = 48", "caches[0].line_bytes"),
        (
            "line_bytes = 64",
            "line_bytes = 128",
            "caches[1].line_bytes",
        ),
        ("slices = 1", "slices = 0", "caches[0].slices"),
        (
            "slices = 1",
            "slices = 2\nslice_hash = [1, 2]",
            "caches[0].slice_hash",
        ),
        (
            "replacement = \"lru\"",
            "replacement = \"plru\"",
            "replacement",
        ),
        (
            "latency_cycles = 4.0",
            "latency_cycles = nan",
            "caches[0].latency_cycles",
        ),
        (
            "latency_cycles = 4.0",
            "latency_cycles = -4.0",
            "caches[0].latency_cycles",
        ),
        (
            "latency_cycles = 4.0",
            "latency_cycles = inf",
            "caches[0].latency_cycles",
        ),
        (
            "latency_cycles = 0\n",
            "latency_cycles = 5\n",
            "tlbs[0].latency_cycles",
        ),
        (
            "outstanding_misses = 10",
            "outstanding_misses = 0",
            "caches[0].outstanding_misses",
        ),
        (
            "page_bytes = [\n    4096,",
            "page_bytes = [\n    4095,",
            "tlbs[0].page_bytes",
        ),
        (
            "confidence = \"inferred\"",
            "confidence = \"sure\"",
            "confidence",
        ),
    ] {
        // A file may write lists on one line or on several.
        let one_line = good.replace("page_bytes = [4096,", "page_bytes = [\n    4096,");
        assert!(one_line.contains(line), "{line:?} is not in\n{one_line}");
        let spoiled = one_line.replacen(line, wrong, 1);
        let error = catalogue::parse(Path::new("my.toml"), &spoiled).unwrap_err();
        let error = error.to_string();
        assert!(
            error.starts_with("my.toml") && error.contains(key) && !error.contains('\n'),
            "{line:?} -> {wrong:?}: {error}"
        );
    }
}

/// In every table the source is needed and may not be blank.
#[test]
fn a_table_without_a_source_is_refused() {
    let machine = catalogue::find("i7-9700").unwrap();
    let blanked = |blank: &dyn Fn(&mut Machine) -> &mut String| {
        let mut machine = machine.clone();
        *blank(&mut machine) = "  ".to_owned();
        machine.check().unwrap_err().key
    };
    assert_eq!(blanked(&|m| &mut m.core.source), "core.source");
    assert_eq!(blanked(&|m| &mut m.memory.source), "memory.source");
    for i in 0..machine.caches.len() {
        assert_eq!(
            blanked(&|m| &mut m.caches[i].source),
            format!("caches[{i}].source")
        );
    }
    for i in 0..machine.tlbs.len() {
        assert_eq!(
            blanked(&|m| &mut m.tlbs[i].source),
            format!("tlbs[{i}].source")
        );
    }
    for i in 0..machine.prefetchers.len() {
        assert_eq!(
            blanked(&|m| &mut m.prefetchers[i].source),
            format!("prefetchers[{i}].source")
        );
    }
    assert_eq!(
        blanked(&|m| &mut m.interconnect.as_mut().unwrap().source),
        "interconnect.source"
    );
    let text = toml::to_string(&machine).unwrap();
    let without: String = text
        .lines()
        .filter(|line| !line.starts_with("source"))
        .map(|line| format!("{line}\n"))
        .collect();
    let error = catalogue::parse(Path::new("x.toml"), &without).unwrap_err();
    assert!(error.to_string().contains("source"), "{error}");
}

/// Trees of four need a multiple of four ways; a binary tree is cut off where it has too many leaves.
#[test]
fn a_policy_needs_its_ways() {
    for (policy, ways, possible) in [
        (Replacement::TreePlru, 8, true),
        (Replacement::TreePlru, 12, true),
        (Replacement::TreesOfFourLru, 12, true),
        (Replacement::TreesOfFourLru, 10, false),
        (Replacement::Lru, 11, true),
        (Replacement::Fifo, 20, true),
    ] {
        let mut machine = catalogue::find("textbook-32k-lru").unwrap();
        machine.caches[0].replacement = policy;
        machine.caches[0].ways = ways;
        assert_eq!(
            machine.check().is_ok(),
            possible,
            "{policy:?} with {ways} ways"
        );
    }
}

/// Every family's tables give a machine that the model takes, and the last one is the fallback.
#[test]
fn families_are_complete() {
    let all = family::all();
    assert!(all.last().unwrap().is_fallback());
    assert_eq!(all.iter().filter(|f| f.is_fallback()).count(), 1);
    for family in &all {
        let mut machine = catalogue::find("textbook-48k-lru").unwrap();
        machine.core = family.core.clone();
        machine.tlbs = family.tlbs.clone();
        machine.memory = family.memory.clone();
        machine.prefetchers = family.prefetchers.clone();
        let known = !family.is_fallback();
        assert_eq!(!machine.prefetchers.is_empty(), known, "{}", family.name);
        let walk_caches = &machine.memory.walk_cache_entries;
        assert_eq!(!walk_caches.is_empty(), known, "{}", family.name);
        machine
            .check()
            .unwrap_or_else(|e| panic!("{}: {e}", family.name));
        for levels in family.caches.windows(2) {
            assert_eq!(levels[0].level + 1, levels[1].level, "{}", family.name);
        }
        for (table, source, confidence) in sources(&machine) {
            // The caches are those of the textbook machine.
            if known && !table.starts_with("caches") {
                let fault = fault_of(source, confidence);
                assert_eq!(fault, None, "{} {table}: {source}", family.name);
            }
        }
        for defaults in &family.caches {
            if known {
                let fault = fault_of(&defaults.source, defaults.confidence);
                assert_eq!(fault, None, "{}: {}", family.name, defaults.source);
            }
            if let Some(ways) = defaults.ways {
                assert_eq!(defaults.replacement.refuses(ways), None, "{}", family.name);
            }
        }
    }
}

/// Recorded on an AMD Zen 5 guest: 48 KiB, 1 MiB, 32 MiB as sysfs and CPUID tell it alike.
#[test]
fn an_amd_guest_is_read() {
    let host = recorded("zen5-guest", 0);
    let m = &host.machine;
    assert_eq!(m.name, "host:AMD EPYC");
    assert_eq!(host.family, "zen-5");
    let expected = [
        (1, 64, 12, 48 * KIB),
        (2, 1024, 16, MIB),
        (3, 32768, 16, 32 * MIB),
    ];
    assert_eq!(shapes(m), expected);
    assert_eq!(m.caches[2].shared_by_cores, 2);
    assert_eq!(m.caches[2].inclusion, Inclusion::Exclusive);
    assert_eq!(m.core.tsc_hz, None, "no leaf tells it, so it is unknown");
    assert!(fact(&host, "TSC clock").starts_with("unknown"));
    assert_eq!(fact(&host, "family"), "26");
    assert_eq!(fact(&host, "platform"), "virtual machine");
    assert_eq!(fact(&host, "governor"), "absent");
    assert_eq!(fact(&host, "transparent huge pages"), "madvise");
    assert_eq!(fact(&host, "L1 instances"), "2");
    assert_eq!(fact(&host, "L3 instances"), "1");
    assert!(
        host.notes.iter().any(|n| n.contains("size of the L3")),
        "{:?}",
        host.notes
    );
    // CPUID tells 128 entries of second-level TLB, AMD publishes 4096.
    assert_eq!(host.disagreements.len(), 1, "{:?}", host.disagreements);
    let sentence = &host.disagreements[0];
    assert!(
        sentence.contains("128") && sentence.contains("as told by the guest"),
        "{sentence}"
    );
    let unaffected = host.facts.iter().find(|f| f.what.contains("meltdown"));
    assert_eq!(unaffected, None, "what does not apply is not listed");
}

/// 266240 KiB of 20 ways and 64 B lines are 212992 sets = 2^14 * 13: no power of two, as told.
#[test]
fn an_l3_of_any_number_of_sets_is_taken_as_given() {
    let host = recorded("intel-260m-guest", 1);
    assert_eq!(
        host.machine.name, "host:Intel(R) Xeon(R) Processor",
        "single spaces"
    );
    assert_eq!(host.family, "emerald-rapids");
    let expected = [
        (1, 64, 12, 48 * KIB),
        (2, 2048, 16, 2 * MIB),
        (3, 212_992, 20, 260 * MIB),
    ];
    assert_eq!(shapes(&host.machine), expected);
    let l3 = &host.machine.caches[2];
    assert_eq!((l3.slices, l3.slice_hash.len()), (1, 0));
    assert!(
        l3.source.contains("212992 sets are taken as given"),
        "{}",
        l3.source
    );
    assert_eq!(host.machine.core.tsc_hz, Some(2_100_000_000));
    assert_eq!(
        host.machine.caches[0].replacement,
        Replacement::TreesOfFourLru
    );
    assert_eq!(host.disagreements, [""; 0]);
}

/// L2: 1 MiB of 64 B lines; it tells no ways, N1 has 8, so 1 MiB / (8 * 64) = 2048 sets, and the
/// source says that the ways are the family's. No L3 is told: none is invented.
#[test]
fn an_arm_machine_without_l3_has_two_levels() {
    let host = recorded("neoverse-n1", 0);
    let m = &host.machine;
    assert_eq!(m.arch, "arm64");
    assert_eq!(host.family, "neoverse-n1");
    assert_eq!(m.name, "host:Arm Neoverse N1");
    assert_eq!(shapes(m), [(1, 256, 4, 64 * KIB), (2, 2048, 8, MIB)]);
    assert!(
        m.caches[1].source.contains("8 ways: of family"),
        "{}",
        m.caches[1].source
    );
    assert!(
        host.notes.iter().any(|n| n.starts_with("no L3 is told")),
        "{:?}",
        host.notes
    );
    assert!(fact(&host, "L2 by sysfs").contains("absent ways"));
    assert!(fact(&host, "platform").starts_with("unknown"));
    assert_eq!(fact(&host, "part"), "0xd0c");
}

/// P and E cores have their own L1, L2 and family; two threads of one core share as one core.
#[test]
fn a_hybrid_is_read_per_cpu() {
    let p = recorded("hybrid", 0);
    let e = recorded("hybrid", 3);
    assert_eq!((&*p.family, &*e.family), ("alder-lake-p", "alder-lake-e"));
    assert_eq!(
        shapes(&p.machine)[..2],
        [(1, 64, 12, 48 * KIB), (2, 2048, 10, 1280 * KIB)]
    );
    assert_eq!(
        shapes(&e.machine)[..2],
        [(1, 64, 8, 32 * KIB), (2, 2048, 16, 2 * MIB)]
    );
    assert_eq!(
        p.machine.caches[1].shared_by_cores, 1,
        "CPUs 0-1 are one core"
    );
    assert_eq!(e.machine.caches[1].shared_by_cores, 2);
    assert_eq!(p.machine.caches[2].shared_by_cores, 3);
    for host in [&p, &e] {
        let note = host.notes.iter().find(|n| n.starts_with("the CPUs differ"));
        let note = note.expect("differing CPUs are listed");
        assert!(
            note.contains("CPU 0-1 has") && note.contains("CPU 2-3 has"),
            "{note}"
        );
    }
    assert_eq!(fact(&p, "platform"), "bare metal");
    assert_eq!(fact(&p, "governor"), "performance");
    assert_eq!(
        p.machine.core.clock_hz, 5_200_000_000,
        "cpufreq tells the highest clock"
    );
    assert_eq!(fact(&e, "governor"), "absent");
}

#[test]
fn a_cpu_that_is_not_there_is_an_error() {
    let error = host::read(&tree("hybrid"), 4).unwrap_err();
    assert!(
        matches!(error, MachineError::NoCpu { cpu: 4, .. }),
        "{error}"
    );
    assert!(error.to_string().contains("0-3"), "{error}");
}

fn zen_3_cpuid() -> Cpuid {
    let cache = |level, sets, ways| CpuidCache {
        level,
        sets,
        ways,
        line_bytes: 64,
    };
    Cpuid {
        vendor: "AuthenticAMD".to_owned(),
        brand: Some("AMD  EPYC 7B13 ".to_owned()),
        family: 25,
        model: 1,
        stepping: 1,
        caches: vec![cache(1, 64, 8), cache(2, 1024, 8), cache(3, 32768, 16)],
        ..Cpuid::default()
    }
}

fn with(cpuid: Result<Cpuid, String>, hwloc: Vec<ToldCache>) -> Sources {
    Sources {
        cpuid,
        hwloc: Ok(hwloc),
    }
}

/// Without caches by any source there is no machine: one sentence, and what works instead. With
/// CPUID they come from there, also where there is no /sys at all.
#[test]
fn without_sysfs_cpuid_alone_is_used() {
    let error = host::read(&tree("no-caches"), 0).unwrap_err();
    assert!(
        matches!(error, MachineError::NoCaches { cpu: 0, .. }),
        "{error}"
    );
    let error = error.to_string();
    assert!(
        error.contains("--machine NAME") && !error.contains('\n'),
        "{error}"
    );

    let empty = tempfile::tempdir().unwrap();
    for root in [tree("no-caches"), empty.path().to_owned()] {
        let sources = with(Ok(zen_3_cpuid()), Vec::new());
        let host = host::assemble(&Tree::new(&root), 0, &sources).unwrap();
        let expected = [
            (1, 64, 8, 32 * KIB),
            (2, 1024, 8, 512 * KIB),
            (3, 32768, 16, 32 * MIB),
        ];
        assert_eq!(shapes(&host.machine), expected);
        assert_eq!(host.machine.name, "host:AMD EPYC 7B13");
        assert_eq!(host.family, "zen-3");
        assert!(host.machine.caches[0].source.contains("told by CPUID"));
        let said = host
            .notes
            .iter()
            .any(|n| n.contains("/sys/devices/system/cpu is not there"));
        assert_eq!(said, root == empty.path());
    }
}

/// A processor in no list gets the fallback, and that is said.
#[test]
fn a_fallback_is_visible() {
    let unknown = Cpuid {
        vendor: "CyrixInstead".to_owned(),
        ..zen_3_cpuid()
    };
    let empty = tempfile::tempdir().unwrap();
    let sources = with(Ok(unknown), Vec::new());
    let host = host::assemble(&Tree::new(empty.path()), 0, &sources).unwrap();
    assert_eq!(host.family, "generic");
    assert!(
        host.notes.iter().any(|n| n.starts_with("fallback")),
        "{:?}",
        host.notes
    );
    for source in [&host.machine.core.source, &host.machine.caches[0].source] {
        assert!(source.contains("fallback"), "{source}");
    }
    assert_eq!(host.machine.core.confidence, Confidence::Inferred);
}

/// Each quantity in which sources differ is a sentence, and so is a level that one lacks; sysfs is
/// used. hwloc tells no sets, so it cannot disagree on them.
#[test]
fn differing_sources_disagree() {
    let mut cpuid = zen_3_cpuid();
    cpuid.vendor = "GenuineIntel".to_owned();
    cpuid.family = 6;
    cpuid.model = 207;
    cpuid.hypervisor = Some("KVM".to_owned());
    // As sysfs of the recorded tree has it, but for half the ways of L2 and no L3.
    cpuid.caches = vec![
        CpuidCache {
            level: 1,
            sets: 64,
            ways: 12,
            line_bytes: 64,
        },
        CpuidCache {
            level: 2,
            sets: 2048,
            ways: 8,
            line_bytes: 64,
        },
    ];
    let tree = Tree::new(&tree("intel-260m-guest"));
    let host = host::assemble(&tree, 0, &with(Ok(cpuid), Vec::new())).unwrap();
    let expected = [
        "L2 bytes: 2097152 by sysfs, 1048576 by CPUID, as told by the guest.",
        "L2 ways: 16 by sysfs, 8 by CPUID, as told by the guest.",
        "L3: told by sysfs, absent from CPUID, as told by the guest.",
    ];
    assert_eq!(host.disagreements, expected);
    assert_eq!(host.machine.caches[1].ways, 16);

    let l1 = ToldCache {
        level: 1,
        size_bytes: Told::Is(32 * KIB),
        ways: Told::Is(8),
        sets: Told::Absent,
        line_bytes: Told::Unknown("0".to_owned()),
        shared_cpus: Vec::new(),
    };
    let none = Err("not read".to_owned());
    let host = host::assemble(&tree, 0, &with(none, vec![l1])).unwrap();
    assert!(host.disagreements[0].starts_with("L1 bytes: 49152 by sysfs, 32768 by hwloc"));
    assert!(host.disagreements[1].starts_with("L1 ways: 12 by sysfs, 8 by hwloc"));
    assert_eq!(
        host.disagreements.len(),
        4,
        "L2 and L3 are absent: {:?}",
        host.disagreements
    );
}

/// Absent, unknown and zero are three things: a missing file, an empty one and `0`. None of the
/// three becomes a number of the machine; size, ways and line give the sets, 32 KiB/(8*64) = 64.
#[test]
fn absent_unknown_and_zero_differ() {
    for (text, words) in [
        (None, "absent sets"),
        (Some(""), "unknown (empty) sets"),
        (Some("0"), "0 sets"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let cache = dir.path().join("sys/devices/system/cpu/cpu0/cache/index0");
        std::fs::create_dir_all(&cache).unwrap();
        for (file, text) in [
            ("level", Some("1")),
            ("type", Some("Data")),
            ("size", Some("32K")),
            ("ways_of_associativity", Some("8")),
            ("coherency_line_size", Some("64")),
            ("number_of_sets", text),
        ] {
            if let Some(text) = text {
                std::fs::write(cache.join(file), text).unwrap();
            }
        }
        let host = host::read(dir.path(), 0).unwrap();
        assert_eq!(shapes(&host.machine), [(1, 64, 8, 32 * KIB)]);
        let told = fact(&host, "L1 by sysfs");
        assert!(told.contains(words), "{told}");
    }
}

/// sysfs has 0 ways and 1 set for a fully associative cache: 4 KiB of 64 B lines are 64 ways.
#[test]
fn zero_ways_of_one_set_are_fully_associative() {
    let l1 = ToldCache {
        level: 1,
        size_bytes: Told::Is(4 * KIB),
        ways: Told::Is(0),
        sets: Told::Is(1),
        line_bytes: Told::Is(64),
        shared_cpus: Vec::new(),
    };
    let empty = tempfile::tempdir().unwrap();
    let sources = with(Err("none".to_owned()), vec![l1]);
    let host = host::assemble(&Tree::new(empty.path()), 0, &sources).unwrap();
    assert_eq!(shapes(&host.machine), [(1, 1, 64, 4 * KIB)]);
}

/// Measured values replace the family's, with source and confidence; more than 30 % away from the
/// family's is a disagreement: 4 -> 5 cycles is 25 %, 14 -> 28 is 100 %, 533 -> 300 is -44 %.
#[test]
fn calibration_replaces_defaults() {
    let mut host = recorded("zen5-guest", 0);
    let before = host.disagreements.len();
    host.apply(&Calibration {
        tsc_hz: Some(2.6e9),
        core_hz: Some(4.0e9),
        level_latency_cycles: vec![(1, 5.0), (2, 28.0), (0, 300.0)],
        l1_replacement: Some((Replacement::Lru, "miss counts of a sweep".to_owned())),
        l1_outstanding: Some(24),
        page_walk_cycles: Some(25.4),
        stlb_cycles: Some(7.2),
        notes: vec!["quiet".to_owned()],
        ..Calibration::default()
    });
    let m = &host.machine;
    m.check().unwrap();
    assert_eq!(
        (m.core.tsc_hz, m.core.clock_hz),
        (Some(2_600_000_000), 4_000_000_000)
    );
    assert_eq!(m.caches[0].latency_cycles, 5.0);
    assert_eq!(m.caches[0].replacement, Replacement::Lru);
    assert_eq!(
        m.caches[0].confidence,
        Confidence::Measured,
        "nothing inferred is left"
    );
    assert_eq!(m.caches[1].latency_cycles, 28.0);
    assert_eq!(
        m.caches[1].confidence,
        Confidence::Inferred,
        "its policy still is"
    );
    assert_eq!(m.caches[2].latency_cycles, 50.0, "not measured");
    assert_eq!(
        (m.memory.latency_cycles, m.memory.page_walk_cycles),
        (300.0, 25)
    );
    assert_eq!(m.memory.confidence, Confidence::Measured);
    assert_eq!((m.tlbs[0].latency_cycles, m.tlbs[1].latency_cycles), (0, 7));
    for source in [
        &m.core.source,
        &m.caches[0].source,
        &m.caches[1].source,
        &m.memory.source,
    ] {
        assert!(
            source.starts_with("measured on this host by kwalk: "),
            "{source}"
        );
    }
    assert!(!m.caches[2].source.contains("measured on this host"));
    let new = host.disagreements[before..].join("\n");
    assert_eq!(host.disagreements.len() - before, 3, "{new}");
    for words in ["L2 latency", "memory latency", "L1 replacement"] {
        assert!(new.contains(words), "{new}");
    }
    assert!(host.notes.contains(&"quiet".to_owned()));
}

/// What cannot be is left out with a note: a NaN, zero cycles, a level that is not there, trees of
/// four of 10 ways. The machine stays as it was.
#[test]
fn a_calibration_that_cannot_be_is_left_out() {
    let mut before = recorded("zen5-guest", 0);
    before.machine.caches[0].ways = 10;
    before.machine.caches[0].replacement = Replacement::Lru;
    let mut host = before.clone();
    host.apply(&Calibration {
        core_hz: Some(f64::NAN),
        tsc_hz: Some(-1.0),
        level_latency_cycles: vec![(1, 0.0), (4, 80.0), (0, f64::INFINITY)],
        l1_replacement: Some((Replacement::TreesOfFourLru, "a guess".to_owned())),
        page_walk_cycles: Some(0.0),
        ..Calibration::default()
    });
    assert_eq!(host.machine, before.machine);
    assert_eq!(host.disagreements, before.disagreements);
    assert_eq!(host.notes.len() - before.notes.len(), 7, "{:?}", host.notes);
}

/// The host that runs the test: either a machine that the model takes and that survives a file, or
/// the sentence that it tells no caches.
#[test]
fn this_host_gives_a_machine_or_a_sentence() {
    match host::read(Path::new("/"), 0) {
        Ok(host) => {
            host.machine.check().unwrap();
            let text = toml::to_string(&host.machine).unwrap();
            assert_eq!(
                catalogue::parse(Path::new("h.toml"), &text).unwrap(),
                host.machine
            );
        }
        Err(error) => assert!(
            matches!(
                error,
                MachineError::NoCaches { .. } | MachineError::NoCpu { .. }
            ),
            "{error}"
        ),
    }
}

fn told() -> impl Strategy<Value = Told<u64>> {
    prop_oneof![
        Just(Told::Absent),
        Just(Told::Unknown("x".to_owned())),
        any::<u64>().prop_map(Told::Is),
        (0u64..100).prop_map(Told::Is),
        (0u32..64).prop_map(|shift| Told::Is(1 << shift)),
    ]
}

fn told_cache() -> impl Strategy<Value = ToldCache> {
    (
        0u8..6,
        told(),
        told(),
        told(),
        told(),
        proptest::collection::vec(0u32..9, 0..3),
    )
        .prop_map(
            |(level, size_bytes, ways, sets, line_bytes, shared_cpus)| ToldCache {
                level,
                size_bytes,
                ways,
                sets,
                line_bytes,
                shared_cpus,
            },
        )
}

proptest! {
    /// Whatever sources tell, the result is a machine that passes the check, or an error.
    #[test]
    fn any_telling_is_a_machine_or_an_error(
        caches in proptest::collection::vec(told_cache(), 0..6),
    ) {
        let sources = with(Err("none".to_owned()), caches);
        if let Ok(host) = host::assemble(&Tree::new(Path::new("/nonexistent")), 0, &sources) {
            prop_assert_eq!(host.machine.check(), Ok(()));
        }
    }

    /// A file with any bytes replaced is a machine that passes the check, or an error in one line.
    #[test]
    fn a_spoiled_file_never_panics(
        edits in proptest::collection::vec((0usize..4000, any::<char>()), 1..8),
    ) {
        let good = toml::to_string(&catalogue::find("i7-9700").unwrap()).unwrap();
        let mut chars: Vec<char> = good.chars().collect();
        for (at, c) in edits {
            let at = at % chars.len();
            chars[at] = c;
        }
        let text: String = chars.into_iter().collect();
        match catalogue::parse(Path::new("f.toml"), &text) {
            Ok(machine) => prop_assert_eq!(machine.check(), Ok(())),
            Err(error) => prop_assert!(!error.to_string().contains('\n'), "{error}"),
        }
    }
}

/// A busy neighbour takes the lines of the self-check's loops out of a shared cache, and what is
/// then timed is memory: an L3 several times slower than its family, a page walk slower than a load
/// from memory. Neither may become a number of the model; a note says so. (Seen on a shared guest:
/// 403 cycles of L3, 3957 of page walk.)
#[test]
fn a_disturbed_self_check_is_told_and_not_used() {
    let mut host = recorded("zen5-guest", 0);
    let before = host.machine.clone();
    let l3 = before
        .caches
        .iter()
        .find(|c| c.level == 3)
        .expect("an L3")
        .latency_cycles;
    host.apply(&Calibration {
        level_latency_cycles: vec![(3, 2.5 * l3)],
        page_walk_cycles: Some(before.memory.latency_cycles * 2.0),
        ..Calibration::default()
    });
    assert_eq!(host.machine.caches, before.caches);
    assert_eq!(
        host.machine.memory.page_walk_cycles,
        before.memory.page_walk_cycles
    );
    for what in ["L3 latency", "page walk"] {
        let told = host
            .notes
            .iter()
            .any(|n| n.starts_with(what) && n.contains("quiet"));
        assert!(told, "{what}: {:?}", host.notes);
    }
}
