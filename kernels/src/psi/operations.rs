//! The operations of Linux that walk: a task is enqueued or dequeued, the CPU switches tasks, IRQ
//! time is accounted.

use super::group_state::IRQ_FULL;
use super::offsets::Family;
use super::tree::Globals;
use super::visit::{
    Change, CpuGlobals, Visit, clock, cpu_seq_step, group_change, group_cpu, record_times,
};
use super::walk::{Cursor, Ground, before_visit, first, next};
use super::{Function, PsiOffsets, Variant, task_state};
use crate::layout::Arch;
use crate::memory::{Memory, Word};
use crate::native::Native;

/// What operations did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome<W> {
    /// Calls of `psi_group_change`.
    pub visits: u64,
    /// Sum over what was seen, equal on every rung: no address enters it.
    pub sum: W,
    /// A value that was loaded from the last group of the last walk, and nothing computed from it: what
    /// waits for it waits for the chase, not for the arithmetic of a visit, which differs by compiler
    /// and takes no time in the model.
    pub last: W,
}

impl<W: Word> Outcome<W> {
    /// Nothing done yet.
    #[must_use]
    pub fn none() -> Outcome<W> {
        Outcome {
            visits: 0,
            sum: W::from(0),
            last: W::from(0),
        }
    }

    #[inline(always)]
    fn visited(&mut self, visit: Visit<W>) {
        self.visits += 1;
        self.sum = self.sum.with(visit.seen, |a, b| a.wrapping_add(b));
        self.last = visit.loaded;
    }
}

#[inline(always)]
fn ground<M: Memory>(g: &Globals, cpu: u32) -> Ground<M::Word> {
    let c = &g.cpus[cpu as usize];
    Ground {
        cpu: CpuGlobals {
            per_cpu_offset: M::Word::from(g.per_cpu_offset),
            psi_seq: M::Word::from(c.psi_seq),
            clock: M::Word::from(c.clock),
            rq: M::Word::from(c.rq),
        },
        psi_system: M::Word::from(g.psi_system),
    }
}

/// `task_cpu(task)`, then the begin of the call: sequence count and clock, where they are per call.
#[inline(always)]
fn begin<M: Memory>(
    mem: &mut M,
    o: &PsiOffsets,
    ground: &Ground<M::Word>,
    cpu: u32,
    time: u64,
    function: Function,
) -> M::Word {
    if o.form.seq_in_group_cpu {
        return M::Word::from(time);
    }
    cpu_seq_step(mem, &ground.cpu, cpu);
    let now = clock(mem, o, ground.cpu.clock, time);
    mem.enter(function as u16);
    now
}

#[inline(always)]
fn end<M: Memory>(mem: &mut M, o: &PsiOffsets, ground: &Ground<M::Word>, cpu: u32) {
    if !o.form.seq_in_group_cpu {
        cpu_seq_step(mem, &ground.cpu, cpu);
    }
}

/// `psi_flags_change`: one read and one write of `task.psi_flags`.
#[inline(always)]
fn flags_change<M: Memory>(mem: &mut M, o: &PsiOffsets, task: M::Word, clear: u64, set: u64) {
    mem.enter(Function::FLAGS_CHANGE as u16);
    let flags = mem.load::<4>(task, o.psi_flags);
    mem.store::<4>(task, o.psi_flags, flags.map(|f| f & !clear | set));
    mem.work(6);
}

