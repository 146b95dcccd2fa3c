//! The bare walk of the `psi-walk` experiment: the chase alone, with the smallest visit.

use super::Function;
use super::offsets::Family;
use super::operations::{Outcome, Walks, specialised};
use super::visit::CpuGlobals;
use super::walk::{Ground, before_visit, first_of_cgroup, next};
use crate::memory::{Field, Memory, Word};
use crate::native::Native;

#[inline(always)]
fn bump<M: Memory, const BYTES: usize>(mem: &mut M, base: M::Word, field: Field) {
    let old = mem.load::<BYTES>(base, field);
    mem.store::<BYTES>(base, field, old.map(|w| w.wrapping_add(1)));
}

/// Walk from the leaf cgroup to `psi_system`, `walks` times.
///
/// Per visit four loads (`pcpu`, `enabled`, `rtpoll_states`, `avgs_work`) and four
/// read-modify-writes (`tasks`, `state_mask`, `times`, `state_start`), on the same four lines as a
/// full visit, and what the variant loads to get on. No line outside `psi_group`, `psi_group_cpu`
/// and `cgroup` is touched (`parent-prefetch` alone also loads `__per_cpu_offset`): the walk starts at the leaf cgroup, whose `psi` is read once. Nothing
/// in a visit feeds the next pointer, so the time of a walk is that of the chase. Each walk waits
/// for the last group of the walk before.
#[inline(always)]
pub fn bare_walks<M: Memory>(mem: &mut M, w: &Walks<'_>, walks: u64) -> Outcome<M::Word> {
    let (v, o, g) = (w.variant, w.offsets, w.globals);
    let cpu = &g.cpus[0];
    let ground = Ground {
        cpu: CpuGlobals {
            per_cpu_offset: M::Word::from(g.per_cpu_offset),
            psi_seq: M::Word::from(cpu.psi_seq),
            clock: M::Word::from(cpu.clock),
            rq: M::Word::from(cpu.rq),
        },
        psi_system: M::Word::from(g.psi_system),
    };
    let difference = M::Word::from(cpu.difference);
    mem.enter(Function::BARE_WALK as u16);
    let mut total = Outcome::none();
    for _ in 0..walks {
        let last: M::Word = total.last;
        let start = M::Word::from(g.leaf_cgroup).with(last, |c, l| c.wrapping_add(l & w.zero));
        let mut at = first_of_cgroup(mem, v, o, &ground, start);
        while at.group.get() != 0 {
            before_visit(mem, v, o, &ground, 0, &mut at);
            let cookie = mem.load::<8>(at.group, o.pcpu);
            let counts = cookie.with(difference, |c, d| c.wrapping_add(d));
            bump::<M, 4>(mem, counts, o.tasks.at(8));
            let enabled = mem.load::<1>(at.group, o.enabled);
            bump::<M, 4>(mem, counts, o.state_mask);
            bump::<M, 4>(mem, counts, o.times.at(24));
            bump::<M, 8>(mem, counts, o.state_start);
            let polled = mem.load::<4>(at.group, o.rtpoll_states);
            let pending = mem.load::<8>(at.group, o.avgs_work);
            mem.work(BARE_VISIT_WORK);
            let seen = enabled.with(polled, |e, p| e.wrapping_add(p));
            total.visits += 1;
            total.sum = total.sum.with(seen, |a, b| a.wrapping_add(b));
            total.last = pending;
            at = next(mem, v, o, &ground, at);
        }
    }
    total
}

/// Instructions of a bare visit that touch no memory, in the compiled native walk on x86-64 (held
/// against cachegrind's count by the test `work`).
pub const BARE_VISIT_WORK: u32 = 6;

/// [`bare_walks`] on real memory: one symbol to disassemble.
#[inline(never)]
pub fn bare_walks_native(mem: &mut Native, w: &Walks<'_>, walks: u64) -> Outcome<u64> {
    let (o, v) = (w.offsets, w.variant);
    specialised!(o, v, |offsets, variant| {
        let fixed = Walks {
            variant,
            offsets,
            ..*w
        };
        bare_walks(mem, &fixed, walks)
    })
}
