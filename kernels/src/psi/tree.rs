//! [`PsiTree`]: the objects of N nested cgroups, placed and linked in an arena.

use core::fmt;

use super::{PsiOffsets, Variant, task_state};
use crate::arena::{Arena, Random, Region};
use crate::layout::{Arch, Layout, MissingField};
use crate::memory::Addr;
use crate::slab::{Blocks, Cache, PAGE_BYTES, kmalloc_class_bytes};

/// Where the objects go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Placement {
    /// As SLUB places them: size class, slab, random freelist.
    Slab,
    /// One behind the other, sizes rounded up to the line.
    Packed,
    /// In their slab slots, each some lines further on, as far as the slot has room.
    Coloured,
    /// At the addresses of a recorded stream.
    Recorded(RecordedPlacement),
}

/// Addresses from the header of a recorded stream, as Linux had them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordedPlacement {
    /// Level 1 first.
    pub cgroups: Vec<u64>,
    /// Level 1 first; the last one is `psi_system`.
    pub groups: Vec<u64>,
    /// `psi_group.pcpu` of each group.
    pub cookies: Vec<u64>,
    /// `__per_cpu_offset` of CPUs 0, 1, ...
    pub per_cpu_offsets: Vec<u64>,
    /// The tasks.
    pub tasks: Vec<u64>,
}

/// What tree to build.
#[derive(Clone, Debug)]
pub struct TreeShape {
    /// Nested cgroups below the root; the tasks are in the deepest.
    pub depth: u32,
    /// CPUs that get counters; also decides slab orders.
    pub cpus: u32,
    /// For `inner-off` and `ancestors-array`, which link differently.
    pub variant: Variant,
    /// Where objects go.
    pub placement: Placement,
    /// Draws whatever the placement leaves open.
    pub seed: u64,
}

/// Addresses that operations start from. Nominal in the arena's terms; [`Globals::moved`] gives
/// those of a mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Globals {
    /// `__per_cpu_offset[]`.
    pub per_cpu_offset: u64,
    pub psi_system: u64,
    pub leaf_cgroup: u64,
    /// Both in the leaf cgroup; the first one runs on CPU 0.
    pub tasks: [u64; 2],
    pub cpus: Vec<CpuAddresses>,
}

/// What each CPU has of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct CpuAddresses {
    pub psi_seq: u64,
    pub clock: u64,
    pub rq: u64,
    pub idle_task: u64,
    /// `__per_cpu_offset[cpu]` itself.
    pub difference: u64,
}

impl Globals {
    /// The same with every address given to `host`, and differences moved with the per-CPU region.
    #[must_use]
    pub fn moved(&self, host: impl Fn(Addr) -> u64) -> Globals {
        let at = |a: u64| host(Addr(a));
        let per_cpu = host(Region::PerCpu.base()).wrapping_sub(Region::PerCpu.base().0);
        Globals {
            per_cpu_offset: at(self.per_cpu_offset),
            psi_system: at(self.psi_system),
            leaf_cgroup: at(self.leaf_cgroup),
            tasks: self.tasks.map(at),
            cpus: self
                .cpus
                .iter()
                .map(|c| CpuAddresses {
                    psi_seq: at(c.psi_seq),
                    clock: at(c.clock),
                    rq: at(c.rq),
                    idle_task: at(c.idle_task),
                    difference: c.difference.wrapping_add(per_cpu),
                })
                .collect(),
        }
    }
}

/// A tree of cgroups with two tasks in its leaf.
#[derive(Clone, Debug)]
pub struct PsiTree {
    /// Memory.
    pub arena: Arena,
    /// Addresses.
    pub globals: Globals,
    /// Fields.
    pub offsets: PsiOffsets,
    /// Groups that a whole walk visits.
    pub groups: Vec<Addr>,
    /// `psi_group_cpu` of CPU 0, of each group.
    pub group_cpus: Vec<Addr>,
    /// Cgroups, level 1 first.
    pub cgroups: Vec<Addr>,
}

/// Why a tree cannot be placed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlacementError {
    /// The layout lacks a field.
    Missing(MissingField),
    /// The stream has fewer objects than asked for.
    TooDeep {
        /// Cgroups asked for.
        depth: u32,
        /// Cgroups in the stream.
        recorded: usize,
    },
    /// The stream has fewer CPUs than asked for.
    TooFewCpus {
        /// CPUs asked for.
        cpus: u32,
        /// CPUs in the stream.
        recorded: usize,
    },
    /// A cgroup of this size is no slab object.
    TooLarge {
        /// Size of the object.
        bytes: u32,
        /// What it is.
        what: &'static str,
    },
}

