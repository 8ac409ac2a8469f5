//! Where the clocks of restored processes resume.

use std::fmt::{Display, Formatter, Result as Formatted};
use std::str::FromStr;

use crate::saved::{Policies, Policy};

/// The default fraction of a second that a slewed clock gains or loses per second.
pub const SLEW_RATE: f64 = 0.1;

/// Where a clock resumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Course {
    /// At once, as this policy says.
    At(Policy),
    /// Where it stopped, but faster or slower than before until it shows what it would have shown
    /// had it run on.
    Slew,
}

/// The course of the wall clock and of all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Onward {
    /// For the wall clock.
    pub wall: Course,
    /// For the monotonic clocks.
    pub monotonic: Course,
}

impl Onward {
    /// The policy of each.
    pub(crate) fn policies(self) -> Policies {
        let [wall, monotonic] = [self.wall, self.monotonic].map(|course| match course {
            Course::At(policy) => policy,
            Course::Slew => Policy::Continue,
        });
        Policies { wall, monotonic }
    }

    /// Whether any of them is slewed.
    #[must_use]
    pub fn slews(self) -> bool {
        [self.wall, self.monotonic].contains(&Course::Slew)
    }
}

impl Default for Onward {
    fn default() -> Self {
        let continued = Course::At(Policy::default());
        Self { wall: continued, monotonic: continued }
    }
}

impl Display for Course {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> Formatted {
        match self {
            Self::At(policy) => policy.fmt(formatter),
            Self::Slew => formatter.write_str("slew"),
        }
    }
}

impl Display for Onward {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> Formatted {
        write!(formatter, "wall={},monotonic={}", self.wall, self.monotonic)
    }
}

impl FromStr for Course {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "slew" => Ok(Self::Slew),
            text => text.parse().map(Self::At),
        }
    }
}

impl FromStr for Onward {
    type Err = &'static str;

    /// Parses one course for all clocks, or `wall=POLICY,monotonic=POLICY`, either of which may be
    /// left out.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const REFUSED: &str =
            "it must be continue, catch-up or slew, or wall=POLICY,monotonic=POLICY with these";
        if let Ok(all) = text.parse::<Course>() {
            return Ok(Self { wall: all, monotonic: all });
        }
        let [mut wall, mut monotonic] = [None; 2];
        for part in text.split(',') {
            let (clock, course) = part.split_once('=').ok_or(REFUSED)?;
            let clock = match clock {
                "wall" => &mut wall,
                "monotonic" => &mut monotonic,
                _ => return Err(REFUSED),
            };
            if clock.replace(course.parse().map_err(|_| REFUSED)?).is_some() {
                return Err("it gives two policies for the same clock");
            }
        }
        let others = Self::default();
        Ok(Self {
            wall: wall.unwrap_or(others.wall),
            monotonic: monotonic.unwrap_or(others.monotonic),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_for_all_clocks_or_one_for_each_kind() {
        let [stays, catches_up] = [Policy::Continue, Policy::CatchUp].map(Course::At);
        for (text, wall, monotonic) in [
            ("continue", stays, stays),
            ("catch-up", catches_up, catches_up),
            ("slew", Course::Slew, Course::Slew),
            ("wall=slew", Course::Slew, stays),
            ("monotonic=slew,wall=catch-up", catches_up, Course::Slew),
        ] {
            assert_eq!(text.parse(), Ok(Onward { wall, monotonic }), "{text}");
        }
        for text in [
            "",
            "slow",
            "wall",
            "wall=",
            "boottime=slew",
            "wall=slew,",
            "wall=slew,wall=slew",
            "wall=slew;monotonic=slew",
        ] {
            assert!(text.parse::<Onward>().is_err(), "{text}");
        }
    }
}
