//! Sleeps.

use std::io;
use std::thread;

use crate::bench::{Answer, Bench, Ends, Failure, Needed, wrong};
use crate::interface::Interface;
use crate::message::Outcome;
use crate::seen::Seen;
use crate::sys::{self, Arg, NULL, call, nanos, timespec};
use crate::timelines::{NS_PER_MS, Under};

use super::{CPU, EVERYWHERE};

const REALTIME: i32 = libc::CLOCK_REALTIME;
const MONOTONIC: i32 = libc::CLOCK_MONOTONIC;
const BOOTTIME: i32 = libc::CLOCK_BOOTTIME;
const TAI: i32 = libc::CLOCK_TAI;
const REALTIME_ALARM: i32 = libc::CLOCK_REALTIME_ALARM;
const BOOTTIME_ALARM: i32 = libc::CLOCK_BOOTTIME_ALARM;
const ROW: &[&str] = &["clock_nanosleep"];

const fn wait(name: &'static str, probe: fn(&Bench) -> Answer) -> Interface {
    Interface::probe(name, probe).of(ROW)
}

/// The interfaces to test.
pub const INTERFACES: &[Interface] = &[
    Interface::probe("nanosleep", nanosleep).of(&["nanosleep"]).under(EVERYWHERE),
    Interface::probe("nanosleep: time left", nanosleep_left).of(&["nanosleep"]),
    Interface::probe("nanosleep while time stands still", stands_still)
        .of(&["nanosleep"])
        .under(Under::FROZEN),
    wait("clock_nanosleep, CLOCK_REALTIME", relative::<REALTIME>),
    wait("clock_nanosleep, CLOCK_REALTIME, absolute", absolute::<REALTIME>).on_wall(),
    wait("clock_nanosleep, CLOCK_MONOTONIC", relative::<MONOTONIC>),
    wait("clock_nanosleep, CLOCK_MONOTONIC, absolute", absolute::<MONOTONIC>).under(EVERYWHERE),
    wait("clock_nanosleep, CLOCK_BOOTTIME", relative::<BOOTTIME>),
    wait("clock_nanosleep, CLOCK_BOOTTIME, absolute", absolute::<BOOTTIME>).under(EVERYWHERE),
    wait("clock_nanosleep, CLOCK_TAI", relative::<TAI>),
    wait("clock_nanosleep, CLOCK_TAI, absolute", absolute::<TAI>).on_wall(),
    wait("clock_nanosleep, CLOCK_REALTIME_ALARM, absolute", alarm::<REALTIME_ALARM, REALTIME>)
        .on_wall(),
    wait("clock_nanosleep, CLOCK_BOOTTIME_ALARM, absolute", alarm::<BOOTTIME_ALARM, BOOTTIME>),
    wait("clock_nanosleep, CLOCK_REALTIME, long past", long_past).on_wall().under(Under::WALL),
    wait("clock_nanosleep: time left", clock_nanosleep_left),
    wait("clock_nanosleep, CPU-time clock", on_cpu_time).alone(CPU).under(Under::RATES),
];

/// Calls clock_nanosleep.
fn clock_nanosleep(
    clock: i32,
    flags: i32,
    time: libc::timespec,
    left: impl Into<Arg>,
) -> io::Result<i64> {
    // SAFETY: the kernel reads one timespec and writes one, if `left` is one.
    unsafe { call!(libc::SYS_clock_nanosleep, clock, flags, &time, left.into()) }
}

fn nanosleep(bench: &Bench) -> Answer {
    // SAFETY: the kernel reads one timespec.
    bench.relative(Ends::With(0), |time| unsafe { call!(libc::SYS_nanosleep, &time, NULL) })
}

fn relative<const CLOCK: i32>(bench: &Bench) -> Answer {
    bench.relative(Ends::With(0), |time| clock_nanosleep(CLOCK, 0, time, NULL))
}

