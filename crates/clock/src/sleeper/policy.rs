use std::time::Duration;

/// How punctual sleeps should be, and what that may cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Policy {
    /// The share of sleeps that should end on time, between 0 and 1: the guard would have sufficed
    /// for this share of the last 256 sleeps of about this length. A share above 0.996 asks for all
    /// of them but one, since a single one may always be an accident.
    pub quantile: f64,
    /// The share of one CPU that may be spun away, on average, between 0 and 1. It is kept whatever
    /// the kernel does: see [`Policy::allowance`].
    pub cpu: f64,
    /// The longest time that a sleep may spin.
    pub max_guard: Duration,
}

/// From this length on, in nanoseconds, a sleep may spin for its share of the time.
const LONG: u64 = 1_000_000;
/// The cap: its share of this. The default is 20 µs: with the other costs of a sleep, not much more
/// than a fixed guard of 125 µs costs where the kernel is late by 100 µs, half of that slack.
const LONGEST: u64 = 1_250_000;
/// A shorter sleep may spin for at most its share of this. The default is 64 µs, which is enough
/// for most wake-ups and less than half of the processor at 150 µs.
const LONGEST_OF_SHORT: u64 = 4_000_000;
/// The time whose allowance can be saved up, in nanoseconds.
const SAVED: u64 = 25_000_000;

impl Policy {
    /// [`Policy::default`] as a constant function.
    #[must_use]
    pub const fn new() -> Self {
        Self { quantile: 0.995, cpu: 0.016, max_guard: Duration::from_micros(250) }
    }

    /// How long sleeps may spin on average if they follow each other at this interval.
    ///
    /// From a millisecond on it is the share [`Policy::cpu`] of that interval, but not more than
    /// that of 1.25 ms. A thread that wakes more often needs precision more than idle processors:
    /// at half a millisecond the share is four times and the time twice as large, and so on up to
    /// that of 4 ms. With the default of 1.6 % this is 16 µs of each millisecond, 32 µs
    /// at 500 µs, 64 µs below 250 µs, and 20 µs above 1.25 ms; so a sleep of less than 64 µs, which
    /// the kernel would end far too late, is spun completely. The total spinning of all sleeps
    /// never exceeds their allowance plus, once, that of 25 ms (with the default, 0.4 ms).
    ///
    /// The kernel's own work for a sleep comes on top: some 20 µs on a virtual machine.
    #[must_use]
    pub fn allowance(&self, time: Duration) -> Duration {
        let time = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(self.allowed(time) as u64)
    }

    /// [`Policy::allowance`] in nanoseconds.
    pub(super) fn allowed(&self, time: u64) -> f64 {
        let base = if time >= LONG {
            time.min(LONGEST)
        } else {
            (LONG * LONG / time.max(1)).min(LONGEST_OF_SHORT)
        };
        self.share() * base as f64
    }

    /// The maximum credit, in nanoseconds of spinning.
    pub(super) fn saved(&self) -> f64 {
        self.share() * SAVED as f64
    }

    fn share(&self) -> f64 {
        // NaN counts as no share.
        if self.cpu > 0.0 { self.cpu.min(1.0) } else { 0.0 }
    }

    /// The share of sleeps that may be late.
    pub(super) fn late(&self) -> f64 {
        if self.quantile > 0.0 { (1.0 - self.quantile).max(0.0) } else { 1.0 }
    }

    /// The longest guard, in nanoseconds.
    pub(super) fn most(&self) -> u64 {
        u64::try_from(self.max_guard.as_nanos()).unwrap_or(u64::MAX)
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_allowance_is_what_is_documented() {
        let micros = Duration::from_micros;
        let policy = Policy::default();
        for (time, allowed) in
            [(1_000, 16), (500, 32), (250, 64), (100, 64), (0, 64), (1_250, 20), (1_000_000, 20)]
        {
            assert_eq!(policy.allowance(micros(time)), micros(allowed), "{time} µs");
        }
    }

    #[test]
    fn no_share_is_nothing() {
        for cpu in [0.0, -1.0, f64::NAN] {
            let policy = Policy { cpu, ..Policy::default() };
            assert_eq!(policy.allowance(Duration::from_micros(10)), Duration::ZERO);
        }
    }
}
