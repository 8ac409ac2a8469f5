//! Derives verdicts from measurements: arithmetic only, so that it can be tested.

use serde::Serialize;

use crate::interface::Claim;
use crate::seen::Seen;

/// The verdict on an interface in a timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Verdict {
    /// It follows the timeline because Eigentime translates it.
    #[serde(rename = "translated")]
    Translated,
    /// It is right without translation.
    #[serde(rename = "native")]
    Native,
    /// It follows the host's time.
    #[serde(rename = "not virtualized")]
    NotVirtualized,
    /// This machine lacks something that the test needs.
    #[serde(rename = "skipped")]
    Skipped,
    /// It contradicts its claim.
    #[serde(rename = "FAILED")]
    Failed,
}

impl Verdict {
    /// All verdicts, in the order of the summary.
    pub const ALL: [Self; 5] =
        [Self::Translated, Self::Native, Self::NotVirtualized, Self::Skipped, Self::Failed];

    /// Its name in the output.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Translated => "translated",
            Self::Native => "native",
            Self::NotVirtualized => "not virtualized",
            Self::Skipped => "skipped",
            Self::Failed => "FAILED",
        }
    }

    /// The verdict for an interface with this claim and this finding.
    #[must_use]
    pub fn of(claim: Claim, seen: Seen) -> Self {
        match (claim, seen) {
            (Claim::Follows, Seen::Virtual) => Self::Translated,
            (Claim::Alone(_), Seen::Host) | (_, Seen::Both) => Self::Native,
            (Claim::Host(_) | Claim::Unlisted(_), Seen::Host) => Self::NotVirtualized,
            (Claim::Follows, Seen::Host) | (_, Seen::Virtual | Seen::Neither) => Self::Failed,
        }
    }
}

/// The accepted deviation of a wait, as a factor: a noisy machine makes waits longer.
pub const WAIT_SLACK: f64 = 10.0;
/// The accepted deviation of a length that was read, not waited for, as a factor.
pub const LENGTH_SLACK: f64 = 2.0;
/// The fraction by which a wait may be too short, since the clock of the wait is not the one that
/// measures it.
const SHORTER: f64 = 0.01;

/// Determines which of two lengths a length is nearer to, as a ratio. `None` is a length that it
/// cannot have: a wait that would never end, or not even start.
#[must_use]
pub fn nearer(length: f64, to_virtual: Option<f64>, to_host: Option<f64>, slack: f64) -> Seen {
    let distance = |to: Option<f64>| {
        let to = to.filter(|to| *to > 0.0 && length > 0.0)?;
        let distance = (length / to).ln().abs();
        (distance <= slack.ln()).then_some(distance)
    };
    match (distance(to_virtual), distance(to_host)) {
        (None, None) => Seen::Neither,
        (Some(_), None) => Seen::Virtual,
        (None, Some(_)) => Seen::Host,
        (Some(a), Some(b)) if (a - b).abs() < 1e-6 => Seen::Both,
        (Some(a), Some(b)) => Seen::of(a < b, b < a),
    }
}

/// Judges a wait of `asked` that lasted `passed` on its own clock and `host` on the host's, in a
/// timeline of this rate; `elsewhere` if the host's clock does not reach the deadline in time (the
/// only observable difference at the host's rate).
#[must_use]
pub fn wait(asked: f64, passed: f64, host: f64, rate: f64, elsewhere: bool) -> Seen {
    let untranslated = (!elsewhere || rate != 1.0).then_some(asked);
    let seen = nearer(host, Some(asked / rate), untranslated, WAIT_SLACK);
    let too_short = passed < asked * (1.0 - SHORTER);
    match seen {
        Seen::Virtual | Seen::Both if too_short => Seen::Neither,
        _ => seen,
    }
}

/// An interval that something must lie in.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    /// The lower bound.
    pub least: f64,
    /// The upper bound.
    pub most: f64,
}

impl Span {
    /// The smallest interval around some values.
    #[must_use]
    pub fn around(values: &[f64]) -> Self {
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Self { least, most }
    }

