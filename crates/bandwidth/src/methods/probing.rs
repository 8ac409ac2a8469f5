//! Probing a path within its bounds: what was sent, what it cost, what was spoiled.

use std::time::Duration;

use super::rate_response::{RateResponse, rate_response};
use super::{Bounds, Broken, Cost, Estimate, Found, Limit, Method, Path, Phase, Step};
use crate::train::{Seen, Spoiled, Trace, Train};
use crate::units::BitRate;

/// From which ratio of offered to received on a train has surely filled the path.
const SATURATING: f64 = 1.02;

/// What part of what the path would carry for us is sent at most, on fast paths and on slow ones.
const SHARE_FAST: f64 = 0.045;
const SHARE: f64 = 0.4;

/// From which capacity on a path is fast, in bits per second: less than the 1 Gbit/s that are meant,
/// for it is an estimate. Before there is one: what an overloading train was received at, for much
/// of the capacity may be taken.
const FAST: f64 = 0.6e9;
const FAST_RECEIVED: f64 = 0.1e9;

/// By how much rests are longer than they have to be at most, as a part of them: what is sent must
/// not fall in step with traffic that comes at a period.
const UNEVEN_PART: f64 = 0.1;

/// And by how much in all cases: some periods of iperf3's timer, 1 ms.
const UNEVEN: Duration = Duration::from_millis(3);

/// Why nothing more is sent.
#[derive(Debug)]
pub(super) enum End {
    /// The other side is gone.
    Broken(Broken),
    /// The bounds are reached.
    Over(Limit),
}

/// What came of a train.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    /// What it says, or why it says nothing.
    pub(super) judged: Result<Seen, Spoiled>,
    /// What it would say.
    pub(super) response: Option<RateResponse>,
}

impl Sent {
    /// What it says of the path, if it is not spoiled.
    pub(super) fn clean(&self) -> Option<RateResponse> {
        self.judged.ok().and(self.response)
    }
}

/// What part of what the path would carry may be sent, by its capacity.
pub(super) fn share_at(capacity: f64) -> f64 {
    if is_fast(capacity) { SHARE_FAST } else { SHARE }
}

/// Whether a path of this capacity is a fast one.
pub(super) fn is_fast(capacity: f64) -> bool {
    capacity >= FAST
}

/// The same, by what a train was received at that has overloaded it.
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
    spoiled: Vec<(Spoiled, u32)>,
    /// What was offered, for how many seconds, and whether it was stretched.
    trains: Vec<(f64, f64, bool)>,
    /// How much longer than it is a train took at most, until its answer was there.
    answer: Duration,
    /// What is being done.
    pub(super) phase: Phase,
    /// What is held for the available bandwidth so far.
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
            spoiled: Vec::new(),
            trains: Vec::new(),
            answer: Duration::ZERO,
            phase: Phase::Searching,
            so_far: None,
            // Never the same on two paths, and always the same in a simulation.
            random: fastrand::Rng::with_seed(begin.as_nanos() as u64),
        }
    }

    pub(super) fn bounds(&self) -> Bounds {
        self.bounds
    }

    /// Since the estimate was begun.
    pub(super) fn elapsed(&self) -> Duration {
        self.path.elapsed().saturating_sub(self.begin)
    }

    /// A train of the longest packets, that lasts at least so long and has at least so many
    /// packets.
    pub(super) fn train(&self, rate: f64, lasting: Duration, packets: u32) -> Train {
        let rate = BitRate::per_second(rate.min(self.bounds.rate.bits()));
        let bytes = self.bounds.bytes;
        let gaps = (lasting.as_nanos() as f64 / rate.ns_of(bytes.into())).ceil();
        Train { packets: packets.max(gaps as u32 + 1), bytes, rate }
    }

    /// Sends a train, if it is within the bounds.
    pub(super) fn send(&mut self, train: &Train) -> Result<Sent, End> {
        self.send_and_see(train).map(|(sent, _)| sent)
    }

    /// The same, with all there is to see.
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
            match self.spoiled.iter_mut().find(|(known, _)| *known == why) {
                Some((_, times)) => *times += 1,
                None => self.spoiled.push((why, 1)),
            }
        }
        let offered = trace.seen().map_or(0.0, |seen| seen.offered.bits());
        // For as long as it was on its way, the path was busy with it.
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

    /// Waits until, with this train, no more than a part of what the path would carry for us in
    /// that time has been sent, and a little longer at random.
    pub(super) fn pace(&mut self, next: &Train, carries: f64, part: f64) -> Result<(), End> {
        let bytes = self.cost.bytes + next.total_bytes();
        let due = bytes as f64 * 8.0 / (carries * part) - next.length_ns() as f64 / 1e9;
        let wait = (due - self.elapsed().as_secs_f64()).max(0.0);
        let uneven = wait * UNEVEN_PART + UNEVEN.as_secs_f64();
        let wait = wait + uneven * self.random.f64();
        self.rest(Duration::try_from_secs_f64(wait).unwrap_or(Duration::MAX))
    }

    /// The estimate that it has come to.
    pub(super) fn finish(
        mut self,
        method: Method,
        found: Found,
        capacity: Option<BitRate>,
    ) -> Estimate {
        let spoiled: u32 = self.spoiled.iter().map(|(_, trains)| trains).sum();
        let found = match found {
            // It was not for want of time.
            Found::Unknown { why: Limit::Time | Limit::Bytes }
                if 2 * spoiled > self.cost.trains =>
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
        Estimate { method, found, capacity, cost: self.cost, spoiled: self.spoiled }
    }
}
