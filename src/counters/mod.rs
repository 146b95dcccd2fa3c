//! Hardware counters of the calling thread, user space only. Each event that cannot be had
//! degrades alone, with a sentence; a count is never a zero that was not counted.
//!
//! `pmu` finds the PMU of the CPU in sysfs, `tables` the events of its microarchitecture, `format`
//! encodes them; `plan` says which are counted together. Each group is counted over its own run of
//! the work, so that nothing is multiplexed but by what else uses the PMU.
//!
//! perf-event2 stands in for perf-event, which has no raw events: without them L2 misses, and
//! anything on Arm, cannot be counted.
//!
//! The metrics do not share a definition across vendors: some count loads, some fills, some with
//! prefetches. The vendor's name of what was counted stands beside each count, its definition in
//! the table.

pub mod choice;
pub mod events;
mod exercise;
pub mod format;
pub mod perf_line;
pub mod plan;
pub mod pmu;
mod reading;
mod refusal;
pub mod tables;
mod together;

use std::path::Path;
use std::time::Duration;

use crate::machine::sysfs::Tree;
use choice::{BASE, Choice, Chosen};
use events::{Candidate, Code};
use exercise::{Exercise, implausible};
use perf_line::perf_stat;
use plan::{Need, Plan, settle};
use pmu::Pmu;
pub use reading::Reading;
pub use refusal::{Surroundings, never_ran, refusal};
use tables::{Microarchitecture, NOT_VERIFIED};
use together::{Together, open_together, over, reading};

/// One metric over one region.
#[derive(Clone, Debug, PartialEq)]
pub struct Counted {
    /// One of [`events::METRICS`].
    pub metric: &'static str,
    /// `cycles`, `instructions`, `misses`, `hits`, `transfers` or `walks`.
    pub unit: &'static str,
    /// The count.
    pub reading: Reading,
    /// The event, as its vendor or Linux calls it; empty where none is known.
    pub event: String,
    /// The group that it was counted in, from 0: metrics of one group are of one interval.
    pub group: Option<usize>,
}

/// One metric: its event, or why it is not counted.
struct Slot {
    metric: &'static str,
    unit: &'static str,
    event: String,
    state: Result<Candidate, String>,
}

/// Counters of the calling thread, open for one CPU.
pub struct Counters {
    cpu: u32,
    pmu: Option<Pmu>,
    table: Option<Microarchitecture>,
    /// General counters that are known of, and those that were found free.
    general: (u32, u32),
    slots: Vec<Slot>,
    groups: Vec<Together>,
    surroundings: Surroundings,
}

impl Counters {
    /// Open what can be opened for the calling thread while it runs on `cpu`, and try each counter
    /// on work that it must notice. Takes some 20 ms where there is a PMU.
    #[must_use]
    pub fn open(cpu: u32) -> Counters {
        let tree = Tree::new(Path::new("/"));
        let (choice, hypervisor) = Choice::read(&tree, cpu);
        let surroundings = Surroundings::read(&tree, cpu, hypervisor);
        let mut counters = Counters::chosen(choice, surroundings);
        counters.probe();
        counters.group();
        counters.drop_those_that_never_count();
        counters
    }

    /// Those of a choice; nothing is opened yet.
    fn chosen(choice: Choice, surroundings: Surroundings) -> Counters {
        let general = choice.general_counters;
        let slot = |chosen: Chosen| Slot {
            metric: chosen.metric,
            unit: chosen.unit,
            event: chosen
                .candidate
                .as_ref()
                .map_or_else(|_| String::new(), |c| c.name.clone()),
            state: chosen.candidate,
        };
        Counters {
            cpu: choice.cpu,
            surroundings,
            pmu: choice.pmu.ok(),
            table: choice.table,
            general: (general, general),
            slots: choice.metrics.into_iter().map(slot).collect(),
            groups: Vec::new(),
        }
    }

    /// Open each event alone, and give up those that are refused even so.
    fn probe(&mut self) {
        for slot in &mut self.slots {
            let Ok(candidate) = &slot.state else { continue };
            let opened = open_together(&[(0, candidate)], self.cpu);
            let why = match (opened, candidate.code) {
                (Ok(_), Code::Unknown) => format!(
                    "{}: /sys tells no PMU, whose fields would encode it; times and clock cycles \
                     still work",
                    slot.event
                ),
                (Ok(_), _) => continue,
                (Err((_, e)), _) => refusal(&e, &slot.event, &self.surroundings),
            };
            slot.state = Err(why);
        }
    }

