//! Time: the processor's counter around a region, its frequency, what an empty region costs, and
//! how many core cycles pass per tick.
//!
//! | processor | counter | chain for the core clock |
//! |---|---|---|
//! | x86-64 | TSC: `lfence; rdtsc; lfence` to begin, `rdtscp; lfence` to end | dependent 32-bit `imul`, 3 cycles |
//! | arm64 | `isb; mrs cntvct_el0` | dependent `eor` of two registers, 1 cycle |
//! | other | `Instant`, in nanoseconds | none |
//!
//! Chains of add-immediate are of no use: recent cores fold them, several per cycle. Latencies:
//! Intel since Nehalem, AMD Zen and Intel's Goldmont and later all list 3 cycles for
//! `imul r32, r32` (uops.info); basic register-register logic is 1 cycle in Arm's optimization
//! guides for Neoverse N1 and V1.
//!
//! Unsafe is confined here to reading counters and to register-only chains.
#![allow(unsafe_code)]

use std::time::{Duration, Instant};

/// Ticks at the begin of a region: earlier instructions are done, later ones have not begun.
#[inline(always)]
#[must_use]
pub fn begin() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE2 (`lfence`) and `rdtsc` are part of x86-64; Linux lets user code read the TSC.
    unsafe {
        core::arch::x86_64::_mm_lfence();
        let ticks = core::arch::x86_64::_rdtsc();
        core::arch::x86_64::_mm_lfence();
        ticks
    }
    #[cfg(target_arch = "aarch64")]
    {
        virtual_count()
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        since_start_ns()
    }
}

/// Ticks at the end of a region: the region's instructions are done, later ones have not begun.
#[inline(always)]
#[must_use]
pub fn end() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: `rdtscp` came with the first x86-64 processors that Linux's `constant_tsc` holds
    // for, and Linux lets user code execute it; `lfence` is part of x86-64.
    unsafe {
        let mut aux = 0;
        let ticks = core::arch::x86_64::__rdtscp(&raw mut aux);
        core::arch::x86_64::_mm_lfence();
        ticks
    }
    #[cfg(target_arch = "aarch64")]
    {
        virtual_count()
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        since_start_ns()
    }
}

