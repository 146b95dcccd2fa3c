//! Latency of each level, misses in flight, and what translation costs.

use super::chase::{Ring, scattered};
use super::{Buffers, Calibration, MIB, in_cycles, level, lower_quartile, size_bytes};
use crate::machine::Cache;
use crate::native::clock;
use crate::native::interleave::interleave;
use crate::native::mapping::Memory;
use kernels::arena::Random;

/// Pages of the STLB loop: several times the L1 DTLBs of facts (48 to 96 entries), well within
/// every STLB (1280 and more), and six lines in each of 64 sets, which any L1D holds.
const STLB_PAGES: usize = 384;
/// Pages of the page-walk loop: four times the largest STLB known (4096 entries).
const WALK_PAGES: usize = 16384;
/// Lines of one pass of the memory loop.
const MEMORY_LINES: u64 = 4096;

/// One chase of the latency loops.
struct Probe<'a> {
    level: u8,
    ring: Ring<'a>,
    pages: usize,
    warm_loads: u64,
    loads: u64,
}

/// Latency of each level and of memory, and the misses in flight.
///
/// Working sets, in random order: half of the L1D; beyond, four times the level inside, where then
/// at most 2 % of the loads find their line (exp(-4), under random replacement), and which is
/// small, so that few pages are visited and neighbours on a shared cache take little of it. Memory: random lines of 4 MiB, at least 256 bytes apart,
/// flushed before each pass, so that the size of the last level need not be known.
///
/// What translation adds (nothing, unless a hypervisor splits huge pages) is measured on lines
/// that the L1D holds, over as many pages, and subtracted.
pub(super) fn latencies(
    result: &mut Calibration,
    huge: &mut Memory,
    caches: &[Cache],
    repeats: u32,
) {
    let random = &mut Random(0x6b77_616c_6b00_0001);
    let mut rest = huge.bytes();
    let mut probes = Vec::new();
    let mut inner_bytes = 0;
    for number in 1..=4 {
        let Some(cache) = level(caches, number) else {
            if number <= 2 {
                result.notes.push(format!(
                    "the L{number} is unknown, so its latency was not measured"
                ));
            }
            continue;
        };
        let line_bytes = cache.line_bytes as usize;
        let half = size_bytes(cache) / 2;
        let bytes = if number > 1 {
            half.min(4 * inner_bytes)
        } else {
            half
        };
        let bytes = bytes.next_multiple_of(4096);
        if bytes < 4 * inner_bytes || bytes + 4 * MIB > rest.len() {
            result.notes.push(format!(
                "the latency of L{number} ({} KiB; {} KiB inside it) was not measured: the loop needs a working \
                 set of four times the level inside, at most half of the level, within 60 MiB",
                size_bytes(cache) / 1024,
                inner_bytes / 1024
            ));
            continue;
        }
        inner_bytes = size_bytes(cache);
        let (memory, after) = rest.split_at_mut(bytes);
        rest = after;
        let ring = Ring::new(
            memory,
            scattered(bytes, line_bytes, line_bytes, false, random),
        );
        let (warm_loads, loads) = match number {
            1 => (ring.loads() * 2, 20_000),
            2 => (ring.loads() * 2, ring.loads().max(10_000)),
            // Warmed below; what the other loops took since is a small part.
            _ => (0, ring.loads()),
        };
        probes.push(Probe {
            level: number,
            ring,
            pages: bytes / 4096,
            warm_loads,
            loads,
        });
    }
    for probe in &mut probes {
        probe.settle();
    }
    let (memory, _) = rest.split_at_mut(4 * MIB);
    let ring = Ring::new(memory, scattered(4 * MIB, 256, 256, false, random));
    probes.push(Probe {
        level: 0,
        ring,
        pages: 4 * MIB / 4096,
        warm_loads: 0,
        loads: MEMORY_LINES,
    });
    let measured = interleave(&mut probes, repeats, 2, |probe, _| {
        probe.cycles_per_load(random)
    });
    let pages: Vec<(u8, usize)> = probes.iter().map(|p| (p.level, p.pages)).collect();
    let mut in_flight: Vec<f64> = Vec::new();
    let mut found = Vec::new();
    for ((level, pages), samples) in pages.into_iter().zip(measured) {
        let samples: Result<Vec<(f64, f64)>, String> = samples.into_iter().collect();
        match samples {
            Ok(samples) => {
                let (chased, independent): (Vec<f64>, Vec<f64>) = samples.into_iter().unzip();
                let latency = lower_quartile(chased);
                if level != 1 {
                    in_flight.push(latency / lower_quartile(independent));
                }
                found.push((level, pages, latency));
            }
            Err(why) => result
                .notes
                .push(format!("memory latency was not measured: {why}")),
        }
    }
    without_translation(result, huge, caches, &found, repeats);
    let most = in_flight.into_iter().fold(0.0, f64::max);
    if most >= 1.0 {
        result.l1_outstanding = Some(most.round() as u32);
    }
}

