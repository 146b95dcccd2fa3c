//! Machines as data: what a model models. One TOML file each, every table with source and
//! confidence; the catalogue is built in, the host is read and measured.

use serde::{Deserialize, Serialize};

pub mod calibration;
pub mod catalogue;
mod check;
pub mod cpuid;
pub mod family;
mod geometry;
pub mod host;
pub mod hwloc;
pub mod linux;
pub mod replacement;
pub mod sysfs;
pub mod told;

pub use calibration::Calibration;
pub use catalogue::MachineError;
pub use check::Fault;
pub use replacement::{Qlru, Replacement};

/// How sure a number is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Confidence {
    /// Read at the place that `source` names.
    Verified,
    /// Measured on this host by kwalk's own loops.
    Measured,
    /// As CPUID, sysfs or hwloc of this host say; in a guest, as told by the hypervisor.
    Told,
    /// From memory of manuals and reviews, not re-read: a prior.
    Memory,
    /// Inferred from a relative, or assumed.
    Inferred,
}

/// A machine: all that the model knows about a processor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// Catalogue name, such as `i7-9700`; or `host:<model name>`.
    pub name: String,
    /// What it is in words.
    pub title: String,
    /// `x86-64` or `arm64`.
    pub arch: String,
    /// The core.
    pub core: Core,
    /// Data caches from the core outwards; an absent level is absent.
    pub caches: Vec<Cache>,
    /// Data TLBs from the core outwards.
    pub tlbs: Vec<Tlb>,
    /// Beyond the last cache.
    pub memory: MainMemory,
    /// Hardware prefetchers; one that is not listed is not modelled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prefetchers: Vec<Prefetcher>,
    /// Between cores; without it one core is modelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interconnect: Option<Interconnect>,
}

/// A core's limits, in core clock cycles.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Core {
    /// Core clock while the kernel runs, in Hz: turns cycles into nanoseconds.
    pub clock_hz: u64,
    /// Clock of the time-stamp counter in Hz, where cycles of it are reported.
    pub tsc_hz: Option<u64>,
    /// Instructions in flight (reorder buffer).
    pub window: u32,
    /// Instructions dispatched, and retired, per cycle.
    pub issue_width: u32,
    /// Loads started per cycle.
    pub load_ports: u32,
    /// Stores started per cycle.
    pub store_ports: u32,
    /// Loads and stores together started per cycle: address generators. The sum of both where each
    /// kind has its own (Intel since Sunny Cove), less where they share.
    pub memory_ports: u32,
    /// Stores that wait to reach the L1D.
    pub store_buffer: u32,
    /// Load from a store still in the store buffer, in cycles.
    pub forward_cycles: u32,
    /// Extra cost of a locked read-modify-write, in cycles.
    pub locked_cycles: u32,
    /// Cost of a mispredicted branch, in cycles.
    pub mispredict_cycles: u32,
    /// Where the numbers come from.
    pub source: String,
    /// How sure they are.
    pub confidence: Confidence,
}

/// One level of data cache, as one core sees it.
///
/// `sets * ways * line_bytes * slices` is its size. Neither sets nor ways need be powers of two.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cache {
    /// 1, 2, 3 or 4.
    pub level: u8,
    /// Sets per slice.
    pub sets: u32,
    /// Ways per set.
    pub ways: u32,
    /// Line in bytes.
    pub line_bytes: u32,
    /// Slices; 1 where the cache is not sliced.
    #[serde(default = "one")]
    pub slices: u32,
    /// For each bit of the slice number, the address bits whose parity gives it; empty: line
    /// number modulo `slices`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slice_hash: Vec<u64>,
    /// Which line of a full set goes.
    pub replacement: Replacement,
    /// What this level holds of the levels inside it.
    pub inclusion: Inclusion,
    /// Load-to-use latency of a hit, in core cycles.
    pub latency_cycles: f64,
    /// Misses of this level in flight (MSHR, line fill buffers).
    pub outstanding_misses: u32,
    /// Cores that share it.
    #[serde(default = "one")]
    pub shared_by_cores: u32,
    /// Where the numbers come from.
    pub source: String,
    /// How sure they are.
    pub confidence: Confidence,
}

