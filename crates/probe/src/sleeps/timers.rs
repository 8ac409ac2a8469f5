//! What to wait with in the kernel, besides the calls that sleep.

use std::io;
use std::mem::zeroed;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr;

use rustix::time::Itimerspec;

use super::clocks::{monotonic, timespec};
use super::grid::Nanos;

/// A POSIX timer of the calling thread, which gets its signal: see timer_create(2).
pub struct PosixTimer(libc::c_int);

impl PosixTimer {
    /// One that is not armed.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn new(signal: libc::c_int) -> io::Result<Self> {
        // SAFETY: the structure is plain numbers.
        let mut event: libc::sigevent = unsafe { zeroed() };
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = signal;
        event.sigev_notify_thread_id = rustix::thread::gettid().as_raw_nonzero().get();
        let mut id = 0;
        // The C library's own would keep some signals for itself, and its timers are of a form of
        // its own.
        // SAFETY: the kernel reads the event and writes the number of the timer.
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

    /// Has it fire at `first`, and then each `period`; once if that is zero.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn arm(&self, first: Nanos, period: Nanos) -> io::Result<()> {
        let times = Itimerspec { it_interval: timespec(period), it_value: timespec(first) };
        // SAFETY: the times are ours to read, in the kernel's form; the old ones are not asked for.
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
        // SAFETY: takes a number; the timer is ours, and nobody uses it after this.
        unsafe { libc::syscall(libc::SYS_timer_delete, self.0) };
    }
}

/// A POSIX timer that is waited for by taking its signal.
pub struct SignalTimer {
    timer: PosixTimer,
    signals: libc::sigset_t,
}

impl SignalTimer {
    /// One that is not armed. Its signal stays blocked in the calling thread.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn new() -> io::Result<Self> {
        let signal = libc::SIGRTMIN();
        // SAFETY: a set of signals is plain bits; the functions write into it alone.
        let signals = unsafe {
            let mut signals: libc::sigset_t = zeroed();
            libc::sigemptyset(&raw mut signals);
            libc::sigaddset(&raw mut signals, signal);
            signals
        };
        // SAFETY: the set is ours to read; the old one is not asked for.
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
        // SAFETY: the set is ours to read; what is known of the signal is not asked for.
        match unsafe { libc::sigwaitinfo(&raw const self.signals, ptr::null_mut()) } {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    }
}

impl Drop for SignalTimer {
    fn drop(&mut self) {
        // One that has come and was not waited for would be taken for the next timer's.
        let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let _ = self.timer.arm(0, 0);
        // SAFETY: the set and the time are ours to read.
        unsafe { libc::sigtimedwait(&raw const self.signals, ptr::null_mut(), &raw const now) };
    }
}

/// Waits for events of which there are none, until the time is over.
pub struct Epoll {
    descriptor: OwnedFd,
    /// Whether it can be told nanoseconds: epoll_pwait2(2), since Linux 5.11.
    is_exact: bool,
}

impl Epoll {
    /// One that has nothing to wait for but the time.
    ///
    /// # Errors
    /// Where there is no descriptor for it.
    pub fn new() -> io::Result<Self> {
        let descriptor = rustix::event::epoll::create(rustix::event::epoll::CreateFlags::CLOEXEC)?;
        let mut made = Self { descriptor, is_exact: true };
        // Sandboxes that do not know it refuse it, in one way or the other.
        made.is_exact = made.wait_exactly(0).is_ok();
        Ok(made)
    }

    /// Whether it can be told nanoseconds; else it is told whole milliseconds, rounded up.
    pub fn is_exact(&self) -> bool {
        self.is_exact
    }

    /// Waits for so long.
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
        // SAFETY: there is room for the one event that it may write, the time is ours to read, in
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

/// Ends what waits too long: from a time on it interrupts the thread that made it, again and again,
/// so that no call goes on for ever.
pub struct Watchdog {
    limit: Nanos,
    _timer: PosixTimer,
}

/// Between two interruptions: one that comes between two calls ends neither.
const AGAIN: Nanos = 100_000_000;

impl Watchdog {
    /// For so long nothing happens.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn after(patience: Nanos) -> io::Result<Self> {
        extern "C" fn nothing(_: libc::c_int) {}
        // SAFETY: the structure is plain numbers, of which an empty mask and no flags are zero: a
        // call that is interrupted is not to be taken up again.
        let mut action: libc::sigaction = unsafe { zeroed() };
        action.sa_sigaction = nothing as *const () as usize;
        // SAFETY: the action is ours to read, and its handler does nothing.
        let set = unsafe { libc::sigaction(libc::SIGALRM, &raw const action, ptr::null_mut()) };
        succeeded(set.into())?;
        let (limit, timer) = (monotonic() + patience, PosixTimer::new(libc::SIGALRM)?);
        timer.arm(limit, AGAIN)?;
        Ok(Self { limit, _timer: timer })
    }

    /// Whether it is over.
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
        // It is not armed: it never fires.
        let timer = Timerfd::new().unwrap();
        let error = timer.wait().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Interrupted);
        assert!(watchdog.is_over());
    }
}
