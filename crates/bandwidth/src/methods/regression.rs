//! A regression line through the responses of trains at several rates above the available
//! bandwidth.
//!
//! The range is searched first ([`search`](super::search)). Trains are then sent at two rates, not
//! far above the estimate of A: eight of nine at the lower one, which is as low as possible without
//! the queue running empty because of uneven cross traffic; the others at the higher one, for the
//! slope. That minimizes the variance of A, which is extrapolated from the lower rate along the
//! slope. Trains are as long as that requires, but no longer than the room in a queue allows. They
//! start at irregular times, until the interval is narrow enough or the time is over, spaced so
//! that no more is sent than a share of what the path would carry.

use std::time::Duration;

use super::probing::{End, Probing, Sent, is_fast, share, share_at};
use super::rate_response::RateResponse;
use super::robust::{breaks, median, spread};
use super::search::{Begun, Range, begin};
use super::turning_point::{Fit, Point, TurningPoint, turning_point};
use super::{Broken, Estimate, Found, Limit, Method, Path, Step};
use crate::train::{Discarded, Train};
use crate::units::BitRate;

/// The target half width of the interval, relative to the estimate.
const NARROW: f64 = 0.01;

/// The minimum number of trains on a line for its interval to be trusted.
const FEWEST: usize = 16;

/// The minimum growth of the number of trains between two checks of the interval. Checking after
/// each train would stop where the interval is too narrow by chance (Anscombe 1953).
const LOOK_AGAIN: f64 = 1.25;

/// The minimum number of trains to use when the time is over.
const ENOUGH: usize = 5;

/// The initial length of a train.
const FIRST: Duration = Duration::from_millis(5);

/// The maximum length.
const LONGEST: Duration = Duration::from_millis(160);

/// The minimum number of packets.
const PACKETS: u32 = 30;

/// The maximum random variation of a train's length, relative to it.
const UNEVEN: f64 = 0.2;

/// How long a queue may grow, in seconds: some routers have room for no more. On slow paths, this
/// many packet times instead.
const QUEUE: f64 = 0.015;
const QUEUE_PACKETS: f64 = 20.0;

/// The minimum and maximum distance of the lower rate above A, relative to the capacity.
const ABOVE: f64 = 0.05;
const ABOVE_MOST: f64 = 0.12;

/// The same in standard deviations of single trains' estimates of A: the queue is then nearly
/// always filled once the head of a train has passed.
const ABOVE_SPREAD: f64 = 2.0;

/// How much farther above the higher rate is.
const HIGHER: f64 = 8.0;

/// The part of the distance from A to the lower rate by which a train must be above A to be on the
/// line.
const ON_LINE: f64 = 0.5;

/// The part of their stretch by which trains may stretch more in their second half than in their
/// first, to count as a queue, and its significance in standard errors.
const BEND: f64 = 0.15;
const BEND_ERRORS: f64 = 3.0;

/// The distance between the intervals of two halves that shows a changed path, relative to the
/// wider one: large enough to ignore two cases in twenty, and traffic that is on and off for longer
/// times.
const HALVES: f64 = 0.5;

/// The number of trains from which a line is reliable enough for that.
const SETTLED: usize = 10;

/// The minimum change of a path, relative to the capacity.
const CHANGED_PART: f64 = 0.1;

/// The maximum distance of another train from the line, in standard deviations.
const FAR_OFF: f64 = 5.0;

/// The maximum standard deviation of single trains of maximum length, relative to the capacity.
const UNSTEADY: f64 = 0.2;

/// The initial rates, relative to the received rate of an overloading train: that is A, or somewhat
/// more.
const LEVER: f64 = 2.0;
const LEVER_LOW: f64 = 0.15;

/// The minimum part of what came through whole in the search that the path still carries, whatever
/// a line through few points says.
const AT_LEAST: f64 = 0.7;

/// The minimum stretch of a train that has not come through whole, and the share of trains that may
/// come through whole at rates that the search excludes.
const STRETCHED: f64 = 0.05;
const WHOLE_PART: f64 = 0.1;

/// The required relative precision of the slope for leaving such rates.
const SLOPE: f64 = 0.2;

/// The error of the beginning and end of a train, in packets: each at most half a packet, uniformly
/// distributed; two standard deviations of both, and half as much again for the way from the lower
/// rate to A.
const PACKETS_APART: f64 = 1.2;

/// The number of trains without a line after which higher rates are tried, and by what ratio.
const LOOKS: u32 = 5;
const FARTHER: f64 = 1.4;

