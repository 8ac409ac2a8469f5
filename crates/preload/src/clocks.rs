//! Functions that read or set a clock.

use std::ffi::{c_int, c_void};

use libc::{clockid_t, time_t, timespec, timeval, timex};
use rustix::time::ClockId;

use crate::counter::{self, CLOCK, COARSE, monotonic, wall};
use crate::{real, report, sandbox, time};

/// # Safety
/// As for the C library's.
pub unsafe fn clock_gettime(clock: clockid_t, out: *mut timespec) -> c_int {
    let now = match clock {
        libc::CLOCK_MONOTONIC => time::timespec(monotonic()),
        libc::CLOCK_REALTIME => wall(),
        // SAFETY: the caller's.
        _ => return unsafe { real::clock_gettime(clock, out) },
    };
    report::reading();
    // SAFETY: the caller's; the vDSO writes without checking, too.
    unsafe { out.write_unaligned(now) };
    0
}

/// # Safety
/// As for the C library's.
pub unsafe fn gettimeofday(out: *mut timeval, zone: *mut c_void) -> c_int {
    if out.is_null() || !zone.is_null() {
        // SAFETY: the caller's.
        return unsafe { real::gettimeofday(out, zone) };
    }
    let now = wall();
    report::reading();
    // SAFETY: the caller's.
    unsafe { out.write_unaligned(timeval { tv_sec: now.tv_sec, tv_usec: now.tv_nsec / 1000 }) };
    0
}

/// # Safety
/// As for the C library's.
pub unsafe fn time(out: *mut time_t) -> time_t {
    // Most of the time the coarse clock knows the current second. A program without the counter
    // uses nothing else.
    let coarse = counter::kernel(ClockId::RealtimeCoarse);
    let next = coarse + COARSE;
    let is_known = next.as_secs() == coarse.as_secs() || counter::is_forbidden();
    let now = if is_known { time::seconds(coarse) } else { wall().tv_sec };
    report::reading();
    if !out.is_null() {
        // SAFETY: the caller's.
        unsafe { out.write_unaligned(now) };
    }
    now
}

/// # Safety
/// As for the C library's.
pub unsafe fn timespec_get(out: *mut timespec, base: c_int) -> c_int {
    const TIME_UTC: c_int = 1;
    if base != TIME_UTC {
        // SAFETY: the caller's.
        return unsafe { real::timespec_get(out, base) };
    }
    // SAFETY: the caller's.
    unsafe { clock_gettime(libc::CLOCK_REALTIME, out) };
    base
}

/// # Safety
/// As for the C library's.
pub unsafe fn clock_settime(clock: clockid_t, time: *const timespec) -> c_int {
    // SAFETY: the caller's.
    compared_anew(unsafe { real::clock_settime(clock, time) })
}

/// # Safety
/// As for the C library's.
pub unsafe fn settimeofday(time: *const timeval, zone: *const c_void) -> c_int {
    // SAFETY: the caller's.
    compared_anew(unsafe { real::settimeofday(time, zone) })
}

/// # Safety
/// As for the C library's.
pub unsafe fn adjtimex(changes: *mut timex) -> c_int {
    // SAFETY: the caller's.
    compared_anew(unsafe { real::adjtimex(changes) })
}

/// # Safety
/// As for the C library's.
pub unsafe fn clock_adjtime(clock: clockid_t, changes: *mut timex) -> c_int {
    // SAFETY: the caller's.
    compared_anew(unsafe { real::clock_adjtime(clock, changes) })
}

fn compared_anew(answer: c_int) -> c_int {
    if answer >= 0 && counter::is_compared() && !counter::is_forbidden() {
        let _ = sandbox::unless_confined(|| CLOCK.upkeep());
    }
    answer
}
