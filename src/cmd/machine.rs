//! `kwalk machine`: a machine and where each of its numbers comes from.

use std::fmt::Write as _;
use std::io::{self, ErrorKind, Write as _};
use std::path::Path;

use serde::Serialize;

use crate::calibrate::calibrate;
use crate::counters::Counters;
use crate::machine::host::{self, Fact, HostMachine, size_words};
use crate::machine::{Machine, catalogue};
use crate::record::notes::folded;
use crate::wrap::wrap;

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

/// A machine with what is known beside it; a catalogue machine has only notes of its own.
#[derive(Serialize)]
struct Listing {
    machine: Machine,
    facts: Vec<Fact>,
    disagreements: Vec<String>,
    notes: Vec<String>,
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
            }
        }
    };
    let text = match (args.toml, args.json) {
        (true, _) => machine_file(&listing)?,
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

/// A machine file; what was noted of the host goes before it as comments.
fn machine_file(listing: &Listing) -> anyhow::Result<String> {
    let mut text = String::new();
    for sentence in listing.disagreements.iter().chain(&listing.notes) {
        text += &wrap(
            &sentence.replace(char::is_control, " "),
            COLUMNS,
            "# ",
            "# ",
        );
    }
    Ok(text + &toml::to_string(&listing.machine)?)
}

/// Columns that a line may have.
const COLUMNS: usize = 96;

impl Listing {
    /// Tables, then sources, then what the host told.
    fn words(&self) -> String {
        let mut text = String::new();
        let m = &self.machine;
        let ns = |cycles: f64| cycles * 1e9 / m.core.clock_hz as f64;
        text += &wrap(&format!("{}: {}", m.name, m.title), COLUMNS, "", "  ");
        text.push('\n');
        self.core(&mut text);

        text += &format!(
            "\n{:<7}{:<10}{:<21}{:>4}  {:<18}{:>7}{:>8}  {}\n",
            "cache", "size", "sets x ways x slices", "line", "policy", "cycles", "ns", "confidence"
        );
        for c in &m.caches {
            let shape = match c.slices {
                1 => format!("{} x {}", c.sets, c.ways),
                slices => format!("{} x {} x {slices}", c.sets, c.ways),
            };
            text += &format!(
                "{:<7}{:<10}{shape:<21}{:>4}  {:<18}{:>7.1}{:>8.1}  {}\n",
                level_name(c.level),
                size_words(c.size_bytes()),
                c.line_bytes,
                c.replacement.to_string(),
                c.latency_cycles,
                ns(c.latency_cycles),
                c.confidence.word()
            );
        }
        text += &format!(
            "{:<7}{:<10}{:<21}{:>4}  {:<18}{:>7.1}{:>8.1}  {}\n",
            "memory",
            "",
            "",
            "",
            "",
            m.memory.latency_cycles,
            ns(m.memory.latency_cycles),
            m.memory.confidence.word()
        );
        self.tlbs(&mut text);
        self.sources(&mut text);
        self.told(&mut text);
        text
    }

    fn core(&self, text: &mut String) {
        let c = &self.machine.core;
        let tsc = match c.tsc_hz {
            Some(hz) => format!("{} GHz", hz as f64 / 1e9),
            None => "unknown".to_owned(),
        };
        let rows = [
            format!(
                "{}, clock {} GHz, TSC {tsc}",
                self.machine.arch,
                c.clock_hz as f64 / 1e9
            ),
            format!(
                "window {}, {} instructions per cycle, {} loads, {} stores, {} of both; store buffer {}",
                c.window,
                c.issue_width,
                c.load_ports,
                c.store_ports,
                c.memory_ports,
                c.store_buffer
            ),
            format!(
                "store forwarding {}, locked access +{}, mispredict {} cycles; {}",
                c.forward_cycles,
                c.locked_cycles,
                c.mispredict_cycles,
                c.confidence.word()
            ),
        ];
        for (i, row) in rows.iter().enumerate() {
            let name = if i == 0 { "core" } else { "" };
            *text += &format!("{name:<7}{row}\n");
        }
    }

    fn tlbs(&self, text: &mut String) {
        *text += &format!(
            "\n{:<7}{:<16}{:>8}  {:<13}{:>12}  {}\n",
            "TLB", "pages", "entries", "sets x ways", "adds cycles", "confidence"
        );
        for t in &self.machine.tlbs {
            let pages: Vec<String> = t.page_bytes.iter().map(|&p| size_words(p)).collect();
            *text += &format!(
                "{:<7}{:<16}{:>8}  {:<13}{:>12}  {}\n",
                t.level,
                pages.join(", "),
                u64::from(t.sets) * u64::from(t.ways),
                format!("{} x {}", t.sets, t.ways),
                t.latency_cycles,
                t.confidence.word()
            );
        }
        let memory = &self.machine.memory;
        *text += &format!(
            "{:<7}{:<16}{:>8}  {:<13}{:>12}  {}\n",
            "walk",
            "",
            "",
            "",
            memory.page_walk_cycles,
            memory.confidence.word()
        );
    }

    fn sources(&self, text: &mut String) {
        let m = &self.machine;
        *text += "\nsources\n";
        let mut row = |name: &str, words: &str| {
            *text += &wrap(words, COLUMNS, &format!("{name:<9}"), &" ".repeat(9));
        };
        row("core", &m.core.source);
        for c in &m.caches {
            let hash = if c.slice_hash.is_empty() {
                ""
            } else {
                ", hashed"
            };
            row(
                level_name(c.level),
                &format!(
                    "{}{hash}, {} misses in flight, shared by {} core{}. {}",
                    inclusion_word(c.inclusion),
                    c.outstanding_misses,
                    c.shared_by_cores,
                    if c.shared_by_cores == 1 { "" } else { "s" },
                    c.source
                ),
            );
        }
        for t in &m.tlbs {
            row(&format!("TLB {}", t.level), &t.source);
        }
        row("memory", &m.memory.source);
    }

    /// What the host told, where it differs, and what is to be known.
    fn told(&self, text: &mut String) {
        if !self.facts.is_empty() {
            *text += "\nfacts, as this host tells them\n";
        }
        for f in &self.facts {
            // A unit belongs to a number, not to "absent" or "unknown".
            let unit = match f.value.starts_with(|c: char| c.is_ascii_digit()) {
                true => format!(" {}", f.unit),
                false => String::new(),
            };
            *text += &wrap(
                &format!("{}{unit} [{}]", f.value, f.source),
                COLUMNS,
                &format!("{:<27} ", f.what),
                &" ".repeat(28),
            );
        }
        for (title, list) in [
            ("disagreements", &self.disagreements),
            ("notes", &self.notes),
        ] {
            if list.is_empty() {
                continue;
            }
            *text += &format!("\n{title}\n");
            for sentence in list {
                *text += &wrap(sentence, COLUMNS, "- ", "  ");
            }
        }
    }
}

fn level_name(level: u8) -> &'static str {
    match level {
        1 => "L1D",
        2 => "L2",
        3 => "L3",
        _ => "L4",
    }
}

