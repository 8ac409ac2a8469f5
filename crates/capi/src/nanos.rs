//! Times in C: 64-bit nanoseconds, signed for points in time and differences.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use eigentime_clock::ErrorBound;

/// An error without a bound: the kernel reports that its clock is not synchronized.
pub const EIGENTIME_UNBOUNDED: u64 = u64::MAX;

/// Saturates at what fits, 292 years.
pub fn signed(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

/// Saturates at what fits and is not [`EIGENTIME_UNBOUNDED`], 584 years.
pub fn unsigned(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX).min(EIGENTIME_UNBOUNDED - 1)
}

/// Negative values become zero.
pub fn duration(nanos: i64) -> Duration {
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(0))
}

pub fn since_epoch(wall: SystemTime) -> i64 {
    match wall.duration_since(UNIX_EPOCH) {
        Ok(after) => signed(after),
        Err(before) => -signed(before.duration()),
    }
}

pub fn system_time(since_epoch: i64) -> SystemTime {
    let distance = Duration::from_nanos(since_epoch.unsigned_abs());
    // Every 64-bit count of nanoseconds is a time of 64-bit seconds.
    if since_epoch < 0 { UNIX_EPOCH - distance } else { UNIX_EPOCH + distance }
}

pub fn bound(error: ErrorBound) -> u64 {
    error.within().map_or(EIGENTIME_UNBOUNDED, unsigned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_of_the_scale() {
        for nanos in [i64::MIN + 1, -1, 0, 1, i64::MAX] {
            assert_eq!(since_epoch(system_time(nanos)), nanos);
        }
        assert_eq!(since_epoch(system_time(i64::MIN)), -i64::MAX);
        assert_eq!(signed(Duration::MAX), i64::MAX);
        assert_eq!(duration(-5), Duration::ZERO);
    }

    #[test]
    fn a_long_bound_is_not_an_unbounded_one() {
        assert_eq!(bound(ErrorBound::Within(Duration::MAX)), u64::MAX - 1);
        assert_eq!(bound(ErrorBound::Unbounded), EIGENTIME_UNBOUNDED);
    }
}
