//! How long data written by another machine has been unchanged, on the clock of this one: theirs
//! may be wrong.

use std::time::{Duration, Instant};

/// The last value, and since when it has been the same.
#[derive(Debug)]
pub struct Unchanged<T> {
    last: Option<(T, Instant)>,
}

impl<T> Default for Unchanged<T> {
    fn default() -> Self {
        Self { last: None }
    }
}

impl<T: PartialEq> Unchanged<T> {
    /// Records the current value; returns for how long it has been the same.
    pub fn note(&mut self, value: T, now: Instant) -> Duration {
        match &self.last {
            Some((last, since)) if *last == value => now.duration_since(*since),
            _ => {
                self.last = Some((value, now));
                Duration::ZERO
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_changes_begins_anew() {
        let (mut unchanged, start) = (Unchanged::default(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        for (value, seconds, expected) in
            [("a", 0, 0), ("a", 3, 3), ("b", 4, 0), ("b", 9, 5), ("a", 9, 0)]
        {
            assert_eq!(
                unchanged.note(value, at(seconds)).as_secs(),
                expected,
                "{value} at {seconds}"
            );
        }
    }
}
