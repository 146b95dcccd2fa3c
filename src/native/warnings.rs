//! What will disturb a run, told once before it: a clock that changes, a busy sibling, a busy host.
//!
//! What Linux does not tell is no warning: `kwalk machine` lists it as absent.

use std::fs;
use std::path::Path;
use std::time::Duration;

/// How long CPUs are watched for what else runs on them.
const WATCHED: Duration = Duration::from_millis(100);
/// Percent of a sibling's time from which it is called busy.
const BUSY_PERCENT: f64 = 5.0;
/// Percent of time in which a task waited for a CPU, from which the host is called busy.
const WAITED_PERCENT: f64 = 5.0;
/// Percent of a CPU's time since boot that the hypervisor took, from which that is told.
const STOLEN_PERCENT: f64 = 1.0;

/// Sentences on what will disturb a run on `cpu`; `root` is `/`, or a recorded tree. Takes a tenth of a
/// second where the CPU has siblings.
#[must_use]
pub fn warnings(root: &Path, cpu: u32) -> Vec<String> {
    let read = |path: &str| {
        let text = fs::read_to_string(root.join(path)).ok()?;
        Some(text.trim().to_string())
    };
    let cpu_folder = format!("sys/devices/system/cpu/cpu{cpu}");
    let mut found = Vec::new();
    if let Some(governor) = read(&format!("{cpu_folder}/cpufreq/scaling_governor"))
        && governor != "performance"
    {
        found.push(format!(
            "the governor of CPU {cpu} is {governor}: its clock changes while it is measured; steady with performance"
        ));
    }
    let turbo = [
        ("sys/devices/system/cpu/intel_pstate/no_turbo", "0"),
        ("sys/devices/system/cpu/cpufreq/boost", "1"),
    ];
    if let Some((path, on)) = turbo
        .iter()
        .find(|(path, on)| read(path).as_deref() == Some(on))
    {
        found.push(format!(
            "turbo is on (/{path} is {on}): the clock depends on what other cores do, so that times compare, and \
             numbers of cycles made of them do not"
        ));
    }
    if let Some(load) = busy_host(read) {
        found.push(load);
    }
    let siblings = read(&format!("{cpu_folder}/topology/thread_siblings_list"));
    let siblings: Vec<u32> = siblings.map_or(Vec::new(), |list| others(&list, cpu));
    let stat = || read("proc/stat");
    if let Some(percent) = stat().and_then(|text| Times::of(&text, cpu)?.stolen_percent())
        && percent >= STOLEN_PERCENT
    {
        found.push(format!(
            "the hypervisor took {percent:.1} % of CPU {cpu}'s time since boot: some samples will be spoiled"
        ));
    }
    if !siblings.is_empty() {
        let before = stat();
        std::thread::sleep(WATCHED);
        let after = stat();
        found.extend(siblings.iter().filter_map(|sibling| {
            let percent = busy_percent(before.as_deref()?, after.as_deref()?, *sibling)?;
            (percent >= BUSY_PERCENT).then(|| {
                format!(
                    "CPU {sibling}, the SMT sibling of CPU {cpu}, is busy {percent:.0} % of the time: it takes half of the \
                     core and of its caches; quiet if it is taken offline or nothing runs there"
                )
            })
        }));
    }
    found
}

/// Whether tasks wait for CPUs, by pressure where Linux has it, else by the load.
fn busy_host(read: impl Fn(&str) -> Option<String>) -> Option<String> {
    let pressure = read("proc/pressure/cpu").and_then(|text| {
        let some = text.lines().find_map(|line| line.strip_prefix("some "))?;
        let words = &mut some.split_whitespace();
        words
            .find_map(|word| word.strip_prefix("avg10="))?
            .parse()
            .ok()
    });
    if let Some(percent) = pressure {
        let percent: f64 = percent;
        return (percent >= WAITED_PERCENT).then(|| {
            format!("tasks waited for a CPU in {percent:.0} % of the last 10 s: others use this host, and it shows in the spread")
        });
    }
    let load: f64 = read("proc/loadavg")?
        .split_whitespace()
        .next()?
        .parse()
        .ok()?;
    let stat = read("proc/stat")?;
    let is_cpu = |line: &&str| line.starts_with("cpu") && !line.starts_with("cpu ");
    let cpus = stat.lines().filter(is_cpu).count();
    (load > cpus as f64 / 2.0).then(|| {
        format!(
            "the load is {load} on {cpus} CPUs: others use this host, and it shows in the spread"
        )
    })
}

/// CPUs of a list such as `0,4` or `0-1` but `cpu`.
fn others(list: &str, cpu: u32) -> Vec<u32> {
    let ranges = list.split(',').filter_map(|part| {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        Some(low.parse::<u32>().ok()?..=high.parse().ok()?)
    });
    ranges.flatten().filter(|other| *other != cpu).collect()
}