    /// Group what opens, for as many general counters as are free.
    fn group(&mut self) {
        let slots: Vec<usize> = (0..self.slots.len())
            .filter(|&slot| self.slots[slot].state.is_ok())
            .collect();
        if slots.is_empty() {
            return;
        }
        let candidate = |place: usize| self.slots[slots[place]].state.as_ref().expect("filtered");
        let needs: Vec<Need> = (0..slots.len())
            .map(|i| candidate(i).need.clone())
            .collect();
        let place = |metric| {
            slots
                .iter()
                .position(|&slot| self.slots[slot].metric == metric)
        };
        let base: Vec<usize> = BASE.into_iter().filter_map(place).collect();
        let mut exercise = Exercise::new().ok();
        let mut groups = Vec::new();
        let mut refused = Vec::new();
        let (_, free) = settle(&needs, &base, self.general.0, |plan: &Plan| {
            groups.clear();
            refused.clear();
            for group in &plan.groups {
                let members: Vec<(usize, &Candidate)> =
                    group.iter().map(|&i| (slots[i], candidate(i))).collect();
                match open_together(&members, self.cpu) {
                    Ok(together) => groups.push(together),
                    Err((slot, e)) => refused.push((slot, e)),
                }
            }
            // Linux checks a group against an empty PMU; whether it gets onto this one shows.
            let runs = |together: &mut Together| {
                let Some(exercise) = &mut exercise else {
                    return true;
                };
                let (read, _) = over(together, || exercise.run());
                read.is_err() || read.is_ok_and(|data| data.time_running() != Some(Duration::ZERO))
            };
            refused.is_empty() && groups.iter_mut().all(runs)
        });
        self.groups = groups;
        self.general.1 = free;
        for (slot, e) in refused {
            let slot = &mut self.slots[slot];
            slot.state = Err(refusal(&e, &slot.event, &self.surroundings));
        }
    }

    /// Count over `work`, which is run once for each group: it must be the same each time. Turning
    /// counters on and off adds some hundred instructions.
    pub fn measure(&mut self, mut work: impl FnMut()) -> Vec<Counted> {
        let mut found: Vec<Option<(usize, Reading)>> = vec![None; self.slots.len()];
        if self.groups.is_empty() {
            work();
        }
        for (index, together) in self.groups.iter_mut().enumerate() {
            let (data, ()) = over(together, &mut work);
            for (slot, counter) in &together.members {
                let reading = reading(&data, counter);
                let known = &mut found[*slot];
                // Cycles and instructions are in every group: the first that counted them.
                if !matches!(
                    known,
                    Some((_, Reading::Exact(_) | Reading::Partial { .. }))
                ) {
                    *known = Some((index, reading));
                }
            }
        }
        let counted = |(slot, found): (&Slot, Option<(usize, Reading)>)| {
            let (group, reading) = match (&slot.state, found) {
                (Err(why), _) => (None, Reading::Unavailable(why.clone())),
                (Ok(_), Some((group, reading))) => (Some(group), reading),
                (Ok(_), None) => (
                    None,
                    Reading::Unavailable(
                        "no group of counters has room for it; the other counters and times still \
                         work"
                            .into(),
                    ),
                ),
            };
            Counted {
                metric: slot.metric,
                unit: slot.unit,
                reading,
                event: slot.event.clone(),
                group,
            }
        };
        self.slots.iter().zip(found).map(counted).collect()
    }

    /// Sentences for a run: which event counts each metric or why none does, and the groups.
    #[must_use]
    pub fn summary(&self) -> Vec<String> {
        let mut out: Vec<String> = self.slots.iter().map(|slot| self.sentence(slot)).collect();
        if !self.groups.is_empty() {
            out.push(format!(
                "counters: {}; {}, {NOT_VERIFIED}",
                self.groups_words(),
                match &self.table {
                    Some(table) => format!("events of {}", table.title),
                    None => "Linux's own events, as the processor is in no table".to_owned(),
                }
            ));
        }
        out
    }

    fn sentence(&self, slot: &Slot) -> String {
        match &slot.state {
            Ok(_) => {
                let pmu = self.pmu.as_ref().map_or("no PMU in sysfs", |pmu| &pmu.name);
                let definition = self.table.as_ref().and_then(|t| t.event(slot.metric).ok());
                let definition =
                    definition.map_or(String::new(), |e| format!(": {}", e.definition));
                format!("{}: {} ({pmu}){definition}", slot.metric, slot.event)
            }
            Err(why) => format!("{}: unavailable: {why}", slot.metric),
        }
    }

