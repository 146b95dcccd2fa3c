//! One visit: `psi_group_change` and `record_times` on one group, access by access.

use super::group_state::{CPU_FULL, CPU_SOME, IO_FULL, IO_SOME, MEM_FULL, MEM_SOME};
use super::{Function, Id, PsiOffsets, task_state};
use crate::layout::Arch;
use crate::memory::{Memory, Word};

/// What a walk does to each group.
#[derive(Clone, Copy, Debug)]
pub(super) struct Change<W> {
    /// CPU whose `psi_group_cpu` is changed.
    pub cpu: u32,
    /// Task states to clear ([`task_state`]).
    pub clear: u64,
    /// Task states to set.
    pub set: u64,
    /// The clock, where it is read once per call.
    pub now: W,
}

/// Objects that every walk of a CPU uses: addresses, not fields of the layout.
#[derive(Clone, Copy, Debug)]
pub(super) struct CpuGlobals<W> {
    pub per_cpu_offset: W,
    pub psi_seq: W,
    pub clock: W,
    pub rq: W,
}

/// Where the words of the clock lie, from the start of its data: recorded on 6.12.118.
const ARM64_CLOCK: [(u32, usize); 6] = [(0, 4), (0x20, 8), (8, 8), (0x10, 16), (0x28, 8), (0, 4)];
const X86_CLOCK_COUNT: u32 = 0x48;
const X86_CLOCK: [(u32, usize); 5] = [(0x20, 4), (8, 8), (0, 4), (4, 4), (0x20, 4)];
/// `__sched_clock_offset`, a global of its own; here on the line after the per-CPU clock data.
const X86_CLOCK_OFFSET: u32 = 0x80;

#[inline(always)]
fn load_sized<M: Memory>(mem: &mut M, base: M::Word, offset: u32, bytes: usize) -> M::Word {
    let field = Id::CLOCK.at(offset);
    match bytes {
        4 => mem.load::<4>(base, field),
        8 => mem.load::<8>(base, field),
        _ => mem.load::<16>(base, field),
    }
}

/// Read the clock: the loads of `sched_clock`, 6 on arm64 and 10 accesses on x86-64 (two of them
/// the preemption count, read and written). Its value is `time`, so that every rung sees the same.
#[inline(always)]
pub(super) fn clock<M: Memory>(mem: &mut M, o: &PsiOffsets, clock: M::Word, time: u64) -> M::Word {
    mem.enter(Function::SCHED_CLOCK as u16);
    let mut now = M::Word::from(time);
    match o.form.arch {
        Arch::Arm64 => {
            for (offset, bytes) in ARM64_CLOCK {
                let word = load_sized(mem, clock, offset, bytes);
                now = now.with(word, |n, _| n);
            }
            mem.work(8);
        }
        Arch::X86_64 => {
            let count = Id::CLOCK.at(X86_CLOCK_COUNT);
            let nesting = mem.load::<4>(clock, count);
            mem.store::<4>(clock, count, nesting.map(|n| n.wrapping_add(1)));
            for (offset, bytes) in X86_CLOCK {
                let word = load_sized(mem, clock, offset, bytes);
                now = now.with(word, |n, _| n);
            }
            let nesting = mem.load::<4>(clock, count);
            mem.store::<4>(clock, count, nesting.map(|n| n.wrapping_sub(1)));
            let offset = mem.load::<8>(clock, Id::CLOCK.at(X86_CLOCK_OFFSET));
            now = now.with(offset, |n, _| n);
            mem.work(12);
        }
    }
    now
}

/// `per_cpu_ptr(group->pcpu, cpu)`: the group's counters on this CPU. arm64 loads the offset first.
#[inline(always)]
pub(super) fn group_cpu<M: Memory>(
    mem: &mut M,
    o: &PsiOffsets,
    g: &CpuGlobals<M::Word>,
    cpu: u32,
    group: M::Word,
    offset_first: bool,
) -> M::Word {
    let slot = Id::PER_CPU_OFFSET.at(cpu * 8);
    let (cookie, offset) = if offset_first {
        let offset = mem.load::<8>(g.per_cpu_offset, slot);
        (mem.load::<8>(group, o.pcpu), offset)
    } else {
        let cookie = mem.load::<8>(group, o.pcpu);
        (cookie, mem.load::<8>(g.per_cpu_offset, slot))
    };
    cookie.with(offset, |c, o| c.wrapping_add(o))
}

#[inline(always)]
fn add_4<M: Memory>(mem: &mut M, base: M::Word, field: crate::memory::Field, delta: M::Word) {
    let old = mem.load::<4>(base, field);
    mem.store::<4>(
        base,
        field,
        old.with(delta, |a, b| a.wrapping_add(b) & 0xffff_ffff),
    );
}

#[inline(always)]
fn seq_step<M: Memory>(mem: &mut M, base: M::Word, field: crate::memory::Field) {
    add_4(mem, base, field, M::Word::from(1));
}

