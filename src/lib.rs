//! kwalk explains what a change to a Linux data structure costs in the caches, and why.

pub mod calibrate;
pub mod cmd;
pub mod counters;
pub mod experiment;
pub mod layouts;
pub mod machine;
pub mod model;
pub mod mrc;
pub mod native;
pub mod record;
pub mod report;
pub mod run;
pub mod stats;
pub mod streams;
pub mod trace;
mod wrap;
