//! Calls that make or end timers, and timers to be called with.
//!
//! No process may have a million timers (they count as pending signals) or descriptors, and
//! the kernel finds a timer the more slowly the more there are: so they are made and ended in
//! chunks, of which only the half that is asked for is timed.

use std::ptr::null_mut;

use libc::{CLOCK_MONOTONIC, c_int, itimerspec, timespec};
use rustix::io::Errno;
use syscalls::{Sysno, raw_syscall};

use super::batch::Call;

/// Timers that exist at once: fewer than the kernel's table of them has rows (512 before Linux
/// 6.15, then 8192 for each processor), and than any usual limit.
const TIMERS: usize = 256;
/// Descriptors that are open at once: few enough for a limit of 256.
const DESCRIPTORS: usize = 128;

/// 31 years: nothing that is armed here expires, in any timeline.
static FAR: itimerspec = itimerspec {
    it_interval: timespec { tv_sec: 0, tv_nsec: 0 },
    it_value: timespec { tv_sec: 1_000_000_000, tv_nsec: 0 },
};

fn result(given: isize) -> Result<(), Errno> {
    if given < 0 { Err(Errno::from_raw_os_error(-given as i32)) } else { Ok(()) }
}

/// A timer of the kernel: 0 and its number is in `id`, or an error.
#[inline(always)]
fn create(id: &mut c_int) -> isize {
    // SAFETY: the kernel writes an int; without a description, the timer sends SIGALRM, if it ever
    // expires, which it does not.
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
    // SAFETY: it has a number for an argument.
    unsafe { raw_syscall!(Sysno::timer_delete, id) as isize }
}

#[inline(always)]
fn create_descriptor() -> isize {
    // SAFETY: it has numbers for arguments.
    unsafe { raw_syscall!(Sysno::timerfd_create, CLOCK_MONOTONIC, libc::TFD_CLOEXEC) as isize }
}

#[inline(always)]
fn close(descriptor: c_int) -> isize {
    // SAFETY: only descriptors that were made here are closed, each once.
    unsafe { raw_syscall!(Sysno::close, descriptor) as isize }
}

/// A timer to be called with.
pub struct Timer(c_int);

impl Timer {
    /// A timer on CLOCK_MONOTONIC.
    ///
    /// # Errors
    /// If there may be no more of them.
    pub fn new() -> Result<Self, Errno> {
        let mut id = 0;
        result(create(&mut id))?;
        Ok(Self(id))
    }

    /// Arms it, from now on.
    #[inline(always)]
    pub fn settime(&self) -> isize {
        let old = null_mut::<itimerspec>();
        // SAFETY: the kernel reads `FAR`.
        unsafe { raw_syscall!(Sysno::timer_settime, self.0, 0, &raw const FAR, old) as isize }
    }

    /// How often it has expired without being delivered.
    #[inline(always)]
    pub fn getoverrun(&self) -> isize {
        // SAFETY: it has a number for an argument.
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
    /// One on CLOCK_MONOTONIC.
    ///
    /// # Errors
    /// If there may be no more of them.
    pub fn new() -> Result<Self, Errno> {
        let descriptor = create_descriptor();
        result(descriptor)?;
        Ok(Self(descriptor as c_int))
    }

    /// Arms it, from now on.
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

/// Timers that are made, and ended untimed.
pub struct Creating([c_int; TIMERS]);

/// Timers that are made untimed, and ended.
pub struct Deleting([c_int; TIMERS]);

/// Descriptors that are made, and closed untimed.
pub struct CreatingDescriptors([c_int; DESCRIPTORS]);

/// What no timer and no descriptor has for its number.
const NONE: c_int = -1;

impl Creating {
    /// None yet.
    pub fn new() -> Self {
        Self([NONE; TIMERS])
    }
}

impl Deleting {
    /// None yet.
    pub fn new() -> Self {
        Self([NONE; TIMERS])
    }
}

impl CreatingDescriptors {
    /// None yet.
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
                // Those before are not left for those who come next.
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

    /// Timers of this process, as the kernel lists them.
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
        // The list is the process's: in another one, no other test makes timers meanwhile.
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
        // SAFETY: there is room for what is written.
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
