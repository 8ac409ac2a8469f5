//! Functions that read or set a clock.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use eigentime_clock::{Clock, Trust};
use libc::{clockid_t, time_t, timespec, timeval, timex};
use rustix::time::ClockId;

use crate::functions::real;
use crate::{report, sandbox, time};

/// The process's clock.
pub static CLOCK: Clock = Clock::system();

/// The number of readings after which a program counts as a frequent reader: comparing the counter
/// with the kernel's clock takes a millisecond, in which the kernel's clock can be read some 50,000
/// times.
const OFTEN: u32 = 1000;

/// Twice the longest tick of a kernel: the coarse clocks are not further behind.
const COARSE: Duration = Duration::from_millis(20);

/// The state of the counter.
static STATE: AtomicU8 = AtomicU8::new(UNKNOWN);
const UNKNOWN: u8 = 0;
/// The kernel uses it as its clocksource, too.
const TRUSTED: u8 = 1;
/// It cannot be read, or does not show the time that the program should see.
const DISTRUSTED: u8 = 2;
/// Reading it ends the program, also in the kernel's vDSO, except for the coarse clocks.
const FORBIDDEN: u8 = 3;

static READINGS: AtomicU32 = AtomicU32::new(0);
/// Whether the program has ever waited.
static WAITED: AtomicBool = AtomicBool::new(false);

/// Whether to use the counter: a program that seldom reads a clock and never waits does not benefit
/// from the initial comparison.
#[inline]
fn counts() -> bool {
    match STATE.load(Ordering::Relaxed) {
        TRUSTED => true,
        UNKNOWN if READINGS.fetch_add(1, Ordering::Relaxed) >= OFTEN => {
            compare();
            STATE.load(Ordering::Relaxed) == TRUSTED
        }
        _ => false,
    }
}

/// Restricts the clock to essential system calls, and makes the others now.
pub fn confine() {
    if !is_forbidden() {
        compare();
        CLOCK.confine();
    }
}

/// Forbids reading the processor's counter from now on.
pub fn forbid() {
    STATE.store(FORBIDDEN, Ordering::Relaxed);
}

/// Whether reading the processor's counter is forbidden.
pub fn is_forbidden() -> bool {
    STATE.load(Ordering::Relaxed) == FORBIDDEN
}

/// The source of time.
pub fn source() -> String {
    if is_forbidden() { "none that may be read".to_owned() } else { CLOCK.trust().to_string() }
}

/// Compares the counter with the kernel's clock unless that was done: this takes a millisecond, in
/// which the clock lets no signal handler run.
#[cold]
pub fn compare() {
    let before = kernel(ClockId::Monotonic);
    let trusted = CLOCK.trust() == Trust::Counter;
    // Earlier readings must not be later than those from now on. They differ by less than a
    // microsecond.
    for _ in 0..ATTEMPTS {
        if !trusted || CLOCK.monotonic(CLOCK.now_ordered()) >= before {
            break;
        }
    }
    STATE.store(if trusted { TRUSTED } else { DISTRUSTED }, Ordering::Relaxed);
}

/// Clock readings of some 20 ns each.
const ATTEMPTS: u32 = 10_000;

/// Whether the comparison was made.
pub fn is_compared() -> bool {
    STATE.load(Ordering::Relaxed) != UNKNOWN
}

/// Whether this is the first call.
pub fn is_first_wait() -> bool {
    !WAITED.swap(true, Ordering::Relaxed)
}

/// The kernel's clock, which is never before its zero here.
fn kernel(clock: ClockId) -> Duration {
    let time = rustix::time::clock_gettime(clock);
    Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0))
}

/// CLOCK_MONOTONIC.
pub fn monotonic() -> Duration {
    if counts() { CLOCK.monotonic(CLOCK.now_ordered()) } else { kernel(ClockId::Monotonic) }
}

/// CLOCK_REALTIME. It may have been set since the counter was last compared with it, up to a tenth
/// of a second ago: the coarse clock, which costs almost nothing, shows that.
fn wall() -> timespec {
    if counts()
        && let Ok(wall) = CLOCK.wall(CLOCK.now_ordered()).duration_since(UNIX_EPOCH)
    {
        let coarse = kernel(ClockId::RealtimeCoarse);
        if wall.abs_diff(coarse) < COARSE {
            return time::timespec(wall);
        }
    }
    let wall = rustix::time::clock_gettime(ClockId::Realtime);
    timespec { tv_sec: wall.tv_sec, tv_nsec: wall.tv_nsec }
}

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
    let coarse = kernel(ClockId::RealtimeCoarse);
    let next = coarse + COARSE;
    let is_known = next.as_secs() == coarse.as_secs() || is_forbidden();
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
    if answer >= 0 && is_compared() && !is_forbidden() {
        let _ = sandbox::unless_confined(|| CLOCK.upkeep());
    }
    answer
}
