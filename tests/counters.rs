//! Events of recorded machines: which PMU counts a CPU, which event each metric takes, and what
//! `perf_event_open` would be asked for. Nothing is opened, and no PMU is needed.

use std::path::Path;

use kwalk::counters::choice::Choice;
use kwalk::counters::events::{Code, METRICS};
use kwalk::counters::plan::{Need, groups};
use kwalk::counters::{Surroundings, refusal};
use kwalk::machine::host;
use kwalk::machine::sysfs::Tree;

fn tree(name: &str) -> Tree {
    Tree::new(
        &Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/data/sysfs")
            .join(name),
    )
}

fn choice(name: &str, cpu: u32) -> Choice {
    Choice::read(&tree(name), cpu).0
}

/// Type of the PMU and `config` of each metric that is encoded by fields.
fn encoded(choice: &Choice) -> Vec<(&'static str, u32, u64)> {
    let raw = |chosen: &kwalk::counters::choice::Chosen| {
        let candidate = chosen.candidate.as_ref().ok()?;
        let Code::Raw(encoding) = candidate.code else {
            return None;
        };
        assert_eq!(encoding.config[1..], [0; 3], "{candidate:?}");
        Some((chosen.metric, encoding.kind, encoding.config[0]))
    };
    choice.metrics.iter().filter_map(raw).collect()
}

/// Metrics without an event.
fn absent(choice: &Choice) -> Vec<&'static str> {
    let none = choice
        .metrics
        .iter()
        .filter(|chosen| chosen.candidate.is_err());
    none.map(|chosen| chosen.metric).collect()
}

/// Each machine, CPU, PMU, its type, the table, general counters.
#[test]
fn each_cpu_has_its_pmu_and_its_table() {
    for (name, cpu, pmu, kind, table, general) in [
        ("i7-9700", 0, "cpu", 4, Some("intel-skylake"), 8),
        (
            "sapphire-rapids",
            0,
            "cpu",
            4,
            Some("intel-golden-cove-server"),
            8,
        ),
        ("hybrid", 0, "cpu_core", 4, Some("intel-golden-cove"), 8),
        ("hybrid", 1, "cpu_core", 4, Some("intel-golden-cove"), 8),
        ("hybrid", 3, "cpu_atom", 10, Some("intel-gracemont"), 6),
        ("milan", 0, "cpu", 4, Some("amd-zen-3"), 6),
        ("genoa", 0, "cpu", 4, Some("amd-zen-4"), 6),
        (
            "graviton3",
            0,
            "armv8_pmuv3_0",
            8,
            Some("arm-neoverse-v1"),
            6,
        ),
        (
            "neoverse-n1",
            1,
            "armv8_pmuv3_0",
            8,
            Some("arm-neoverse-n1"),
            6,
        ),
        (
            "raspberry-pi-4",
            0,
            "armv8_cortex_a72",
            7,
            Some("arm-cortex-a72"),
            6,
        ),
        ("apple-m1", 0, "apple_icestorm_pmu", 10, None, 4),
        ("apple-m1", 1, "apple_firestorm_pmu", 11, None, 4),
    ] {
        let choice = choice(name, cpu);
        let found = choice
            .pmu
            .as_ref()
            .unwrap_or_else(|why| panic!("{name}: {why}"));
        assert_eq!(
            (found.name.as_str(), found.kind),
            (pmu, kind),
            "{name} CPU {cpu}"
        );
        let of = choice.table.as_ref().map(|t| t.name.as_str());
        assert_eq!(
            (of, choice.general_counters),
            (table, general),
            "{name} CPU {cpu}"
        );
    }
}

