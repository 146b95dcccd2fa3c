//! Which events are counted together. A group gets onto the PMU as a whole or not at all, so what
//! is to be divided by cycles or instructions must be in one group with them.

/// What an event needs of the PMU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Need {
    /// It has a counter of its own.
    pub fixed: bool,
    /// General counters that can count it, from the first; `None`: all.
    pub counters: Option<u32>,
    /// A group holds one event of each word here.
    pub exclusive: Option<String>,
}

/// Groups of events, by their places in the list that was planned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Each is counted by itself, over its own run of the work.
    pub groups: Vec<Vec<usize>>,
    /// Events that no group can hold, not even alone.
    pub impossible: Vec<usize>,
}

impl Plan {
    /// The groups as words: `cycles, instructions, l1d_misses | cycles, …`.
    #[must_use]
    pub fn words(&self, names: &[&str]) -> String {
        let group = |group: &Vec<usize>| {
            let names: Vec<&str> = group.iter().map(|&i| names[i]).collect();
            names.join(", ")
        };
        let groups: Vec<String> = self.groups.iter().map(group).collect();
        groups.join(" | ")
    }
}

/// Groups for `needs` on a PMU with `general` counters. Each of `base` (cycles, then instructions) is
/// in every group that has room for it beside the event for which the group was opened; all others
/// are in one group, the first that they fit.
#[must_use]
pub fn groups(needs: &[Need], base: &[usize], general: u32) -> Plan {
    let fits = |group: &[usize]| fits(group.iter().map(|&i| &needs[i]), general);
    let mut plan = Plan::default();
    for event in 0..needs.len() {
        if base.contains(&event) {
            continue;
        }
        let with = |group: &[usize]| [group, &[event]].concat();
        if let Some(group) = plan.groups.iter_mut().find(|group| fits(&with(group))) {
            group.push(event);
            continue;
        }
        let new = (0..=base.len()).rev().map(|kept| with(&base[..kept]));
        match new.into_iter().find(|group| fits(group)) {
            Some(group) => plan.groups.push(group),
            None => plan.impossible.push(event),
        }
    }
    // Those of the base that found no place beside another.
    for &event in base {
        if plan.groups.iter().any(|group| group.contains(&event)) {
            continue;
        }
        let with = |group: &[usize]| [group, &[event]].concat();
        match plan.groups.iter_mut().find(|group| fits(&with(group))) {
            Some(group) => group.push(event),
            None if fits(&[event]) => plan.groups.push(vec![event]),
            None => plan.impossible.push(event),
        }
    }
    plan
}

/// Plan for `known` general counters, and for one less as long as `works` says that the PMU did not
/// take all groups: others may hold counters (the NMI watchdog, a profiler, the hypervisor). The
/// plan, and the number that it is for.
pub fn settle(
    needs: &[Need],
    base: &[usize],
    known: u32,
    mut works: impl FnMut(&Plan) -> bool,
) -> (Plan, u32) {
    let mut general = known.max(1);
    loop {
        let plan = groups(needs, base, general);
        if works(&plan) || general == 1 {
            return (plan, general);
        }
        general -= 1;
    }
}

