use std::time::Duration;

use crate::{Clock, Instant};

/// Two clock readings further apart than this were interrupted, by an interrupt, another thread or
/// another guest. A reading takes some 50 ns.
const GAP: Duration = Duration::from_micros(5);
/// A clock that shows the same value this often is frozen: that takes about 50 µs, and the kernel's
/// coarsest clock may move at its next tick, for which the kernel can wait as well.
const STANDS: u32 = 1_000;

/// The outcome of a spin.
pub struct Spun {
    /// The last reading.
    pub woke: Instant,
    /// Its duration, without the gaps.
    pub spun: Duration,
    /// Whether the target was reached: not if the clock is frozen or was set back.
    pub reached: bool,
}

/// Spins until the clock shows `target`, starting from the reading `begin`.
#[inline]
pub fn spin(clock: &Clock, begin: Instant, target: Instant) -> Spun {
    let gap = begin.checked_add(GAP).map_or(u64::MAX, |later| later.as_ticks() - begin.as_ticks());
    let mut last = begin.as_ticks();
    let mut away = 0;
    let mut same = 0;
    let reached = loop {
        let now = clock.now_in_haste().as_ticks();
        let moved = now.saturating_sub(last);
        if moved > 0 {
            same = 0;
            last = now;
            if moved > gap {
                away += moved;
            }
        } else {
            same += 1;
            // The counters of two processors can differ by a few ticks.
            if same > STANDS || last - now > gap {
                break false;
            }
        }
        if now >= target.as_ticks() {
            break true;
        }
        std::hint::spin_loop();
    };
    let spun = Instant::from_ticks(last - away) - begin;
    Spun { woke: Instant::from_ticks(last), spun, reached }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_ends_at_the_target_and_never_before() {
        let clock = Clock::system();
        let begin = clock.now();
        let target = begin + Duration::from_micros(50);
        let spun = spin(&clock, begin, target);
        assert!(spun.reached && spun.woke >= target);
        assert!(spun.spun <= spun.woke - begin);
    }

    #[test]
    fn a_target_that_has_passed_takes_one_reading() {
        let clock = Clock::system();
        let begin = clock.now();
        assert!(spin(&clock, begin, begin).reached);
    }

    #[test]
    fn a_clock_that_stands_still_is_left() {
        let (clock, _mock) = Clock::mock();
        let begin = clock.now();
        let spun = spin(&clock, begin, begin + Duration::from_nanos(1));
        assert!(!spun.reached && spun.woke == begin && spun.spun.is_zero());
    }

    #[test]
    fn a_clock_that_was_put_back_is_left() {
        let (clock, _mock) = Clock::mock();
        let later = clock.now() + Duration::from_secs(1);
        assert!(!spin(&clock, later, later + Duration::from_secs(1)).reached);
    }

    #[test]
    fn gaps_are_not_counted_as_spun() {
        let (clock, mock) = Clock::mock();
        let begin = clock.now();
        mock.advance(Duration::from_millis(2));
        let spun = spin(&clock, begin, begin + Duration::from_millis(1));
        assert!(spun.reached && spun.spun.is_zero());
    }
}