/// By hand: on Intel event | umask << 8 | cmask << 24. STALLS_MEM_ANY is event 0xa3, umask 0x14,
/// cmask 20 = 0x14; BOUND_ON_LOADS event 0xa6, umask 0x21, cmask 5.
#[test]
fn intel_events_are_encoded() {
    let loads = [
        ("l1d_misses", 4, 0x08d1),
        ("l2_misses", 4, 0x10d1),
        ("l3_hits", 4, 0x04d1),
        ("l3_misses", 4, 0x20d1),
        ("hitm", 4, 0x04d2),
    ];
    let fixed = [("cycles", 4, 0x3c), ("instructions", 4, 0xc0)];
    let rest = |tlb: u64, stall| {
        [
            ("dtlb_misses", 4, 0x2000 | tlb),
            ("page_walks", 4, 0x0e00 | tlb),
            ("memory_stall_cycles", 4, stall),
            ("branch_misses", 4, 0xc5),
        ]
    };
    let all = |tlb, stall| [&fixed[..], &loads, &rest(tlb, stall)].concat();
    assert_eq!(encoded(&choice("i7-9700", 0)), all(0x08, 0x1400_14a3));
    let golden_cove = all(0x12, 0x0500_21a6);
    assert_eq!(encoded(&choice("sapphire-rapids", 0)), golden_cove);
    assert_eq!(encoded(&choice("hybrid", 0)), golden_cove);
    let gracemont = choice("hybrid", 2);
    let expected = [
        ("cycles", 10, 0x3c),
        ("instructions", 10, 0xc0),
        ("l1d_misses", 10, 0x08d1),
        ("l2_misses", 10, 0x10d1),
        ("l3_hits", 10, 0x04d1),
        ("l3_misses", 10, 0x80d1),
        ("hitm", 10, 0x20d1),
        ("page_walks", 10, 0x0e08),
        ("memory_stall_cycles", 10, 0x0734),
        ("branch_misses", 10, 0xc5),
    ];
    assert_eq!(encoded(&gracemont), expected);
    assert_eq!(absent(&gracemont), ["dtlb_misses"]);
}

/// By hand: event | umask << 8. Demand fills of Zen 3 are its six sources, 0x5f; of Zen 4 all, 0xff.
/// Neither has an event for modified lines.
#[test]
fn amd_events_are_encoded() {
    let zen_3 = choice("milan", 0);
    let expected = [
        ("cycles", 4, 0x76),
        ("instructions", 4, 0xc0),
        ("l1d_misses", 4, 0x5f43),
        ("l2_misses", 4, 0x0864),
        ("l3_hits", 4, 0x0243),
        ("l3_misses", 4, 0x4843),
        ("dtlb_misses", 4, 0xff45),
        ("page_walks", 4, 0xf045),
        ("branch_misses", 4, 0xc3),
    ];
    assert_eq!(encoded(&zen_3), expected);
    assert_eq!(absent(&zen_3), ["hitm", "memory_stall_cycles"]);
    let zen_4 = choice("genoa", 0);
    assert_eq!(encoded(&zen_4)[2], ("l1d_misses", 4, 0xff43));
    assert!(encoded(&zen_4).contains(&("memory_stall_cycles", 4, 0xa2d6)));
    assert_eq!(absent(&zen_4), ["hitm"]);
}

/// By hand, of the L3's PMU: event in bits 0 to 7, umask 8 to 15, enallslices 46, enallcores 47,
/// threadmask 56 and 57: 0xc000 << 32 | 0x03 << 56. They are no candidates of a run.
#[test]
fn the_l3_of_amd_has_a_pmu_of_its_own() {
    let all = 0x0300_c000_0000_0000;
    for (name, kind, events) in [
        ("milan", 11, &[("l3_misses", all | 0x0106)][..]),
        (
            "genoa",
            14,
            &[("l3_hits", all | 0xfe04), ("l3_misses", all | 0x0104)],
        ),
    ] {
        let choice = choice(name, 0);
        let found: Vec<(&str, u64)> = choice
            .of_the_l3()
            .into_iter()
            .map(|(event, encoding)| {
                let encoding = encoding.unwrap();
                assert_eq!(encoding.kind, kind);
                (&*event.metric, encoding.config[0])
            })
            .collect();
        assert_eq!(found, events, "{name}");
        for (metric, kind, _) in encoded(&choice) {
            assert_eq!(kind, 4, "{metric} is of the core");
        }
    }
    let mut without = choice("genoa", 0);
    without.l3 = None;
    let why = without.of_the_l3().remove(0).1.unwrap_err();
    assert!(why.contains("no PMU amd_l3"), "{why}");
    assert_eq!(choice("i7-9700", 0).of_the_l3().len(), 0);
}

