//! What Linux and its tasks touch between two calls of PSI.