impl fmt::Display for PlacementError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PlacementError::Missing(missing) => missing.fmt(f),
            PlacementError::TooDeep { depth, recorded } => write!(
                f,
                "depth {depth} is more than the {recorded} cgroups of the recorded placement; a depth up to {recorded} or another placement would do"
            ),
            PlacementError::TooFewCpus { cpus, recorded } => write!(
                f,
                "{cpus} CPUs are more than the {recorded} of the recorded placement"
            ),
            PlacementError::TooLarge { bytes, what } => {
                write!(
                    f,
                    "a {what} of {bytes} bytes is larger than any slab object (8192 bytes)"
                )
            }
        }
    }
}

impl std::error::Error for PlacementError {}

impl From<MissingField> for PlacementError {
    fn from(missing: MissingField) -> PlacementError {
        PlacementError::Missing(missing)
    }
}

/// Static addresses: the low 21 bits are those recorded on 6.12.118. The
/// root cgroup's is not in any recording: assumed, on lines that no other object here uses.
struct StaticPlaces {
    per_cpu_offset: u64,
    psi_system: u64,
    init_task: u64,
    /// arm64 keeps the clock data here, x86-64 per CPU.
    clock: Option<u64>,
    root_cgroup: u64,
    root_kn: u64,
}

/// Per-CPU static addresses, relative to a CPU's unit: recorded on 6.12.118.
struct UnitPlaces {
    psi_seq: u64,
    system_group_cpu: u64,
    clock: u64,
    rq: u64,
}

fn static_places(arch: Arch) -> (StaticPlaces, UnitPlaces) {
    match arch {
        Arch::X86_64 => (
            StaticPlaces {
                per_cpu_offset: 0x1f_de20,
                psi_system: 0x5_a380,
                init_task: 0xc940,
                clock: None,
                root_cgroup: 0x10_0a40,
                root_kn: 0x11_0a80,
            },
            UnitPlaces {
                psi_seq: 0x2_1600,
                system_group_cpu: 0x2_1640,
                clock: 0x3_5180,
                rq: 0x3_6040,
            },
        ),
        Arch::Arm64 => (
            StaticPlaces {
                per_cpu_offset: 0x6_3208,
                psi_system: 0x8_84c8,
                init_task: 0x6_9580,
                clock: Some(0x10_cd40),
                root_cgroup: 0x11_0a40,
                root_kn: 0x12_0a80,
            },
            UnitPlaces {
                psi_seq: 0x5310,
                system_group_cpu: 0x53c0,
                clock: 0x6000,
                rq: 0x1_9600,
            },
        ),
    }
}

/// Distance between the units of two CPUs: 1 MiB with two CPUs (facts: psi.md section 2).
const UNIT_BYTES: u64 = 1 << 20;
/// Where the chunk of cgroup-era per-CPU objects begins in a unit.
const CHUNK_BYTES: u64 = 512 << 10;

/// Where every object lies.
struct Places {
    cgroups: Vec<Addr>,
    groups: Vec<Addr>,
    psi_system: Addr,
    /// Offsets of the `psi_group_cpu`s in a unit, `psi_system`'s last.
    unit_offsets: Vec<u64>,
    kns: Vec<Addr>,
    css_set: Addr,
    ancestors: Addr,
    tasks: [Addr; 2],
    idle_task: Addr,
}

impl PsiTree {
    /// Place and link the objects.
    ///
    /// The first task runs on CPU 0, the second sleeps; every other CPU is idle; pressure is on in
    /// every group and the averaging work is pending, as it was in every recorded visit.
    ///
    /// # Errors
    /// A missing field, or a placement that the stream cannot give.
    pub fn new(layout: &Layout, shape: &TreeShape) -> Result<PsiTree, PlacementError> {
        let offsets = PsiOffsets::resolve(layout)?;
        let mut random = Random(shape.seed);
        let (fixed, unit) = static_places(layout.arch);
        let places = places(layout, shape, &fixed, &unit, &mut random)?;
        Ok(link(layout, shape, offsets, &fixed, &unit, &places))
    }

