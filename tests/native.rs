//! The host side of the native backend, on whatever host this is: nothing here needs a PMU, root,
//! huge pages or a second CPU, and no time is asserted.

use kernels::arena::{Arena, Region};
use kwalk::calibrate::calibrate;
use kwalk::counters::events::METRICS;
use kwalk::counters::{Counters, Reading};
use kwalk::machine::{Cache, Confidence, Inclusion, Replacement};
use kwalk::native::affinity::{Pinned, choose};
use kwalk::native::clock::Clock;
use kwalk::native::disturbance::Watch;
use kwalk::native::mapping::{Pages, map};

const SLAB_BYTES: u64 = 5 << 20;

/// Three regions; 5 MiB of slab, so that the last 2 MiB are used in part.
fn arena() -> Arena {
    let mut arena = Arena::new();
    let (slab, per_cpu) = (Region::Slab.base(), Region::PerCpu.base());
    arena.reserve(slab, SLAB_BYTES);
    arena.reserve(per_cpu.plus(3 << 20), 192);
    arena.reserve(Region::Static.base(), 720);
    arena.write(slab.plus(SLAB_BYTES - 8), 8, 0x1122_3344_5566_7788);
    arena.write_pointer(slab.plus(64), per_cpu.plus(3 << 20).plus(64));
    arena
}

/// Host and nominal address agree modulo 2 MiB, so in every bit of an L1D set or a page offset;
/// per-CPU memory is on small pages whatever is asked; what is not as asked is told.
#[test]
fn regions_are_mapped_congruent_and_verified() {
    let arena = arena();
    for pages in [Pages::FourK, Pages::Thp, Pages::Hugetlb2M] {
        let mapped = map(&arena, pages).unwrap();
        let regions: Vec<Region> = mapped.regions.iter().map(|r| r.region).collect();
        assert_eq!(regions, [Region::Slab, Region::PerCpu, Region::Static]);
        for r in &mapped.regions {
            let nominal = arena.image(r.region).start;
            assert_eq!(mapped.host(nominal), r.host_start);
            assert_eq!(r.host_start % (2 << 20), nominal.0 % (2 << 20));
            assert_eq!(r.bytes, arena.image(r.region).bytes.len() as u64);
            let small = r.region == Region::PerCpu;
            assert_eq!(r.asked, if small { Pages::FourK } else { pages });
            assert!(
                r.got == r.asked || r.note.is_some(),
                "silent refusal: {r:?}"
            );
            if small {
                assert_eq!((r.got, r.got_huge_bytes), (Pages::FourK, 0));
            }
            if let (Pages::Hugetlb2M, Some(note)) = (r.asked, &r.note) {
                assert!(note.contains("/proc/sys/vm/nr_hugepages is "), "{note}");
            }
        }
    }
}

/// Lines can be touched and flushed at both ends of a region, and not beyond.
#[test]
fn mapped_lines_are_touched_and_flushed() {
    let mapped = map(&arena(), Pages::FourK).unwrap();
    let slab = Region::Slab.base();
    for offset in [0, SLAB_BYTES - 64] {
        mapped.touch(slab.plus(offset), 64);
        if cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
            mapped.flush(slab.plus(offset), 64).unwrap();
        }
    }
    let beyond = std::panic::catch_unwind(|| mapped.touch(slab.plus(512 << 20), 1));
    assert!(beyond.is_err());
}

/// What is mapped is the arena's image with its pointers moved: read back through Linux.
#[test]
fn images_are_copied_with_pointers_moved() {
    use std::os::unix::fs::FileExt;
    let arena = arena();
    let mapped = map(&arena, Pages::Thp).unwrap();
    let memory = std::fs::File::open("/proc/self/mem").unwrap();
    let read = |host: u64| {
        let mut word = [0; 8];
        memory.read_exact_at(&mut word, host).unwrap();
        u64::from_le_bytes(word)
    };
    let slab = Region::Slab.base();
    let last = slab.plus(SLAB_BYTES - 8);
    assert_eq!(read(mapped.host(last)), 0x1122_3344_5566_7788);
    let target = Region::PerCpu.base().plus(3 << 20).plus(64);
    assert_eq!(read(mapped.host(slab.plus(64))), mapped.host(target));
}

