//! A simulated path for tests of methods: bottlenecks with cross traffic and imperfect hosts, whose
//! truth is known.

mod cross;
mod hop;
mod hosts;
mod timings;

pub use cross::{Cross, KINDS, SOURCES};
pub use timings::{TIMINGS, Timings};

use std::time::Duration;

use crate::emulator::queue::Queue;
use eigentime_bandwidth::BitRate;
use eigentime_bandwidth::methods::{Bounds, Broken, Path};
use eigentime_bandwidth::train::{Arrival, Host, Trace, Train};

use cross::Stream;
use hop::Hop;
use hosts::{Hosts, Stalls};

/// One or several bottlenecks with cross traffic, and two hosts.
#[derive(Debug)]
pub struct Simulated {
    hops: Vec<Hop>,
    hosts: Hosts,
    /// The share of packets lost after the bottlenecks.
    loss: f64,
    /// The share of packets overtaken, and their additional delay.
    overtaken: (f64, f64),
    /// The one-way delay, in addition to the queues.
    delay_ns: f64,
    random: fastrand::Rng,
    now_ns: f64,
    bounds: Bounds,
}

impl Simulated {
    /// A path of this capacity with this cross traffic, of packets of 1500 bytes, and room for what
    /// the capacity carries in 100 ms.
    #[must_use]
    pub fn new(capacity: BitRate, cross: BitRate, kind: Cross, seed: u64) -> Self {
        let bounds = Bounds {
            bytes: 1500,
            rate: BitRate::mega(100_000.0),
            time: Duration::from_secs(5),
            total_bytes: u64::MAX,
        };
        let limit = capacity.bytes_in(Duration::from_millis(100)) as u64;
        let mut random = fastrand::Rng::with_seed(seed);
        let stream = Stream::new(cross, kind, 1500, random.u64(..));
        Self {
            hops: vec![Hop::new(capacity, limit, stream)],
            hosts: Hosts::default(),
            loss: 0.0,
            overtaken: (0.0, 0.0),
            delay_ns: 1e6,
            random,
            now_ns: 0.0,
            bounds,
        }
    }

    /// With other limits.
    #[must_use]
    pub fn within(mut self, bounds: Bounds) -> Self {
        self.bounds = bounds;
        self
    }

    /// With timestamp errors of up to this much.
    #[must_use]
    pub fn jittered(mut self, ns: f64) -> Self {
        self.hosts.jitter_ns = ns;
        self
    }

    /// With cross traffic of packets with given times, in nanoseconds and in order, and bytes.
    #[must_use]
    pub fn replaying(mut self, packets: Vec<(f64, u32)>) -> Self {
        self.hops[0].cross = Stream::replaying(packets);
        self
    }

    /// With this one-way delay, in each direction.
    #[must_use]
    pub fn delayed(mut self, one_way: Duration) -> Self {
        self.delay_ns = one_way.as_nanos() as f64;
        self
    }

    /// With room for this many bytes before the bottleneck.
    #[must_use]
    pub fn buffered(mut self, bytes: u64) -> Self {
        self.hops[0].limit_to(bytes);
        self
    }

    /// With a bottleneck that is a token bucket of this many bytes, before a link of that rate.
    #[must_use]
    pub fn shaped(mut self, burst: u32, link: BitRate) -> Self {
        self.hops[0].shape(burst, link);
        self
    }

    /// With another bottleneck behind, with its own cross traffic.
    #[must_use]
    pub fn then(mut self, capacity: BitRate, cross: BitRate, kind: Cross) -> Self {
        let limit = capacity.bytes_in(Duration::from_millis(100)) as u64;
        let stream = Stream::new(cross, kind, 1500, self.random.u64(..));
        self.hops.push(Hop::new(capacity, limit, stream));
        self
    }

    /// With another capacity from a time on.
    #[must_use]
    pub fn changing(mut self, at: Duration, capacity: BitRate) -> Self {
        self.hops[0].change_at(at.as_nanos() as f64, capacity);
        self
    }

    /// With this part of the packets lost at random.
    #[must_use]
    pub fn losing(mut self, part: f64) -> Self {
        self.loss = part;
        self
    }

    /// With this part of the packets overtaken by those sent up to this much later.
    #[must_use]
    pub fn reordering(mut self, part: f64, by: Duration) -> Self {
        self.overtaken = (part, by.as_nanos() as f64);
        self
    }

    /// With a sender limited to this rate, for the longest packets.
    #[must_use]
    pub fn sending_at_most(mut self, rate: BitRate) -> Self {
        self.hosts.shortest_gap_ns = rate.ns_of(self.bounds.bytes.into());
        self
    }

