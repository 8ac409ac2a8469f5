//! Cross traffic: when its packets arrive, and how much arrived in any span of time.

use std::collections::BinaryHeap;
use std::iter::Peekable;

use eigentime_bandwidth::BitRate;

/// The arrival pattern of cross traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cross {
    /// At even gaps.
    Even,
    /// At exponentially distributed gaps.
    Poisson,
    /// Every millisecond everything due at once, as iperf3 does with its timer.
    Bursts,
    /// From [`SOURCES`] that alternate between sending at even gaps and silence, for Pareto
    /// distributed times: the rate varies at every time scale.
    OnOff,
}

/// All patterns.
pub const KINDS: [Cross; 4] = [Cross::Even, Cross::Poisson, Cross::Bursts, Cross::OnOff];

/// From burst to burst: iperf3's `--pacing-timer`, 1 ms.
const BURST_NS: f64 = 1e6;

/// The number of on-off sources.
pub const SOURCES: u32 = 10;

/// The shape of the distributions of on and off times: 1.5, of infinite variance, as found for
/// Ethernet sources (Willinger et al. 1997).
const SHAPE: f64 = 1.5;

/// The shortest on or off time, in nanoseconds; the mean is three times as long at that shape.
const SHORTEST_NS: f64 = 2e6;

/// The bins in which arrivals are counted, in nanoseconds.
const BIN_NS: f64 = 1e6;

/// A future packet, ordered by time, the earliest being the greatest.
#[derive(Clone, Copy, Debug)]
struct Next {
    at: f64,
    source: u32,
    /// When the source stops sending.
    on_until: f64,
}

impl PartialEq for Next {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}
impl Eq for Next {}
impl PartialOrd for Next {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Next {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        other.at.total_cmp(&self.at).then(other.source.cmp(&self.source))
    }
}

/// A stream of packets, and the count of arrivals.
#[derive(Debug)]
pub(super) struct Stream {
    rate: BitRate,
    kind: Cross,
    bytes: u32,
    random: fastrand::Rng,
    next: BinaryHeap<Next>,
    /// Packets with given times: when each arrives, in nanoseconds, and its bytes.
    replayed: Peekable<std::vec::IntoIter<(f64, u32)>>,
    /// Bytes in each bin of [`BIN_NS`].
    came: Vec<f64>,
}

impl Stream {
    pub(super) fn new(rate: BitRate, kind: Cross, bytes: u32, seed: u64) -> Self {
        let mut stream = Self {
            rate,
            kind,
            bytes,
            random: fastrand::Rng::with_seed(seed),
            next: BinaryHeap::new(),
            replayed: Vec::new().into_iter().peekable(),
            came: Vec::new(),
        };
        if rate > BitRate::ZERO {
            let sources = if kind == Cross::OnOff { SOURCES } else { 1 };
            for source in 0..sources {
                // Each in the middle of a gap or time.
                let at = stream.random.f64() * stream.longest_gap_ns();
                let on_until = match kind {
                    Cross::OnOff if stream.random.bool() => at,
                    Cross::OnOff => at + stream.pareto_ns(),
                    _ => f64::INFINITY,
                };
                stream.next.push(Next { at, source, on_until });
            }
        }
        stream
    }

    /// A stream of packets with given times, in order.
    pub(super) fn replaying(packets: Vec<(f64, u32)>) -> Self {
        let replayed = packets.into_iter().peekable();
        Self { replayed, ..Self::new(BitRate::ZERO, Cross::Even, 0, 0) }
    }

    fn count(&mut self, at: f64, bytes: f64) {
        let bin = (at / BIN_NS) as usize;
        if self.came.len() <= bin {
            self.came.resize(bin + 1, 0.0);
        }
        self.came[bin] += bytes;
    }

    /// Passes each packet that arrives by then, with its time, in order.
    pub(super) fn until(&mut self, until_ns: f64, mut enter: impl FnMut(f64, u32)) {
        while let Some((at, bytes)) = self.replayed.next_if(|(at, _)| *at <= until_ns) {
            self.count(at, bytes.into());
            enter(at, bytes);
        }
        while let Some(next) = self.next.peek().copied().filter(|next| next.at <= until_ns) {
            self.next.pop();
            let (bytes, packets) = (f64::from(self.bytes), self.packets_at_once(next.at));
            self.count(next.at, bytes * f64::from(packets));
            for _ in 0..packets {
                enter(next.at, self.bytes);
            }
            let next = self.after(next);
            self.next.push(next);
        }
    }

    /// The number of bytes that arrived between two times, in nanoseconds.
    pub(super) fn bytes_between(&self, from_ns: f64, to_ns: f64) -> f64 {
        let part = |(bin, bytes): (usize, &f64)| {
            let begin = bin as f64 * BIN_NS;
            let inside = to_ns.min(begin + BIN_NS) - from_ns.max(begin);
            bytes * (inside / BIN_NS).clamp(0.0, 1.0)
        };
        self.came.iter().enumerate().map(part).sum()
    }

    /// The number of packets in a burst: on average as many as were due since the one before.
    fn packets_at_once(&self, at: f64) -> u32 {
        if self.kind != Cross::Bursts {
            return 1;
        }
        let due = |at: f64| self.rate.bits() * at / 8e9 / f64::from(self.bytes);
        (due(at).floor() - due((at - BURST_NS).max(0.0)).floor()) as u32
    }

    fn after(&mut self, now: Next) -> Next {
        let gap = self.rate.ns_of(self.bytes.into());
        let gap = match self.kind {
            Cross::Even => gap,
            Cross::Poisson => -gap * (1.0 - self.random.f64()).ln(),
            Cross::Bursts => BURST_NS,
            // Each sends half of the time.
            Cross::OnOff => gap * f64::from(SOURCES) / 2.0,
        };
        let (mut at, mut on_until) = (now.at + gap, now.on_until);
        while at > on_until {
            let begin = on_until + self.pareto_ns();
            on_until = begin + self.pareto_ns();
            at = begin + gap * self.random.f64();
        }
        Next { at, on_until, ..now }
    }

    fn pareto_ns(&mut self) -> f64 {
        SHORTEST_NS / (1.0 - self.random.f64()).powf(1.0 / SHAPE)
    }

    fn longest_gap_ns(&self) -> f64 {
        match self.kind {
            Cross::Bursts => BURST_NS,
            Cross::OnOff => 3.0 * SHORTEST_NS,
            Cross::Even | Cross::Poisson => self.rate.ns_of(self.bytes.into()),
        }
    }
}
