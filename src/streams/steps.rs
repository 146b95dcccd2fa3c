//! One round of recorded accesses, ready to run on a model: read-modify-writes joined, CPUs numbered
//! as cores, names numbered as the model books them.

use std::collections::BTreeMap;

use super::label::{Labels, Owner};
use super::{Event, Stream};
use crate::model::attribution::{FIELDS, FUNCTIONS};

/// What an access does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Deed {
    /// Reads.
    Load,
    /// Writes.
    Store,
    /// Reads and writes the same bytes by one instruction.
    Modify,
}

impl Deed {
    /// As CSV files spell it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Deed::Load => "load",
            Deed::Store => "store",
            Deed::Modify => "modify",
        }
    }
}

/// Whose instruction an access is of.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Site {
    /// Core of the model.
    pub core: u16,
    /// The third column: 1 in a stream of PSI is inside it.
    pub path: u8,
    /// Function.
    pub function: String,
}

/// What an access does to whose bytes. `owner.object` is empty: objects of a struct are one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Target {
    /// Whose bytes.
    pub owner: Owner,
    /// What it does.
    pub deed: Deed,
}

/// One access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Core of the model.
    pub core: u16,
    /// Index in [`Names::sites`].
    pub site: u16,
    /// Index in [`Names::targets`].
    pub target: u16,
    /// What it does.
    pub deed: Deed,
    /// Whether it lies inside a recorded path.
    pub inside: bool,
    /// Width.
    pub bytes: u32,
    /// Physical address.
    pub paddr: u64,
}

/// Numbers of sites and targets.
///
/// The model books under [`FUNCTIONS`] and [`FIELDS`] numbers; the last of each stands for all that
/// come after, so that totals still add up.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// By number.
    pub sites: Vec<Site>,
    /// By number.
    pub targets: Vec<Target>,
    site_numbers: BTreeMap<Site, u16>,
    target_numbers: BTreeMap<Target, u16>,
}

/// Stands for functions and fields beyond those that can be told apart.
pub const OTHERS: &str = "(others)";

impl Names {
    fn site(&mut self, site: Site) -> u16 {
        if let Some(number) = self.site_numbers.get(&site) {
            return *number;
        }
        let others = Site {
            function: OTHERS.into(),
            ..site
        };
        // A core and a path each keep one place.
        let full = self.sites.len() >= usize::from(FUNCTIONS) - 256;
        let site = if full { others } else { site };
        number_of(site, &mut self.sites, &mut self.site_numbers, FUNCTIONS)
    }

    fn target(&mut self, target: Target) -> u16 {
        if let Some(number) = self.target_numbers.get(&target) {
            return *number;
        }
        let others = Owner {
            structure: OTHERS.into(),
            object: String::new(),
            field: String::new(),
            offset_bytes: 0,
        };
        let full = self.targets.len() >= usize::from(FIELDS) - 3;
        let owner = if full { others } else { target.owner };
        let target = Target { owner, ..target };
        number_of(target, &mut self.targets, &mut self.target_numbers, FIELDS)
    }
}

fn number_of<T: Ord + Clone>(
    name: T,
    all: &mut Vec<T>,
    numbers: &mut BTreeMap<T, u16>,
    most: u16,
) -> u16 {
    if let Some(number) = numbers.get(&name) {
        return *number;
    }
    if all.len() >= usize::from(most) {
        return most - 1;
    }
    let number = all.len() as u16;
    all.push(name.clone());
    numbers.insert(name, number);
    number
}

/// Which accesses run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// Of this CPU only.
    pub cpu: Option<u32>,
    /// Only those inside PSI, to `psi_group`, `psi_group_cpu` and `cgroup`.
    pub psi_lines: bool,
}

/// Functions whose calls are walks over the groups.
pub const WALKS: [&str; 2] = ["psi_task_change", "psi_task_switch"];
/// A visit of one group.
pub const VISIT: &str = "psi_group_change";
/// Structs of PSI whose lines grow in number with the depth.
pub const PSI_STRUCTURES: [&str; 3] = ["psi_group", "psi_group_cpu", "cgroup"];

/// One round: all streams, their accesses in the order in which they run.
#[derive(Clone, Debug, Default)]
pub struct Round {
    /// In order.
    pub steps: Vec<Step>,
    /// Names of the numbers in them.
    pub names: Names,
    /// Linux's CPU of each core, and the stream (from 0 on) that it is in.
    pub cores: Vec<(usize, u32)>,
    /// Calls of [`WALKS`] inside PSI.
    pub walks: u64,
    /// Calls of [`VISIT`] inside PSI.
    pub visits: u64,
}

impl Round {
    /// The accesses of `streams` that are chosen: each CPU of each is a core. Those of one stream run
    /// as recorded; several streams take turns, access by access, until each has ended.
    #[must_use]
    pub fn of(streams: &[Stream], choice: Choice) -> Round {
        let mut round = Round::default();
        let mut queues = Vec::new();
        for (number, stream) in streams.iter().enumerate() {
            queues.push(round.add(number, stream, choice));
        }
        let longest = queues.iter().map(Vec::len).max().unwrap_or(0);
        for i in 0..longest {
            round.steps.extend(queues.iter().filter_map(|q| q.get(i)));
        }
        round
    }

    /// The steps of `stream`, whose CPUs get the next cores.
    fn add(&mut self, number: usize, stream: &Stream, choice: Choice) -> Vec<Step> {
        let labels = Labels::of(stream);
        let chosen = |cpu: u32| choice.cpu.is_none_or(|only| only == cpu);
        let first = self.cores.len();
        let cpus = stream.cpus().into_iter().filter(|cpu| chosen(*cpu));
        self.cores.extend(cpus.map(|cpu| (number, cpu)));
        let core_of: BTreeMap<u32, u16> = (first..)
            .zip(&self.cores[first..])
            .map(|(core, (_, cpu))| (*cpu, core as u16))
            .collect();
        let mut steps: Vec<Step> = Vec::new();
        // By core, its last read: where its step is, its instruction and its address.
        let mut reads: BTreeMap<u16, (usize, &str, u64, u32)> = BTreeMap::new();
        for event in stream.events.iter().filter(|e| chosen(e.cpu())) {
            let access = match event {
                Event::Call { psi, name, .. } => {
                    self.walks += u64::from(*psi && WALKS.contains(&name.as_str()));
                    self.visits += u64::from(*psi && name == VISIT);
                    continue;
                }
                Event::Access(access) => access,
            };
            let core = core_of[&access.cpu];
            let read = reads.remove(&core);
            let mut owner = labels.owner(access);
            if choice.psi_lines
                && !(access.psi && PSI_STRUCTURES.contains(&owner.structure.as_str()))
            {
                continue;
            }
            owner.object.clear();
            if let Some((at, pc, vaddr, bytes)) = read
                && access.write
                && (pc, vaddr, bytes) == (&access.pc, access.vaddr, access.bytes)
            {
                let deed = Deed::Modify;
                steps[at].deed = deed;
                steps[at].target = self.names.target(Target { owner, deed });
                continue;
            }
            let deed = if access.write {
                Deed::Store
            } else {
                Deed::Load
            };
            if !access.write {
                let read = (steps.len(), access.pc.as_str(), access.vaddr, access.bytes);
                reads.insert(core, read);
            }
            let site = Site {
                core,
                path: access.path,
                function: access.function().to_string(),
            };
            steps.push(Step {
                core,
                site: self.names.site(site),
                target: self.names.target(Target { owner, deed }),
                deed,
                inside: access.path > 0,
                bytes: access.bytes,
                paddr: access.paddr,
            });
        }
        steps
    }
}