fn absolute<const CLOCK: i32>(bench: &Bench) -> Answer {
    bench.absolute(CLOCK, Ends::With(0), |until| {
        clock_nanosleep(CLOCK, libc::TIMER_ABSTIME, until, NULL)
    })
}

/// An absolute sleep on a clock that also wakes the machine, which needs a privilege and a machine
/// that supports it; `BASE` shows the same time and is always readable.
fn alarm<const CLOCK: i32, const BASE: i32>(bench: &Bench) -> Answer {
    let sleep = |until| clock_nanosleep(CLOCK, libc::TIMER_ABSTIME, until, NULL);
    if let Err(error) = sleep(timespec(sys::clock(BASE)?)) {
        return Err(Failure::Lacks(format!("needs this clock: {error}")));
    }
    bench.absolute(BASE, Ends::With(0), sleep)
}

/// A deadline in 1970 has passed, so the sleep must end at once.
fn long_past(bench: &Bench) -> Answer {
    clock_nanosleep(REALTIME, libc::TIMER_ABSTIME, timespec(1), NULL)?;
    Ok(bench.agrees(true, "it ended at once".into()))
}

fn nanosleep_left(bench: &Bench) -> Answer {
    // SAFETY: the kernel reads one timespec and writes one.
    left(bench, |time, left| unsafe { call!(libc::SYS_nanosleep, &time, left) })
}

fn clock_nanosleep_left(bench: &Bench) -> Answer {
    left(bench, |time, left| clock_nanosleep(MONOTONIC, 0, time, left))
}

/// Interrupts a sleep and compares the remaining time with the time that had not passed.
fn left(
    bench: &Bench,
    sleep: impl FnOnce(libc::timespec, &mut libc::timespec) -> io::Result<i64>,
) -> Answer {
    sys::let_interrupt(libc::SIGUSR1)?;
    // SAFETY: this thread still exists when the signal comes.
    let thread = unsafe { libc::gettid() };
    let process = std::process::id();
    bench.cutting(move || {
        // SAFETY: only numbers are passed.
        unsafe { call!(libc::SYS_tgkill, process, thread, libc::SIGUSR1) }
    });
    let mut left = timespec(0);
    bench.remaining(|| {
        Ok(match sleep(timespec(bench.whole()), &mut left) {
            Err(error) if error.raw_os_error() == Some(libc::EINTR) => Ok(nanos(left)),
            other => Err(format!("a signal did not interrupt it: {other:?}")),
        })
    })
}

/// The CPU time to use where CPU time is measured, in nanoseconds.
const WORK: i64 = 60 * NS_PER_MS;

fn on_cpu_time(_bench: &Bench) -> Answer {
    // A thread cannot wait for its own work.
    thread::spawn(|| {
        loop {
            std::hint::spin_loop();
        }
    });
    let before = sys::used_cpu()?;
    clock_nanosleep(libc::CLOCK_PROCESS_CPUTIME_ID, 0, timespec(WORK), NULL)
        .needed("CPU-time sleeps")?;
    Ok(Outcome::Length { right: WORK, shown: sys::used_cpu()? - before, passed: 0 })
}

fn stands_still(_bench: &Bench) -> Answer {
    // SAFETY: the kernel reads one timespec.
    never_ends(|time| unsafe { call!(libc::SYS_nanosleep, time, NULL) })
}

/// Tests that a wait of a virtual millisecond does not end on frozen clocks.
pub fn never_ends(wait: fn(&libc::timespec) -> io::Result<i64>) -> Answer {
    let waiter = thread::spawn(move || wait(&timespec(NS_PER_MS)));
    let before = sys::used_cpu()?;
    while sys::used_cpu()? - before < WORK {}
    if waiter.is_finished() {
        return Ok(wrong(format!("it ended: {:?}", waiter.join())));
    }
    let detail = format!("1 ms still lasts after {} ms of work", WORK / NS_PER_MS);
    Ok(Outcome::Seen(Seen::Virtual, detail))
}
