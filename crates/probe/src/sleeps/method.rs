//! The methods of sleeping.

use std::io;
use std::time::Duration;

use eigentime_clock::sleeper::Sleeper;
use eigentime_measure::timerfd::Timerfd;
use rustix::io::Errno;
use rustix::thread::{ClockId, clock_nanosleep_absolute};

use super::clocks::timespec;
use super::grid::{Asks, Nanos};
use super::timers::{Epoll, SignalTimer};

/// A method of sleeping: a row of the table.
pub struct Method {
    /// Its name for `--method` and in records.
    pub name: &'static str,
    /// Its argument.
    pub asks: Asks,
    /// Prepares it, in the thread that will sleep, for sleeps of this length. The error is why it
    /// is not available here.
    pub make: fn(Nanos) -> io::Result<Ready>,
}

/// A prepared method.
pub struct Ready {
    /// The call. It may end early with [`io::ErrorKind::Interrupted`]; then it is called again for
    /// the rest.
    pub sleep: Box<dyn FnMut(Target) -> io::Result<()>>,
    /// Its restrictions here.
    pub degradation: Vec<String>,
}

/// The end of a sleep.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// CLOCK_MONOTONIC at the end.
    pub until: Nanos,
    /// The length from now.
    pub length: Nanos,
}

/// All methods.
pub const METHODS: &[Method] = &[
    Method { name: "usleep", asks: Asks::Length, make: usleep },
    Method { name: "nanosleep", asks: Asks::Length, make: nanosleep },
    Method { name: "clock_nanosleep", asks: Asks::Deadline, make: clock_nanosleep },
    Method { name: "timerfd", asks: Asks::Deadline, make: timerfd },
    Method { name: "posix_timer", asks: Asks::Deadline, make: posix_timer },
    Method { name: "epoll", asks: Asks::Length, make: epoll },
    Method { name: "sleeper", asks: Asks::Deadline, make: sleeper },
];

const MICROSECOND: Nanos = 1_000;
const MILLISECOND: Nanos = 1_000_000;

fn usleep(length: Nanos) -> io::Result<Ready> {
    let sleep = |target: Target| {
        let micros = libc::useconds_t::try_from(target.length.div_ceil(MICROSECOND));
        // SAFETY: it takes a number.
        match unsafe { libc::usleep(micros.unwrap_or(libc::useconds_t::MAX)) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    let degradation = rounded(length, MICROSECOND, "microseconds");
    Ok(Ready { sleep: Box::new(sleep), degradation })
}

fn nanosleep(_: Nanos) -> io::Result<Ready> {
    ready(|target| {
        let length = libc::timespec {
            tv_sec: timespec(target.length).tv_sec,
            tv_nsec: timespec(target.length).tv_nsec,
        };
        // SAFETY: the time is valid to read; the rest is not requested.
        match unsafe { libc::nanosleep(&raw const length, std::ptr::null_mut()) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    })
}

fn clock_nanosleep(_: Nanos) -> io::Result<Ready> {
    ready(|target| match clock_nanosleep_absolute(ClockId::Monotonic, &timespec(target.until)) {
        Ok(()) => Ok(()),
        Err(Errno::INTR) => Err(io::ErrorKind::Interrupted.into()),
        Err(error) => Err(error.into()),
    })
}

fn timerfd(_: Nanos) -> io::Result<Ready> {
    let timer = Timerfd::new()?;
    ready(move |target| {
        timer.arm(target.until, 0)?;
        timer.wait().map(drop)
    })
}

fn posix_timer(_: Nanos) -> io::Result<Ready> {
    let timer = SignalTimer::new()?;
    ready(move |target| timer.sleep(target.until))
}

fn epoll(length: Nanos) -> io::Result<Ready> {
    let epoll = Epoll::new()?;
    let mut degradation = Vec::new();
    if !epoll.is_exact() {
        let why = "there is no epoll_pwait2 (since Linux 5.11), and epoll_wait takes milliseconds";
        degradation.push(why.to_owned());
        degradation.extend(rounded(length, MILLISECOND, "milliseconds"));
    }
    Ok(Ready { sleep: Box::new(move |target| epoll.wait(target.length)), degradation })
}

/// The library's sleeper. It is never early on its own clock, which can be some nanoseconds off the
/// kernel's.
fn sleeper(_: Nanos) -> io::Result<Ready> {
    let mut sleeper = Sleeper::new();
    let degradation = sleeper.degradation().iter().map(ToString::to_string).collect();
    let clock = sleeper.clock().clone();
    let sleep = move |target: Target| {
        sleeper.sleep_until(clock.at_monotonic(Duration::from_nanos(target.until)));
        Ok(())
    };
    Ok(Ready { sleep: Box::new(sleep), degradation })
}

fn ready(sleep: impl FnMut(Target) -> io::Result<()> + 'static) -> io::Result<Ready> {
    Ok(Ready { sleep: Box::new(sleep), degradation: Vec::new() })
}

/// The restriction for lengths that are not multiples of this unit.
fn rounded(length: Nanos, unit: Nanos, name: &str) -> Vec<String> {
    let up = length.next_multiple_of(unit);
    let said = || format!("it takes whole {name}: {up} ns instead of {length}");
    (up != length).then(said).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sleeps::clocks::monotonic;

    #[test]
    fn each_sleeps_until_its_target() {
        for method in METHODS {
            let length = 200_000;
            let mut ready = (method.make)(length).unwrap();
            for _ in 0..3 {
                let until = monotonic() + length;
                (ready.sleep)(Target { until, length }).unwrap();
                let woke = monotonic();
                // The library's clock may be off by this much.
                let error = if method.name == "sleeper" { 10_000 } else { 0 };
                assert!(woke + error >= until, "{}: {woke} before {until}", method.name);
            }
        }
    }

    #[test]
    fn what_is_rounded_is_said() {
        assert!(usleep(100_000).unwrap().degradation.is_empty());
        let said = usleep(100_500).unwrap().degradation;
        assert_eq!(said, ["it takes whole microseconds: 101000 ns instead of 100500"]);
    }
}
