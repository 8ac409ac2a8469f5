//! From where the clocks of restored processes go on.

use std::str::FromStr;

use crate::saved::{Policies, Policy};

/// By which part of a second a clock that is slewed gains or loses in a second, if nothing else is said.
pub const SLEW_RATE: f64 = 0.1;

/// From where a clock goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Course {
    /// At once as this says.
    At(Policy),
    /// From where it stood, but faster or slower than before until it shows what it would have shown had
    /// it run on.
    Slew,
}

/// The same for the wall clock and for all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Onward {
    /// For the wall clock.
    pub wall: Course,
    /// For the monotonic clocks.
    pub monotonic: Course,
}

impl Onward {
    /// From where each goes on.
    pub(crate) fn policies(self) -> Policies {
        let [wall, monotonic] = [self.wall, self.monotonic].map(|course| match course {
            Course::At(policy) => policy,
            Course::Slew => Policy::Continue,
        });
        Policies { wall, monotonic }
    }

    /// Is any of them slewed?
    #[must_use]
    pub fn slews(self) -> bool {
        [self.wall, self.monotonic].contains(&Course::Slew)
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

    /// One for all clocks, or `wall=POLICY,monotonic=POLICY`, either of which may be left out.
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
        let [wall, monotonic] =
            [wall, monotonic].map(|it| it.unwrap_or(Course::At(Policy::default())));
        Ok(Self { wall, monotonic })
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
