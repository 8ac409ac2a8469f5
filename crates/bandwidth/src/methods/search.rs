//! From nothing known to a range: short trains, each twice as fast as the one before, until one is
//! stretched on its way.
//!
//! What a train that overloads the path is received at bounds the available bandwidth from above:
//! received, C R / (R + X), is never less than C − X, as R is not.

use std::time::Duration;

use super::probing::{End, Probing};
use super::rate_response::RateResponse;
use super::robust::median;
use super::{Broken, Estimate, Found, Limit, Method, Path, Phase, Step};
use crate::train::Spoiled;
use crate::units::BitRate;

/// The first rate, if it is allowed: what any path of today carries, in bits per second.
const FIRST: f64 = 10e6;

/// From one rate to the next.
const FASTER: f64 = 2.0;

/// How long a train lasts at least: some periods of traffic that comes every millisecond.
const LASTING: Duration = Duration::from_millis(3);

/// How many times as long is the one that confirms that another was stretched: a burst of other
/// traffic at its end does that as well.
const CONFIRMING: u32 = 3;

/// How many packets it has at least.
const PACKETS: u32 = 20;

/// By how much a train is stretched that overloads the path, in short trains.
const STRETCHED: f64 = 0.05;

/// And on the average of [`AT_CEILING`] trains at the highest rate there is.
const STRETCHED_AT_CEILING: f64 = 0.015;

/// How many trains say whether the highest rate comes through whole.
const AT_CEILING: usize = 5;

/// How much more than it is received at a train may be offered for the range to be of use.
const FAR_ABOVE: f64 = 3.0;

/// How much more may come through whole than what a faster train was received at.
const NO_QUEUE: f64 = 1.3;

/// How many times as long trains are where that was so, and how long they may become.
const LONGER: u32 = 4;
const LONGEST: Duration = Duration::from_millis(50);

/// How many trains in a row may be spoiled.
const TRIES: u32 = 16;

/// By how much the rates of a sender that cannot do more differ at most, as a ratio.
const SAME: f64 = 1.05;

/// How much nearer to the rate that a receiver could not take is not worth the way, as a ratio.
const NEAR_ENOUGH: f64 = 1.15;

/// By what ratio more than trains were received at is surely more than A: they differ.
const BOUND: f64 = 1.05;

/// By what ratio slower a rate is that is worth another try.
const SLOWER: f64 = 0.8;

/// What part of a train's packets may have been overtaken for it to be believed that it was stretched.
const SHUFFLED: f64 = 0.25;

/// How few packets of two trains have to arrive for the path to be slower by far.
const FEW: usize = 2;

/// By how much more than at lower rates has to be lost for it to be the rate's doing.
const DROPPED: f64 = 0.25;

/// Between two trains, at most, for queues to drain and not to be in step with anything.
const PAUSE: Duration = Duration::from_millis(4);

/// What the search has come to.
#[derive(Debug)]
enum Searched {
    /// A range, in bits per second.
    Range(Range),
    /// All that can be found.
    Done(Found),
}

/// Where the available bandwidth is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Range {
    /// What came through whole.
    pub(super) clean: f64,
    /// What did not.
    pub(super) offered: f64,
    /// What that was received at.
    pub(super) received: f64,
    /// What the path has not, by what all such trains were received at.
    pub(super) bound: f64,
    /// What the train has met by which that is known, if one has.
    pub(super) met: Option<RateResponse>,
    /// The highest rate that can be sent and received.
    pub(super) ceiling: f64,
}

impl Range {
    /// What the search alone has found.
    pub(super) fn known(&self) -> Found {
        at_most(self.bound)
    }
}

fn at_most(rate: f64) -> Found {
    Found::AtMost { rate: BitRate::per_second(rate) }
}

/// What a method begins with.
pub(super) enum Begun<'a> {
    /// A path, and the range in which it is to be measured.
    In(Probing<'a>, Range),
    /// There is nothing more to measure.
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

/// What came of a rate.
enum Answer {
    /// It came through.
    Whole(RateResponse),
    /// It was stretched, and more than this is not there.
    Stretched(RateResponse, f64),
    /// Much of it was dropped, and what came had not waited.
    Dropped,
    /// The sender does no more than this.
    Slow(f64),
    /// The receiver could not take it.
    Full,
    /// So few packets came that they say only how fast those did.
    Few(f64),
    /// Nothing came.
    Silent,
    /// Always something was in the way.
    Disturbed,
}

/// Finds the range.
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
        // The time or the bytes are over.
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
    /// What the ceiling is.
    limit: Limit,
    /// How long trains last.
    lasting: Duration,
    /// The highest rate that was received whole.
    clean: Option<f64>,
    /// What is above A: what trains were received at that were stretched.
    bound: Option<f64>,
    /// The lowest rate of which much was dropped.
    dropped: Option<f64>,
    /// What part was lost of what was received whole.
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
                        // What came through whole was in the bucket of a shaper.
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
                        // A queue that is no longer than a burst: no train says anything of it.
                        Some(clean) if rate > clean * NEAR_ENOUGH => rate = (rate * clean).sqrt(),
                        _ => return Ok(Searched::Done(at_most(rate))),
                    }
                }
                // Most of what is slow comes when nobody listens any more.
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

    /// Whether the highest rate comes through whole, with more trains than one.
    fn at_ceiling(&mut self, probing: &mut Probing) -> Result<Searched, End> {
        let rate = match self.limit {
            // At which it was full.
            Limit::Receiver => self.clean.unwrap_or(self.ceiling),
            _ => self.ceiling,
        };
        let mut responses = Vec::new();
        for _ in 0..TRIES {
            let sent = probing.send(&probing.train(rate, 2 * self.lasting, 2 * PACKETS))?;
            // What a sender cannot do exactly it may do nearly.
            let usable = match sent.judged {
                Ok(_) | Err(Spoiled::SenderSlow) => true,
                Err(Spoiled::SenderLate) => self.limit == Limit::Sender,
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
            // A receiver that could not take several what it could take one of.
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

    /// What comes of a rate: what one train says that is not spoiled, and two if it is stretched.
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
                        // Delays are of the order in which packets came, and not of a queue.
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
                (Err(Spoiled::Nothing), _) => nothing += 1,
                (Err(Spoiled::ReceiverFull), _) => full += 1,
                (Err(Spoiled::SenderSlow | Spoiled::NotSent), Some(response)) => {
                    slow.push(response.offered);
                }
                (Err(Spoiled::SenderLate), Some(response)) => late.push(response.offered),
                _ => {}
            }
            // Once may be an accident, and a sender that is kept from its processor is each time
            // another rate too slow.
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
        // Most times slow or late at this rate, and not at lower ones: it cannot do more.
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