    /// Let `task` be the one that runs on `cpu`: what the scheduler does before it calls
    /// `psi_task_switch`.
    pub fn set_current(&mut self, cpu: u32, task: Addr) {
        let rq = Addr(self.globals.cpus[cpu as usize].rq);
        self.arena.write(
            rq.plus(u64::from(self.offsets.rq_curr.offset_bytes)),
            8,
            task.0,
        );
    }
}

/// Sizes of what is allocated, in bytes.
struct Sizes {
    cgroup: u32,
    group: u32,
    kn: u32,
    css_set: u32,
    task: u32,
}

impl Sizes {
    fn of(layout: &Layout) -> Result<Sizes, MissingField> {
        let size = |name: &str| layout.of(name).map(|s| s.size_bytes);
        Ok(Sizes {
            cgroup: size("cgroup")?,
            group: size("psi_group")?,
            kn: size("kernfs_node")?,
            css_set: size("css_set")?,
            task: size("task_struct")?,
        })
    }

    /// A cgroup ends in one pointer per ancestor, itself included.
    fn cgroup_at(&self, level: u32) -> u32 {
        self.cgroup + 8 * (level + 1)
    }
}

fn places(
    layout: &Layout,
    shape: &TreeShape,
    fixed: &StaticPlaces,
    unit: &UnitPlaces,
    random: &mut Random,
) -> Result<Places, PlacementError> {
    let sizes = Sizes::of(layout)?;
    let depth = shape.depth;
    let mut slabs = Slabs {
        cpus: shape.cpus,
        caches: Vec::new(),
        blocks: Blocks::new(Region::Slab, 0),
    };
    let mut cgroups = Vec::new();
    let mut groups = Vec::new();
    let mut kns = Vec::new();
    let mut psi_system = Region::Static.base().plus(fixed.psi_system);
    let mut unit_offsets = draw_unit_offsets(layout, depth, random);
    unit_offsets.push(unit.system_group_cpu);
    let mut recorded_tasks = None;

    match &shape.placement {
        Placement::Slab | Placement::Coloured => {
            let coloured = shape.placement == Placement::Coloured;
            for level in 1..=depth {
                let colour = if coloured { u64::from(level) } else { 0 };
                let bytes = sizes.cgroup_at(level);
                cgroups.push(slabs.kmalloc("cgroup", bytes, colour, random)?);
                groups.push(slabs.kmalloc("psi_group", sizes.group, colour, random)?);
                kns.push(slabs.object("kernfs_node", sizes.kn.next_multiple_of(8), random));
            }
        }
        Placement::Packed => {
            let line = |bytes: u32| u64::from(bytes.next_multiple_of(64));
            let start = slabs.blocks.take(16 * PAGE_BYTES, 16 * PAGE_BYTES, random);
            let mut next = start.plus(64 * random.below(64));
            for level in 1..=depth {
                cgroups.push(next);
                next = next.plus(line(sizes.cgroup_at(level)));
            }
            for _ in 1..=depth {
                groups.push(next);
                next = next.plus(line(sizes.group));
            }
            for _ in 1..=depth {
                kns.push(next);
                next = next.plus(line(sizes.kn));
            }
            slabs.blocks = Blocks::new(Region::Slab, next.0 - Region::Slab.base().0);
        }
        Placement::Recorded(recorded) => {
            let placed = place_recorded(recorded, shape)?;
            slabs.blocks = Blocks::new(Region::Slab, placed.slab_end - Region::Slab.base().0);
            cgroups = placed.cgroups;
            groups = placed.groups;
            psi_system = placed.psi_system;
            unit_offsets = placed.unit_offsets;
            recorded_tasks = placed.tasks;
            for _ in 1..=depth {
                kns.push(slabs.object("kernfs_node", sizes.kn.next_multiple_of(8), random));
            }
        }
    }
    let css_set = slabs.kmalloc("css_set", sizes.css_set, 0, random)?;
    let ancestors = slabs.kmalloc("ancestors", 8 * (depth + 2), 0, random)?;
    let task_bytes = sizes.task.next_multiple_of(64);
    let mut task = || slabs.object("task_struct", task_bytes, random);
    let tasks = recorded_tasks.unwrap_or_else(|| [task(), task()]);
    let idle_task = task();
    Ok(Places {
        cgroups,
        groups,
        psi_system,
        unit_offsets,
        kns,
        css_set,
        ancestors,
        tasks,
        idle_task,
    })
}

