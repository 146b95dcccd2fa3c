//! Hardware prefetchers: what each asks for, worked out from its definition; a naive model of next
//! and adjacent lines; and where every line that they brought has gone.

#[path = "common/naive/cores.rs"]
mod cores;
#[path = "common/machines.rs"]
mod machines;
#[path = "common/naive/prefetch.rs"]
mod naive;

use std::collections::BTreeSet;

use kernels::arena::Region;
use kernels::memory::Field;
use kwalk::machine::{Cache, Inclusion, Machine, Prefetcher, PrefetcherKind, Protocol};
use kwalk::model::coherence::{CoherenceStats, State};
use kwalk::model::hierarchy::{Hierarchy, Kind, PrefetchStats};
use kwalk::model::page_map::{Frames, PageMapOptions};
use kwalk::model::{Model, ModelOptions};
use naive::{Level, Naive};
use proptest::prelude::*;

use PrefetcherKind::{AdjacentLine, NextLine, Streamer, Stride};

/// Lines of 64 bytes in a page.
const PAGE: u64 = 64;

fn with(caches: Vec<Cache>, prefetchers: Vec<Prefetcher>) -> Machine {
    Machine {
        prefetchers,
        ..machines::machine(caches)
    }
}

/// L1D and L2 from which nothing leaves in the analytic tests: 4096 and 8192 lines.
fn wide() -> Vec<Cache> {
    let l2 = cores::shared(2, 1024, 8, Inclusion::NonInclusive, 1);
    vec![machines::l1(512, 8), l2]
}

/// Demand misses of the prefetcher's level, lines that it brought, those of them that were used, and
/// those that wait. `loads` are sites and addresses.
fn counts(prefetcher: &Prefetcher, loads: &[(u16, u64)]) -> [u64; 4] {
    let k = usize::from(prefetcher.level) - 1;
    let mut caches = cores::hierarchy(&with(wide(), vec![prefetcher.clone()]), 1);
    for (site, addr) in loads {
        cores::touch(&mut caches, 0, *addr, 8, *site, Kind::Load);
    }
    let stats = caches.stats()[k];
    let PrefetchStats {
        issued,
        useful,
        unused,
        polluting,
        late,
    } = stats.prefetcher;
    assert_eq!((unused, polluting, late), (0, 0, 0), "nothing leaves");
    let waits = waiting(&caches, 0, k).len() as u64;
    [stats.demand_misses(), issued, useful, waits]
}

/// Lines of a cache that a prefetcher brought and nobody asked for.
fn waiting(caches: &Hierarchy, core: usize, k: usize) -> BTreeSet<u64> {
    let mut cache = caches.cache_of(core, k).clone();
    let lines: Vec<u64> = cache.contents().map(|(line, _)| line).collect();
    let is_waiting = |line: &u64| {
        let slot = cache.slot_of(*line).expect("it is there");
        cache.take_prefetched(slot)
    };
    lines.into_iter().filter(is_waiting).collect()
}

/// Loads of one site of these lines, from page 1 on.
fn lines(of: impl IntoIterator<Item = u64>) -> Vec<(u16, u64)> {
    of.into_iter().map(|line| (1, 64 * (PAGE + line))).collect()
}

fn step(by: usize) -> Vec<u64> {
    (0..PAGE).step_by(by).collect()
}

/// Of a page of 64 lines:
/// - Upwards: line 0 misses; it, and the first use of each line, ask for `degree` more, of which all
///   but one are there. All but line 0 are brought, all of them are used. The next page begins anew.
/// - Downwards: what follows is always there, or beyond the page.
/// - Every second line: with one line ahead each brings the odd one after it, in vain. With two, all
///   but line 0 are brought as above, and the 31 even ones used.
/// - Line 63 alone has no next one, line 62 one.
#[test]
fn next_line() {
    for (degree, loads, expected) in [
        (1, lines(0..PAGE), [1, 63, 63, 0]),
        (4, lines(0..PAGE), [1, 63, 63, 0]),
        (4, lines(0..3 * PAGE), [3, 189, 189, 0]),
        (1, lines((0..PAGE).rev()), [64, 0, 0, 0]),
        (1, lines(step(2)), [32, 32, 0, 32]),
        (2, lines(step(2)), [1, 63, 31, 32]),
        (4, lines([63]), [1, 0, 0, 0]),
        (4, lines([62]), [1, 1, 0, 1]),
        (4, lines([10]), [1, 4, 0, 4]),
    ] {
        for level in [1, 2] {
            let prefetcher = cores::prefetcher(NextLine, level, degree);
            assert_eq!(counts(&prefetcher, &loads), expected, "{level}, {degree}");
        }
    }
}