    /// With a receiver limited to this rate, and with room for this many bytes.
    #[must_use]
    pub fn receiving_at_most(mut self, rate: BitRate, room: u64) -> Self {
        self.hosts.socket = Some(Queue::new(rate, room));
        self
    }

    /// With a sender preempted about that often, for this long.
    #[must_use]
    pub fn sender_stalling(mut self, every: Duration, lasting: Duration) -> Self {
        self.hosts.sender_stalls = Some(self.stalls(every, lasting));
        self
    }

    /// With a receiver that timestamps nothing about that often, for this long, and then everything
    /// at once.
    #[must_use]
    pub fn receiver_stalling(mut self, every: Duration, lasting: Duration) -> Self {
        self.hosts.receiver_stalls = Some(self.stalls(every, lasting));
        self
    }

    /// The actual available bandwidth between two times since the beginning: what the cross traffic
    /// has left of the tightest bottleneck.
    #[must_use]
    pub fn available(&self, from: Duration, to: Duration) -> BitRate {
        // An empty interval stands for its moment.
        let (from, to) = (from.as_nanos() as f64, to.as_nanos() as f64);
        let to = to.max(from + 1.0);
        let each = self.hops.iter().map(|hop| hop.available(from, to).bits());
        BitRate::per_second(each.fold(f64::INFINITY, f64::min))
    }

    fn stalls(&mut self, every: Duration, lasting: Duration) -> Stalls {
        let [every, lasting] = [every, lasting].map(|time| time.as_nanos() as f64);
        Stalls::new(every, lasting, self.random.u64(..))
    }

    fn hops_until_now(&mut self) {
        for hop in &mut self.hops {
            hop.until(self.now_ns);
        }
    }

    /// When a packet sent now has passed all bottlenecks; none if one had no room.
    fn through(&mut self, at: f64, bytes: u32) -> Option<f64> {
        self.hops.iter_mut().try_fold(at, |at, hop| hop.enter(at, bytes))
    }

    /// The arrival of a packet that left the last bottleneck.
    fn arrives(&mut self, left: f64) -> Option<f64> {
        if self.loss > 0.0 && self.random.f64() < self.loss {
            return None;
        }
        let (part, by) = self.overtaken;
        let late = if part > 0.0 && self.random.f64() < part { by } else { 0.0 };
        Some(left + self.delay_ns + late)
    }
}

impl Path for Simulated {
    fn send(&mut self, train: &Train) -> Result<Trace, Broken> {
        let begin = self.now_ns;
        let mut sent_ns = Vec::new();
        let mut came: Vec<(f64, u32)> = Vec::new();
        let mut last = f64::NEG_INFINITY;
        for packet in 0..train.packets {
            let at = self.hosts.leaves(begin + train.due_ns(packet) as f64, last);
            last = at;
            sent_ns.push(at as i64);
            let left = self.through(at, train.bytes.into());
            if let Some(at) = left.and_then(|left| self.arrives(left)) {
                came.push((at, packet));
            }
        }
        came.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut host = Host::default();
        let mut arrived: Vec<Arrival> = Vec::new();
        for (at, packet) in came {
            match self.hosts.stamped(at, train.bytes.into()) {
                Some(at) => {
                    let stamp = at + self.hosts.jitter_ns * self.random.f64();
                    let before = arrived.last().map_or(i64::MIN, |it| it.at_ns);
                    arrived.push(Arrival { packet, at_ns: (stamp as i64).max(before) });
                }
                None => host.overflowed += 1,
            }
        }
        // The answer returns after the last arrival, actual or expected.
        let end = arrived.last().map_or(last + self.delay_ns, |it| it.at_ns as f64);
        self.now_ns = end.max(last) + self.delay_ns;
        self.hops_until_now();
        Ok(Trace { train: *train, sent_ns, arrived, host })
    }

    fn bounds(&self) -> Bounds {
        self.bounds
    }

    fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.now_ns as u64)
    }

    fn rest(&mut self, time: Duration) {
        self.now_ns += time.as_nanos() as f64;
        self.hops_until_now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn train(mega: f64, packets: u32) -> Train {
        Train { packets, bytes: 1500, rate: BitRate::mega(mega) }
    }

    fn received(path: &mut Simulated, mega: f64, packets: u32) -> f64 {
        path.send(&train(mega, packets)).unwrap().seen().unwrap().received.bits() / 1e6
    }

    #[test]
    fn what_comes_through_is_what_a_queue_lets_through() {
        // Received = C R / (R + X) above A, everything below.
        for kind in KINDS {
            let new = || Simulated::new(BitRate::mega(1000.0), BitRate::mega(500.0), kind, 3);
            assert!((received(&mut new(), 300.0, 20_000) / 300.0 - 1.0).abs() < 0.02, "{kind:?}");
            let many = received(&mut new(), 1000.0, 20_000);
            assert!((many / 666.7 - 1.0).abs() < 0.08, "{kind:?}: {many}");
        }
    }

    #[test]
    fn the_truth_is_what_came() {
        for kind in KINDS {
            let mut path = Simulated::new(BitRate::mega(100.0), BitRate::mega(40.0), kind, 5);
            path.rest(Duration::from_secs(20));
            let all = path.available(Duration::ZERO, Duration::from_secs(20)).bits() / 1e6;
            assert!((all - 60.0).abs() < 4.0, "{kind:?}: {all}");
            let half = path.available(Duration::ZERO, Duration::from_secs(10)).bits() / 1e6;
            let rest =
                path.available(Duration::from_secs(10), Duration::from_secs(20)).bits() / 1e6;
            assert!(((half + rest) / 2.0 - all).abs() < 1e-6, "{kind:?}");
        }
        let path = Simulated::new(BitRate::mega(100.0), BitRate::ZERO, Cross::Even, 1);
        let mut path = path.changing(Duration::from_secs(1), BitRate::mega(40.0));
        path.rest(Duration::from_secs(4));
        let mean = path.available(Duration::ZERO, Duration::from_secs(4));
        assert!((mean.bits() / 1e6 - 55.0).abs() < 1e-6, "one second of 100, three of 40: {mean}");
        let path = Simulated::new(BitRate::mega(100.0), BitRate::mega(20.0), Cross::Even, 1);
        let mut path = path.then(BitRate::mega(90.0), BitRate::mega(30.0), Cross::Even);
        path.rest(Duration::from_secs(1));
        let least = path.available(Duration::ZERO, Duration::from_secs(1)).bits() / 1e6;
        assert!((least - 60.0).abs() < 0.1, "the second has least to spare: {least}");
    }

    #[test]
    fn a_token_bucket_lets_a_burst_through_and_then_its_rate() {
        let path = Simulated::new(BitRate::mega(100.0), BitRate::ZERO, Cross::Even, 1);
        let mut path = path.shaped(30_000, BitRate::mega(1000.0));
        let trace = path.send(&train(1000.0, 220)).unwrap();
        let gap = |at: usize| trace.arrived[at + 1].at_ns - trace.arrived[at].at_ns;
        // 1500 bytes take 12 µs on the link and 120 µs of tokens, some of which accrued meanwhile.
        assert!((11_999..=12_001).contains(&gap(5)), "{}", gap(5));
        assert!((119_999..=120_001).contains(&gap(100)), "{}", gap(100));
    }

    #[test]
    fn hosts_that_stall_or_are_slow_show() {
        let new = || Simulated::new(BitRate::mega(1000.0), BitRate::ZERO, Cross::Even, 2);
        let [often, long] = [2, 1].map(Duration::from_millis);
        let stalled = new().sender_stalling(often, long).send(&train(500.0, 2000)).unwrap();
        let late = |(packet, at): (usize, &i64)| at - stalled.train.due_ns(packet as u32) as i64;
        let worst = stalled.sent_ns.iter().enumerate().map(late).max().unwrap();
        assert!((900_000..1_300_000).contains(&worst), "{worst}");

        let stalled = new().receiver_stalling(often, long).send(&train(500.0, 2000)).unwrap();
        let gaps = stalled.arrived.windows(2).map(|pair| pair[1].at_ns - pair[0].at_ns);
        assert!(gaps.max().unwrap() > 900_000);

        let slow = new().sending_at_most(BitRate::mega(200.0)).send(&train(500.0, 100)).unwrap();
        assert!((slow.seen().unwrap().offered.bits() / 1e6 - 200.0).abs() < 0.1);

        let mut full = new().receiving_at_most(BitRate::mega(200.0), 30_000);
        assert!(full.send(&train(500.0, 1000)).unwrap().host.overflowed > 500);
        assert_eq!(full.send(&train(100.0, 1000)).unwrap().host.overflowed, 0);
    }

    #[test]
    fn packets_are_lost_and_overtaken_as_often_as_told() {
        let new = || Simulated::new(BitRate::mega(1000.0), BitRate::ZERO, Cross::Even, 4);
        let lossy = new().losing(0.1).send(&train(100.0, 10_000)).unwrap().seen().unwrap();
        assert!((800..1200).contains(&lossy.lost), "{}", lossy.lost);
        let mut mixed = new().reordering(0.1, Duration::from_micros(200));
        let mixed = mixed.send(&train(100.0, 10_000)).unwrap().seen().unwrap();
        assert!((800..1200).contains(&mixed.reordered), "{}", mixed.reordered);
        assert_eq!(mixed.lost, 0);
    }
}
