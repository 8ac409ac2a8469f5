//! The limits of a measurement's length and number, for the probe's options and for planning.

use std::ops::RangeInclusive;

/// The length of a sleep, in nanoseconds: up to 100 s.
pub const SLEEP_NS: RangeInclusive<u64> = 1..=100_000_000_000;

/// The interval between two events, in nanoseconds: 1 µs to 60 s.
pub const EVENT_NS: RangeInclusive<u64> = 1_000..=60_000_000_000;

/// The number of sleeps or events in one measurement.
pub const COUNT: RangeInclusive<u32> = 1..=10_000_000;