/// The caches that objects come from.
struct Slabs {
    cpus: u32,
    caches: Vec<(String, Cache)>,
    blocks: Blocks,
}

impl Slabs {
    /// An object of a cache of its own, objects `bytes` apart.
    fn object(&mut self, cache: &str, bytes: u32, random: &mut Random) -> Addr {
        let cpus = self.cpus;
        let index = match self.caches.iter().position(|(name, _)| name == cache) {
            Some(index) => index,
            None => {
                self.caches
                    .push((cache.to_string(), Cache::new(bytes, cpus)));
                self.caches.len() - 1
            }
        };
        self.caches[index].1.take(&mut self.blocks, random)
    }

    /// An object from the kmalloc class of its size, `colour` lines into its slot, modulo what the
    /// slot has to spare.
    fn kmalloc(
        &mut self,
        what: &'static str,
        bytes: u32,
        colour: u64,
        random: &mut Random,
    ) -> Result<Addr, PlacementError> {
        let class = kmalloc_class_bytes(bytes).ok_or(PlacementError::TooLarge { bytes, what })?;
        let slot = self.object(&format!("kmalloc-{class}"), class, random);
        let spare_lines = u64::from((class - bytes) / 64);
        Ok(slot.plus(64 * (colour % (spare_lines + 1))))
    }
}

/// Offsets of the `psi_group_cpu`s of all cgroups in a unit: at the build's strides, from a random
/// line of the chunk's first page on.
fn draw_unit_offsets(layout: &Layout, depth: u32, random: &mut Random) -> Vec<u64> {
    let strides = &layout.allocation.group_cpu_strides_bytes;
    let mut next = CHUNK_BYTES + 64 * random.below(64);
    (0..depth)
        .map(|_| {
            let at = next;
            next += u64::from(strides[random.below(strides.len() as u64) as usize]);
            at
        })
        .collect()
}

/// A recorded placement in nominal addresses.
struct RecordedPlaces {
    cgroups: Vec<Addr>,
    groups: Vec<Addr>,
    psi_system: Addr,
    unit_offsets: Vec<u64>,
    tasks: Option<[Addr; 2]>,
    slab_end: u64,
}

/// Bits of a recorded address that are kept: its place in 2 MiB, which decides every set of an L1D
/// and an L2. Clusters of addresses keep their distances; clusters far apart are moved together.
const WINDOW_BYTES: u64 = 2 << 20;

/// Moves clusters of recorded addresses next to each other, each to the same place in 2 MiB.
fn rebase(addresses: &[u64], base: Addr) -> (Vec<Addr>, u64) {
    let mut sorted = addresses.to_vec();
    sorted.sort_unstable();
    let mut moved = Vec::new();
    let mut window = base.0;
    let mut cluster = None;
    let mut last = 0;
    for address in sorted {
        let start = match cluster {
            Some(start) if address - last < 16 * WINDOW_BYTES => start,
            Some(start) => {
                window += (last - start) / WINDOW_BYTES * WINDOW_BYTES + 2 * WINDOW_BYTES;
                address / WINDOW_BYTES * WINDOW_BYTES
            }
            None => address / WINDOW_BYTES * WINDOW_BYTES,
        };
        cluster = Some(start);
        last = address;
        moved.push((address, Addr(window + (address - start))));
    }
    let end = moved.last().map_or(base.0, |(_, a)| a.0) + WINDOW_BYTES;
    let places = addresses
        .iter()
        .map(|a| {
            moved
                .iter()
                .find(|(from, _)| from == a)
                .expect("every address was moved")
                .1
        })
        .collect();
    (places, end)
}

