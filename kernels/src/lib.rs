//! Replicas of Linux hot paths, access by access.
//!
//! A kernel is written once, generic over [`memory::Memory`]: on [`native::Native`] it runs on real
//! memory, in the model every access is also presented to a simulated machine. This crate has no
//! dependencies, reads no clock and does no input or output.

pub mod arena;
pub mod layout;
pub mod memory;
pub mod native;
pub mod other;
pub mod psi;
pub mod recorder;
pub mod slab;
