//! kwalk explains what a change to a Linux data structure costs in the caches, and why.

pub mod cmd;
pub mod layouts;
pub mod machine;
pub mod record;