/// One step of the per-CPU sequence count, at the beginning and the end of a call.
#[inline(always)]
pub(super) fn cpu_seq_step<M: Memory>(mem: &mut M, g: &CpuGlobals<M::Word>, cpu: u32) {
    let _ = mem.load::<8>(g.per_cpu_offset, Id::PER_CPU_OFFSET.at(cpu * 8));
    seq_step(mem, g.psi_seq, Id::PSI_SEQ.at(0));
}

/// Book the time since the last change under every state that was on.
///
/// Loads `state_mask` and `state_start`, stores `state_start`, then one read and write of `times`
/// per state that counts.
#[inline(always)]
pub(super) fn record_times<M: Memory>(
    mem: &mut M,
    o: &PsiOffsets,
    counts: M::Word,
    now: M::Word,
) -> M::Word {
    mem.enter(Function::RECORD_TIMES as u16);
    let mask = mem.load::<4>(counts, o.state_mask);
    // x86-64 needs only the low half of the difference.
    let start = match o.form.arch {
        Arch::X86_64 => mem.load::<4>(counts, o.state_start),
        Arch::Arm64 => mem.load::<8>(counts, o.state_start),
    };
    mem.store::<8>(counts, o.state_start, now);
    let delta = now.with(start, |n, s| n.wrapping_sub(s) & 0xffff_ffff);
    let is = |state: u32| mask.get() & (1 << state) != 0;
    let times = |state: u32| o.times.at(state * 4);
    if is(IO_SOME) {
        add_4(mem, counts, times(IO_SOME), delta);
        if is(IO_FULL) {
            add_4(mem, counts, times(IO_FULL), delta);
        }
    }
    if is(MEM_SOME) {
        add_4(mem, counts, times(MEM_SOME), delta);
        if is(MEM_FULL) {
            add_4(mem, counts, times(MEM_FULL), delta);
        }
    }
    if is(CPU_SOME) {
        add_4(mem, counts, times(CPU_SOME), delta);
        if is(CPU_FULL) {
            add_4(mem, counts, times(CPU_FULL), delta);
        }
    }
    if is(o.states - 1) {
        add_4(mem, counts, times(o.states - 1), delta);
    }
    mask
}

/// The states that the task counts put the group in, and the loads that find out.
///
/// One by one: `test_state` for each state with its own loads, cut short as C's `&&` and `||` cut
/// them (with one runnable task: 9 loads). All at once: `test_states`, where x86-64 loads three
/// counts and arm64 the first one and a pair. `tasks[MEMSTALL_RUNNING]` is loaded only where
/// something stalls on memory, which no recorded stream did: inferred.
#[inline(always)]
fn test_states<M: Memory>(mem: &mut M, o: &PsiOffsets, counts: M::Word, oncpu: bool) -> M::Word {
    let (iowait_at, memstall_at) = (o.tasks, o.tasks.at(4));
    let (running_at, stalled_running_at) = (o.tasks.at(8), o.tasks.at(12));
    let nonidle_bit = o.states - 1;
    let oncpu = u64::from(oncpu);
    let mut mask = 0;
    if o.form.states_one_by_one {
        let mut ready = M::Word::from(0);
        let mut count = |mem: &mut M, field| {
            let word = mem.load::<4>(counts, field);
            ready = ready.with(word, |_, _| 0);
            word.get()
        };
        if count(mem, iowait_at) != 0 {
            mask |= 1 << IO_SOME;
        }
        if count(mem, iowait_at) != 0 && count(mem, running_at) == 0 {
            mask |= 1 << IO_FULL;
        }
        if count(mem, memstall_at) != 0 {
            mask |= 1 << MEM_SOME;
        }
        if count(mem, memstall_at) != 0 && count(mem, running_at) == count(mem, stalled_running_at)
        {
            mask |= 1 << MEM_FULL;
        }
        if count(mem, running_at) > oncpu {
            mask |= 1 << CPU_SOME;
        }
        if count(mem, running_at) != 0 && oncpu == 0 {
            mask |= 1 << CPU_FULL;
        }
        if count(mem, iowait_at) != 0 || count(mem, memstall_at) != 0 || count(mem, running_at) != 0
        {
            mask |= 1 << nonidle_bit;
        }
        return ready.map(|_| mask);
    }
    let iowait = mem.load::<4>(counts, iowait_at);
    let (memstall, running) = match o.form.arch {
        Arch::X86_64 => {
            let running = mem.load::<4>(counts, running_at);
            (mem.load::<4>(counts, memstall_at), running)
        }
        Arch::Arm64 => {
            let pair = mem.load::<8>(counts, memstall_at);
            (pair.map(|p| p & 0xffff_ffff), pair.map(|p| p >> 32))
        }
    };
    if iowait.get() != 0 {
        mask |= 1 << IO_SOME;
        if running.get() == 0 {
            mask |= 1 << IO_FULL;
        }
    }
    if memstall.get() != 0 {
        mask |= 1 << MEM_SOME;
        if running.get() == mem.load::<4>(counts, stalled_running_at).get() {
            mask |= 1 << MEM_FULL;
        }
    }
    if running.get() > oncpu {
        mask |= 1 << CPU_SOME;
    }
    if running.get() != 0 && oncpu == 0 {
        mask |= 1 << CPU_FULL;
    }
    if iowait.get() != 0 || memstall.get() != 0 || running.get() != 0 {
        mask |= 1 << nonidle_bit;
    }
    iowait.with(memstall, |_, _| 0).with(running, |_, _| mask)
}

