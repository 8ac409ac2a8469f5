//! Readings of our clock, compared with the kernel's.

use std::time::{Duration, UNIX_EPOCH};

use eigentime_clock::Clock;
use serde::Serialize;

use crate::kernel;

/// The comparison of a reading with the kernel's clock, in nanoseconds.
///
/// All readings are in order, so the truth at ours lies within a bracket.
#[derive(Serialize)]
pub struct Judged {
    /// The minimum error: the distance to the nearer end of the bracket, 0 within.
    pub least: u64,
    /// The maximum error: the distance to the farther end of the bracket.
    pub most: u64,
    /// The stated bound; none if it is unbounded.
    pub bound: Option<u64>,
    /// The width of the bracket.
    pub width: u64,
}

impl Judged {
    /// A reading between two of the kernel's.
    pub fn now(clock: &Clock) -> Self {
        let before = kernel::monotonic();
        let reading = clock.read_ordered();
        let after = kernel::monotonic();
        Self::of(before, nanos(reading.monotonic), after, reading.error.within().map(nanos))
    }

    /// The same of CLOCK_REALTIME.
    pub fn wall(clock: &Clock) -> Self {
        let before = kernel::clock(libc::CLOCK_REALTIME);
        let reading = clock.read_ordered();
        let after = kernel::clock(libc::CLOCK_REALTIME);
        let shown = reading.wall.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self::of(before, nanos(shown), after, reading.wall_error.within().map(nanos))
    }

    /// Two readings around one of the kernel's: a bracket half as wide, since only one call is
    /// timed instead of two.
    pub fn around(clock: &Clock) -> [Self; 2] {
        let before = clock.now_ordered();
        let kernel = kernel::monotonic();
        let after = clock.now_ordered();
        let width = nanos(after - before);
        let judged = |instant, earliest, latest| {
            let bound = clock.error(instant).within().map(nanos);
            Self::of(earliest, nanos(clock.monotonic(instant)), latest, bound)
        };
        [judged(before, kernel - width, kernel), judged(after, kernel, kernel + width)]
    }

    fn of(before: u64, shown: u64, after: u64, bound: Option<u64>) -> Self {
        Self {
            least: before.saturating_sub(shown).max(shown.saturating_sub(after)),
            most: shown.abs_diff(before).max(shown.abs_diff(after)),
            bound,
            width: after.saturating_sub(before),
        }
    }

    /// Whether the bracket does not prove a violation of the bound.
    pub fn held(&self) -> bool {
        self.bound.is_some_and(|bound| self.least <= bound)
    }
}

fn nanos(duration: Duration) -> u64 {
    duration.as_nanos() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reading_within_its_bracket_is_not_proved_wrong() {
        let judged = Judged::of(100, 130, 140, Some(20));
        assert_eq!((judged.least, judged.most, judged.width), (0, 30, 40));
        assert!(judged.held());
    }

    #[test]
    fn a_reading_outside_is_as_wrong_as_the_nearer_end() {
        for shown in [75, 165] {
            let judged = Judged::of(100, shown, 140, Some(24));
            assert_eq!((judged.least, judged.most), (25, 65));
            assert!(!judged.held());
        }
    }

    #[test]
    fn who_states_no_bound_keeps_none() {
        assert!(!Judged::of(100, 130, 140, None).held());
    }
}
