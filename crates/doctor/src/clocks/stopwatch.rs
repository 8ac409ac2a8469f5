//! How long something takes by the host's time, also where the program's own time is another.

use std::time::{Duration, Instant};

use eigentime_clock::counter::{self, Rate};
use eigentime_clock::{Clock, Reason, Trust};

/// Measures spans of the host's time.
#[derive(Clone, Copy, Debug)]
pub enum Stopwatch {
    /// By CLOCK_MONOTONIC.
    Monotonic,
    /// By the processor's counter: in a timeline, where the clocks may run at another rate, or not
    /// at all.
    Counter(Rate),
}

/// When something began.
#[derive(Clone, Copy, Debug)]
pub struct Began {
    by: Stopwatch,
    instant: Instant,
    ticks: u64,
}

impl Stopwatch {
    /// One that is right here; None in a timeline where the counter cannot be calibrated.
    pub fn new() -> Option<Self> {
        match Clock::system().trust() {
            Trust::Kernel(Reason::Timeline) => Some(Self::Counter(Rate::measure()?)),
            _ => Some(Self::Monotonic),
        }
    }

    /// Begins.
    pub fn start(self) -> Began {
        Began { by: self, instant: Instant::now(), ticks: counter::read() }
    }
}

impl Began {
    /// How long ago that was.
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
        let by_ticks = Stopwatch::Counter(Rate::measure().expect("a clock that goes"));
        let (one, other) = (Stopwatch::Monotonic.start(), by_ticks.start());
        std::thread::sleep(Duration::from_millis(50));
        let (one, other) = (one.elapsed().as_secs_f64(), other.elapsed().as_secs_f64());
        assert!((0.5..2.0).contains(&(one / other)), "{one} {other}");
    }
}
