//! The emulator's observation of its own lateness.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// The time between two clock readings above which the loop was kept from its work. A packet takes
/// some 5 µs, so it is not the work itself.
pub const STALL_NS: i64 = 50_000;

/// The longest lateness that is resolved, a minute.
const LATEST_NS: u64 = 60_000_000_000;

/// A time in which the emulator did nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stall {
    /// The last clock reading before, on CLOCK_MONOTONIC in nanoseconds.
    pub from_ns: i64,
    /// The first one after.
    pub to_ns: i64,
}

impl Stall {
    /// Its length.
    #[must_use]
    pub fn ns(&self) -> i64 {
        self.to_ns - self.from_ns
    }
}

/// Watches the loop for stalls.
#[derive(Debug)]
pub struct Watch {
    last_ns: i64,
    late: Histogram<u64>,
    stalls: u64,
    stalled_ns: i64,
    longest_ns: i64,
}

/// The observed punctuality.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Punctuality {
    /// The median lateness of packets given to the other end, in nanoseconds.
    pub late_p50_ns: u64,
    /// The 99th percentile.
    pub late_p99_ns: u64,
    /// The maximum.
    pub late_max_ns: u64,
    /// The number of stalls.
    pub stalls: u64,
    /// Their total length.
    pub stalled_ns: i64,
    /// The longest one.
    pub longest_stall_ns: i64,
}

impl Watch {
    /// A watch that starts now.
    ///
    /// # Panics
    /// Never: the histogram's bounds are valid constants.
    #[must_use]
    pub fn new(now_ns: i64) -> Self {
        let late = Histogram::new_with_bounds(1, LATEST_NS, 2).expect("bounds that it takes");
        Self { last_ns: now_ns, late, stalls: 0, stalled_ns: 0, longest_ns: 0 }
    }

    /// Records a clock reading of the loop.
    pub fn look(&mut self, now_ns: i64) -> Option<Stall> {
        let stall = Stall { from_ns: self.last_ns, to_ns: now_ns };
        self.last_ns = now_ns;
        if stall.ns() <= STALL_NS {
            return None;
        }
        self.stalls += 1;
        self.stalled_ns += stall.ns();
        self.longest_ns = self.longest_ns.max(stall.ns());
        Some(stall)
    }

    /// Records that the loop slept intentionally until this time.
    pub fn rested(&mut self, until_ns: i64) {
        self.last_ns = self.last_ns.max(until_ns);
    }

    /// Records the lateness of a packet.
    pub fn late(&mut self, ns: u64) {
        self.late.saturating_record(ns.max(1));
    }

    /// The punctuality observed so far.
    #[must_use]
    pub fn punctuality(&self) -> Punctuality {
        Punctuality {
            late_p50_ns: self.late.value_at_quantile(0.5),
            late_p99_ns: self.late.value_at_quantile(0.99),
            late_max_ns: self.late.max(),
            stalls: self.stalls,
            stalled_ns: self.stalled_ns,
            longest_stall_ns: self.longest_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_stalls_unless_they_were_wanted() {
        let mut watch = Watch::new(0);
        assert_eq!(watch.look(STALL_NS), None);
        let stall = Stall { from_ns: STALL_NS, to_ns: 3 * STALL_NS };
        assert_eq!(watch.look(3 * STALL_NS), Some(stall));
        watch.rested(50 * STALL_NS);
        assert_eq!(watch.look(51 * STALL_NS), None, "it woke on time");
        watch.rested(60 * STALL_NS);
        assert!(watch.look(70 * STALL_NS).is_some(), "it woke late");
        for late in 1..=100 {
            watch.late(late * 100);
        }
        let seen = watch.punctuality();
        assert_eq!((seen.stalls, seen.stalled_ns, seen.longest_stall_ns), (2, 600_000, 500_000));
        assert!((4900..5200).contains(&seen.late_p50_ns), "{seen:?}");
        assert!((9800..10_200).contains(&seen.late_p99_ns), "{seen:?}");
    }
}
