//! kwalk explains what a change to a Linux data structure costs in the caches, and why.

pub mod cmd;
pub mod experiment;
pub mod machine;
pub mod record;
pub mod report;
pub mod run;
pub mod stats;
