//! How long and how many a measurement may be asked for: by the probe's options, and by whoever
//! plans what a probe is to be told.

use std::ops::RangeInclusive;

/// How long a sleep may be, in nanoseconds: up to 100 s.
pub const SLEEP_NS: RangeInclusive<u64> = 1..=100_000_000_000;

/// What may be between two events, in nanoseconds: 1 µs to 60 s.
pub const EVENT_NS: RangeInclusive<u64> = 1_000..=60_000_000_000;

/// How many sleeps or events there may be in one measurement.
pub const COUNT: RangeInclusive<u32> = 1..=10_000_000;
