//! The counter's rate in the host's time.
//!
//! The counter always follows the host's time: neither a time namespace nor a timeline changes it.
//! In a timeline, where CLOCK_MONOTONIC may have another rate or be frozen, the counter is compared
//! with the thread's processor time, which is the host's there too.

use std::fmt;

use rustix::time::ClockId;

use crate::counter::read;
use crate::kernel::{self, Sample};
use crate::verdict::timeline;

/// The comparison window, in nanoseconds of the clock: a comparison error of 40 ns is 2 ppm of it.
const WINDOW: u64 = 20_000_000;

/// In a timeline the window is divided, and only parts without preemption count: each is shorter
/// than a scheduler time slice.
const PARTS: u64 = 200;

/// The spread allowed between the rates of such parts: the comparisons at their ends are off by
/// 0.04 % of a part, and an interrupt takes longer than the rest.
const EVEN: f64 = 1.005;

/// Spins of the counter between two clock readings, and the number of readings after which the
/// clock is considered stopped (about a second).
const TURNS: u32 = 1000;
const PATIENCE: u32 = 100_000;

/// The relative divergence allowed between the counter and the kernel's clock. NTP steers by at
/// most 500 ppm; a counter that follows the processor frequency, or a machine that was suspended,
/// is off by far more.
const APART: f64 = 0.01;

/// A measured rate.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    ticks_per_ns: f64,
    /// When it was measured; none in a timeline, where there is nothing to compare with later.
    since: Option<Sample>,
}

/// The counter and the kernel's clock diverged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parted {
    /// The elapsed time according to the counter, in nanoseconds.
    pub by_counter: f64,
    /// The elapsed time according to CLOCK_MONOTONIC, in nanoseconds.
    pub by_clock: f64,
}

impl fmt::Display for Parted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the processor's counter says that {:.0} ns have passed, and the kernel's clock {:.0} ns: \
             one of them does not go evenly (or the machine was suspended), and what was measured \
             is not to be trusted",
            self.by_counter, self.by_clock
        )
    }
}

impl std::error::Error for Parted {}

impl Rate {
    /// Measures the rate, using 20 ms of processor time. None if the clock is stopped.
    pub fn measure() -> Option<Self> {
        timeline::look();
        if timeline::is_here() { Self::by_processor_time() } else { Self::by_clock(WINDOW) }
    }

    /// Measures against CLOCK_MONOTONIC.
    fn by_clock(window: u64) -> Option<Self> {
        let first = kernel::compare(ClockId::Monotonic);
        let last = later(ClockId::Monotonic, first, window)?;
        let ticks = last.ticks.wrapping_sub(first.ticks);
        let ticks_per_ns = ticks as f64 / (last.nanos - first.nanos) as f64;
        Some(Self { ticks_per_ns, since: Some(last) })
    }

    /// Measures against processor time. Time off the processor adds ticks without processor time,
    /// so parts that contain any are discarded.
    fn by_processor_time() -> Option<Self> {
        let mut sample = kernel::compare(ClockId::ThreadCPUTime);
        let mut parts = Vec::new();
        for _ in 0..PARTS {
            let next = later(ClockId::ThreadCPUTime, sample, WINDOW / PARTS)?;
            parts.push((next.ticks.wrapping_sub(sample.ticks), next.nanos - sample.nanos));
            sample = next;
        }
        let rate = |&(ticks, nanos): &(u64, u64)| ticks as f64 / nanos as f64;
        let most = parts.iter().map(rate).min_by(f64::total_cmp)? * EVEN;
        let even = parts.iter().filter(|part| rate(part) <= most);
        let total = even.fold((0, 0), |sum, part| (sum.0 + part.0, sum.1 + part.1));
        Some(Self { ticks_per_ns: rate(&total), since: None })
    }

    /// Ticks per nanosecond.
    pub fn ticks_per_ns(&self) -> f64 {
        self.ticks_per_ns
    }

    /// Checks that the counter has kept pace with the kernel's clock since the rate was measured.
    ///
    /// # Errors
    /// If it has not: measurements in ticks are then worthless.
    pub fn check(&self) -> Result<(), Parted> {
        let Some(since) = self.since else { return Ok(()) };
        let now = kernel::compare(ClockId::Monotonic);
        let by_counter = now.ticks.wrapping_sub(since.ticks) as f64 / self.ticks_per_ns;
        let by_clock = now.nanos.saturating_sub(since.nanos) as f64;
        // The combined error of the two comparisons.
        let blurred = 2.0 * (now.half_width + since.half_width) as f64 / self.ticks_per_ns;
        if (by_counter - by_clock).abs() <= by_clock * APART + blurred {
            return Ok(());
        }
        Err(Parted { by_counter, by_clock })
    }
}

/// The counter and the clock one window later.
fn later(clock: ClockId, first: Sample, window: u64) -> Option<Sample> {
    for _ in 0..PATIENCE {
        // Busy, because some counters stop when their processor idles.
        for _ in 0..TURNS {
            std::hint::black_box(read());
        }
        if kernel::nanos(clock) >= first.nanos + window {
            return Some(kernel::compare(clock));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::num::NonZero;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn it_is_the_same_twice_and_goes_with_the_clock() {
        let rate = Rate::measure().expect("CLOCK_MONOTONIC goes");
        let once = rate.ticks_per_ns();
        assert!((0.001..20.0).contains(&once), "1 MHz to 20 GHz: {once}");
        let again = Rate::by_clock(WINDOW / 4).expect("it goes").ticks_per_ns();
        // The comparisons are off by 2 and 8 ppm; NTP may have begun to steer in between.
        assert!((again / once - 1.0).abs() < 500e-6, "{again} and {once}");
        assert_eq!(rate.check(), Ok(()));
    }

    #[test]
    fn a_counter_of_another_rate_has_parted() {
        let rate = Rate::measure().expect("CLOCK_MONOTONIC goes");
        let other = Rate { ticks_per_ns: rate.ticks_per_ns * 2.0, ..rate };
        std::thread::sleep(std::time::Duration::from_millis(5));
        let parted = other.check().expect_err("half as much by the counter");
        assert!(parted.by_counter < parted.by_clock * 0.75, "{parted:?}");
    }

    /// Holds even if other threads compete for the processor: then no part of ten milliseconds is
    /// uninterrupted.
    #[test]
    fn processor_time_is_a_reference_too() {
        let by_clock = Rate::by_clock(WINDOW).expect("it goes").ticks_per_ns();
        let over = AtomicBool::new(false);
        let by_processor = std::thread::scope(|scope| {
            for _ in 0..3 * std::thread::available_parallelism().map_or(1, NonZero::get) {
                scope.spawn(|| {
                    while !over.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                });
            }
            let rate = Rate::by_processor_time();
            over.store(true, Ordering::Relaxed);
            rate.expect("it goes").ticks_per_ns()
        });
        let apart = by_processor / by_clock - 1.0;
        assert!(apart.abs() < EVEN - 1.0, "{apart}: {by_processor} and {by_clock}");
    }
}
