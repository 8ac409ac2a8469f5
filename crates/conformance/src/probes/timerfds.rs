//! Timer descriptors.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use crate::bench::{Answer, Bench, Ends, Failure};
use crate::interface::Interface;
use crate::sys::{self, call, descriptor, nanos, timespec};

use super::{EVERYWHERE, LONG, TICKS};

const REALTIME: i32 = libc::CLOCK_REALTIME;
const MONOTONIC: i32 = libc::CLOCK_MONOTONIC;
const BOOTTIME: i32 = libc::CLOCK_BOOTTIME;
const REALTIME_ALARM: i32 = libc::CLOCK_REALTIME_ALARM;
const BOOTTIME_ALARM: i32 = libc::CLOCK_BOOTTIME_ALARM;

const fn wait(name: &'static str, probe: fn(&Bench) -> Answer) -> Interface {
    Interface::probe(name, probe).of(&["timerfd_settime"])
}

/// The interfaces to test.
pub const INTERFACES: &[Interface] = &[
    wait("timerfd_settime, CLOCK_REALTIME", relative::<REALTIME>),
    wait("timerfd_settime, CLOCK_REALTIME, absolute", absolute::<REALTIME>).on_wall(),
    wait("timerfd_settime, CLOCK_MONOTONIC", relative::<MONOTONIC>),
    wait("timerfd_settime, CLOCK_MONOTONIC, absolute", absolute::<MONOTONIC>).under(EVERYWHERE),
    wait("timerfd_settime, CLOCK_BOOTTIME", relative::<BOOTTIME>),
    wait("timerfd_settime, CLOCK_BOOTTIME, absolute", absolute::<BOOTTIME>).under(EVERYWHERE),
    wait("timerfd_settime, CLOCK_REALTIME_ALARM, absolute", alarm::<REALTIME_ALARM, REALTIME>)
        .on_wall(),
    wait("timerfd_settime, CLOCK_BOOTTIME_ALARM, absolute", alarm::<BOOTTIME_ALARM, BOOTTIME>),
    wait("timerfd_settime, periodic", periodic),
    wait("timerfd_settime: the old value", old),
    Interface::probe("timerfd_gettime", left).of(&["timerfd_gettime"]),
    Interface::probe("timerfd_gettime, absolute on CLOCK_REALTIME", left_until)
        .of(&["timerfd_gettime"])
        .on_wall(),
];

/// A timer descriptor.
pub struct TimerFd(OwnedFd);

impl TimerFd {
    /// Creates one.
    pub fn new(clock: i32) -> Result<Self, Failure> {
        // SAFETY: only numbers are passed.
        let made = descriptor(unsafe { call!(libc::SYS_timerfd_create, clock, 0) });
        // Alarms need a privilege and a clock that runs during suspend.
        let alarm = [REALTIME_ALARM, BOOTTIME_ALARM].contains(&clock);
        match made {
            Err(error) if alarm => Err(Failure::Lacks(format!("needs alarm timers: {error}"))),
            made => Ok(Self(made?)),
        }
    }

    /// Arms it, and returns the previous setting.
    pub fn set(&self, flags: i32, value: i64, interval: i64) -> io::Result<i64> {
        let new = libc::itimerspec { it_interval: timespec(interval), it_value: timespec(value) };
        let mut old = libc::itimerspec { it_interval: timespec(0), it_value: timespec(0) };
        // SAFETY: the kernel reads one itimerspec and writes one.
        unsafe { call!(libc::SYS_timerfd_settime, self.0.as_raw_fd(), flags, &new, &mut old) }?;
        Ok(nanos(old.it_value))
    }

    /// The remaining time.
    pub fn left(&self) -> io::Result<i64> {
        let mut value = libc::itimerspec { it_interval: timespec(0), it_value: timespec(0) };
        // SAFETY: the kernel writes one itimerspec.
        unsafe { call!(libc::SYS_timerfd_gettime, self.0.as_raw_fd(), &mut value) }?;
        Ok(nanos(value.it_value))
    }

    /// Waits until it has expired, and returns the number of expirations.
    pub fn wait(&self) -> io::Result<i64> {
        let mut count = 0i64;
        // SAFETY: the kernel writes eight bytes.
        unsafe { call!(libc::SYS_read, self.0.as_raw_fd(), &mut count, size_of::<i64>()) }?;
        Ok(count)
    }
}

fn relative<const CLOCK: i32>(bench: &Bench) -> Answer {
    let timer = TimerFd::new(CLOCK)?;
    bench.timed(CLOCK, bench.ask(), Ends::With(1), |_| {
        timer.set(0, bench.ask(), 0)?;
        timer.wait()
    })
}

fn absolute<const CLOCK: i32>(bench: &Bench) -> Answer {
    alarm::<CLOCK, CLOCK>(bench)
}

/// Waits on a clock that also wakes the machine; `BASE` shows the same time and is always readable.
fn alarm<const CLOCK: i32, const BASE: i32>(bench: &Bench) -> Answer {
    let timer = TimerFd::new(CLOCK)?;
    bench.timed(BASE, bench.ask(), Ends::With(1), |now| {
        timer.set(libc::TFD_TIMER_ABSTIME, now + bench.ask(), 0)?;
        timer.wait()
    })
}

fn periodic(bench: &Bench) -> Answer {
    let timer = TimerFd::new(MONOTONIC)?;
    let apart = bench.ask() / TICKS;
    bench.timed(MONOTONIC, bench.ask(), Ends::With(0), |_| {
        timer.set(0, apart, apart)?;
        let mut ticks = 0;
        while ticks < TICKS {
            ticks += timer.wait()?;
        }
        Ok(0)
    })
}

fn old(bench: &Bench) -> Answer {
    let timer = TimerFd::new(MONOTONIC)?;
    bench.consumed(bench.ask(), LONG, || timer.set(0, LONG, 0).map(drop), || timer.set(0, 0, 0))
}

fn left(bench: &Bench) -> Answer {
    let timer = TimerFd::new(MONOTONIC)?;
    bench.consumed(bench.ask(), LONG, || timer.set(0, LONG, 0).map(drop), || timer.left())
}

fn left_until(bench: &Bench) -> Answer {
    let timer = TimerFd::new(REALTIME)?;
    let start = || timer.set(libc::TFD_TIMER_ABSTIME, sys::clock(REALTIME)? + LONG, 0).map(drop);
    bench.consumed(bench.ask(), LONG, start, || timer.left())
}
