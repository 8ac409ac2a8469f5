//! The kernel's waiting mechanisms besides the sleep calls.

use std::io;
use std::mem::zeroed;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr;

use rustix::time::Itimerspec;

use super::clocks::{monotonic, timespec};
use super::grid::Nanos;

/// A POSIX timer that signals the calling thread: see timer_create(2).
pub struct PosixTimer(libc::c_int);

impl PosixTimer {
    /// Creates a disarmed timer.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn new(signal: libc::c_int) -> io::Result<Self> {
        // SAFETY: the structure is plain numbers.
        let mut event: libc::sigevent = unsafe { zeroed() };
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = signal;
        event.sigev_notify_thread_id = rustix::thread::gettid().as_raw_nonzero().get();
        let mut id = 0;
        // The C library's own version would reserve some signals, and its timers have their own
        // form. SAFETY: the kernel reads the event and writes the number of the timer.
        let made = unsafe {
            libc::syscall(
                libc::SYS_timer_create,
                libc::CLOCK_MONOTONIC,
                &raw const event,
                &raw mut id,
            )
        };
        succeeded(made).map(|()| Self(id))
    }

    /// Arms it to fire at `first`, and then every `period`; once if that is zero.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn arm(&self, first: Nanos, period: Nanos) -> io::Result<()> {
        let times = Itimerspec { it_interval: timespec(period), it_value: timespec(first) };
        // SAFETY: the times are valid to read, in the kernel's form; the old ones are not
        // requested.
        succeeded(unsafe {
            libc::syscall(
                libc::SYS_timer_settime,
                self.0,
                libc::TIMER_ABSTIME,
                &raw const times,
                ptr::null_mut::<Itimerspec>(),
            )
        })
    }
}

impl Drop for PosixTimer {
    fn drop(&mut self) {
        // SAFETY: it takes a number; the timer is ours and not used afterwards.
        unsafe { libc::syscall(libc::SYS_timer_delete, self.0) };
    }
}

/// A POSIX timer that is waited for by accepting its signal.
pub struct SignalTimer {
    timer: PosixTimer,
    signals: libc::sigset_t,
}

impl SignalTimer {
    /// Creates a disarmed timer. Its signal stays blocked in the calling thread.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn new() -> io::Result<Self> {
        let signal = libc::SIGRTMIN();
        // SAFETY: a set of signals is plain bits; the functions write only into it.
        let signals = unsafe {
            let mut signals: libc::sigset_t = zeroed();
            libc::sigemptyset(&raw mut signals);
            libc::sigaddset(&raw mut signals, signal);
            signals
        };
        // SAFETY: the set is valid to read; the old one is not requested.
        match unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &signals, ptr::null_mut()) } {
            0 => Ok(Self { timer: PosixTimer::new(signal)?, signals }),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }

    /// Fires once, at `until`, and waits for that.
    ///
    /// # Errors
    /// [`io::ErrorKind::Interrupted`] if a signal handler has run meanwhile.
    pub fn sleep(&self, until: Nanos) -> io::Result<()> {
        self.timer.arm(until, 0)?;
        // SAFETY: the set is valid to read; the signal's information is not requested.
        match unsafe { libc::sigwaitinfo(&raw const self.signals, ptr::null_mut()) } {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    }
}

impl Drop for SignalTimer {
    fn drop(&mut self) {
        // A pending signal would be taken for the next timer's.
        let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let _ = self.timer.arm(0, 0);
        // SAFETY: the set and the time are valid to read.
        unsafe { libc::sigtimedwait(&raw const self.signals, ptr::null_mut(), &raw const now) };
    }
}

/// Waits for events that never come, until the timeout.
pub struct Epoll {
    descriptor: OwnedFd,
    /// Whether it accepts nanoseconds: epoll_pwait2(2), since Linux 5.11.
    is_exact: bool,
}

impl Epoll {
    /// An instance without descriptors.
    ///
    /// # Errors
    /// If no descriptor is available.
    pub fn new() -> io::Result<Self> {
        let descriptor = rustix::event::epoll::create(rustix::event::epoll::CreateFlags::CLOEXEC)?;
        let mut made = Self { descriptor, is_exact: true };
        // Sandboxes that do not know it refuse it in various ways.
        made.is_exact = made.wait_exactly(0).is_ok();
        Ok(made)
    }

