//! A timeline as a document: the reading of every clock, and how it ran.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::str::FromStr;

use eigentime_timeline::text::format_date;
use eigentime_timeline::{CLOCKS, Clock, Freeze, HostInstant, Nanos, Rate, VirtualInstant};
use serde::{Deserialize, Serialize};

use crate::motion::{Motion, is_allowed};

/// The mark of our documents.
const FORMAT: &str = "eigentime timeline";

/// The version of the document's layout.
const VERSION: u32 = 1;

/// The version of a document whose wall clock is frozen while the others run.
const VERSION_WITH_STANDING_WALL: u32 = 2;

/// The clocks of a timeline at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub struct Saved {
    format: String,
    version: u32,
    /// The host's wall clock at that moment.
    #[cfg_attr(any(test, feature = "schema"), schemars(with = "i64"))]
    host_realtime_ns: HostInstant,
    /// Virtual seconds per host second while it runs.
    #[cfg_attr(any(test, feature = "schema"), schemars(with = "[u64; 2]"))]
    rate: Rate,
    /// Whether it was frozen.
    frozen: bool,
    /// Whether only the wall clock was frozen.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    wall_frozen: bool,
    /// The timeline's clocks.
    clocks: SavedClocks,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
struct SavedClocks {
    #[cfg_attr(any(test, feature = "schema"), schemars(with = "i64"))]
    realtime: VirtualInstant,
    #[cfg_attr(any(test, feature = "schema"), schemars(with = "i64"))]
    tai: VirtualInstant,
    #[cfg_attr(any(test, feature = "schema"), schemars(with = "i64"))]
    monotonic: VirtualInstant,
    #[cfg_attr(any(test, feature = "schema"), schemars(with = "i64"))]
    monotonic_raw: VirtualInstant,
    #[cfg_attr(any(test, feature = "schema"), schemars(with = "i64"))]
    boottime: VirtualInstant,
}

/// How a saved timeline resumes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Policy {
    /// Where it stopped.
    #[default]
    Continue,
    /// As if it had run on meanwhile.
    CatchUp,
}

/// The policy of the wall clock and of all others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policies {
    /// For the wall clock.
    pub wall: Policy,
    /// For the monotonic clocks.
    pub monotonic: Policy,
}

impl Policies {
    /// The policy of a clock.
    fn of(self, clock: Clock) -> Policy {
        if clock.is_wall() { self.wall } else { self.monotonic }
    }
}

impl From<Policy> for Policies {
    fn from(policy: Policy) -> Self {
        Self { wall: policy, monotonic: policy }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Continue => "continue",
            Self::CatchUp => "catch-up",
        })
    }
}

impl FromStr for Policy {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "continue" => Ok(Self::Continue),
            "catch-up" => Ok(Self::CatchUp),
            _ => Err("it must be continue or catch-up"),
        }
    }
}

/// Why a document does not describe a timeline.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each message says what it is")]
pub enum Unreadable {
    #[error("it is not what `eigentime ctl save` writes ({0})")]
    Malformed(String),
    #[error("it says that {clock} stood at {value} ns, which no clock shows")]
    NoSuchInstant { clock: &'static str, value: i64 },
    #[error("its rate is not between 0.001 and 1000000")]
    NoSuchRate,
}

impl Saved {
    /// The document for clocks that read this when the host's wall clock reads `host`.
    #[must_use]
    pub fn new(host: HostInstant, motion: Motion, virt: [VirtualInstant; CLOCKS]) -> Self {
        let at = |clock: Clock| virt[clock as usize];
        let wall_frozen = motion.freeze == Some(Freeze::Wall);
        Self {
            format: FORMAT.to_owned(),
            version: if wall_frozen { VERSION_WITH_STANDING_WALL } else { VERSION },
            host_realtime_ns: host,
            rate: motion.rate,
            frozen: motion.is_frozen(),
            wall_frozen,
            clocks: SavedClocks {
                realtime: at(Clock::Wall),
                tai: at(Clock::Tai),
                monotonic: at(Clock::Monotonic),
                monotonic_raw: at(Clock::Raw),
                boottime: at(Clock::Boottime),
            },
        }
    }

    /// The host's wall clock time at which it was saved.
    #[must_use]
    pub fn host(&self) -> HostInstant {
        self.host_realtime_ns
    }

    /// Identifies it in a few words.
    #[must_use]
    pub fn label(&self) -> String {
        let wall = format_date(VirtualInstant(self.host().0));
        let mut hasher = DefaultHasher::new();
        self.to_string().hash(&mut hasher);
        format!("(saved {wall}, {:08x})", hasher.finish() as u32)
    }

    /// How it ran.
    #[must_use]
    pub fn motion(&self) -> Motion {
        let wall = self.wall_frozen.then_some(Freeze::Wall);
        let freeze = if self.frozen { Some(Freeze::All) } else { wall };
        Motion::new(self.rate, freeze)
    }