/// Arm's numbers are events as they are. The A72 counts no walks, no last level and no stalls; N1
/// cannot tell memory stalls from others; V1 can, by 0x4005.
#[test]
fn arm_events_are_encoded() {
    let v1 = choice("graviton3", 0);
    let expected = [
        ("cycles", 8, 0x11),
        ("instructions", 8, 0x08),
        ("l1d_misses", 8, 0x03),
        ("l2_misses", 8, 0x17),
        ("l3_misses", 8, 0x37),
        ("dtlb_misses", 8, 0x05),
        ("page_walks", 8, 0x34),
        ("memory_stall_cycles", 8, 0x4005),
        ("branch_misses", 8, 0x22),
    ];
    assert_eq!(encoded(&v1), expected);
    assert_eq!(absent(&v1), ["l3_hits", "hitm"]);
    assert_eq!(
        absent(&choice("neoverse-n1", 0)),
        ["l3_hits", "hitm", "memory_stall_cycles"]
    );
    let a72 = choice("raspberry-pi-4", 0);
    assert!(encoded(&a72).contains(&("branch_misses", 7, 0x10)));
    assert_eq!(
        absent(&a72),
        [
            "l3_hits",
            "l3_misses",
            "hitm",
            "page_walks",
            "memory_stall_cycles"
        ]
    );
    for chosen in &a72.metrics {
        if let Err(why) = &chosen.candidate {
            assert!(
                why.contains("on Arm Cortex-A72") && why.ends_with("still work"),
                "{why}"
            );
        }
    }
}

/// Apple's PMU is not Arm's: 0x11 would mean something else there. Cycles and instructions are
/// what Linux names, by the PMU of the CPU's own cluster.
#[test]
fn a_processor_in_no_table_gets_what_linux_names() {
    for (cpu, kind) in [(0, 10), (1, 11)] {
        let apple = choice("apple-m1", cpu);
        assert_eq!(
            encoded(&apple),
            [("cycles", kind, 0x02), ("instructions", kind, 0x8c)]
        );
        for metric in ["l2_misses", "hitm", "page_walks"] {
            assert!(absent(&apple).contains(&metric), "{metric}");
        }
    }
}

/// Guests without a PMU: the events of the table are asked for, and Linux's refusal becomes one
/// sentence with the reason; on the one with `perf_event_paranoid` 3 a denial names that first.
#[test]
fn a_guest_without_a_pmu_is_told_of_it() {
    for name in ["intel-260m-guest", "guest-without-l3"] {
        let (choice, hypervisor) = Choice::read(&tree(name), 0);
        let why = choice.pmu.as_ref().unwrap_err();
        assert!(why.ends_with("has no PMU of a core"), "{why}");
        assert_eq!(hypervisor, Some(true));
        assert_eq!(
            encoded(&choice),
            [],
            "{name}: there is nothing to encode by"
        );
        assert_eq!(absent(&choice), [""; 0], "{name}: the core has them all");
        let here = Surroundings::read(&tree(name), 0, hypervisor);
        let text = refusal(&std::io::Error::from_raw_os_error(2), "cpu-cycles", &here);
        assert!(
            text.contains("virtual machine whose hypervisor passes none on"),
            "{text}"
        );
        let denied = refusal(&std::io::Error::from_raw_os_error(13), "cpu-cycles", &here);
        assert_eq!(
            denied.contains("perf_event_paranoid is 3"),
            name == "guest-without-l3"
        );
    }
    let watched = Surroundings::read(&tree("i7-9700"), 0, Some(false));
    let busy = refusal(
        &std::io::Error::from_raw_os_error(16),
        "cpu-cycles",
        &watched,
    );
    assert!(busy.contains("kernel.nmi_watchdog is 1"), "{busy}");
}

