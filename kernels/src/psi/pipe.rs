//! A whole round trip of a pipe ping-pong, as far as PSI sees it: two tasks of one cgroup wake each
//! other in turn, on one CPU or on two.

use super::offsets::Family;
use super::operations::{Outcome, TICK_NS, Walks, task_change, task_switch};
use super::{Function, task_state};
use crate::memory::{Memory, Word};
use crate::native::Native;

/// How the scheduler of a version wakes: decides how many walks a round trip on one CPU takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduler {
    /// Up to 6.5: no preemption by the pipe's wakeups; each round trip two enqueues and two
    /// switches to sleep, 4(N+1) visits.
    Cfs,
    /// From 6.6: the woken task often runs at once, and its partner is found awake. Of six round
    /// trips four take 2(N+1) visits and two 3(N+1), as recorded (2.33 to 2.39 on average).
    Eevdf,
}

/// Round trips after which a scheduler's pattern repeats.
#[must_use]
pub fn period(scheduler: Scheduler) -> u64 {
    match scheduler {
        Scheduler::Cfs => 1,
        Scheduler::Eevdf => 6,
    }
}

/// What a round trip needs.
#[derive(Clone, Copy, Debug)]
pub struct Pipe<'a> {
    /// What its walks have in common.
    pub walks: Walks<'a>,
    /// Whose pattern.
    pub scheduler: Scheduler,
}

/// Calls `body` with the constants of the layout's family compiled in.
macro_rules! by_family {
    ($pipe:ident, $body:ident($($argument:expr),*)) => {
        match Family::of($pipe.walks.offsets) {
            Family::SeqX86 => $body::<Native, { Family::SeqX86 as u8 }>($($argument),*),
            Family::SeqArm64 => $body::<Native, { Family::SeqArm64 as u8 }>($($argument),*),
            Family::PerCpuSeqX86 => $body::<Native, { Family::PerCpuSeqX86 as u8 }>($($argument),*),
            Family::PerCpuSeqArm64 => {
                $body::<Native, { Family::PerCpuSeqArm64 as u8 }>($($argument),*)
            }
            Family::Other => $body::<Native, { Family::Other as u8 }>($($argument),*),
        }
    };
}

/// Where a ping-pong stands: what was done so far, and its clock.
///
/// `FAMILY` is a [`Family`] whose constants are compiled in. The variant is not: a round trip holds
/// some thirty walks, and a copy of each for every variant is more code than it is worth.
struct Course<'a, 'p, M: Memory, const FAMILY: u8> {
    mem: &'a mut M,
    pipe: &'a Pipe<'p>,
    cpu: u32,
    time: &'a mut u64,
    done: Outcome<M::Word>,
}

impl<M: Memory, const FAMILY: u8> Course<'_, '_, M, FAMILY> {
    /// A task's address that is known only when the walk before has reached its last group.
    #[inline(always)]
    fn task(&self, address: u64) -> M::Word {
        let zero = self.pipe.walks.zero;
        M::Word::from(address).with(self.done.last, |t, l| t.wrapping_add(l & zero))
    }

    #[inline(always)]
    fn add(&mut self, more: Outcome<M::Word>) {
        self.done.visits += more.visits;
        self.done.sum = self.done.sum.with(more.sum, |a, b| a.wrapping_add(b));
        if more.visits > 0 {
            self.done.last = more.last;
        }
    }

    /// One copy of the walk per family, called as Linux calls it.
    #[inline(never)]
    fn wake(&mut self, task: u64) {
        *self.time = self.time.wrapping_add(TICK_NS);
        let (p, task) = (&self.pipe.walks, self.task(task));
        let change = (0, task_state::RUNNING);
        let time = *self.time;
        let more = task_change(
            self.mem, p.variant, p.offsets, p.globals, self.cpu, task, change, time,
        );
        self.add(more);
    }

    /// The scheduler lets `to` run: `rq.curr` first, then PSI hears of it.
    #[inline(never)]
    fn switch(&mut self, prev: u64, to: u64, sleep: bool) {
        *self.time = self.time.wrapping_add(TICK_NS);
        let p = &self.pipe.walks;
        let (prev, next) = (self.task(prev), self.task(to));
        self.mem.enter(Function::OTHER_CODE as u16);
        let rq = M::Word::from(p.globals.cpus[self.cpu as usize].rq);
        self.mem.store::<8>(rq, p.offsets.rq_curr, next);
        let time = *self.time;
        let offsets = &Family::numbered(FAMILY).fixed(p.offsets);
        let more = task_switch(
            self.mem,
            p.variant,
            offsets,
            p.globals,
            self.cpu,
            (prev, next),
            sleep,
            time,
        );
        self.add(more);
    }
}