/// Book the latencies `(level, pages, cycles)` without what translation on huge pages adds.
fn without_translation(
    result: &mut Calibration,
    huge: &mut Memory,
    caches: &[Cache],
    found: &[(u8, usize, f64)],
    repeats: u32,
) {
    let Some(&(_, _, l1)) = found.iter().find(|f| f.0 == 1) else {
        result.level_latency_cycles = found.iter().map(|f| (f.0, f.2)).collect();
        return;
    };
    let line_bytes = level(caches, 1).map_or(64, |c| c.line_bytes as usize);
    let mut adds = |pages: usize| {
        let offsets = page_offsets(pages, STLB_PAGES, line_bytes);
        (chase_cycles(huge.bytes(), offsets, repeats) - l1).max(0.0)
    };
    let split_cycles = adds(STLB_PAGES);
    let split = split_cycles > 2.0;
    result.huge_pages_split = Some(split);
    for &(level, pages, cycles) in found {
        let adds = match level {
            _ if !split || level == 1 => 0.0,
            _ => adds(pages.min(STLB_PAGES)),
        };
        result.level_latency_cycles.push((level, cycles - adds));
    }
    if split {
        result.notes.push(format!(
            "huge pages are small ones to the TLB here (the hypervisor backs them so): {STLB_PAGES} \
             lines 4 KiB apart cost {split_cycles:.1} cycles a load more than as many side by side; \
             such costs were subtracted from the latencies of L2 and beyond"
        ));
    }
}

/// `lines` words in random order, dealt over the first `pages` pages and evenly over the line
/// offsets within a page.
fn page_offsets(pages: usize, lines: usize, line_bytes: usize) -> Vec<usize> {
    let random = &mut Random(pages as u64);
    let mut offsets: Vec<usize> = scattered(lines * 4096, 4096, line_bytes, true, random)
        .into_iter()
        // Page `p + pages` folds onto page `p`; of two words that fall together one is left out.
        .map(|offset| offset / 4096 % pages * 4096 + offset % 4096)
        .collect();
    let mut seen = std::collections::BTreeSet::new();
    offsets.retain(|&offset| seen.insert(offset));
    offsets
}

/// Core cycles per load of a chase over `offsets`, warm.
fn chase_cycles(memory: &mut [u8], offsets: Vec<usize>, repeats: u32) -> f64 {
    let mut ring = Ring::new(memory, offsets);
    let loads = ring.loads().max(8192);
    ring.chase(ring.loads());
    let samples = (0..repeats).map(|_| {
        ring.chase(ring.loads());
        in_cycles(|| ring.chase(loads))
    });
    lower_quartile(samples.collect())
}

