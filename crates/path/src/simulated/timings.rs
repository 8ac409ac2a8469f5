//! Cross traffic as lists of packet times: models that were not used to tune any method, to
//! evaluate methods on.

use std::f64::consts::TAU;
use std::time::Duration;

use eigentime_bandwidth::BitRate;

/// The patterns of such cross traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timings {
    /// As iperf3 sends UDP: with a timer of 1 ms that is late, at times by milliseconds; then
    /// everything due, a packet every 4 µs.
    Iperf3,
    /// In batches of 1 to some dozens of packets of 64, 576 and 1500 bytes, with Poisson arrivals.
    Batches,
    /// From [`MARKOV_SOURCES`] with exponentially distributed on and off times.
    Markov,
    /// From [`VIDEO_STREAMS`] of video: 60 frames a second, of lognormal sizes.
    Video,
    /// From [`FLOWS`] that send a window each round-trip time, which grows and is halved as in TCP
    /// Reno.
    Windows,
}

/// All of them.
pub const TIMINGS: [Timings; 5] =
    [Timings::Iperf3, Timings::Batches, Timings::Markov, Timings::Video, Timings::Windows];

/// The number of sources of [`Timings::Markov`], and their mean on and off times.
pub const MARKOV_SOURCES: u32 = 8;
const MARKOV_NS: f64 = 10e6;

/// The number of streams of [`Timings::Video`], the frame interval, and the spread of sizes: the
/// standard deviation of the logarithm.
pub const VIDEO_STREAMS: u32 = 3;
const FRAME_NS: f64 = 1e9 / 60.0;
const FRAME_DEVIATION: f64 = 0.4;

/// The part of the frame interval in which a frame is sent.
const FRAME_PART: f64 = 0.25;

/// The number of flows of [`Timings::Windows`], and their shortest round-trip time; each next one's
/// is longer by a half.
pub const FLOWS: u32 = 4;
const ROUND_TRIP_NS: f64 = 15e6;

/// The part of a round-trip time in which a window is sent, and the number of them in which it
/// doubles.
const WINDOW_PART: f64 = 0.4;
const ROUNDS: f64 = 20.0;

/// [`Timings::Iperf3`]: its timer, its mean lateness, how often it is very late and by how much at
/// most, and the gap between packets.
const TIMER_NS: f64 = 1e6;
const LATE_NS: f64 = 60e3;
const VERY_LATE_PART: f64 = 0.005;
const VERY_LATE_NS: f64 = 4e6;
const SENDING_NS: f64 = 4e3;

/// [`Timings::Batches`]: the mean number of packets in a batch, and their sizes.
const BATCH: f64 = 8.0;
const SIZES: [u32; 4] = [64, 576, 1500, 1500];

/// The size of all other packets in bytes.
const BYTES: u32 = 1500;

impl Timings {
    /// The packets of this length of time, in order: nanoseconds and bytes.
    #[must_use]
    pub fn packets(self, rate: BitRate, lasting: Duration, seed: u64) -> Vec<(f64, u32)> {
        let until_ns = lasting.as_nanos() as f64;
        let mut made =
            Made { random: fastrand::Rng::with_seed(seed), until_ns, packets: Vec::new() };
        match self {
            Self::Iperf3 => made.iperf3(rate),
            Self::Batches => made.batches(rate),
            Self::Markov => (0..MARKOV_SOURCES).for_each(|_| made.on_and_off(rate)),
            Self::Video => (0..VIDEO_STREAMS).for_each(|_| made.video(rate)),
            Self::Windows => (0..FLOWS).for_each(|flow| made.windows(rate, flow)),
        }
        made.packets.sort_by(|a, b| a.0.total_cmp(&b.0));
        made.packets
    }
}

struct Made {
    random: fastrand::Rng,
    until_ns: f64,
    packets: Vec<(f64, u32)>,
}

