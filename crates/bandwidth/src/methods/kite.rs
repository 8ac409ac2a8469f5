//! Instant estimates again and again, with trains as long as they have to be.
//!
//! Of Kite2 neither a program nor a text is public. What is known of it is what the timing paper
//! says (section 2.2.1, and 3.3.3 on its bias): a probe rate model; it compares the rate that was
//! sent with the rate that was received; iterative measurements give "instant" bandwidths, which
//! are analysed further for one final value; it controls the size of its trains, to be accurate
//! and to send little; packets are sent precisely, and stamped by the kernel as they arrive; it
//! rather says too little, so as not to overload the path. That much is done here. What is not
//! known was chosen:
//!
//! - **Range.** It is searched first, as for the other methods ([`search`](super::search)).
//! - **Instant estimate.** The range is halved: a rate that comes through becomes its lower end,
//!   one that does not its upper end; the first time, what that was received at. It ends when the
//!   range is narrower than a hundredth; its middle is the estimate. The next one begins with a
//!   range around the median so far, and if the path answers at an end of it as it should not, the
//!   range is moved there.
//! - **Comes through.** Offered by received, behind the head of the train
//!   ([`rate_response`](super::rate_response)), is below 1.004: a train at 0.4 % of the capacity above A.
//! - **Size of trains.** They last 4 ms at first. After every fourth instant estimate, if their
//!   spread is more than 3 % of their median they get twice as long, if it is less than 1 % half as
//!   long; and when a queue overflows they are halved.
//! - **Final value.** The median of the instant estimates, as soon as its interval, by Student's
//!   distribution about their mean, is narrower than ±1 %, or the time is over.
//! - **Pace.** As for the regression.

use std::time::Duration;

use super::probing::{End, Probing, share};
use super::robust::{mean, median, spread, student};
use super::search::{Begun, Range, begin};
use super::{Broken, Estimate, Found, Limit, Method, Path, Step};
use crate::units::BitRate;

/// From which ratio of offered to received on a train has not come through.
const THROUGH: f64 = 1.004;

/// How narrow the range becomes, as a part of its upper end.
const RESOLUTION: f64 = 0.01;

/// How far around the median the next range is, as a part of it.
const AROUND: f64 = 0.15;

/// How many instant estimates are enough at least, and after how many the trains may change.
const FEWEST: usize = 8;
const EVERY: usize = 4;

/// How narrow the interval of the final value is to be, to either side, as a part of it.
const NARROW: f64 = 0.01;

/// How long trains are at first, at least and at most, and the fewest packets.
const FIRST: Duration = Duration::from_millis(4);
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_millis(40);
const PACKETS: u32 = 30;

/// The spreads of instant estimates, as parts of their median, at which trains become longer and
/// shorter.
const SPREAD_LONGER: f64 = 0.03;
const SPREAD_SHORTER: f64 = 0.01;

/// How many trains in a row may be spoiled.
const SPOILED: u32 = 8;

/// How many trains an instant estimate may take.
const TRAINS: u32 = 20;

/// Estimates by instant estimates.
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
    /// An instant estimate; none if the hosts spoil too many trains.
    fn instant(&mut self, probing: &mut Probing) -> Result<Option<f64>, End> {
        let range = self.range;
        let (mut low, mut high) = match median(self.instants.iter().copied()) {
            Some(middle) => (middle * (1.0 - AROUND), middle * (1.0 + AROUND)),
            None => (range.clean.min(range.received * 0.5), range.received),
        };
        // Whether its ends were tried, and not only taken for what they are.
        let (mut low_tried, mut high_tried) = (false, false);
        let mut spoiled = 0;
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
                spoiled += 1;
                if spoiled >= SPOILED {
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

    /// Makes trains longer or shorter, by what the last instant estimates differ.
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

    /// The final value, of so many instant estimates at least.
    fn conclude(&self, fewest: usize) -> Option<Found> {
        let n = self.instants.len();
        let middle = median(self.instants.iter().copied()).filter(|_| n >= fewest)?;
        let average = mean(&self.instants);
        let square: f64 = self.instants.iter().map(|it| (it - average).powi(2)).sum();
        let half = student(n - 1) * (square / (n - 1) as f64 / n as f64).sqrt();
        // No instant estimate is finer than the range it ends with.
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
