//! Probing of a path within its limits: accounting of sent, cost and discarded trains.

use std::time::Duration;

use super::rate_response::{RateResponse, rate_response};
use super::{Bounds, Broken, Cost, Estimate, Found, Limit, Method, Path, Phase, Step};
use crate::train::{Discarded, Seen, Trace, Train};
use crate::units::BitRate;

/// The ratio of offered to received rate from which a train has surely filled the path.
const SATURATING: f64 = 1.02;

/// The maximum share of the path's available capacity that is sent, on fast paths and on slow ones.
const SHARE_FAST: f64 = 0.045;
const SHARE: f64 = 0.4;

/// The capacity from which a path is fast, in bits per second: less than the intended 1 Gbit/s,
/// because it is an estimate. Before there is one, the received rate of an overloading train is
/// used, as other traffic may take much of the capacity.
const FAST: f64 = 0.6e9;
const FAST_RECEIVED: f64 = 0.1e9;

/// The maximum random extension of rests, relative to them: probes must not be in step with
/// periodic traffic.
const UNEVEN_PART: f64 = 0.1;

/// The minimum of that extension: some periods of iperf3's timer, 1 ms.
const UNEVEN: Duration = Duration::from_millis(3);

/// Why sending has ended.
#[derive(Debug)]
pub(super) enum End {
    /// The other side is gone.
    Broken(Broken),
    /// A limit is reached.
    Over(Limit),
}

/// The result of a train.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    /// The judged result, or why there is none.
    pub(super) judged: Result<Seen, Discarded>,
    /// The rate response regardless of that.
    pub(super) response: Option<RateResponse>,
}

impl Sent {
    /// The rate response if the train is not discarded.
    pub(super) fn clean(&self) -> Option<RateResponse> {
        self.judged.ok().and(self.response)
    }
}

/// The share of the path's available capacity that may be sent, by its capacity.
pub(super) fn share_at(capacity: f64) -> f64 {
    if is_fast(capacity) { SHARE_FAST } else { SHARE }
}

/// Whether a path of this capacity is a fast one.
pub(super) fn is_fast(capacity: f64) -> bool {
    capacity >= FAST
}

/// The same, by the received rate of a train that has overloaded it.
pub(super) fn share(received: f64) -> f64 {
    if received < FAST_RECEIVED { SHARE } else { SHARE_FAST }
}

/// A path that is being probed.
pub(super) struct Probing<'a> {
    path: &'a mut dyn Path,
    progress: &'a mut dyn FnMut(&Step),
    bounds: Bounds,
    begin: Duration,
    cost: Cost,
    discarded: Vec<(Discarded, u32)>,
    /// For each train, the offered rate, its length in seconds, and whether it was stretched.
    trains: Vec<(f64, f64, bool)>,
    /// The longest time from the end of a train to its answer.
    answer: Duration,
    /// The current phase.
    pub(super) phase: Phase,
    /// The current estimate of the available bandwidth.
    pub(super) so_far: Option<BitRate>,
    pub(super) random: fastrand::Rng,
}

impl<'a> Probing<'a> {
    pub(super) fn new(path: &'a mut dyn Path, progress: &'a mut dyn FnMut(&Step)) -> Self {
        let begin = path.elapsed();
        Self {
            bounds: path.bounds(),
            path,
            progress,
            begin,
            cost: Cost::default(),
            discarded: Vec::new(),
            trains: Vec::new(),
            answer: Duration::ZERO,
            phase: Phase::Searching,
            so_far: None,
            // Different on any two paths, but reproducible in a simulation.
            random: fastrand::Rng::with_seed(begin.as_nanos() as u64),
        }
    }

    pub(super) fn bounds(&self) -> Bounds {
        self.bounds
    }

    /// The time since the estimate began.
    pub(super) fn elapsed(&self) -> Duration {
        self.path.elapsed().saturating_sub(self.begin)
    }

    /// A train of the longest packets with at least this length and number of packets.
    pub(super) fn train(&self, rate: f64, lasting: Duration, packets: u32) -> Train {
        let rate = BitRate::per_second(rate.min(self.bounds.rate.bits()));
        let bytes = self.bounds.bytes;
        let gaps = (lasting.as_nanos() as f64 / rate.ns_of(bytes.into())).ceil();
        Train { packets: packets.max(gaps as u32 + 1), bytes, rate }
    }

