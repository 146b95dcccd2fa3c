//! Why Linux refused a counter, in one sentence that also says what still works.

use std::io;

use rustix::io::Errno;

use super::pmu;
use crate::machine::sysfs::Tree;

/// What a refusal is explained by. `None`: not known here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// PMUs of the CPU, as sysfs calls them: `cpu`, `cpu_core`, `armv8_pmuv3_0`.
    pub pmus: Vec<String>,
    /// Whether a hypervisor says that it is there.
    pub virtual_machine: Option<bool>,
    /// `kernel.perf_event_paranoid`.
    pub paranoid: Option<i64>,
    /// `kernel.nmi_watchdog`: 1 holds a counter of each CPU for itself.
    pub nmi_watchdog: Option<i64>,
    /// Whether this process has CAP_PERFMON, or CAP_SYS_ADMIN, which includes it.
    pub perfmon: Option<bool>,
    /// Whether a seccomp filter is on this process.
    pub seccomp: Option<bool>,
    /// How many files this process may have open.
    pub open_files: Option<u64>,
}

impl Surroundings {
    /// Those of `cpu` in `tree`; `virtual_machine` as CPUID says.
    #[must_use]
    pub fn read(tree: &Tree, cpu: u32, virtual_machine: Option<bool>) -> Surroundings {
        let number = |path: &str| tree.text(path).value()?.parse().ok();
        let status = tree.text("proc/self/status");
        let field = |name: &str| {
            let lines = status.value()?.lines();
            let mut values = lines.filter_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            values.next().map(str::trim)
        };
        // linux/capability.h: CAP_SYS_ADMIN is 21, CAP_PERFMON is 38.
        let capabilities = field("CapEff").and_then(|hex| u64::from_str_radix(hex, 16).ok());
        let limits = tree.text("proc/self/limits");
        let open_files = limits.value().and_then(|text| {
            let line = text
                .lines()
                .find_map(|l| l.strip_prefix("Max open files"))?;
            line.split_whitespace().next()?.parse().ok()
        });
        Surroundings {
            pmus: pmu::core_names(tree, cpu),
            virtual_machine,
            paranoid: number("proc/sys/kernel/perf_event_paranoid"),
            nmi_watchdog: number("proc/sys/kernel/nmi_watchdog"),
            perfmon: capabilities.map(|mask: u64| mask & (1 << 38 | 1 << 21) != 0),
            seccomp: field("Seccomp").map(|mode| mode == "2"),
            open_files,
        }
    }

    /// Who may hold the counters of the PMU.
    fn holders(&self) -> &'static str {
        match (self.nmi_watchdog, self.virtual_machine) {
            (Some(1..), _) => {
                "kernel.nmi_watchdog is 1 and holds one, 0 frees it (`sysctl kernel.nmi_watchdog=0`); \
                 another profiler or the hypervisor may hold others"
            }
            (_, Some(true)) => "another profiler or the hypervisor may hold them",
            _ => "another profiler may hold them",
        }
    }
}

const STILL: &str = "times and clock cycles still work";

