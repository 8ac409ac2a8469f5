//! The kernel's part of a sleep.

use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, Result};
use rustix::process::{Pid, getpid};
use rustix::thread::{
    ClockId, clock_nanosleep_absolute, current_timer_slack, set_current_timer_slack,
};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use crate::file;

/// Waits in the kernel.
pub trait KernelWaiter {
    /// Waits until CLOCK_MONOTONIC shows this, or until a signal handler has run.
    fn wait(&mut self, until: Duration) -> Woken;
}

/// Why the kernel woke the thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// The time has come.
    Due,
    /// A signal handler has run.
    BySignal,
}

/// Waits in clock_nanosleep(2), with a timer slack of a nanosecond.
///
/// The thread's slack is restored afterwards. A signal handler that runs meanwhile sees the changed
/// slack, and one that does not return leaves it. Real-time threads have no slack: theirs is not
/// touched.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nanosleep;

/// The smallest slack that can be set, in nanoseconds: zero selects the default.
const LEAST_SLACK: u64 = 1;

impl KernelWaiter for Nanosleep {
    fn wait(&mut self, until: Duration) -> Woken {
        let slack = current_timer_slack().ok().filter(|slack| *slack > LEAST_SLACK);
        if slack.is_some() {
            set_slack(LEAST_SLACK);
        }
        let woken = match clock_nanosleep_absolute(ClockId::Monotonic, &timespec(until)) {
            Err(Errno::INTR) => Woken::BySignal,
            _ => Woken::Due,
        };
        if let Some(slack) = slack {
            set_slack(slack);
        }
        woken
    }
}

fn set_slack(nanos: u64) {
    // It cannot fail; if a seccomp filter forbids it, the slack stays.
    let _ = set_current_timer_slack(std::num::NonZeroU64::new(nanos));
}

/// Waits for a timerfd, which no timer slack delays.
#[derive(Debug)]
pub struct Timerfd {
    /// None only if another could not be created.
    timer: Option<OwnedFd>,
    /// The process that created it: a forked child has the descriptor too, but it refers to the
    /// same timer.
    process: Pid,
}

impl Timerfd {
    /// Creates the timer.
    ///
    /// # Errors
    /// If no descriptor is available.
    pub fn new() -> Result<Self> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        Ok(Self { timer: Some(timer), process: getpid() })
    }

    /// Waits until CLOCK_MONOTONIC shows this, or until a signal handler has run.
    ///
    /// # Errors
    /// If the descriptor is gone and no other is available.
    pub fn wait(&mut self, until: Duration) -> Result<Woken> {
        if getpid() != self.process {
            self.renew()?;
        }
        match self.wait_once(until) {
            // The descriptor was closed by someone else, and its number may have been reused.
            Err(Errno::BADF | Errno::INVAL) => {
                self.renew()?;
                self.wait_once(until)
            }
            waited => waited,
        }
    }

    fn wait_once(&self, until: Duration) -> Result<Woken> {
        let it_value = timespec(until.max(Duration::from_nanos(1)));
        let it_interval = Timespec { tv_sec: 0, tv_nsec: 0 };
        let once = Itimerspec { it_interval, it_value };
        // This also resets the timer's expiration count, so it need not be read.
        let timer = self.timer.as_ref().ok_or(Errno::BADF)?;
        timerfd_settime(timer, TimerfdTimerFlags::ABSTIME, &once)?;
        // Unlike a read, poll always ends when a handler has run, even one set with SA_RESTART.
        match poll(&mut [PollFd::new(timer, PollFlags::IN)], None) {
            Ok(_) => Ok(Woken::Due),
            Err(Errno::INTR) => Ok(Woken::BySignal),
            Err(error) => Err(error),
        }
    }

    fn renew(&mut self) -> Result<()> {
        // The old one goes first: the new one may get its number.
        if let Some(old) = self.timer.take() {
            let link = std::fs::read_link(format!("/proc/self/fd/{}", old.as_raw_fd()));
            if link.is_ok_and(|link| link.as_os_str() == "anon_inode:[timerfd]") {
                file::close(old);
            } else {
                // The number is unused or someone else's by now.
                let _ = old.into_raw_fd();
            }
        }
        *self = Self::new()?;
        Ok(())
    }
}

fn timespec(time: Duration) -> Timespec {
    Timespec {
        tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: time.subsec_nanos().into(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::FromRawFd;

    use rustix::process::{WaitOptions, waitpid};
    use rustix::time::{clock_gettime, timerfd_gettime};

    use super::*;

    fn now() -> Duration {
        let now = clock_gettime(ClockId::Monotonic);
        Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
    }

    fn soon() -> Duration {
        now() + Duration::from_micros(200)
    }

    #[test]
    fn neither_returns_before_it_is_time() {
        let mut timer = Timerfd::new().unwrap();
        for _ in 0..3 {
            let until = soon();
            assert!(timer.wait(until) == Ok(Woken::Due) && now() >= until);
            let until = soon();
            assert!(Nanosleep.wait(until) == Woken::Due && now() >= until);
        }
        assert_eq!(timer.wait(Duration::ZERO), Ok(Woken::Due), "what has passed takes no time");
    }

    #[test]
    fn a_forked_child_leaves_the_timer_of_its_parent_alone() {
        let mut timer = Timerfd::new().unwrap();
        let it_interval = Timespec { tv_sec: 0, tv_nsec: 0 };
        let it_value = timespec(now() + Duration::from_secs(3_600));
        let far = Itimerspec { it_interval, it_value };
        timerfd_settime(timer.timer.as_ref().unwrap(), TimerfdTimerFlags::ABSTIME, &far).unwrap();
        // SAFETY: the child calls nothing that another thread could have locked; glibc takes care
        // of its own allocator.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let waited = timer.wait(soon()) == Ok(Woken::Due) && timer.process == getpid();
            // SAFETY: it ends the child at once, without running the parent's exit handlers.
            unsafe { libc::_exit(i32::from(!waited)) };
        }
        let (_, status) = waitpid(Pid::from_raw(child), WaitOptions::empty()).unwrap().unwrap();
        assert_eq!(status.exit_status(), Some(0));
        let left = timerfd_gettime(timer.timer.as_ref().unwrap()).unwrap().it_value;
        assert!(left.tv_sec > 3_000, "{left:?} are left of an hour");
    }

    #[test]
    fn a_descriptor_that_is_another_file_by_now_is_left_alone() {
        let mut timer = Timerfd::new().unwrap();
        let number = timer.timer.as_ref().unwrap().as_raw_fd();
        let null = File::open("/dev/null").unwrap();
        // SAFETY: both are open, and the timer does not close a descriptor that is not its own.
        assert_eq!(unsafe { libc::dup2(null.as_raw_fd(), number) }, number);
        assert_eq!(timer.wait(soon()), Ok(Woken::Due));
        assert_ne!(timer.timer.as_ref().unwrap().as_raw_fd(), number);
        // SAFETY: the timer has given it up, so this test owns it.
        let other = unsafe { File::from_raw_fd(number) };
        assert!(other.metadata().is_ok());
    }
}
