//! Calls that create or delete timers, and timers for other calls.
//!
//! No process may have a million timers (they count as pending signals) or descriptors, and the
//! kernel finds a timer more slowly the more there are. So they are created and deleted in chunks,
//! and only the requested half is timed.

use std::ptr::null_mut;

use libc::{CLOCK_MONOTONIC, c_int, itimerspec, timespec};
use rustix::io::Errno;
use syscalls::{Sysno, raw_syscall};

use super::batch::Call;

/// The number of simultaneous timers: fewer than the rows of the kernel's table of them (512 before
/// Linux 6.15, then 8192 per processor), and than any usual limit.
const TIMERS: usize = 256;
/// The number of simultaneously open descriptors: few enough for a limit of 256.
const DESCRIPTORS: usize = 128;

/// 31 years: nothing armed here expires, in any timeline.
static FAR: itimerspec = itimerspec {
    it_interval: timespec { tv_sec: 0, tv_nsec: 0 },
    it_value: timespec { tv_sec: 1_000_000_000, tv_nsec: 0 },
};

fn result(given: isize) -> Result<(), Errno> {
    if given < 0 { Err(Errno::from_raw_os_error(-given as i32)) } else { Ok(()) }
}

/// Creates a kernel timer: returns 0 with its number in `id`, or an error.
#[inline(always)]
fn create(id: &mut c_int) -> isize {
    // SAFETY: the kernel writes an int; by default, the timer sends SIGALRM if it ever expires,
    // which it does not.
    unsafe {
        raw_syscall!(
            Sysno::timer_create,
            CLOCK_MONOTONIC,
            null_mut::<libc::sigevent>(),
            &raw mut *id
        ) as isize
    }
}

#[inline(always)]
fn delete(id: c_int) -> isize {
    // SAFETY: its argument is a number.
    unsafe { raw_syscall!(Sysno::timer_delete, id) as isize }
}

#[inline(always)]
fn create_descriptor() -> isize {
    // SAFETY: its arguments are numbers.
    unsafe { raw_syscall!(Sysno::timerfd_create, CLOCK_MONOTONIC, libc::TFD_CLOEXEC) as isize }
}

#[inline(always)]
fn close(descriptor: c_int) -> isize {
    // SAFETY: only descriptors that were created here are closed, each once.
    unsafe { raw_syscall!(Sysno::close, descriptor) as isize }
}

/// A timer for other calls.
pub struct Timer(c_int);

impl Timer {
    /// A timer on CLOCK_MONOTONIC.
    ///
    /// # Errors
    /// If the limit is reached.
    pub fn new() -> Result<Self, Errno> {
        let mut id = 0;
        result(create(&mut id))?;
        Ok(Self(id))
    }

    /// Arms the timer.
    #[inline(always)]
    pub fn settime(&self) -> isize {
        let old = null_mut::<itimerspec>();
        // SAFETY: the kernel reads `FAR`.
        unsafe { raw_syscall!(Sysno::timer_settime, self.0, 0, &raw const FAR, old) as isize }
    }

    /// The number of undelivered expirations.
    #[inline(always)]
    pub fn getoverrun(&self) -> isize {
        // SAFETY: its argument is a number.
        unsafe { raw_syscall!(Sysno::timer_getoverrun, self.0) as isize }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        delete(self.0);
    }
}

/// A timer with a descriptor.
pub struct TimerDescriptor(c_int);

impl TimerDescriptor {
    /// A timerfd on CLOCK_MONOTONIC.
    ///
    /// # Errors
    /// If the limit is reached.
    pub fn new() -> Result<Self, Errno> {
        let descriptor = create_descriptor();
        result(descriptor)?;
        Ok(Self(descriptor as c_int))
    }

    /// Arms the timer.
    #[inline(always)]
    pub fn settime(&self) -> isize {
        let old = null_mut::<itimerspec>();
        // SAFETY: the kernel reads `FAR`.
        unsafe { raw_syscall!(Sysno::timerfd_settime, self.0, 0, &raw const FAR, old) as isize }
    }
}

impl Drop for TimerDescriptor {
    fn drop(&mut self) {
        close(self.0);
    }
}

/// Timers whose creation is timed and whose deletion is not.
pub struct Creating([c_int; TIMERS]);

/// Timers whose deletion is timed and whose creation is not.
pub struct Deleting([c_int; TIMERS]);

/// Descriptors whose creation is timed and whose closing is not.
pub struct CreatingDescriptors([c_int; DESCRIPTORS]);

