//! Which event counts each metric on one CPU, from what sysfs and CPUID tell: nothing is opened.

use super::events::{self, Candidate, METRICS};
use super::format::Encoding;
use super::perf_line::perf_stat;
use super::plan::{self, Need};
use super::pmu::{self, Pmu};
use super::tables::{self, Event, Microarchitecture, PmuKind};
use crate::machine::cpuid;
use crate::machine::linux::identity;
use crate::machine::sysfs::Tree;

/// The events of one CPU.
#[derive(Clone, Debug)]
pub struct Choice {
    /// Linux's CPU.
    pub cpu: u32,
    /// The PMU that counts it, or why there is none.
    pub pmu: Result<Pmu, String>,
    /// AMD's PMU of the L3, where Linux has it.
    pub l3: Option<Pmu>,
    /// The events of its microarchitecture; `None`: it is in no table.
    pub table: Option<Microarchitecture>,
    /// General counters of one thread: as CPUID tells, else as the table says, else what is common.
    pub general_counters: u32,
    /// One for each of [`METRICS`].
    pub metrics: Vec<Chosen>,
}

/// The event of one metric.
#[derive(Clone, Debug)]
pub struct Chosen {
    /// Ours.
    pub metric: &'static str,
    /// Of the count.
    pub unit: &'static str,
    /// What to open, or why there is nothing.
    pub candidate: Result<Candidate, String>,
}

/// General counters where nothing tells how many there are: those of a thread of Intel's cores
/// before Ice Lake, and fewer than of any other core in the tables.
const COMMON_COUNTERS: u32 = 4;

/// What is in every group that has room, so that ratios to them are of one interval.
pub const BASE: [&str; 2] = ["cycles", "instructions"];

impl Choice {
    /// For `cpu` of `tree`, and whether CPUID says that there is a hypervisor.
    #[must_use]
    pub fn read(tree: &Tree, cpu: u32) -> (Choice, Option<bool>) {
        let cpuid = cpuid::of(tree, cpu).ok();
        let pmu = pmu::core(tree, cpu);
        let table = tables::of(&identity(tree, cpu, cpuid.as_ref()));
        let chosen = |&(metric, unit): &(&'static str, &'static str)| Chosen {
            metric,
            unit,
            candidate: events::candidate(metric, table.as_ref(), pmu.as_ref().ok()),
        };
        let metrics = METRICS.iter().map(chosen).collect();
        let told = cpuid.as_ref().and_then(|c| c.general_counters);
        let general = told.or(table.as_ref().map(|t| t.general_counters));
        let choice = Choice {
            cpu,
            l3: pmu::amd_l3(tree),
            general_counters: general.unwrap_or(COMMON_COUNTERS),
            metrics,
            pmu,
            table,
        };
        (choice, cpuid.map(|c| c.hypervisor.is_some()))
    }

    /// The command of perf that counts all metrics that have an event, grouped for the general
    /// counters.
    #[must_use]
    pub fn perf_stat(&self) -> String {
        let chosen: Vec<(&str, &Candidate)> = (self.metrics.iter())
            .filter_map(|c| Some((c.metric, c.candidate.as_ref().ok()?)))
            .collect();
        let needs: Vec<Need> = chosen.iter().map(|(_, c)| c.need.clone()).collect();
        let base: Vec<usize> = (0..chosen.len())
            .filter(|&i| BASE.contains(&chosen[i].0))
            .collect();
        let plan = plan::groups(&needs, &base, self.general_counters);
        let groups: Vec<Vec<&Candidate>> = (plan.groups.iter())
            .map(|group| group.iter().map(|&i| chosen[i].1).collect())
            .collect();
        // Without a PMU the line is for another machine of the kind, under the usual name.
        let arm = self.table.as_ref().is_some_and(|t| t.implementer.is_some());
        let usual = if arm { "armv8_pmuv3_0" } else { "cpu" };
        let pmu = self.pmu.as_ref().map_or(usual, |pmu| &pmu.name);
        perf_stat(pmu, self.cpu, &groups)
    }

    /// The events of the L3's PMU, and their encodings where there is one: they count what every core
    /// and program asks of it, so runs do not open them.
    #[must_use]
    pub fn of_the_l3(&self) -> Vec<(&Event, Result<Encoding, String>)> {
        let events = self.table.iter().flat_map(|t| &t.event);
        let encoding = |event: &Event| match &self.l3 {
            None => Err("Linux has no PMU amd_l3 here".to_owned()),
            Some(pmu) => pmu.encode(event.fields.iter().map(|(name, value)| (&**name, *value))),
        };
        events
            .filter(|event| event.pmu == PmuKind::AmdL3)
            .map(|event| (event, encoding(event)))
            .collect()
    }
}
