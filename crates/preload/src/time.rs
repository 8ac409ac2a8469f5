//! Conversion between the C library's times and durations.

use std::time::Duration;

use libc::{time_t, timespec, timeval};

const NANOS_PER_SECOND: i64 = 1_000_000_000;
const MICROS_PER_SECOND: i64 = 1_000_000;

/// Longer than any wait that ends while the program runs: 31 years. Longer ones are left to the
/// kernel, which handles times that do not fit.
const LONGEST: i64 = 1_000_000_000;

/// A valid time of ordinary length.
pub fn from_timespec(time: timespec) -> Option<Duration> {
    let nanos = u32::try_from(time.tv_nsec).ok()?;
    let valid = (0..LONGEST).contains(&time.tv_sec) && time.tv_nsec < NANOS_PER_SECOND;
    valid.then(|| Duration::new(time.tv_sec.unsigned_abs(), nanos))
}

/// A valid time of ordinary length.
pub fn from_timeval(time: timeval) -> Option<Duration> {
    let valid =
        (0..LONGEST).contains(&time.tv_sec) && (0..MICROS_PER_SECOND).contains(&time.tv_usec);
    let micros = Duration::from_micros(time.tv_usec.unsigned_abs());
    valid.then(|| Duration::from_secs(time.tv_sec.unsigned_abs()) + micros)
}

/// The C library's form of a duration.
pub fn timespec(time: Duration) -> timespec {
    timespec { tv_sec: seconds(time), tv_nsec: time.subsec_nanos().into() }
}

/// The C library's form of a duration, rounded down.
pub fn timeval(time: Duration) -> timeval {
    timeval { tv_sec: seconds(time), tv_usec: time.subsec_micros().into() }
}

/// Its whole seconds.
pub fn seconds(time: Duration) -> time_t {
    time_t::try_from(time.as_secs()).unwrap_or(time_t::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        for (tv_sec, tv_nsec) in [(0, 0), (0, 1), (0, 999_999_999), (LONGEST - 1, 5)] {
            let time = from_timespec(super::timespec { tv_sec, tv_nsec }).expect("it is valid");
            assert_eq!((timespec(time).tv_sec, timespec(time).tv_nsec), (tv_sec, tv_nsec));
            let micros = timeval(time);
            let time = from_timeval(micros).expect("it is valid");
            assert_eq!(timeval(time).tv_usec, micros.tv_usec);
        }
    }

    #[test]
    fn what_is_out_of_range_is_none() {
        let bad = [(-1, 0), (0, -1), (0, NANOS_PER_SECOND), (LONGEST, 0), (i64::MAX, 0)];
        for (tv_sec, tv_nsec) in bad {
            assert_eq!(from_timespec(super::timespec { tv_sec, tv_nsec }), None);
        }
        for (tv_sec, tv_usec) in [(-1, 0), (0, -1), (0, MICROS_PER_SECOND), (i64::MIN, 0)] {
            assert_eq!(from_timeval(super::timeval { tv_sec, tv_usec }), None);
        }
    }
}
