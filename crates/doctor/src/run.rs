//! How it was when the checks began, for what is counted meanwhile.

use eigentime_measure::bracket::{Bracket, narrowest};
use eigentime_measure::stopwatch::{Began, Stopwatch};
use rustix::time::ClockId;

use crate::discipline::step::Watch;
use crate::machine::{Machine, Unknown};
use crate::surroundings::cgroup::Group;
use crate::surroundings::stat::Times;
use crate::units;

/// What has been counted, and where clocks stood, when the checks began.
#[derive(Debug)]
pub struct Run {
    /// When it was, by the host's time; None where a timeline hides that.
    began: Option<Began>,
    /// CLOCK_MONOTONIC, in nanoseconds.
    pub monotonic_ns: i64,
    /// CLOCK_MONOTONIC_RAW, in nanoseconds.
    pub raw_ns: i64,
    /// Sees whether somebody sets the clock.
    pub watch: Watch,
    /// What processors did since the machine started.
    pub times: Result<Times, Unknown>,
    /// The control groups of this process that limit its processor time, with their counts.
    pub groups: Result<Vec<Group>, Unknown>,
}

impl Run {
    /// Reads all that.
    pub fn begin(machine: &Machine) -> Self {
        let rates = rates();
        Self {
            began: Stopwatch::new().map(Stopwatch::start),
            monotonic_ns: rates.middle(),
            raw_ns: rates.inside,
            watch: Watch::begin(),
            times: Times::of(machine),
            groups: Group::all(machine),
        }
    }

    /// How much faster CLOCK_MONOTONIC has been than CLOCK_MONOTONIC_RAW since, in ppm: its
    /// frequency correction and slew. None if no time has passed.
    pub fn correction_ppm(&self) -> Option<f64> {
        let rates = rates();
        let raw = (rates.inside - self.raw_ns) as f64;
        let monotonic = (rates.middle() - self.monotonic_ns) as f64;
        (raw > 0.0).then(|| (monotonic / raw - 1.0) * 1e6)
    }

    /// How long the checks have been going on, in seconds of the host's time, or, where a timeline
    /// hides that, of CLOCK_MONOTONIC.
    pub fn seconds(&self) -> f64 {
        match &self.began {
            Some(began) => began.elapsed().as_secs_f64(),
            None => (units::nanos(ClockId::Monotonic) - self.monotonic_ns) as f64 / 1e9,
        }
    }
}

/// CLOCK_MONOTONIC around CLOCK_MONOTONIC_RAW.
fn rates() -> Bracket<i64> {
    const TRIES: usize = 9;
    let [monotonic, raw] =
        [ClockId::Monotonic, ClockId::MonotonicRaw].map(|clock| move || units::nanos(clock));
    narrowest(TRIES, monotonic, raw)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_corrected_by_no_more_than_the_kernel_allows() {
        let machine = Machine::default();
        let run = machine.run();
        while run.seconds() < 0.05 {
            std::hint::spin_loop();
        }
        // A tenth is what the length of a tick can be changed by.
        assert!(run.correction_ppm().unwrap().abs() < 1.1e5);
        assert_eq!(machine.run().monotonic_ns, run.monotonic_ns, "it begins once");
    }
}