    /// Whether it accepts nanoseconds; otherwise whole milliseconds, rounded up.
    pub fn is_exact(&self) -> bool {
        self.is_exact
    }

    /// Waits for this long.
    ///
    /// # Errors
    /// [`io::ErrorKind::Interrupted`] if a signal handler has run meanwhile.
    pub fn wait(&self, length: Nanos) -> io::Result<()> {
        if self.is_exact { self.wait_exactly(length) } else { self.wait_roughly(length) }
    }

    fn wait_exactly(&self, length: Nanos) -> io::Result<()> {
        // SAFETY: an event is plain numbers.
        let mut event: libc::epoll_event = unsafe { zeroed() };
        let timeout = timespec(length);
        // SAFETY: there is room for the one event that it may write, the time is valid to read, in
        // the kernel's form, and there is no set of signals.
        succeeded(unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.descriptor.as_raw_fd(),
                &raw mut event,
                1,
                &raw const timeout,
                ptr::null::<libc::sigset_t>(),
                0_usize,
            )
        })
    }

    fn wait_roughly(&self, length: Nanos) -> io::Result<()> {
        // SAFETY: an event is plain numbers.
        let mut event: libc::epoll_event = unsafe { zeroed() };
        let millis = libc::c_int::try_from(length.div_ceil(1_000_000)).unwrap_or(libc::c_int::MAX);
        // SAFETY: there is room for the one event that it may write.
        let come =
            unsafe { libc::epoll_wait(self.descriptor.as_raw_fd(), &raw mut event, 1, millis) };
        succeeded(come.into())
    }
}

/// Ends waits that take too long: after a time it interrupts the thread that created it repeatedly,
/// so that no call lasts forever.
pub struct Watchdog {
    limit: Nanos,
    _timer: PosixTimer,
}

/// The interval of interruptions: one between two calls ends neither.
const AGAIN: Nanos = 100_000_000;

impl Watchdog {
    /// Does nothing for this long.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn after(patience: Nanos) -> io::Result<Self> {
        extern "C" fn nothing(_: libc::c_int) {}
        // SAFETY: the structure is plain numbers, where zero means an empty mask and no flags: an
        // interrupted call must not be restarted.
        let mut action: libc::sigaction = unsafe { zeroed() };
        action.sa_sigaction = nothing as *const () as usize;
        // SAFETY: the action is valid to read, and its handler does nothing.
        let set = unsafe { libc::sigaction(libc::SIGALRM, &raw const action, ptr::null_mut()) };
        succeeded(set.into())?;
        let (limit, timer) = (monotonic() + patience, PosixTimer::new(libc::SIGALRM)?);
        timer.arm(limit, AGAIN)?;
        Ok(Self { limit, _timer: timer })
    }

    /// Whether the time is over.
    pub fn is_over(&self) -> bool {
        monotonic() >= self.limit
    }
}

fn succeeded(result: libc::c_long) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use eigentime_measure::timerfd::Timerfd;

    use super::*;

    const MILLISECOND: Nanos = 1_000_000;

    #[test]
    fn a_signal_timer_waits_until_then() {
        let timer = SignalTimer::new().unwrap();
        for _ in 0..3 {
            let until = monotonic() + MILLISECOND;
            timer.sleep(until).unwrap();
            assert!(monotonic() >= until);
        }
    }

    #[test]
    fn epoll_waits_in_both_ways() {
        let epoll = Epoll::new().unwrap();
        for rough in [false, true] {
            let begin = monotonic();
            let waited = if rough { Epoll::wait_roughly } else { Epoll::wait };
            waited(&epoll, MILLISECOND).unwrap();
            assert!(monotonic() - begin >= MILLISECOND);
        }
    }

    #[test]
    fn what_never_ends_is_ended() {
        let watchdog = Watchdog::after(5 * MILLISECOND).unwrap();
        assert!(!watchdog.is_over() || monotonic() >= watchdog.limit);
        // It is disarmed and never fires.
        let timer = Timerfd::new().unwrap();
        let error = timer.wait().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Interrupted);
        assert!(watchdog.is_over());
    }
}
