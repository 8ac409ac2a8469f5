//! How the line follows the kernel's clock: by its slope, never by a step.
//!
//! The counter is compared with CLOCK_MONOTONIC from time to time. The slope between the oldest and
//! the newest comparison at the same rate is the counter's; the line's offset is corrected through
//! its future slope. The error stated for a reading is the sum of
//!
//! - the correction still outstanding at it, and the half width of the bracket that measured it;
//! - for each tick since the comparison: the uncertainty of the slope (that of two brackets over
//!   the time between them), and the change that the kernel may make to its own rate (one unit of
//!   its multiplier, or as much as it has recently been seen to change).
//!
//! Nothing here makes a system call or allocates, and all zeroes is a valid state: that of a
//! process that was just forked.

use crate::kernel::Sample;
use crate::line::{Line, ONE, Slope};

/// The number of comparisons kept, over which the slope is measured.
const SAMPLES: usize = 16;

/// The deviation of the kernel's rate from its mean. Its clocksource's multiplier has about 23
/// bits, and the kernel toggles the last one to stay on course (`timekeeping_adjust`).
const DITHER: f64 = 2e-7;

/// Twice the fastest slew of CLOCK_MONOTONIC by NTP and `adjtime` together: 500 ppm each (MAXFREQ
/// and MAX_TICKADJ in <linux/timex.h>). Setting the tick length instead (ADJ_TICK) can slew it by a
/// tenth, which is treated as a jump.
const FASTEST_SLEW: f64 = 2e-3;

/// The rounding error of a line, in nanoseconds: readings are whole nanoseconds.
const ROUNDING: u64 = 1;

/// A line off by no more than this did not jump, in nanoseconds.
const SMALLEST_JUMP: u64 = 2_000;

/// The part of a rate change still assumed at the next comparison: half of it remains after two
/// seconds.
const MEMORY: f64 = 0.97;

/// A change shows as the mean over an interval and may have come in the middle of it; its effect is
/// still being corrected while the next change comes.
const UNSEEN: f64 = 2.0;

/// After this many intervals without a comparison, the mean rate may not be the current one.
const PAUSE: f64 = 2.0;

/// The first interval between two comparisons, in nanoseconds; each is twice the previous one.
const SHORTEST: u64 = 1_000_000;

/// The longest interval, in nanoseconds, after which a new slew is noticed.
const LONGEST: u64 = 100_000_000;

/// CLOCK_MONOTONIC is where no slew can have taken it: the machine was suspended or moved, or the
/// counter changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Jumped {
    /// How far the line is ahead of the kernel's clock, in nanoseconds.
    pub ahead: i64,
}

/// The remembered comparisons and what follows from them.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Discipline {
    samples: [Sample; SAMPLES],
    count: usize,
    interval: u64,
    /// How much the kernel has recently changed its rate.
    changes: f64,
    /// How much it can have changed its rate in a pause, as far as comparisons show.
    unproved: f64,
    /// The steering that the kernel reports for its clock, if it was asked.
    steering: f64,
    is_steered: bool,
    /// The highest rate that was certainly exceeded, and the lowest that certainly was not: if the
    /// first is above the second, the rate has varied.
    above: f64,
    below: f64,
}

/// A slope and its error.
#[derive(Clone, Copy)]
struct Rate {
    nanos_per_tick: f64,
    relative_error: f64,
}

impl Discipline {
    /// The state of a process that has not compared anything.
    pub const NEW: Self = Self {
        samples: [Sample::ZERO; SAMPLES],
        count: 0,
        interval: 0,
        changes: 0.0,
        unproved: 0.0,
        steering: 0.0,
        is_steered: false,
        above: 0.0,
        below: 0.0,
    };

    /// The first line, from two comparisons; none if the counter did not move plausibly.
    pub fn begin(&mut self, first: Sample, second: Sample) -> Option<Line> {
        *self = Self::NEW;
        self.remember(first);
        self.remember(second);
        let rate = between(&first, &second)?;
        let base = Line { rate: Slope::new(rate.nanos_per_tick), ..Line::NANOSECONDS };
        Some(self.draw(&base.from(second.ticks, second.nanos), &second, rate))
    }

