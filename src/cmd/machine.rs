//! `kwalk machine`: a machine and where each of its numbers comes from.

use std::fmt::Write as _;
use std::io::{self, ErrorKind, Write as _};
use std::path::Path;

use crate::calibrate::calibrate;
use crate::counters::Counters;
use crate::counters::choice::Choice;
use crate::machine::catalogue;
use crate::machine::host::{self, HostMachine};
use crate::machine::sysfs::Tree;
use crate::record::notes::folded;

mod counting;
mod listing;
mod names;

use counting::Events;
use listing::Listing;

/// Show this host, or a machine of the catalogue: every number with its source.
#[derive(clap::Args, Debug)]
pub struct MachineArgs {
    /// Catalogue name, or a file (a name with '/' or that ends in .toml); default: this host
    name: Option<String>,
    /// List the names of the catalogue
    #[arg(long, conflicts_with_all = ["name", "toml", "json", "cpu"])]
    list: bool,
    /// Print a machine file, as --machine takes it
    #[arg(long, conflicts_with = "json")]
    toml: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// CPU of this host to show; default: the first that this process may run on
    #[arg(long, value_name = "N", conflicts_with = "name")]
    cpu: Option<u32>,
}

/// Prints what `args` ask for to stdout. The host is measured for about a second, which its
/// listing, and its machine file, then hold.
pub fn machine(args: &MachineArgs) -> anyhow::Result<()> {
    if args.list {
        return print(&list()?);
    }
    let listing = match &args.name {
        Some(name) => Listing {
            machine: catalogue::find(name)?,
            facts: Vec::new(),
            disagreements: Vec::new(),
            notes: Vec::new(),
            counting: None,
        },
        None => {
            let cpu = args.cpu.unwrap_or_else(first_allowed);
            let mut host = host_machine(cpu)?;
            host.notes.extend(folded(&Counters::open(cpu).summary()));
            Listing {
                machine: host.machine,
                facts: host.facts,
                disagreements: host.disagreements,
                notes: host.notes,
                counting: Some(Events::of(&Choice::read(&Tree::new(Path::new("/")), cpu).0)),
            }
        }
    };
    let text = match (args.toml, args.json) {
        (true, _) => listing.file()?,
        (_, true) => serde_json::to_string_pretty(&listing)? + "\n",
        _ => listing.words(),
    };
    print(&text)
}

/// This host as a machine, as seen from `cpu`, with what could be measured in place of what is told
/// or guessed.
pub fn host_machine(cpu: u32) -> anyhow::Result<HostMachine> {
    let mut host = host::read(Path::new("/"), cpu)?;
    host.apply(&calibrate(cpu, &host.machine.caches, false));
    Ok(host)
}

/// The first CPU of this process's set; 0 where the set cannot be read.
pub(super) fn first_allowed() -> u32 {
    use rustix::thread::{CpuSet, sched_getaffinity};
    let set = sched_getaffinity(None).unwrap_or_default();
    (0..CpuSet::MAX_CPU)
        .find(|&cpu| set.is_set(cpu))
        .map_or(0, |cpu| cpu as u32)
}

/// Writes to stdout; a reader that has seen enough is no error.
fn print(text: &str) -> anyhow::Result<()> {
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(e) if e.kind() != ErrorKind::BrokenPipe => Err(e.into()),
        _ => Ok(()),
    }
}

/// The names of the catalogue with their titles.
fn list() -> anyhow::Result<String> {
    let mut text = String::new();
    for name in catalogue::names() {
        writeln!(text, "{name:<18}{}", catalogue::find(name)?.title)?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_has_every_name_on_its_line() {
        let text = list().unwrap();
        assert_eq!(text.lines().count(), catalogue::names().count());
        for (line, name) in text.lines().zip(catalogue::names()) {
            assert!(line.starts_with(name), "{line}");
            assert!(line.chars().count() <= 80, "wider than a terminal: {line}");
        }
    }
}