    /// Sends a train if it is within the limits.
    pub(super) fn send(&mut self, train: &Train) -> Result<Sent, End> {
        self.send_and_see(train).map(|(sent, _)| sent)
    }

    /// The same, with all observations.
    pub(super) fn send_and_see(&mut self, train: &Train) -> Result<(Sent, Trace), End> {
        if self.cost.bytes + train.total_bytes() > self.bounds.total_bytes {
            return Err(End::Over(Limit::Bytes));
        }
        let length = Duration::from_nanos(train.length_ns());
        let before = self.elapsed();
        if before + length + self.answer > self.bounds.time {
            return Err(End::Over(Limit::Time));
        }
        let trace = self.path.send(train).map_err(End::Broken)?;
        let took = self.elapsed() - before;
        self.answer = self.answer.max(took.saturating_sub(length));
        self.cost.trains += 1;
        self.cost.bytes += trace.sent_ns.len() as u64 * u64::from(train.bytes);
        let trace = trace.on_time();
        let sent = Sent { judged: trace.judge(), response: rate_response(&trace) };
        self.cost.seconds = self.elapsed().as_secs_f64();
        if let Err(why) = sent.judged {
            match self.discarded.iter_mut().find(|(known, _)| *known == why) {
                Some((_, times)) => *times += 1,
                None => self.discarded.push((why, 1)),
            }
        }
        let offered = trace.seen().map_or(0.0, |seen| seen.offered.bits());
        // The path was busy with it for as long as it was under way.
        let ratio = match (sent.response, sent.judged) {
            (Some(response), _) => response.ratio,
            (None, Ok(seen)) => offered / seen.received.bits(),
            (None, Err(_)) => 1.0,
        };
        let full = sent.response.is_some_and(|it| it.overflowed.is_some());
        let lasting = length.as_secs_f64() * ratio.max(1.0);
        self.trains.push((offered, lasting, full || ratio > SATURATING));
        let Self { phase, so_far, cost, .. } = *self;
        (self.progress)(&Step { phase, train: *train, judged: sent.judged, so_far, cost });
        Ok((sent, trace))
    }

    /// Waits, if there is time for it.
    pub(super) fn rest(&mut self, time: Duration) -> Result<(), End> {
        if self.elapsed() + time > self.bounds.time {
            return Err(End::Over(Limit::Time));
        }
        self.path.rest(time);
        Ok(())
    }

    /// Waits until, with this train, no more than the allowed share of what the path would carry
    /// for us in that time has been sent, plus a small random time.
    pub(super) fn pace(&mut self, next: &Train, carries: f64, part: f64) -> Result<(), End> {
        let bytes = self.cost.bytes + next.total_bytes();
        let due = bytes as f64 * 8.0 / (carries * part) - next.length_ns() as f64 / 1e9;
        let wait = (due - self.elapsed().as_secs_f64()).max(0.0);
        let uneven = wait * UNEVEN_PART + UNEVEN.as_secs_f64();
        let wait = wait + uneven * self.random.f64();
        self.rest(Duration::try_from_secs_f64(wait).unwrap_or(Duration::MAX))
    }

    /// The resulting estimate.
    pub(super) fn finish(
        mut self,
        method: Method,
        found: Found,
        capacity: Option<BitRate>,
    ) -> Estimate {
        let discarded: u32 = self.discarded.iter().map(|(_, trains)| trains).sum();
        let found = match found {
            // The cause was not a lack of time.
            Found::Unknown { why: Limit::Time | Limit::Bytes }
                if 2 * discarded > self.cost.trains =>
            {
                Found::Unknown { why: Limit::Disturbed }
            }
            found => found,
        };
        let path = match &found {
            Found::Available { rate, .. } | Found::AtMost { rate } => rate.bits(),
            Found::AtLeast { .. } | Found::Unknown { .. } => f64::INFINITY,
        };
        let saturating = self.trains.iter().filter(|(rate, _, over)| *over || *rate >= path);
        self.cost.saturating_seconds = saturating.fold(0.0, |sum, (_, seconds, _)| sum + seconds);
        self.cost.seconds = self.elapsed().as_secs_f64();
        Estimate { method, found, capacity, cost: self.cost, discarded: self.discarded }
    }
}
