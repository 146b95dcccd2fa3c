//! Several levels together, against a naive hierarchy of lists and by their invariants.

#[path = "common/machines.rs"]
mod machines;

use std::collections::BTreeSet;

use kwalk::machine::{self, Inclusion, Replacement};
use kwalk::model::hierarchy::{Hierarchy, Kind, Tally};
use proptest::prelude::*;

/// A level as lists, one per set, oldest first.
struct NaiveLevel {
    inclusion: Inclusion,
    ways: usize,
    sets: Vec<Vec<(u64, bool)>>,
    evictions: u64,
    writebacks: u64,
    back_invalidations: u64,
}

impl NaiveLevel {
    fn set(&mut self, line: u64) -> &mut Vec<(u64, bool)> {
        let sets = self.sets.len() as u64;
        &mut self.sets[(line % sets) as usize]
    }

    fn take(&mut self, line: u64) -> Option<bool> {
        let set = self.set(line);
        let at = set.iter().position(|(l, _)| *l == line)?;
        Some(set.remove(at).1)
    }

    fn has(&self, line: u64) -> bool {
        let set = &self.sets[(line % self.sets.len() as u64) as usize];
        set.iter().any(|(l, _)| *l == line)
    }
}

/// The rules in the documentation of `hierarchy`, written down without any care for speed.
struct Naive {
    levels: Vec<NaiveLevel>,
    /// Lines whose newest data are not in memory.
    owed: BTreeSet<u64>,
}

impl Naive {
    fn access(&mut self, line: u64, write: bool) -> usize {
        if write {
            self.owed.insert(line);
        }
        let depth = self.levels.len();
        let served = (0..depth).find(|&k| self.levels[k].has(line));
        let served = served.unwrap_or(depth);
        let mut dirty = false;
        if served < depth {
            let was = self.levels[served].take(line).unwrap();
            match self.levels[served].inclusion {
                Inclusion::Exclusive if served > 0 => dirty = was,
                _ => {
                    let mark = served == 0 && write;
                    self.levels[served].set(line).push((line, was || mark));
                }
            }
        }
        for k in (0..served).rev() {
            if self.levels[k].inclusion != Inclusion::Exclusive {
                self.put(k, line, dirty);
                dirty = false;
            }
        }
        if write && served > 0 {
            let entry = self.levels[0].set(line).last_mut().unwrap();
            assert_eq!(entry.0, line);
            entry.1 = true;
        }
        served
    }

    fn put(&mut self, k: usize, line: u64, dirty: bool) {
        if let Some(outer) = self.levels.get_mut(k + 1)
            && outer.inclusion == Inclusion::Exclusive
        {
            outer.take(line);
        }
        let ways = self.levels[k].ways;
        let set = self.levels[k].set(line);
        let gone = (set.len() == ways).then(|| set.remove(0));
        set.push((line, dirty));
        if let Some((line, dirty)) = gone {
            self.leave(k, line, dirty);
        }
    }

    fn leave(&mut self, k: usize, line: u64, mut dirty: bool) {
        self.levels[k].evictions += 1;
        if self.levels[k].inclusion == Inclusion::Inclusive {
            for inner in &mut self.levels[..k] {
                if let Some(inner_dirty) = inner.take(line) {
                    inner.back_invalidations += 1;
                    dirty |= inner_dirty;
                }
            }
        }
        if dirty {
            self.levels[k].writebacks += 1;
        }
        match self.levels.get_mut(k + 1) {
            None => {
                if dirty {
                    self.owed.remove(&line);
                }
            }
            Some(next) if next.has(line) => {
                let entry = next.set(line).iter_mut().find(|(l, _)| *l == line).unwrap();
                entry.1 |= dirty;
            }
            Some(next) if dirty || next.inclusion == Inclusion::Exclusive => {
                self.put(k + 1, line, dirty);
            }
            Some(_) => {}
        }
    }
}

fn inclusion() -> impl Strategy<Value = Inclusion> {
    prop_oneof![
        Just(Inclusion::Inclusive),
        Just(Inclusion::NonInclusive),
        Just(Inclusion::Exclusive)
    ]
}

