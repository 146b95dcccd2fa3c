//! Hardware counters of the calling thread, user space only. Each event that cannot be had
//! degrades alone, with a sentence; a count is never a zero that was not counted.
//!
//! perf-event2 stands in for perf-event, which has no raw events: without them L2 misses, and
//! anything on Arm, cannot be counted.
//!
//! The metrics do not share a definition across vendors: generic events include hardware
//! prefetches on some. The vendor's name of what was counted stands beside each count.

mod events;
mod refusal;

use crate::native::{between, mapping};
use events::Candidate;
use perf_event::{Counter, Group};
pub use refusal::{Surroundings, refusal};
use std::io;

/// One hardware counter over one region of interest. Not counted is a state, never a zero.
#[derive(Clone, Debug, PartialEq)]
pub enum Reading {
    /// Counted for the whole region.
    Exact(u64),
    /// Multiplexed; `count * time_enabled_ns / time_running_ns` estimates the whole region.
    Partial {
        /// Events while the counter was on the PMU.
        count: u64,
        /// Time that the region took.
        time_enabled_ns: u64,
        /// Time in which the counter was on the PMU; not 0.
        time_running_ns: u64,
    },
    /// The PMU, the hypervisor or `perf_event_paranoid` refused; the text says which.
    Unavailable(String),
}

impl Reading {
    /// From a count and the two times of its group.
    #[must_use]
    pub fn of(count: u64, time_enabled_ns: u64, time_running_ns: u64) -> Reading {
        match (time_enabled_ns, time_running_ns) {
            (_, 0) => Reading::Unavailable(
                "the counter never got onto the PMU: others hold its counters (another profiler, \
                 the NMI watchdog, the hypervisor)"
                    .into(),
            ),
            (enabled, running) if running >= enabled => Reading::Exact(count),
            _ => Reading::Partial {
                count,
                time_enabled_ns,
                time_running_ns,
            },
        }
    }

    /// The count for the whole region, scaled where it was multiplexed.
    #[must_use]
    pub fn estimate(&self) -> Option<f64> {
        match *self {
            Reading::Exact(count) => Some(count as f64),
            Reading::Partial {
                count,
                time_enabled_ns,
                time_running_ns,
            } => Some(count as f64 * time_enabled_ns as f64 / time_running_ns as f64),
            Reading::Unavailable(_) => None,
        }
    }
}

/// One metric over one region.
#[derive(Clone, Debug, PartialEq)]
pub struct Counted {
    /// `cycles`, `instructions`, `l1d_misses`, `l2_misses`, `l3_misses` or `dtlb_misses`.
    pub metric: &'static str,
    /// `cycles`, `instructions` or `misses`.
    pub unit: &'static str,
    /// The count.
    pub reading: Reading,
    /// The event, as its vendor or Linux calls it; the first one tried where none opened.
    pub event: String,
}

/// One metric: the counter that counts it, or why there is none.
struct Slot {
    metric: &'static str,
    unit: &'static str,
    event: String,
    state: Result<(usize, Counter), String>,
}

/// Counters of the calling thread, open for one CPU.
pub struct Counters {
    groups: Vec<Group>,
    slots: Vec<Slot>,
    surroundings: Surroundings,
}

impl Counters {
    /// Open what can be opened for the calling thread while it runs on `cpu`, and try each counter
    /// on work that it must notice. Takes about 20 ms where there is a PMU.
    #[must_use]
    pub fn open(cpu: u32) -> Counters {
        let mut counters = Counters {
            groups: Vec::new(),
            slots: Vec::new(),
            surroundings: Surroundings::read(cpu),
        };
        for (metric, unit) in events::METRICS {
            let candidates = events::candidates(metric, events::Vendor::of_this_host());
            let slot = counters.slot(metric, unit, candidates, cpu);
            counters.slots.push(slot);
        }
        counters.drop_those_that_never_count();
        counters
    }

