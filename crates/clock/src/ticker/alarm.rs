use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::thread::clock_nanosleep_relative;
use rustix::time::{
    ClockId, Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use super::schedule::Nanos;

/// What the ticker's thread waits for: a timerfd, which is not subject to timer slack, and the bell
/// that signals new events.
#[derive(Debug)]
pub struct Alarm {
    timer: OwnedFd,
}

/// Why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    Timer,
    /// The bell, a signal, the maximum wait, or nothing to wait with.
    Otherwise,
}

/// How long to wait without descriptors, in nanoseconds: 1 ms.
const BLIND: i64 = 1_000_000;
/// The longest wait in the kernel. Closing the descriptors while the thread waits for them, as
/// closefrom(3) does, does not end the wait, and the bell can no longer be heard.
const DEAF: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

impl Alarm {
    pub fn new() -> Result<Self, Errno> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        Ok(Self { timer: timerfd_create(TimerfdClockId::Monotonic, flags)? })
    }

    /// Waits until CLOCK_MONOTONIC shows this, or the bell rings. It may return early.
    pub fn wait(&self, until: Nanos, bell: impl AsFd) -> Woken {
        // Zero would disarm the timer.
        let it_value = timespec(until.max(1));
        let it_interval = timespec(0);
        let once = Itimerspec { it_interval, it_value };
        if timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &once).is_err() {
            return blind();
        }
        let mut files =
            [PollFd::new(&self.timer, PollFlags::IN), PollFd::new(&bell, PollFlags::IN)];
        match poll(&mut files, Some(&DEAF)) {
            Ok(_) if heard(&files[1]) => silence(bell),
            Ok(_) if heard(&files[0]) => Woken::Timer,
            Ok(0) | Err(Errno::INTR) => Woken::Otherwise,
            _ => blind(),
        }
    }

    /// Waits until the bell rings. It may return early.
    pub fn wait_for(&self, bell: impl AsFd) -> Woken {
        let mut files = [PollFd::new(&bell, PollFlags::IN)];
        match poll(&mut files, Some(&DEAF)) {
            Ok(_) if heard(&files[0]) => silence(bell),
            Ok(0) | Err(Errno::INTR) => Woken::Otherwise,
            _ => blind(),
        }
    }
}

fn heard(file: &PollFd<'_>) -> bool {
    file.revents() == PollFlags::IN
}

fn silence(bell: impl AsFd) -> Woken {
    // It fails only if the bell was not rung after all.
    let _ = rustix::io::read(bell, &mut [0; 8]);
    Woken::Otherwise
}

/// A wait after the descriptors were closed: the thread checks its inbox now and then, rather than
/// never or all the time.
pub fn blind() -> Woken {
    let _ = clock_nanosleep_relative(ClockId::Monotonic, &Timespec { tv_sec: 0, tv_nsec: BLIND });
    Woken::Otherwise
}

fn timespec(nanos: Nanos) -> Timespec {
    const SECOND: Nanos = 1_000_000_000;
    Timespec { tv_sec: (nanos / SECOND) as i64, tv_nsec: (nanos % SECOND) as i64 }
}