/// The first line of each pair misses and brings the other, in whatever direction; alone it brings
/// it in vain. The pair of the last line of a page is within the page.
#[test]
fn adjacent_line() {
    for (loads, expected) in [
        (lines(0..PAGE), [32, 32, 32, 0]),
        (lines((0..PAGE).rev()), [32, 32, 32, 0]),
        (lines(step(2)), [32, 32, 0, 32]),
        (lines([63, 64]), [2, 2, 0, 2]),
        (lines([63, 62]), [1, 1, 1, 0]),
    ] {
        for level in [1, 2] {
            let prefetcher = cores::prefetcher(AdjacentLine, level, 1);
            assert_eq!(counts(&prefetcher, &loads), expected, "{level}, {loads:?}");
        }
    }
}

/// Addresses from `first` on, `stride` bytes apart.
fn strided(site: u16, first: u64, stride: i64, count: i64) -> Vec<(u16, u64)> {
    (0..count)
        .map(|i| (site, first.wrapping_add_signed(i * stride)))
        .collect()
}

fn in_turns(one: &[(u16, u64)], other: &[(u16, u64)]) -> Vec<(u16, u64)> {
    let pairs = one.iter().zip(other);
    pairs.flat_map(|(one, other)| [*one, *other]).collect()
}

/// Pages of 4096 bytes. Of `n` accesses of one stride the third is the first to ask; so three miss,
/// and all others were brought, but for those that begin a page: nothing is asked for across.
/// - 32 accesses 128 bytes apart, two ahead as one; over three pages, two more miss. Downwards alike.
/// - 8 bytes apart: line 0 misses, and in line 0 the stride is sure already.
/// - 16 ahead at 8 bytes are 128 bytes: two lines beyond the last access, which is at the start of
///   its line (byte 512 of 520).
/// - A stride that changes must come twice: accesses 0, 1, 2, then 3 further off, 4, 5, 6. Brought are
///   3' (in vain), 6, and the one behind it.
/// - Two sites in turns are as each alone. One site in turns has no stride, nor has a stride of 0.
/// - A page a step: every access is alone in its page.
#[test]
fn stride() {
    let (page, far) = (4096, 16 * 4096);
    let up = strided(1, page, 128, 32);
    let down = strided(2, far + page - 128, -128, 32);
    let one_site = |all: Vec<(u16, u64)>| all.into_iter().map(|(_, addr)| (1, addr)).collect();
    let broken = [0, 2, 4, 12, 14, 16, 18].map(|line| (1, page + 64 * line));
    for (degree, loads, expected) in [
        (1, up.clone(), [3, 29, 29, 0]),
        (2, up.clone(), [3, 29, 29, 0]),
        (2, strided(1, page, 128, 96), [5, 91, 91, 0]),
        (1, down.clone(), [3, 29, 29, 0]),
        (2, strided(1, far + page - 128, -128, 96), [5, 91, 91, 0]),
        (1, strided(1, page, 8, 512), [1, 63, 63, 0]),
        (16, strided(1, page, 8, 65), [1, 10, 8, 2]),
        (1, broken.to_vec(), [6, 3, 1, 2]),
        (1, in_turns(&up, &down), [6, 58, 58, 0]),
        (1, one_site(in_turns(&up, &down)), [64, 0, 0, 0]),
        (1, strided(1, page, 0, 10), [1, 0, 0, 0]),
        (1, strided(1, page, 4096, 10), [10, 0, 0, 0]),
        (1, strided(1, page, 64, 2), [2, 0, 0, 0]),
    ] {
        let prefetcher = cores::prefetcher(Stride, 1, degree);
        assert_eq!(counts(&prefetcher, &loads), expected, "{degree}, {loads:?}");
    }
}

