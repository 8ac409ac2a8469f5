//! Reading the clock, and the meaning of instants.

use std::time::Duration;

use eigentime_clock::{Clock, Instant};

use crate::nanos;

/// An instant: a count of ticks of this process's clock. Later instants are larger.
/// `eigentime_between` gives the time between two of them; `eigentime_to_monotonic` and the similar
/// functions give what the kernel's clocks show. The count has no meaning in another process.
pub type eigentime_instant = u64;

static CLOCK: Clock = Clock::system();

/// The current instant, read as cheaply as possible: the processor may execute the read a few
/// nanoseconds before preceding instructions or after following ones. Like all functions that read
/// the clock, it can be called from any thread, in a signal handler and after a fork.
#[unsafe(no_mangle)]
pub extern "C" fn eigentime_now() -> eigentime_instant {
    Instant::now().as_ticks()
}

/// The current instant, read after everything before it in the program and before everything after
/// it.
#[unsafe(no_mangle)]
pub extern "C" fn eigentime_now_ordered() -> eigentime_instant {
    Instant::now_ordered().as_ticks()
}

/// A recent instant, at almost no cost: the last one that any thread of the process has recorded.
#[unsafe(no_mangle)]
pub extern "C" fn eigentime_recent() -> eigentime_instant {
    CLOCK.recent().as_ticks()
}

/// The raw counter.
#[unsafe(no_mangle)]
pub extern "C" fn eigentime_raw() -> u64 {
    CLOCK.raw()
}

/// The raw counter, read in program order.
#[unsafe(no_mangle)]
pub extern "C" fn eigentime_raw_ordered() -> u64 {
    CLOCK.raw_ordered()
}

/// Ticks per second.
#[unsafe(no_mangle)]
pub extern "C" fn eigentime_frequency() -> f64 {
    CLOCK.frequency()
}

/// CLOCK_MONOTONIC now, in nanoseconds; read like `eigentime_now`.
#[unsafe(no_mangle)]
pub extern "C" fn eigentime_monotonic_ns() -> i64 {
    eigentime_to_monotonic(eigentime_now())
}

/// CLOCK_MONOTONIC now, in nanoseconds; read like `eigentime_now_ordered`.
#[unsafe(no_mangle)]
pub extern "C" fn eigentime_monotonic_ordered_ns() -> i64 {
    eigentime_to_monotonic(eigentime_now_ordered())
}

/// A recent CLOCK_MONOTONIC, in nanoseconds; read like `eigentime_recent`.
#[unsafe(no_mangle)]
pub extern "C" fn eigentime_monotonic_recent_ns() -> i64 {
    eigentime_to_monotonic(eigentime_recent())
}

/// CLOCK_REALTIME now, in nanoseconds since 1970; read like `eigentime_now`.
#[unsafe(no_mangle)]
pub extern "C" fn eigentime_wall_ns() -> i64 {
    eigentime_to_wall(eigentime_now())
}

/// CLOCK_REALTIME now, in nanoseconds since 1970; read like `eigentime_now_ordered`.
#[unsafe(no_mangle)]
pub extern "C" fn eigentime_wall_ordered_ns() -> i64 {
    eigentime_to_wall(eigentime_now_ordered())
}

/// A recent CLOCK_REALTIME, in nanoseconds since 1970; read like `eigentime_recent`.
#[unsafe(no_mangle)]
pub extern "C" fn eigentime_wall_recent_ns() -> i64 {
    eigentime_to_wall(eigentime_recent())
}

/// CLOCK_MONOTONIC at an instant, in nanoseconds.
#[unsafe(no_mangle)]
pub extern "C" fn eigentime_to_monotonic(instant: eigentime_instant) -> i64 {
    nanos::signed(CLOCK.monotonic(Instant::from_ticks(instant)))
}

/// CLOCK_REALTIME at an instant, in nanoseconds since 1970.
#[unsafe(no_mangle)]
pub extern "C" fn eigentime_to_wall(instant: eigentime_instant) -> i64 {
    nanos::since_epoch(CLOCK.wall(Instant::from_ticks(instant)))
}

