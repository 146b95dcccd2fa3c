//! [`PsiOffsets`]: the fields of the PSI path in one layout, resolved.

use super::Id;
use crate::layout::{AccessForm, Arch, FieldLayout, Layout, MissingField};
use crate::memory::Field;

/// Fields that the PSI path touches, at the offsets of one layout, and the form of the accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct PsiOffsets {
    /// Widths and orders.
    pub form: AccessForm,
    /// Group states: 7, or 8 with IRQ time accounting. NONIDLE is the last, ONCPU the bit above.
    pub states: u32,
    pub parent: Field,
    pub enabled: Field,
    pub pcpu: Field,
    pub avgs_work: Field,
    pub rtpoll_states: Field,
    pub seq: Field,
    pub tasks: Field,
    pub state_mask: Field,
    pub times: Field,
    pub state_start: Field,
    pub cgroup_parent: Field,
    pub cgroup_kn: Field,
    pub cgroup_psi: Field,
    pub dfl_cgrp: Field,
    pub kn_id: Field,
    pub task_pid: Field,
    pub psi_flags: Field,
    pub task_cgroups: Field,
    /// The byte that holds `in_memstall`.
    pub in_memstall: Field,
    /// The byte that holds `in_iowait`.
    pub in_iowait: Field,
    pub task_flags: Field,
    pub task_cpu: Field,
    pub rq_curr: Field,
}

/// Offset of `rq.curr` where the layout has no `rq`: 6.12.118, recorded on arm64 and x86-64. The
/// access hits one hot line whatever the offset.
const RQ_CURR_ASSUMED: u32 = 2680;

impl PsiOffsets {
    /// Look the fields up in `layout`.
    ///
    /// # Errors
    /// Names the struct, field and layout of what is missing. `rq.curr` and `thread_info.cpu` have
    /// stand-ins, since they lie on lines that every context switch keeps hot.
    pub fn resolve(layout: &Layout) -> Result<PsiOffsets, MissingField> {
        let field = |id: Id, of: &str, name: &str| -> Result<Field, MissingField> {
            Ok(id.at(layout.field(of, name)?.offset_bytes))
        };
        let form = layout.psi_form;
        let seq = if form.seq_in_group_cpu {
            field(Id::SEQ, "psi_group_cpu", "seq")?
        } else {
            Id::SEQ.at(0)
        };
        let times = layout.field("psi_group_cpu", "times")?;
        let self_parent = match layout.field("cgroup", "self.parent") {
            Ok(f) => f.offset_bytes,
            Err(_) => {
                layout.field("cgroup", "self")?.offset_bytes
                    + layout.field("cgroup_subsys_state", "parent")?.offset_bytes
            }
        };
        let in_memstall = layout.field("task_struct", "in_memstall")?;
        let in_iowait = layout.field("task_struct", "in_iowait")?;
        Ok(PsiOffsets {
            form,
            states: times.size_bytes / 4,
            parent: field(Id::PARENT, "psi_group", "parent")?,
            enabled: field(Id::ENABLED, "psi_group", "enabled")?,
            pcpu: field(Id::PCPU, "psi_group", "pcpu")?,
            avgs_work: field(Id::AVGS_WORK, "psi_group", "avgs_work")?,
            rtpoll_states: field(Id::RTPOLL_STATES, "psi_group", "rtpoll_states")?,
            seq,
            tasks: field(Id::TASKS, "psi_group_cpu", "tasks")?,
            state_mask: field(Id::STATE_MASK, "psi_group_cpu", "state_mask")?,
            times: Id::TIMES.at(times.offset_bytes),
            state_start: field(Id::STATE_START, "psi_group_cpu", "state_start")?,
            cgroup_parent: Id::CGROUP_PARENT.at(self_parent),
            cgroup_kn: field(Id::CGROUP_KN, "cgroup", "kn")?,
            cgroup_psi: field(Id::CGROUP_PSI, "cgroup", "psi")?,
            dfl_cgrp: field(Id::DFL_CGRP, "css_set", "dfl_cgrp")?,
            kn_id: field(Id::KN_ID, "kernfs_node", "id")?,
            task_pid: field(Id::TASK_PID, "task_struct", "pid")?,
            psi_flags: field(Id::PSI_FLAGS, "task_struct", "psi_flags")?,
            task_cgroups: field(Id::TASK_CGROUPS, "task_struct", "cgroups")?,
            in_memstall: Id::IN_MEMSTALL.at(memstall_byte(in_memstall, in_iowait)),
            in_iowait: Id::IN_IOWAIT.at(in_iowait.offset_bytes),
            task_flags: field(Id::TASK_FLAGS, "task_struct", "flags")?,
            task_cpu: Id::TASK_CPU.at(thread_info_cpu(layout)?),
            rq_curr: Id::RQ_CURR.at(layout
                .field("rq", "curr")
                .map_or(RQ_CURR_ASSUMED, |f| f.offset_bytes)),
        })
    }
}

