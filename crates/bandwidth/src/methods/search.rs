//! The initial search for a range: short trains, each twice as fast as the previous one, until one
//! is stretched on its way.
//!
//! The received rate of a train that overloads the path is an upper bound of the available
//! bandwidth: it is C R / (R + X), which is never less than C − X because R is not.

use std::time::Duration;

use super::probing::{End, Probing};
use super::rate_response::RateResponse;
use super::robust::median;
use super::{Broken, Estimate, Found, Limit, Method, Path, Phase, Step};
use crate::train::Discarded;
use crate::units::BitRate;

/// The first rate, if it is allowed, in bits per second: any present-day path carries it.
const FIRST: f64 = 10e6;

/// The ratio of one rate to the next.
const FASTER: f64 = 2.0;

/// The minimum length of a train: some periods of traffic that comes every millisecond.
const LASTING: Duration = Duration::from_millis(3);

/// How many times longer the train is that confirms a stretched one: a burst of other traffic at
/// its end also stretches a train.
const CONFIRMING: u32 = 3;

/// The minimum number of packets.
const PACKETS: u32 = 20;

/// The minimum stretch of an overloading train, for short trains.
const STRETCHED: f64 = 0.05;

/// The same for the average of [`AT_CEILING`] trains at the highest possible rate.
const STRETCHED_AT_CEILING: f64 = 0.015;

/// The number of trains that decide whether the highest rate comes through whole.
const AT_CEILING: usize = 5;

/// The maximum ratio of offered to received rate for the range to be useful.
const FAR_ABOVE: f64 = 3.0;

/// How much more may come through whole than the received rate of a faster train.
const NO_QUEUE: f64 = 1.3;

/// How many times longer trains are if that was exceeded, and their maximum length.
const LONGER: u32 = 4;
const LONGEST: Duration = Duration::from_millis(50);

/// The maximum number of consecutive discarded trains.
const TRIES: u32 = 16;

/// The maximum ratio between the rates of a sender at its limit.
const SAME: f64 = 1.05;

/// A ratio of rates too small to be worth narrowing further towards a receiver's limit.
const NEAR_ENOUGH: f64 = 1.15;

/// A ratio above the received rate of trains that is surely more than A, since they vary.
const BOUND: f64 = 1.05;

/// The ratio of a lower rate that is worth another try.
const SLOWER: f64 = 0.8;

/// The maximum part of a train's packets that may be reordered for its stretch to be trusted.
const SHUFFLED: f64 = 0.25;

/// The number of packets of two trains that must arrive to show a far slower path.
const FEW: usize = 2;

/// How much more than at lower rates must be lost to be caused by the rate.
const DROPPED: f64 = 0.25;

/// The maximum time between two trains, for queues to drain and to avoid running in step with
/// anything.
const PAUSE: Duration = Duration::from_millis(4);

/// The result of the search.
#[derive(Debug)]
enum Searched {
    /// A range, in bits per second.
    Range(Range),
    /// A final result.
    Done(Found),
}

/// The range of the available bandwidth.
#[derive(Clone, Copy, Debug)]
pub(super) struct Range {
    /// The rate that came through whole.
    pub(super) clean: f64,
    /// The rate that did not.
    pub(super) offered: f64,
    /// The rate at which that was received.
    pub(super) received: f64,
    /// An upper bound, from the received rates of all such trains.
    pub(super) bound: f64,
    /// The response of the train that showed this, if any.
    pub(super) met: Option<RateResponse>,
    /// The highest rate that can be sent and received.
    pub(super) ceiling: f64,
}

impl Range {
    /// The result of the search alone.
    pub(super) fn known(&self) -> Found {
        at_most(self.bound)
    }
}

fn at_most(rate: f64) -> Found {
    Found::AtMost { rate: BitRate::per_second(rate) }
}