/// The part of the room in a queue that a train may fill.
const ROOM_PART: f64 = 0.7;

/// How many trains may overflow a queue before anything is known.
const OVERFLOWED: u32 = 24;

/// The ratio by which rates move farther above A if the trains cannot become long enough to get
/// past a shaper's bucket, and its maximum.
const STEEPER: f64 = 1.5;
const STEEPEST: f64 = 6.0;

/// The share of trains that may be discarded, and the minimum number before giving up.
const DISCARDED_PART: f64 = 0.5;
const DISCARDED: u32 = 16;

/// Estimates by regression.
pub(super) fn estimate(
    path: &mut dyn Path,
    progress: &mut dyn FnMut(&Step),
) -> Result<Estimate, Broken> {
    let (mut probing, range) = match begin(Method::Regression, path, progress)? {
        Begun::In(probing, range) => (probing, range),
        Begun::Over(estimate) => return Ok(estimate),
    };
    let mut measuring = Measuring::new(range, &mut probing);
    let found = loop {
        match measuring.step(&mut probing) {
            Ok(None) => {}
            Ok(Some(found)) => break found,
            Err(End::Over(limit)) => break measuring.conclude(&mut probing, limit),
            Err(End::Broken(broken)) => return Err(broken),
        }
    };
    let capacity = measuring.fit.as_ref().map(|fit| fit.turning.capacity);
    let capacity = capacity.filter(|_| matches!(found, Found::Available { .. }));
    Ok(probing.finish(Method::Regression, found, capacity.map(BitRate::per_second)))
}

struct Measuring {
    range: Range,
    lasting: Duration,
    longest: Duration,
    /// The delay of packets when the queue was full, in seconds.
    room: f64,
    /// The number of trains that met a full queue.
    overflowed: u32,
    /// The multiple of the distance above A that the spread asks for.
    steep: f64,
    packet_bits: f64,
    trains: Vec<RateResponse>,
    fit: Option<Fit>,
    /// The number of trains in it.
    fitted: usize,
    /// The first reliable line.
    settled: Option<TurningPoint>,
    /// Trains discarded since the search.
    discarded: u32,
    receiver_full: u32,
    /// Trains discarded because the sender cannot keep the rate, and how many of them in a row.
    slow: u32,
    too_slow: u32,
    /// The number of trains without a line.
    blind: u32,
    /// How far above the received rate to look for one.
    lever: f64,
    /// The number of trains on the line at which the interval is checked next.
    look_at: usize,
}

impl Measuring {
    fn new(range: Range, probing: &mut Probing) -> Self {
        // On slow paths few packets fit into the time.
        let fewest = probing.train(range.received, Duration::ZERO, PACKETS).length_ns();
        Self {
            range,
            lasting: FIRST.max(Duration::from_nanos(fewest)),
            longest: LONGEST.max(Duration::from_nanos(2 * fewest)),
            room: f64::INFINITY,
            overflowed: 0,
            steep: 1.0,
            settled: None,
            packet_bits: f64::from(probing.bounds().bytes) * 8.0,
            trains: Vec::new(),
            fit: None,
            fitted: 0,
            discarded: 0,
            receiver_full: 0,
            slow: 0,
            too_slow: 0,
            blind: 0,
            lever: LEVER,
            look_at: FEWEST,
        }
    }

    /// Sends a train, and returns the result if it is complete.
    fn step(&mut self, probing: &mut Probing) -> Result<Option<Found>, End> {
        let (rate, carries) = self.next(&mut probing.random);
        let train = self.train(probing, rate);
        let trusted = self.fit.as_ref().filter(|fit| fit.turning.used >= ENOUGH);
        // The fastest capacity consistent with what is known.
        let fastest = |fit: &Fit| fit.turning.capacity * (1.0 + 3.0 * fit.turning.slope_error);
        let part = trusted.map_or_else(|| share(self.range.received), |fit| share_at(fastest(fit)));
        // On fast paths the share is relative to their whole capacity.
        let whole = trusted
            .filter(|fit| fit.turning.slope_error < SLOPE && is_fast(fastest(fit)))
            .map_or(carries, |fit| fit.turning.capacity.max(carries));
        probing.pace(&train, whole, part)?;
        let sent = probing.send(&train)?;
        if let Some(found) = self.take(&sent) {
            return Ok(Some(found));
        }
        // Among many, one more changes little.
        if self.trains.len() < self.fitted + self.trains.len() / 32 {
            return Ok(None);
        }
        self.fitted = self.trains.len();
        self.fit = self.line(&self.trains);
        let Some(fit) = &self.fit else {
            self.look_around();
            return Ok(None);
        };
        probing.so_far = Some(BitRate::per_second(fit.turning.available.max(0.0)));
        let now = fit.turning;
        if self.changed(&now) {
            return Ok(Some(Found::Unknown { why: Limit::Unsteady }));
        }
        if self.lengthen(&now) || now.used < self.look_at {
            return Ok(None);
        }
        Ok(self.look(&mut probing.random))
    }