/// Every metric yields a count or a sentence, and work that loads cannot count as nothing.
#[test]
fn each_counter_counts_or_says_why_not() {
    let cpu = choose(1).unwrap()[0];
    std::thread::spawn(move || {
        let _pinned = Pinned::to(cpu).unwrap();
        let mut counters = Counters::open(cpu);
        let mut sum = 0u64;
        let counted = counters.measure(|| {
            for i in 0..100_000u64 {
                sum = std::hint::black_box(sum + i);
            }
        });
        let metrics: Vec<&str> = counted.iter().map(|c| c.metric).collect();
        assert_eq!(metrics, METRICS.map(|(metric, _)| metric));
        for c in &counted {
            match &c.reading {
                Reading::Unavailable(why) => assert!(why.len() > 20, "{c:?}"),
                // One addition per round at least; a hundred thousand rounds.
                reading if c.metric == "instructions" => {
                    assert!(reading.estimate().unwrap() >= 1e5, "{c:?}");
                }
                reading => assert!(reading.estimate().unwrap().is_finite(), "{c:?}"),
            }
        }
        let summary = counters.summary();
        assert!(summary.len() >= counted.len());
        for (line, c) in summary.iter().zip(&counted) {
            assert!(line.starts_with(c.metric), "{line}");
        }
        println!("{}", summary.join("\n"));
    })
    .join()
    .unwrap();
}

/// Clock and watch work together on one pinned thread; a spoiled group names a reason.
#[test]
fn a_pinned_thread_has_a_clock_and_a_watch() {
    let cpu = choose(1).unwrap()[0];
    std::thread::spawn(move || {
        let _pinned = Pinned::to(cpu).unwrap();
        let mut watch = Watch::new(cpu);
        watch.start();
        let clock = Clock::measure();
        let disturbed = watch.stop();
        assert_eq!(disturbed.moved_to, None);
        if let Some(reason) = disturbed.spoiled(cpu) {
            assert!(!reason.is_empty());
        }
        // The counter of any host ticks at a MHz at least, and at less than 100 GHz.
        assert!((1e6..1e11).contains(&clock.tick_hz.median), "{clock:?}");
    })
    .join()
    .unwrap();
}

/// Caches as a host may tell them, wrongly at times: what the loops find is whole, what they do
/// not find has a sentence, and no shape stops them. Levels beyond the L2 are left unknown: the
/// loops on them are the longest.
#[test]
fn the_self_check_copes_with_any_geometry() {
    let cpu = choose(1).unwrap()[0];
    for (sets, ways, line_bytes, l2_sets) in [
        (64, 12, 64, 1024),
        (256, 4, 64, 1000),
        (64, 8, 128, 2048),
        (0, 0, 64, 0),
        (65536, 16, 64, 8192),
        (4, 16, 64, 64),
    ] {
        let cache = |level, sets, ways| Cache {
            level,
            sets,
            ways,
            line_bytes,
            slices: 1,
            slice_hash: vec![],
            replacement: Replacement::Lru,
            inclusion: Inclusion::NonInclusive,
            latency_cycles: 4.0,
            outstanding_misses: 10,
            shared_by_cores: 1,
            source: "test".into(),
            confidence: Confidence::Told,
        };
        let caches = [cache(1, sets, ways), cache(2, l2_sets, 16)];
        let found = std::thread::spawn(move || calibrate(cpu, &caches, true))
            .join()
            .unwrap();
        let what = format!("{sets} x {ways} x {line_bytes}: {found:?}");
        assert!(found.tsc_hz.is_some(), "{what}");
        for level in [1, 2, 0] {
            let latency = found.level_latency_cycles.iter().find(|l| l.0 == level);
            assert!(
                latency.map_or(!found.notes.is_empty(), |l| l.1 > 0.0),
                "{what}"
            );
        }
        match &found.l1_replacement {
            Some((_, evidence)) => {
                // Every k from two below the ways to four above twice the ways.
                let ks: Vec<u32> = found.l1_set_curve.iter().map(|c| c.0).collect();
                assert_eq!(ks, (ways - 2..=2 * ways + 4).collect::<Vec<_>>(), "{what}");
                assert!(evidence.contains("misses per load"), "{what}");
            }
            None => assert!(!found.notes.is_empty(), "{what}"),
        }
    }
}