/// How many runs of the work a machine needs. Zen 3: 9 events, cycles and instructions among them, on
/// 6 counters: 7 others, 4 beside both, so 2. Graviton 3: 9 of which cycles have their own counter:
/// 7 others, 5 beside instructions, so 2. i7-9700: both fixed, 9 others on 8 counters: 2. Gracemont:
/// both fixed, 8 others on 6: 2. The server: 8 counters, 7 of 9 others on the first 4 alone: 2.
#[test]
fn all_metrics_are_had_in_two_runs() {
    for (name, cpu) in [
        ("milan", 0),
        ("graviton3", 0),
        ("i7-9700", 0),
        ("hybrid", 2),
        ("sapphire-rapids", 0),
    ] {
        let choice = choice(name, cpu);
        let needs: Vec<Need> = choice
            .metrics
            .iter()
            .filter_map(|chosen| Some(chosen.candidate.as_ref().ok()?.need.clone()))
            .collect();
        let plan = groups(&needs, &[0, 1], choice.general_counters);
        assert_eq!(plan.impossible, [0; 0], "{name}");
        assert_eq!(plan.groups.len(), 2, "{name}: {plan:?}");
        for group in &plan.groups {
            assert_eq!(
                group[..2],
                [0, 1],
                "{name}: cycles and instructions are in each"
            );
        }
    }
}

/// Every metric of every machine has an event or a reason.
#[test]
fn nothing_is_passed_over() {
    for name in [
        "hybrid",
        "i7-9700",
        "milan",
        "graviton3",
        "apple-m1",
        "zen5-guest",
        "no-caches",
    ] {
        let metrics: Vec<&str> = choice(name, 0).metrics.iter().map(|c| c.metric).collect();
        assert_eq!(metrics, METRICS.map(|(metric, _)| metric), "{name}");
    }
}

/// The same trees as machines: levels, sets and ways as told. 105 MiB of 15 ways and 64 B lines are
/// 114688 sets, no power of two; without an L3 there are two levels.
#[test]
fn their_caches_are_read() {
    for (name, cpu, family, caches) in [
        (
            "i7-9700",
            0,
            "skylake",
            &[(64, 8), (1024, 4), (16384, 12)][..],
        ),
        (
            "sapphire-rapids",
            0,
            "sapphire-rapids",
            &[(64, 12), (2048, 16), (114_688, 15)],
        ),
        ("milan", 0, "zen-3", &[(64, 8), (1024, 8), (32768, 16)]),
        ("genoa", 0, "zen-4", &[(64, 8), (2048, 8), (32768, 16)]),
        (
            "graviton3",
            0,
            "neoverse-v1",
            &[(256, 4), (2048, 8), (32768, 16)],
        ),
        ("raspberry-pi-4", 0, "generic", &[(256, 2), (1024, 16)]),
        ("apple-m1", 0, "generic", &[(128, 8), (4096, 16)]),
        ("apple-m1", 1, "generic", &[(256, 8), (16384, 12)]),
        ("guest-without-l3", 0, "skylake-sp", &[(64, 8), (4096, 16)]),
    ] {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/data/sysfs")
            .join(name);
        let host = host::read(&root, cpu).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(host.family, family, "{name}");
        let shapes: Vec<(u32, u32)> = host
            .machine
            .caches
            .iter()
            .map(|c| (c.sets, c.ways))
            .collect();
        assert_eq!(shapes, caches, "{name} CPU {cpu}");
        let told = host
            .notes
            .iter()
            .any(|note| note.starts_with("no L3 is told"));
        assert_eq!(told, caches.len() == 2, "{name}");
    }
}