    /// Evaluates a train that was sent; returns a result if too many are unusable.
    fn take(&mut self, sent: &Sent) -> Option<Found> {
        if let Some(response) = sent.clean() {
            self.too_slow = 0;
            let Some(room) = response.overflowed else {
                self.trains.push(response);
                return None;
            };
            self.overflowed += 1;
            self.room = self.room.min(room);
            if self.fit.is_none() {
                self.lasting /= 2;
            }
            let no_queue = self.overflowed > OVERFLOWED && self.trains.len() < ENOUGH;
            return no_queue.then_some(Found::Unknown { why: Limit::Unsteady });
        }
        self.discarded += 1;
        match (sent.judged, sent.response) {
            (Err(Discarded::SenderSlow), Some(response)) => {
                self.too_slow += 1;
                self.slow += 1;
                // Twice in a row is not an accident.
                if self.too_slow >= 2 {
                    self.range.ceiling = self.range.ceiling.min(response.offered);
                }
            }
            (Err(Discarded::ReceiverFull), _) => self.receiver_full += 1,
            _ => {}
        }
        let sent = self.trains.len() as u32 + self.discarded;
        let too_many = self.discarded >= DISCARDED
            && f64::from(self.discarded) > DISCARDED_PART * f64::from(sent);
        too_many.then(|| {
            let rate = BitRate::per_second(self.range.clean);
            if self.receiver_full * 2 > self.discarded {
                Found::AtLeast { rate, limit: Limit::Receiver }
            } else if self.slow * 2 > self.discarded {
                Found::AtLeast { rate, limit: Limit::Sender }
            } else {
                Found::Unknown { why: Limit::Disturbed }
            }
        })
    }

    /// The rate of the next train, and the known capacity of the path.
    fn next(&mut self, random: &mut fastrand::Rng) -> (f64, f64) {
        let range = self.range;
        let (low, high, carries) = match &self.fit {
            Some(fit) if fit.turning.available > 0.0 => {
                let above = self.above(&fit.turning);
                let available = fit.turning.available;
                let lever =
                    if fit.turning.slope_error > SLOPE { available * self.lever } else { 0.0 };
                (available + above, (available + HIGHER * above).max(lever), available)
            }
            _ => {
                let above = range.received * (self.lever - 1.0);
                (range.received + LEVER_LOW * above, range.received + above, range.received)
            }
        };
        let carries = carries.min(range.received).max(range.clean * AT_LEAST);
        let high = high.min(range.ceiling);
        let low = low.min(f64::midpoint(carries.min(high), high));
        // The number at the higher rate that minimizes the variance, given the distances from A.
        let middle = f64::midpoint(low, high);
        let highs = self.trains.iter().filter(|it| it.offered > middle).count() as f64;
        let part = if self.fit.is_some() { 1.0 / (1.0 + HIGHER) } else { 0.5 };
        let (from, to) = if highs < part * (self.trains.len() + 1) as f64 {
            (high - 0.2 * (high - low), high)
        } else {
            (low, low + 0.2 * (high - low))
        };
        (from + (to - from) * random.f64(), carries)
    }

    /// Without a line the range was wrong: it will be seen at higher rates.
    fn look_around(&mut self) {
        self.blind += 1;
        if self.blind.is_multiple_of(LOOKS) {
            self.lever *= FARTHER;
        }
    }

    /// A train of about the common length, varied so that periodic traffic does not fit into all in
    /// the same way; but no longer than the room in the queue allows.
    fn train(&self, probing: &mut Probing, rate: f64) -> Train {
        let part = 1.0 + UNEVEN * (2.0 * probing.random.f64() - 1.0);
        let fills = self.fit.as_ref().map_or(f64::INFINITY, |fit| {
            let over = (rate - fit.turning.available) / fit.turning.capacity;
            ROOM_PART * self.room / over.max(0.0)
        });
        let lasting = self.lasting.mul_f64(part).as_secs_f64().min(fills);
        probing.train(rate, Duration::from_secs_f64(lasting), PACKETS / 2)
    }

