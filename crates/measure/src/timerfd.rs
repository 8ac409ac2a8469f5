//! A timer as a descriptor: timerfd_create(2).

use std::io;
use std::os::fd::OwnedFd;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};

use crate::clocks::timespec;

/// A timer of CLOCK_MONOTONIC, which is read to wait for it.
#[derive(Debug)]
pub struct Timerfd(OwnedFd);

impl Timerfd {
    /// Creates a disarmed timer.
    ///
    /// # Errors
    /// If no descriptor is available.
    pub fn new() -> io::Result<Self> {
        Ok(Self(timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)?))
    }

    /// Arms it to fire when the clock shows `first`, and then every `period`; once if that is zero.
    /// Both are in nanoseconds.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn arm(&self, first: u64, period: u64) -> io::Result<()> {
        let [it_interval, it_value] = [period, first].map(|nanos| timespec(nanos.cast_signed()));
        let times = Itimerspec { it_interval, it_value };
        timerfd_settime(&self.0, TimerfdTimerFlags::ABSTIME, &times)?;
        Ok(())
    }

    /// Waits until it has fired: the number of times since the last wait.
    ///
    /// # Errors
    /// [`io::ErrorKind::Interrupted`] if a signal handler has run meanwhile.
    pub fn wait(&self) -> io::Result<u64> {
        let mut fired = [0; size_of::<u64>()];
        rustix::io::read(&self.0, &mut fired)?;
        Ok(u64::from_ne_bytes(fired))
    }
}

#[cfg(test)]
mod tests {
    use rustix::time::ClockId;

    use super::*;
    use crate::clocks::nanos;

    #[test]
    fn a_timer_counts_what_nobody_has_waited_for() {
        const MILLISECOND: u64 = 1_000_000;
        let timer = Timerfd::new().unwrap();
        let now = nanos(ClockId::Monotonic).cast_unsigned();
        timer.arm(now - 10 * MILLISECOND, MILLISECOND).unwrap();
        assert!(timer.wait().unwrap() >= 10);
    }
}