fn place_recorded(
    recorded: &RecordedPlacement,
    shape: &TreeShape,
) -> Result<RecordedPlaces, PlacementError> {
    let depth = shape.depth as usize;
    let known = recorded
        .cgroups
        .len()
        .min(recorded.groups.len().saturating_sub(1));
    let known = known.min(recorded.cookies.len().saturating_sub(1));
    if depth > known {
        return Err(PlacementError::TooDeep {
            depth: shape.depth,
            recorded: known,
        });
    }
    let cpus = recorded.per_cpu_offsets.len();
    if shape.cpus as usize > cpus.max(1) || cpus == 0 {
        return Err(PlacementError::TooFewCpus {
            cpus: shape.cpus,
            recorded: cpus,
        });
    }
    let two_tasks = recorded.tasks.len() >= 2;
    let mut heap: Vec<u64> = Vec::new();
    heap.extend(&recorded.cgroups[..depth]);
    heap.extend(&recorded.groups[..depth]);
    if two_tasks {
        heap.extend(&recorded.tasks[..2]);
    }
    let (heap, slab_end) = rebase(&heap, Region::Slab.base());
    // A unit's place in 2 MiB is that of CPU 0; others lie UNIT_BYTES further.
    let offset = recorded.per_cpu_offsets[0];
    let in_unit = |cookie: u64| cookie.wrapping_add(offset) % UNIT_BYTES;
    let mut unit_offsets: Vec<u64> = recorded.cookies[..depth]
        .iter()
        .map(|c| in_unit(*c))
        .collect();
    let system = recorded.cookies.last().copied().unwrap_or(0);
    unit_offsets.push(in_unit(system));
    let last_group = recorded.groups.last().copied().unwrap_or(0);
    Ok(RecordedPlaces {
        cgroups: heap[..depth].to_vec(),
        groups: heap[depth..2 * depth].to_vec(),
        psi_system: Region::Static.base().plus(last_group % WINDOW_BYTES),
        unit_offsets,
        tasks: two_tasks.then(|| [heap[2 * depth], heap[2 * depth + 1]]),
        slab_end,
    })
}

/// Make all objects exist: one range per region, so that each image is allocated once.
fn reserve(arena: &mut Arena, objects: &[(Addr, u64)]) {
    for region in Region::ALL {
        let mine = || {
            objects
                .iter()
                .filter(|(a, _)| Region::of(*a) == Some(region))
        };
        let first = mine().map(|(a, _)| a.0).min();
        let end = mine().map(|(a, bytes)| a.0 + bytes).max();
        if let (Some(first), Some(end)) = (first, end) {
            arena.reserve(Addr(first), end - first);
        }
    }
}

