//! The raw processor counter, on which all user space clocks are built.

pub use eigentime_clock::counter::{read as bare, read_ordered as fenced};
use eigentime_measure::bracket::narrowest;

pub use crate::arch::with_processor;
use crate::kernel;

/// The counter and CLOCK_MONOTONIC at one instant.
#[derive(Clone, Copy)]
pub struct Pair {
    /// The counter in the middle of the bracket.
    pub ticks: u64,
    /// The kernel's clock, in nanoseconds.
    pub nanos: u64,
}

/// The number of tries, of which the one with the narrowest bracket is used.
const TRIES: usize = 200;

impl Pair {
    /// Both now.
    pub fn now() -> Self {
        let both = narrowest(TRIES, || fenced().cast_signed(), kernel::monotonic);
        Self { ticks: both.middle().cast_unsigned(), nanos: both.inside }
    }
}

/// Converts ticks into nanoseconds of CLOCK_MONOTONIC: over a measurement, from its ends, so that
/// it does not depend on the calibration of any measured clock.
#[derive(Clone, Copy)]
pub struct Scale {
    nanos_per_tick: f64,
}

impl Scale {
    /// From two readings at a distance.
    pub fn between(begin: Pair, end: Pair) -> Self {
        let ticks = end.ticks.saturating_sub(begin.ticks).max(1);
        Self { nanos_per_tick: (end.nanos - begin.nanos) as f64 / ticks as f64 }
    }

    /// A number of ticks as nanoseconds.
    pub fn nanos(self, ticks: u64) -> f64 {
        ticks as f64 * self.nanos_per_tick
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_comes_from_its_ends() {
        let pair = |ticks, nanos| Pair { ticks, nanos };
        let scale = Scale::between(pair(1_000, 50), pair(3_000, 1_050));
        assert!((scale.nanos(4) - 2.0).abs() < 1e-9);
    }

    #[test]
    fn ordered_readings_are_in_order() {
        for _ in 0..1_000 {
            let first = fenced();
            assert!(first <= fenced());
        }
    }
}