/// L2, every line once, so that all requests miss the L1D and reach it.
/// - In each page the first three miss; the rest is brought and used, up or down.
/// - Five lines: the third brings two, the fourth and fifth, which are used and bring one each.
/// - Every third line: the third request, line 6, asks for four more: 7 to 10. Line 9 is used and asks
///   for what is new of the four beyond: 11 to 13; and so on to the last line, 63. Of 7 to 63, used are
///   the 19 that are multiples of 3. With two ahead none is reached: the requests for lines 6 to 60, 19
///   of them, bring two each, the one for 63 none.
/// - Up and down in turns in one page: no way is gone twice. In two pages: as each alone.
/// - 32 pages in turns are remembered, 33 are not: each is forgotten before its turn.
/// - Loads that hit the L1D are not seen: line 0 in between does not turn the stream.
/// - A stream that turns: 10, 11, 12 ask for 13 and 14 in vain, 12, 9, 8 for 7 and 6.
#[test]
fn streamer() {
    let turns =
        |pages: u64| (0..PAGE).flat_map(move |line| (0..pages).map(move |p| p * PAGE + line));
    let both = |far: u64| (0..PAGE / 2).flat_map(move |i| [i, far + PAGE - 1 - i]);
    for (degree, loads, expected) in [
        (2, lines(0..PAGE), [3, 61, 61, 0]),
        (2, lines(0..2 * PAGE), [6, 122, 122, 0]),
        (2, lines((0..2 * PAGE).rev()), [6, 122, 122, 0]),
        (2, lines(0..5), [3, 4, 2, 2]),
        (2, lines((10..15).rev()), [3, 4, 2, 2]),
        (4, lines(step(3)), [3, 57, 19, 38]),
        (4, lines(step(3).into_iter().rev()), [3, 57, 19, 38]),
        (2, lines(step(3)), [22, 38, 0, 38]),
        (1, lines(both(0)), [64, 0, 0, 0]),
        (1, lines(both(PAGE)), [6, 60, 58, 2]),
        (2, lines(turns(32)), [96, 32 * 61, 32 * 61, 0]),
        (2, lines(turns(33)), [33 * 64, 0, 0, 0]),
        (1, lines([0, 1, 0, 2, 0, 3]), [3, 2, 1, 1]),
        (2, lines([10, 11, 12, 9, 8]), [5, 4, 0, 4]),
        (2, lines([0, 1]), [2, 0, 0, 0]),
    ] {
        let prefetcher = cores::prefetcher(Streamer, 2, degree);
        assert_eq!(counts(&prefetcher, &loads), expected, "{degree}, {loads:?}");
    }
}

/// Loads without order, each in a page of its own: no stride and no stream. A next line is brought
/// unless the page ends, an adjacent one always, and none of them is used.
#[test]
fn random_loads_have_no_stride_and_no_stream() {
    let line = |page: u64| page.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58;
    let loads = lines(
        (0..200)
            .map(|i| i * 37 % 200)
            .map(|page| page * PAGE + line(page)),
    );
    let last = loads
        .iter()
        .filter(|(_, addr)| addr / 64 % PAGE == PAGE - 1);
    let (last, all) = (last.count() as u64, 200);
    for (kind, level, issued) in [
        (NextLine, 1, all - last),
        (AdjacentLine, 2, all),
        (Stride, 1, 0),
        (Streamer, 2, 0),
    ] {
        let prefetcher = cores::prefetcher(kind, level, 1);
        assert_eq!(
            counts(&prefetcher, &loads),
            [all, issued, 0, issued],
            "{kind:?}"
        );
    }
}

const INCLUSIONS: [Inclusion; 3] = [
    Inclusion::Inclusive,
    Inclusion::NonInclusive,
    Inclusion::Exclusive,
];

/// Two cores over a shared L2 that prefetches the next line. Core 0 loads line 64: line 65 comes, but to
/// no core. So when core 1 stores to it, or core 0 loads it, none had it, none gives it up, and nothing
/// is upgraded. The directory once took core 0 for a holder.
///
/// Line 65 in the L1D of core 1, written, is not brought into an exclusive L2, which has it not.
#[test]
fn a_shared_level_prefetches_for_no_core() {
    for inclusion in INCLUSIONS {
        let new = || {
            let tables = vec![machines::l1(64, 8), cores::shared(2, 64, 8, inclusion, 2)];
            let mut machine = cores::machine(tables, Protocol::Mesi, 2, 2);
            machine.prefetchers = vec![cores::prefetcher(NextLine, 2, 1)];
            cores::hierarchy(&machine, 2)
        };
        for (core, kind) in [(0, Kind::Load), (1, Kind::Store)] {
            let mut caches = new();
            cores::touch(&mut caches, 0, 64 * 64, 8, 1, Kind::Load);
            assert!(caches.cache(1).contains(65), "{inclusion:?}");
            assert_eq!(caches.state(0, 65), Some(State::Invalid));
            let served = cores::touch(&mut caches, core, 64 * 65, 8, 1, kind);
            assert_eq!((served.level(), served.transfer()), (1, None));
            assert_eq!(caches.coherence_of(core), CoherenceStats::default());
        }
        let mut caches = new();
        cores::touch(&mut caches, 1, 64 * 65, 8, 1, Kind::Store);
        cores::touch(&mut caches, 0, 64 * 64, 8, 1, Kind::Load);
        assert_eq!(caches.stats()[1].prefetcher.issued, 0, "{inclusion:?}");
        assert_eq!(caches.state(1, 65), Some(State::Modified));
    }
}