/// An invalid timer or descriptor number.
const NONE: c_int = -1;

impl Creating {
    /// No timers yet.
    pub fn new() -> Self {
        Self([NONE; TIMERS])
    }
}

impl Deleting {
    /// No timers yet.
    pub fn new() -> Self {
        Self([NONE; TIMERS])
    }
}

impl CreatingDescriptors {
    /// No descriptors yet.
    pub fn new() -> Self {
        Self([NONE; DESCRIPTORS])
    }
}

impl Call for Creating {
    const CHUNK: usize = TIMERS;

    #[inline(always)]
    fn call(&mut self, at: usize) -> isize {
        create(&mut self.0[at])
    }

    fn undo(&mut self, count: usize) -> Result<(), Errno> {
        let made = self.0[..count].iter_mut().filter(|id| **id != NONE);
        made.map(|id| result(delete(std::mem::replace(id, NONE)))).fold(Ok(()), Result::and)
    }
}

impl Call for Deleting {
    const CHUNK: usize = TIMERS;

    fn prepare(&mut self, count: usize) -> Result<(), Errno> {
        for at in 0..count {
            if let Err(error) = result(create(&mut self.0[at])) {
                // Those created before are not left behind.
                for id in &self.0[..at] {
                    delete(*id);
                }
                return Err(error);
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn call(&mut self, at: usize) -> isize {
        delete(self.0[at])
    }
}

impl Call for CreatingDescriptors {
    const CHUNK: usize = DESCRIPTORS;

    #[inline(always)]
    fn call(&mut self, at: usize) -> isize {
        let made = create_descriptor();
        self.0[at] = made as c_int;
        made
    }

    fn undo(&mut self, count: usize) -> Result<(), Errno> {
        let made = self.0[..count].iter_mut().filter(|descriptor| **descriptor >= 0);
        made.map(|it| result(close(std::mem::replace(it, NONE)))).fold(Ok(()), Result::and)
    }
}

#[cfg(test)]
mod tests {
    use super::super::batch::Bench;
    use super::*;

    /// The timers of this process in the kernel's list.
    fn timers() -> Option<usize> {
        let text = std::fs::read_to_string("/proc/self/timers").ok()?;
        Some(text.lines().filter(|line| line.starts_with("ID:")).count())
    }

    #[test]
    fn what_is_made_is_ended() {
        const ALONE: &str = "EIGENTIME_ALONE";
        if timers().is_none() {
            skip!("CONFIG_CHECKPOINT_RESTORE, for the list of timers");
        }
        // The list is the process's: in another process no other test creates timers meanwhile.
        if std::env::var_os(ALONE).is_none() {
            let itself = std::env::current_exe().unwrap();
            let test = "calls::timers::tests::what_is_made_is_ended";
            let mut alone = std::process::Command::new(itself);
            let ran = alone.args(["--exact", test]).env(ALONE, "1").output().unwrap();
            let said = String::from_utf8_lossy(&ran.stdout);
            assert!(ran.status.success() && said.contains("1 passed"), "{said}");
            return;
        }
        let calls = TIMERS as u64 * 2 + 1;
        Creating::new().record(calls).unwrap();
        assert_eq!(timers(), Some(0));
        Deleting::new().record(calls).unwrap();
        assert_eq!(timers(), Some(0));
        let timer = Timer::new().unwrap();
        assert_eq!(timers(), Some(1));
        drop(timer);
        assert_eq!(timers(), Some(0));
    }

    #[test]
    fn a_timer_is_armed_and_has_not_overrun() {
        let timer = Timer::new().unwrap();
        assert_eq!((timer.settime(), timer.getoverrun()), (0, 0));
        // SAFETY: all zeroes are an `itimerspec`.
        let mut left: itimerspec = unsafe { std::mem::zeroed() };
        // SAFETY: there is room for the result.
        let done = unsafe { raw_syscall!(Sysno::timer_gettime, timer.0, &raw mut left) };
        assert_eq!(done, 0);
        assert!(left.it_value.tv_sec > 0);
    }

    #[test]
    fn a_descriptor_is_armed() {
        let timer = TimerDescriptor::new().unwrap();
        assert_eq!(timer.settime(), 0);
    }

    #[test]
    fn those_that_are_not_there_are_refused() {
        assert_eq!(result(delete(NONE)), Err(Errno::INVAL));
        assert!(Deleting::new().once() < 0);
    }
}