/// Why `event` could not be opened.
#[must_use]
pub fn refusal(error: &io::Error, event: &str, here: &Surroundings) -> String {
    let pmus = here.pmus.join(", ");
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::NOENT | Errno::NXIO | Errno::NODEV) => no_event(error, event, here),
        // perf_event_open(2): also asked of hardware for what it cannot do, such as precise counts.
        Some(Errno::OPNOTSUPP) => no_event(error, event, here),
        Some(Errno::INVAL) if here.pmus.is_empty() => no_event(error, event, here),
        Some(Errno::INVAL) => format!(
            "{event}: the PMU ({pmus}) refuses this event ({error}); the other counters and {STILL}"
        ),
        Some(Errno::ACCESS | Errno::PERM) => denied(error, event, here),
        Some(Errno::NOSYS) => format!(
            "{event}: this Linux, or what emulates it, has no perf events ({error}), which needs \
             CONFIG_PERF_EVENTS; {STILL}"
        ),
        Some(Errno::MFILE) => {
            let limit = here.open_files.map_or_else(
                || "the limit on open files is reached".to_owned(),
                |limit| format!("the limit on open files is {limit}"),
            );
            format!(
                "{event}: {limit} ({error}), one more is needed for each event (`ulimit -n`); {STILL}"
            )
        }
        Some(Errno::NFILE) => format!(
            "{event}: all of this Linux's open files are used ({error}), fs.file-max must be higher; \
             {STILL}"
        ),
        Some(Errno::BUSY) => {
            format!(
                "{event}: the PMU's counters are taken ({error}): {}; {STILL}",
                here.holders()
            )
        }
        Some(Errno::NOSPC) => format!(
            "{event}: the PMU has no counter left for it ({error}): {}; {STILL}",
            here.holders()
        ),
        Some(Errno::TOOBIG) => format!(
            "{event}: this Linux is too old for what was asked ({error}): it knows a shorter \
             perf_event_attr; the other counters and {STILL}"
        ),
        _ => format!("{event}: Linux refuses the counter ({error}); {STILL}"),
    }
}

