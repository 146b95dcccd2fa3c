//! PSI accounting: what Linux does to the pressure counters of a task's cgroups when the task
//! wakes, sleeps or is switched; access by access, as recorded from running Linux 6.1 and 6.12.
//!
//! A *walk* visits the groups from the task's cgroup up to `psi_system`: N cgroups give N + 1
//! visits. How it gets from one to the next is the [`Variant`].

mod bare;
mod offsets;
mod operations;
mod pipe;
mod tree;
mod visit;
mod walk;

pub use bare::{BARE_VISIT_WORK, bare_walks, bare_walks_native};
pub use offsets::PsiOffsets;
pub use operations::{
    Outcome, Walks, account_irqtime, task_change, task_changes, task_changes_native, task_switch,
};
pub use pipe::{
    Pipe, Scheduler, go_idle, half_trip, half_trip_native, period, round_trips, round_trips_native,
};
pub use tree::{
    CpuAddresses, Globals, Placement, PlacementError, PsiTree, RecordedPlacement, TreeShape,
};

pub use visit::VISIT_WORK;

use crate::memory::Field;

/// How a walk finds the next group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Variant {
    /// `psi_group.parent`: 6.1 to today.
    Parent,
    /// The series of February 2023: through the cgroups, their `psi` read at each level.
    Cgroup,
    /// The same with the slip of the posted diff: on a switch the walk that sets ONCPU starts at
    /// the previous task instead of the next one.
    CgroupAsPosted,
    /// The same without its first patch: at each level the inode number tells the root.
    CgroupInoCheck,
    /// `psi_inner_cgroup=false`: the leaf's parent is `psi_system`.
    InnerOff,
    /// `parent`, and the parent's `psi_group_cpu` is prefetched while this one is updated.
    ParentPrefetch,
    /// The groups of all ancestors in one array, so that no pointer is chased.
    AncestorsArray,
    /// `parent` compiled once more: a variant against itself, which must not differ.
    ParentAgain,
    /// `parent` with a multiplication by 1 on the pointer of each [`IMUL_EVERY`]th visit: a small
    /// difference that is known, without one access more.
    ParentImul,
}

/// Visits between two multiplications of `parent-imul`. At 3 cycles each (Intel and AMD since 2008,
/// Neoverse: 2) and about 6 for a visit of a bare walk they make it some 2 % slower.
pub const IMUL_EVERY: u32 = 12;

impl Variant {
    /// All of them.
    pub const ALL: [Variant; 9] = [
        Variant::Parent,
        Variant::Cgroup,
        Variant::CgroupAsPosted,
        Variant::CgroupInoCheck,
        Variant::InnerOff,
        Variant::ParentPrefetch,
        Variant::AncestorsArray,
        Variant::ParentAgain,
        Variant::ParentImul,
    ];

    /// As experiments write it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Variant::Parent => "parent",
            Variant::Cgroup => "cgroup",
            Variant::CgroupAsPosted => "cgroup-as-posted",
            Variant::CgroupInoCheck => "cgroup-ino-check",
            Variant::InnerOff => "inner-off",
            Variant::ParentPrefetch => "parent-prefetch",
            Variant::AncestorsArray => "ancestors-array",
            Variant::ParentAgain => "parent-again",
            Variant::ParentImul => "parent-imul",
        }
    }

    /// The variant called `name`.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Variant> {
        Variant::ALL.into_iter().find(|v| v.name() == name)
    }
}

macro_rules! fields {
    ($($id:ident = ($of:literal, $name:literal),)*) => {
        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        #[derive(Clone, Copy)]
        #[repr(u16)]
        enum Id { $($id,)* }

        /// `(struct, field)` of every [`Field::id`] that this kernel uses.
        pub const FIELDS: &[(&str, &str)] = &[$(($of, $name),)*];
    };
}