    /// The distance of the lower rate above A.
    fn above(&self, turning: &TurningPoint) -> f64 {
        let capacity = turning.capacity;
        let spread = ABOVE_SPREAD * turning.spread;
        self.steep * spread.clamp(ABOVE * capacity, ABOVE_MOST * capacity)
    }

    /// The rate from which trains are on the line.
    fn on_line(&self, turning: &TurningPoint) -> f64 {
        turning.available + ON_LINE * self.above(turning)
    }

    fn line(&self, trains: &[RateResponse]) -> Option<Fit> {
        let point =
            |it: &RateResponse| Point { rate: it.offered, ratio: it.ratio, weight: it.seconds };
        let points: Vec<Point> = trains.iter().map(point).collect();
        let fit = turning_point(&points, 0.0, |turning| self.on_line(turning))?;
        let least = AT_LEAST * self.range.clean;
        if fit.turning.available >= least || fit.turning.slope_error <= SLOPE {
            return Some(fit);
        }
        // The slope is free, but the line may not begin where trains came through.
        turning_point(&points, least, |turning| self.on_line(turning))
    }

    /// Whether the first half of the trains contradicts the second, each evaluated separately.
    fn halves_differ(&self, random: &mut fastrand::Rng) -> bool {
        let (early, late) = self.trains.split_at(self.trains.len() / 2);
        let fits = self.line(early).zip(self.line(late));
        fits.filter(|(early, late)| early.turning.used.min(late.turning.used) >= ENOUGH)
            .is_some_and(|(early, late)| {
                let (early, late) = (self.interval(&early, random), self.interval(&late, random));
                let apart = (early.0 - late.1).max(late.0 - early.1);
                apart > HALVES * (early.1 - early.0).max(late.1 - late.0)
            })
    }

    /// The trains that are on the line and as long as the current ones.
    fn on(&self, turning: &TurningPoint) -> impl Iterator<Item = &RateResponse> {
        let (rate, least) = (self.on_line(turning), self.lasting.as_secs_f64() * 0.7);
        self.trains.iter().filter(move |it| it.offered >= rate && it.seconds >= least)
    }

    /// How much more trains are stretched in their second half than in their first, if that is
    /// significant by this many standard errors; otherwise zero. The bucket of a shaper does this
    /// until it is empty.
    fn bend(&self, turning: &TurningPoint, errors: f64) -> f64 {
        let bends: Vec<f64> = self.on(turning).map(|it| it.bend).collect();
        let bend = median(bends.iter().copied()).unwrap_or(0.0);
        let error = 1.25 * spread(&bends).unwrap_or(0.0) / (bends.len() as f64).sqrt();
        if bend > errors * error { bend } else { 0.0 }
    }

    /// Makes trains longer if their results require it and it is allowed.
    fn lengthen(&mut self, turning: &TurningPoint) -> bool {
        let needed = ABOVE_SPREAD * turning.spread > ABOVE_MOST * turning.capacity;
        if self.on(turning).count() < ENOUGH {
            return false;
        }
        let stretch = median(self.on(turning).map(|it| it.ratio - 1.0)).unwrap_or(0.0);
        let bent = self.bend(turning, BEND_ERRORS) > BEND * stretch;
        let longer = self.lasting * 2;
        // At the higher rate.
        let grows = HIGHER * self.above(turning) / turning.capacity * longer.as_secs_f64();
        let packets = QUEUE_PACKETS * 12_000.0 / turning.capacity;
        let may = longer <= self.longest && grows <= QUEUE.max(packets);
        if (needed || bent) && may {
            self.lasting = longer;
        } else if bent && self.steep < STEEPEST {
            self.steep *= STEEPER;
        }
        bent || (needed && may)
    }

    /// Whether an early part of the trains contradicts the rest.
    fn changed(&mut self, turning: &TurningPoint) -> bool {
        if self.settled.is_none() && turning.used >= SETTLED && turning.slope_error < SLOPE {
            self.settled = Some(*turning);
        }
        let Some(settled) = self.settled else { return false };
        // With one line for all of them: later trains may be below its beginning.
        let off = |it: &RateResponse| {
            let over = (it.offered - settled.available).max(0.0);
            settled.capacity * (it.ratio - 1.0) - over
        };
        let off: Vec<(f64, f64)> = self.trains.iter().map(|it| (off(it), it.seconds)).collect();
        breaks(&off, ENOUGH, CHANGED_PART * settled.capacity)
    }

