//! The rate response of a path: by how much a train was stretched on its way.
//!
//! A queue that never empties while a train passes lets through what comes, the train and the cross
//! traffic X, at its capacity C: offered R, received r, it is R/r = (R + X) / C. That is taken from
//! the delays of packets that have arrived, and so it does not matter which were lost at random,
//! nor how the two clocks stand.

use crate::train::Trace;

/// The part of a train that only fills the queue, and the buckets of shapers, and says nothing.
const HEAD: f64 = 0.2;

/// The part of what is looked at whose mean delay stands for one end of it: what befell one packet
/// does not matter much, nor whether it came just before or just behind a burst of other traffic.
const END: f64 = 0.2;

/// The fewest packets that say anything.
const FEWEST: usize = 8;

/// How near to the longest delay packets are lost for want of room, as a part of the delays' range,
/// and how many have to be, for it not to be by chance: of four that are lost at random, all are
/// lost then in one of a hundred trains.
const NEAR_FULL: f64 = 0.7;
const LOST: usize = 4;

/// What a train says of the path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateResponse {
    /// Bits per second, as they left.
    pub offered: f64,
    /// Offered by received, behind the head.
    pub ratio: f64,
    /// By how much that is more in the second half of what was looked at than in the first.
    pub bend: f64,
    /// Packets were lost where the delay was longest, for the queue was full: by how much the delay
    /// had grown until then, in seconds.
    pub overflowed: Option<f64>,
    /// What part was lost.
    pub lost: f64,
    /// For how long it was sent, in seconds.
    pub seconds: f64,
}

impl RateResponse {
    /// Bits per second, as they came.
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

/// What a trace says, if enough packets came.
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
    // Of a queue that was full at once, all there is.
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
        // The delays do not grow any more: what came of what was sent says it.
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

/// One for several.
fn center(of: &[Passed]) -> Passed {
    let mean = |what: fn(&Passed) -> f64| of.iter().map(what).sum::<f64>() / of.len() as f64;
    Passed { packet: mean(|it| it.packet), sent: mean(|it| it.sent), delay: mean(|it| it.delay) }
}

/// How many had arrived before the first that was dropped by a full queue, and by how much the delay
/// had grown then; none if what was lost was lost whatever the delay was.
fn overflow(passed: &[Passed], sent: usize) -> Option<(usize, f64)> {
    if passed.len() == sent || passed.is_empty() {
        return None;
    }
    let delays = || passed.iter().map(|it| it.delay);
    let shortest = delays().fold(f64::INFINITY, f64::min);
    let range = delays().fold(0.0, f64::max) - shortest;
    let gap = (passed.last()?.sent - passed[0].sent) / sent as f64;
    // Those that arrived last before one that did not.
    let is_lost = |pair: &[Passed]| pair[1].packet - pair[0].packet > 1.0;
    let mut before_lost = (1..passed.len()).filter(|at| is_lost(&passed[at - 1..=*at]));
    let first = before_lost.clone().next()?;
    let near = |at: usize| (passed[at - 1].delay - shortest) / range > NEAR_FULL;
    let many = before_lost.clone().count() >= LOST;
    // Below a few gaps it is no queue that has filled.
    (range > 3.0 * gap && many && before_lost.all(near)).then_some((first, range))
}