    /// The interval extended by `below` and `above`.
    #[must_use]
    pub fn widened(self, below: f64, above: f64) -> Self {
        Self { least: self.least - below, most: self.most + above }
    }

    /// Whether it contains a value.
    #[must_use]
    pub fn has(self, value: f64) -> bool {
        self.least <= value && value <= self.most
    }
}

/// The maximum slew of the host's clocks against one another.
const SLEW: f64 = 0.002;

/// A reading that was made twice in a timeline, and the host's readings at the ends of the
/// intervals in which it was made and in which the timeline started.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Readings {
    /// The two readings.
    pub shown: [f64; 2],
    /// The host's readings before and after each.
    pub host: [[f64; 2]; 2],
    /// The host's readings before and after the start of the timeline.
    pub began: [f64; 2],
    /// The start of the timeline's clock relative to the host's at that time, for both ends of that
    /// interval; `None` if only the speed counts.
    pub ahead: Option<[f64; 2]>,
    /// The offset from the kernel's namespace alone.
    pub moved: f64,
    /// Virtual seconds per host second.
    pub rate: f64,
    /// The maximum lag of a reading.
    pub grain: f64,
}

impl Readings {
    /// Judges them.
    #[must_use]
    pub fn judge(&self) -> Seen {
        Seen::of(self.follow(self.rate, self.ahead), {
            let ahead = self.ahead.map(|_| [self.moved; 2]);
            self.follow(1.0, ahead)
        })
    }

