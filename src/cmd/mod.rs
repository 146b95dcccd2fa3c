//! The command line: one file per subcommand, exit codes, and where output goes.

mod check;
pub mod layout;
mod list;
pub mod machine;
mod mrc;
mod report;
mod run;
mod shared_table;
mod sim;
mod sim_cores;
mod sim_stream;
mod stream_csv;
mod stream_tables;
mod table;
mod trace_in;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use crate::machine::MachineError;
use crate::run::RunError;

const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("KWALK_REVISION"), ")");

/// Explains what a change to a Linux data structure costs in the caches, and why.
#[derive(Debug, Parser)]
#[command(name = "kwalk", version = VERSION, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    List(list::ListArgs),
    Run(run::RunArgs),
    Check(check::CheckArgs),
    Report(report::ReportArgs),
    Machine(machine::MachineArgs),
    Layout(layout::LayoutArgs),
    Sim(sim::SimArgs),
    Mrc(mrc::MrcArgs),
    Completions(CompletionsArgs),
}

/// Print completions for a shell.
#[derive(Debug, clap::Args)]
struct CompletionsArgs {
    /// The shell
    shell: clap_complete::Shell,
}

/// Expectations that the model does not meet.
#[derive(Debug, thiserror::Error)]
#[error("{failed} of {all} expectations failed")]
struct CheckFailed {
    failed: usize,
    all: usize,
}

/// Run the command that the process was given.
#[must_use]
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let mut out = io::stdout().lock();
    let done = dispatch(cli.command, &mut out).and_then(|()| Ok(out.flush()?));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if reader_left(&error) => ExitCode::SUCCESS,
        Err(error) => {
            // One sentence on one line, whatever the parts of it contain.
            let words = error.to_string();
            let words: Vec<&str> = words.split_whitespace().collect();
            eprintln!("kwalk: {}", words.join(" "));
            ExitCode::from(exit_code(&error))
        }
    }
}

fn dispatch(command: Command, out: &mut dyn Write) -> anyhow::Result<()> {
    match command {
        Command::List(args) => list::list(&args, out),
        Command::Run(args) => run::run(&args, out),
        Command::Check(args) => check::check(&args, out),
        Command::Report(args) => report::report(&args, out),
        Command::Machine(args) => machine::machine(&args),
        Command::Layout(args) => layout::layout(&args),
        Command::Sim(args) => sim::sim(&args, out),
        Command::Mrc(args) => mrc::mrc(&args, out),
        Command::Completions(args) => {
            // The generator panics on a closed pipe, so it writes to memory.
            let mut script = Vec::new();
            clap_complete::generate(args.shell, &mut Cli::command(), "kwalk", &mut script);
            Ok(out.write_all(&script)?)
        }
    }
}

/// Whether standard output was closed by its reader, such as `head`: it has seen enough.
fn reader_left(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<io::Error>()
        .is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
}

/// 1: a check failed; 3: nothing could be measured; 2: wrong input, and all else.
fn exit_code(error: &anyhow::Error) -> u8 {
    if error.is::<CheckFailed>() {
        return 1;
    }
    if matches!(error.downcast_ref(), Some(MachineError::NoCaches { .. })) {
        return 3;
    }
    match error.downcast_ref::<RunError>() {
        Some(RunError::Nothing(_)) => 3,
        Some(RunError::Input(_) | RunError::Recorder(_)) | None => 2,
    }
}
