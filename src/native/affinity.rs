//! Which CPU a thread runs on: chosen among the allowed ones, set, and read back.

use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

/// Why a thread could not be pinned. Everything that needs no pinning (model, layouts) still works.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AffinityError {
    /// The CPU asked for is outside the cpuset or does not exist.
    #[error(
        "CPU {cpu} is not allowed for this process; allowed: {allowed} \
         (taskset or the cpuset of its cgroup decides); the model backend needs no CPU"
    )]
    NotAllowed {
        /// CPU asked for.
        cpu: u32,
        /// Allowed CPUs as a list, such as `0-1,4`.
        allowed: String,
    },
    /// More CPUs are needed than the cpuset has.
    #[error(
        "{needed} CPUs are needed, one per pinned thread, but only {allowed} is allowed for this \
         process (taskset or the cpuset of its cgroup decides); cases on one core still work"
    )]
    TooFew {
        /// How many distinct CPUs are needed.
        needed: usize,
        /// Allowed CPUs as a list.
        allowed: String,
    },
    /// Linux refused a call.
    #[error(
        "Linux refused {call}: {reason}; without it no CPU can be chosen and native times mean little"
    )]
    Refused {
        /// System call.
        call: &'static str,
        /// Its error.
        reason: String,
    },
    /// The thread runs elsewhere than it was told to.
    #[error("pinned to CPU {asked}, but the thread runs on CPU {got}: the affinity was ignored")]
    Ignored {
        /// CPU asked for.
        asked: u32,
        /// CPU that `getcpu` names.
        got: u32,
    },
}

/// CPUs that the calling thread may run on, ascending; never empty.
pub fn allowed() -> Result<Vec<u32>, AffinityError> {
    let set = current()?;
    Ok((0..CpuSet::MAX_CPU)
        .filter(|&cpu| set.is_set(cpu))
        .map(|cpu| u32::try_from(cpu).expect("CPU numbers fit in 32 bits"))
        .collect())
}

fn current() -> Result<CpuSet, AffinityError> {
    sched_getaffinity(None).map_err(|e| AffinityError::Refused {
        call: "sched_getaffinity",
        // A set for 1024 CPUs is too small for this Linux.
        reason: if e == rustix::io::Errno::INVAL {
            format!(
                "{e} (Linux was built for more than {} CPUs)",
                CpuSet::MAX_CPU
            )
        } else {
            e.to_string()
        },
    })
}

/// `needed` different CPUs of the allowed ones, in ascending order.
pub fn choose(needed: usize) -> Result<Vec<u32>, AffinityError> {
    choose_from(&allowed()?, needed)
}

/// [`choose`] from a given set.
pub fn choose_from(allowed: &[u32], needed: usize) -> Result<Vec<u32>, AffinityError> {
    match allowed.get(..needed) {
        Some(cpus) => Ok(cpus.to_vec()),
        None => Err(AffinityError::TooFew {
            needed,
            allowed: list(allowed),
        }),
    }
}

/// CPUs as Linux writes them: `0-3,8`. `cpus` is ascending.
#[must_use]
pub fn list(cpus: &[u32]) -> String {
    cpus.chunk_by(|a, b| a + 1 == *b)
        .map(|run| match run {
            [one] => one.to_string(),
            [first, .., last] => format!("{first}-{last}"),
            [] => unreachable!("chunk_by yields no empty run"),
        })
        .collect::<Vec<_>>()
        .join(",")
}

/// The calling thread, pinned to one CPU until this value is dropped, which restores the former set.
///
/// It must be dropped by the thread that made it; therefore it is neither `Send` nor `Sync`.
#[derive(Debug)]
pub struct Pinned {
    cpu: u32,
    before: CpuSet,
    _this_thread: core::marker::PhantomData<*const ()>,
}

impl Pinned {
    /// Pin the calling thread to `cpu` and read back where it runs.
    pub fn to(cpu: u32) -> Result<Pinned, AffinityError> {
        let before = current()?;
        let slot = cpu as usize;
        if slot >= CpuSet::MAX_CPU || !before.is_set(slot) {
            return Err(AffinityError::NotAllowed {
                cpu,
                allowed: list(&allowed()?),
            });
        }
        let mut only = CpuSet::new();
        only.set(slot);
        sched_setaffinity(None, &only).map_err(|e| AffinityError::Refused {
            call: "sched_setaffinity",
            reason: e.to_string(),
        })?;
        // From here on the former set comes back even when the check fails.
        let pinned = Pinned {
            cpu,
            before,
            _this_thread: core::marker::PhantomData,
        };
        match running_on() {
            got if got == cpu => Ok(pinned),
            got => Err(AffinityError::Ignored { asked: cpu, got }),
        }
    }

    /// The CPU.
    #[must_use]
    pub fn cpu(&self) -> u32 {
        self.cpu
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // A cpuset that shrank meanwhile makes this fail; the thread then stays where it is.
        let _ = sched_setaffinity(None, &self.before);
    }
}

/// The CPU on which the calling thread runs at this moment.
#[must_use]
pub fn running_on() -> u32 {
    u32::try_from(sched_getcpu()).expect("CPU numbers fit in 32 bits")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_written_as_linux_writes_them() {
        for (cpus, expected) in [
            (&[][..], ""),
            (&[3], "3"),
            (&[0, 1], "0-1"),
            (&[0, 2, 3, 4, 9], "0,2-4,9"),
        ] {
            assert_eq!(list(cpus), expected, "{cpus:?}");
        }
    }

    #[test]
    fn a_cpuset_of_one_serves_one_core_and_says_what_needs_two() {
        assert_eq!(choose_from(&[5], 1), Ok(vec![5]));
        let error = choose_from(&[5], 2).unwrap_err().to_string();
        assert!(error.starts_with("2 CPUs are needed"), "{error}");
        assert!(error.contains("only 5 is allowed"), "{error}");
    }

    #[test]
    fn pinning_is_read_back_and_undone() {
        std::thread::spawn(|| {
            let before = allowed().unwrap();
            for &cpu in &before {
                let pinned = Pinned::to(cpu).unwrap();
                assert_eq!((pinned.cpu(), running_on()), (cpu, cpu));
                assert_eq!(allowed().unwrap(), [cpu]);
                drop(pinned);
                assert_eq!(allowed().unwrap(), before);
            }
        })
        .join()
        .unwrap();
    }

    #[test]
    fn a_cpu_outside_the_set_is_refused_with_the_set() {
        for cpu in [4096, u32::MAX] {
            let error = Pinned::to(cpu).unwrap_err();
            let allowed = list(&allowed().unwrap());
            assert_eq!(error, AffinityError::NotAllowed { cpu, allowed });
        }
    }
}
