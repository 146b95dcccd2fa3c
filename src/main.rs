//! The `kwalk` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    kwalk::cmd::main()
}