/// `trips` round trips on CPU 0, from and to the state that the first task runs and the second
/// sleeps; number `from` and on, which says where in the pattern they are. Whole [`period`]s end in
/// the state that they began in. Returns 4(N+1) visits per trip with CFS.
pub fn round_trips<M: Memory>(
    mem: &mut M,
    pipe: &Pipe<'_>,
    from: u64,
    trips: u64,
    time: &mut u64,
) -> Outcome<M::Word> {
    trips_of::<M, { Family::Other as u8 }>(mem, pipe, from, trips, time)
}

fn trips_of<M: Memory, const FAMILY: u8>(
    mem: &mut M,
    pipe: &Pipe<'_>,
    from: u64,
    trips: u64,
    time: &mut u64,
) -> Outcome<M::Word> {
    let [first, second] = pipe.walks.globals.tasks;
    let mut c = Course::<M, FAMILY> {
        mem,
        pipe,
        cpu: 0,
        time,
        done: Outcome::none(),
    };
    for trip in from..from + trips {
        match (pipe.scheduler, trip % period(pipe.scheduler)) {
            (Scheduler::Cfs, _) => {
                c.wake(second);
                c.switch(first, second, true);
                c.wake(first);
                c.switch(second, first, true);
            }
            // The woken task preempts, and sleeps again before its waker does: 2(N+1).
            (Scheduler::Eevdf, 0..=3) => {
                c.wake(second);
                c.switch(first, second, false);
                c.switch(second, first, true);
            }
            // The waker sleeps; its partner wakes it and is preempted, still runnable: 3(N+1).
            (Scheduler::Eevdf, 4) => {
                c.wake(second);
                c.switch(first, second, true);
                c.wake(first);
                c.switch(second, first, false);
            }
            // Its partner is awake already: 3(N+1), the recorded trip of 6.12 on arm64.
            (Scheduler::Eevdf, _) => {
                c.switch(first, second, true);
                c.wake(first);
                c.switch(second, first, true);
            }
        }
    }
    c.done
}

/// One CPU's half of a round trip on two CPUs: its task wakes on an idle CPU, runs, sleeps. The
/// task is CPU 0's first or CPU 1's second. 3(N+1) visits; the other CPU's counters are not touched.
pub fn half_trip<M: Memory>(
    mem: &mut M,
    pipe: &Pipe<'_>,
    cpu: u32,
    last: M::Word,
    time: &mut u64,
) -> Outcome<M::Word> {
    half_of::<M, { Family::Other as u8 }>(mem, pipe, cpu, last, time)
}

fn half_of<M: Memory, const FAMILY: u8>(
    mem: &mut M,
    pipe: &Pipe<'_>,
    cpu: u32,
    last: M::Word,
    time: &mut u64,
) -> Outcome<M::Word> {
    let task = pipe.walks.globals.tasks[cpu as usize];
    let idle = pipe.walks.globals.cpus[cpu as usize].idle_task;
    let mut c = Course::<M, FAMILY> {
        mem,
        pipe,
        cpu,
        time,
        done: Outcome {
            last,
            ..Outcome::none()
        },
    };
    c.wake(task);
    c.switch(idle, task, false);
    c.switch(task, idle, true);
    c.done
}

/// Puts CPU 0, where the first task runs in a new tree, to sleep: where [`half_trip`] starts from.
pub fn go_idle<M: Memory>(mem: &mut M, pipe: &Pipe<'_>, time: &mut u64) {
    const FAMILY: u8 = Family::Other as u8;
    let idle = pipe.walks.globals.cpus[0].idle_task;
    let mut c = Course::<M, FAMILY> {
        mem,
        pipe,
        cpu: 0,
        time,
        done: Outcome::none(),
    };
    c.switch(pipe.walks.globals.tasks[0], idle, true);
}

/// [`round_trips`] on real memory.
pub fn round_trips_native(
    mem: &mut Native,
    pipe: &Pipe<'_>,
    from: u64,
    trips: u64,
    time: &mut u64,
) -> Outcome<u64> {
    by_family!(pipe, trips_of(mem, pipe, from, trips, time))
}

/// [`half_trip`] on real memory.
pub fn half_trip_native(
    mem: &mut Native,
    pipe: &Pipe<'_>,
    cpu: u32,
    last: u64,
    time: &mut u64,
) -> Outcome<u64> {
    by_family!(pipe, half_of(mem, pipe, cpu, last, time))
}
