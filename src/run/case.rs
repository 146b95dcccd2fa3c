//! [`Case`]: one point with one placement, ready to run on any rung.

use kernels::arena::Region;
use kernels::memory::{Memory, Word};
use kernels::native::Native;
use kernels::other::touch_other;
use kernels::psi::{
    Globals, OTHER_CODE, OTHER_DATA, Outcome, Pipe, PsiTree, Scheduler, TreeShape, Variant, Walks,
    bare_walks, bare_walks_native, go_idle, half_trip, half_trip_native, period, round_trips,
    round_trips_native, task_changes, task_changes_native,
};

use super::{RunError, Sources, input};
use crate::experiment::{Experiment, Kernel, Point, Start};

/// One point with one placement.
#[derive(Clone, Debug)]
pub struct Case {
    /// What is run.
    pub point: Point,
    /// Seed of the placement.
    pub seed: u64,
    /// Objects.
    pub tree: PsiTree,
    kernel: Kernel,
    variant: Variant,
    scheduler: Scheduler,
}

/// Where a case stands between operations.
#[derive(Clone, Copy, Debug, Default)]
pub struct Position {
    /// The tasks' clock; also tells an enqueue from a dequeue.
    pub time_ns: u64,
    /// Operations done.
    pub operations: u64,
}

/// Bytes per KiB.
const KIB: u64 = 1024;

impl Case {
    /// Place the objects of `point`.
    pub(crate) fn new(
        experiment: &Experiment,
        sources: &Sources,
        point: &Point,
        seed: u64,
    ) -> Result<Case, RunError> {
        let layout = sources.layout(point);
        let variant = Variant::from_name(point.variant.name())
            .expect("experiments and kernels name the same variants");
        let shape = TreeShape {
            depth: u32::try_from(point.depth()).expect("experiments bound the depth"),
            // Counters of two CPUs: slabs are those of a system with two, as facts know them.
            cpus: match &point.placement {
                crate::experiment::Placement::Stream(_) => point.cpus() as u32,
                _ => 2,
            },
            variant,
            placement: sources.placement(point),
            seed,
        };
        let mut tree = PsiTree::new(layout, &shape).map_err(input)?;
        if let Start::Polluted { kib } = point.start {
            tree.arena.reserve(Region::Other.base(), kib * KIB);
        }
        let form = &layout.psi_form;
        Ok(Case {
            point: point.clone(),
            seed,
            tree,
            kernel: experiment.kernel,
            variant,
            // CFS went with 6.6, and with it the states that are tested one by one.
            scheduler: if form.states_one_by_one {
                Scheduler::Cfs
            } else {
                Scheduler::Eevdf
            },
        })
    }

    /// Operations after which the state is that of the beginning.
    #[must_use]
    pub fn period(&self) -> u64 {
        match (self.kernel, self.point.cpus()) {
            (Kernel::PsiWalk, _) => 1,
            (Kernel::PsiDepth, _) => 2,
            (Kernel::PsiPipe | Kernel::PsiInner, 1) => period(self.scheduler),
            (Kernel::PsiPipe | Kernel::PsiInner, _) => 1,
        }
    }

    /// Whether an operation is a whole round trip, rather than one call of PSI.
    #[must_use]
    pub fn is_round_trip(&self) -> bool {
        match self.kernel {
            Kernel::PsiPipe | Kernel::PsiInner => true,
            Kernel::PsiWalk | Kernel::PsiDepth => false,
        }
    }

    /// Parts of an operation that one CPU does: two where both sides of a pipe have their own.
    #[must_use]
    pub fn parts(&self) -> u64 {
        match self.kernel {
            Kernel::PsiPipe | Kernel::PsiInner => self.point.cpus(),
            Kernel::PsiWalk | Kernel::PsiDepth => 1,
        }
    }

    /// Bytes of other data between operations.
    #[must_use]
    pub fn polluted_bytes(&self) -> u64 {
        match self.point.start {
            Start::Polluted { kib } => kib * KIB,
            Start::Warm | Start::Flushed | Start::Stream(_) => 0,
        }
    }

    fn walks<'a>(&'a self, globals: &'a Globals) -> Walks<'a> {
        Walks {
            variant: self.variant,
            offsets: &self.tree.offsets,
            globals,
            zero: 0,
        }
    }

    fn pipe<'a>(&'a self, globals: &'a Globals) -> Pipe<'a> {
        Pipe {
            walks: self.walks(globals),
            scheduler: self.scheduler,
        }
    }

    /// What must happen once before the first operation.
    pub fn begin<M: Memory>(&self, mem: &mut M, globals: &Globals, at: &mut Position) {
        if self.parts() == 2 {
            go_idle(mem, &self.pipe(globals), &mut at.time_ns);
        }
    }

    /// `count` operations; on two CPUs the part of CPU 0.
    pub fn operate<M: Memory>(
        &self,
        mem: &mut M,
        globals: &Globals,
        count: u64,
        at: &mut Position,
    ) -> Outcome<M::Word> {
        let time = &mut at.time_ns;
        let from = at.operations;
        at.operations += count;
        match (self.kernel, self.parts()) {
            (Kernel::PsiWalk, _) => bare_walks(mem, &self.walks(globals), count),
            (Kernel::PsiDepth, _) => task_changes(mem, &self.walks(globals), count, time),
            (Kernel::PsiPipe | Kernel::PsiInner, 1) => {
                round_trips(mem, &self.pipe(globals), from, count, time)
            }
            (Kernel::PsiPipe | Kernel::PsiInner, _) => {
                let mut total = Outcome::none();
                for _ in 0..count {
                    let done = half_trip(mem, &self.pipe(globals), 0, total.last, time);
                    total.visits += done.visits;
                    total.sum = total.sum.with(done.sum, |a, b| a.wrapping_add(b));
                    total.last = done.last;
                }
                total
            }
        }
    }

    /// [`operate`](Case::operate) on real memory, on one CPU.
    pub fn operate_native(
        &self,
        mem: &mut Native,
        globals: &Globals,
        zero: u64,
        count: u64,
        at: &mut Position,
    ) -> Outcome<u64> {
        let time = &mut at.time_ns;
        let from = at.operations;
        at.operations += count;
        let walks = Walks {
            zero,
            ..self.walks(globals)
        };
        match self.kernel {
            Kernel::PsiWalk => bare_walks_native(mem, &walks, count),
            Kernel::PsiDepth => task_changes_native(mem, &walks, count, time),
            Kernel::PsiPipe | Kernel::PsiInner => {
                let pipe = Pipe {
                    walks,
                    scheduler: self.scheduler,
                };
                round_trips_native(mem, &pipe, from, count, time)
            }
        }
    }

    /// One side of a round trip on two CPUs, on real memory.
    pub fn half_native(
        &self,
        mem: &mut Native,
        globals: &Globals,
        cpu: u32,
        last: u64,
        time_ns: &mut u64,
    ) -> Outcome<u64> {
        half_trip_native(mem, &self.pipe(globals), cpu, last, time_ns)
    }

    /// Touch the other data of a polluted start.
    pub fn pollute<M: Memory>(&self, mem: &mut M, base: u64) -> u64 {
        mem.enter(OTHER_CODE);
        let lines = self.polluted_bytes() / 64;
        touch_other(mem, M::Word::from(base), OTHER_DATA, lines).get()
    }
}
