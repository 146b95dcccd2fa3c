//! The self-check: a second of loops that measure what the model of this host must know.
//!
//! All latencies are in core cycles: ticks around a loop, times the core cycles per tick that a
//! chain of known latency showed right before it ([`clock`]). Loops are interleaved in random
//! order; of the repeats the lower quartile counts, since noise only adds.
//!
//! Not measured: store costs, prefetchers, transfers between cores, anything of instruction
//! caches. In a guest, the hypervisor may back huge pages with small ones; that is told.

pub mod chase;
mod latency;
pub mod replacement;

use crate::machine::Cache;
pub use crate::machine::Calibration;
use crate::native::affinity::Pinned;
use crate::native::clock::{self, Clock};
use crate::native::interleave::interleave;
use crate::native::mapping::{self, Memory, Pages};
use crate::native::smaps;
use chase::replay;
use kernels::arena::Random;
use replacement::{Pattern, Point};

const MIB: usize = 1 << 20;
/// Run the loops on `cpu`, whose data caches are `caches`; at most 0.6 s if `quick`, else 2 s.
///
/// The calling thread is pinned to `cpu` meanwhile, so it must be allowed there.
#[must_use]
pub fn calibrate(cpu: u32, caches: &[Cache], quick: bool) -> Calibration {
    let mut result = Calibration::default();
    let _pinned = match Pinned::to(cpu) {
        Ok(pinned) => pinned,
        Err(e) => {
            result.notes.push(format!("nothing was measured: {e}"));
            return result;
        }
    };
    let clock = Clock::measure();
    result.tsc_hz = Some(clock.tick_hz.median);
    result.core_hz = clock.core_hz();
    result.notes.extend(clock.notes.iter().cloned());
    if clock.core_cycles_per_tick.is_none() {
        result.notes.push(format!(
            "latencies in cycles cannot be had, the core clock is unknown ({})",
            clock.chain
        ));
        return result;
    }
    let usable: Vec<Cache> = caches
        .iter()
        .filter(|c| is_measurable(c))
        .cloned()
        .collect();
    if usable.len() < caches.len() {
        result.notes.push(
            "cache levels without sets or ways, or with lines outside 8 to 1024 bytes, were left out"
                .into(),
        );
    }
    let caches = &usable[..];
    let repeats = if quick { 7 } else { 21 };
    match Buffers::new() {
        Ok(mut buffers) => {
            result.notes.append(&mut buffers.notes);
            latency::latencies(&mut result, &mut buffers.huge, caches, repeats);
            l1_set(&mut result, &mut buffers.huge, caches, repeats);
            latency::translation(&mut result, &mut buffers, caches, repeats.min(11));
        }
        Err(e) => result.notes.push(format!("no memory for the loops: {e}")),
    }
    result
}

/// Memory of the loops: 64 MiB in huge pages, 64 MiB in small ones.
struct Buffers {
    huge: Memory,
    small: Memory,
    /// Whether `huge` is, and `small` is not.
    as_asked: bool,
    notes: Vec<String>,
}

impl Buffers {
    fn new() -> std::io::Result<Buffers> {
        let mut huge = mapping::allocate(64 * MIB, Pages::Thp)?;
        let mut small = mapping::allocate(64 * MIB, Pages::FourK)?;
        let mut notes = std::mem::take(&mut huge.refused);
        let share = |memory: &mut Memory| -> std::io::Result<f64> {
            let start = memory.host_start();
            let bytes = memory.bytes();
            bytes.iter_mut().step_by(4096).for_each(|b| *b = 1);
            bytes.iter_mut().step_by(4096).for_each(|b| *b = 0);
            let seen = smaps::backing(start, bytes.len() as u64)?;
            Ok(seen.huge_bytes() as f64 / bytes.len() as f64)
        };
        let (in_huge, in_small) = (share(&mut huge)?, share(&mut small)?);
        if in_huge < 1.0 {
            notes.push(format!(
                "only {:.0} % of the loops' memory is in huge pages, so latencies beyond the L1D \
                 include address translation",
                100.0 * in_huge
            ));
        }
        Ok(Buffers {
            huge,
            small,
            as_asked: in_huge == 1.0 && in_small == 0.0,
            notes,
        })
    }
}

