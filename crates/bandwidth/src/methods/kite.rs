//! Repeated instant estimates, with trains of adaptive length.
//!
//! Neither a program nor a description of Kite2 is public. What the timing paper says about it
//! (section 2.2.1, and 3.3.3 on its bias) is: it uses a probe rate model; it compares the sent rate
//! with the received rate; iterative measurements give "instant" bandwidths, which are analysed
//! further for one final value; it adapts the size of its trains, to be accurate and to send
//! little; packets are sent precisely, and timestamped by the kernel on arrival; it prefers to
//! underestimate, so as not to overload the path. This module does the same. The unknown details
//! were chosen as follows:
//!
//! - **Range.** It is searched first, as for the other methods ([`search`](super::search)).
//! - **Instant estimate.** The range is bisected: a rate that comes through becomes its lower end,
//!   any other its upper end; the first time, the rate at which that was received. It ends when the
//!   range is narrower than a hundredth; its middle is the estimate. The next one begins with a
//!   range around the median so far, and if the path contradicts an end of it, the range is moved
//!   there.
//! - **Comes through.** The ratio of offered to received rate, behind the head of the train
//!   ([`rate_response`](super::rate_response)), is below 1.004: a train at 0.4 % of the capacity
//!   above A.
//! - **Size of trains.** They last 4 ms at first. After every fourth instant estimate they are
//!   doubled if the spread is more than 3 % of the median, and halved if it is less than 1 %; they
//!   are also halved when a queue overflows.
//! - **Final value.** The median of the instant estimates, as soon as its interval, by Student's
//!   distribution about their mean, is narrower than ±1 %, or the time is over.
//! - **Pace.** As for the regression.

use std::time::Duration;

use super::probing::{End, Probing, share};
use super::robust::{mean, median, spread, student};
use super::search::{Begun, Range, begin};
use super::{Broken, Estimate, Found, Limit, Method, Path, Step};
use crate::units::BitRate;

/// The ratio of offered to received rate from which a train has not come through.
const THROUGH: f64 = 1.004;

/// The final width of the range, relative to its upper end.
const RESOLUTION: f64 = 0.01;

/// The half width of the next range around the median, relative to it.
const AROUND: f64 = 0.15;

/// The minimum number of instant estimates, and the number after which the trains may change.
const FEWEST: usize = 8;
const EVERY: usize = 4;

/// The target half width of the interval of the final value, relative to it.
const NARROW: f64 = 0.01;

/// The initial, minimum and maximum length of trains, and the minimum number of packets.
const FIRST: Duration = Duration::from_millis(4);
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_millis(40);
const PACKETS: u32 = 30;

/// The spreads of instant estimates, relative to their median, at which trains become longer and
/// shorter.
const SPREAD_LONGER: f64 = 0.03;
const SPREAD_SHORTER: f64 = 0.01;

/// The maximum number of consecutive discarded trains.
const DISCARDED: u32 = 8;

/// The maximum number of trains of an instant estimate.
const TRAINS: u32 = 20;

/// Estimates with instant estimates.
pub(super) fn estimate(
    path: &mut dyn Path,
    progress: &mut dyn FnMut(&Step),
) -> Result<Estimate, Broken> {
    let (mut probing, range) = match begin(Method::Kite, path, progress)? {
        Begun::In(probing, range) => (probing, range),
        Begun::Over(estimate) => return Ok(estimate),
    };
    let mut kite = Kite { range, lasting: FIRST, longest: LONGEST, instants: Vec::new() };
    let found = loop {
        match kite.instant(&mut probing) {
            Ok(Some(instant)) => {
                kite.instants.push(instant);
                kite.adapt();
                probing.so_far = median(kite.instants.iter().copied()).map(BitRate::per_second);
                if let Some(found) = kite.conclude(FEWEST).filter(is_narrow) {
                    break found;
                }
            }
            Ok(None) => break Found::Unknown { why: Limit::Disturbed },
            Err(End::Over(why)) => {
                break kite.conclude(2).unwrap_or(Found::Unknown { why });
            }
            Err(End::Broken(broken)) => return Err(broken),
        }
    };
    Ok(probing.finish(Method::Kite, found, None))
}