/// The start of a method.
pub(super) enum Begun<'a> {
    /// A path, and the range to measure in.
    In(Probing<'a>, Range),
    /// Nothing more to measure.
    Over(Estimate),
}

/// Searches the range of a path for a method.
pub(super) fn begin<'a>(
    method: Method,
    path: &'a mut dyn Path,
    progress: &'a mut dyn FnMut(&Step),
) -> Result<Begun<'a>, Broken> {
    let mut probing = Probing::new(path, progress);
    let found = match search(&mut probing) {
        Ok(Searched::Range(range)) => {
            probing.phase = Phase::Measuring;
            return Ok(Begun::In(probing, range));
        }
        Ok(Searched::Done(found)) => found,
        Err(End::Over(why)) => Found::Unknown { why },
        Err(End::Broken(broken)) => return Err(broken),
    };
    Ok(Begun::Over(probing.finish(method, found, None)))
}

/// The response to a rate.
enum Answer {
    /// It came through.
    Whole(RateResponse),
    /// It was stretched, and no more than this is available.
    Stretched(RateResponse, f64),
    /// Much of it was dropped, and what arrived had not been queued.
    Dropped,
    /// The sender cannot exceed this rate.
    Slow(f64),
    /// The receiver was overloaded.
    Full,
    /// So few packets arrived that only their own rate is known.
    Few(f64),
    /// Nothing arrived.
    Silent,
    /// Every train was disturbed.
    Disturbed,
}

/// Searches the range.
fn search(probing: &mut Probing) -> Result<Searched, End> {
    let allowed = probing.bounds().rate.bits();
    let mut search = Search {
        ceiling: allowed,
        limit: Limit::Allowed,
        lasting: LASTING,
        clean: None,
        bound: None,
        dropped: None,
        lost: 0.0,
    };
    match search.climb(probing) {
        // The time or byte limit is reached.
        Err(End::Over(limit)) => Ok(Searched::Done(match (search.clean, search.bound) {
            (_, Some(bound)) => at_most(bound),
            (Some(rate), None) => Found::AtLeast { rate: BitRate::per_second(rate), limit },
            (None, None) => Found::Unknown { why: limit },
        })),
        other => other,
    }
}

struct Search {
    ceiling: f64,
    /// The cause of the ceiling.
    limit: Limit,
    /// The length of trains.
    lasting: Duration,
    /// The highest rate received whole.
    clean: Option<f64>,
    /// An upper bound of A: the received rates of stretched trains.
    bound: Option<f64>,
    /// The lowest rate of which much was dropped.
    dropped: Option<f64>,
    /// The loss at the rates received whole.
    lost: f64,
}

impl Search {
    fn climb(&mut self, probing: &mut Probing) -> Result<Searched, End> {
        let unknown = |why| Ok(Searched::Done(Found::Unknown { why }));
        let mut rate = FIRST.min(self.ceiling);
        loop {
            match self.ask(probing, rate, STRETCHED)? {
                Answer::Whole(response) => {
                    self.whole(response);
                    if rate >= self.ceiling || self.near_a_full_receiver() {
                        return self.at_ceiling(probing);
                    }
                    if let Some(dropped) = self.dropped.filter(|it| *it < rate * NEAR_ENOUGH) {
                        return Ok(Searched::Done(at_most(dropped)));
                    }
                    rate = self.next(rate);
                }
                Answer::Stretched(response, bound) => {
                    let received = response.received();
                    self.bound = Some(bound.min(self.bound.unwrap_or(bound)));
                    if self.clean.is_some_and(|clean| clean > received * NO_QUEUE)
                        && self.lasting < LONGEST
                    {
                        // What came through whole was absorbed by a shaper's bucket.
                        self.clean = None;
                        self.lasting *= LONGER;
                        rate = received;
                    } else if self.clean.is_none() && response.offered > FAR_ABOVE * received {
                        rate = received * FAR_ABOVE.sqrt();
                    } else {
                        return Ok(self.range(response, bound));
                    }
                }
                Answer::Dropped => {
                    self.dropped = Some(rate);
                    match self.clean {
                        // A queue no longer than a burst: trains do not reveal it.
                        Some(clean) if rate > clean * NEAR_ENOUGH => rate = (rate * clean).sqrt(),
                        _ => return Ok(Searched::Done(at_most(rate))),
                    }
                }
                // Most of what is slow arrives after the receiver has stopped listening.
                Answer::Few(received) if received * FAR_ABOVE.sqrt() < rate * SLOWER => {
                    rate = received * FAR_ABOVE.sqrt();
                }
                Answer::Few(_) => return unknown(Limit::Silent),
                Answer::Slow(most) => {
                    self.ceiling = most;
                    self.limit = Limit::Sender;
                    return self.at_ceiling(probing);
                }
                Answer::Full => {
                    self.ceiling = rate;
                    self.limit = Limit::Receiver;
                    match self.clean {
                        None => return unknown(Limit::Receiver),
                        Some(_) if self.near_a_full_receiver() => {
                            return self.at_ceiling(probing);
                        }
                        Some(clean) => rate = self.next(clean),
                    }
                }
                Answer::Silent => return unknown(Limit::Silent),
                Answer::Disturbed => return unknown(Limit::Disturbed),
            }
        }
    }