/// The value of `repeats` that noise, which only adds, has touched least but that is not a fluke.
fn lower_quartile(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    clock::quantile(&values, 0.25)
}

/// `ticks` of a loop in core cycles, by the ratio right now.
fn in_cycles(ticks_per_load: impl FnOnce() -> f64) -> f64 {
    let ratio = clock::core_cycles_per_tick_now().expect("calibrate checked that there is a chain");
    ticks_per_load() * ratio
}

fn level(caches: &[Cache], level: u8) -> Option<&Cache> {
    caches.iter().find(|c| c.level == level)
}

fn is_measurable(cache: &Cache) -> bool {
    let line = cache.line_bytes;
    size_bytes(cache) > 0 && line.is_power_of_two() && (8..=1024).contains(&line)
}

fn size_bytes(cache: &Cache) -> usize {
    [cache.sets, cache.ways, cache.line_bytes, cache.slices]
        .map(|n| n as usize)
        .iter()
        .product()
}

/// Sequences over lines of one L1D set that tell policies apart (see [`Pattern`]).
fn replacement_points(ways: u32) -> Vec<(Pattern, u32)> {
    let mut points: Vec<_> = (ways.saturating_sub(2).max(1)..=2 * ways + 4)
        .map(|k| (Pattern::Cyclic, k))
        .collect();
    points.extend((ways + 1..=ways + 5).map(|k| (Pattern::RandomRounds, k)));
    points.extend((ways + 2..=ways + 6).map(|k| (Pattern::HotLine, k)));
    points
}

/// How the L1D replaces: chases over lines of its last set, against what each policy predicts.
///
/// Lines are `sets * line` bytes apart and consecutive, so they spread over the L2's sets, which
/// holds them all, and differ in the low tag bits, from which AMD's way predictor makes its hash
/// (two lines of a set with one hash would miss although both are there). The list of the visits
/// lies in the other sets.
fn l1_set(result: &mut Calibration, huge: &mut Memory, caches: &[Cache], repeats: u32) {
    let latency = |level| {
        let found = result.level_latency_cycles.iter().find(|l| l.0 == level);
        found.map(|l| l.1)
    };
    let (Some(l1), Some(hit), Some(miss)) = (level(caches, 1), latency(1), latency(2)) else {
        result
            .notes
            .push("L1D replacement was not measured: latencies of L1D and L2 are needed".into());
        return;
    };
    let (stride, line_bytes) = (
        l1.sets as usize * l1.line_bytes as usize,
        l1.line_bytes as usize,
    );
    let lines = 2 * l1.ways + 4;
    let listed = ((stride - line_bytes) / 4).min(1008);
    if (lines as usize + 2) * stride > 64 * MIB || listed < 2 * lines as usize || miss <= hit + 1.0
    {
        result.notes.push(format!(
            "L1D replacement was not measured: {} sets of {} ways do not suit the loop, or L2 ({miss:.1} \
             cycles) and L1D ({hit:.1}) cannot be told apart",
            l1.sets, l1.ways
        ));
        return;
    }
    let bytes = huge.bytes();
    bytes[..(lines as usize + 2) * stride].fill(0);
    let (set, list) = bytes.split_at_mut((lines as usize + 1) * stride);
    let random = &mut Random(0x6b77_616c_6b00_0002);
    let mut points: Vec<Point> = replacement_points(l1.ways)
        .into_iter()
        .map(|(pattern, lines)| Point {
            pattern,
            lines,
            sequence: replacement::sequence(pattern, lines, listed, random),
            measured: f64::NAN,
        })
        .collect();
    // What the replay loop adds to each load (address arithmetic): few lines, all hits.
    points.push(Point {
        pattern: Pattern::Cyclic,
        lines: 2,
        sequence: replacement::sequence(Pattern::Cyclic, 2, listed, random),
        measured: f64::NAN,
    });
    let measured = interleave(&mut points, repeats, 3, |point, _| {
        let list = chase::as_words(
            list,
            point
                .sequence
                .iter()
                .map(|&l| l * stride as u32 + (stride - line_bytes) as u32),
        );
        replay(set, list, 4);
        in_cycles(|| replay(set, list, 8))
    });
    let mut cycles: Vec<f64> = measured.into_iter().map(lower_quartile).collect();
    points.pop();
    let all_hits = cycles.pop().expect("one entry per point");
    for (point, cycles) in points.iter_mut().zip(cycles) {
        point.measured = ((cycles - all_hits) / (miss - hit)).max(0.0);
    }
    result.l1_set_curve = curve(&points);
    let fits = replacement::fit(l1.ways, &points);
    result.notes.extend(doubt(&fits));
    result.l1_replacement = fits
        .first()
        .map(|best| (best.policy, evidence(&points, &fits)));
}

