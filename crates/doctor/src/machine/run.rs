//! The state when the checks began, for counters.

use eigentime_measure::bracket::{Bracket, narrowest};
use eigentime_measure::stopwatch::{Began, Stopwatch};
use rustix::time::ClockId;

use super::cgroup::Group;
use super::stat::Times;
use super::{Machine, Unknown};
use crate::units;
use crate::watch::Watch;

/// Counters and clocks when the checks began.
#[derive(Debug)]
pub struct Run {
    /// When that was, in the host's time; None if a timeline hides that.
    began: Option<Began>,
    /// CLOCK_MONOTONIC, in nanoseconds.
    pub monotonic_ns: i64,
    /// CLOCK_MONOTONIC_RAW, in nanoseconds.
    pub raw_ns: i64,
    /// Detects whether the clock is set.
    pub watch: Watch,
    /// The processor times since the machine started.
    pub times: Result<Times, Unknown>,
    /// The control groups of this process that limit its processor time, with their counts.
    pub groups: Result<Vec<Group>, Unknown>,
}

impl Run {
    /// Reads the state.
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

    /// How long the checks have been running, in seconds of the host's time, or of CLOCK_MONOTONIC
    /// if a timeline hides that.
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
        // The tick length can be changed by a tenth.
        assert!(run.correction_ppm().unwrap().abs() < 1.1e5);
        assert_eq!(machine.run().monotonic_ns, run.monotonic_ns, "it begins once");
    }
}
