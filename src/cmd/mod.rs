//! One file per subcommand.

pub mod layout;
pub mod machine;
