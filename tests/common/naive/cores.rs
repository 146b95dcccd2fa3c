//! Small machines of several cores, and what a test does with them.
//!
//! Needs the test program's module `machines`.

#![allow(dead_code, reason = "each test program uses a part of it")]

use kwalk::machine::{
    Cache, Confidence, Inclusion, Interconnect, Machine, Prefetcher, PrefetcherKind, Protocol,
    Replacement,
};
use kwalk::model::coherence::{Spot, Touch};
use kwalk::model::hierarchy::{Hierarchy, Kind, Served};
use kwalk::model::shape::Shape;

use crate::machines;

/// Load of a line that another core has: under the same last level, another one, in another socket.
pub const TRANSFER_CYCLES: [f64; 3] = [70.0, 110.0, 300.0];

/// A level of LRU that `sharers` cores have together.
pub fn shared(level: u8, sets: u32, ways: u32, inclusion: Inclusion, sharers: u32) -> Cache {
    Cache {
        shared_by_cores: sharers,
        ..machines::cache(level, sets, ways, Replacement::Lru, inclusion)
    }
}

/// A machine of these caches for up to `cores` cores, `per_socket` to a socket.
pub fn machine(caches: Vec<Cache>, protocol: Protocol, cores: u32, per_socket: u32) -> Machine {
    let mut machine = machines::machine(caches);
    let [same, other, socket] = TRANSFER_CYCLES;
    machine.interconnect = Some(Interconnect {
        protocol,
        cores,
        cores_per_socket: per_socket,
        same_l3_cycles: same,
        other_l3_cycles: Some(other),
        other_socket_cycles: Some(socket),
        source: "test".into(),
        confidence: Confidence::Inferred,
    });
    machine
}

/// A prefetcher that is on.
pub fn prefetcher(kind: PrefetcherKind, level: u8, lines: u32) -> Prefetcher {
    Prefetcher {
        kind,
        level,
        lines,
        on: true,
        source: "test".into(),
        confidence: Confidence::Inferred,
    }
}

/// The caches of `cores` cores of a machine; no level is classified.
pub fn hierarchy(machine: &Machine, cores: usize) -> Hierarchy {
    let shape = Shape::of(machine, cores).expect("the machine has as many cores");
    Hierarchy::shaped(shape, &[], 1).expect("the caches can be modelled")
}

/// One access of `core` to `bytes` bytes at `addr`, within a line of 64 bytes, as the field at that
/// offset of field number `field`.
pub fn touch(
    caches: &mut Hierarchy,
    core: usize,
    addr: u64,
    bytes: u64,
    field: u16,
    kind: Kind,
) -> Served {
    let within = addr % 64;
    assert!(within + bytes <= 64, "one line");
    let touch = Touch {
        bytes: ((1_u128 << bytes) - 1) << within,
        spot: Spot {
            field,
            offset_bytes: within as u32,
        },
    };
    caches.announce(touch, addr, u64::from(field));
    caches.access_by(core, addr / 64, kind)
}
