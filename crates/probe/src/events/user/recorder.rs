//! The recording of events in preallocated memory.

use std::io;

use super::super::source::Measured;
use crate::sleeps::Nanos;

/// Records the times of events until all requested ones are accounted for.
///
/// Deadlines are counted, not wake-ups: a deadline that was too late for an event of its own is
/// part of the event that covered it, and counted as missed. So none is lost.
pub struct Recorder {
    at: Vec<i64>,
    /// The time of the first deadline that counts.
    first: Nanos,
    /// The number of practice deadlines left before it.
    practice: u64,
    /// The number of counting deadlines left.
    left: u64,
    missed: u64,
}

impl Recorder {
    /// A recorder for `count` deadlines, an interval apart, after a number of practice deadlines.
    /// The first of these is at `start`.
    ///
    /// # Errors
    /// When there is not enough memory.
    pub fn new(start: Nanos, interval: Nanos, practice: u32, count: u32) -> io::Result<Self> {
        let mut at = Vec::new();
        at.try_reserve_exact(count as usize).map_err(|error| {
            io::Error::new(io::ErrorKind::OutOfMemory, format!("{count} events: {error}"))
        })?;
        // Written now, to avoid page faults later.
        at.resize(count as usize, -1);
        at.clear();
        let practice = u64::from(practice);
        let first = start + practice * interval;
        Ok(Self { at, first, practice, left: count.into(), missed: 0 })
    }

    /// Records an event now that covers this many deadlines, at least one. Returns whether more are
    /// to come.
    #[inline]
    pub fn event(&mut self, now: Nanos, deadlines: u64) -> bool {
        let practice = deadlines.min(self.practice);
        self.practice -= practice;
        // Deadlines after the last requested one are not counted.
        let counted = (deadlines - practice).min(self.left);
        if counted > 0 {
            self.at.push(now.wrapping_sub(self.first).cast_signed());
            self.missed += counted - 1;
            self.left -= counted;
        }
        self.left > 0
    }

    /// The number of counting deadlines left.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Moves the deadlines by this much, because the source's first one was later than planned.
    pub fn shift(&mut self, by: Nanos) {
        self.first += by;
    }

    /// The result.
    pub fn finish(self, degradation: Vec<String>) -> Measured {
        Measured { at_ns: self.at, missed: self.missed, degradation }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(practice: u32, count: u32, events: &[(Nanos, u64)]) -> (Measured, Vec<bool>) {
        let mut recorder = Recorder::new(1_000, 100, practice, count).unwrap();
        let goes_on = events.iter().map(|(now, n)| recorder.event(*now, *n)).collect();
        (recorder.finish(Vec::new()), goes_on)
    }

    #[test]
    fn times_are_since_the_first_deadline_that_counts() {
        let (it, goes_on) =
            recorded(2, 3, &[(1_001, 1), (1_102, 1), (1_203, 1), (1_299, 1), (1_404, 1)]);
        assert_eq!((it.at_ns, it.missed), (vec![3, 99, 204], 0));
        assert_eq!(goes_on, [true, true, true, true, false]);
    }

    #[test]
    fn none_is_lost_wherever_events_are_merged() {
        // In practice, across its end, within the counted part, beyond the requested ones.
        let (it, goes_on) = recorded(4, 9, &[(1_150, 2), (1_450, 3), (1_750, 3), (2_900, 12)]);
        assert_eq!(it.at_ns, [50, 350, 1_500]);
        assert_eq!(it.at_ns.len() as u64 + it.missed, 9);
        assert_eq!(goes_on, [true, true, true, false]);
    }

    #[test]
    fn what_is_merged_with_practice_alone_is_no_event() {
        let (it, _) = recorded(3, 2, &[(1_250, 3), (1_300, 1), (1_400, 1)]);
        assert_eq!((it.at_ns, it.missed), (vec![0, 100], 0));
    }
}
