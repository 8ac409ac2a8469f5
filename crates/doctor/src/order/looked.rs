//! The results of comparing a clock, in nanoseconds.

use eigentime_clock::warp::{self, Survey, Warp};

use super::{Compared, CounterRate};
use crate::Finding;
use crate::units::{count, length};

/// Where readings were compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Within a thread on each processor.
    Within,
    /// Between processors.
    Between,
}

impl Place {
    /// Its name in facts.
    pub fn name(self) -> &'static str {
        match self {
            Self::Within => "within",
            Self::Between => "between",
        }
    }

    /// Its name in sentences.
    pub fn said(self) -> &'static str {
        match self {
            Self::Within => "within a thread",
            Self::Between => "between processors",
        }
    }

    fn of(self, survey: &Survey) -> &[warp::Compared] {
        match self {
            Self::Within => &survey.within,
            Self::Between => &survey.between,
        }
    }
}

/// The results for a clock in one place, for all processors or pairs together.
#[derive(Clone, Copy, Debug)]
pub struct Looked {
    /// The clock.
    pub clock: Compared,
    /// The place.
    pub place: Place,
    /// Readings that were compared with a previous one.
    pub readings: u64,
    /// Those that were behind.
    pub backwards: u64,
    /// The largest such distance, in nanoseconds.
    pub worst_ns: f64,
    /// The smallest warp that would have been seen anywhere, in nanoseconds.
    pub smallest_visible_ns: f64,
    /// Its index among the clocks of the survey.
    number: usize,
}

impl Looked {
    /// Combines the results for one of the survey's clocks.
    pub fn at(
        survey: &Survey,
        place: Place,
        number: usize,
        clock: &Compared,
        rate: &CounterRate,
    ) -> Self {
        let warps = place.of(survey).iter().filter_map(|it| it.warps.get(number));
        let all = warps.copied().fold(Warp::default(), Warp::and);
        let seen = Self::of(&all, place, clock, rate);
        Self { number, ..seen }
    }

    /// The results for a clock, in nanoseconds.
    pub fn of(warp: &Warp, place: Place, clock: &Compared, rate: &CounterRate) -> Self {
        let unit = clock.unit_ns(rate);
        let visible = match warp.readings {
            0 => 0.0,
            _ => (warp.smallest_visible as f64 * unit).max(clock.step_ns(rate)),
        };
        Self {
            clock: *clock,
            place,
            readings: warp.readings,
            backwards: warp.backwards,
            worst_ns: warp.worst as f64 * unit,
            smallest_visible_ns: visible,
            number: 0,
        }
    }

    /// The results in words.
    pub fn said(&self) -> String {
        let place = self.place.said();
        let readings = count(self.readings, "reading", "readings");
        match (self.readings, self.backwards) {
            (0, _) => format!("{place} not compared"),
            (_, 0) => format!(
                "{place} in order ({readings}; detection limit {})",
                length(self.smallest_visible_ns)
            ),
            (_, behind) => {
                format!("{place} {behind} of {readings} behind, by up to {}", length(self.worst_ns))
            }
        }
    }

    /// Adds its facts.
    pub fn add_to(&self, finding: Finding) -> Finding {
        let labels = [("clock", self.clock.name), ("where", self.place.name())];
        let finding = finding.fact_of("warp_readings", &labels, self.readings).fact_of(
            "warp_backwards",
            &labels,
            self.backwards,
        );
        match self.readings {
            0 => finding,
            _ => finding.fact_of("warp_worst_ns", &labels, self.worst_ns).fact_of(
                "warp_smallest_visible_ns",
                &labels,
                self.smallest_visible_ns,
            ),
        }
    }
}

/// A line for each processor or pair on which one of these went backwards.
pub fn warped(survey: &Survey, backwards: &[&Looked]) -> Vec<String> {
    let lines = backwards.iter().flat_map(|looked| {
        let places = looked.place.of(survey).iter();
        places.filter_map(|it| {
            let warp = it.warps.get(looked.number).filter(|warp| warp.backwards > 0)?;
            let where_ = match it.cpus {
                [one, other] if one == other => format!("on processor {one}"),
                [one, other] => format!("between processors {one} and {other}"),
            };
            let behind = count(warp.backwards, "reading", "readings");
            Some(format!("{} {where_}: {behind} behind", looked.clock.name))
        })
    });
    lines.collect()
}
