//! What kwalk measured on a host, put in place of what was told, remembered or guessed.

use super::host::HostMachine;
use super::{Confidence, Replacement};

/// Measured values; `None` and an empty list: not measured. All cycles are core cycles.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Calibration {
    /// Clock of the time-stamp counter, in Hz.
    pub tsc_hz: Option<f64>,
    /// Core clock while the kernel runs, in Hz.
    pub core_hz: Option<f64>,
    /// Load-to-use latency by level, in core cycles; level 0 is memory.
    pub level_latency_cycles: Vec<(u8, f64)>,
    /// Replacement policy of the L1D, and how it was told.
    pub l1_replacement: Option<(Replacement, String)>,
    /// Misses of the L1D in flight.
    pub l1_outstanding: Option<u32>,
    /// A page walk whose entries hit the caches, in core cycles.
    pub page_walk_cycles: Option<f64>,
    /// What a hit in the second-level TLB adds, in core cycles.
    pub stlb_cycles: Option<f64>,
    /// `(k, misses per load)` of a cyclic chase over `k` lines of one L1D set: the cost beyond a hit
    /// over that of an L2 hit, so above 1 where a miss costs more than an L2 hit.
    pub l1_set_curve: Vec<(u32, f64)>,
    /// Whether huge pages are small ones to the TLB, because the hypervisor splits them: then `thp`
    /// and `hugetlb-2m` have the DTLB reach of `4k`.
    pub huge_pages_split: Option<bool>,
    /// What could not be had and why, and what makes a number doubtful.
    pub notes: Vec<String>,
}

/// A measured value may differ this much from the family's before it is called a disagreement.
const TOLERANCE_RATIO: f64 = 0.3;

/// A shared cache that measures this many times slower than its family does was not what was
/// measured: most loads went to memory, which is some ten times as far.
const DISTURBED_RATIO: f64 = 2.0;

impl HostMachine {
    /// Puts measured values in place of the family's defaults. The source then says which number
    /// was measured and keeps the rest; a table is `measured` once nothing remembered or inferred
    /// is left in it. A value that the model cannot take is left out, with a note.
    pub fn apply(&mut self, calibration: &Calibration) {
        let before = self.clone();
        self.apply_core(calibration);
        self.apply_caches(calibration);
        self.apply_translation(calibration);
        self.notes.extend(calibration.notes.iter().cloned());
        if let Err(fault) = self.machine.check() {
            *self = before;
            self.notes.push(format!(
                "what was measured is left out, since the model cannot take it ({fault})."
            ));
        }
    }

    fn apply_core(&mut self, calibration: &Calibration) {
        if let Some(hz) = self.usable("core clock", calibration.core_hz) {
            let core = &self.machine.core;
            // A base clock told as the highest differs for good reasons; a family's is a guess.
            self.compare("core clock", "Hz", hz, core.clock_hz as f64);
            let core = &mut self.machine.core;
            core.clock_hz = hz.round() as u64;
            core.source = measured(&format!("clock {:.3} GHz", hz / 1e9), &core.source);
        }
        if let Some(hz) = self.usable("TSC clock", calibration.tsc_hz) {
            if let Some(told) = self.machine.core.tsc_hz {
                self.compare("TSC clock", "Hz", hz, told as f64);
            }
            let core = &mut self.machine.core;
            core.tsc_hz = Some(hz.round() as u64);
            core.source = measured(&format!("TSC {:.3} GHz", hz / 1e9), &core.source);
        }
    }

    fn apply_caches(&mut self, calibration: &Calibration) {
        for &(level, cycles) in &calibration.level_latency_cycles {
            let name = match level {
                0 => "memory latency".to_owned(),
                level => format!("L{level} latency"),
            };
            let Some(cycles) = self.usable(&name, Some(cycles)) else {
                continue;
            };
            let what = format!("latency {cycles:.1} cycles");
            if level == 0 {
                self.compare(&name, "cycles", cycles, self.machine.memory.latency_cycles);
                let memory = &mut self.machine.memory;
                memory.latency_cycles = cycles;
                memory.source = measured(&what, &memory.source);
                if calibration.page_walk_cycles.is_some() {
                    memory.confidence = Confidence::Measured;
                }
                continue;
            }
            let Some(i) = self.machine.caches.iter().position(|c| c.level == level) else {
                self.notes.push(format!(
                    "a latency was measured for L{level}, which this host does not tell; it is left out."
                ));
                continue;
            };
            let before = self.machine.caches[i].latency_cycles;
            if level > 2 && cycles > DISTURBED_RATIO * before {
                self.notes.push(format!(
                    "L{level} latency: {cycles:.0} cycles measured, {before:.0} by family {}: neighbours seem to have taken the lines of the loop out of this shared cache meanwhile, so the family's is used; measure again when the machine is quiet.",
                    self.family
                ));
                continue;
            }
            self.compare(&name, "cycles", cycles, before);
            let cache = &mut self.machine.caches[i];
            cache.latency_cycles = cycles;
            cache.source = measured(&what, &cache.source);
        }
        self.apply_l1(calibration);
    }