fn shapes() -> impl Strategy<Value = Vec<machine::Cache>> {
    let outer = prop::collection::vec((1..6_u32, 1..5_u32, inclusion()), 0..4);
    ((1..4_u32, 1..4_u32), outer).prop_map(|((sets, ways), outer)| {
        let first = (sets, ways, Inclusion::NonInclusive);
        let all = [first].into_iter().chain(outer).enumerate();
        all.map(|(i, (sets, ways, inclusion))| {
            machines::cache(i as u8 + 1, sets, ways, Replacement::Lru, inclusion)
        })
        .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Any levels of any inclusion do what the naive hierarchy does: who serves, what is where,
    /// what is dirty, all counts. No dirty data are lost. An inclusive level holds all that is
    /// inside it; an exclusive one nothing that the level inside it holds. Requests are hits plus
    /// misses, and misses are the next level's requests.
    #[test]
    fn agrees_with_lists(
        caches in shapes(),
        accesses in prop::collection::vec((0..32_u64, any::<bool>()), 1..250),
    ) {
        let depth = caches.len();
        let numbers: Vec<u8> = caches.iter().map(|c| c.level).collect();
        let mut hierarchy = Hierarchy::new(&caches, &numbers, 0).unwrap();
        let level = |c: &machine::Cache| NaiveLevel {
            inclusion: c.inclusion,
            ways: c.ways as usize,
            sets: vec![vec![]; c.sets as usize],
            evictions: 0,
            writebacks: 0,
            back_invalidations: 0,
        };
        let mut naive = Naive {
            levels: caches.iter().map(level).collect(),
            owed: BTreeSet::new(),
        };
        let mut served_by = vec![0; depth + 1];
        for &(line, write) in &accesses {
            let kind = if write { Kind::Store } else { Kind::Load };
            let served = hierarchy.access(line, kind);
            prop_assert_eq!(served.level(), naive.access(line, write));
            served_by[served.level()] += 1;
            let contents: Vec<Vec<(u64, bool)>> = (0..depth)
                .map(|k| {
                    let mut lines: Vec<_> = hierarchy.cache(k).contents().collect();
                    lines.sort_unstable();
                    lines
                })
                .collect();
            for k in 0..depth {
                let mut want = naive.levels[k].sets.concat();
                want.sort_unstable();
                prop_assert_eq!(&contents[k], &want, "level {}", k + 1);
                let inner: BTreeSet<u64> = contents[..k].iter().flatten().map(|l| l.0).collect();
                let here: BTreeSet<u64> = contents[k].iter().map(|l| l.0).collect();
                match caches[k].inclusion {
                    Inclusion::Inclusive => prop_assert!(inner.is_subset(&here)),
                    Inclusion::Exclusive => {
                        prop_assert!(contents[k - 1].iter().all(|l| !here.contains(&l.0)));
                    }
                    Inclusion::NonInclusive => {}
                }
            }
            let dirty: BTreeSet<u64> = contents.iter().flatten().filter(|l| l.1).map(|l| l.0).collect();
            prop_assert!(naive.owed.is_subset(&dirty), "owed {:?}, dirty {:?}", naive.owed, dirty);
        }
        let stats = hierarchy.stats();
        let mut requests = accesses.len() as u64;
        for k in 0..depth {
            let have = &stats[k];
            let want = &naive.levels[k];
            prop_assert_eq!(have.evictions, want.evictions);
            prop_assert_eq!(have.writebacks, want.writebacks);
            prop_assert_eq!(have.back_invalidations, want.back_invalidations);
            prop_assert_eq!(have.prefetches, Tally::default());
            let tallies = [have.loads, have.stores];
            prop_assert!(tallies.iter().all(|t| t.hits + t.misses == t.requests));
            prop_assert_eq!(tallies.iter().map(|t| t.requests).sum::<u64>(), requests);
            prop_assert_eq!(tallies.iter().map(|t| t.hits).sum::<u64>(), served_by[k]);
            prop_assert_eq!(have.causes.iter().sum::<u64>(), have.demand_misses());
            requests = have.demand_misses();
        }
        prop_assert_eq!(requests, served_by[depth]);
    }
}

/// L1 of 1 x 2, inclusive L2 of 1 x 2 under LRU: A B A A C. The hits of A stay in the L1, so in the
/// L2 A is oldest: C evicts it there and, by inclusion, in the L1, though it is the youngest there.
/// So A misses again. Non-inclusive, it hits.
#[test]
fn inclusion_victims() {
    for (inclusion, served, back_invalidations) in [
        (Inclusion::Inclusive, 2, 1),
        (Inclusion::NonInclusive, 0, 0),
    ] {
        let l2 = machines::cache(2, 1, 2, Replacement::Lru, inclusion);
        let mut h = Hierarchy::new(&[machines::l1(1, 2), l2], &[], 0).unwrap();
        for line in [1, 2, 1, 1, 3] {
            h.access(line, Kind::Load);
        }
        assert_eq!(h.stats()[0].back_invalidations, back_invalidations);
        assert_eq!(h.access(1, Kind::Load).level(), served, "{inclusion:?}");
    }
}

/// An exclusive L2 adds its lines to those of the L1: a cyclic sweep over as many lines as both
/// have never leaves them, where an inclusive L2 of the same size misses all of them.
#[test]
fn exclusive_levels_add_up() {
    for (inclusion, misses) in [(Inclusion::Exclusive, 0), (Inclusion::Inclusive, 6)] {
        let l2 = machines::cache(2, 1, 4, Replacement::Lru, inclusion);
        let mut h = Hierarchy::new(&[machines::l1(1, 2), l2], &[], 0).unwrap();
        let mut sweep = || {
            (0..6)
                .filter(|l| h.access(*l, Kind::Load).level() == 2)
                .count()
        };
        assert_eq!(sweep(), 6, "cold");
        assert_eq!(sweep(), misses, "{inclusion:?}");
    }
}

/// 64 sets of 8: nine lines that share a set all miss under LRU though 512 lines have room:
/// conflicts. 513 consecutive lines overflow one set by one, so its nine miss; a fully associative
/// cache misses all: capacity. After a flush all is compulsory again.
#[test]
fn causes_of_textbook_sweeps() {
    let sweep = |lines: u64, stride: u64| {
        let mut h = Hierarchy::new(&[machines::l1(64, 8)], &[1], 0).unwrap();
        let mut causes = Vec::new();
        for round in 0..3 {
            if round == 2 {
                h.flush();
            }
            let before = h.stats()[0];
            (0..lines).for_each(|i| {
                h.access(i * stride, Kind::Load);
            });
            causes.push(h.stats()[0].since(&before).causes);
        }
        causes
    };
    assert_eq!(sweep(9, 64), [[9, 0, 0], [0, 0, 9], [9, 0, 0]]);
    assert_eq!(sweep(513, 1), [[513, 0, 0], [0, 9, 0], [513, 0, 0]]);
    assert_eq!(sweep(8, 64), [[8, 0, 0], [0, 0, 0], [8, 0, 0]]);
}

/// Prefetches have a tally of their own and are no demand misses.
#[test]
fn prefetches_are_counted_apart() {
    let mut h = Hierarchy::new(&[machines::l1(1, 2)], &[1], 0).unwrap();
    h.access(7, Kind::Prefetch);
    assert_eq!(h.access(7, Kind::Load).level(), 0);
    let stats = h.stats()[0];
    assert_eq!((stats.prefetches.misses, stats.loads.hits), (1, 1));
    assert_eq!((stats.demand_misses(), stats.causes), (0, [0; 3]));
}

#[test]
fn what_cannot_be_modelled_says_what_could() {
    let l1 = machines::l1(64, 8);
    let l2 = machines::cache(2, 64, 8, Replacement::Lru, Inclusion::Inclusive);
    let wide = machine::Cache {
        line_bytes: 128,
        ..l2.clone()
    };
    let victim = machine::Cache {
        inclusion: Inclusion::Exclusive,
        ..l1.clone()
    };
    for (caches, classify, part) in [
        (vec![], vec![], "one to four tables"),
        (vec![l2.clone(), l1.clone()], vec![], "their levels rising"),
        (
            vec![l1.clone(), wide],
            vec![],
            "64, as in the innermost level",
        ),
        (
            vec![victim, l2.clone()],
            vec![],
            "there is no level inside it",
        ),
        (vec![l1, l2], vec![3], "levels that the machine has"),
    ] {
        let message = Hierarchy::new(&caches, &classify, 0)
            .unwrap_err()
            .to_string();
        assert!(message.contains(part), "{message}");
    }
}
