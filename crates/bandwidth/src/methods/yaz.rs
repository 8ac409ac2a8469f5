//! The published algorithm, as a reference (Sommers, Barford, Willinger: "Laboratory-based
//! calibration of available bandwidth estimation tools", 2007; its program as published, version of
//! <https://github.com/jsommers/yaz>).
//!
//! It sends one stream of 50 packets and compares its mean gap when sent with its mean gap when
//! received. If they differ by more than the tolerance, or more than one packet is lost, the next
//! stream's gap is wider by half of the difference, whatever its sign; otherwise the rate of this
//! one is the estimate. Gaps of a millisecond and more use smaller packets. Streams follow each
//! other at exponential intervals of 50 ms on average.
//!
//! Differences, where the original could not work:
//! - The program begins at a gap of 40 µs, 300 Mbit/s, regardless of its arguments. Here that is
//!   [`Start::Published`]; the default is a rate that was found to overload the path
//!   ([`search`](super::search)), so that faster paths can be estimated at all.
//! - Streams disturbed by the hosts are sent again. The program does not detect them.
//! - The program makes consecutive estimates and smooths them externally. Here estimates are made
//!   until the time is over, and their mean is reported, with an interval by Student's
//!   distribution; for fewer than three, the interval is the last two gaps tried.
//!
//! # Bias
//! The gap never shrinks within an estimate, so chance events lower it; and a stream is accepted
//! while it is still too fast: with even cross traffic, it ends at A / (1 − d C / L), where d is
//! the tolerance, 1 µs at least, and L a packet: at 1 Gbit/s 9 % too high.

use std::time::Duration;

use super::probing::{End, Probing};
use super::robust::{mean, student};
use super::search::{Begun, begin};
use super::{Broken, Estimate, Found, Limit, Method, Path, Phase, Step};
use crate::train::{Trace, Train};
use crate::units::BitRate;

/// The number of packets in a stream; the program's default.
const PACKETS: u32 = 50;

/// The precision of the estimate, in bits per second; the program's default.
const RESOLUTION: f64 = 500e3;

/// The minimum tolerance for gaps, in nanoseconds: `max(1 us, …)` in the program.
const LEAST_DIFFERENCE_NS: f64 = 1_000.0;

/// The average time from one stream to the next; the program's default.
const PAUSE: Duration = Duration::from_millis(50);

/// The initial gap, in nanoseconds: MIN_SPACE in the program.
const PUBLISHED_START_NS: f64 = 40_000.0;

/// The gap at which packets become smaller, in nanoseconds, and the smallest packet.
const WIDEST_NS: f64 = 1e6;
const SMALLEST: u16 = 200;

/// Gaps longer than a tick of the system's timer are excluded from the mean, in nanoseconds: 10 ms,
/// at 100 ticks per second.
const TICK_NS: f64 = 1e7;

/// The sufficient number of estimates.
const ESTIMATES: usize = 10;

/// The maximum number of consecutive discarded streams.
const DISCARDED: u32 = 10;

/// The starting point of the first stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Start {
    /// A rate that was found to overload the path.
    #[default]
    Searched,
    /// A gap of 40 µs.
    Published,
}

/// Estimates as the published program does.
///
/// # Errors
/// If the other side is gone.
pub fn yaz(
    start: Start,
    path: &mut dyn Path,
    progress: &mut dyn FnMut(&Step),
) -> Result<Estimate, Broken> {
    let (mut probing, first_ns) = match start {
        Start::Published => {
            let mut probing = Probing::new(path, progress);
            probing.phase = Phase::Measuring;
            (probing, PUBLISHED_START_NS)
        }
        Start::Searched => match begin(Method::Yaz, path, progress)? {
            Begun::In(probing, range) => {
                let bytes = probing.bounds().bytes.into();
                (probing, BitRate::per_second(range.offered).ns_of(bytes))
            }
            Begun::Over(estimate) => return Ok(estimate),
        },
    };
    let mut estimates: Vec<Instance> = Vec::new();
    let mut limit = Limit::Disturbed;
    while estimates.len() < ESTIMATES {
        match instance(&mut probing, first_ns) {
            Ok(Some(estimate)) => {
                probing.so_far = Some(BitRate::per_second(estimate.rate));
                estimates.push(estimate);
            }
            Ok(None) => break,
            Err(End::Over(why)) => {
                limit = why;
                break;
            }
            Err(End::Broken(broken)) => return Err(broken),
        }
    }
    let found = conclude(&estimates).unwrap_or(Found::Unknown { why: limit });
    Ok(probing.finish(Method::Yaz, found, None))
}