    /// Whether they follow a clock of this rate that started this far ahead.
    fn follow(&self, rate: f64, ahead: Option<[f64; 2]>) -> bool {
        let [first, second] = self.host;
        let (least, most) = (second[0] - first[1], second[1] - first[0]);
        let speed = Span { least: least * rate * (1.0 - SLEW), most: most * rate * (1.0 + SLEW) };
        let speed = speed.widened(self.grain, self.grain);
        let positions = self.shown.iter().zip(self.host).all(|(shown, host)| {
            let Some(ahead) = ahead else { return true };
            let mut ends = Vec::with_capacity(4);
            for (began, ahead) in self.began.iter().zip(ahead) {
                ends.extend(host.map(|now| began + ahead + rate * (now - began)));
            }
            let slack = self.grain.max(1.0);
            Span::around(&ends).widened(slack, slack).has(*shown)
        });
        positions && speed.has(self.shown[1] - self.shown[0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: f64 = 1e9;

    #[test]
    fn claims_and_sights_make_verdicts() {
        let host = Claim::Host("x");
        let alone = Claim::Alone("x");
        for (claim, seen, verdict) in [
            (Claim::Follows, Seen::Virtual, Verdict::Translated),
            (Claim::Follows, Seen::Both, Verdict::Native),
            (Claim::Follows, Seen::Host, Verdict::Failed),
            (Claim::Follows, Seen::Neither, Verdict::Failed),
            (host, Seen::Host, Verdict::NotVirtualized),
            (host, Seen::Both, Verdict::Native),
            (host, Seen::Virtual, Verdict::Failed),
            (host, Seen::Neither, Verdict::Failed),
            (alone, Seen::Host, Verdict::Native),
            (alone, Seen::Virtual, Verdict::Failed),
            (alone, Seen::Neither, Verdict::Failed),
            (Claim::Unlisted("y"), Seen::Host, Verdict::NotVirtualized),
        ] {
            assert_eq!(Verdict::of(claim, seen), verdict, "{claim:?} {seen:?}");
        }
    }

    #[test]
    fn waits_are_told_apart_on_a_noisy_machine() {
        // Rate 10: a second on its own clock is a tenth of the host's.
        assert_eq!(wait(S, 1.0 * S, 0.1 * S, 10.0, false), Seen::Virtual);
        assert_eq!(wait(S, 2.5 * S, 0.25 * S, 10.0, false), Seen::Virtual);
        assert_eq!(wait(S, 10.0 * S, 1.0 * S, 10.0, false), Seen::Host);
        assert_eq!(wait(S, 0.9 * S, 0.09 * S, 10.0, false), Seen::Neither);
        // Rate 1/10.
        assert_eq!(wait(0.02 * S, 0.02 * S, 0.2 * S, 0.1, false), Seen::Virtual);
        assert_eq!(wait(0.02 * S, 0.002 * S, 0.02 * S, 0.1, false), Seen::Host);
        assert_eq!(wait(0.02 * S, 0.1 * S, 1.0 * S, 0.1, false), Seen::Virtual);
    }

    #[test]
    fn at_the_hosts_rate_only_deadlines_tell() {
        assert_eq!(wait(0.08 * S, 0.08 * S, 0.08 * S, 1.0, false), Seen::Both);
        assert_eq!(wait(0.08 * S, 0.08 * S, 0.08 * S, 1.0, true), Seen::Virtual);
        assert_eq!(wait(0.08 * S, 0.0, 0.0001 * S, 1.0, true), Seen::Neither);
        assert_eq!(wait(0.08 * S, 5.0 * S, 5.0 * S, 1.0, true), Seen::Neither);
        // A timeline in name only.
        assert_eq!(wait(0.02 * S, 0.02 * S, 0.02 * S, 0.1, true), Seen::Host);
    }

    #[test]
    fn lengths_are_nearer_to_one() {
        assert_eq!(nearer(0.5, Some(0.5), Some(0.05), LENGTH_SLACK), Seen::Virtual);
        assert_eq!(nearer(0.05, Some(0.5), Some(0.05), LENGTH_SLACK), Seen::Host);
        assert_eq!(nearer(0.2, Some(0.5), Some(0.05), LENGTH_SLACK), Seen::Neither);
        assert_eq!(nearer(0.0, Some(0.5), Some(0.05), LENGTH_SLACK), Seen::Neither);
        assert_eq!(nearer(864_100.0, Some(100.0), Some(100.0), LENGTH_SLACK), Seen::Neither);
    }

    /// Readings 3 s apart, each within 2 ms; the timeline started within 50 ms.
    fn readings(shown: [f64; 2], ahead: Option<[f64; 2]>, rate: f64) -> Readings {
        let host = [[100.1 * S, 100.102 * S], [103.1 * S, 103.102 * S]];
        let began = [100.0 * S, 100.05 * S];
        Readings { shown, host, began, ahead, moved: 0.0, rate, grain: 1e6 }
    }

    #[test]
    fn readings_follow_their_rate() {
        let at = |first: f64, second: f64| [first * S, second * S];
        let zero = Some([0.0; 2]);
        // Started at 100.03.
        assert_eq!(readings(at(100.74, 130.74), zero, 10.0).judge(), Seen::Virtual);
        assert_eq!(readings(at(100.101, 103.101), zero, 10.0).judge(), Seen::Host);
        assert_eq!(readings(at(100.101, 103.101), zero, 1.0).judge(), Seen::Both);
        assert_eq!(readings(at(100.101, 118.0), zero, 10.0).judge(), Seen::Neither);
        assert_eq!(readings(at(100.03, 100.03), zero, 0.0).judge(), Seen::Virtual);
        // Without a common epoch, only the speed counts.
        assert_eq!(readings(at(7.0, 37.0), None, 10.0).judge(), Seen::Virtual);
        assert_eq!(readings(at(7.0, 10.0), None, 10.0).judge(), Seen::Host);
    }

    #[test]
    fn readings_start_where_the_timeline_does() {
        let day = 86_400.0 * S;
        let moved = [100.101 * S + day, 103.101 * S + day];
        assert_eq!(readings(moved, Some([day; 2]), 1.0).judge(), Seen::Virtual);
        let by_namespace = Readings { moved: day, ..readings(moved, Some([day; 2]), 1.0) };
        assert_eq!(by_namespace.judge(), Seen::Both);
        assert_eq!(readings(moved, Some([2.0 * day; 2]), 1.0).judge(), Seen::Neither);
    }
}
