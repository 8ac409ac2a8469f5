//! How the clocks of a timeline run.

use eigentime_timeline::{Anchor, CLOCKS, Clock, Freeze, Nanos, Rate, Segment};
use serde::{Deserialize, Serialize};

/// How fast the clocks run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Motion {
    /// Virtual seconds per host second, while they run.
    pub rate: Rate,
    /// Which of them stand still, if any.
    pub freeze: Option<Freeze>,
}

impl Motion {
    /// The rate that holds for all clocks but the wall clock: zero while they stand still.
    #[must_use]
    pub fn effective(self) -> Rate {
        if self.is_frozen() { Rate::FROZEN } else { self.rate }
    }

    /// Do all clocks stand still?
    #[must_use]
    pub fn is_frozen(self) -> bool {
        self.freeze == Some(Freeze::All)
    }

    /// Does the wall clock alone stand still?
    #[must_use]
    pub fn stands(self) -> bool {
        self.freeze == Some(Freeze::Wall)
    }

    /// The rate that holds for a clock.
    #[must_use]
    pub fn rate_of(self, clock: Clock) -> Rate {
        self.segment(Segment::IDENTITY.anchors).rate_of(clock)
    }

    /// The segment through these anchors along which the clocks run.
    #[must_use]
    pub fn segment(self, anchors: [Anchor; CLOCKS]) -> Segment {
        Segment { rate: self.effective(), wall_stands: self.stands(), anchors }
    }
}

/// Is it a rate that can be asked for?
pub fn is_allowed(rate: Rate) -> bool {
    let millionths = rate.virtual_span(Nanos(1_000_000)).0;
    (Rate::MIN_MILLIONTHS as i64..=Rate::MAX_MILLIONTHS as i64).contains(&millionths)
}