fields! {
    PARENT = ("psi_group", "parent"),
    ENABLED = ("psi_group", "enabled"),
    PCPU = ("psi_group", "pcpu"),
    AVGS_WORK = ("psi_group", "avgs_work"),
    RTPOLL_STATES = ("psi_group", "rtpoll_states"),
    SEQ = ("psi_group_cpu", "seq"),
    TASKS = ("psi_group_cpu", "tasks"),
    STATE_MASK = ("psi_group_cpu", "state_mask"),
    TIMES = ("psi_group_cpu", "times"),
    STATE_START = ("psi_group_cpu", "state_start"),
    CGROUP_PARENT = ("cgroup", "self.parent"),
    CGROUP_KN = ("cgroup", "kn"),
    CGROUP_PSI = ("cgroup", "psi"),
    DFL_CGRP = ("css_set", "dfl_cgrp"),
    KN_ID = ("kernfs_node", "id"),
    TASK_PID = ("task_struct", "pid"),
    PSI_FLAGS = ("task_struct", "psi_flags"),
    TASK_CGROUPS = ("task_struct", "cgroups"),
    IN_MEMSTALL = ("task_struct", "in_memstall"),
    IN_IOWAIT = ("task_struct", "in_iowait"),
    TASK_FLAGS = ("task_struct", "flags"),
    TASK_CPU = ("task_struct", "thread_info.cpu"),
    RQ_CURR = ("rq", "curr"),
    PER_CPU_OFFSET = ("(global)", "__per_cpu_offset"),
    PSI_SEQ = ("(global)", "psi_seq"),
    CLOCK = ("(global)", "sched_clock"),
    ANCESTORS = ("(candidate)", "ancestors"),
    OTHER = ("(other)", "data"),
}

/// [`Field::id`] of data that is no part of the walk: what runs between two operations.
pub const OTHER_DATA: Field = Field {
    id: Id::OTHER as u16,
    offset_bytes: 0,
};

impl Id {
    const fn at(self, offset_bytes: u32) -> Field {
        Field {
            id: self as u16,
            offset_bytes,
        }
    }
}

/// Whether a field belongs to `psi_group`, `psi_group_cpu` or `cgroup`: the lines whose number grows
/// with the depth. "PSI lines only" counts just these.
#[must_use]
pub fn is_psi_line(field_id: u16) -> bool {
    matches!(
        FIELDS[usize::from(field_id)].0,
        "psi_group" | "psi_group_cpu" | "cgroup"
    )
}

macro_rules! functions {
    ($($id:ident = $name:literal,)*) => {
        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        #[derive(Clone, Copy)]
        #[repr(u16)]
        enum Function { $($id,)* }

        /// Name of every function that accesses are booked under.
        pub const FUNCTIONS: &[&str] = &[$($name,)*];
    };
}

functions! {
    TASK_CHANGE = "psi_task_change",
    TASK_SWITCH = "psi_task_switch",
    FLAGS_CHANGE = "psi_flags_change",
    GROUP_CHANGE = "psi_group_change",
    RECORD_TIMES = "record_times",
    SCHED_CLOCK = "sched_clock",
    ACCOUNT_IRQTIME = "psi_account_irqtime",
    BARE_WALK = "bare_walk",
    OTHER_CODE = "(other)",
}

/// [`Memory::enter`](crate::memory::Memory::enter) number of code that is no part of the walk.
pub const OTHER_CODE: u16 = Function::OTHER_CODE as u16;

/// Bits of `task_struct.psi_flags`, of `clear` and of `set` (Linux `psi_types.h`, 6.1 to 6.18).
pub mod task_state {
    /// Waits for I/O.
    pub const IOWAIT: u64 = 1;
    /// Stalled on memory.
    pub const MEMSTALL: u64 = 1 << 1;
    /// Runnable.
    pub const RUNNING: u64 = 1 << 2;
    /// Runnable and stalled on memory.
    pub const MEMSTALL_RUNNING: u64 = 1 << 3;
    /// On the CPU. Kept in the state mask, not in the counts.
    pub const ONCPU: u64 = 1 << 4;
}

/// States of a group, bits of `psi_group_cpu.state_mask` and indices of `times`. The last one,
/// NONIDLE, and ONCPU above it depend on whether IRQ time is accounted: see [`PsiOffsets`].
pub(crate) mod group_state {
    pub const IO_SOME: u32 = 0;
    pub const IO_FULL: u32 = 1;
    pub const MEM_SOME: u32 = 2;
    pub const MEM_FULL: u32 = 3;
    pub const CPU_SOME: u32 = 4;
    pub const CPU_FULL: u32 = 5;
    pub const IRQ_FULL: u32 = 6;
}