/// Whether `events` can be on the PMU together: no two of one exclusive word, and a counter for each
/// that has none of its own. The counters that an event can use are the first few, so the choosiest
/// takes first.
fn fits<'a>(events: impl Iterator<Item = &'a Need>, general: u32) -> bool {
    let events: Vec<&Need> = events.collect();
    for (i, event) in events.iter().enumerate() {
        let same = |other: &&Need| event.exclusive.is_some() && other.exclusive == event.exclusive;
        if events[..i].iter().any(same) {
            return false;
        }
    }
    let mut usable: Vec<u32> = events
        .iter()
        .filter(|event| !event.fixed)
        .map(|event| event.counters.unwrap_or(general).min(general))
        .collect();
    usable.sort_unstable();
    // The n-th choosiest needs n counters among those that it can use (Hall's condition).
    usable
        .iter()
        .zip(1u32..)
        .all(|(&usable, nth)| usable >= nth)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fixed() -> Need {
        Need {
            fixed: true,
            ..Need::default()
        }
    }

    fn first(counters: u32) -> Need {
        Need {
            counters: Some(counters),
            ..Need::default()
        }
    }

    fn any() -> Need {
        Need::default()
    }

    fn only_one(word: &str) -> Need {
        Need {
            exclusive: Some(word.to_owned()),
            ..Need::default()
        }
    }

    fn plan(needs: &[Need], general: u32) -> Vec<Vec<usize>> {
        let plan = groups(needs, &[0, 1], general);
        assert_eq!(plan.impossible, [0; 0]);
        plan.groups
    }

    /// Events 0 and 1 are cycles and instructions.
    ///
    /// - Skylake with hyper-threading: both fixed, 4 general: 9 others are 4 + 4 + 1, each group with
    ///   both.
    /// - Zen: none fixed, 6 general: 2 of 6 go to both, so 8 others are 4 + 4.
    /// - Neoverse N1: cycles fixed, 6 general: instructions take 1 of 6, so 6 others are 5 + 1.
    /// - 2 general, none fixed: cycles and one event; instructions find no room and are alone.
    /// - 1 general: one event each.
    #[test]
    fn groups_keep_cycles_and_instructions() {
        let skylake: Vec<Need> = [vec![fixed(), fixed()], vec![any(); 9]].concat();
        assert_eq!(
            plan(&skylake, 4),
            [
                vec![0, 1, 2, 3, 4, 5],
                vec![0, 1, 6, 7, 8, 9],
                vec![0, 1, 10]
            ]
        );
        assert_eq!(
            plan(&vec![any(); 10], 6),
            [vec![0, 1, 2, 3, 4, 5], vec![0, 1, 6, 7, 8, 9]]
        );
        let n1: Vec<Need> = [vec![fixed()], vec![any(); 7]].concat();
        assert_eq!(plan(&n1, 6), [vec![0, 1, 2, 3, 4, 5, 6], vec![0, 1, 7]]);
        assert_eq!(plan(&vec![any(); 4], 2), [vec![0, 2], vec![0, 3], vec![1]]);
        assert_eq!(plan(&vec![any(); 3], 1), [vec![2], vec![0], vec![1]]);
        assert_eq!(plan(&[any(), any()], 6), [vec![0, 1]], "the base alone");
        assert_eq!(groups(&[], &[], 6), Plan::default());
    }

    /// Golden Cove: 8 general counters, of which loads can use the first 4. Five loads and two others:
    /// the fifth load opens a group, the others find room among the other four counters, whatever
    /// the order in which they come.
    #[test]
    fn events_that_few_counters_can_count_leave_the_others_theirs() {
        let loads_first = [vec![fixed(), fixed()], vec![first(4); 5], vec![any(); 2]].concat();
        assert_eq!(
            plan(&loads_first, 8),
            [vec![0, 1, 2, 3, 4, 5, 7, 8], vec![0, 1, 6]]
        );
        let loads_last = [vec![fixed(), fixed()], vec![any(); 5], vec![first(4); 4]].concat();
        // 5 + 4 are 9 on 8 counters: one load does not fit, though a counter among the 4 is meant.
        assert_eq!(
            plan(&loads_last, 8),
            [vec![0, 1, 2, 3, 4, 5, 6, 7, 8, 9], vec![0, 1, 10]]
        );
        // An event for the first counter only, twice.
        assert_eq!(
            plan(&[fixed(), fixed(), first(1), first(1)], 8),
            [vec![0, 1, 2], vec![0, 1, 3]]
        );
    }

    /// Two events that share a register are in two groups, and a third event joins the first.
    #[test]
    fn events_that_share_a_register_are_apart() {
        let needs = [
            fixed(),
            fixed(),
            only_one("msr"),
            only_one("msr"),
            only_one("other"),
            any(),
        ];
        assert_eq!(plan(&needs, 4), [vec![0, 1, 2, 4, 5], vec![0, 1, 3]]);
    }

    /// No counter at all: what has none of its own is impossible, and that is told.
    #[test]
    fn what_never_fits_is_told() {
        let plan = groups(&[fixed(), any(), any()], &[0, 1], 0);
        assert_eq!(plan.groups, [vec![0]]);
        assert_eq!(plan.impossible, [2, 1]);
    }

    /// A PMU that gives 3 of its 4 counters takes no group of 4: the plan for 3 is found, and each
    /// group has at most 3. One that never works ends at 1 counter, and so does one with none.
    #[test]
    fn a_counter_that_others_hold_is_found_missing() {
        let needs = [vec![fixed(), fixed()], vec![any(); 4]].concat();
        let on_pmu = |plan: &Plan, free: usize| {
            let general = |group: &Vec<usize>| group.iter().filter(|&&i| !needs[i].fixed).count();
            plan.groups.iter().all(|group| general(group) <= free)
        };
        let (plan, general) = settle(&needs, &[0, 1], 4, |plan| on_pmu(plan, 3));
        assert_eq!(general, 3);
        assert_eq!(plan.groups, [vec![0, 1, 2, 3, 4], vec![0, 1, 5]]);
        let mut asked = 0;
        let (_, general) = settle(&needs, &[0, 1], 4, |_| {
            asked += 1;
            false
        });
        assert_eq!((general, asked), (1, 4));
        assert_eq!(settle(&needs, &[0, 1], 0, |_| true).1, 1);
    }

    #[test]
    fn a_plan_is_shown() {
        let plan = groups(&[fixed(), any(), any()], &[0], 1);
        assert_eq!(plan.words(&["cycles", "a", "b"]), "cycles, a | cycles, b");
    }
}