/// Why a group of counters that opened never got onto the PMU.
#[must_use]
pub fn never_ran(event: &str, here: &Surroundings) -> String {
    format!(
        "{event}: its group never got onto the PMU: {}; the other counters and {STILL}",
        here.holders()
    )
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
    let held = match here.perfmon {
        Some(true) => ", which this process has",
        Some(false) => ", which this process has not",
        None => "",
    };
    match here.paranoid {
        Some(value) if value > 2 && here.perfmon != Some(true) => format!(
            "{event}: denied ({error}): kernel.perf_event_paranoid is {value}, at most 2 is needed to \
             count one's own user space, or CAP_PERFMON{held}; {STILL}"
        ),
        Some(value) => {
            let who = match here.seccomp {
                Some(true) => {
                    "a seccomp filter is on this process, as containers have, and forbids \
                     perf_event_open, which its profile must allow"
                }
                Some(false) => {
                    "a security module forbids perf_event_open, its policy must allow it"
                }
                None => {
                    "a seccomp filter (containers have one) or a security module forbids \
                     perf_event_open"
                }
            };
            format!(
                "{event}: denied ({error}) although kernel.perf_event_paranoid is {value}: {who}, or \
                 CAP_PERFMON is needed{held}; {STILL}"
            )
        }
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
            ..Surroundings::default()
        }
    }

    /// Each errno that perf_event_open(2) and reports of users name: one sentence with event and
    /// cause, the value that is and the one that is needed, and what still works.
    #[test]
    fn every_refusal_names_event_cause_and_what_still_works() {
        let none = here(false, Some(true), 2);
        let pmu = here(true, Some(false), 2);
        let with = |change: &dyn Fn(&mut Surroundings)| {
            let mut here = pmu.clone();
            change(&mut here);
            here
        };
        for (errno, here, causes) in [
            (Errno::NOENT, &none, &["virtual machine"][..]),
            (Errno::NXIO, &none, &["no hardware PMU"]),
            (Errno::NODEV, &here(false, Some(false), 2), &["no driver"]),
            (
                Errno::OPNOTSUPP,
                &here(false, None, 2),
                &["hypervisor passes none on, or"],
            ),
            (Errno::INVAL, &none, &["no hardware PMU"]),
            (
                Errno::NOENT,
                &pmu,
                &["(cpu) or its driver has no such event"],
            ),
            (Errno::OPNOTSUPP, &pmu, &["has no such event"]),
            (Errno::INVAL, &pmu, &["refuses this event"]),
            (
                Errno::ACCESS,
                &here(true, None, 3),
                &["paranoid is 3, at most 2", "CAP_PERFMON;"],
            ),
            (
                Errno::ACCESS,
                &with(&|h| (h.paranoid, h.perfmon) = (Some(4), Some(false))),
                &["paranoid is 4", "CAP_PERFMON, which this process has not;"],
            ),
            (
                Errno::PERM,
                &with(&|h| (h.paranoid, h.perfmon, h.seccomp) = (Some(4), Some(true), Some(true))),
                &[
                    "although",
                    "a seccomp filter is on this process",
                    "which this process has;",
                ],
            ),
            (
                Errno::PERM,
                &with(&|h| h.seccomp = Some(false)),
                &["a security module"],
            ),
            (Errno::PERM, &pmu, &["seccomp", "security module"]),
            (
                Errno::PERM,
                &with(&|h| h.paranoid = None),
                &["unreadable", "sandbox"],
            ),
            (
                Errno::NOSYS,
                &pmu,
                &["no perf events", "CONFIG_PERF_EVENTS"],
            ),
            (Errno::MFILE, &pmu, &["ulimit -n"]),
            (
                Errno::MFILE,
                &with(&|h| h.open_files = Some(64)),
                &["open files is 64", "ulimit -n"],
            ),
            (Errno::NFILE, &pmu, &["fs.file-max"]),
            (Errno::BUSY, &pmu, &["taken", "another profiler"]),
            (
                Errno::BUSY,
                &with(&|h| h.nmi_watchdog = Some(1)),
                &["kernel.nmi_watchdog is 1", "nmi_watchdog=0"],
            ),
            (
                Errno::NOSPC,
                &here(true, Some(true), 2),
                &["no counter left", "the hypervisor"],
            ),
            (Errno::TOOBIG, &pmu, &["too old", "perf_event_attr"]),
            (Errno::IO, &pmu, &["refuses the counter"]),
        ] {
            let error = io::Error::from_raw_os_error(errno.raw_os_error());
            one_sentence(&refusal(&error, "cpu-cycles", here), causes);
        }
        let watched = with(&|h| h.nmi_watchdog = Some(1));
        one_sentence(
            &never_ran("cpu-cycles", &watched),
            &["never got onto", "nmi_watchdog is 1"],
        );
        let unwatched = with(&|h| h.nmi_watchdog = Some(0));
        let text = never_ran("cpu-cycles", &unwatched);
        one_sentence(&text, &["another profiler may"]);
        assert!(!text.contains("nmi_watchdog"), "{text}");
    }

    fn one_sentence(text: &str, causes: &[&str]) {
        assert!(text.starts_with("cpu-cycles: "), "{text}");
        for cause in causes {
            assert!(text.contains(cause), "{cause}: {text}");
        }
        assert!(text.ends_with(STILL), "{text}");
        assert!(
            !text.contains(". ") && !text.contains('\n'),
            "one sentence: {text}"
        );
    }

    /// As Linux writes them: capability 38 alone is bit 38, 0x4000000000; `Seccomp: 2` is a filter.
    #[test]
    fn surroundings_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        let tree = Tree::new(dir.path());
        let nothing = Surroundings::read(&tree, 0, Some(true));
        assert_eq!(
            nothing,
            Surroundings {
                virtual_machine: Some(true),
                ..Surroundings::default()
            }
        );
        write("sys/bus/event_source/devices/cpu/type", "4\n");
        write("proc/sys/kernel/perf_event_paranoid", "-1\n");
        write("proc/sys/kernel/nmi_watchdog", "1\n");
        write(
            "proc/self/limits",
            "Limit                     Soft Limit           Hard Limit           Units\n\
             Max open files            1024                 524288               files\n",
        );
        for (mask, perfmon) in [
            ("0000004000000000", true),
            ("0000000000200000", true),
            ("0000000000000001", false),
        ] {
            write(
                "proc/self/status",
                &format!("Name:\tx\nCapEff:\t{mask}\nSeccomp:\t2\n"),
            );
            let expected = Surroundings {
                pmus: vec!["cpu".to_owned()],
                virtual_machine: None,
                paranoid: Some(-1),
                nmi_watchdog: Some(1),
                perfmon: Some(perfmon),
                seccomp: Some(true),
                open_files: Some(1024),
            };
            assert_eq!(Surroundings::read(&tree, 0, None), expected);
        }
    }
}