/// `task->in_memstall`, as the architecture loads it: its byte, or the two bytes from `in_iowait`.
#[inline(always)]
pub(super) fn load_memstall<M: Memory>(mem: &mut M, o: &PsiOffsets, task: M::Word) -> M::Word {
    match o.form.arch {
        Arch::X86_64 => mem.load::<1>(task, o.in_memstall),
        Arch::Arm64 => mem.load::<2>(task, o.in_iowait),
    }
}

/// What a visit found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Visit<W> {
    /// The new state mask and what was loaded, added up.
    pub seen: W,
    /// What was loaded from the group.
    pub loaded: W,
}

/// Visit one group: `psi_group_change(group, cpu, clear, set, now, wake_clock = true)`.
///
/// About 20 accesses to four lines: the group's counters on this CPU (the only dirty one) and the
/// lines of `psi_group` that hold `parent`, `avgs_work` and `rtpoll_states`. The counters' address
/// depends on `group.pcpu`; everything else in the visit hangs on that or on `group`.
#[inline(always)]
pub(super) fn group_change<M: Memory>(
    mem: &mut M,
    o: &PsiOffsets,
    g: &CpuGlobals<M::Word>,
    group: M::Word,
    change: Change<M::Word>,
) -> Visit<M::Word> {
    let oncpu_bit = 1_u64 << o.states;
    mem.enter(Function::GROUP_CHANGE as u16);
    let offset_first = o.form.arch == Arch::Arm64;
    let counts = group_cpu(mem, o, g, change.cpu, group, offset_first);
    let mut now = change.now;
    if o.form.seq_in_group_cpu {
        seq_step(mem, counts, o.seq);
        now = clock(mem, o, g.clock, now.get());
        mem.enter(Function::GROUP_CHANGE as u16);
    }

    let oncpu = if change.set & task_state::ONCPU != 0 {
        M::Word::from(oncpu_bit)
    } else if change.clear & task_state::ONCPU != 0 {
        M::Word::from(0)
    } else {
        mem.load::<4>(counts, o.state_mask)
            .map(|mask| mask & oncpu_bit)
    };

    for state in 0..4 {
        if change.clear & (1 << state) != 0 {
            let field = o.tasks.at(state * 4);
            let count = mem.load::<4>(counts, field);
            if count.get() != 0 {
                mem.store::<4>(counts, field, count.map(|c| c - 1));
            }
        }
    }
    for state in 0..4 {
        if change.set & (1 << state) != 0 {
            add_4(mem, counts, o.tasks.at(state * 4), M::Word::from(1));
        }
    }

    let enabled = mem.load::<1>(group, o.enabled);
    if enabled.get() == 0 {
        // Pressure is off here (cgroup.pressure): end the present state, keep only ONCPU.
        if mem.load::<4>(counts, o.state_mask).get() & !oncpu_bit != 0 {
            record_times(mem, o, counts, now);
            mem.enter(Function::GROUP_CHANGE as u16);
        }
        mem.store::<4>(counts, o.state_mask, oncpu);
        if o.form.seq_in_group_cpu {
            seq_step(mem, counts, o.seq);
        }
        return Visit {
            seen: oncpu,
            loaded: enabled,
        };
    }

    let states = test_states(mem, o, counts, oncpu.get() != 0);
    let mut mask = states.with(oncpu, |s, on| s | on);
    if oncpu.get() != 0 {
        // cpu_curr(cpu)->in_memstall: a task that stalls while it runs makes the stall full.
        let _ = mem.load::<8>(g.per_cpu_offset, Id::PER_CPU_OFFSET.at(change.cpu * 8));
        let curr = mem.load::<8>(g.rq, o.rq_curr);
        let stalled = load_memstall(mem, o, curr);
        let _ = stalled;
        mask = mask.with(curr, |m, _| m);
    }

    record_times(mem, o, counts, now);
    mem.enter(Function::GROUP_CHANGE as u16);
    mem.store::<4>(counts, o.state_mask, mask);
    if o.form.seq_in_group_cpu {
        seq_step(mem, counts, o.seq);
    }
    let polled = mem.load::<4>(group, o.rtpoll_states);
    let pending = mem.load::<8>(group, o.avgs_work);
    mem.work(VISIT_WORK);
    let seen = polled
        .with(pending, |p, w| p.wrapping_add(w & 1))
        .with(mask, |a, m| a.wrapping_add(m));
    Visit {
        seen,
        loaded: polled,
    }
}

/// Instructions of a visit that touch no memory, in the compiled native walk on x86-64 (held
/// against cachegrind's count by the test `work`).
pub const VISIT_WORK: u32 = 60;
