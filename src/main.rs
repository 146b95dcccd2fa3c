//! The `kwalk` command.

fn main() {}
