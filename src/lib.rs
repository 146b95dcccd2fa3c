//! kwalk explains what a change to a Linux data structure costs in the caches, and why.

pub mod calibrate;
pub mod counters;
pub mod cmd;
pub mod cmd;
pub mod layouts;
pub mod machine;
pub mod native;
pub mod model;
pub mod record;
pub mod streams;
pub mod report;