    /// The estimate, if its interval is narrow enough; otherwise sets the next check: at the number
    /// of trains that would make it so (Hall 1981).
    fn look(&mut self, random: &mut fastrand::Rng) -> Option<Found> {
        let fit = self.fit.as_ref().filter(|fit| fit.turning.available > 0.0)?;
        let (low, high) = self.interval(fit, random);
        let wider = (high - low) / 2.0 / (NARROW * fit.turning.available);
        if wider > 1.0 {
            let enough = fit.turning.used as f64 * wider.powi(2).max(LOOK_AGAIN);
            self.look_at = enough.ceil() as usize;
            return None;
        }
        Some(match self.contradicts(&fit.turning) {
            false => available(fit, low, high),
            true => Found::Unknown { why: Limit::Unsteady },
        })
    }

    /// Whether trains differ so much, or the one that ended the search is so different, that a line
    /// does not describe the path.
    fn contradicts(&self, turning: &TurningPoint) -> bool {
        let longest = self.trains.iter().map(|it| it.seconds).fold(0.0, f64::max);
        let differs = |met: RateResponse| {
            let over = met.offered - turning.available;
            let off = turning.capacity * (met.ratio - 1.0) - over;
            let error = (turning.spread.powi(2) * longest / met.seconds).sqrt();
            let error = error.hypot(over * turning.slope_error);
            off.abs() > (FAR_OFF * error).max(CHANGED_PART * turning.capacity)
        };
        // The response of a full queue says less.
        let met = self.range.met.filter(|met| met.overflowed.is_none());
        turning.spread > UNSTEADY * turning.capacity || met.is_some_and(differs)
    }

    /// The interval of a line, including the resolution of a train, which consists of whole packets
    /// as the cross traffic does.
    fn interval(&self, fit: &Fit, random: &mut fastrand::Rng) -> (f64, f64) {
        let (low, high) = fit.interval(random);
        let seconds = self.lasting.as_secs_f64() * (fit.turning.used as f64).sqrt();
        let whole = PACKETS_APART * self.packet_bits / seconds;
        let wider = |end: f64| (end - fit.turning.available).hypot(whole);
        // If the first half was stretched too little, the whole was by half of that: A is less.
        let bent = self.bend(&fit.turning, 1.0) / 2.0 * fit.turning.capacity;
        let below = wider(low).hypot(bent);
        ((fit.turning.available - below).max(0.0), fit.turning.available + wider(high))
    }

    /// The result of the search, unless trains have come through whole since that contradict it.
    fn known(&self) -> Found {
        let above = self.trains.iter().filter(|it| it.offered > self.range.bound);
        let (whole, all) = above.fold((0, 0), |(whole, all), it| {
            (whole + u32::from(it.ratio < 1.0 + STRETCHED), all + 1)
        });
        if f64::from(whole) > WHOLE_PART * f64::from(all) {
            return Found::Unknown { why: Limit::Unsteady };
        }
        self.range.known()
    }

    /// The result when no more may be sent.
    fn conclude(&self, probing: &mut Probing, limit: Limit) -> Found {
        let Some(fit) = self.fit.as_ref().filter(|fit| fit.turning.used >= ENOUGH) else {
            // The search has a bound even if time ran out.
            return match limit {
                Limit::Time | Limit::Bytes => self.known(),
                _ => Found::Unknown { why: limit },
            };
        };
        let (low, high) = self.interval(fit, &mut probing.random);
        if self.halves_differ(&mut probing.random) {
            return Found::Unknown { why: Limit::Unsteady };
        }
        if fit.turning.available <= 0.0 || !high.is_finite() {
            return self.known();
        }
        if self.contradicts(&fit.turning) || (low <= 0.0 && high >= self.range.received) {
            // No better than the search, or in contradiction to it.
            return Found::Unknown { why: Limit::Unsteady };
        }
        if low <= 0.0 {
            return Found::AtMost { rate: BitRate::per_second(high) };
        }
        available(fit, low, high)
    }
}

fn available(fit: &Fit, low: f64, high: f64) -> Found {
    let [rate, low, high] = [fit.turning.available, low, high].map(BitRate::per_second);
    Found::Available { rate, low, high }
}
