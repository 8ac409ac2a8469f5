//! One direction of the path: the fate of a packet that arrives at a given time. Pure arithmetic.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::capacity::Capacity;
use super::cross::{Cross, Traffic};
use super::flow::Flow;
use super::queue::Queue;
use eigentime_bandwidth::BitRate;

/// The settings of one direction of the path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// The initial capacity.
    pub capacity: BitRate,
    /// The changes of the capacity, with their times.
    pub changes: Vec<(Duration, BitRate)>,
    /// The limit of the queue.
    pub queue: Limit,
    /// The delay, in addition to the queue.
    pub delay: Duration,
    /// The share of packets lost after the queue.
    pub loss: f64,
    /// The share of packets delayed and overtaken.
    pub reorder: f64,
    /// Their additional delay.
    pub reorder_by: Duration,
    /// The longest IP packet that it carries, if shorter than the interfaces accept.
    pub mtu: Option<u32>,
    /// The cross traffic.
    pub cross: Option<Traffic>,
    /// The random seed.
    pub seed: u64,
}

impl Settings {
    /// The maximum number of bytes under way, in the queue and after it.
    #[must_use]
    pub fn under_way(&self) -> u64 {
        let rates = self.changes.iter().map(|(_, rate)| rate.bits());
        let fastest = BitRate::per_second(rates.fold(self.capacity.bits(), f64::max));
        let on_the_line = fastest.bytes_in(self.delay + self.reorder_by);
        self.queue.bytes(self.capacity) + on_the_line as u64
    }
}

/// The limit of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// This many bytes.
    Bytes(u64),
    /// What the initial capacity carries in this time.
    Time(Duration),
}

impl Limit {
    /// The limit in bytes.
    #[must_use]
    pub fn bytes(self, capacity: BitRate) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Time(time) => capacity.bytes_in(time) as u64,
        }
    }
}

/// The fate of a packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fate {
    /// It is due at the other end at this time, in nanoseconds.
    Due(f64),
    /// It is dropped.
    Dropped,
}

/// One direction of the path. Times are nanoseconds since the path began, and never go back.
#[derive(Debug)]
pub struct Way {
    queue: Queue,
    cross: Option<Cross>,
    random: fastrand::Rng,
    delay_ns: f64,
    loss: f64,
    reorder: f64,
    reorder_by_ns: f64,
    mtu: u32,
    /// The latest time passed to it.
    last_ns: f64,
    /// The events since the span began.
    flow: Flow,
}

impl Way {
    /// A direction with nothing under way.
    #[must_use]
    pub fn new(settings: &Settings) -> Self {
        let first = Capacity::constant(settings.capacity);
        let capacity = settings
            .changes
            .iter()
            .fold(first, |capacity, (at, rate)| capacity.then(at.as_nanos() as f64, *rate));
        let mut random = fastrand::Rng::with_seed(settings.seed);
        let cross = settings.cross.map(|traffic| Cross::new(traffic, 0.0, random.u64(..)));
        Self {
            queue: Queue::changing(capacity, settings.queue.bytes(settings.capacity)),
            cross,
            random,
            delay_ns: settings.delay.as_nanos() as f64,
            loss: settings.loss,
            reorder: settings.reorder,
            reorder_by_ns: settings.reorder_by.as_nanos() as f64,
            mtu: settings.mtu.unwrap_or(u32::MAX),
            last_ns: 0.0,
            flow: Flow::default(),
        }
    }

    /// Handles an arriving packet. One passed too late, because it was timestamped on another
    /// processor, arrives together with the last one.
    pub fn meet(&mut self, at_ns: f64, bytes: u32) -> Fate {
        self.advance(at_ns);
        self.flow.arrived.add(bytes);
        if bytes > self.mtu {
            self.flow.oversize.add(bytes);
            return Fate::Dropped;
        }
        let Some(left) = self.queue.enter(self.last_ns, bytes) else {
            self.flow.dropped.add(bytes);
            return Fate::Dropped;
        };
        if self.random.f64() < self.loss {
            self.flow.lost.add(bytes);
            return Fate::Dropped;
        }
        let held_back = self.random.f64() < self.reorder;
        let more = if held_back { self.reorder_by_ns } else { 0.0 };
        Fate::Due(left + self.delay_ns + more)
    }

    /// Adds all cross traffic that arrives by then.
    pub fn advance(&mut self, until_ns: f64) {
        self.last_ns = self.last_ns.max(until_ns);
        let Some(cross) = &mut self.cross else { return };
        let bytes = cross.bytes();
        while let Some(at) = cross.next_before(self.last_ns) {
            let entered = self.queue.enter(at, bytes).is_some();
            let count = if entered { &mut self.flow.cross } else { &mut self.flow.cross_dropped };
            count.add(bytes);
        }
    }

    /// Records a packet given to the other end, and its lateness.
    pub fn sent(&mut self, bytes: u32, late_ns: u64) {
        self.flow.sent.add(bytes);
        self.flow.latest_ns = self.flow.latest_ns.max(late_ns);
    }

    /// Records a packet that the other end's kernel did not accept.
    pub fn refused(&mut self, bytes: u32) {
        self.flow.refused.add(bytes);
    }

    /// Records packets for which the host had no room: the emulator has never seen them.
    pub fn missed(&mut self, packets: u64) {
        self.flow.missed += packets;
    }

    /// The events from one time to the other, which must be the latest.
    pub fn close(&mut self, from_ns: f64, to_ns: f64) -> Flow {
        self.advance(to_ns);
        let carries = self.queue.capacity().bytes(from_ns, to_ns);
        let capacity = BitRate::of(carries, to_ns - from_ns);
        let waiting = self.queue.waiting(to_ns).round() as u64;
        Flow { capacity, waiting, ..std::mem::take(&mut self.flow) }
    }