/// Ticks of one CPU (proc(5)).
struct Times {
    all: u64,
    idle: u64,
    stolen: u64,
}

impl Times {
    fn of(stat: &str, cpu: u32) -> Option<Times> {
        let line = stat.lines().find_map(|line| {
            let (name, numbers) = line.split_once(' ')?;
            (name.strip_prefix("cpu")?.parse() == Ok(cpu)).then_some(numbers)
        })?;
        // user nice system idle iowait irq softirq steal; guests' time is in user.
        let ticks: Vec<u64> = line
            .split_whitespace()
            .take(8)
            .filter_map(|n| n.parse().ok())
            .collect();
        let at = |i: usize| ticks.get(i).copied().unwrap_or(0);
        (ticks.len() >= 4).then(|| Times {
            all: ticks.iter().sum(),
            idle: at(3) + at(4),
            stolen: at(7),
        })
    }

    fn stolen_percent(&self) -> Option<f64> {
        (self.all > 0).then(|| 100.0 * self.stolen as f64 / self.all as f64)
    }
}

/// Percent of the time between two readings in which `cpu` was not idle.
fn busy_percent(before: &str, after: &str, cpu: u32) -> Option<f64> {
    let (before, after) = (Times::of(before, cpu)?, Times::of(after, cpu)?);
    let all = after.all.checked_sub(before.all).filter(|all| *all > 0)?;
    let idle = after.idle.saturating_sub(before.idle);
    Some(100.0 * all.saturating_sub(idle) as f64 / all as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tree with these files.
    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a temporary folder");
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, text).expect("a file");
        }
        root
    }

    const QUIET: &str =
        "cpu  10 0 10 980 0 0 0 0\ncpu0 5 0 5 490 0 0 0 0\ncpu1 5 0 5 490 0 0 0 0\n";

    /// Each cause alone has one sentence; a quiet machine none; one that tells nothing none.
    #[test]
    fn each_disturbance_is_told_once() {
        let governor = "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor";
        let pressure =
            |percent: &str| format!("some avg10={percent} avg60=0.00 avg300=0.00 total=1\n");
        let (low, high) = (pressure("1.00"), pressure("40.00"));
        let stolen = QUIET.replace("cpu0 5 0 5 490 0 0 0 0", "cpu0 5 0 5 490 0 0 0 50");
        for (files, words) in [
            (&[][..], None),
            (
                &[
                    (governor, "performance\n"),
                    ("proc/stat", QUIET),
                    ("proc/pressure/cpu", &low),
                ],
                None,
            ),
            (
                &[(governor, "powersave\n")],
                Some("governor of CPU 0 is powersave"),
            ),
            (
                &[("sys/devices/system/cpu/intel_pstate/no_turbo", "0\n")],
                Some("turbo is on"),
            ),
            (
                &[("sys/devices/system/cpu/intel_pstate/no_turbo", "1\n")],
                None,
            ),
            (
                &[("sys/devices/system/cpu/cpufreq/boost", "1\n")],
                Some("turbo is on"),
            ),
            (
                &[("proc/pressure/cpu", &high)],
                Some("40 % of the last 10 s"),
            ),
            (
                &[("proc/loadavg", "1.50 1 1 1/9 9\n"), ("proc/stat", QUIET)],
                Some("load is 1.5 on 2 CPUs"),
            ),
            (
                &[("proc/loadavg", "0.50 1 1 1/9 9\n"), ("proc/stat", QUIET)],
                None,
            ),
            // 50 of 550 ticks.
            (&[("proc/stat", &stolen)], Some("took 9.1 % of CPU 0")),
        ] {
            let root = tree(files);
            let found = warnings(root.path(), 0);
            match words {
                None => assert!(found.is_empty(), "{files:?}: {found:?}"),
                Some(words) => {
                    assert_eq!(found.len(), 1, "{files:?}: {found:?}");
                    assert!(found[0].contains(words), "{found:?}");
                }
            }
        }
    }

    /// From one reading to the next CPU 1 gained 100 ticks, 60 of them idle or waiting for a disk.
    #[test]
    fn a_busy_sibling_is_found_by_its_ticks() {
        let after = "cpu1 35 0 15 540 10 0 0 0\n";
        assert_eq!(busy_percent(QUIET, after, 1), Some(40.0));
        assert_eq!(busy_percent(QUIET, QUIET, 1), None, "no time went by");
        assert_eq!(busy_percent(QUIET, after, 0), None, "not in the second");
        for (list, expected) in [("0", &[][..]), ("0,4", &[4]), ("0-1", &[1]), ("x", &[])] {
            assert_eq!(others(list, 0), expected, "{list}");
        }
    }
}
