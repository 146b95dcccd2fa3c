//! The commands, one file each.

pub mod machine;
//! One file per subcommand.

pub mod layout;
