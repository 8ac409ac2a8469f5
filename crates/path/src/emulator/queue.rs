//! The queue of a bottleneck: first in, first out, at a known rate, with a limit.
//!
//! It is pure arithmetic with time as an input: the emulator passes the host's time, a simulation
//! its own.

use super::capacity::Capacity;
use eigentime_bandwidth::BitRate;

/// The queue before a link.
#[derive(Clone, Debug)]
pub struct Queue {
    capacity: Capacity,
    /// The maximum number of waiting bytes.
    limit: u64,
    /// When the last accepted packet will have left, in nanoseconds.
    free_at: f64,
}

impl Queue {
    /// An empty queue.
    #[must_use]
    pub fn new(rate: BitRate, limit: u64) -> Self {
        Self::changing(Capacity::constant(rate), limit)
    }

    /// An empty queue before a link whose capacity changes.
    #[must_use]
    pub fn changing(capacity: Capacity, limit: u64) -> Self {
        Self { capacity, limit, free_at: 0.0 }
    }

    /// When a packet arriving now will have left, in nanoseconds; none if there is no room and it
    /// is dropped. Times must not decrease between calls.
    pub fn enter(&mut self, now_ns: f64, bytes: u32) -> Option<f64> {
        if self.waiting(now_ns) + f64::from(bytes) > self.limit as f64 {
            return None;
        }
        self.free_at = self.capacity.done(self.free_at.max(now_ns), bytes.into());
        Some(self.free_at)
    }

    /// How long a packet arriving now would wait, in nanoseconds.
    #[must_use]
    pub fn backlog_ns(&self, now_ns: f64) -> f64 {
        (self.free_at - now_ns).max(0.0)
    }

    /// The number of bytes that have not left yet.
    #[must_use]
    pub fn waiting(&self, now_ns: f64) -> f64 {
        self.capacity.bytes(now_ns, self.free_at)
    }

    /// The link's capacity.
    #[must_use]
    pub fn capacity(&self) -> &Capacity {
        &self.capacity
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn packets_leave_in_order_at_the_rate_and_no_more_wait_than_may() {
        // 1 Gbit/s: 12 µs for 1500 bytes; room for two.
        let mut queue = Queue::new(BitRate::mega(1000.0), 3000);
        assert_eq!(queue.enter(0.0, 1500), Some(12_000.0));
        assert_eq!(queue.enter(0.0, 1500), Some(24_000.0));
        assert_eq!(queue.enter(0.0, 1500), None, "3000 bytes wait already");
        assert_eq!(queue.enter(12_000.0, 1500), Some(36_000.0));
        assert!((queue.backlog_ns(30_000.0) - 6_000.0).abs() < 1e-6);
        assert_eq!(queue.enter(100_000.0, 1500), Some(112_000.0), "an idle link begins at once");
    }

    #[test]
    fn what_waits_leaves_at_the_new_capacity() {
        let capacity =
            Capacity::constant(BitRate::mega(1000.0)).then(12_000.0, BitRate::mega(100.0));
        let mut queue = Queue::changing(capacity, 100_000);
        assert_eq!(queue.enter(0.0, 1500), Some(12_000.0));
        assert_eq!(queue.enter(0.0, 1500), Some(132_000.0));
        assert_eq!(queue.waiting(72_000.0), 750.0);
    }

    proptest! {
        /// First in, first out, never faster than the link, never idle while something waits, and
        /// never above its limit.
        #[test]
        fn a_queue_is_a_queue(
            packets in prop::collection::vec((0.0..50_000.0f64, 64u32..9000), 1..200),
            mega in 1.0..10_000.0f64,
            limit in 9000u64..100_000,
        ) {
            let rate = BitRate::mega(mega);
            let mut queue = Queue::new(rate, limit);
            let (mut now, mut last) = (0.0, 0.0f64);
            for (gap, bytes) in packets {
                now += gap;
                let waiting = queue.waiting(now);
                match queue.enter(now, bytes) {
                    Some(left) => {
                        let due = last.max(now) + rate.ns_of(bytes.into());
                        prop_assert!((left - due).abs() < 1e-3, "{left}, not {due}");
                        prop_assert!(queue.waiting(now) <= limit as f64 + 1e-3);
                        last = left;
                    }
                    None => prop_assert!(waiting + f64::from(bytes) > limit as f64),
                }
            }
        }
    }
}