    /// The first candidate that opens.
    fn slot(
        &mut self,
        metric: &'static str,
        unit: &'static str,
        candidates: Vec<Candidate>,
        cpu: u32,
    ) -> Slot {
        let mut refused: Option<(String, io::Error)> = None;
        for candidate in candidates {
            match self.add(&candidate, cpu) {
                Ok(opened) => {
                    return Slot {
                        metric,
                        unit,
                        event: candidate.name,
                        state: Ok(opened),
                    };
                }
                // The first refusal is kept: it is that of the event meant in the first place.
                Err(e) => refused = refused.or(Some((candidate.name, e))),
            }
        }
        let (event, state) = match refused {
            Some((event, e)) => {
                let why = refusal(&e, &event, &self.surroundings);
                (event, why)
            }
            None => (
                String::new(),
                format!("no event for {metric} is known on this processor"),
            ),
        };
        Slot {
            metric,
            unit,
            event,
            state: Err(state),
        }
    }

    /// Add an event to the first group with room, or to a new one: a PMU that has too few counters
    /// for a group refuses the member with EINVAL.
    fn add(&mut self, candidate: &Candidate, cpu: u32) -> io::Result<(usize, Counter)> {
        let mut builder = candidate.builder();
        builder.one_cpu(cpu as usize);
        for (index, group) in self.groups.iter_mut().enumerate() {
            match group.add(&builder) {
                Ok(counter) => return Ok((index, counter)),
                Err(e) if e.raw_os_error() == Some(rustix::io::Errno::INVAL.raw_os_error()) => {}
                Err(e) => return Err(e),
            }
        }
        let mut group = Group::builder().one_cpu(cpu as usize).build_group()?;
        let counter = group.add(&builder)?;
        self.groups.push(group);
        Ok((self.groups.len() - 1, counter))
    }

    /// Count over `work`. Turning counters on and off adds some hundred instructions.
    pub fn measure(&mut self, work: impl FnOnce()) -> Vec<Counted> {
        let ready = self
            .groups
            .iter_mut()
            .try_for_each(|g| g.reset().and_then(|()| g.enable()));
        work();
        let read: Vec<_> = self
            .groups
            .iter_mut()
            .map(|group| group.disable().and_then(|()| group.read()))
            .collect();
        self.slots
            .iter()
            .map(|slot| Counted {
                metric: slot.metric,
                unit: slot.unit,
                event: slot.event.clone(),
                reading: match (&slot.state, &ready) {
                    (Err(why), _) => Reading::Unavailable(why.clone()),
                    (_, Err(e)) => Reading::Unavailable(format!("counters did not start: {e}")),
                    (Ok((group, counter)), Ok(())) => reading(&read[*group], counter),
                },
            })
            .collect()
    }

    /// One line per metric: the event that counts it, or why nothing does.
    #[must_use]
    pub fn summary(&self) -> Vec<String> {
        self.slots
            .iter()
            .map(|slot| match &slot.state {
                Ok((group, _)) => format!(
                    "{}: {} ({}, group {group})",
                    slot.metric,
                    slot.event,
                    self.surroundings.pmus.join(", ")
                ),
                Err(why) => format!("{}: unavailable: {why}", slot.metric),
            })
            .collect()
    }

    /// Run work that every event must notice, and give up those that did not: hypervisors and
    /// emulators open events that read 0 for ever.
    fn drop_those_that_never_count(&mut self) {
        if self.slots.iter().all(|slot| slot.state.is_err()) {
            return;
        }
        let Ok(mut work) = Exercise::new() else {
            return;
        };
        let mut done = Done::default();
        let counted = self.measure(|| done = work.run());
        for (slot, counted) in self.slots.iter_mut().zip(counted) {
            if slot.state.is_ok()
                && let Some(why) = implausible(slot.metric, &counted, done)
            {
                slot.state = Err(why);
            }
        }
    }
}

fn reading(group: &io::Result<perf_event::GroupData>, counter: &Counter) -> Reading {
    let ns = |time: Option<std::time::Duration>| {
        time.map_or(0, |t| u64::try_from(t.as_nanos()).unwrap_or(u64::MAX))
    };
    match group {
        Ok(data) => match data.get(counter) {
            Some(entry) => Reading::of(
                entry.value(),
                ns(data.time_enabled()),
                ns(data.time_running()),
            ),
            None => Reading::Unavailable("Linux left the counter out of its group".into()),
        },
        Err(e) => Reading::Unavailable(format!("the counter could not be read: {e}")),
    }
}