/// A single estimate.
#[derive(Clone, Copy, Debug)]
struct Instance {
    /// The rates of the accepted stream and of the rejected one before.
    rate: f64,
    refused: f64,
    /// The tolerance, relative to the gap.
    allowed: f64,
}

/// The result of estimates; none without any.
fn conclude(estimates: &[Instance]) -> Option<Found> {
    let rates: Vec<f64> = estimates.iter().map(|it| it.rate).collect();
    let last = estimates.last()?;
    let middle = mean(&rates);
    let n = rates.len() as f64;
    let (low, high) = if rates.len() < 3 {
        (middle * (1.0 - last.allowed), middle.max(last.refused))
    } else {
        let square: f64 = rates.iter().map(|rate| (rate - middle).powi(2)).sum();
        let half = student(rates.len() - 1) * (square / (n - 1.0) / n).sqrt();
        (middle - half, middle + half)
    };
    let [rate, low, high] = [middle, low.max(0.0), high].map(BitRate::per_second);
    Some(Found::Available { rate, low, high })
}

/// One estimate, from the first gap to the accepted one; none if the hosts disturb it.
fn instance(probing: &mut Probing, first_ns: f64) -> Result<Option<Instance>, End> {
    let mut bytes = probing.bounds().bytes;
    let mut target = first_ns;
    let mut refused = BitRate::of(bytes.into(), target).bits();
    let mut discarded = 0;
    while discarded < DISCARDED {
        let pause = -(1.0 - probing.random.f64()).ln();
        probing.rest(PAUSE.mul_f64(pause))?;
        let rate = BitRate::of(bytes.into(), target);
        let rate = if rate > probing.bounds().rate { probing.bounds().rate } else { rate };
        let (sent, trace) = probing.send_and_see(&Train { packets: PACKETS, bytes, rate })?;
        let gaps = gaps(&trace).filter(|_| sent.judged.is_ok());
        let Some((left, came)) = gaps else {
            discarded += 1;
            continue;
        };
        let lost = trace.sent_ns.len() - trace.arrived.len();
        let allowed = difference_allowed(bytes, left);
        if (came - left).abs() <= allowed && lost <= 1 {
            let rate = BitRate::of(bytes.into(), left).bits();
            return Ok(Some(Instance { rate, refused, allowed: allowed / left }));
        }
        refused = BitRate::of(bytes.into(), left).bits();
        target = left + (came - left).abs() / 2.0;
        if target >= WIDEST_NS && bytes / 2 >= SMALLEST {
            bytes /= 2;
            target /= 2.0;
        }
    }
    Ok(None)
}

/// The tolerance for the mean gaps: the change of the gap at a rate lower by the resolution, but at
/// least a microsecond.
fn difference_allowed(bytes: u16, left_ns: f64) -> f64 {
    let rate = BitRate::of(bytes.into(), left_ns).bits();
    let slower = (rate - RESOLUTION).max(RESOLUTION);
    LEAST_DIFFERENCE_NS.max(BitRate::per_second(slower).ns_of(bytes.into()) - left_ns)
}

/// The mean gaps of a stream, sent and received, in nanoseconds. Those around a lost packet are
/// used unchanged, as in the program.
fn gaps(trace: &Trace) -> Option<(f64, f64)> {
    let mean_gap = |times: &[i64]| {
        let gaps: Vec<f64> = times.windows(2).map(|pair| (pair[1] - pair[0]) as f64).collect();
        let short: Vec<f64> = gaps.iter().copied().filter(|gap| *gap <= TICK_NS).collect();
        (!short.is_empty()).then(|| mean(&short))
    };
    let came: Vec<i64> = trace.arrived.iter().map(|it| it.at_ns).collect();
    Some((mean_gap(&trace.sent_ns)?, mean_gap(&came)?))
}
