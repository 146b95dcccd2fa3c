//! What disturbed a sample: time stolen by the hypervisor, the thread taken off its CPU, others
//! waiting for a CPU.

use std::{fs::File, io, os::unix::fs::FileExt};

/// Watches the calling thread on one CPU. `start` and `stop` bracket a group of samples.
///
/// Made by the thread that is measured, since the files show the thread that opened them.
#[derive(Debug)]
pub struct Watch {
    cpu: u32,
    stat: Option<File>,
    status: Option<File>,
    pressure: Option<File>,
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
}

/// Load of the host for provenance, not a reason to discard a sample.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostLoad {
    /// `some avg10` of /proc/pressure/cpu: percent of time in which a task waited for a CPU.
    pub cpu_pressure_percent: Option<f64>,
    /// Run queue length, average of a minute.
    pub load_average: Option<f64>,
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
        let pressure = open("/proc/pressure/cpu", "CPU pressure");
        let mut watch = Watch {
            cpu,
            stat,
            status,
            pressure,
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

    /// Begin a group of samples.
    pub fn start(&mut self) {
        self.before = self.read();
    }

    /// End it: the reason why its samples are spoiled, or `None`.
    ///
    /// A tick of /proc/stat is 10 ms, so a shorter theft may show in a later group only.
    pub fn stop(&mut self) -> Option<String> {
        let after = self.read();
        spoiled(self.cpu, self.before, after)
    }

    /// Pressure and load now.
    pub fn host_load(&mut self) -> HostLoad {
        let pressure = read_at_start(self.pressure.as_ref(), &mut self.buffer).and_then(some_avg10);
        let load = std::fs::read_to_string("/proc/loadavg")
            .ok()
            .and_then(|t| t.split_whitespace().next()?.parse().ok());
        HostLoad {
            cpu_pressure_percent: pressure,
            load_average: load,
        }
    }

    fn read(&mut self) -> State {
        let cpu = self.cpu;
        State {
            steal_ticks: read_at_start(self.stat.as_ref(), &mut self.buffer)
                .and_then(|text| steal_ticks(text, cpu)),
            preemptions: read_at_start(self.status.as_ref(), &mut self.buffer)
                .and_then(involuntary_switches),
        }
    }
}

fn spoiled(cpu: u32, before: State, after: State) -> Option<String> {
    let grown = |a: Option<u64>, b: Option<u64>| Some(b?.saturating_sub(a?)).filter(|&n| n > 0);
    let steal = grown(before.steal_ticks, after.steal_ticks)
        .map(|ticks| format!("the hypervisor took CPU {cpu} away for {ticks} ticks (10 ms each)"));
    let preempted = grown(before.preemptions, after.preemptions)
        .map(|times| format!("other tasks took CPU {cpu} (involuntary switches: {times})"));
    match (steal, preempted) {
        (Some(a), Some(b)) => Some(format!("{a}; {b}")),
        (a, b) => a.or(b),
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

/// `some avg10` in percent; `full` means nothing for CPUs on a whole host.
fn some_avg10(pressure: &str) -> Option<f64> {
    pressure
        .lines()
        .find_map(|line| line.strip_prefix("some "))?
        .split_whitespace()
        .find_map(|word| word.strip_prefix("avg10="))?
        .parse()
        .ok()
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
    fn switches_and_pressure_are_found() {
        let status = "Name:\tx\nvoluntary_ctxt_switches:\t7\nnonvoluntary_ctxt_switches:\t12\n";
        assert_eq!(involuntary_switches(status), Some(12));
        let pressure = "some avg10=1.25 avg60=0.01 avg300=0.24 total=11293898\n\
                        full avg10=9.00 avg60=0.00 avg300=0.00 total=0\n";
        assert_eq!(some_avg10(pressure), Some(1.25));
        assert_eq!(some_avg10(""), None);
    }

    #[test]
    fn only_growth_spoils() {
        let state = |steal, preemptions| State {
            steal_ticks: steal,
            preemptions,
        };
        let quiet = state(Some(3), Some(12));
        assert_eq!(spoiled(1, quiet, quiet), None);
        assert_eq!(spoiled(1, quiet, state(None, None)), None);
        let both = spoiled(1, quiet, state(Some(5), Some(13))).unwrap();
        assert!(
            both.contains("for 2 ticks") && both.contains("switches: 1"),
            "{both}"
        );
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
                    reason = watch.stop();
                }
                (reason, watch.notes)
            });
            let (reason, notes) = measured.join().unwrap();
            done.store(true, Relaxed);
            assert!(reason.is_some() || !notes.is_empty());
        });
    }
}
