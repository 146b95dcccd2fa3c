//! Both sides of a pipe on two CPUs.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

use super::super::rows::Value;
use super::mounted::{Mounted, even_out, native};
use super::sample::timed;
use super::{Repeat, RunError};
use crate::native::affinity::{self, Pinned};
use crate::native::clock::{self, Clock};
use crate::native::interleave::interleave_after;

/// Both sides of a pipe on two pinned threads; without two CPUs every value is unavailable.
pub(super) fn two_sided(
    mounted: &mut [Mounted],
    clock: &Clock,
    repeats: u32,
    seed: u64,
    enough: impl FnMut(&[Vec<Repeat>]) -> bool,
) -> Result<Vec<Vec<Repeat>>, RunError> {
    let cpus = match affinity::choose(2) {
        Ok(cpus) => cpus,
        Err(error) => {
            let why = error.to_string();
            let none = |metric, unit| Value::unavailable(metric, unit, &why);
            let nothing = vec![
                none("time_ns_per_op", "ns"),
                none("time_ns_per_visit", "ns"),
            ];
            return Ok(mounted.iter().map(|_| vec![nothing.clone()]).collect());
        }
    };
    let measure = |m: &mut Mounted, _| ping_pong(m, clock, [cpus[0], cpus[1]]);
    interleave_after(mounted, repeats, seed, even_out, measure, enough)
}

/// Round trips of one sample on two CPUs.
pub(super) const TRIPS: u64 = 200;

/// A word on two lines of its own: adjacent lines may travel together.
#[repr(align(128))]
pub(super) struct Turn(AtomicU64);

/// The two sides take turns through one word; what the hand-over costs is in the time, at every
/// depth the same.
pub(super) fn ping_pong(m: &mut Mounted, clock: &Clock, cpus: [u32; 2]) -> Repeat {
    if m.at.operations == 0 {
        m.case.begin(&mut native(), &m.globals, &mut m.at);
        m.at.operations = 1;
    }
    let turn = Turn(AtomicU64::new(0));
    let trips = TRIPS / 10 + TRIPS;
    let mount = &*m;
    let side = |cpu: u32| -> Result<(f64, u64), String> {
        let pinned = Pinned::to(cpus[cpu as usize]).map_err(|e| e.to_string());
        let mut time_ns = mount.at.time_ns;
        let mut mem = native();
        let (mut begin, mut visits, mut last) = (0, 0, 0);
        for trip in 0..trips {
            while turn.0.load(Ordering::Acquire) % 2 != u64::from(cpu) {
                std::hint::spin_loop();
            }
            if trip == TRIPS / 10 {
                begin = clock::begin();
                visits = 0;
            }
            let zero_last = last & black_box(0);
            let done =
                mount
                    .case
                    .half_native(&mut mem, &mount.globals, cpu, zero_last, &mut time_ns);
            (visits, last) = (visits + done.visits, done.last);
            turn.0.fetch_add(1, Ordering::Release);
        }
        let ticks = (clock::end() - begin) as f64;
        pinned.map(|_| (ticks, visits))
    };
    let (first, second) = std::thread::scope(|scope| {
        let other = scope.spawn(|| side(1));
        let first = scope.spawn(|| side(0));
        (first.join(), other.join())
    });
    m.at.time_ns += trips * 10_000;
    match (first, second) {
        (Ok(Ok((ticks, a))), Ok(Ok((_, b)))) => {
            let per_op = ticks / TRIPS as f64;
            let visits = (a + b) as f64 / TRIPS as f64;
            timed(m, clock, per_op, visits, None)
        }
        (Ok(Err(why)), _) | (_, Ok(Err(why))) => {
            vec![Value::unavailable("time_ns_per_op", "ns", &why)]
        }
        _ => vec![Value::unavailable(
            "time_ns_per_op",
            "ns",
            "a thread of the pair panicked",
        )],
    }
}