    /// The groups, and where they are more for want of counters.
    fn groups_words(&self) -> String {
        let members = |together: &Together| {
            let names: Vec<&str> = together
                .members
                .iter()
                .map(|(slot, _)| self.slots[*slot].metric)
                .collect();
            names.join(", ")
        };
        let groups: Vec<String> = self.groups.iter().map(members).collect();
        let (known, free) = self.general;
        let held = match known - free {
            0 => String::new(),
            held => format!(" ({held} of {known} held by others)"),
        };
        let runs = match groups.len() {
            1 => "one group".to_owned(),
            n => format!("{n} groups, each over a run of its own"),
        };
        format!(
            "{free} general counters{held}, {runs}: {}",
            groups.join(" | ")
        )
    }

    /// The command of perf that counts what is counted here; `None` where nothing is.
    #[must_use]
    pub fn perf_stat(&self) -> Option<String> {
        if self.groups.is_empty() {
            return None;
        }
        let pmu = self.pmu.as_ref().map_or("cpu", |pmu| &pmu.name);
        let candidates = |together: &Together| {
            let members = together.members.iter();
            members
                .filter_map(|(slot, _)| self.slots[*slot].state.as_ref().ok())
                .collect()
        };
        let groups: Vec<Vec<&Candidate>> = self.groups.iter().map(candidates).collect();
        Some(perf_stat(pmu, self.cpu, &groups))
    }

    /// Run work that every event must notice, and give up those that did not.
    fn drop_those_that_never_count(&mut self) {
        if self.groups.is_empty() {
            return;
        }
        let Ok(mut exercise) = Exercise::new() else {
            return;
        };
        let mut done = exercise::Done::default();
        let counted = self.measure(|| done = exercise.run());
        for (slot, counted) in self.slots.iter_mut().zip(counted) {
            if slot.state.is_err() {
                continue;
            }
            // Neither a count nor a refusal: the group did not run.
            let stuck = counted.group.is_some() && counted.reading.estimate().is_none();
            let why = match stuck {
                true => Some(never_ran(&slot.event, &self.surroundings)),
                false => implausible(slot.metric, &counted, done),
            };
            if let Some(why) = why {
                slot.state = Err(why);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::format::Encoding;
    use crate::native::affinity;

    /// Linux's own events (linux/perf_event.h, type 1) need no PMU: task clock is 1, page faults are 2.
    fn software(metric: &'static str, config: u64) -> Chosen {
        let encoding = Encoding {
            kind: 1,
            config: [config, 0, 0, 0],
        };
        Chosen {
            metric,
            unit: "u",
            candidate: Ok(Candidate {
                name: metric.to_owned(),
                code: Code::Raw(encoding),
                ..Candidate::default()
            }),
        }
    }

    /// Two events on a PMU of one counter are two groups: the work runs once for each, every metric
    /// names its group, and one that has no event is unavailable with its reason. With two counters
    /// they are one group and one run. A sandbox may refuse; then the work still runs once.
    #[test]
    fn the_work_runs_once_for_each_group() {
        let cpu = affinity::choose(1).unwrap()[0];
        std::thread::spawn(move || {
            let _pinned = affinity::Pinned::to(cpu).unwrap();
            for (general_counters, places) in [(1, [Some(1), Some(0)]), (2, [Some(0), Some(0)])] {
                let mut metrics = vec![software("cycles", 1), software("l2_misses", 2)];
                metrics.push(Chosen {
                    metric: "hitm",
                    unit: "transfers",
                    candidate: Err("none here".to_owned()),
                });
                let choice = Choice {
                    cpu,
                    pmu: Err("no PMU".to_owned()),
                    l3: None,
                    table: None,
                    general_counters,
                    metrics,
                };
                let mut counters = Counters::chosen(choice, Surroundings::default());
                counters.probe();
                counters.group();
                let mut runs = 0;
                let counted = counters.measure(|| runs += 1);
                assert_eq!(
                    counted[2].reading,
                    Reading::Unavailable("none here".to_owned())
                );
                if counters.groups.is_empty() {
                    assert_eq!(runs, 1, "refused: {counted:?}");
                    return;
                }
                assert_eq!(runs, counters.groups.len(), "{general_counters} counters");
                let groups: Vec<Option<usize>> = counted.iter().map(|c| c.group).collect();
                assert_eq!(groups[..2], places, "{general_counters} counters");
                let summary = counters.summary().join("\n");
                assert!(summary.contains(&format!("counters: {general_counters} general")));
                assert!(
                    summary.contains("hitm: unavailable: none here"),
                    "{summary}"
                );
                assert!(summary.contains(NOT_VERIFIED), "{summary}");
                assert!(counters.perf_stat().unwrap().starts_with("perf stat -e "));
            }
        })
        .join()
        .unwrap();
    }
}