/// `psi_task_change(task, clear, set)` on `cpu` at `time`: the walk of an enqueue or a dequeue.
///
/// Head: `task.cpu`, `task.pid` (the other way round on x86-64), `psi_flags` read and written,
/// where one sequence count serves the call its step and the clock, then the way to the first
/// group. Then a visit to each group and the step to the next.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
pub fn task_change<M: Memory>(
    mem: &mut M,
    v: Variant,
    o: &PsiOffsets,
    g: &Globals,
    cpu: u32,
    task: M::Word,
    (clear, set): (u64, u64),
    time: u64,
) -> Outcome<M::Word> {
    let ground = ground::<M>(g, cpu);
    mem.enter(Function::TASK_CHANGE as u16);
    match o.form.arch {
        Arch::X86_64 => {
            mem.load::<4>(task, o.task_pid);
            mem.load::<4>(task, o.task_cpu);
        }
        Arch::Arm64 => {
            mem.load::<4>(task, o.task_cpu);
            mem.load::<4>(task, o.task_pid);
        }
    }
    flags_change(mem, o, task, clear, set);
    mem.enter(Function::TASK_CHANGE as u16);
    let now = begin(mem, o, &ground, cpu, time, Function::TASK_CHANGE);
    let change = Change {
        cpu,
        clear,
        set,
        now,
    };
    let mut done = Outcome::none();
    let mut at = first(mem, v, o, &ground, task);
    while at.group.get() != 0 {
        before_visit(mem, v, o, &ground, cpu, &mut at);
        done.visited(group_change(mem, o, &ground.cpu, at.group, change));
        mem.enter(Function::TASK_CHANGE as u16);
        at = next(mem, v, o, &ground, at);
    }
    end(mem, o, &ground, cpu);
    done
}

/// `psi_task_switch(prev, next, sleep)` on `cpu` at `time`. A task whose `pid` is 0 is idle.
///
/// First the groups of `next` get ONCPU, up to the first that has it already: the common ancestor
/// of both tasks. Then those of `prev` lose it, and its RUNNING if it sleeps, up to that ancestor;
/// from there on only RUNNING goes, if the flags of the two tasks differ.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
pub fn task_switch<M: Memory>(
    mem: &mut M,
    v: Variant,
    o: &PsiOffsets,
    g: &Globals,
    cpu: u32,
    (prev, to): (M::Word, M::Word),
    sleep: bool,
    time: u64,
) -> Outcome<M::Word> {
    let ground = ground::<M>(g, cpu);
    let oncpu_bit = 1_u64 << o.states;
    let me = Function::TASK_SWITCH;
    mem.enter(me as u16);
    mem.load::<4>(prev, o.task_cpu);
    let now = begin(mem, o, &ground, cpu, time, me);
    let mut done = Outcome::none();
    let mut common = 0;

    if mem.load::<4>(to, o.task_pid).get() != 0 {
        flags_change(mem, o, to, 0, task_state::ONCPU);
        mem.enter(me as u16);
        // The posted diff starts at prev: with an idle prev that is psi_system alone.
        let start = if v == Variant::CgroupAsPosted {
            prev
        } else {
            to
        };
        let change = Change {
            cpu,
            clear: 0,
            set: task_state::ONCPU,
            now,
        };
        let mut at = first(mem, v, o, &ground, start);
        while at.group.get() != 0 {
            let counts = group_cpu(mem, o, &ground.cpu, cpu, at.group, true);
            let mask = match o.form.arch {
                // The bit is tested in its byte.
                Arch::X86_64 => mem.load::<1>(counts, o.state_mask.at(o.states / 8)),
                Arch::Arm64 => mem.load::<4>(counts, o.state_mask),
            };
            let bit = match o.form.arch {
                Arch::X86_64 => oncpu_bit >> (o.states / 8 * 8),
                Arch::Arm64 => oncpu_bit,
            };
            if mask.get() & bit != 0 {
                common = at.group.get();
                break;
            }
            before_visit(mem, v, o, &ground, cpu, &mut at);
            done.visited(group_change(mem, o, &ground.cpu, at.group, change));
            mem.enter(me as u16);
            at = next(mem, v, o, &ground, at);
        }
    }

    if mem.load::<4>(prev, o.task_pid).get() != 0 {
        let (mut clear, mut set) = (task_state::ONCPU, 0);
        if sleep {
            let (memstall, iowait) = load_sleep_bits(mem, o, prev);
            clear |= task_state::RUNNING;
            if memstall {
                clear |= task_state::MEMSTALL_RUNNING;
            }
            if iowait {
                set |= task_state::IOWAIT;
            }
            // PF_WQ_WORKER: a worker that ran psi_avgs_work must not wake itself. None here.
            match o.form.arch {
                Arch::X86_64 => mem.load::<1>(prev, o.task_flags),
                Arch::Arm64 => mem.load::<4>(prev, o.task_flags),
            };
        }
        flags_change(mem, o, prev, clear, set);
        mem.enter(me as u16);
        let change = Change {
            cpu,
            clear,
            set,
            now,
        };
        let mut at = first(mem, v, o, &ground, prev);
        at = visit_until(mem, v, o, &ground, at, common, change, &mut done);
        let before = mem.load::<4>(prev, o.psi_flags);
        let after = mem.load::<4>(to, o.psi_flags);
        if (before.get() ^ after.get()) & !task_state::ONCPU != 0 {
            let rest = Change {
                clear: clear & !task_state::ONCPU,
                ..change
            };
            visit_until(mem, v, o, &ground, at, 0, rest, &mut done);
        }
    }
    end(mem, o, &ground, cpu);
    done
}

