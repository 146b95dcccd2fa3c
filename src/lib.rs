//! kwalk explains what a change to a Linux data structure costs in the caches, and why.

pub mod machine;
pub mod model;
pub mod record;
