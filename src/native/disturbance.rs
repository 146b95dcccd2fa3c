//! What disturbed a sample: time stolen by the hypervisor, the thread taken off its CPU or found on
//! another, page faults.

use std::{fs::File, io, os::unix::fs::FileExt};

use rustix::thread::sched_getcpu;

/// Watches the calling thread on one CPU. `start` and `stop` bracket a group of samples.
///
/// Made by the thread that is measured, since the files show the thread that opened them.
#[derive(Debug)]
pub struct Watch {
    cpu: u32,
    stat: Option<File>,
    status: Option<File>,
    thread: Option<File>,
    buffer: Vec<u8>,
    before: State,
    /// What cannot be watched here, and why: one sentence each.
    pub notes: Vec<String>,
}

/// What is read at each bracket. `None`: not readable here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct State {
    steal_ticks: Option<u64>,
    preemptions: Option<u64>,
    faults: Option<u64>,
}

/// What happened within a bracket. `None`: not known here, which is not 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Disturbed {
    /// Ticks of 10 ms that the hypervisor took the CPU away for.
    pub steal_ticks: Option<u64>,
    /// Times that other tasks took the CPU.
    pub preemptions: Option<u64>,
    /// Page faults, minor and major.
    pub faults: Option<u64>,
    /// Another CPU that the thread is on at the end.
    pub moved_to: Option<u32>,
}

impl Disturbed {
    /// Why samples within the bracket are spoiled on `cpu`, or `None`.
    #[must_use]
    pub fn spoiled(&self, cpu: u32) -> Option<String> {
        let some = |count: Option<u64>| count.filter(|n| *n > 0);
        let reasons = [
            some(self.steal_ticks).map(|ticks| {
                format!("the hypervisor took CPU {cpu} away for {ticks} ticks (10 ms each)")
            }),
            some(self.preemptions)
                .map(|times| format!("other tasks took CPU {cpu} (involuntary switches: {times})")),
            some(self.faults).map(|times| format!("page faults: {times}")),
            self.moved_to
                .map(|other| format!("the thread is on CPU {other} instead of {cpu}")),
        ];
        let reasons: Vec<String> = reasons.into_iter().flatten().collect();
        (!reasons.is_empty()).then(|| reasons.join("; "))
    }
}

impl Watch {
    /// Watch the calling thread, which is pinned to `cpu`.
    #[must_use]
    pub fn new(cpu: u32) -> Watch {
        let mut notes = Vec::new();
        let mut open = |path: &str, what: &str| match File::open(path) {
            Ok(file) => Some(file),
            Err(e) => {
                notes.push(format!("{what} cannot be watched: {path}: {e}"));
                None
            }
        };
        let stat = open("/proc/stat", "stolen time");
        let status = open("/proc/thread-self/status", "preemption");
        let thread = open("/proc/thread-self/stat", "page faults");
        let mut watch = Watch {
            cpu,
            stat,
            status,
            thread,
            buffer: Vec::new(),
            before: State::default(),
            notes,
        };
        watch.start();
        if watch.stat.is_some() && watch.before.steal_ticks.is_none() {
            watch.notes.push(format!(
                "stolen time cannot be watched: /proc/stat shows no CPU {cpu}"
            ));
        }
        watch
    }

    /// The CPU that the thread should be on.
    #[must_use]
    pub fn cpu(&self) -> u32 {
        self.cpu
    }

    /// Begin a group of samples.
    pub fn start(&mut self) {
        self.before = self.read();
    }

    /// End it: what happened since.
    ///
    /// A tick of /proc/stat is 10 ms, so a shorter theft may show in a later group only.
    pub fn stop(&mut self) -> Disturbed {
        let after = self.read();
        let on = u32::try_from(sched_getcpu()).ok();
        Disturbed {
            moved_to: on.filter(|on| *on != self.cpu),
            ..grown(self.before, after)
        }
    }

    fn read(&mut self) -> State {
        let cpu = self.cpu;
        State {
            steal_ticks: read_at_start(self.stat.as_ref(), &mut self.buffer)
                .and_then(|text| steal_ticks(text, cpu)),
            preemptions: read_at_start(self.status.as_ref(), &mut self.buffer)
                .and_then(involuntary_switches),
            faults: read_at_start(self.thread.as_ref(), &mut self.buffer).and_then(page_faults),
        }
    }
}

fn grown(before: State, after: State) -> Disturbed {
    let grown = |a: Option<u64>, b: Option<u64>| Some(b?.saturating_sub(a?));
    Disturbed {
        steal_ticks: grown(before.steal_ticks, after.steal_ticks),
        preemptions: grown(before.preemptions, after.preemptions),
        faults: grown(before.faults, after.faults),
        moved_to: None,
    }
}