    /// Records the kernel's reported steering, as a part of its clock's rate. If it changed since
    /// it was last asked, the mean over that time is useless.
    pub fn steer(&mut self, steering: f64) {
        let change = (steering - self.steering).abs();
        if self.is_steered && change > 0.0 {
            self.count = self.count.min(1);
            self.changes = self.changes.max(change);
        }
        (self.steering, self.is_steered) = (steering, true);
    }

    /// The line from here on, after a comparison.
    pub fn follow(&mut self, line: &Line, sample: Sample) -> Result<Line, Jumped> {
        let off = (line.at(sample.ticks).wrapping_sub(sample.nanos)).cast_signed();
        let room = line.error_at(sample.ticks).saturating_add(sample.error(line.rate));
        let elapsed = sample.nanos.abs_diff(line.sample_nanos) as f64;
        let slew = (elapsed * FASTEST_SLEW) as u64 + SMALLEST_JUMP;
        if off.unsigned_abs() > room.saturating_add(slew) {
            return Err(Jumped { ahead: off });
        }
        let last = self.samples[0];
        let latest = if self.count > 0 { between(&last, &sample) } else { None };
        self.changes *= MEMORY;
        self.unproved *= MEMORY;
        if let (Some(latest), Some(whole)) = (latest, self.rate(&last)) {
            let change = (latest.nanos_per_tick / whole.nanos_per_tick - 1.0).abs();
            let unclear = latest.relative_error + whole.relative_error;
            let seen = change - unclear;
            self.unproved = if elapsed > PAUSE * self.interval as f64 {
                change + unclear
            } else {
                self.unproved.min(change + unclear)
            };
            if seen > DITHER {
                // Older samples have another rate.
                self.count = 1;
                self.changes = self.changes.max(UNSEEN * seen);
            }
        }
        // Comparisons requested in between give the clock's position but not its rate.
        if self.count < 2 || sample.nanos.saturating_sub(last.nanos) >= self.interval / 2 {
            self.remember(sample);
        }
        let rate = self.rate(&sample).unwrap_or(Rate {
            nanos_per_tick: line.rate.get(),
            relative_error: line.growth as f64 / line.rate.nanos_per_tick as f64,
        });
        Ok(self.draw(line, &sample, rate))
    }

    /// Ticks until the next comparison is due.
    pub fn due_in(&self, line: &Line) -> u64 {
        line.rate.ticks(self.interval).unwrap_or(u64::MAX)
    }

    /// The line that starts at a comparison. Readers take it [`Line::after`] the old one from a
    /// count that has not been read yet.
    fn draw(&mut self, old: &Line, sample: &Sample, rate: Rate) -> Line {
        self.above = self.above.max(rate.nanos_per_tick * (1.0 - rate.relative_error));
        let highest = rate.nanos_per_tick * (1.0 + rate.relative_error);
        self.below = if self.below == 0.0 { highest } else { self.below.min(highest) };
        let variation = (self.above - self.below).max(0.0) / rate.nanos_per_tick;

        let unknown = rate.relative_error + DITHER + self.changes + self.unproved;
        let slope = Slope::new(rate.nanos_per_tick);
        let growth = |relative: f64| (relative * rate.nanos_per_tick * ONE as f64) as u64;
        let tracking = Line {
            sample_ticks: sample.ticks,
            sample_nanos: sample.nanos,
            rate: slope,
            bend: slope.ticks(self.interval).unwrap_or(0),
            error: sample.error(slope) + ROUNDING,
            growth: growth(unknown),
            past_growth: growth(unknown + variation),
            ..*old
        };
        tracking.after(old, sample.ticks)
    }

    /// Stores the newest sample first.
    fn remember(&mut self, sample: Sample) {
        self.interval = (self.interval * 2).clamp(SHORTEST, LONGEST);
        self.samples.copy_within(0..SAMPLES - 1, 1);
        self.samples[0] = sample;
        self.count = (self.count + 1).min(SAMPLES);
    }

