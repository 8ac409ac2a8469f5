//! The kernel's clocks, through the vDSO where possible.

use rustix::time::{ClockId, Timespec, clock_gettime};

const SECOND_NS: i64 = 1_000_000_000;

/// A clock, in nanoseconds.
#[inline]
pub fn nanos(clock: ClockId) -> i64 {
    of(clock_gettime(clock))
}

/// A kernel time, in nanoseconds.
#[inline]
pub fn of(time: Timespec) -> i64 {
    time.tv_sec.saturating_mul(SECOND_NS).saturating_add(time.tv_nsec)
}

/// Nanoseconds as a kernel time.
#[inline]
pub fn timespec(nanos: i64) -> Timespec {
    Timespec { tv_sec: nanos.div_euclid(SECOND_NS), tv_nsec: nanos.rem_euclid(SECOND_NS) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_the_same_in_both_forms() {
        for time in [0, 1, -1, 999_999_999, 1_000_000_000, 5_000_000_001, -1_500_000_000] {
            assert_eq!(of(timespec(time)), time);
            assert!((0..SECOND_NS).contains(&timespec(time).tv_nsec));
        }
    }
}