    /// The next rate above one that came through whole.
    fn next(&self, rate: f64) -> f64 {
        match (self.limit, self.dropped) {
            (Limit::Receiver, _) => (rate * self.ceiling).sqrt(),
            (_, Some(dropped)) => (rate * dropped).sqrt(),
            _ => (rate * FASTER).min(self.ceiling),
        }
    }

    fn near_a_full_receiver(&self) -> bool {
        let near = |clean| self.ceiling < clean * NEAR_ENOUGH;
        self.limit == Limit::Receiver && self.clean.is_some_and(near)
    }

    fn whole(&mut self, response: RateResponse) {
        self.clean = Some(response.offered.max(self.clean.unwrap_or(0.0)));
        self.lost = response.lost;
    }

    fn range(&self, response: RateResponse, bound: f64) -> Searched {
        Searched::Range(Range {
            clean: self.clean.unwrap_or(0.0),
            offered: response.offered,
            received: response.received(),
            bound,
            ceiling: self.ceiling,
            met: Some(response),
        })
    }

    /// Whether the highest rate comes through whole, tested with several trains.
    fn at_ceiling(&mut self, probing: &mut Probing) -> Result<Searched, End> {
        let rate = match self.limit {
            // The rate at which it was full.
            Limit::Receiver => self.clean.unwrap_or(self.ceiling),
            _ => self.ceiling,
        };
        let mut responses = Vec::new();
        for _ in 0..TRIES {
            let sent = probing.send(&probing.train(rate, 2 * self.lasting, 2 * PACKETS))?;
            // A sender may nearly reach a rate that it cannot keep exactly.
            let usable = match sent.judged {
                Ok(_) | Err(Discarded::SenderSlow) => true,
                Err(Discarded::SenderLate) => self.limit == Limit::Sender,
                Err(_) => false,
            };
            responses.extend(sent.response.filter(|_| usable));
            if responses.len() >= AT_CEILING {
                break;
            }
            pause(probing)?;
        }
        let typical = |what: fn(&RateResponse) -> f64| median(responses.iter().map(what));
        let Some(ratio) = typical(|it| it.ratio).filter(|_| responses.len() >= AT_CEILING / 2)
        else {
            // A receiver overloaded by several trains, but not by one.
            let found = match (self.limit, self.clean) {
                (Limit::Receiver, Some(clean)) => {
                    Found::AtLeast { rate: BitRate::per_second(clean), limit: self.limit }
                }
                _ => Found::Unknown { why: Limit::Disturbed },
            };
            return Ok(Searched::Done(found));
        };
        let offered = typical(|it| it.offered).unwrap_or(rate);
        if ratio - 1.0 > STRETCHED_AT_CEILING {
            let received = offered / ratio;
            let clean = self.clean.unwrap_or(0.0).min(received);
            let (bound, ceiling) = (received * BOUND, self.ceiling);
            let met = None;
            return Ok(Searched::Range(Range { clean, offered, received, bound, ceiling, met }));
        }
        let rate = BitRate::per_second(offered.min(offered / ratio));
        Ok(Searched::Done(Found::AtLeast { rate, limit: self.limit }))
    }

