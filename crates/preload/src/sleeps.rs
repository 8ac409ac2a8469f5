//! Functions that sleep.

use std::ffi::{c_int, c_uint};
use std::time::Duration;

use libc::{clockid_t, timespec};

use crate::memory::{self, Fault};
use crate::real::{self, set_errno};
use crate::time;
use crate::wait::{self, Ended};

/// # Safety
/// As for the C library's.
pub unsafe fn nanosleep(asked: *const timespec, left: *mut timespec) -> c_int {
    // SAFETY: the caller's.
    let answer = match unsafe { sleep_for(asked, left) } {
        Some(answer) => answer,
        // SAFETY: the caller's.
        None => return unsafe { real::nanosleep(asked, left) },
    };
    if answer == 0 {
        return 0;
    }
    set_errno(answer);
    -1
}

/// # Safety
/// As for the C library's.
pub unsafe fn clock_nanosleep(
    clock: clockid_t,
    flags: c_int,
    asked: *const timespec,
    left: *mut timespec,
) -> c_int {
    let answer = match (clock, flags) {
        // A relative wait on the wall clock does not follow changes of it. SAFETY: the caller's.
        (libc::CLOCK_MONOTONIC | libc::CLOCK_REALTIME, 0) => unsafe { sleep_for(asked, left) },
        // SAFETY: the caller's.
        (libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME) => unsafe { sleep_until(asked) },
        _ => None,
    };
    // SAFETY: the caller's.
    answer.unwrap_or_else(|| unsafe { real::clock_nanosleep(clock, flags, asked, left) })
}

/// # Safety
/// None: there are no pointers.
pub unsafe fn usleep(microseconds: c_uint) -> c_int {
    match wait::sleep(Duration::from_micros(microseconds.into())) {
        Some(Ended::OnTime) => 0,
        Some(Ended::Interrupted(_)) => {
            set_errno(libc::EINTR);
            -1
        }
        // SAFETY: there are no pointers.
        None => unsafe { real::usleep(microseconds) },
    }
}

/// # Safety
/// None: there are no pointers.
pub unsafe fn sleep(seconds: c_uint) -> c_uint {
    match wait::sleep(Duration::from_secs(seconds.into())) {
        Some(Ended::OnTime) => 0,
        Some(Ended::Interrupted(left)) => {
            set_errno(libc::EINTR);
            // It was no more than that originally.
            left.as_secs() as c_uint
        }
        // SAFETY: there are no pointers.
        None => unsafe { real::sleep(seconds) },
    }
}

/// # Safety
/// As for the C library's.
pub unsafe fn thrd_sleep(asked: *const timespec, left: *mut timespec) -> c_int {
    const INTERRUPTED: c_int = -1;
    const FAILED: c_int = -2;
    // SAFETY: the caller's.
    match unsafe { clock_nanosleep(libc::CLOCK_REALTIME, 0, asked, left) } {
        0 => 0,
        libc::EINTR => INTERRUPTED,
        _ => FAILED,
    }
}

/// Sleeps and returns zero or an error; none if it must be left to the kernel.
unsafe fn sleep_for(asked: *const timespec, left: *mut timespec) -> Option<c_int> {
    // SAFETY: the caller's.
    let duration = time::from_timespec(unsafe { memory::read(asked) }?)?;
    if !memory::may_be_written(left) {
        return None;
    }
    match wait::sleep(duration)? {
        Ended::OnTime => Some(0),
        Ended::Interrupted(_) if left.is_null() => Some(libc::EINTR),
        Ended::Interrupted(remaining) => {
            // SAFETY: the caller's.
            let written = unsafe { memory::write(left, time::timespec(remaining)) };
            Some(if written == Err(Fault) { libc::EFAULT } else { libc::EINTR })
        }
    }
}

/// The same until a time; the remaining time is not reported.
unsafe fn sleep_until(asked: *const timespec) -> Option<c_int> {
    // SAFETY: the caller's.
    let deadline = time::from_timespec(unsafe { memory::read(asked) }?)?;
    Some(match wait::sleep_until(deadline)? {
        Ended::OnTime => 0,
        Ended::Interrupted(_) => libc::EINTR,
    })
}
