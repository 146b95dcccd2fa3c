//! Groups of counters at Linux: opened, counted over a piece of work, read.

use std::io;
use std::time::Duration;

use perf_event::{Counter, Group};

use super::Reading;
use super::events::Candidate;

/// Events that are counted together.
pub struct Together {
    /// Its leader.
    pub group: Group,
    /// By the place of their slots.
    pub members: Vec<(usize, Counter)>,
}

/// Open `members` as one group; an error is that of the member named.
pub fn open_together(
    members: &[(usize, &Candidate)],
    cpu: u32,
) -> Result<Together, (usize, io::Error)> {
    let first = members.first().map_or(0, |(slot, _)| *slot);
    let mut group = Group::builder()
        .one_cpu(cpu as usize)
        .build_group()
        .map_err(|e| (first, e))?;
    let mut opened = Vec::new();
    for (slot, candidate) in members {
        let mut builder = candidate.builder();
        builder.one_cpu(cpu as usize);
        let counter = group.add(&builder).map_err(|e| (*slot, e))?;
        opened.push((*slot, counter));
    }
    Ok(Together {
        group,
        members: opened,
    })
}

/// Count over `work`.
pub fn over<T>(
    together: &mut Together,
    work: impl FnOnce() -> T,
) -> (io::Result<perf_event::GroupData>, T) {
    let group = &mut together.group;
    let ready = group.reset().and_then(|()| group.enable());
    let done = work();
    let read = ready
        .and_then(|()| group.disable())
        .and_then(|()| group.read());
    (read, done)
}

/// What `counter` says of the region that its group was read for.
pub fn reading(group: &io::Result<perf_event::GroupData>, counter: &Counter) -> Reading {
    let ns = |time: Option<Duration>| {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::events::Code;
    use crate::counters::format::Encoding;
    use crate::native::mapping;

    /// Linux's own events (linux/perf_event.h, type 1) need no PMU: task clock is 1, page faults are 2.
    fn software(config: u64) -> Candidate {
        Candidate {
            code: Code::Raw(Encoding {
                kind: 1,
                config: [config, 0, 0, 0],
            }),
            ..Candidate::default()
        }
    }

    /// A group is opened by type and config, counts only while its own work runs, and is read with the
    /// times of that run: mapping 64 fresh pages of 4 KiB and touching each are 64 faults at least, doing
    /// nothing none that matter. A sandbox may refuse; then there is nothing to test.
    #[test]
    fn a_group_counts_its_own_run() {
        let (clock, faults) = (software(1), software(2));
        let cpu = crate::native::affinity::choose(1).unwrap()[0];
        std::thread::spawn(move || {
            let _pinned = crate::native::affinity::Pinned::to(cpu).unwrap();
            let members = [(7, &clock), (3, &faults)];
            let Ok(mut together) = open_together(&members, cpu) else {
                return;
            };
            let slots: Vec<usize> = together.members.iter().map(|(slot, _)| *slot).collect();
            assert_eq!(slots, [7, 3]);
            let mut count = |pages: usize| {
                let (data, ()) = over(&mut together, || {
                    if pages == 0 {
                        return;
                    }
                    let mut memory = mapping::allocate(pages << 12, mapping::Pages::FourK).unwrap();
                    memory.bytes().iter_mut().step_by(4096).for_each(|b| *b = 1);
                });
                let [_, (_, faults)] = &together.members[..] else {
                    panic!("two members");
                };
                reading(&data, faults)
            };
            let idle = count(0).estimate().unwrap();
            let busy = count(64).estimate().unwrap();
            assert!(busy >= 64.0 && idle < 64.0, "{busy} and {idle} faults");
            // The first run's count is not in the second's.
            assert!(count(0).estimate().unwrap() < 64.0);
        })
        .join()
        .unwrap();
    }

    /// A type that no PMU has is refused, and the error names the member.
    #[test]
    fn a_refused_member_is_named() {
        let (clock, mut none) = (software(1), software(0));
        none.code = Code::Raw(Encoding {
            kind: u32::MAX,
            config: [0; 4],
        });
        let cpu = crate::native::affinity::choose(1).unwrap()[0];
        let Err((slot, error)) = open_together(&[(4, &clock), (9, &none)], cpu) else {
            panic!("no PMU has this type");
        };
        assert!(
            slot == 9 || slot == 4 && error.raw_os_error().is_some(),
            "{slot}: {error}"
        );
    }
}