fn one() -> u32 {
    1
}

impl Cache {
    /// All slices together, in bytes.
    pub fn size_bytes(&self) -> u64 {
        u64::from(self.slices)
            * u64::from(self.sets)
            * u64::from(self.ways)
            * u64::from(self.line_bytes)
    }
}

/// Relation of a level to the levels inside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Inclusion {
    /// Holds all that the inner levels hold; an eviction here removes the line there.
    Inclusive,
    /// Fills from memory fill every level; evictions are independent.
    NonInclusive,
    /// Holds only what inner levels evicted (victim cache).
    Exclusive,
}

/// One data TLB.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tlb {
    /// 1 or 2 (STLB).
    pub level: u8,
    /// Page sizes that share these entries, in bytes.
    pub page_bytes: Vec<u64>,
    /// Sets; 1 is fully associative.
    pub sets: u32,
    /// Ways.
    pub ways: u32,
    /// What a hit here adds to the access, in cycles; 0 for level 1.
    pub latency_cycles: u32,
    /// Where the numbers come from.
    pub source: String,
    /// How sure they are.
    pub confidence: Confidence,
}

/// Main memory and page walks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MainMemory {
    /// Load-to-use latency, in core cycles.
    pub latency_cycles: f64,
    /// A page walk after an STLB miss whose entries hit the innermost cache, in core cycles; what
    /// an entry that lies further out costs beyond that is the caches' business.
    pub page_walk_cycles: u32,
    /// Entries of the page-walk caches, each fully associative, from the one that spares all but
    /// the last load of a walk outwards; none: every walk loads from every level of the table.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub walk_cache_entries: Vec<u32>,
    /// Where the numbers come from.
    pub source: String,
    /// How sure they are.
    pub confidence: Confidence,
}

/// A hardware prefetcher.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prefetcher {
    /// What it watches and what it asks for.
    pub kind: PrefetcherKind,
    /// Cache level that it fills: 1 or 2.
    pub level: u8,
    /// Lines that one trigger asks for at most.
    pub lines: u32,
    /// Whether it is on.
    pub on: bool,
    /// Where the numbers come from.
    pub source: String,
    /// How sure they are.
    pub confidence: Confidence,
}

/// What a prefetcher watches and what it asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PrefetcherKind {
    /// A miss of its level: the lines that follow.
    NextLine,
    /// A miss of its level: the other line of the aligned pair (128 bytes of 64-byte lines).
    AdjacentLine,
    /// Accesses of one site in the code with a constant stride: the next ones.
    Stride,
    /// Misses of the level inside that rise or fall within a page: the next lines of the page.
    Streamer,
}

/// How cores keep their caches coherent, and what a line from another core costs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interconnect {
    /// States that a line may have.
    pub protocol: Protocol,
    /// Cores that can be modelled; those that share a cache level are numbered one after another.
    pub cores: u32,
    /// Cores of one socket.
    pub cores_per_socket: u32,
    /// Load of a line that another core under the same last level has modified, in core cycles.
    pub same_l3_cycles: f64,
    /// The same under another last level of the socket; the machine has only one: absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_l3_cycles: Option<f64>,
    /// The same in another socket; the machine has only one: absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_socket_cycles: Option<f64>,
    /// Where the numbers come from.
    pub source: String,
    /// How sure they are.
    pub confidence: Confidence,
}

/// States of a line in a core's private caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// Modified, exclusive, shared, invalid: a modified line is written back when another reads it.
    Mesi,
    /// And owned: a modified line that others read stays with its owner, unwritten.
    Moesi,
    /// And forward: of those that share a line, the last to read it gives it to the next.
    Mesif,
}