/// 32 MiB of small pages: more than any STLB reaches and any L2 holds.
struct Exercise {
    memory: mapping::Memory,
}

/// What an [`Exercise`] did at least.
#[derive(Clone, Copy, Debug, Default)]
struct Done {
    loads: u64,
    flushed: bool,
}

impl Exercise {
    fn new() -> io::Result<Exercise> {
        let mut memory = mapping::allocate(32 << 20, mapping::Pages::FourK)?;
        memory.bytes().iter_mut().step_by(4096).for_each(|b| *b = 1);
        Ok(Exercise { memory })
    }

    /// Load a word of every page, at changing line offsets, from memory where lines can be flushed.
    fn run(&mut self) -> Done {
        let bytes = self.memory.bytes();
        let flushed = between::flush_slice(bytes).is_ok();
        let mut loads = 0;
        for page in 0..bytes.len() / 4096 {
            // 37 is odd: consecutive pages, all 64 line offsets in turn.
            std::hint::black_box(bytes[page * 4096 + page * 37 % 64 * 64]);
            loads += 1;
        }
        Done { loads, flushed }
    }
}

/// Why a count over an exercise cannot be right; `None` if it can.
fn implausible(metric: &str, counted: &Counted, done: Done) -> Option<String> {
    let event = &counted.event;
    match &counted.reading {
        Reading::Unavailable(why) => Some(why.clone()),
        reading => {
            let count = reading.estimate().expect("available");
            let loads = done.loads as f64;
            // Each load is at least an instruction; each touches another page, and beyond the L1D
            // and L2; whether the last level misses is known only where lines were flushed.
            let least = match metric {
                "instructions" => loads,
                "l3_misses" if !done.flushed => 0.0,
                _ => 1.0,
            };
            (count < least).then(|| {
                format!(
                    "{event} opens but does not count: {count:.0} after {loads} loads from as many \
                     pages, where at least {least:.0} was due; the hypervisor or emulator does not \
                     implement it; the other counters and all times still work"
                )
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Running as long as enabled is exact; half the time means twice the count; never is a state.
    #[test]
    fn readings_tell_multiplexing_from_absence() {
        assert_eq!(Reading::of(7, 100, 100), Reading::Exact(7));
        let half = Reading::of(7, 100, 50);
        assert_eq!(half.estimate(), Some(14.0));
        assert!(matches!(half, Reading::Partial { count: 7, .. }));
        for enabled in [0, 100] {
            let never = Reading::of(0, enabled, 0);
            assert!(matches!(&never, Reading::Unavailable(why) if why.contains("never got onto")));
            assert_eq!(never.estimate(), None);
        }
    }

    #[test]
    fn events_that_never_count_are_found() {
        let done = Done {
            loads: 8192,
            flushed: false,
        };
        for (metric, reading, plausible) in [
            ("l1d_misses", Reading::Exact(0), false),
            ("l1d_misses", Reading::Exact(8000), true),
            ("instructions", Reading::Exact(8191), false),
            ("instructions", Reading::Exact(40_000), true),
            ("l3_misses", Reading::Exact(0), true),
            ("cycles", Reading::Unavailable("x".into()), false),
        ] {
            let counted = Counted {
                metric: "m",
                unit: "u",
                reading,
                event: "SOME.EVENT".into(),
            };
            let why = implausible(metric, &counted, done);
            assert_eq!(why.is_none(), plausible, "{metric} {counted:?}: {why:?}");
        }
        let flushed = Done {
            flushed: true,
            ..done
        };
        let zero = Counted {
            metric: "l3_misses",
            unit: "misses",
            reading: Reading::Exact(0),
            event: "LLC-load-misses".into(),
        };
        let why = implausible("l3_misses", &zero, flushed).unwrap();
        assert!(
            why.starts_with("LLC-load-misses opens but does not count"),
            "{why}"
        );
    }
}
