//! Real memory of this host: where a kernel runs, on which pages, by which clock, and what
//! disturbed it. Nothing here knows a kernel or the model.

pub mod affinity;
pub mod between;
pub mod clock;
pub mod disturbance;
pub mod interleave;
pub mod mapping;
pub mod smaps;
pub mod warnings;
