//! The rate response of a path: how much a train was stretched on its way.
//!
//! A queue that never empties while a train passes forwards its input, the train and the cross
//! traffic X, at its capacity C: for an offered rate R and a received rate r, R/r = (R + X) / C. It
//! is derived from the delays of packets that have arrived, so random losses and the offset of the
//! two clocks do not matter.

use crate::train::Trace;

/// The part of a train that only fills the queue, and the buckets of shapers, and is ignored.
const HEAD: f64 = 0.2;

/// The part of the evaluated packets whose mean delay represents one end: so a single packet
/// matters little, as does whether it came just before or just after a burst of other traffic.
const END: f64 = 0.2;

/// The minimum number of packets for an evaluation.
const FEWEST: usize = 8;

/// How close to the longest delay packets are lost for lack of room, relative to the range of
/// delays, and how many must be for it not to be chance: of four random losses, all are there in
/// one of a hundred trains.
const NEAR_FULL: f64 = 0.7;
const LOST: usize = 4;

/// What a train reveals about the path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateResponse {
    /// The sent rate in bits per second.
    pub offered: f64,
    /// The ratio of offered to received rate, behind the head.
    pub ratio: f64,
    /// The increase of that from the first half of the evaluated packets to the second.
    pub bend: f64,
    /// Set if packets were lost where the delay was longest because the queue was full: the growth
    /// of the delay until then, in seconds.
    pub overflowed: Option<f64>,
    /// The share that was lost.
    pub lost: f64,
    /// The sending time in seconds.
    pub seconds: f64,
}

impl RateResponse {
    /// The received rate in bits per second.
    #[must_use]
    pub fn received(&self) -> f64 {
        self.offered / self.ratio
    }
}

/// A packet that has arrived.
#[derive(Clone, Copy)]
struct Passed {
    packet: f64,
    sent: f64,
    delay: f64,
}

/// The response in a trace, if enough packets arrived.
#[must_use]
pub fn rate_response(trace: &Trace) -> Option<RateResponse> {
    let begin = *trace.sent_ns.first()?;
    let end = *trace.sent_ns.last()?;
    let mut passed: Vec<Passed> = trace
        .arrived
        .iter()
        .filter_map(|it| {
            let sent = trace.sent_ns.get(it.packet as usize)?;
            let [sent, at] = [sent - begin, it.at_ns - begin].map(|ns| ns as f64);
            Some(Passed { packet: it.packet.into(), sent, delay: at - sent })
        })
        .collect();
    passed.sort_by(|a, b| a.packet.total_cmp(&b.packet));
    let overflowed = overflow(&passed, trace.sent_ns.len());
    let whole = overflowed.map_or(passed.len(), |(first, _)| first);
    // If the queue was full at once, all packets.
    let of = if whole < FEWEST { &passed[..] } else { &passed[..whole] };
    let head = (of.last()?.sent * HEAD).min((end - begin) as f64 * HEAD);
    let of = &of[of.partition_point(|it| it.sent < head)..];
    if passed.len() < FEWEST || of.len() < 3 {
        return None;
    }
    let ends = ((of.len() as f64 * END) as usize).max(1);
    let middle = (of.len() - ends) / 2;
    let [a, b, c] = [0, middle, of.len() - ends].map(|from| center(&of[from..from + ends]));
    let stretched = |a: Passed, b: Passed| 1.0 + (b.delay - a.delay) / (b.sent - a.sent);
    let bytes = f64::from(trace.train.bytes);
    let mut ratio = stretched(a, c);
    if whole < FEWEST {
        // The delays no longer grow: the share of packets that arrived gives the ratio.
        ratio *= trace.sent_ns.len() as f64 / passed.len() as f64;
    }
    (c.sent > a.sent && ratio > 0.0).then(|| RateResponse {
        offered: (c.packet - a.packet) * bytes * 8e9 / (c.sent - a.sent),
        ratio,
        bend: if b.sent > a.sent { stretched(b, c) - stretched(a, b) } else { 0.0 },
        overflowed: overflowed.map(|(_, grown_ns)| grown_ns / 1e9),
        lost: 1.0 - passed.len() as f64 / trace.sent_ns.len() as f64,
        seconds: (end - begin) as f64 / 1e9,
    })
}

/// One packet that represents several.
fn center(of: &[Passed]) -> Passed {
    let mean = |what: fn(&Passed) -> f64| of.iter().map(what).sum::<f64>() / of.len() as f64;
    Passed { packet: mean(|it| it.packet), sent: mean(|it| it.sent), delay: mean(|it| it.delay) }
}

/// The number of arrivals before the first packet dropped by a full queue, and the growth of the
/// delay until then; none if the losses were independent of the delay.
fn overflow(passed: &[Passed], sent: usize) -> Option<(usize, f64)> {
    if passed.len() == sent || passed.is_empty() {
        return None;
    }
    let delays = || passed.iter().map(|it| it.delay);
    let shortest = delays().fold(f64::INFINITY, f64::min);
    let range = delays().fold(0.0, f64::max) - shortest;
    let gap = (passed.last()?.sent - passed[0].sent) / sent as f64;
    // The last arrivals before a lost packet.
    let is_lost = |pair: &[Passed]| pair[1].packet - pair[0].packet > 1.0;
    let mut before_lost = (1..passed.len()).filter(|at| is_lost(&passed[at - 1..=*at]));
    let first = before_lost.clone().next()?;
    let near = |at: usize| (passed[at - 1].delay - shortest) / range > NEAR_FULL;
    let many = before_lost.clone().count() >= LOST;
    // Below a few gaps it is not a queue that has filled.
    (range > 3.0 * gap && many && before_lost.all(near)).then_some((first, range))
}
