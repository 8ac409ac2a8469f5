//! Setting the wall clock, which must affect the timeline's and never the host's.
//!
//! These probes must never set the host's clock, not even as root if Eigentime fails: they verify
//! that they are in a timeline, and drop the capability to set the host's clock first.

use std::fs;
use std::io;
use std::thread;

use crate::bench::{Answer, Bench, Failure, wrong};
use crate::interface::Interface;
use crate::message::Outcome;
use crate::seen::Seen;
use crate::sys::{self, NULL, call, checked, timespec, timeval};
use crate::timelines::{NS_PER_MS, NS_PER_S, Under};

const REALTIME: i32 = libc::CLOCK_REALTIME;

/// The interfaces to test.
pub const INTERFACES: &[Interface] = &[
    Interface::setter("clock_settime", |_| set(clock_settime)).of(&["clock_settime"]),
    Interface::setter("settimeofday", |_| set(settimeofday)).of(&["settimeofday"]),
    Interface::setter("adjtimex, ADJ_SETOFFSET", |_| set(adjtimex)).of(&["adjtimex"]),
    Interface::setter("clock_adjtime, ADJ_SETOFFSET", |_| set(clock_adjtime))
        .of(&["clock_adjtime"]),
    Interface::setter("a wait for an instant that is set", wakes).of(&["clock_nanosleep"]),
    Interface::setter("TFD_TIMER_CANCEL_ON_SET", not_cancelled).host("TFD_TIMER_CANCEL_ON_SET"),
    Interface::setter("adjtimex, ADJ_FREQUENCY", frequency).host(
        "frequency of the wall clock (ADJ_FREQUENCY, ADJ_TICK), leap seconds (STA_INS, STA_DEL)",
    ),
    Interface::setter("clock_settime of a program that is not dumpable", not_dumpable)
        .host("timers and the wall clock of programs that are not dumpable")
        .under(Under::OFFSET),
];

/// The step of the clock.
pub const STEP: i64 = 1000 * NS_PER_S;
/// More than the time that passes meanwhile at any rate, and less than the step.
const SLACK: i64 = 100 * NS_PER_S;

/// Whether this process is in a timeline, according to its mapped image.
#[must_use]
pub fn in_timeline() -> bool {
    fs::read_to_string("/proc/self/maps").is_ok_and(|maps| maps.contains("memfd:eigentime"))
}

/// Succeeds only in a timeline, after dropping the capability to set the host's clock.
fn keep_off_the_host() -> Result<(), Failure> {
    const VERSION_3: u32 = 0x2008_0522;
    const CAP_SYS_TIME: u32 = 1 << 25;
    if !in_timeline() {
        return Err(Failure::Broken("not in a timeline: no clock is set".into()));
    }
    let header = [VERSION_3, 0];
    // Effective, permitted, inheritable, each with 32 capabilities; then the next 32.
    let mut sets = [0u32; 6];
    // SAFETY: the kernel reads a header of two numbers and writes six.
    unsafe { call!(libc::SYS_capget, &header, &mut sets) }?;
    for set in &mut sets[..3] {
        *set &= !CAP_SYS_TIME;
    }
    // SAFETY: the kernel reads a header of two numbers and six more.
    unsafe { call!(libc::SYS_capset, &header, &sets) }?;
    Ok(())
}

fn clock_settime(by: i64) -> io::Result<i64> {
    let to = timespec(sys::clock(REALTIME)? + by);
    // SAFETY: the kernel reads one timespec.
    unsafe { call!(libc::SYS_clock_settime, REALTIME, &to) }
}

fn settimeofday(by: i64) -> io::Result<i64> {
    let to = timeval(sys::clock(REALTIME)? + by);
    // SAFETY: the kernel reads one timeval.
    unsafe { call!(libc::SYS_settimeofday, &to, NULL) }
}

fn change(by: i64) -> libc::timex {
    // SAFETY: all fields of a timex may be zero.
    let mut change: libc::timex = unsafe { std::mem::zeroed() };
    change.modes = libc::ADJ_SETOFFSET;
    change.time = timeval(by);
    change
}

fn adjtimex(by: i64) -> io::Result<i64> {
    // SAFETY: the kernel reads and writes one timex.
    unsafe { call!(libc::SYS_adjtimex, &mut change(by)) }
}

fn clock_adjtime(by: i64) -> io::Result<i64> {
    // SAFETY: the kernel reads and writes one timex.
    unsafe { call!(libc::SYS_clock_adjtime, REALTIME, &mut change(by)) }
}

