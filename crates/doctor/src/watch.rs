//! Detects whether the wall clock is set.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use eigentime_measure::bracket::narrowest;
use rustix::io::{Errno, read};
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use eigentime_measure::Unknown;

use crate::units;

/// The movement of CLOCK_REALTIME against CLOCK_MONOTONIC that is not a step: both have the same
/// rate, and whole nanoseconds are rounded twice.
const ROUNDING: u64 = 2;

/// How far CLOCK_REALTIME is ahead of CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug)]
struct Ahead {
    nanos: i64,
    /// The uncertainty of that.
    width: u64,
}

impl Ahead {
    fn now() -> Self {
        const TRIES: usize = 9;
        let [monotonic, real] =
            [ClockId::Monotonic, ClockId::Realtime].map(|clock| move || units::nanos(clock));
        let both = narrowest(TRIES, monotonic, real);
        Self { nanos: both.inside.wrapping_sub(both.before), width: both.width() }
    }

    /// How far it has moved, if it certainly has.
    fn moved_to(self, later: Self) -> Option<i64> {
        let moved = later.nanos.wrapping_sub(self.nanos);
        let unclear = self.width.saturating_add(later.width).saturating_add(ROUNDING);
        (moved.unsigned_abs() > unclear).then_some(moved)
    }
}

/// Watches CLOCK_REALTIME from a moment on.
///
/// It uses two methods: a timer that the kernel cancels when the clock is set
/// (TFD_TIMER_CANCEL_ON_SET in timerfd_create(2)), which also detects a step that was undone; and
/// the offset from CLOCK_MONOTONIC, which also works on systems without such timers.
#[derive(Debug)]
pub struct Watch {
    ahead: Ahead,
    timer: Result<OwnedFd, Unknown>,
    /// The kernel reports it once.
    was_cancelled: AtomicBool,
}

impl Watch {
    /// Starts watching.
    pub fn begin() -> Self {
        let timer = timer().map_err(|error| {
            Unknown::because(format!("a timer that is cancelled when the clock is set: {error}"))
        });
        Self { ahead: Ahead::now(), timer, was_cancelled: AtomicBool::new(false) }
    }

    /// Whether the clock was set since.
    pub fn was_set(&self) -> bool {
        if let Ok(timer) = &self.timer {
            let mut expirations = [0; 8];
            if read(timer, &mut expirations) == Err(Errno::CANCELED) {
                self.was_cancelled.store(true, Relaxed);
            }
        }
        self.was_cancelled.load(Relaxed) || self.moved_ns().is_some()
    }

    /// How far, in nanoseconds, it is certainly ahead of where it would be.
    pub fn moved_ns(&self) -> Option<i64> {
        self.ahead.moved_to(Ahead::now())
    }

    /// Why the kernel cannot report it, if it cannot.
    pub fn unknown(&self) -> Option<&Unknown> {
        self.timer.as_ref().err()
    }
}

fn timer() -> Result<OwnedFd, Errno> {
    /// A day that no clock reaches, in seconds since the epoch: the last of an `i32` of days.
    const NEVER: i64 = 1 << 40;
    let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
    let timer = timerfd_create(TimerfdClockId::Realtime, flags)?;
    let never = Itimerspec {
        it_interval: Timespec::default(),
        it_value: Timespec { tv_sec: NEVER, tv_nsec: 0 },
    };
    timerfd_settime(&timer, TimerfdTimerFlags::ABSTIME | TimerfdTimerFlags::CANCEL_ON_SET, &never)?;
    Ok(timer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_has_moved_if_it_is_beyond_doubt() {
        let [narrow, wide] = [50, 1_000_000].map(|width| Ahead { nanos: 1000, width });
        let later = |nanos| Ahead { nanos, width: 50 };
        assert_eq!(narrow.moved_to(later(1090)), None);
        assert_eq!(narrow.moved_to(later(2000)), Some(1000));
        assert_eq!(narrow.moved_to(later(-1_000_000)), Some(-1_001_000));
        assert_eq!(wide.moved_to(later(500_000)), None);
    }

    #[test]
    fn a_clock_that_nobody_sets_was_not_set() {
        let watch = Watch::begin();
        let set = watch.was_set();
        // The local time service may set it just now: then both must report it permanently.
        assert_eq!(watch.was_set(), set);
    }
}
