//! Why Linux refused a counter, in one sentence that also says what still works.

use rustix::io::Errno;
use std::{fs, io, path::Path};

/// What a refusal is explained by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// PMUs of the CPU, as sysfs calls them: `cpu`, `cpu_core`, `armv8_pmuv3_0`.
    pub pmus: Vec<String>,
    /// Whether a hypervisor says that it is there; `None`: not known on this architecture.
    pub virtual_machine: Option<bool>,
    /// `kernel.perf_event_paranoid`.
    pub paranoid: Option<i64>,
}

impl Surroundings {
    /// Those of `cpu` on this host.
    #[must_use]
    pub fn read(cpu: u32) -> Surroundings {
        let devices = Path::new("/sys/bus/event_source/devices");
        let names = fs::read_dir(devices).into_iter().flatten().flatten();
        let mut pmus: Vec<String> = names
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter(|name| is_core_pmu(name))
            .filter(|name| {
                // Hybrid processors have one PMU per kind of core, which lists its CPUs.
                fs::read_to_string(devices.join(name).join("cpus"))
                    .map_or(true, |cpus| holds(&cpus, cpu))
            })
            .collect();
        pmus.sort_unstable();
        #[cfg(target_arch = "x86_64")]
        let virtual_machine = raw_cpuid::CpuId::new()
            .get_feature_info()
            .map(|f| f.has_hypervisor());
        #[cfg(not(target_arch = "x86_64"))]
        let virtual_machine = None;
        let paranoid = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
        Surroundings {
            pmus,
            virtual_machine,
            paranoid: paranoid.ok().and_then(|t| t.trim().parse().ok()),
        }
    }
}

fn is_core_pmu(name: &str) -> bool {
    name == "cpu" || name == "cpu_core" || name == "cpu_atom" || name.starts_with("armv")
}

/// Whether `cpu` is in a list such as `0-3,8`.
fn holds(list: &str, cpu: u32) -> bool {
    list.trim().split(',').any(|part| {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        match (low.parse::<u32>(), high.parse::<u32>()) {
            (Ok(low), Ok(high)) => (low..=high).contains(&cpu),
            _ => false,
        }
    })
}

const STILL: &str = "times and clock cycles still work";

/// Why `event` could not be opened.
#[must_use]
pub fn refusal(error: &io::Error, event: &str, here: &Surroundings) -> String {
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    match errno {
        Some(Errno::NOENT | Errno::NXIO | Errno::NODEV | Errno::OPNOTSUPP) => {
            no_event(error, event, here)
        }
        Some(Errno::INVAL) if here.pmus.is_empty() => no_event(error, event, here),
        Some(Errno::INVAL) => format!(
            "{event}: the PMU ({}) refuses this event ({error}); the other counters and {STILL}",
            here.pmus.join(", ")
        ),
        Some(Errno::ACCESS | Errno::PERM) => denied(error, event, here),
        Some(Errno::NOSYS) => format!(
            "{event}: this Linux, or what emulates it, has no perf events ({error}); {STILL}"
        ),
        Some(Errno::MFILE | Errno::NFILE) => {
            format!("{event}: too many open files ({error}), raise `ulimit -n`; {STILL}")
        }
        Some(Errno::BUSY) => format!(
            "{event}: the PMU is taken ({error}) by another profiler, the NMI watchdog or the \
             hypervisor; {STILL}"
        ),
        _ => format!("{event}: Linux refuses the counter ({error}); {STILL}"),
    }
}

fn no_event(error: &io::Error, event: &str, here: &Surroundings) -> String {
    let cause = match here.virtual_machine {
        _ if !here.pmus.is_empty() => {
            return format!(
                "{event}: the PMU ({}) or its driver has no such event ({error}); the other \
                 counters and {STILL}",
                here.pmus.join(", ")
            );
        }
        Some(true) => "this is a virtual machine whose hypervisor passes none on",
        Some(false) => "Linux has no driver for this processor's",
        None => "a hypervisor passes none on, or Linux has no driver for it",
    };
    format!("{event}: no hardware PMU ({error}): {cause}; {STILL}")
}

/// 2 lets a process count its own user space (Documentation/admin-guide/sysctl/kernel.rst); Debian
/// and Ubuntu added values above 2 that forbid that too.
fn denied(error: &io::Error, event: &str, here: &Surroundings) -> String {
    match here.paranoid {
        Some(value) if value > 2 => format!(
            "{event}: denied ({error}): kernel.perf_event_paranoid is {value}, at most 2 is needed to \
             count one's own user space, or CAP_PERFMON; {STILL}"
        ),
        Some(value) => format!(
            "{event}: denied ({error}) although kernel.perf_event_paranoid is {value}: a seccomp \
             filter (containers have one) or a security module forbids perf_event_open, CAP_PERFMON \
             may lift that; {STILL}"
        ),
        None => format!(
            "{event}: denied ({error}), and kernel.perf_event_paranoid is unreadable: a sandbox \
             forbids perf_event_open; {STILL}"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn here(pmu: bool, virtual_machine: Option<bool>, paranoid: i64) -> Surroundings {
        Surroundings {
            pmus: if pmu { vec!["cpu".into()] } else { vec![] },
            virtual_machine,
            paranoid: Some(paranoid),
        }
    }

    /// Each errno that perf_event_open(2) and reports of users name: one sentence with event and
    /// cause, and what still works.
    #[test]
    fn every_refusal_names_event_cause_and_what_still_works() {
        let none = here(false, Some(true), 2);
        let pmu = here(true, Some(false), 2);
        for (errno, here, cause) in [
            (Errno::NOENT, &none, "virtual machine"),
            (Errno::NXIO, &none, "no hardware PMU"),
            (Errno::NODEV, &here(false, Some(false), 2), "no driver"),
            (
                Errno::OPNOTSUPP,
                &here(false, None, 2),
                "hypervisor passes none on, or",
            ),
            (Errno::INVAL, &none, "no hardware PMU"),
            (Errno::NOENT, &pmu, "(cpu) or its driver has no such event"),
            (Errno::INVAL, &pmu, "refuses this event"),
            (
                Errno::ACCESS,
                &here(true, None, 3),
                "paranoid is 3, at most 2",
            ),
            (Errno::PERM, &pmu, "seccomp"),
            (Errno::NOSYS, &pmu, "no perf events"),
            (Errno::MFILE, &pmu, "ulimit -n"),
            (Errno::BUSY, &pmu, "taken"),
            (Errno::IO, &pmu, "refuses the counter"),
        ] {
            let error = io::Error::from_raw_os_error(errno.raw_os_error());
            let text = refusal(&error, "cpu-cycles", here);
            assert!(text.starts_with("cpu-cycles: "), "{text}");
            assert!(text.contains(cause), "{errno:?}: {text}");
            assert!(text.ends_with(STILL), "{text}");
            assert!(
                !text.contains(". ") && !text.contains('\n'),
                "one sentence: {text}"
            );
        }
    }

    #[test]
    fn cpu_lists_are_searched() {
        for (list, cpu, expected) in [
            ("0-3,8\n", 2, true),
            ("0-3,8\n", 8, true),
            ("0-3,8\n", 4, false),
            ("", 0, false),
        ] {
            assert_eq!(holds(list, cpu), expected, "{cpu} in {list:?}");
        }
        assert!(is_core_pmu("armv8_pmuv3_0") && !is_core_pmu("software") && !is_core_pmu("amd_l3"));
    }
}