const IDENTITY: PageMapOptions = PageMapOptions {
    page_bytes: 4096,
    frames: Frames::Identity,
    host_page_bytes: None,
};

fn model(machine: &Machine) -> Model {
    Model::new(machine, IDENTITY, 0, ModelOptions::default()).expect("it can be modelled")
}

const F: Field = Field {
    id: 1,
    offset_bytes: 0,
};

/// Memory takes 200 cycles, an L1D hit 5. The load of line 0 asks for line 1 at once. A load of line 1
/// a cycle later finds it on its way: late. One whose address depends on line 0 starts as that arrives,
/// and so does line 1, or a cycle later: not late.
#[test]
fn late_is_what_is_on_its_way() {
    for (chained, late) in [(false, 1), (true, 0)] {
        let next = cores::prefetcher(NextLine, 1, 1);
        let mut model = model(&with(wide(), vec![next]));
        let base = Region::Slab.base().0;
        let ready = model.load(0, base, 8, F);
        model.load(if chained { ready } else { 0 }, base + 64, 8, F);
        let stats = model.hierarchy().stats()[0].prefetcher;
        assert_eq!((stats.useful, stats.late), (1, late), "chained: {chained}");
    }
}

/// What a core does.
fn kinds() -> impl Strategy<Value = Kind> {
    prop::sample::select(vec![
        Kind::Load,
        Kind::Load,
        Kind::Store,
        Kind::Prefetch,
        Kind::Walk,
    ])
}

/// Prefetchers of some kinds at levels 1 to `depth`.
fn prefetchers(of: &[PrefetcherKind], depth: u8) -> impl Strategy<Value = Vec<Prefetcher>> + use<> {
    let one = (prop::sample::select(of.to_vec()), 1..=depth, 1u32..5);
    let one = one.prop_map(|(kind, level, lines)| cores::prefetcher(kind, level, lines));
    prop::collection::vec(one, 1..4)
}

/// Two levels of few sets and ways, over which lines near a page border go.
fn shapes() -> impl Strategy<Value = Vec<(u32, u32)>> {
    let sets = prop::sample::select(vec![1u32, 2, 4]);
    prop::collection::vec((sets, 1u32..5), 1..3)
}