/// `(in_memstall, in_iowait)` of a task that goes to sleep: two bytes on x86-64, one load on arm64.
#[inline(always)]
fn load_sleep_bits<M: Memory>(mem: &mut M, o: &PsiOffsets, task: M::Word) -> (bool, bool) {
    // Which bit of the byte is which does not matter here: replicas' tasks have none set, or all.
    match o.form.arch {
        Arch::X86_64 => {
            let memstall = mem.load::<1>(task, o.in_memstall).get() != 0;
            (memstall, mem.load::<1>(task, o.in_iowait).get() != 0)
        }
        Arch::Arm64 => {
            let both = mem.load::<2>(task, o.in_iowait).get();
            (both >> 8 != 0, both & 0xff != 0)
        }
    }
}

/// Visit groups from `at` on up to, not including, `until` (0: to the end).
#[inline(always)]
#[allow(clippy::too_many_arguments)]
fn visit_until<M: Memory>(
    mem: &mut M,
    v: Variant,
    o: &PsiOffsets,
    ground: &Ground<M::Word>,
    mut at: Cursor<M::Word>,
    until: u64,
    change: Change<M::Word>,
    done: &mut Outcome<M::Word>,
) -> Cursor<M::Word> {
    while at.group.get() != 0 && at.group.get() != until {
        before_visit(mem, v, o, ground, change.cpu, &mut at);
        done.visited(group_change(mem, o, &ground.cpu, at.group, change));
        mem.enter(Function::TASK_SWITCH as u16);
        at = next(mem, v, o, ground, at);
    }
    at
}

/// `psi_account_irqtime` for `task` on `cpu`: `delta` ns of interrupt time to every group.
///
/// Per group three lines: the counters, and the two of `psi_group` with `enabled` and
/// `rtpoll_states`; `avgs_work` is not looked at. Not recorded: from the sources (facts: psi.md
/// section 5). `None` where the build does not account IRQ time (`times` has no room for it).
#[inline(always)]
#[allow(clippy::too_many_arguments)]
pub fn account_irqtime<M: Memory>(
    mem: &mut M,
    v: Variant,
    o: &PsiOffsets,
    g: &Globals,
    cpu: u32,
    task: M::Word,
    delta: u64,
    time: u64,
) -> Option<Outcome<M::Word>> {
    if o.states < 8 {
        return None;
    }
    let ground = ground::<M>(g, cpu);
    let me = Function::ACCOUNT_IRQTIME;
    mem.enter(me as u16);
    let mut done = Outcome::none();
    if mem.load::<4>(task, o.task_pid).get() == 0 {
        return Some(done);
    }
    let mut at = first(mem, v, o, &ground, task);
    let mut now = begin(mem, o, &ground, cpu, time, me);
    while at.group.get() != 0 {
        if mem.load::<1>(at.group, o.enabled).get() != 0 {
            let counts = group_cpu(
                mem,
                o,
                &ground.cpu,
                cpu,
                at.group,
                o.form.arch == Arch::Arm64,
            );
            if o.form.seq_in_group_cpu {
                let seq = mem.load::<4>(counts, o.seq);
                mem.store::<4>(counts, o.seq, seq.map(|s| s.wrapping_add(1)));
                now = clock(mem, o, ground.cpu.clock, time);
            }
            let mask = record_times(mem, o, counts, now);
            mem.enter(me as u16);
            let field = o.times.at(IRQ_FULL * 4);
            let old = mem.load::<4>(counts, field);
            mem.store::<4>(
                counts,
                field,
                old.map(|t| t.wrapping_add(delta) & 0xffff_ffff),
            );
            if o.form.seq_in_group_cpu {
                let seq = mem.load::<4>(counts, o.seq);
                mem.store::<4>(counts, o.seq, seq.map(|s| s.wrapping_add(1)));
            }
            let polled = mem.load::<4>(at.group, o.rtpoll_states);
            done.visited(Visit {
                seen: polled.with(mask, |p, m| p.wrapping_add(m)),
                loaded: polled,
            });
        }
        at = next(mem, v, o, &ground, at);
    }
    end(mem, o, &ground, cpu);
    Some(done)
}