    /// The response to a rate: that of one usable train, or of two if it is stretched.
    fn ask(&self, probing: &mut Probing, rate: f64, stretched: f64) -> Result<Answer, End> {
        let mut over: Option<RateResponse> = None;
        let mut dropped = 0;
        let mut few = Vec::new();
        let [mut slow, mut late] = [Vec::new(), Vec::new()];
        let [mut full, mut nothing] = [0, 0];
        for _ in 0..TRIES {
            let times = if over.is_some() { CONFIRMING } else { 1 };
            let train = probing.train(rate, times * self.lasting, PACKETS);
            let sent = probing.send(&train)?;
            match (sent.judged, sent.response) {
                (Ok(seen), Some(response)) => {
                    let is_over = response.ratio - 1.0 > stretched || response.overflowed.is_some();
                    let shuffled = f64::from(seen.reordered) > SHUFFLED * f64::from(train.packets);
                    if is_over && shuffled {
                        // The delays reflect the order of arrival rather than a queue.
                        continue;
                    }
                    if let Some(first) = over.filter(|_| is_over) {
                        let bound = BOUND * response.received().max(first.received());
                        return Ok(Answer::Stretched(response, bound));
                    } else if is_over {
                        over = Some(response);
                    } else if response.lost > self.lost + DROPPED && self.clean.is_some() {
                        dropped += 1;
                        if dropped == 2 {
                            return Ok(Answer::Dropped);
                        }
                    } else {
                        return Ok(Answer::Whole(response));
                    }
                }
                (Ok(seen), None) => {
                    few.push(seen.received.bits());
                    if few.len() == FEW {
                        return Ok(Answer::Few(few.iter().copied().fold(0.0, f64::max)));
                    }
                }
                (Err(Discarded::Nothing), _) => nothing += 1,
                (Err(Discarded::ReceiverFull), _) => full += 1,
                (Err(Discarded::SenderSlow | Discarded::NotSent), Some(response)) => {
                    slow.push(response.offered);
                }
                (Err(Discarded::SenderLate), Some(response)) => late.push(response.offered),
                _ => {}
            }
            // A single case may be an accident, and a sender that is preempted has a different rate
            // each time.
            let evenly = slow.iter().copied().fold(0.0, f64::max)
                <= SAME * slow.iter().copied().fold(f64::INFINITY, f64::min);
            let most = median(slow.iter().copied()).filter(|_| evenly);
            match (most, slow.len(), full, nothing) {
                (Some(most), 3.., ..) => return Ok(Answer::Slow(most.min(rate))),
                (_, _, 3.., _) => return Ok(Answer::Full),
                (_, _, _, 3..) => return Ok(Answer::Silent),
                _ => pause(probing)?,
            }
        }
        // Mostly slow or late at this rate, and not at lower ones: it is at its limit.
        late.append(&mut slow);
        let most = median(late.iter().copied())
            .filter(|_| self.clean.is_some() && late.len() as u32 > TRIES / 2);
        Ok(match (over, most) {
            (Some(response), _) => Answer::Stretched(response, BOUND * response.received()),
            (None, Some(most)) => Answer::Slow(most.min(rate)),
            (None, None) => Answer::Disturbed,
        })
    }
}

fn pause(probing: &mut Probing) -> Result<(), End> {
    let part = probing.random.f64();
    probing.rest(PAUSE.mul_f64(part))
}
