//! The kernel's clocks, and their comparison with the counter.
//!
//! They are read through the vDSO rather than the C library, whose functions may be interposed.

use rustix::time::{ClockId, clock_gettime};

use crate::counter;
use crate::interval::Interval;
use crate::line::Slope;

/// Brackets per comparison, of which the narrowest is used: one in a few is widened by an
/// interrupt.
const BRACKETS: usize = 7;

/// The counter and a clock at the same moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Sample {
    /// The middle of the bracket.
    pub ticks: u64,
    /// The clock reading inside the bracket.
    pub nanos: u64,
    /// From the middle of the bracket to its ends, in ticks.
    pub half_width: u64,
}

impl Sample {
    /// The value before any comparison.
    pub const ZERO: Self = Self { ticks: 0, nanos: 0, half_width: 0 };

    /// The error of the comparison, in nanoseconds; the clock has a resolution of one.
    pub const fn error(&self, rate: Slope) -> u64 {
        rate.nanos(self.half_width) + 1
    }
}

/// A clock in nanoseconds; times before its zero read as zero.
pub fn nanos(clock: ClockId) -> u64 {
    u64::try_from(signed_nanos(clock)).unwrap_or(0)
}

fn signed_nanos(clock: ClockId) -> i64 {
    let time = clock_gettime(clock);
    time.tv_sec.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec)
}

/// CLOCK_MONOTONIC in nanoseconds.
pub fn monotonic() -> u64 {
    nanos(ClockId::Monotonic)
}

/// Compares the counter with a clock.
pub fn compare(clock: ClockId) -> Sample {
    (0..BRACKETS)
        .map(|_| bracket(clock))
        .min_by_key(|sample| sample.half_width)
        .unwrap_or(Sample::ZERO)
}

fn bracket(clock: ClockId) -> Sample {
    let before = counter::read_ordered();
    let nanos = nanos(clock);
    let after = counter::read_ordered();
    let width = after.saturating_sub(before);
    // The counter also has whole ticks, which may be longer than the interval between the readings.
    Sample { ticks: before + width / 2, nanos, half_width: width.div_ceil(2) + 1 }
}

/// How far a clock is ahead of CLOCK_MONOTONIC, in nanoseconds.
pub fn ahead(clock: ClockId) -> Interval {
    let before = signed_nanos(ClockId::Monotonic);
    let there = signed_nanos(clock);
    let after = signed_nanos(ClockId::Monotonic);
    // Each reading is rounded down to a nanosecond.
    Interval { low: there.wrapping_sub(after) - 1, high: there.wrapping_sub(before) + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comparison_lies_between_two_readings() {
        let before = monotonic();
        let sample = compare(ClockId::Monotonic);
        assert!((before..=monotonic()).contains(&sample.nanos));
        assert!(sample.half_width > 0);
    }

    #[test]
    fn a_clock_is_as_far_ahead_as_it_was() {
        let [first, second] = [(); 2].map(|()| ahead(ClockId::Boottime));
        assert!(first.and(second).is_some(), "{first:?} {second:?}");
    }
}