#[cfg(target_arch = "aarch64")]
#[inline(always)]
fn virtual_count() -> u64 {
    let ticks: u64;
    // SAFETY: Linux lets user code read `cntvct_el0`; `isb` keeps the read in program order. Not
    // `nomem`: the compiler must not move accesses across it.
    unsafe {
        core::arch::asm!("isb", "mrs {0}, cntvct_el0", "isb", out(reg) ticks, options(nostack));
    }
    ticks
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn since_start_ns() -> u64 {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    let start = *START.get_or_init(Instant::now);
    u64::try_from(start.elapsed().as_nanos()).expect("585 years")
}

/// The frequency of the counter that firmware or hypervisor tells, in Hz, and who tells it.
///
/// x86-64: CPUID leaf 0x15 (crystal and ratio), or leaf 0x4000_0010 (KHz), which KVM took over from
/// VMware. arm64: `cntfrq_el0`, which some emulators leave at 0: then nothing is told.
#[must_use]
pub fn told_hz() -> Option<(f64, &'static str)> {
    #[cfg(target_arch = "x86_64")]
    {
        let cpuid = raw_cpuid::CpuId::new();
        let crystal = cpuid
            .get_tsc_info()
            .and_then(|t| t.tsc_frequency())
            .filter(|&hz| hz > 0)
            .map(|hz| (hz as f64, "CPUID leaf 0x15"));
        crystal.or_else(|| {
            let khz = cpuid.get_hypervisor_info()?.tsc_frequency()?;
            (khz > 0).then_some((f64::from(khz) * 1e3, "CPUID leaf 0x40000010 (hypervisor)"))
        })
    }
    #[cfg(target_arch = "aarch64")]
    {
        let hz: u64;
        // SAFETY: Linux lets user code read `cntfrq_el0`.
        unsafe {
            core::arch::asm!("mrs {0}, cntfrq_el0", out(reg) hz, options(nomem, nostack, preserves_flags));
        }
        (hz > 0).then_some((hz as f64, "cntfrq_el0"))
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    Some((1e9, "nanoseconds of Instant"))
}

/// Median and spread of a quantity over repeats.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// Tenth percentile.
    pub low: f64,
    /// Median.
    pub median: f64,
    /// Ninetieth percentile.
    pub high: f64,
}

impl Spread {
    /// Of `values`, which are not empty.
    #[must_use]
    pub fn of(mut values: Vec<f64>) -> Spread {
        values.sort_by(f64::total_cmp);
        Spread {
            low: quantile(&values, 0.1),
            median: quantile(&values, 0.5),
            high: quantile(&values, 0.9),
        }
    }
}

/// The value below which a share `q` of the ascending `sorted` lies, interpolated between the two
/// nearest.
///
/// # Panics
/// If `sorted` is empty.
#[must_use]
pub fn quantile(sorted: &[f64], q: f64) -> f64 {
    let at = q * (sorted.len() - 1) as f64;
    let (low, high) = (at.floor() as usize, at.ceil() as usize);
    sorted[low] + (sorted[high] - sorted[low]) * at.fract()
}

/// What is known of the counter of the calling thread's CPU.
#[derive(Clone, Debug, PartialEq)]
pub struct Clock {
    /// Ticks per second, measured against `CLOCK_MONOTONIC`.
    pub tick_hz: Spread,
    /// As firmware or hypervisor tells, with who tells it.
    pub told: Option<(f64, &'static str)>,
    /// Ticks between [`begin`] and [`end`] of an empty region: subtracted from regions that run
    /// once, and kept as its own number.
    pub empty_region_ticks: Spread,
    /// Core cycles per tick while the core is busy; `None` where no chain of known latency exists.
    pub core_cycles_per_tick: Option<Spread>,
    /// The chain that says so.
    pub chain: &'static str,
    /// What is out of the ordinary.
    pub notes: Vec<String>,
}

impl Clock {
    /// Measure on the CPU that the calling thread is pinned to; takes about 75 ms.
    #[must_use]
    pub fn measure() -> Clock {
        let tick_hz = Spread::of((0..3).map(|_| tick_hz(Duration::from_millis(20))).collect());
        let told = told_hz();
        let mut notes = Vec::new();
        notes.extend(told.and_then(|(told_hz, by)| disagreement(tick_hz.median, told_hz, by)));
        let empty = (0..2000).map(|_| {
            let begin = begin();
            (end() - begin) as f64
        });
        let (core_cycles_per_tick, chain) = core_clock();
        notes.extend(core_cycles_per_tick.and_then(unsteady));
        Clock {
            tick_hz,
            told,
            empty_region_ticks: Spread::of(empty.collect()),
            core_cycles_per_tick,
            chain,
            notes,
        }
    }

    /// Core clock in Hz while busy.
    #[must_use]
    pub fn core_hz(&self) -> Option<f64> {
        Some(self.core_cycles_per_tick?.median * self.tick_hz.median)
    }

    /// `ticks` in nanoseconds.
    #[must_use]
    pub fn ns(&self, ticks: f64) -> f64 {
        ticks * 1e9 / self.tick_hz.median
    }
}

/// A sentence if what is told differs from what is measured by more than 1 %: slewing of
/// `CLOCK_MONOTONIC` (0.05 % at most) and reading two clocks explain far less.
fn disagreement(measured_hz: f64, told_hz: f64, by: &str) -> Option<String> {
    ((measured_hz / told_hz - 1.0).abs() > 0.01).then(|| {
        format!(
            "the counter ticks at {:.1} MHz, {by} says {:.1} MHz: the measured one is used",
            measured_hz / 1e6,
            told_hz / 1e6
        )
    })
}

/// A sentence if the core clock moved by more than 5 % while it was measured.
fn unsteady(ratio: Spread) -> Option<String> {
    (ratio.high > 1.05 * ratio.low).then(|| {
        format!(
            "the core clock moved between {:.2} and {:.2} cycles per tick while it was measured: \
             cycles are uncertain by as much (boost, a busy sibling or a noisy host)",
            ratio.low, ratio.high
        )
    })
}

fn tick_hz(over: Duration) -> f64 {
    let (tick0, at0) = both_clocks();
    while at0.elapsed() < over {
        std::hint::spin_loop();
    }
    let (tick1, at1) = both_clocks();
    (tick1 - tick0) as f64 / (at1 - at0).as_secs_f64()
}

/// Both clocks at one moment: of several tries the one with the counter reads closest together.
fn both_clocks() -> (u64, Instant) {
    (0..8)
        .map(|_| {
            let before = begin();
            let at = Instant::now();
            let width = end() - before;
            (width, before + width / 2, at)
        })
        .min_by_key(|t| t.0)
        .map(|(_, tick, at)| (tick, at))
        .expect("eight tries")
}

/// Core cycles per tick, and the chain they come from.
fn core_clock() -> (Option<Spread>, &'static str) {
    const ROUNDS: u64 = 500;
    let Some((chain, cycles_per_round, name)) = CHAIN else {
        return (None, "none: no chain of known latency for this processor");
    };
    let once = || {
        let begin = begin();
        chain(ROUNDS);
        (end() - begin) as f64
    };
    // About 5 ms of work first, so that the clock is that of a busy core.
    for _ in 0..200 {
        once();
    }
    let cycles = (ROUNDS * cycles_per_round) as f64;
    let ratios: Vec<f64> = (0..61).map(|_| cycles / once()).collect();
    (Some(Spread::of(ratios)), name)
}

/// Core cycles per tick at this moment, from about 10,000 cycles of the chain; `None` where there
/// is no chain.
#[must_use]
pub fn core_cycles_per_tick_now() -> Option<f64> {
    const ROUNDS: u64 = 100;
    let (chain, cycles_per_round, _) = CHAIN?;
    let begin = begin();
    chain(ROUNDS);
    Some((ROUNDS * cycles_per_round) as f64 / (end() - begin) as f64)
}

type Chain = Option<(fn(u64), u64, &'static str)>;

#[cfg(target_arch = "x86_64")]
const CHAIN: Chain = Some((
    imul_chain,
    32 * 3,
    "dependent imul r32, 3 cycles each (uops.info)",
));
#[cfg(target_arch = "aarch64")]
const CHAIN: Chain = Some((
    eor_chain,
    32,
    "dependent eor, 1 cycle each (Arm Neoverse optimization guides)",
));
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const CHAIN: Chain = None;

/// `rounds` times 32 multiplications, each waiting for the one before; the loop counter runs beside.
#[cfg(target_arch = "x86_64")]
#[inline(never)]
fn imul_chain(rounds: u64) {
    // SAFETY: registers only.
    unsafe {
        core::arch::asm!(
            "2:",
            ".rept 32",
            "imul {x:e}, {y:e}",
            ".endr",
            "dec {n}",
            "jnz 2b",
            x = inout(reg) 3u64 => _,
            y = in(reg) 5u64,
            n = inout(reg) rounds => _,
            options(nomem, nostack),
        );
    }
}

/// `rounds` times 32 exclusive-ors, each waiting for the one before; the loop counter runs beside.
#[cfg(target_arch = "aarch64")]
#[inline(never)]
fn eor_chain(rounds: u64) {
    // SAFETY: registers only.
    unsafe {
        core::arch::asm!(
            "2:",
            ".rept 32",
            "eor {x}, {x}, {y}",
            ".endr",
            "subs {n}, {n}, #1",
            "b.ne 2b",
            x = inout(reg) 3u64 => _,
            y = in(reg) 5u64,
            n = inout(reg) rounds => _,
            options(nomem, nostack),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 0, 10, …, 100: the q-quantile is 100 q.
    #[test]
    fn quantiles_of_an_even_scale() {
        let values: Vec<f64> = (0..=10).rev().map(|i| f64::from(i) * 10.0).collect();
        let spread = Spread::of(values);
        assert_eq!((spread.low, spread.median, spread.high), (10.0, 50.0, 90.0));
        assert_eq!(quantile(&[1.0, 2.0], 0.5), 1.5);
        assert_eq!(quantile(&[4.0], 0.9), 4.0);
    }

    #[test]
    fn only_a_real_disagreement_is_told() {
        assert_eq!(disagreement(2.000e9, 2.001e9, "x"), None);
        let told = disagreement(2.0e9, 2.5e9, "CPUID leaf 0x15").unwrap();
        assert!(
            told.contains("2000.0 MHz, CPUID leaf 0x15 says 2500.0"),
            "{told}"
        );
    }

    /// No time is asserted: the counter does not run backwards on one CPU, and ratios exist.
    #[test]
    fn the_counter_moves_forward() {
        let cpu = crate::native::affinity::choose(1).unwrap()[0];
        std::thread::spawn(move || {
            let _pinned = crate::native::affinity::Pinned::to(cpu).unwrap();
            let clock = Clock::measure();
            assert!(clock.tick_hz.median > 0.0);
            assert!(clock.empty_region_ticks.low >= 0.0);
            assert_eq!(clock.core_hz().is_some(), CHAIN.is_some());
        })
        .join()
        .unwrap();
    }
}