/// Sets the clock and checks the wall clock, through the vDSO and with a system call, and the
/// monotonic clock. The harness checks whether the host's clock has moved.
fn set(setter: fn(i64) -> io::Result<i64>) -> Answer {
    keep_off_the_host()?;
    let wall = sys::clock(REALTIME)?;
    let monotonic = sys::clock(libc::CLOCK_MONOTONIC)?;
    if let Err(error) = setter(STEP) {
        return Ok(wrong(format!("refused: {error}")));
    }
    let moved = [sys::clock(REALTIME)? - wall, sys::raw_clock(REALTIME)? - wall];
    let passed = sys::clock(libc::CLOCK_MONOTONIC)? - monotonic;
    if passed > SLACK || moved.iter().any(|moved| (moved - STEP).abs() > SLACK) {
        return Ok(wrong(format!(
            "set {STEP} ns on, the wall clock went {moved:?} ns, the monotonic clock {passed} ns"
        )));
    }
    Ok(Outcome::Seen(
        Seen::Virtual,
        format!("the timeline's wall clock went {} s on", STEP / NS_PER_S),
    ))
}

/// The CPU time given to a wait to begin, since the clocks may be frozen here.
const BEGINNING: i64 = 20 * NS_PER_MS;

fn work(ns: i64) -> io::Result<()> {
    let before = sys::used_cpu()?;
    while sys::used_cpu()? - before < ns {}
    Ok(())
}

/// A wait for an instant must end when the clock is set beyond it.
fn wakes(_bench: &Bench) -> Answer {
    keep_off_the_host()?;
    let until = timespec(sys::clock(REALTIME)? + STEP);
    let waiter = thread::spawn(move || {
        let flags = libc::TIMER_ABSTIME;
        // SAFETY: the kernel reads one timespec.
        unsafe { call!(libc::SYS_clock_nanosleep, REALTIME, flags, &until, NULL) }
    });
    work(BEGINNING)?;
    if waiter.is_finished() {
        return Ok(wrong("the wait ended before the clock was set".into()));
    }
    clock_settime(2 * STEP)?;
    // A wait that does not end is killed from outside.
    match waiter.join() {
        Ok(Ok(_)) => Ok(Outcome::Seen(Seen::Virtual, "it ended when the clock was set".into())),
        other => Ok(wrong(format!("the wait failed: {other:?}"))),
    }
}

/// TFD_TIMER_CANCEL_ON_SET.
const CANCEL_ON_SET: i32 = 2;

fn not_cancelled(_bench: &Bench) -> Answer {
    keep_off_the_host()?;
    // SAFETY: only numbers are passed.
    let timer = unsafe { call!(libc::SYS_timerfd_create, REALTIME, libc::TFD_NONBLOCK) }?;
    let value = timespec(sys::clock(REALTIME)? + 10 * STEP);
    let setting = libc::itimerspec { it_interval: timespec(0), it_value: value };
    let flags = libc::TFD_TIMER_ABSTIME | CANCEL_ON_SET;
    // SAFETY: the kernel reads one itimerspec.
    unsafe { call!(libc::SYS_timerfd_settime, timer, flags, &setting, NULL) }?;
    clock_settime(STEP)?;
    let mut count = 0i64;
    // SAFETY: the kernel writes eight bytes.
    let read = unsafe { call!(libc::SYS_read, timer, &mut count, size_of::<i64>()) };
    Ok(match read.as_ref().map_err(io::Error::raw_os_error) {
        Err(Some(libc::EAGAIN)) => Outcome::Seen(Seen::Host, "a read is not cancelled".into()),
        Err(Some(libc::ECANCELED)) => Outcome::Seen(Seen::Virtual, "a read is cancelled".into()),
        _ => wrong(format!("a read answers {read:?}")),
    })
}

fn frequency(_bench: &Bench) -> Answer {
    keep_off_the_host()?;
    let mut state = change(0);
    state.modes = 0;
    // SAFETY: the kernel reads and writes one timex.
    unsafe { call!(libc::SYS_adjtimex, &mut state) }?;
    state.modes = libc::ADJ_FREQUENCY;
    state.freq += 1 << 16;
    // SAFETY: the kernel reads and writes one timex.
    let set = unsafe { call!(libc::SYS_adjtimex, &mut state) };
    Ok(match set.as_ref().map_err(io::Error::raw_os_error) {
        Err(Some(libc::EPERM)) => Outcome::Seen(Seen::Host, "refused (EPERM)".into()),
        _ => wrong(format!("not refused with EPERM: {set:?}")),
    })
}

fn not_dumpable(_bench: &Bench) -> Answer {
    keep_off_the_host()?;
    // SAFETY: only numbers are passed.
    checked(unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) })?;
    let wall = sys::clock(REALTIME)?;
    Ok(match clock_settime(STEP) {
        Ok(_) if (sys::clock(REALTIME)? - wall - STEP).abs() < SLACK => {
            Outcome::Seen(Seen::Both, "as root it is set".into())
        }
        Ok(_) => wrong("it is said to be set, but is not".into()),
        Err(error) => Outcome::Seen(Seen::Host, format!("it is not set: {error}")),
    })
}
