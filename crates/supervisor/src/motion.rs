//! How the clocks of a timeline run.

use eigentime_timeline::{Anchor, CLOCKS, Clock, Freeze, Nanos, Rate, Segment};
use serde::{Deserialize, Serialize};

/// How fast the clocks run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Motion {
    /// Virtual seconds per host second, while they run.
    pub rate: Rate,
    /// The clocks that are frozen, if any.
    pub freeze: Option<Freeze>,
    /// The rate of the wall clock until it has caught up, if that may differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wall: Option<Rate>,
}

impl Motion {
    /// All clocks run at one rate, except frozen ones.
    #[must_use]
    pub const fn new(rate: Rate, freeze: Option<Freeze>) -> Self {
        Self { rate, freeze, wall: None }
    }

    /// The rate of all clocks but the wall clock: zero while they are frozen.
    #[must_use]
    pub fn effective(self) -> Rate {
        if self.is_frozen() { Rate::FROZEN } else { self.rate }
    }

    /// Whether all clocks are frozen.
    #[must_use]
    pub fn is_frozen(self) -> bool {
        self.freeze == Some(Freeze::All)
    }

    /// The rate of a clock.
    #[must_use]
    pub fn rate_of(self, clock: Clock) -> Rate {
        self.segment(Segment::IDENTITY.anchors).rate_of(clock)
    }

    /// The host time in which the first clock advances by this span, if any runs.
    #[must_use]
    pub fn host_span(self, span: Nanos) -> Option<Nanos> {
        Clock::ALL.into_iter().filter_map(|clock| self.rate_of(clock).host_span(span)).min()
    }

    /// The segment through these anchors along which the clocks run.
    #[must_use]
    pub fn segment(self, anchors: [Anchor; CLOCKS]) -> Segment {
        let wall = match self.freeze {
            Some(Freeze::All) => None,
            Some(Freeze::Wall) => Some(Rate::FROZEN),
            None => self.wall,
        };
        Segment { rate: self.effective(), wall, anchors }
    }
}

/// Whether a user can ask for this rate.
pub fn is_allowed(rate: Rate) -> bool {
    let millionths = rate.virtual_span(Nanos(1_000_000)).0;
    (Rate::MIN_MILLIONTHS as i64..=Rate::MAX_MILLIONTHS as i64).contains(&millionths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wall_that_stands_does_so_beside_clocks_that_only_skip() {
        let anchors = Segment::IDENTITY.anchors;
        let stands = Motion::new(Rate::FROZEN, Some(Freeze::Wall)).segment(anchors);
        assert!(stands.holds(Clock::Wall) && !stands.holds(Clock::Monotonic));
        let skips = Motion::new(Rate::FROZEN, None).segment(anchors);
        assert!(!skips.holds(Clock::Wall));
        let page = eigentime_timeline::page::Page::new();
        page.publish(&eigentime_timeline::Map::settled(stands));
        assert!(page.map().after.holds(Clock::Wall));
    }
}