fn link(
    layout: &Layout,
    shape: &TreeShape,
    o: PsiOffsets,
    fixed: &StaticPlaces,
    unit: &UnitPlaces,
    p: &Places,
) -> PsiTree {
    let mut arena = Arena::new();
    let depth = shape.depth as usize;
    let cpus = u64::from(shape.cpus.max(1));
    let image = Region::Static.base();
    let at = |offset: u64| image.plus(offset);
    let field = |base: Addr, f: crate::memory::Field| base.plus(u64::from(f.offset_bytes));

    let cgroup_bytes = layout.of("cgroup").map_or(8192, |s| s.size_bytes) + 8 * (shape.depth + 2);
    let task_bytes = layout
        .of("task_struct")
        .map_or(16384, |s| u64::from(s.size_bytes));
    let (root, root_kn, idle_css_set) = (
        at(fixed.root_cgroup),
        at(fixed.root_kn),
        at(fixed.root_kn + 2048),
    );
    let init_task = at(fixed.init_task);
    let mut objects: Vec<(Addr, u64)> = Vec::new();
    objects.extend(
        p.cgroups
            .iter()
            .chain([&root])
            .map(|a| (*a, u64::from(cgroup_bytes))),
    );
    objects.extend(p.groups.iter().chain([&p.psi_system]).map(|a| (*a, 1024)));
    objects.extend(p.kns.iter().chain([&root_kn]).map(|a| (*a, 256)));
    objects.extend([p.css_set, idle_css_set].map(|a| (a, 1024)));
    objects.push((p.ancestors, 8 * (u64::from(shape.depth) + 2)));
    objects.extend([p.tasks[0], p.tasks[1], p.idle_task, init_task].map(|a| (a, task_bytes)));
    objects.push((at(fixed.per_cpu_offset), 8 * cpus));
    objects.extend(fixed.clock.map(|clock| (at(clock), 256)));
    objects.push((Region::PerCpu.base(), cpus * UNIT_BYTES));
    reserve(&mut arena, &objects);

    let unit_base = |cpu: u64| Region::PerCpu.base().plus(cpu * UNIT_BYTES);
    for cpu in 0..cpus {
        let slot = at(fixed.per_cpu_offset).plus(8 * cpu);
        arena.write_difference(slot, unit_base(cpu).0, Region::PerCpu);
    }

    let mut groups: Vec<Addr> = p.groups.clone();
    groups.push(p.psi_system);
    let mut chain: Vec<Addr> = p.cgroups.clone();
    chain.insert(0, root);
    let leaf = chain[depth];

    // Groups: parent, switch, counters. Level 1's parent is psi_system, which has none.
    for (i, group) in groups.iter().enumerate() {
        let parent = match (i, shape.variant) {
            (i, _) if i == depth => None,
            (i, Variant::InnerOff) if i + 1 == depth => Some(p.psi_system),
            (0, _) => Some(p.psi_system),
            (i, _) => Some(groups[i - 1]),
        };
        if let Some(parent) = parent {
            arena.write_pointer(field(*group, o.parent), parent);
        }
        arena.write(field(*group, o.enabled), 1, 1);
        arena.write(field(*group, o.pcpu), 8, p.unit_offsets[i]);
        arena.write(field(*group, o.avgs_work), 8, 1);
        for cpu in 0..cpus {
            let counts = unit_base(cpu).plus(p.unit_offsets[i]);
            let running = u64::from(cpu == 0);
            arena.write(field(counts, o.tasks.at(8)), 4, running);
            let mask = running << o.states | running << (o.states - 1);
            arena.write(field(counts, o.state_mask), 4, mask);
        }
    }

    // Cgroups: parent, kernfs node, group.
    for (level, cgroup) in chain.iter().enumerate() {
        let (kn, group) = match level {
            0 => (root_kn, p.psi_system),
            level => (p.kns[level - 1], groups[level - 1]),
        };
        if level > 0 {
            arena.write_pointer(field(*cgroup, o.cgroup_parent), chain[level - 1]);
        }
        arena.write_pointer(field(*cgroup, o.cgroup_kn), kn);
        arena.write(
            field(kn, o.kn_id),
            8,
            if level == 0 { 1 } else { 100 + level as u64 },
        );
        arena.write_pointer(field(*cgroup, o.cgroup_psi), group);
    }
    if shape.variant == Variant::AncestorsArray {
        // Leaf first, psi_system last, then nothing.
        arena.write_pointer(field(leaf, o.cgroup_psi), p.ancestors);
        for (i, group) in groups[..depth]
            .iter()
            .rev()
            .chain([&p.psi_system])
            .enumerate()
        {
            arena.write_pointer(p.ancestors.plus(8 * i as u64), *group);
        }
    }

    arena.write_pointer(field(p.css_set, o.dfl_cgrp), leaf);
    for (i, task) in p.tasks.iter().enumerate() {
        arena.write(field(*task, o.task_pid), 4, 123 + i as u64);
        arena.write_pointer(field(*task, o.task_cgroups), p.css_set);
    }
    arena.write(
        field(p.tasks[0], o.psi_flags),
        4,
        task_state::RUNNING | task_state::ONCPU,
    );
    let idle = |cpu: u64| if cpu == 0 { init_task } else { p.idle_task };
    for cpu in 0..cpus {
        // An idle task belongs to the root cgroup: where the posted diff's slip starts from.
        arena.write_pointer(field(idle_css_set, o.dfl_cgrp), root);
        arena.write_pointer(field(idle(cpu), o.task_cgroups), idle_css_set);
        let curr = if cpu == 0 { p.tasks[0] } else { idle(cpu) };
        arena.write_pointer(field(unit_base(cpu).plus(unit.rq), o.rq_curr), curr);
    }

    let cpus = (0..cpus)
        .map(|cpu| CpuAddresses {
            psi_seq: unit_base(cpu).plus(unit.psi_seq).0,
            clock: fixed.clock.map_or(unit_base(cpu).plus(unit.clock), at).0,
            rq: unit_base(cpu).plus(unit.rq).0,
            idle_task: idle(cpu).0,
            difference: unit_base(cpu).0,
        })
        .collect();
    PsiTree {
        globals: Globals {
            per_cpu_offset: at(fixed.per_cpu_offset).0,
            psi_system: p.psi_system.0,
            leaf_cgroup: leaf.0,
            tasks: p.tasks.map(|t| t.0),
            cpus,
        },
        offsets: o,
        group_cpus: p
            .unit_offsets
            .iter()
            .map(|u| unit_base(0).plus(*u))
            .collect(),
        groups,
        cgroups: p.cgroups.clone(),
        arena,
    }
}
