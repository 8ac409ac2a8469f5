//! A bottleneck: a queue and its cross traffic.

use crate::emulator::queue::Queue;
use eigentime_bandwidth::BitRate;

use super::cross::Stream;

/// The kinds of queues of a bottleneck.
#[derive(Clone, Debug)]
enum Server {
    /// A link.
    Link(Queue),
    /// A token bucket, as tbf: a burst passes at the rate of the underlying link, and then the
    /// bucket's rate applies.
    Bucket { link: Queue, rate: BitRate, burst: f64, full_at: f64, limit: u64 },
}

impl Server {
    fn enter(&mut self, now_ns: f64, bytes: u32) -> Option<f64> {
        match self {
            Self::Link(queue) => queue.enter(now_ns, bytes),
            Self::Bucket { link, rate, burst, full_at, limit } => {
                // Each packet advances the time at which the bucket would be full again.
                let full = full_at.max(now_ns) + rate.ns_of(bytes.into());
                let ready = (full - rate.ns_of(*burst)).max(now_ns);
                if (ready - now_ns) / rate.ns_of(1.0) > *limit as f64 {
                    return None;
                }
                *full_at = full;
                link.enter(ready, bytes)
            }
        }
    }
}

/// A bottleneck with its own cross traffic, which joins before it and leaves after it.
#[derive(Debug)]
pub(super) struct Hop {
    server: Server,
    rate: BitRate,
    limit: u64,
    pub(super) cross: Stream,
    /// When its rate changes, in nanoseconds, and to what.
    change: Option<(f64, BitRate)>,
    /// Its previous rates, and until when each applied.
    past: Vec<(f64, BitRate)>,
}

impl Hop {
    pub(super) fn new(rate: BitRate, limit: u64, cross: Stream) -> Self {
        let server = Server::Link(Queue::new(rate, limit));
        Self { server, rate, limit, cross, change: None, past: Vec::new() }
    }

    pub(super) fn limit_to(&mut self, limit: u64) {
        self.limit = limit;
        self.server = Server::Link(Queue::new(self.rate, limit));
    }

    pub(super) fn shape(&mut self, burst: u32, link: BitRate) {
        self.server = Server::Bucket {
            link: Queue::new(link, u64::MAX),
            rate: self.rate,
            burst: burst.into(),
            full_at: 0.0,
            limit: self.limit,
        };
    }

    pub(super) fn change_at(&mut self, at_ns: f64, rate: BitRate) {
        self.change = Some((at_ns, rate));
    }

    /// When a packet arriving now will have left, after all that arrived before it.
    pub(super) fn enter(&mut self, now_ns: f64, bytes: u32) -> Option<f64> {
        self.until(now_ns);
        self.server.enter(now_ns, bytes)
    }

    /// Adds all cross traffic that arrives by then.
    pub(super) fn until(&mut self, until_ns: f64) {
        if let Some((at, rate)) = self.change.filter(|(at, _)| *at <= until_ns) {
            self.change = None;
            self.until(at);
            self.past.push((at, self.rate));
            let waiting = match &self.server {
                Server::Link(queue) => queue.backlog_ns(at),
                Server::Bucket { link, .. } => link.backlog_ns(at),
            };
            let mut queue = Queue::new(rate, self.limit);
            let _ = queue.enter(at, (waiting / self.rate.ns_of(1.0)) as u32);
            self.rate = rate;
            self.server = Server::Link(queue);
        }
        let server = &mut self.server;
        self.cross.until(until_ns, |at, bytes| {
            let _ = server.enter(at, bytes);
        });
    }

    /// What it could still have carried between two times, on average.
    pub(super) fn available(&self, from_ns: f64, to_ns: f64) -> BitRate {
        let mut carried = 0.0;
        let mut begin = from_ns;
        for (until, rate) in self.past.iter().copied().chain([(f64::INFINITY, self.rate)]) {
            let end = to_ns.min(until).max(begin);
            carried += rate.bits() * (end - begin) / 8e9;
            begin = end;
        }
        let left = carried - self.cross.bytes_between(from_ns, to_ns);
        BitRate::of(left.max(0.0), to_ns - from_ns)
    }
}
