//! Cross traffic that exists only in the queue's arithmetic, so its truth is known.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use eigentime_bandwidth::BitRate;

/// The rate and pattern of cross traffic.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Traffic {
    /// The pattern.
    pub kind: Kind,
    /// The average rate.
    pub rate: BitRate,
    /// The length of each packet, as an IP packet.
    pub bytes: u32,
}

/// The arrival pattern of packets.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Kind {
    /// At even gaps.
    Cbr,
    /// At exponentially distributed gaps.
    Poisson,
    /// Alternately at twice the rate, evenly, and not at all, in turns whose lengths have a Pareto
    /// distribution and a mean of [`MEAN_TURN_NS`].
    Pareto {
        /// The exponent of the distribution; its variance is infinite up to 2.
        shape: f64,
    },
}

/// The mean length of a turn of [`Kind::Pareto`], on the order of a TCP burst.
pub const MEAN_TURN_NS: f64 = 10e6;

/// The shape most used in the literature for self-similar traffic (Willinger et al. 1997 found 1.2
/// for the on times of hosts and 1.5 for their off times).
pub const SHAPE: f64 = 1.5;

/// The default packet length.
pub const BYTES: u32 = 1500;

/// Cross traffic that cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is no cross traffic: {1}; write cbr:RATE, poisson:RATE, pareto:RATE or \
         pareto:RATE:SHAPE, such as poisson:150M"
)]
pub struct NoTraffic(String, String);

impl FromStr for Traffic {
    type Err = NoTraffic;

    fn from_str(text: &str) -> Result<Self, NoTraffic> {
        let refuse = |why: &str| NoTraffic(text.to_owned(), why.to_owned());
        let mut parts = text.split(':');
        let kind = parts.next().unwrap_or_default();
        let rate = parts.next().ok_or_else(|| refuse("it has no rate"))?;
        let rate = rate.parse::<BitRate>().map_err(|why| refuse(&why.to_string()))?;
        let shape = parts.next();
        let kind = match (kind, shape) {
            ("cbr", None) => Kind::Cbr,
            ("poisson", None) => Kind::Poisson,
            ("pareto", shape) => {
                let shape = shape.map_or(Some(SHAPE), |text| text.parse().ok());
                // At 1 and below there is no mean, and so no rate.
                let shape = shape.filter(|shape| *shape > 1.0 && *shape <= 100.0);
                Kind::Pareto { shape: shape.ok_or_else(|| refuse("a shape is above 1"))? }
            }
            ("cbr" | "poisson", Some(_)) => return Err(refuse("only pareto has a shape")),
            _ => return Err(refuse("no such kind")),
        };
        match parts.next() {
            None => Ok(Self { kind, rate, bytes: BYTES }),
            Some(_) => Err(refuse("there is too much of it")),
        }
    }
}

/// A generator of cross traffic.
#[derive(Clone, Debug)]
pub struct Cross {
    traffic: Traffic,
    random: fastrand::Rng,
    next_ns: f64,
    /// When the current turn with packets ends, if there are turns.
    turn_ends_ns: f64,
}

impl Cross {
    /// Cross traffic from a time on, in nanoseconds.
    #[must_use]
    pub fn new(traffic: Traffic, from_ns: f64, seed: u64) -> Self {
        let random = fastrand::Rng::with_seed(seed);
        let mut it = Self { traffic, random, next_ns: from_ns, turn_ends_ns: from_ns };
        match traffic.kind {
            // Anywhere in the gap.
            Kind::Cbr => it.next_ns += it.gap() * it.random.f64(),
            Kind::Poisson | Kind::Pareto { .. } => it.step(),
        }
        it
    }

    /// When the next packet arrives, if that is before this time; then advances to the following
    /// one.
    pub fn next_before(&mut self, ns: f64) -> Option<f64> {
        let at = self.next_ns;
        if at >= ns {
            return None;
        }
        self.step();
        Some(at)
    }

    /// The length of each packet.
    #[must_use]
    pub fn bytes(&self) -> u32 {
        self.traffic.bytes
    }

    /// The average gap between packets, in nanoseconds.
    fn gap(&self) -> f64 {
        self.traffic.rate.ns_of(self.traffic.bytes.into())
    }

    fn step(&mut self) {
        let gap = self.gap();
        self.next_ns += match self.traffic.kind {
            Kind::Cbr => gap,
            Kind::Poisson => -gap * self.above_zero().ln(),
            Kind::Pareto { shape } => {
                let mut ahead = gap / 2.0;
                // The rest of a gap at the end of a turn is carried over to the next turn, so the
                // mean is exact, however short the turns.
                let mut left = self.turn_ends_ns - self.next_ns;
                while ahead > left {
                    let silence = self.turn(shape);
                    self.turn_ends_ns += silence + self.turn(shape);
                    ahead += silence;
                    left = self.turn_ends_ns - self.next_ns;
                }
                ahead
            }
        };
    }

    /// The length of a turn, from the inverse of the distribution.
    fn turn(&mut self, shape: f64) -> f64 {
        let least = MEAN_TURN_NS * (shape - 1.0) / shape;
        least * self.above_zero().powf(-1.0 / shape)
    }