const ALL: [PrefetcherKind; 4] = [NextLine, AdjacentLine, Stride, Streamer];

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    /// Step by step the same level serves; in the end the same lines are there, dirty, and waiting;
    /// and the counts are the same.
    #[test]
    fn next_and_adjacent_lines_are_those_of_the_naive_model(
        shapes in shapes(),
        prefetchers in prefetchers(&[NextLine, AdjacentLine], 2),
        stream in prop::collection::vec((52u64..76, kinds()), 1..200),
    ) {
        let table = |(k, (sets, ways)): (usize, &(u32, u32))| {
            cores::shared(k as u8 + 1, *sets, *ways, Inclusion::NonInclusive, 1)
        };
        let tables: Vec<Cache> = shapes.iter().enumerate().map(table).collect();
        let depth = tables.len();
        let prefetchers: Vec<_> =
            prefetchers.into_iter().filter(|p| usize::from(p.level) <= depth).collect();
        let mut naive = Naive {
            levels: shapes.iter().map(|(sets, ways)| Level::new(*sets, *ways)).collect(),
            prefetchers: prefetchers.clone(),
        };
        let mut caches = cores::hierarchy(&with(tables, prefetchers), 1);
        for (step, (line, kind)) in stream.into_iter().enumerate() {
            let served = cores::touch(&mut caches, 0, 64 * line, 8, 1, kind);
            prop_assert_eq!(served.level(), naive.access(line, kind), "step {}", step);
        }
        for (k, level) in naive.levels.iter().enumerate() {
            let entries = || level.sets.iter().flatten();
            let lines: BTreeSet<_> = entries().map(|entry| (entry.line, entry.dirty)).collect();
            prop_assert_eq!(caches.cache(k).contents().collect::<BTreeSet<_>>(), lines);
            let waits = entries().filter(|entry| entry.waits).map(|entry| entry.line);
            prop_assert_eq!(waiting(&caches, 0, k), waits.collect::<BTreeSet<_>>());
            prop_assert_eq!(caches.stats()[k].prefetcher, level.stats, "level {}", k);
        }
    }

    /// Several cores, levels of any inclusion, prefetchers anywhere: every line that was brought was
    /// used, has left or waits; and who has a line by the directory, has it.
    #[test]
    fn every_prefetched_line_is_accounted_for(
        prefetchers in prefetchers(&ALL, 3),
        inclusions in (prop::sample::select(INCLUSIONS.to_vec()), prop::sample::select(INCLUSIONS.to_vec())),
        (cores, sharers) in prop::sample::select(vec![(1usize, 1u32), (2, 1), (2, 2), (4, 2)]),
        protocol in prop::sample::select(vec![Protocol::Mesi, Protocol::Moesi, Protocol::Mesif]),
        stream in prop::collection::vec((0usize..4, 1u16..3, 40u64..88, kinds()), 1..300),
    ) {
        let l2 = cores::shared(2, 4, 3, inclusions.0, sharers);
        let l3 = cores::shared(3, 4, 6, inclusions.1, 4);
        let tables = vec![machines::l1(2, 2), l2, l3];
        let machine = Machine { prefetchers, ..cores::machine(tables, protocol, 4, 4) };
        let mut caches = cores::hierarchy(&machine, cores);
        for (core, site, line, kind) in stream {
            cores::touch(&mut caches, core % cores, 64 * line, 8, site, kind);
        }
        for (k, sharers) in [1, sharers as usize, 4].into_iter().enumerate() {
            let sum = |count: fn(&PrefetchStats) -> u64| {
                (0..cores).map(|core| count(&caches.stats_of(core)[k].prefetcher)).sum::<u64>()
            };
            let here = (0..cores).step_by(sharers).map(|core| waiting(&caches, core, k).len());
            let gone = sum(|stats| stats.useful) + sum(|stats| stats.unused);
            prop_assert_eq!(sum(|stats| stats.issued), gone + here.sum::<usize>() as u64, "level {}", k);
        }
        let private = if sharers == 1 { 2 } else { 1 };
        for (core, line) in (0..cores).flat_map(|core| (0..2 * PAGE).map(move |line| (core, line))) {
            let has = (0..private).any(|k| caches.cache_of(core, k).contains(line));
            if let Some(state) = caches.state(core, line) {
                prop_assert_eq!(state != State::Invalid, has, "core {}, line {}", core, line);
            }
        }
    }

    /// Late ones are among the useful, and time changes nothing else.
    #[test]
    fn late_ones_are_useful(
        prefetchers in prefetchers(&ALL, 2),
        stream in prop::collection::vec((0u64..400, any::<bool>(), any::<bool>()), 1..200),
    ) {
        let tables = vec![machines::l1(2, 2), cores::shared(2, 4, 4, Inclusion::NonInclusive, 1)];
        let mut model = model(&with(tables, prefetchers));
        let mut ready = 0;
        for (word, chained, store) in stream {
            let (at, from) = (Region::Slab.base().0 + 8 * word, if chained { ready } else { 0 });
            match store {
                true => model.store(from, 0, at, 8, F),
                false => ready = model.load(from, at, 8, F),
            }
        }
        for k in 0..2 {
            let stats = model.hierarchy().stats()[k].prefetcher;
            let waits = waiting(model.hierarchy(), 0, k).len() as u64;
            prop_assert!(stats.late <= stats.useful, "{:?}", stats);
            prop_assert_eq!(stats.issued, stats.useful + stats.unused + waits);
        }
    }

    /// Prefetchers that are off are as none.
    #[test]
    fn off_is_as_absent(
        mut prefetchers in prefetchers(&ALL, 2),
        stream in prop::collection::vec((1u16..3, 40u64..88, kinds()), 1..200),
    ) {
        prefetchers.iter_mut().for_each(|prefetcher| prefetcher.on = false);
        let tables = || vec![machines::l1(2, 2), cores::shared(2, 4, 4, Inclusion::Inclusive, 1)];
        let mut absent = cores::hierarchy(&with(tables(), Vec::new()), 1);
        let mut off = cores::hierarchy(&with(tables(), prefetchers), 1);
        for (site, line, kind) in stream {
            let served = [&mut absent, &mut off].map(|h| cores::touch(h, 0, 64 * line, 8, site, kind));
            prop_assert_eq!(served[0], served[1]);
        }
        prop_assert_eq!(absent.stats(), off.stats());
    }
}