struct Kite {
    range: Range,
    lasting: Duration,
    longest: Duration,
    instants: Vec<f64>,
}

impl Kite {
    /// An instant estimate; none if the hosts disturb too many trains.
    fn instant(&mut self, probing: &mut Probing) -> Result<Option<f64>, End> {
        let range = self.range;
        let (mut low, mut high) = match median(self.instants.iter().copied()) {
            Some(middle) => (middle * (1.0 - AROUND), middle * (1.0 + AROUND)),
            None => (range.clean.min(range.received * 0.5), range.received),
        };
        // Whether the ends were tried rather than only assumed.
        let (mut low_tried, mut high_tried) = (false, false);
        let mut discarded = 0;
        for _ in 0..TRAINS {
            if high - low <= RESOLUTION * high {
                match (low_tried, high_tried) {
                    (true, true) => break,
                    (false, _) => low *= 1.0 - AROUND,
                    (_, false) => high *= 1.0 + AROUND,
                }
            }
            high = high.min(range.ceiling);
            let rate = f64::midpoint(low, high);
            let train = probing.train(rate, self.lasting, PACKETS);
            let carries = median(self.instants.iter().copied()).unwrap_or(range.received);
            probing.pace(&train, carries, share(range.received))?;
            let sent = probing.send(&train)?;
            let Some(response) = sent.clean() else {
                discarded += 1;
                if discarded >= DISCARDED {
                    return Ok(None);
                }
                continue;
            };
            if response.overflowed.is_some() {
                self.longest = (self.lasting / 2).max(SHORTEST);
                self.lasting = self.longest;
            }
            if response.ratio < THROUGH && response.overflowed.is_none() {
                low = response.offered;
                low_tried = true;
            } else {
                let whole = if self.instants.is_empty() { response.received() } else { rate };
                high = whole.min(rate).max(low);
                high_tried = true;
            }
        }
        Ok(Some(f64::midpoint(low, high)))
    }

    /// Makes trains longer or shorter according to the spread of the last instant estimates.
    fn adapt(&mut self) {
        let Some(last) = self.instants.len().checked_sub(EVERY).map(|at| &self.instants[at..])
        else {
            return;
        };
        let parts = spread(last).zip(median(last.iter().copied())).map(|(by, of)| by / of);
        let Some(part) = parts.filter(|_| self.instants.len().is_multiple_of(EVERY)) else {
            return;
        };
        if part > SPREAD_LONGER {
            self.lasting = (self.lasting * 2).min(self.longest);
        } else if part < SPREAD_SHORTER {
            self.lasting = (self.lasting / 2).max(SHORTEST);
        }
    }

    /// The final value, from at least this many instant estimates.
    fn conclude(&self, fewest: usize) -> Option<Found> {
        let n = self.instants.len();
        let middle = median(self.instants.iter().copied()).filter(|_| n >= fewest)?;
        let average = mean(&self.instants);
        let square: f64 = self.instants.iter().map(|it| (it - average).powi(2)).sum();
        let half = student(n - 1) * (square / (n - 1) as f64 / n as f64).sqrt();
        // No instant estimate is finer than its final range.
        let half = half.hypot(RESOLUTION * middle / (n as f64).sqrt());
        let [rate, low, high] =
            [middle, (middle - half).max(0.0), middle + half].map(BitRate::per_second);
        Some(Found::Available { rate, low, high })
    }
}

fn is_narrow(found: &Found) -> bool {
    match found {
        Found::Available { rate, low, high } => {
            high.bits() - low.bits() <= 2.0 * NARROW * rate.bits()
        }
        _ => false,
    }
}
