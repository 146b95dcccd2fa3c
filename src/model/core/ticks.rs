//! The unit of time: integers, so that results are the same bits everywhere.

/// Ticks per cycle: the least common multiple of 1 to 10.
pub const TICKS_PER_CYCLE: u64 = 2520;

/// Cycles to ticks, rounded to the nearest.
#[must_use]
pub fn ticks_of(cycles: f64) -> u64 {
    (cycles * TICKS_PER_CYCLE as f64).round() as u64
}

/// Ticks to cycles.
#[must_use]
pub fn cycles_of(ticks: u64) -> f64 {
    ticks as f64 / TICKS_PER_CYCLE as f64
}
