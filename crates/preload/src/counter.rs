//! The process's clock: the processor's counter if it may be used, or else the kernel's clock.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use eigentime_clock::{Clock, Trust};
use libc::timespec;
use rustix::time::ClockId;

use crate::time;

/// The process's clock.
pub static CLOCK: Clock = Clock::system();

/// The number of readings after which a program counts as a frequent reader: comparing the counter
/// with the kernel's clock takes a millisecond, in which the kernel's clock can be read some 50,000
/// times.
const OFTEN: u32 = 1000;

/// Twice the longest tick of a kernel: the coarse clocks are not further behind.
pub const COARSE: Duration = Duration::from_millis(20);

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
pub fn kernel(clock: ClockId) -> Duration {
    let time = rustix::time::clock_gettime(clock);
    Duration::new(time.tv_sec.try_into().unwrap_or(0), time.tv_nsec.try_into().unwrap_or(0))
}

/// CLOCK_MONOTONIC.
pub fn monotonic() -> Duration {
    if counts() { CLOCK.monotonic(CLOCK.now_ordered()) } else { kernel(ClockId::Monotonic) }
}

/// CLOCK_REALTIME. It may have been set since the counter was last compared with it, up to a tenth
/// of a second ago: the coarse clock, which costs almost nothing, shows that.
pub fn wall() -> timespec {
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