/// What walks have in common.
#[derive(Clone, Copy, Debug)]
pub struct Walks<'a> {
    /// How they get from group to group.
    pub variant: Variant,
    /// Fields.
    pub offsets: &'a PsiOffsets,
    /// Addresses.
    pub globals: &'a Globals,
    /// 0, but the compiler does not know: makes each walk wait for the last group of the walk
    /// before, so that the time of a walk is its latency.
    pub zero: u64,
}

/// Time between two operations, as tasks are told it, in ns. Any number would do.
pub(super) const TICK_NS: u64 = 1000;

/// `calls` times `psi_task_change` on CPU 0: while the first task runs, the second of the leaf
/// cgroup is enqueued, dequeued, enqueued, ... `time` counts on and tells which comes next.
/// Returns `calls * (depth + 1)` visits.
#[inline(always)]
pub fn task_changes<M: Memory>(
    mem: &mut M,
    w: &Walks<'_>,
    calls: u64,
    time: &mut u64,
) -> Outcome<M::Word> {
    let mut total = Outcome::none();
    for _ in 0..calls {
        let last: M::Word = total.last;
        let task = M::Word::from(w.globals.tasks[1]).with(last, |t, l| t.wrapping_add(l & w.zero));
        let change = match *time / TICK_NS % 2 {
            0 => (0, task_state::RUNNING),
            _ => (task_state::RUNNING, 0),
        };
        *time = time.wrapping_add(TICK_NS);
        let done = task_change(mem, w.variant, w.offsets, w.globals, 0, task, change, *time);
        total.visits += done.visits;
        total.sum = total.sum.with(done.sum, |a, b| a.wrapping_add(b));
        total.last = done.last;
    }
    total
}

/// Calls an inlined generic body once per family of offsets and variant, each with constants.
macro_rules! specialised {
    ($o:ident, $v:ident, |$offsets:ident, $variant:ident| $body:expr) => {
        specialised!(@families $o, $v, |$offsets, $variant| $body,
            SeqX86 SeqArm64 PerCpuSeqX86 PerCpuSeqArm64 Other)
    };
    (@families $o:ident, $v:ident, |$offsets:ident, $variant:ident| $body:expr, $($family:ident)*) => {
        match Family::of($o) {
            $(Family::$family => {
                let fixed = Family::$family.fixed($o);
                let $offsets = &fixed;
                specialised!(@variants $v, |$variant| $body,
                    Parent Cgroup CgroupAsPosted CgroupInoCheck InnerOff ParentPrefetch
                    AncestorsArray ParentAgain ParentImul)
            })*
        }
    };
    (@variants $v:ident, |$variant:ident| $body:expr, $($name:ident)*) => {
        match $v {
            $($crate::psi::Variant::$name => {
                let $variant = $crate::psi::Variant::$name;
                $body
            })*
        }
    };
}
pub(super) use specialised;

/// [`task_changes`] on real memory: one symbol to disassemble.
#[inline(never)]
pub fn task_changes_native(
    mem: &mut Native,
    w: &Walks<'_>,
    calls: u64,
    time: &mut u64,
) -> Outcome<u64> {
    let (o, v) = (w.offsets, w.variant);
    specialised!(o, v, |offsets, variant| {
        let fixed = Walks {
            variant,
            offsets,
            ..*w
        };
        task_changes(mem, &fixed, calls, time)
    })
}