    /// Uniform between 0, exclusive, and 1.
    fn above_zero(&mut self) -> f64 {
        1.0 - self.random.f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn traffic(text: &str) -> Traffic {
        text.parse().unwrap()
    }

    fn times(text: &str, seconds: f64, seed: u64) -> Vec<f64> {
        let mut cross = Cross::new(traffic(text), 0.0, seed);
        std::iter::from_fn(|| cross.next_before(seconds * 1e9)).collect()
    }

    fn rate(times: &[f64], seconds: f64) -> f64 {
        times.len() as f64 * 1500.0 * 8.0 / seconds
    }

    /// The mean of the gaps, and their standard deviation relative to the mean.
    fn gaps(times: &[f64]) -> (f64, f64) {
        let gaps: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        (mean, variance.sqrt() / mean)
    }

    #[test]
    fn even_traffic_is_even_and_begins_anywhere_in_a_gap() {
        let times = times("cbr:300M", 0.1, 1);
        let (mean, scatter) = gaps(&times);
        assert!((mean - 40_000.0).abs() < 1e-3, "{mean}");
        assert!(scatter < 1e-6, "{scatter}");
        assert!((0.0..40_000.0).contains(&times[0]), "{}", times[0]);
    }

    #[test]
    fn gaps_of_poisson_traffic_are_exponential() {
        let times = times("poisson:300M", 4.0, 2);
        let (mean, scatter) = gaps(&times);
        // 100,000 gaps: four standard errors are 1.3 %.
        assert!((mean / 40_000.0 - 1.0).abs() < 0.013, "{mean}");
        assert!((scatter - 1.0).abs() < 0.02, "{scatter}");
        let longer = times.windows(2).filter(|pair| pair[1] - pair[0] > 2.0 * 40_000.0).count();
        let share = longer as f64 / times.len() as f64;
        assert!((share - (-2.0f64).exp()).abs() < 0.005, "{share}");
    }

    #[test]
    fn pareto_traffic_has_its_mean_and_comes_in_bursts() {
        // With a shape of 3 the variance is finite, and the average over a long enough time is the
        // mean.
        let steady = times("pareto:300M:3", 100.0, 3);
        assert!((rate(&steady, 100.0) / 300e6 - 1.0).abs() < 0.03, "{}", rate(&steady, 100.0));
        let times = times("pareto:300M", 10.0, 4);
        let within = times.windows(2).filter(|pair| (pair[1] - pair[0] - 20_000.0).abs() < 1.0);
        assert!(within.count() as f64 > 0.95 * times.len() as f64, "bursts are at twice the rate");
        // The shortest silence is a third of the mean one.
        let silences = times.windows(2).map(|pair| pair[1] - pair[0]).filter(|gap| *gap > 1e6);
        let silences: Vec<f64> = silences.collect();
        assert!(silences.iter().all(|gap| *gap > MEAN_TURN_NS / 3.0), "{silences:?}");
        // P(X > 2 x least) = 2^-1.5 = 0.354, of some 500.
        let long = silences.iter().filter(|gap| **gap > MEAN_TURN_NS / 1.5).count() as f64;
        let share = long / silences.len() as f64;
        assert!((share - 0.354).abs() < 0.09, "{share} of {}", silences.len());
    }

    #[test]
    fn the_same_seed_makes_the_same_traffic() {
        assert_eq!(times("poisson:100M", 0.1, 7), times("poisson:100M", 0.1, 7));
        assert_ne!(times("poisson:100M", 0.1, 7), times("poisson:100M", 0.1, 8));
    }

    #[test]
    fn traffic_is_read_and_what_is_none_is_refused_with_the_reason() {
        assert_eq!(traffic("pareto:1G:1.2").kind, Kind::Pareto { shape: 1.2 });
        assert_eq!(traffic("pareto:1G").kind, Kind::Pareto { shape: SHAPE });
        for (text, why) in [
            ("poisson", "no rate"),
            ("poisson:fast", "'fast' is no bit rate"),
            ("cbr:1M:2", "only pareto"),
            ("pareto:1M:1", "above 1"),
            ("pareto:1M:x", "above 1"),
            ("pareto:1M:nan", "above 1"),
            ("pareto:1M:2:3", "too much"),
            ("burst:1M", "no such kind"),
        ] {
            let error = text.parse::<Traffic>().unwrap_err().to_string();
            assert!(error.contains(why) && error.contains(text), "{error}");
        }
    }

    proptest::proptest! {
        /// Whatever the kind, time goes forward.
        #[test]
        fn time_goes_forward(
            mega in 0.1..10_000.0f64,
            seed: u64,
            kind in proptest::sample::select(vec!["cbr", "poisson", "pareto"]),
        ) {
            let mut cross = Cross::new(traffic(&format!("{kind}:{mega:.3}M")), 5.0, seed);
            let mut last = 5.0;
            for _ in 0..1000 {
                let next = cross.next_before(f64::INFINITY).unwrap();
                proptest::prop_assert!(next >= last && next.is_finite(), "{next} after {last}");
                last = next;
            }
        }
    }
}
