//! The walk: which groups are visited, and what each variant loads to get to the next.

use super::visit::{CpuGlobals, group_cpu};
use super::{IMUL_EVERY, Id, PsiOffsets, Variant};
use crate::memory::{Memory, Word};

/// Where a walk stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cursor<W> {
    /// The group to visit; 0 past the last.
    pub group: W,
    /// Variants that go through cgroups: the next cgroup, already loaded. `ancestors-array`: the
    /// slot of the present group.
    next: W,
    /// `parent-imul`: visits since the last multiplication.
    since: u32,
}

/// What a walk needs besides the layout.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ground<W> {
    pub cpu: CpuGlobals<W>,
    /// The static group of the whole system.
    pub psi_system: W,
}

/// `cgroup_psi(cgroup)` with the test for the root: loads `kn`, `kn->id`, then `psi`.
#[inline(always)]
fn checked_psi<M: Memory>(
    mem: &mut M,
    o: &PsiOffsets,
    ground: &Ground<M::Word>,
    cgroup: M::Word,
) -> M::Word {
    let kn = mem.load::<8>(cgroup, o.cgroup_kn);
    let id = mem.load::<8>(kn, o.kn_id);
    if id.get() == 1 {
        ground.psi_system
    } else {
        mem.load::<8>(cgroup, o.cgroup_psi)
    }
}

/// The cgroup of `task`: loads `cgroups`, then `dfl_cgrp` of the `css_set`.
#[inline(always)]
fn task_cgroup<M: Memory>(mem: &mut M, o: &PsiOffsets, task: M::Word) -> M::Word {
    let set = mem.load::<8>(task, o.task_cgroups);
    mem.load::<8>(set, o.dfl_cgrp)
}

/// The first group of the walk of `task`.
#[inline(always)]
pub(super) fn first<M: Memory>(
    mem: &mut M,
    v: Variant,
    o: &PsiOffsets,
    ground: &Ground<M::Word>,
    task: M::Word,
) -> Cursor<M::Word> {
    let cgroup = task_cgroup(mem, o, task);
    match v {
        Variant::Parent
        | Variant::InnerOff
        | Variant::ParentPrefetch
        | Variant::ParentAgain
        | Variant::ParentImul => Cursor {
            group: checked_psi(mem, o, ground, cgroup),
            next: M::Word::from(0),
            since: 0,
        },
        _ => first_of_cgroup(mem, v, o, ground, cgroup),
    }
}

/// The first group of the walk from `cgroup` up, known not to be the root.
#[inline(always)]
pub(super) fn first_of_cgroup<M: Memory>(
    mem: &mut M,
    v: Variant,
    o: &PsiOffsets,
    ground: &Ground<M::Word>,
    cgroup: M::Word,
) -> Cursor<M::Word> {
    match v {
        Variant::Parent
        | Variant::InnerOff
        | Variant::ParentPrefetch
        | Variant::ParentAgain
        | Variant::ParentImul => Cursor {
            group: mem.load::<8>(cgroup, o.cgroup_psi),
            next: M::Word::from(0),
            since: 0,
        },
        Variant::Cgroup | Variant::CgroupAsPosted => {
            let next = mem.load::<8>(cgroup, o.cgroup_parent);
            Cursor {
                group: mem.load::<8>(cgroup, o.cgroup_psi),
                next,
                since: 0,
            }
        }
        Variant::CgroupInoCheck => {
            let next = mem.load::<8>(cgroup, o.cgroup_parent);
            Cursor {
                group: checked_psi(mem, o, ground, cgroup),
                next,
                since: 0,
            }
        }
        Variant::AncestorsArray => {
            let slot = mem.load::<8>(cgroup, o.cgroup_psi);
            Cursor {
                group: mem.load::<8>(slot, Id::ANCESTORS.at(0)),
                next: slot,
                since: 0,
            }
        }
    }
}

/// Before the visit of `at`: what the variant does in advance.
#[inline(always)]
pub(super) fn before_visit<M: Memory>(
    mem: &mut M,
    v: Variant,
    o: &PsiOffsets,
    ground: &Ground<M::Word>,
    cpu: u32,
    at: &mut Cursor<M::Word>,
) {
    if v == Variant::ParentPrefetch {
        let parent = mem.load::<8>(at.group, o.parent);
        if parent.get() != 0 {
            let counts = group_cpu(mem, o, &ground.cpu, cpu, parent, true);
            mem.prefetch(counts, o.tasks);
        }
        at.next = parent;
    }
}

/// The next group; `group` is 0 past the last.
#[inline(always)]
pub(super) fn next<M: Memory>(
    mem: &mut M,
    v: Variant,
    o: &PsiOffsets,
    ground: &Ground<M::Word>,
    at: Cursor<M::Word>,
) -> Cursor<M::Word> {
    match v {
        Variant::ParentImul => {
            let group = mem.load::<8>(at.group, o.parent);
            if at.since + 1 < IMUL_EVERY {
                return Cursor {
                    group,
                    next: at.next,
                    since: at.since + 1,
                };
            }
            // A value that the compiler does not know, and a branch that it cannot turn into a choice,
            // which would multiply at every visit.
            let one = core::hint::black_box(1_u64);
            mem.work(1);
            Cursor {
                group: group.map(|group| group.wrapping_mul(one)),
                next: at.next,
                since: 0,
            }
        }
        Variant::Parent | Variant::InnerOff | Variant::ParentAgain => Cursor {
            group: mem.load::<8>(at.group, o.parent),
            next: at.next,
            since: 0,
        },
        // Loaded before the visit, to know what to prefetch.
        Variant::ParentPrefetch => Cursor {
            group: at.next,
            next: at.next,
            since: 0,
        },
        Variant::Cgroup | Variant::CgroupAsPosted => {
            if at.next.get() == 0 {
                return Cursor {
                    group: at.next,
                    next: at.next,
                    since: 0,
                };
            }
            let next = mem.load::<8>(at.next, o.cgroup_parent);
            Cursor {
                group: mem.load::<8>(at.next, o.cgroup_psi),
                next,
                since: 0,
            }
        }
        Variant::CgroupInoCheck => {
            if at.next.get() == 0 {
                return Cursor {
                    group: at.next,
                    next: at.next,
                    since: 0,
                };
            }
            let next = mem.load::<8>(at.next, o.cgroup_parent);
            Cursor {
                group: checked_psi(mem, o, ground, at.next),
                next,
                since: 0,
            }
        }
        Variant::AncestorsArray => {
            let slot = at.next.map(|s| s.wrapping_add(8));
            Cursor {
                group: mem.load::<8>(slot, Id::ANCESTORS.at(0)),
                next: slot,
                since: 0,
            }
        }
    }
}
