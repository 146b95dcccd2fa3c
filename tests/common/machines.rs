//! Small machines for tests: every number is chosen so that results can be worked out by hand.

#![allow(dead_code, reason = "each test program uses a part of it")]

use kwalk::machine::{Cache, Confidence, Core, Inclusion, Machine, MainMemory, Replacement, Tlb};

/// Shape and policy of one level; latency 5, 14, 40, 60 cycles by level, 10 outstanding misses.
pub fn cache(
    level: u8,
    sets: u32,
    ways: u32,
    replacement: Replacement,
    inclusion: Inclusion,
) -> Cache {
    Cache {
        level,
        sets,
        ways,
        line_bytes: 64,
        slices: 1,
        slice_hash: Vec::new(),
        replacement,
        inclusion,
        latency_cycles: [5.0, 14.0, 40.0, 60.0][usize::from(level) - 1],
        outstanding_misses: 10,
        shared_by_cores: 1,
        source: "test".into(),
        confidence: Confidence::Inferred,
    }
}

/// A true-LRU L1D.
pub fn l1(sets: u32, ways: u32) -> Cache {
    cache(1, sets, ways, Replacement::Lru, Inclusion::NonInclusive)
}

/// A TLB for 4 KiB pages; the second level costs 7 cycles.
pub fn tlb(level: u8, page_bytes: &[u64], sets: u32, ways: u32) -> Tlb {
    Tlb {
        level,
        page_bytes: page_bytes.to_vec(),
        sets,
        ways,
        latency_cycles: if level == 1 { 0 } else { 7 },
        source: "test".into(),
        confidence: Confidence::Inferred,
    }
}

/// A machine of these caches without TLBs: one instruction per cycle, one load and one store port,
/// window 64, store buffer 16, forwarding 4, locked 20, misprediction 15, memory 200, walk 30.
pub fn machine(caches: Vec<Cache>) -> Machine {
    Machine {
        name: "test".into(),
        title: "test".into(),
        arch: "x86-64".into(),
        core: Core {
            clock_hz: 1_000_000_000,
            tsc_hz: None,
            window: 64,
            issue_width: 1,
            load_ports: 1,
            store_ports: 1,
            memory_ports: 2,
            store_buffer: 16,
            forward_cycles: 4,
            locked_cycles: 20,
            mispredict_cycles: 15,
            source: "test".into(),
            confidence: Confidence::Inferred,
        },
        caches,
        tlbs: Vec::new(),
        memory: MainMemory {
            latency_cycles: 200.0,
            page_walk_cycles: 30,
            walk_cache_entries: Vec::new(),
            source: "test".into(),
            confidence: Confidence::Inferred,
        },
        prefetchers: Vec::new(),
        interconnect: None,
    }
}

/// 64 sets of 8 ways, then 1024 sets of 8: both LRU.
pub fn two_levels() -> Machine {
    let l2 = cache(2, 1024, 8, Replacement::Lru, Inclusion::NonInclusive);
    machine(vec![l1(64, 8), l2])
}