/// The text of a /proc file read anew through a descriptor that stays open.
fn read_at_start<'a>(file: Option<&File>, buffer: &'a mut Vec<u8>) -> Option<&'a str> {
    let file = file?;
    buffer.resize(buffer.capacity().max(4096), 0);
    let mut length = 0;
    loop {
        if length == buffer.len() {
            buffer.resize(2 * length, 0);
        }
        match file.read_at(&mut buffer[length..], length as u64) {
            Ok(0) => break,
            Ok(n) => length += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
    std::str::from_utf8(&buffer[..length]).ok()
}

/// Stolen ticks of `cpu`: the eighth number of its line (proc(5)).
fn steal_ticks(stat: &str, cpu: u32) -> Option<u64> {
    let line = stat.lines().find_map(|line| {
        let (name, numbers) = line.split_once(' ')?;
        (name.strip_prefix("cpu")?.parse() == Ok(cpu)).then_some(numbers)
    })?;
    line.split_whitespace().nth(7)?.parse().ok()
}

fn involuntary_switches(status: &str) -> Option<u64> {
    status
        .lines()
        .find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"))?
        .trim()
        .parse()
        .ok()
}

/// Minor and major faults: the tenth and twelfth field (proc(5)). The second, a name, may hold anything.
fn page_faults(stat: &str) -> Option<u64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_whitespace();
    let minor: u64 = fields.nth(7)?.parse().ok()?;
    let major: u64 = fields.nth(1)?.parse().ok()?;
    Some(minor + major)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "\
cpu  12382 0 4856 263527 532 0 48 9 0 0
cpu0 5801 0 2164 132596 76 0 11 3 0 0
cpu1 6580 0 2691 130930 455 0 36 5 0 0
cpu10 1 2 3 4 5 6 7 8 9 10
intr 1 2 3
";

    #[test]
    fn steal_is_that_of_the_cpu() {
        for (cpu, expected) in [(0, Some(3)), (1, Some(5)), (10, Some(8)), (2, None)] {
            assert_eq!(steal_ticks(STAT, cpu), expected, "cpu {cpu}");
        }
        assert_eq!(steal_ticks("cpu0 1 2 3 4", 0), None, "Linux without steal");
    }

    #[test]
    fn switches_and_faults_are_found() {
        let status = "Name:\tx\nvoluntary_ctxt_switches:\t7\nnonvoluntary_ctxt_switches:\t12\n";
        assert_eq!(involuntary_switches(status), Some(12));
        let stat = "123 (a ) 9 9) R 1 2 3 4 5 6 100 999 20 999 0 0";
        assert_eq!(page_faults(stat), Some(120));
        assert_eq!(page_faults("123 (x) R 1"), None);
    }

    #[test]
    fn only_growth_spoils() {
        let state = |steal, preemptions, faults| State {
            steal_ticks: steal,
            preemptions,
            faults,
        };
        let quiet = state(Some(3), Some(12), Some(4));
        let unknown = state(None, None, None);
        assert_eq!(grown(quiet, quiet).spoiled(1), None);
        assert_eq!(grown(quiet, unknown), Disturbed::default());
        assert_eq!(grown(quiet, unknown).spoiled(1), None);
        let all = grown(quiet, state(Some(5), Some(13), Some(7)));
        let all = Disturbed {
            moved_to: Some(0),
            ..all
        };
        let words = all.spoiled(1).expect("much");
        for part in [
            "for 2 ticks",
            "switches: 1",
            "faults: 3",
            "CPU 0 instead of 1",
        ] {
            assert!(words.contains(part), "{words}");
        }
    }

    /// Two spinning threads on one CPU take turns: the watch of one sees that it lost the CPU.
    #[test]
    fn losing_the_cpu_to_another_thread_spoils() {
        use crate::native::affinity::{Pinned, choose};
        use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
        use std::time::{Duration, Instant};
        let cpu = choose(1).unwrap()[0];
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _pinned = Pinned::to(cpu).unwrap();
                while !done.load(Relaxed) {
                    std::hint::spin_loop();
                }
            });
            let measured = scope.spawn(|| {
                let _pinned = Pinned::to(cpu).unwrap();
                let mut watch = Watch::new(cpu);
                let mut reason = None;
                let begin = Instant::now();
                while reason.is_none() && begin.elapsed() < Duration::from_secs(20) {
                    watch.start();
                    let group = Instant::now();
                    while group.elapsed() < Duration::from_millis(20) {
                        std::hint::spin_loop();
                    }
                    reason = watch.stop().spoiled(cpu);
                }
                (reason, watch.notes)
            });
            let (reason, notes) = measured.join().unwrap();
            done.store(true, Relaxed);
            assert!(reason.is_some() || !notes.is_empty());
        });
    }
}