    /// The reading of a clock when it was saved.
    #[must_use]
    pub fn stood(&self, clock: Clock) -> VirtualInstant {
        let SavedClocks { realtime, tai, monotonic, monotonic_raw, boottime } = self.clocks;
        match clock {
            Clock::Wall => realtime,
            Clock::Tai => tai,
            Clock::Monotonic => monotonic,
            Clock::Raw => monotonic_raw,
            Clock::Boottime => boottime,
        }
    }

    /// The reading of a clock when the host's wall clock reads `now`; `None` if that is before it
    /// was saved, and catching up would turn the clock back.
    #[must_use]
    pub fn stands(
        &self,
        clock: Clock,
        policies: Policies,
        now: HostInstant,
    ) -> Option<VirtualInstant> {
        let meanwhile = match policies.of(clock) {
            Policy::Continue => Nanos::ZERO,
            Policy::CatchUp => now.since(self.host()),
        };
        let passed = self.motion().rate_of(clock).virtual_span(meanwhile);
        (meanwhile >= Nanos::ZERO).then(|| self.stood(clock).after(passed))
    }
}

impl FromStr for Saved {
    type Err = Unreadable;

    fn from_str(text: &str) -> Result<Self, Unreadable> {
        let saved: Self =
            serde_json::from_str(text).map_err(|error| Unreadable::Malformed(error.to_string()))?;
        let version = if saved.wall_frozen { VERSION_WITH_STANDING_WALL } else { VERSION };
        if saved.format != FORMAT || saved.version != version {
            let found = format!("it is '{}', version {}", saved.format, saved.version);
            return Err(Unreadable::Malformed(found));
        }
        for clock in Clock::ALL {
            let value = saved.stood(clock).as_nanos();
            if value < 0 || value == i64::MAX {
                return Err(Unreadable::NoSuchInstant { clock: clock.name(), value });
            }
        }
        if !is_allowed(saved.motion().rate) {
            return Err(Unreadable::NoSuchRate);
        }
        Ok(saved)
    }
}

impl fmt::Display for Saved {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = serde_json::to_string_pretty(self).expect("a document is plain data");
        formatter.write_str(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn saved(rate: u64, freeze: Option<Freeze>) -> Saved {
        let motion = Motion::new(Rate::from_ratio(rate, 1).unwrap(), freeze);
        let virt = [5, 6, 7, 8, 9].map(|seconds| VirtualInstant(Nanos::from_secs(seconds)));
        Saved::new(HostInstant(Nanos::from_secs(1_000)), motion, virt)
    }

    #[test]
    fn comes_back_as_it_was() {
        for saved in
            [saved(1, None), saved(2, Some(Freeze::Wall)), saved(1_000_000, Some(Freeze::All))]
        {
            assert_eq!(saved.to_string().parse::<Saved>().unwrap(), saved);
        }
    }

    #[test]
    fn goes_on_by_its_policy() {
        let later = HostInstant(Nanos::from_secs(1_060));
        let at = |saved: &Saved, policy: Policy| {
            saved.stands(Clock::Monotonic, policy.into(), later).unwrap().0
        };
        assert_eq!(at(&saved(10, None), Policy::Continue), Nanos::from_secs(7));
        assert_eq!(at(&saved(10, None), Policy::CatchUp), Nanos::from_secs(607));
        assert_eq!(at(&saved(10, Some(Freeze::All)), Policy::CatchUp), Nanos::from_secs(7));
        let wall = saved(10, Some(Freeze::Wall));
        assert_eq!(at(&wall, Policy::CatchUp), Nanos::from_secs(607));
        let stands = wall.stands(Clock::Wall, Policy::CatchUp.into(), later).unwrap();
        assert_eq!(stands, wall.stood(Clock::Wall));
        let earlier = HostInstant(Nanos::from_secs(999));
        assert_eq!(saved(1, None).stands(Clock::Wall, Policy::CatchUp.into(), earlier), None);
    }

    #[test]
    fn other_documents_are_refused() {
        let good = saved(2, None).to_string();
        for (from, to) in [
            ("eigentime timeline", "something"),
            ("\"version\": 1", "\"version\": 2"),
            ("\"tai\": 6000000000", "\"tai\": -1"),
            ("\"rate\": [\n    2,", "\"rate\": [\n    2000000,"),
            ("\"frozen\": false", "\"frozen\": 3"),
            ("\"frozen\": false", "\"frozen\": false, \"wall_frozen\": true"),
            ("{", ""),
        ] {
            let bad = good.replacen(from, to, 1);
            assert_ne!(bad, good, "{from}");
            assert!(bad.parse::<Saved>().is_err(), "{bad}");
        }
    }
}