/// Layouts from DWARF give the word of both bits, those from BTF the byte of each. In every build
/// that was looked at, in_memstall lies in the second byte of the word.
fn memstall_byte(in_memstall: &FieldLayout, in_iowait: &FieldLayout) -> u32 {
    if in_memstall.bits.is_none() && in_memstall.offset_bytes == in_iowait.offset_bytes {
        in_memstall.offset_bytes + 1
    } else {
        in_memstall.offset_bytes
    }
}

/// `task_struct.thread_info.cpu`: as the layout says; else 20 on x86-64, and on arm64 16, or 24
/// where `thread_info` has the extra words that make it larger than 24 bytes (recorded streams).
fn thread_info_cpu(layout: &Layout) -> Result<u32, MissingField> {
    if let Ok(cpu) = layout.field("task_struct", "thread_info.cpu") {
        return Ok(cpu.offset_bytes);
    }
    let info = layout.field("task_struct", "thread_info")?;
    Ok(info.offset_bytes
        + match (layout.arch, info.size_bytes) {
            (Arch::X86_64, _) => 20,
            (Arch::Arm64, ..=24) => 16,
            (Arch::Arm64, _) => 24,
        })
}

/// Offsets that all builds of a kind share. Compiled into a kernel's native code as constants, they
/// leave enough registers for the rest, so that an access is one instruction.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    /// `seq` in `psi_group_cpu`, states one by one (6.1 to 6.8).
    SeqX86,
    SeqArm64,
    /// One sequence count per CPU (6.12.118 on).
    PerCpuSeqX86,
    PerCpuSeqArm64,
    /// Any other: all offsets are read at run time, some of them from the stack.
    Other,
}

impl Family {
    const KNOWN: [Family; 4] = [
        Family::SeqX86,
        Family::SeqArm64,
        Family::PerCpuSeqX86,
        Family::PerCpuSeqArm64,
    ];

    /// The family whose number (`as u8`) this is: how a const parameter names one.
    #[inline(always)]
    pub fn numbered(number: u8) -> Family {
        match number {
            0 => Family::SeqX86,
            1 => Family::SeqArm64,
            2 => Family::PerCpuSeqX86,
            3 => Family::PerCpuSeqArm64,
            _ => Family::Other,
        }
    }

    pub fn of(o: &PsiOffsets) -> Family {
        Family::KNOWN
            .into_iter()
            .find(|f| f.fixed(o) == *o)
            .unwrap_or(Family::Other)
    }

    /// `o` with the constants of this family in place.
    #[inline(always)]
    pub fn fixed(self, o: &PsiOffsets) -> PsiOffsets {
        let (arch, seq) = match self {
            Family::SeqX86 => (Arch::X86_64, true),
            Family::SeqArm64 => (Arch::Arm64, true),
            Family::PerCpuSeqX86 => (Arch::X86_64, false),
            Family::PerCpuSeqArm64 => (Arch::Arm64, false),
            Family::Other => return *o,
        };
        let first = if seq { 4 } else { 0 };
        PsiOffsets {
            form: AccessForm {
                arch,
                seq_in_group_cpu: seq,
                states_one_by_one: seq,
                recorded: o.form.recorded,
            },
            states: 7,
            parent: Id::PARENT.at(0),
            enabled: Id::ENABLED.at(8),
            pcpu: Id::PCPU.at(48),
            seq: Id::SEQ.at(0),
            tasks: Id::TASKS.at(first),
            state_mask: Id::STATE_MASK.at(first + 16),
            times: Id::TIMES.at(first + 20),
            state_start: Id::STATE_START.at(if seq { 56 } else { 48 }),
            ..*o
        }
    }
}
