//! One file per subcommand.

pub mod layout;