    /// The minimum transit time of a packet that arrives now, in nanoseconds.
    #[must_use]
    pub fn least_ns(&self) -> f64 {
        self.delay_ns
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::flow::Count;
    use super::*;

    fn plain(capacity: BitRate) -> Settings {
        Settings {
            capacity,
            changes: Vec::new(),
            queue: Limit::Bytes(1_000_000),
            delay: Duration::from_millis(1),
            loss: 0.0,
            reorder: 0.0,
            reorder_by: Duration::from_micros(200),
            mtu: Some(1500),
            cross: None,
            seed: 1,
        }
    }

    #[test]
    fn a_packet_takes_the_queue_and_the_delay() {
        let mut way = Way::new(&plain(BitRate::mega(1000.0)));
        assert_eq!(way.meet(0.0, 1500), Fate::Due(1_012_000.0));
        assert_eq!(way.meet(1_000.0, 1500), Fate::Due(1_024_000.0));
        assert_eq!(way.meet(500.0, 1500), Fate::Due(1_036_000.0), "stamped before, told after");
        assert_eq!(way.meet(40_000.0, 1501), Fate::Dropped);
        way.sent(1500, 700);
        let flow = way.close(0.0, 40_000.0);
        assert_eq!(flow.arrived, Count { packets: 4, bytes: 6001 });
        assert_eq!(flow.oversize, Count { packets: 1, bytes: 1501 });
        assert_eq!((flow.sent.packets, flow.latest_ns, flow.waiting), (1, 700, 0));
        assert_eq!(flow.capacity, BitRate::mega(1000.0));
        assert_eq!(way.close(40_000.0, 41_000.0).arrived, Count::default());
    }

    #[test]
    fn loss_and_reordering_are_as_frequent_as_asked() {
        let settings = Settings { loss: 0.1, reorder: 0.2, ..plain(BitRate::mega(1000.0)) };
        let mut way = Way::new(&settings);
        let (mut lost, mut late) = (0, 0);
        for packet in 0..10_000 {
            let at = f64::from(packet) * 20_000.0;
            match way.meet(at, 1500) {
                Fate::Dropped => lost += 1,
                Fate::Due(due) => late += u32::from(due - at > 1_100_000.0),
            }
        }
        // Five standard deviations: 150 of the one, 190 of the other.
        assert!((850..1150).contains(&lost), "{lost}");
        assert!((1610..1990).contains(&late), "{late}");
    }

    /// The fluid model: each gets a share of a full queue in proportion to what it offers.
    #[test]
    fn cross_traffic_takes_its_share() {
        let cross: Traffic = "cbr:100M".parse().unwrap();
        let settings = Settings { cross: Some(cross), ..plain(BitRate::mega(300.0)) };
        let mut way = Way::new(&settings);
        // 250 Mbit/s for 48 ms: 1000 packets.
        let mut last = 0.0;
        let mut first = None;
        for packet in 0..1000 {
            let Fate::Due(due) = way.meet(f64::from(packet) * 48_000.0, 1500) else { panic!() };
            first.get_or_insert(due);
            last = due;
        }
        let got = BitRate::of(999.0 * 1500.0, last - first.unwrap()).bits();
        let expected = 250e6 * 300.0 / 350.0;
        assert!((got / expected - 1.0).abs() < 0.003, "{got}, not {expected}");
        let flow = way.close(0.0, 48e6);
        assert!((flow.cross.bytes as f64 / 600_000.0 - 1.0).abs() < 0.003, "{flow:?}");
    }

    #[test]
    fn what_may_be_under_way_is_the_queue_and_the_line() {
        let second = Duration::from_secs(1);
        let settings = Settings {
            changes: vec![(second, BitRate::mega(2000.0)), (2 * second, BitRate::mega(10.0))],
            queue: Limit::Time(Duration::from_millis(10)),
            ..plain(BitRate::mega(1000.0))
        };
        // 10 ms at 1 Gbit/s, and 1.2 ms at 2 Gbit/s.
        assert_eq!(settings.under_way(), 1_250_000 + 300_000);
    }

    proptest! {
        /// Every arrival is under way, dropped or lost, and no byte is forgotten.
        #[test]
        fn nothing_is_forgotten(
            packets in prop::collection::vec((0.0..100_000.0f64, 64u32..2000), 1..300),
            loss in 0.0..1.0f64,
            cross in prop::option::of("(cbr|poisson|pareto):[1-9]0M"),
            seed: u64,
        ) {
            let settings = Settings {
                loss,
                seed,
                queue: Limit::Bytes(10_000),
                cross: cross.map(|it| it.parse().unwrap()),
                ..plain(BitRate::mega(50.0))
            };
            let mut way = Way::new(&settings);
            let (mut now, mut due) = (0.0, Count::default());
            let mut last = 0.0;
            for (gap, bytes) in packets {
                now += gap;
                if let Fate::Due(at) = way.meet(now, bytes) {
                    prop_assert!(at > last, "first in, first out");
                    last = at;
                    due.add(bytes);
                }
            }
            let flow = way.close(0.0, now + 1.0);
            let gone = [flow.dropped, flow.lost, flow.oversize, due];
            prop_assert_eq!(flow.arrived.packets, gone.iter().map(|it| it.packets).sum::<u64>());
            prop_assert_eq!(flow.arrived.bytes, gone.iter().map(|it| it.bytes).sum::<u64>());
        }
    }
}