impl Made {
    fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.random.f64()).ln()
    }

    /// A normally distributed number (Box and Muller 1958).
    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.random.f64()).ln()).sqrt();
        radius * (TAU * self.random.f64()).cos()
    }

    /// Adds this many packets from then on, at even gaps.
    fn evenly(&mut self, from_ns: f64, gap_ns: f64, many: u64) {
        self.packets.extend((0..many).map(|at| (from_ns + gap_ns * at as f64, BYTES)));
    }

    /// Rounds a number randomly to one of its two neighbouring integers, preserving the mean.
    fn whole(&mut self, number: f64) -> u64 {
        number.floor() as u64 + u64::from(self.random.f64() < number.fract())
    }

    fn iperf3(&mut self, rate: BitRate) {
        let gap = rate.ns_of(BYTES.into());
        let (mut due, mut sent) = (self.random.f64() * TIMER_NS, 0);
        let mut last = 0.0;
        while due < self.until_ns {
            let very_late = self.random.f64() < VERY_LATE_PART;
            let late = if very_late {
                self.random.f64() * VERY_LATE_NS
            } else {
                self.exponential(LATE_NS)
            };
            let now = f64::max(due + late, last);
            let many = (now / gap) as u64 - sent;
            self.evenly(now, SENDING_NS.min(gap), many);
            sent += many;
            last = now + SENDING_NS.min(gap) * many as f64;
            due = f64::max(due + TIMER_NS, now);
        }
    }

    fn batches(&mut self, rate: BitRate) {
        let bytes = SIZES.iter().sum::<u32>() as f64 / SIZES.len() as f64;
        let mut at = 0.0;
        while at < self.until_ns {
            at += self.exponential(rate.ns_of(bytes) * BATCH);
            loop {
                let bytes = SIZES[self.random.usize(..SIZES.len())];
                self.packets.push((at, bytes));
                if self.random.f64() * BATCH < 1.0 {
                    break;
                }
            }
        }
    }

    fn on_and_off(&mut self, rate: BitRate) {
        let gap = rate.ns_of(BYTES.into()) * f64::from(MARKOV_SOURCES) / 2.0;
        let mut at = if self.random.bool() { self.exponential(MARKOV_NS) } else { 0.0 };
        while at < self.until_ns {
            let on = self.exponential(MARKOV_NS);
            let many = self.whole(on / gap);
            self.evenly(at, gap, many);
            at += on + self.exponential(MARKOV_NS);
        }
    }

    fn video(&mut self, rate: BitRate) {
        let mean = FRAME_NS / rate.ns_of(BYTES.into()) / f64::from(VIDEO_STREAMS);
        let mut at = self.random.f64() * FRAME_NS;
        while at < self.until_ns {
            let size = FRAME_DEVIATION.mul_add(self.normal(), -FRAME_DEVIATION.powi(2) / 2.0).exp();
            let many = self.whole(mean * size);
            self.evenly(at, FRAME_NS * FRAME_PART / many.max(1) as f64, many);
            at += FRAME_NS;
        }
    }

    fn windows(&mut self, rate: BitRate, flow: u32) {
        let round_trip = ROUND_TRIP_NS * 1.5_f64.powi(flow.cast_signed());
        let mean = round_trip / rate.ns_of(BYTES.into()) / f64::from(FLOWS);
        // Between two thirds of the mean and four thirds.
        let mut grown = self.random.f64();
        let mut at = self.random.f64() * round_trip;
        while at < self.until_ns {
            let many = self.whole(mean * 2.0 / 3.0 * (1.0 + grown));
            self.evenly(at, round_trip * WINDOW_PART / many.max(1) as f64, many);
            grown += (0.5 + self.random.f64()) / ROUNDS;
            grown = if grown >= 1.0 { 0.0 } else { grown };
            at += round_trip;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_much_comes_as_is_told_and_in_order() {
        for kind in TIMINGS {
            let packets = kind.packets(BitRate::mega(50.0), Duration::from_secs(60), 1);
            let bits = packets.iter().map(|(_, bytes)| f64::from(*bytes) * 8.0).sum::<f64>();
            assert!((bits / 60.0 / 50e6 - 1.0).abs() < 0.05, "{kind:?}: {bits}");
            assert!(packets.is_sorted_by_key(|(at, _)| *at), "{kind:?}");
        }
    }

    #[test]
    fn it_comes_unevenly() {
        for kind in TIMINGS {
            let packets = kind.packets(BitRate::mega(50.0), Duration::from_secs(10), 2);
            let mut bins = vec![0.0_f64; 2000];
            packets.iter().filter(|(at, _)| *at < 10e9).for_each(|(at, bytes)| {
                bins[(*at / 5e6) as usize] += f64::from(*bytes);
            });
            let mean = bins.iter().sum::<f64>() / 2000.0;
            let variance = bins.iter().map(|it| (it - mean).powi(2)).sum::<f64>() / 2000.0;
            assert!(variance.sqrt() > 0.05 * mean, "{kind:?}: {}", variance.sqrt() / mean);
        }
    }
}