impl Probe<'_> {
    /// Go round until two rounds in a row are not faster than the best by 5 %: a cache that is
    /// filled by evictions alone (AMD's L3), or that a neighbour uses, takes several rounds.
    fn settle(&mut self) {
        let (mut best, mut no_better) = (f64::INFINITY, 0);
        for _ in 0..12 {
            let ticks = self.ring.chase(self.ring.loads());
            no_better = if ticks < 0.95 * best {
                0
            } else {
                no_better + 1
            };
            best = best.min(ticks);
            if no_better == 2 {
                break;
            }
        }
    }

    /// Core cycles per dependent load of a cache that others share: neighbours take lines out of it
    /// all the time, and each costs an access to memory. So the pass is timed in blocks, and the
    /// tenth of them that was least disturbed counts.
    fn undisturbed_blocks(&mut self) -> f64 {
        const BLOCK: u64 = 64;
        let ratio = clock::core_cycles_per_tick_now().expect("checked by the caller");
        let mut empty: Vec<u64> = (0..64)
            .map(|_| {
                let begin = clock::begin();
                clock::end() - begin
            })
            .collect();
        empty.sort_unstable();
        let empty = empty[empty.len() / 2] as f64;
        let mut blocks: Vec<f64> = (0..self.loads / BLOCK)
            .map(|_| (self.ring.chase(BLOCK) - empty / BLOCK as f64) * ratio)
            .collect();
        blocks.sort_by(f64::total_cmp);
        clock::quantile(&blocks, 0.1)
    }

    /// Core cycles per dependent load, and per independent one.
    fn cycles_per_load(&mut self, random: &mut Random) -> Result<(f64, f64), String> {
        let flushed = self.level == 0;
        if flushed {
            self.ring.flush_and_restart(self.loads)?;
        }
        if self.warm_loads > 0 {
            self.ring.chase(self.warm_loads);
        }
        let chased = match self.level {
            0..=2 => in_cycles(|| self.ring.chase(self.loads)),
            _ => self.undisturbed_blocks(),
        };
        let ratio = clock::core_cycles_per_tick_now().expect("checked by the caller");
        let independent = ratio * self.ring.fan_out(2048, random, flushed)?;
        Ok((chased, independent))
    }
}

/// Cost of an STLB hit and of a page walk: what one line in each of many small pages costs beyond
/// as many lines where translation is free.
///
/// STLB: 384 pages, lines that the L1D holds, against the L1D's latency. Walk: 16,384 pages against
/// the same offsets on huge pages; where those are split, against 16,384 lines side by side, of
/// which translation is at most an STLB hit.
pub(super) fn translation(
    result: &mut Calibration,
    buffers: &mut Buffers,
    caches: &[Cache],
    repeats: u32,
) {
    let l1 = result.level_latency_cycles.iter().find(|l| l.0 == 1);
    let (true, Some(&(_, l1))) = (buffers.as_asked, l1) else {
        result.notes.push(
            "STLB and page-walk costs were not measured: they need both page sizes and the L1D's latency"
                .into(),
        );
        return;
    };
    let line_bytes = level(caches, 1).map_or(64, |c| c.line_bytes as usize);
    let small = buffers.small.bytes();
    let offsets = page_offsets(STLB_PAGES, STLB_PAGES, line_bytes);
    let stlb = (chase_cycles(small, offsets, repeats) - l1).max(0.0);
    result.stlb_cycles = Some(stlb);
    let spread = page_offsets(WALK_PAGES, WALK_PAGES, line_bytes);
    let with_walks = chase_cycles(small, spread.clone(), repeats);
    let without = if result.huge_pages_split == Some(true) {
        let bytes = WALK_PAGES * line_bytes;
        let dense = scattered(bytes, line_bytes, line_bytes, false, &mut Random(5));
        chase_cycles(buffers.huge.bytes(), dense, repeats) - stlb
    } else {
        chase_cycles(buffers.huge.bytes(), spread, repeats)
    };
    result.page_walk_cycles = Some((with_walks - without).max(0.0));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 384 words on 48 pages: at most 8 a page, six at each of 64 line offsets before words that
    /// fall together are left out, which is rare (two draws of 64 offsets per page agree).
    #[test]
    fn words_are_dealt_over_pages_and_line_offsets() {
        let offsets = page_offsets(48, 384, 64);
        let (mut per_page, mut per_line) = ([0; 48], [0; 64]);
        for offset in &offsets {
            per_page[offset / 4096] += 1;
            per_line[offset % 4096 / 64] += 1;
        }
        assert!(
            per_page.iter().all(|&n| (1..=8).contains(&n)),
            "{per_page:?}"
        );
        assert!(per_line.iter().all(|&n| n <= 6), "{per_line:?}");
        assert!(
            offsets.len() > 320 && offsets.len() <= 384,
            "{}",
            offsets.len()
        );
        assert_eq!(
            page_offsets(384, 384, 64).len(),
            384,
            "one page each: none fall together"
        );
    }
}
