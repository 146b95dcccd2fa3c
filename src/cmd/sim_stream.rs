//! `kwalk sim` on recorded streams of Linux.

use std::io::Write;
use std::path::Path;

use anyhow::{Context, bail};

use super::stream_csv;
use super::stream_tables::{self, Told};
use super::trace_in::{self, note};
use crate::machine::Machine;
use crate::model::page_map::PageMapOptions;
use crate::streams::cachegrind;
use crate::streams::edit::{self, Edit};
use crate::streams::replay::{Replayed, Rounds};
use crate::streams::steps::{Choice, Round};
use crate::streams::{Column, Stream};
use crate::trace::{Reference, din};

/// What only recorded streams have.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Recorded streams (linux-stream)")]
pub(super) struct StreamArgs {
    /// Rounds of the stream; the last is counted [default: 8]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rounds: Option<u32>,
    /// Which accesses run: psi (those of PSI to its groups, counters and cgroups) or all [default: all]
    #[arg(long, value_name = "WHICH")]
    lines: Option<Lines>,
    /// Only the accesses of this CPU of Linux, instead of a core for each
    #[arg(long, value_name = "N")]
    cpu: Option<u32>,
    /// What if: align:OBJECT:BYTES, stride:OBJECT:BYTES, move:STRUCT.FIELD:OFFSET,
    /// add:STRUCT.FIELD@OFFSET, or a file with one on a line; repeatable
    #[arg(long, value_name = "EDIT|FILE")]
    edit: Vec<String>,
}

impl StreamArgs {
    /// An option that was given, for traces that have no use of it.
    pub(super) fn given(&self) -> Option<&'static str> {
        let given = [
            ("--rounds", self.rounds.is_some()),
            ("--lines", self.lines.is_some()),
            ("--cpu", self.cpu.is_some()),
            ("--edit", !self.edit.is_empty()),
        ];
        given
            .into_iter()
            .find(|(_, given)| *given)
            .map(|(name, _)| name)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Lines {
    /// Those inside PSI to psi_group, psi_group_cpu and cgroup
    Psi,
    /// All
    All,
}

/// Rounds without `--rounds`: two settle an LRU, other policies take a few more.
const ROUNDS: u32 = 8;

/// What is done with the streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Output {
    Tables,
    Csv,
    Cachegrind,
}

/// Streams, edited and not.
pub(super) struct Streams {
    names: Vec<String>,
    choice: Choice,
    /// As recorded, if there are edits.
    recorded: Option<Round>,
    round: Round,
    psi: bool,
    edits: Vec<Edit>,
    rounds: u32,
}

impl Streams {
    /// Read the files, and edit what is in them.
    pub(super) fn read(names: &[String], args: &StreamArgs) -> anyhow::Result<Streams> {
        let edits = edits(&args.edit)?;
        let mut streams = Vec::new();
        for name in names {
            streams.push(trace_in::stream(name)?);
        }
        let choice = Choice {
            cpu: args.cpu,
            psi_lines: args.lines == Some(Lines::Psi),
        };
        for (name, stream) in names.iter().zip(&streams) {
            accepts(name, stream, choice)?;
        }
        let psi = streams.iter().all(|s| s.column == Column::Psi);
        let mut edited = Vec::new();
        for stream in streams.iter().filter(|_| !edits.is_empty()) {
            let (after, notes) = edit::apply(stream, &edits)?;
            notes.iter().for_each(|text| note(text));
            edited.push(after);
        }
        let recorded = Round::of(&streams, choice);
        let (recorded, round) = match edits.is_empty() {
            true => (None, recorded),
            false => (Some(recorded), Round::of(&edited, choice)),
        };
        if round.steps.is_empty() {
            bail!(
                "{}: no access inside PSI is to a psi_group, psi_group_cpu or cgroup; accepted: a recording of \
                 PSI, or --lines all",
                names.join(", ")
            );
        }
        Ok(Streams {
            names: names.to_vec(),
            choice,
            recorded,
            round,
            psi,
            edits,
            rounds: args.rounds.unwrap_or(ROUNDS),
        })
    }

    /// The accesses of a round, at physical addresses.
    pub(super) fn references(&self) -> Vec<Reference> {
        trace_in::references(&self.round)
    }

    /// Run them on `machine` and say what came of it.
    pub(super) fn run(
        &self,
        machine: &Machine,
        pages: PageMapOptions,
        seed: u64,
        output: Output,
        out: &mut dyn Write,
    ) -> anyhow::Result<()> {
        let rounds = Rounds {
            rounds: self.rounds,
            pages,
            seed,
        };
        let replayed = Replayed::of(&self.round, machine, rounds)?;
        let before = match &self.recorded {
            Some(round) => Some(Replayed::of(round, machine, rounds)?.inside_misses(round)),
            None => None,
        };
        let told = Told {
            machine,
            names: &self.names,
            round: &self.round,
            replayed: &replayed,
            rounds: self.rounds,
            psi: self.psi,
            psi_lines: self.choice.psi_lines,
            edits: &self.edits,
            before: self.recorded.as_ref().zip(before),
        };
        match output {
            Output::Csv => stream_csv::csv(&told, out)?,
            Output::Cachegrind => {
                let command = format!("kwalk sim {}", self.names.join(" "));
                let text = cachegrind::text(&self.round, &replayed, machine, &command);
                out.write_all(text.as_bytes())?;
            }
            Output::Tables => {
                out.write_all(stream_tables::text(&told).as_bytes())?;
            }
        }
        Ok(())
    }

    /// Write a round as Dinero's text.
    pub(super) fn write_din(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        Ok(din::write(&self.references(), out)?)
    }
}

fn accepts(name: &str, stream: &Stream, choice: Choice) -> anyhow::Result<()> {
    if let Some(cpu) = choice.cpu
        && !stream.cpus().contains(&cpu)
    {
        let cpus: Vec<String> = stream.cpus().iter().map(u32::to_string).collect();
        bail!(
            "--cpu {cpu}: {name} has no access of it; accepted: {}",
            cpus.join(", ")
        );
    }
    if choice.psi_lines && stream.column != Column::Psi {
        bail!(
            "--lines psi: the third column of {name} is \"in\", so it is a recording of another path; \
             accepted: --lines all"
        );
    }
    Ok(())
}

fn edits(given: &[String]) -> anyhow::Result<Vec<Edit>> {
    let mut edits = Vec::new();
    for text in given {
        if Edit::is_one(text) {
            edits.push(Edit::parse(text, "--edit ")?);
            continue;
        }
        let file = Path::new(text);
        let content = std::fs::read_to_string(file).with_context(|| {
            format!(
                "--edit {text}: no edit, and cannot be read as a file of edits; accepted: add:STRUCT.FIELD@OFFSET, \
                 move:STRUCT.FIELD:OFFSET, align:OBJECT:BYTES, stride:OBJECT:BYTES, or a file with one on a line"
            )
        })?;
        edits.extend(Edit::parse_all(file, &content)?);
    }
    Ok(edits)
}
