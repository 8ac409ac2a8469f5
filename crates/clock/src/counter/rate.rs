//! How fast the counter goes by the host's time.
//!
//! It is the host's wherever a program runs: neither a time namespace nor a timeline changes it. In
//! a timeline, where CLOCK_MONOTONIC may go at a rate of its own or not at all, it is compared with
//! the processor time of the thread, which is the host's there, too.

use std::fmt;

use rustix::time::ClockId;

use super::read;
use crate::kernel::{self, Sample};
use crate::verdict::timeline;

/// How long the two are compared, in nanoseconds of the clock: 40 ns, which a comparison may be off
/// by, are 2 ppm of it.
const WINDOW: u64 = 20_000_000;

/// In a timeline the window is divided, and the parts count in which the thread was not kept from
/// the processor: they are shorter than the time for which the scheduler lets a thread run.
const PARTS: u64 = 200;

/// By how much the rates of such parts differ: the comparisons at their ends are off by 0.04 % of
/// them, and an interrupt takes longer than the rest.
const EVEN: f64 = 1.005;

/// How many turns the counter is spun for between two looks at the clock, and how many looks it
/// takes, by far, for a clock that goes: a second's worth.
const TURNS: u32 = 1000;
const PATIENCE: u32 = 100_000;

/// By how much the counter and the kernel's clock may part. NTP steers by at most 500 ppm; a counter
/// that follows the frequency of its processor, or a machine that was suspended, is off by far more.
const APART: f64 = 0.01;

/// The rate, once measured.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    ticks_per_ns: f64,
    /// When that was; none in a timeline, where there is nothing to compare with later.
    since: Option<Sample>,
}

/// Counter and kernel's clock did not go together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parted {
    /// How much time has passed, by the counter, in nanoseconds.
    pub by_counter: f64,
    /// And by CLOCK_MONOTONIC.
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
    /// Measures it, in 20 ms of the processor. None if the clock stands still.
    pub fn measure() -> Option<Self> {
        timeline::look();
        if timeline::is_here() { Self::by_processor_time() } else { Self::by_clock(WINDOW) }
    }

    /// By CLOCK_MONOTONIC.
    fn by_clock(window: u64) -> Option<Self> {
        let first = kernel::compare(ClockId::Monotonic);
        let last = later(ClockId::Monotonic, first, window)?;
        let ticks = last.ticks.wrapping_sub(first.ticks);
        let ticks_per_ns = ticks as f64 / (last.nanos - first.nanos) as f64;
        Some(Self { ticks_per_ns, since: Some(last) })
    }

    /// Time off the processor makes ticks without processor time: parts that have any are left out.
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

    /// Ticks in a nanosecond.
    pub fn ticks_per_ns(&self) -> f64 {
        self.ticks_per_ns
    }

    /// Whether the counter has gone with the kernel's clock since the rate was measured.
    ///
    /// # Errors
    /// If not: what is measured in ticks is worth nothing then.
    pub fn check(&self) -> Result<(), Parted> {
        let Some(since) = self.since else { return Ok(()) };
        let now = kernel::compare(ClockId::Monotonic);
        let by_counter = now.ticks.wrapping_sub(since.ticks) as f64 / self.ticks_per_ns;
        let by_clock = now.nanos.saturating_sub(since.nanos) as f64;
        // What the two comparisons can be off by.
        let blurred = 2.0 * (now.half_width + since.half_width) as f64 / self.ticks_per_ns;
        if (by_counter - by_clock).abs() <= by_clock * APART + blurred {
            return Ok(());
        }
        Err(Parted { by_counter, by_clock })
    }
}

/// Counter and clock, a window of the clock later.
fn later(clock: ClockId, first: Sample, window: u64) -> Option<Sample> {
    for _ in 0..PATIENCE {
        // Busy, for there are counters that rest with their processor.
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

    /// Also where other threads want the processor: no part of ten milliseconds is whole then.
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
