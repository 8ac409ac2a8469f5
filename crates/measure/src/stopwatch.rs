//! Durations in the host's time, even if the program's own time differs.

use std::time::{Duration, Instant};

use eigentime_clock::counter;
use eigentime_clock::rate::Rate;
use eigentime_clock::{Clock, Reason, Trust};

/// Measures durations in the host's time.
#[derive(Clone, Copy, Debug)]
pub enum Stopwatch {
    /// With CLOCK_MONOTONIC.
    Monotonic,
    /// With the processor's counter: in a timeline, where the clocks may run at another rate or be
    /// frozen.
    Counter(Rate),
}

/// The start of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct Began {
    by: Stopwatch,
    instant: Instant,
    ticks: u64,
}

impl Stopwatch {
    /// The stopwatch suitable here; None in a timeline where the counter cannot be calibrated.
    pub fn new() -> Option<Self> {
        match Clock::system().trust() {
            Trust::Kernel(Reason::Timeline) => Some(Self::Counter(Rate::measure()?)),
            _ => Some(Self::Monotonic),
        }
    }

    /// Starts a measurement.
    pub fn start(self) -> Began {
        Began { by: self, instant: Instant::now(), ticks: counter::read() }
    }
}

impl Began {
    /// The time since the start.
    pub fn elapsed(&self) -> Duration {
        match self.by {
            Stopwatch::Monotonic => self.instant.elapsed(),
            Stopwatch::Counter(rate) => {
                let ticks = counter::read().saturating_sub(self.ticks);
                Duration::from_nanos((ticks as f64 / rate.ticks_per_ns()) as u64)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_agree() {
        /// NTP may steer the clock by 500 ppm more than when the counter was calibrated.
        const APART: f64 = 1e-3;
        let by_ticks = Stopwatch::Counter(Rate::measure().expect("a clock that goes"));
        // Nested, so that preemption between two of these lines does not matter.
        let outer = Stopwatch::Monotonic.start();
        let counted = by_ticks.start();
        let inner = Stopwatch::Monotonic.start();
        std::thread::sleep(Duration::from_millis(50));
        let [inner, counted, outer] = [inner, counted, outer].map(|it| it.elapsed().as_secs_f64());
        assert!(inner >= 0.05, "{inner}");
        assert!(counted > inner * (1.0 - APART), "{counted}, and {inner} within it");
        assert!(counted < outer * (1.0 + APART), "{counted}, and {outer} around it");
    }
}