fn inclusion_word(inclusion: crate::machine::Inclusion) -> &'static str {
    use crate::machine::Inclusion;
    match inclusion {
        Inclusion::Inclusive => "inclusive",
        Inclusion::NonInclusive => "non-inclusive",
        Inclusion::Exclusive => "exclusive",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(tree: &str) -> Listing {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/sysfs");
        let host = host::read(&root.join(tree), 0).unwrap();
        Listing {
            machine: host.machine,
            facts: host.facts,
            disagreements: host.disagreements,
            notes: host.notes,
        }
    }

    const TREES: [&str; 4] = ["zen5-guest", "intel-260m-guest", "neoverse-n1", "hybrid"];

    /// What `--toml` prints is a machine file: reading it gives the same machine.
    #[test]
    fn the_printed_file_is_read_back() {
        for tree in TREES {
            let listing = listing(tree);
            let text = machine_file(&listing).unwrap();
            let read = catalogue::parse(Path::new("out.toml"), &text).unwrap();
            assert_eq!(read, listing.machine, "{tree}");
        }
    }

    /// `--json` has the machine under `machine`, in the file's words.
    #[test]
    fn the_printed_json_is_read_back() {
        for tree in TREES {
            let listing = listing(tree);
            let text = serde_json::to_string(&listing).unwrap();
            let json: serde_json::Value = serde_json::from_str(&text).unwrap();
            let read: Machine = serde_json::from_value(json["machine"].clone()).unwrap();
            assert_eq!(read, listing.machine, "{tree}");
            assert!(!json["facts"].as_array().unwrap().is_empty());
        }
    }

    /// No line is longer than the columns that are promised, and every source is shown.
    #[test]
    fn tables_fit_the_terminal() {
        for tree in TREES {
            let listing = listing(tree);
            let text = listing.words();
            for line in text.lines() {
                assert!(line.chars().count() <= COLUMNS, "{tree}: {line}");
            }
            let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
            for source in listing.machine.caches.iter().map(|c| &c.source) {
                let source = source.split_whitespace().collect::<Vec<_>>().join(" ");
                assert!(flat.contains(&source), "{tree}: {source}");
            }
        }
    }

    #[test]
    fn the_list_has_every_name_on_its_line() {
        let text = list().unwrap();
        assert_eq!(text.lines().count(), catalogue::names().count());
        for (line, name) in text.lines().zip(catalogue::names()) {
            assert!(line.starts_with(name), "{line}");
        }
    }
}
