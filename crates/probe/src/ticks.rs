//! Time from the processor's counter, for measuring everything short.
//!
//! Ticks are the host's wherever the probe runs, and reading them costs no system call. Their rate
//! is measured once.

use std::sync::OnceLock;
use std::time::Duration;

use eigentime_clock::counter;
use eigentime_clock::rate::{Parted, Rate};

use crate::arch::fence;

static RATE: OnceLock<Rate> = OnceLock::new();

/// The counter, read after everything before it, and before everything after it.
#[inline(always)]
pub fn begin() -> u64 {
    let ticks = counter::read_ordered();
    fence();
    ticks
}

/// The counter, read after everything before it.
#[inline(always)]
pub fn end() -> u64 {
    counter::read_ordered()
}

/// Measures the ticks per nanosecond, unless that was done.
///
/// # Errors
/// If no clock can measure it.
pub fn measure() -> Result<&'static Rate, &'static str> {
    if let Some(rate) = RATE.get() {
        return Ok(rate);
    }
    let rate = Rate::measure().ok_or(
        "the processor's counter cannot be compared with any clock: CLOCK_MONOTONIC, or in a \
         timeline the processor time of a busy thread, stands still",
    )?;
    Ok(RATE.get_or_init(|| rate))
}

/// Ticks per nanosecond.
///
/// # Panics
/// If no clock can measure it: nothing is measured then ([`measure`]).
pub fn per_nano() -> f64 {
    measure().expect("a setting is applied first").ticks_per_ns()
}

/// Ticks as nanoseconds.
pub fn nanos(ticks: u64) -> f64 {
    ticks as f64 / per_nano()
}

/// Ticks as a duration, in whole nanoseconds.
pub fn duration(ticks: u64) -> Duration {
    Duration::from_nanos(nanos(ticks) as u64)
}

/// Checks that the counter has kept pace with the kernel's clock since its rate was measured.
///
/// # Errors
/// If it has not: measurements in ticks are then worthless.
pub fn check() -> Result<(), Parted> {
    RATE.get().map_or(Ok(()), Rate::check)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bracket_of_nothing_is_short_and_forward() {
        let width = (0..100).map(|_| begin().abs_diff(end())).min();
        assert!(width.is_some_and(|width| nanos(width) < 100_000.0), "{width:?}");
    }
}