/// CLOCK_BOOTTIME at an instant, in nanoseconds.
#[unsafe(no_mangle)]
pub extern "C" fn eigentime_to_boottime(instant: eigentime_instant) -> i64 {
    nanos::signed(CLOCK.boottime(Instant::from_ticks(instant)))
}

/// The instant at which CLOCK_MONOTONIC shows this many nanoseconds; negative values count as 0.
#[unsafe(no_mangle)]
pub extern "C" fn eigentime_from_monotonic(monotonic_ns: i64) -> eigentime_instant {
    CLOCK.at_monotonic(nanos::duration(monotonic_ns)).as_ticks()
}

/// The instant at which CLOCK_REALTIME, as it is set now, shows this many nanoseconds since 1970.
#[unsafe(no_mangle)]
pub extern "C" fn eigentime_from_wall(wall_ns: i64) -> eigentime_instant {
    CLOCK.at_wall(nanos::system_time(wall_ns)).as_ticks()
}

/// The nanoseconds from `from` to `to`; negative if `to` is earlier.
#[unsafe(no_mangle)]
pub extern "C" fn eigentime_between(from: eigentime_instant, to: eigentime_instant) -> i64 {
    let [from, to] = [from, to].map(Instant::from_ticks);
    if to >= from {
        nanos::signed(to.duration_since(from))
    } else {
        -nanos::signed(from.duration_since(to))
    }
}

/// The instant this many nanoseconds later, or earlier if `ns` is negative, limited to the first
/// and the last instant.
#[unsafe(no_mangle)]
pub extern "C" fn eigentime_add(instant: eigentime_instant, ns: i64) -> eigentime_instant {
    let instant = Instant::from_ticks(instant);
    let distance = Duration::from_nanos(ns.unsigned_abs());
    let (there, end) = if ns < 0 {
        (instant.checked_sub(distance), 0)
    } else {
        (instant.checked_add(distance), u64::MAX)
    };
    there.map_or(end, Instant::as_ticks)
}

/// Compares the clock with the kernel's now instead of when it is next due: for programs that have
/// a moment to spare now and want to keep this out of their reads.
#[unsafe(no_mangle)]
pub extern "C" fn eigentime_upkeep() {
    CLOCK.upkeep();
}

/// Declares that this process makes, or will make, only essential system calls (under a seccomp
/// filter, for example). From now on, reading the clock makes no system call except clock_gettime,
/// and leaves the others to `eigentime_upkeep` and `eigentime_trust`.
#[unsafe(no_mangle)]
pub extern "C" fn eigentime_confine() {
    CLOCK.confine();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        let start = eigentime_now();
        // The rate may be refined between two calls: at first by some ten ppm.
        for away in [1_000_000, -1_000_000] {
            let back = eigentime_between(start, eigentime_add(start, away));
            assert!((back - away).abs() < 1000, "{away} came back as {back}");
        }
        let wall = eigentime_to_wall(start);
        assert!((eigentime_to_wall(eigentime_from_wall(wall)) - wall).abs() < 1000);
        let monotonic = eigentime_to_monotonic(start);
        let there = eigentime_to_monotonic(eigentime_from_monotonic(monotonic));
        assert!((there - monotonic).abs() < 1000);
    }

    #[test]
    fn the_ends_of_the_scale() {
        let now = eigentime_now();
        for ns in [i64::MIN, i64::MIN + 1, -1, 0, 1, i64::MAX] {
            let there = eigentime_add(now, ns);
            assert_eq!(there.cmp(&now), ns.cmp(&0), "{ns}");
            // Any result is fine.
            let instant = eigentime_from_monotonic(ns);
            eigentime_from_wall(ns);
            eigentime_to_wall(instant);
            eigentime_to_boottime(instant);
        }
        assert_eq!(eigentime_add(u64::MAX, 1), u64::MAX);
        assert_eq!(eigentime_add(0, -1), 0);
        assert!(eigentime_between(0, u64::MAX) > 0);
    }
}