    /// The rate from the oldest sample to this one.
    fn rate(&self, newest: &Sample) -> Option<Rate> {
        between(self.samples.get(self.count.checked_sub(1)?)?, newest)
    }
}

fn between(older: &Sample, newer: &Sample) -> Option<Rate> {
    let ticks = newer.ticks.checked_sub(older.ticks).filter(|ticks| *ticks > 0)? as f64;
    let nanos = newer.nanos.checked_sub(older.nanos).filter(|nanos| *nanos > 0)? as f64;
    let nanos_per_tick = nanos / ticks;
    let unclear = (older.half_width + newer.half_width) as f64 * nanos_per_tick + 2.0;
    // The range that a slope can represent.
    (1e-3..1e3)
        .contains(&nanos_per_tick)
        .then_some(Rate { nanos_per_tick, relative_error: unclear / nanos })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: f64 = 1e9;

    /// A kernel clock over a counter, and brackets around its readings.
    struct Kernel {
        hertz: f64,
        /// CLOCK_MONOTONIC at a time: with slews, not steps.
        slew: fn(f64) -> f64,
    }

    impl Kernel {
        fn ticks(&self, time: f64) -> u64 {
            (time * self.hertz / SECOND) as u64 + 1_000_000_000_000
        }

        fn nanos(&self, time: f64) -> f64 {
            5e12 + time + (self.slew)(time)
        }

        /// A comparison whose kernel reading was at `place` of the bracket: 0 to 1.
        fn sample(&self, time: f64, width: f64, place: f64) -> Sample {
            let start = time - width * place;
            let (first, last) = (self.ticks(start), self.ticks(start + width));
            Sample {
                ticks: first + (last - first) / 2,
                nanos: self.nanos(time) as u64,
                half_width: (last - first).div_ceil(2) + 1,
            }
        }

        fn begun(&self, discipline: &mut Discipline) -> Line {
            let (first, second) = (self.sample(0.0, 40.0, 0.1), self.sample(1e6, 40.0, 0.9));
            discipline.begin(first, second).unwrap()
        }
    }

    fn off(line: &Line, kernel: &Kernel, time: f64) -> f64 {
        line.at(kernel.ticks(time)) as f64 - kernel.nanos(time)
    }

    /// One tick and the rounding of two conversions.
    const CONVERTED: f64 = 3.0;

    proptest! {
        #[test]
        fn every_reading_is_within_its_bound(
            hertz in 1e9..5e9,
            pauses in prop::collection::vec((1e3..3e9, 25.0..400.0, 0.0..1.0), 1..60),
            rate in -400e-6..400e-6,
        ) {
            let kernel = Kernel { hertz: hertz * (1.0 + rate), slew: |_| 0.0 };
            let mut discipline = Discipline::NEW;
            let mut line = kernel.begun(&mut discipline);
            let mut time = 1e6;
            for (pause, width, place) in pauses {
                for part in [0.0, 0.3, 0.9, 1.0] {
                    let then = time + pause * part;
                    let error = line.error_at(kernel.ticks(then)) as f64;
                    prop_assert!(off(&line, &kernel, then).abs() <= error + CONVERTED);
                }
                time += pause;
                line = discipline.follow(&line, kernel.sample(time, width, place)).unwrap();
                // Past readings keep their bound, too.
                let error = line.error_at(kernel.ticks(time / 2.0)) as f64;
                prop_assert!(off(&line, &kernel, time / 2.0).abs() <= error + CONVERTED);
            }
        }

        #[test]
        fn the_line_never_steps(
            pauses in prop::collection::vec((1e3..3e8, 25.0..400.0, 0.0..1.0), 1..60),
        ) {
            let kernel = Kernel { hertz: 2.6e9, slew: |time| 1e-4 * time };
            let mut discipline = Discipline::NEW;
            let mut line = kernel.begun(&mut discipline);
            let mut time = 1e6;
            for (pause, width, place) in pauses {
                time += pause;
                let sample = kernel.sample(time, width, place);
                let next = discipline.follow(&line, sample).unwrap();
                prop_assert_eq!(next.at(sample.ticks), line.at(sample.ticks));
                line = next;
            }
        }
    }

    /// Compares every 100 ms for this many seconds. Returns the worst error, and the worst error
    /// relative to its bound, of readings in between, after a start of two seconds.
    fn watch(kernel: &Kernel, seconds: u32) -> (f64, f64) {
        let mut discipline = Discipline::NEW;
        let mut line = kernel.begun(&mut discipline);
        let (mut worst, mut of_bound) = (0.0_f64, 0.0_f64);
        let mut time = 1e6;
        for step in 0..seconds * 10 {
            let place = f64::from(step * 7 % 11) / 10.0;
            for part in 1..10 {
                let then = time + 1e7 * f64::from(part);
                let error = off(&line, kernel, then).abs();
                if then > 2.0 * SECOND {
                    worst = worst.max(error);
                    of_bound = of_bound.max(error / line.error_at(kernel.ticks(then)) as f64);
                }
            }
            time += 1e8;
            line = discipline.follow(&line, kernel.sample(time, 45.0, place)).unwrap();
        }
        (worst, of_bound)
    }

    #[test]
    fn a_steady_kernel_is_followed_closely() {
        let (worst, of_bound) = watch(&Kernel { hertz: 2.59612e9, slew: |_| 0.0 }, 60);
        assert!(worst < 45.0, "{worst} ns");
        assert!(of_bound <= 1.0, "{of_bound} of the bound");
    }

    #[test]
    fn a_slew_is_followed_and_reckoned_with() {
        // 20 ppm from the tenth second on.
        let slew = |time: f64| (time - 10.0 * SECOND).max(0.0) * 20e-6;
        let mut discipline = Discipline::NEW;
        let kernel = Kernel { hertz: 2.6e9, slew };
        let mut line = kernel.begun(&mut discipline);
        let mut outside = Vec::new();
        for step in 1..300 {
            let time = f64::from(step) * 1e8;
            let error = off(&line, &kernel, time).abs();
            if error > line.error_at(kernel.ticks(time)) as f64 + CONVERTED {
                outside.push(step);
            }
            line = discipline.follow(&line, kernel.sample(time, 45.0, 0.5)).unwrap();
        }
        // This cannot be known before the first comparison after it.
        assert!(outside.iter().all(|step| *step == 101), "outside at {outside:?}");
        assert!(off(&line, &kernel, 30.0 * SECOND).abs() < 45.0);
    }

    /// The error of the first calibration is corrected within a pause without readings.
    #[test]
    fn the_first_reading_after_a_pause_is_as_good_as_its_comparison() {
        let kernel = Kernel { hertz: 2.6e9, slew: |_| 0.0 };
        for pause in [1e7, SECOND, 10.0 * SECOND, 300.0 * SECOND, 3600.0 * SECOND] {
            let mut discipline = Discipline::NEW;
            let line = kernel.begun(&mut discipline);
            let read_until = line.sample_ticks + discipline.due_in(&line);
            let sample = kernel.sample(1e6 + pause, 40.0, 0.5);
            let next = discipline.follow(&line, sample).unwrap().after(&line, read_until);
            assert_eq!(next.at(read_until), line.at(read_until), "what was read stays");
            assert!(next.error_at(sample.ticks) < 100, "{pause}: {}", next.error_at(sample.ticks));
            let slewed = discipline.follow(&line, sample).unwrap();
            let off = line.at(sample.ticks).abs_diff(sample.nanos);
            assert!(slewed.error_at(sample.ticks) >= off, "where somebody has read, it is said");
        }
    }

    /// Whether readings stay within their bounds after a pause of two seconds in which the kernel
    /// began to slew by 200 ppm, given the precision of the first comparison.
    fn holds_after(slew: fn(f64) -> f64, bracket: f64, is_told: bool) -> bool {
        let kernel = Kernel { hertz: 2.6e9, slew };
        let mut discipline = Discipline::NEW;
        let [first, second] = [0.0, 1e6].map(|time| kernel.sample(time, bracket, 0.5));
        let mut line = discipline.begin(first, second).unwrap();
        discipline.steer(0.0);
        if is_told {
            discipline.steer(200e-6);
        }
        let mut time = 2.0 * SECOND;
        while time < 4.0 * SECOND {
            line = discipline.follow(&line, kernel.sample(time, 45.0, 0.5)).unwrap();
            let due = line.rate.nanos(discipline.due_in(&line)) as f64;
            for part in [0.1, 0.5, 1.0] {
                let then = time + due * part;
                let error = line.error_at(kernel.ticks(then)) as f64;
                if off(&line, &kernel, then).abs() > error + CONVERTED {
                    return false;
                }
            }
            time += due;
        }
        true
    }

    #[test]
    fn a_slew_in_a_pause_is_reckoned_with_after_a_poor_start() {
        // Its mean shows at least half of it, but less than the error of the first comparison.
        let slews = [
            |time: f64| (time - 0.2 * SECOND).max(0.0) * 200e-6,
            |time: f64| (time - 0.9 * SECOND).max(0.0) * 200e-6,
        ];
        for bracket in [40.0, 250.0, 1000.0] {
            assert!(slews.iter().all(|slew| holds_after(*slew, bracket, false)), "{bracket}");
        }
    }

    #[test]
    fn a_slew_at_the_end_of_a_pause_is_known_from_the_kernel() {
        let slew = |time: f64| (time - 1.9 * SECOND).max(0.0) * 200e-6;
        assert!(!holds_after(slew, 40.0, false), "its mean hides it");
        for bracket in [40.0, 250.0, 1000.0] {
            assert!(holds_after(slew, bracket, true), "{bracket}");
        }
    }

    #[test]
    fn a_jump_is_told_from_a_slew() {
        let kernel = Kernel { hertz: 2.6e9, slew: |time| if time > SECOND { 3e6 } else { 0.0 } };
        let mut discipline = Discipline::NEW;
        let line = kernel.begun(&mut discipline);
        let line = discipline.follow(&line, kernel.sample(0.9 * SECOND, 45.0, 0.5)).unwrap();
        let Jumped { ahead } =
            discipline.follow(&line, kernel.sample(1.1 * SECOND, 45.0, 0.5)).unwrap_err();
        assert!((-3_100_000..-2_900_000).contains(&ahead), "{ahead}");
    }

    #[test]
    fn a_forked_process_goes_on_from_the_line_alone() {
        let kernel = Kernel { hertz: 2.6e9, slew: |_| 0.0 };
        let mut discipline = Discipline::NEW;
        let line = kernel.begun(&mut discipline);
        let line = discipline.follow(&line, kernel.sample(1e8, 45.0, 0.5)).unwrap();
        let mut forked = Discipline::NEW;
        let mut line = forked.follow(&line, kernel.sample(2e8, 45.0, 0.5)).unwrap();
        for step in 3..20 {
            let time = f64::from(step) * 1e8;
            let error = line.error_at(kernel.ticks(time)) as f64;
            assert!(off(&line, &kernel, time).abs() <= error + CONVERTED);
            line = forked.follow(&line, kernel.sample(time, 45.0, 0.5)).unwrap();
        }
    }

    #[test]
    fn what_is_no_counter_makes_no_line() {
        let sample = |ticks, nanos| Sample { ticks, nanos, half_width: 20 };
        let begin = |first, second| {
            let mut discipline = Discipline::NEW;
            discipline.begin(first, second)
        };
        assert_eq!(begin(sample(5, 100), sample(5, 1_000_000)), None, "it stands");
        assert_eq!(begin(sample(9, 100), sample(5, 1_000_000)), None, "it goes back");
        assert_eq!(begin(sample(5, 100), sample(9, 1_000_000)), None, "it is too slow");
        assert_eq!(begin(sample(5, 100), sample(9_000_000, 100)), None, "the clock stands");
    }
}
