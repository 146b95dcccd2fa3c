//! What a counter says of a region.

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
                 the NMI watchdog, the hypervisor); times and clock cycles still work"
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
            } => {
                // Products of counts and nanoseconds leave 64 bits within a second.
                let scaled = u128::from(count) * u128::from(time_enabled_ns);
                Some(scaled as f64 / time_running_ns as f64)
            }
            Reading::Unavailable(_) => None,
        }
    }

    /// Which part of the region the counter was on the PMU.
    #[must_use]
    pub fn active_ratio(&self) -> Option<f64> {
        match *self {
            Reading::Exact(_) => Some(1.0),
            Reading::Partial {
                time_enabled_ns,
                time_running_ns,
                ..
            } => Some(time_running_ns as f64 / time_enabled_ns as f64),
            Reading::Unavailable(_) => None,
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
        assert_eq!(
            (half.estimate(), half.active_ratio()),
            (Some(14.0), Some(0.5))
        );
        assert!(matches!(half, Reading::Partial { count: 7, .. }));
        for enabled in [0, 100] {
            let never = Reading::of(0, enabled, 0);
            assert!(matches!(&never, Reading::Unavailable(why) if why.contains("never got onto")));
            assert_eq!(never.estimate(), None);
        }
    }

    /// 2^40 events in 1 of 2^40 ns: the product of count and time leaves 64 bits, 2^80 / 2^30 does not
    /// lose its bits.
    #[test]
    fn scaling_does_not_overflow() {
        let long = Reading::of(1 << 40, 1 << 40, 1 << 30);
        assert_eq!(long.estimate(), Some(2f64.powi(50)));
        let most = Reading::of(u64::MAX, u64::MAX, 1);
        assert_eq!(most.estimate(), Some(u64::MAX as f64 * u64::MAX as f64));
    }
}