fn curve(points: &[Point]) -> Vec<(u32, f64)> {
    let cyclic = points.iter().filter(|p| p.pattern == Pattern::Cyclic);
    cyclic.map(|p| (p.lines, p.measured)).collect()
}

/// The measured miss fractions beside those of the best candidate, in words.
fn evidence(points: &[Point], fits: &[replacement::Fit]) -> String {
    let best = &fits[0];
    let of = |pattern| {
        let rows = points.iter().zip(&best.predicted);
        let rows = rows.filter(move |(p, _)| p.pattern == pattern);
        let rows = rows.map(|(p, q)| format!("{} {:.2}/{q:.2}", p.lines, p.measured));
        rows.collect::<Vec<_>>().join(", ")
    };
    let errors: Vec<String> = fits
        .iter()
        .map(|f| format!("{} {:.2}", f.policy, f.rms_error))
        .collect();
    format!(
        "chase over k lines of a set, misses per load measured/{} predicts: same order each round: {}; \
         a random order each round: {}; one hot line before every other: {}; rms error: {}",
        best.policy,
        of(Pattern::Cyclic),
        of(Pattern::RandomRounds),
        of(Pattern::HotLine),
        errors.join(", ")
    )
}

/// A sentence if no candidate fits, or two fit equally well.
fn doubt(fits: &[replacement::Fit]) -> Option<String> {
    let best = fits.first()?;
    if best.rms_error > 0.1 {
        return Some(format!(
            "no known policy fits the L1D well: {} is nearest, off by {:.2} misses per load (rms)",
            best.policy, best.rms_error
        ));
    }
    let second = fits.get(1)?;
    (second.rms_error < 1.3 * best.rms_error).then(|| {
        format!(
            "L1D replacement is uncertain: {} (off by {:.3} misses per load) and {} ({:.3}) fit alike",
            best.policy,
            best.rms_error,
            second.policy,
            second.rms_error
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_surround_the_ways() {
        for ways in [1, 2, 8, 12, 16] {
            let points = replacement_points(ways);
            let cyclic: Vec<u32> = points
                .iter()
                .filter(|p| p.0 == Pattern::Cyclic)
                .map(|p| p.1)
                .collect();
            assert!(cyclic.iter().all(|&k| k >= 1) && cyclic.contains(&ways));
            assert_eq!(cyclic.last(), Some(&(2 * ways + 4)));
        }
    }

    /// 5 values, quartile at position 1.
    #[test]
    fn the_lower_quartile_ignores_what_noise_added() {
        assert_eq!(lower_quartile(vec![9e9, 4.0, 5.0, 3.0, 1e9]), 4.0);
    }

    /// Without caches only the clocks can be had, and each gap has a sentence. No time is asserted.
    #[test]
    fn what_cannot_be_had_is_told() {
        let cpu = crate::native::affinity::choose(1).unwrap()[0];
        let result = calibrate(cpu, &[], true);
        assert!(result.tsc_hz.is_some_and(|hz| hz > 0.0));
        assert_eq!(
            (&result.l1_replacement, &result.l1_set_curve),
            (&None, &vec![])
        );
        assert!(!result.notes.is_empty());
        let nowhere = calibrate(u32::MAX, &[], true);
        assert_eq!(nowhere.notes.len(), 1);
        assert!(nowhere.notes[0].starts_with("nothing was measured: CPU 4294967295"));
    }
}