    fn apply_l1(&mut self, calibration: &Calibration) {
        let l1 = &mut self.machine.caches[0];
        if let Some(misses) = calibration.l1_outstanding.filter(|&misses| misses > 0) {
            let guess = f64::from(l1.outstanding_misses);
            l1.outstanding_misses = misses;
            l1.source = measured(&format!("{misses} misses in flight"), &l1.source);
            self.compare("L1 misses in flight", "", f64::from(misses), guess);
        }
        let l1 = &mut self.machine.caches[0];
        let Some((policy, how)) = &calibration.l1_replacement else {
            return;
        };
        if let Some(why) = policy.refuses(l1.ways) {
            self.notes.push(format!(
                "the L1D behaves like {}, but {why}; {} is kept.",
                policy, l1.replacement
            ));
            return;
        }
        if l1.replacement != *policy {
            self.disagreements.push(format!(
                "L1 replacement: {} as measured ({how}), {} by family {}; the measured one is used.",
                policy,
                l1.replacement,
                self.family
            ));
        }
        l1.replacement = *policy;
        l1.source = measured(&format!("policy {} ({how})", policy), &l1.source);
        let latency_too = calibration
            .level_latency_cycles
            .iter()
            .any(|&(level, _)| level == 1);
        if latency_too && calibration.l1_outstanding.is_some() {
            l1.confidence = Confidence::Measured;
        }
    }

    fn apply_translation(&mut self, calibration: &Calibration) {
        let memory_cycles = self.machine.memory.latency_cycles;
        let walk = self.usable("page walk", calibration.page_walk_cycles);
        if let Some(cycles) = walk.filter(|&cycles| cycles > memory_cycles) {
            self.notes.push(format!(
                "page walk: {cycles:.0} cycles measured, more than a load from memory ({memory_cycles:.0}): something disturbed the loop, so the family's {} is used; measure again when the machine is quiet.",
                self.machine.memory.page_walk_cycles
            ));
        }
        if let Some(cycles) = walk.filter(|&cycles| cycles <= memory_cycles) {
            let guess = f64::from(self.machine.memory.page_walk_cycles);
            self.compare("page walk", "cycles", cycles, guess);
            let memory = &mut self.machine.memory;
            memory.page_walk_cycles = cycles.round() as u32;
            memory.source = measured(&format!("page walk {cycles:.1} cycles"), &memory.source);
        }
        if let Some(cycles) = self.usable("STLB hit", calibration.stlb_cycles) {
            let guess = self.machine.tlbs.iter().find(|tlb| tlb.level == 2);
            if let Some(guess) = guess.map(|tlb| f64::from(tlb.latency_cycles)) {
                self.compare("STLB hit", "cycles", cycles, guess);
            }
            for tlb in self.machine.tlbs.iter_mut().filter(|tlb| tlb.level == 2) {
                tlb.latency_cycles = cycles.round() as u32;
                tlb.source = measured(&format!("a hit adds {cycles:.1} cycles"), &tlb.source);
            }
        }
    }

    /// The value, if it is a number above zero; a note otherwise.
    fn usable(&mut self, what: &str, value: Option<f64>) -> Option<f64> {
        let value = value?;
        if value.is_finite() && value > 0.0 {
            return Some(value);
        }
        self.notes.push(format!(
            "{what}: {value} was measured, which is no number above zero; it is left out."
        ));
        None
    }

    /// A disagreement where measured and default differ by more than [`TOLERANCE_RATIO`].
    fn compare(&mut self, what: &str, unit: &str, measured: f64, default: f64) {
        let ratio = (measured - default) / default;
        if ratio.is_finite() && ratio.abs() <= TOLERANCE_RATIO {
            return;
        }
        let space = if unit.is_empty() { "" } else { " " };
        self.disagreements.push(format!(
            "{what}: {measured:.1}{space}{unit} measured, {default:.1}{space}{unit} before \
             (family {} or as told), {:+.0} %; the measured one is used.",
            self.family,
            ratio * 100.0
        ));
    }
}

/// The source of a table in which `what` is now measured.
fn measured(what: &str, before: &str) -> String {
    match before.strip_prefix(MEASURED) {
        Some(rest) => format!("{MEASURED}{what}, {rest}"),
        None => format!("{MEASURED}{what}; otherwise: {before}"),
    }
}

const MEASURED: &str = "measured on this host by kwalk: ";
