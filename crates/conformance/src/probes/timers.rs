//! POSIX timers, interval timers and alarm, which send a signal.

use std::io;

use crate::bench::{Answer, Bench, Ends, Needed};
use crate::interface::Interface;
use crate::message::Outcome;
use crate::sys::{self, call, micros, nanos, timespec, timeval};
use crate::timelines::{NS_PER_MS, NS_PER_S, Under};

use super::{CPU, EVERYWHERE, LONG, TICKS};

const REALTIME: i32 = libc::CLOCK_REALTIME;
const MONOTONIC: i32 = libc::CLOCK_MONOTONIC;
const BOOTTIME: i32 = libc::CLOCK_BOOTTIME;
const TAI: i32 = libc::CLOCK_TAI;
const REAL: i32 = libc::ITIMER_REAL;
const VIRTUAL: i32 = libc::ITIMER_VIRTUAL;
const PROF: i32 = libc::ITIMER_PROF;

const fn posix(name: &'static str, probe: fn(&Bench) -> Answer) -> Interface {
    Interface::probe(name, probe).of(&["timer_settime"])
}

const fn interval(name: &'static str, probe: fn(&Bench) -> Answer) -> Interface {
    Interface::probe(name, probe).of(&["setitimer"])
}

/// The interfaces to test.
pub const INTERFACES: &[Interface] = &[
    posix("timer_settime, CLOCK_REALTIME", relative::<REALTIME>),
    posix("timer_settime, CLOCK_REALTIME, absolute", absolute::<REALTIME>).on_wall(),
    posix("timer_settime, CLOCK_MONOTONIC", relative::<MONOTONIC>),
    posix("timer_settime, CLOCK_MONOTONIC, absolute", absolute::<MONOTONIC>).under(EVERYWHERE),
    posix("timer_settime, CLOCK_BOOTTIME", relative::<BOOTTIME>),
    posix("timer_settime, CLOCK_BOOTTIME, absolute", absolute::<BOOTTIME>).under(EVERYWHERE),
    posix("timer_settime, CLOCK_TAI", relative::<TAI>),
    posix("timer_settime, CLOCK_TAI, absolute", absolute::<TAI>).on_wall(),
    posix("timer_settime, periodic", periodic),
    posix("timer_settime: the old value", old),
    posix("timer_settime, CPU-time clock", on_cpu_time).alone(CPU).under(Under::RATES),
    Interface::probe("timer_gettime", left).of(&["timer_gettime"]),
    Interface::probe("timer_gettime, absolute on CLOCK_REALTIME", left_until)
        .of(&["timer_gettime"])
        .on_wall(),
    interval("setitimer, ITIMER_REAL", itimer),
    interval("setitimer, ITIMER_REAL, periodic", itimer_periodic),
    interval("setitimer: the old value", itimer_old),
    Interface::probe("getitimer", itimer_left).of(&["getitimer"]),
    interval("setitimer, ITIMER_VIRTUAL", itimer_of_work::<VIRTUAL, { libc::SIGVTALRM }>)
        .alone(CPU)
        .under(Under::RATES),
    interval("setitimer, ITIMER_PROF", itimer_of_work::<PROF, { libc::SIGPROF }>)
        .alone(CPU)
        .under(Under::RATES),
    // A virtual second at a tenth of the host's rate takes ten host seconds.
    Interface::probe("alarm", alarm).of(&["alarm"]).under(Under::OFFSET.and(Under::FAST)),
    Interface::probe("alarm: time left", alarm_left).of(&["alarm"]).under(Under::FAST),
];

/// The kernel's number of a POSIX timer that sends SIGUSR1, which is blocked.
pub struct PosixTimer(i32);

impl PosixTimer {
    /// Creates one.
    pub fn new(clock: i32) -> io::Result<Self> {
        sys::block(libc::SIGUSR1)?;
        // SAFETY: all fields of a sigevent may be zero.
        let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
        event.sigev_signo = libc::SIGUSR1;
        event.sigev_notify = libc::SIGEV_SIGNAL;
        let mut timer = 0i32;
        // SAFETY: the kernel reads one sigevent and writes one number.
        unsafe { call!(libc::SYS_timer_create, clock, &event, &mut timer) }?;
        Ok(Self(timer))
    }

    /// Arms it, and returns the previous setting.
    pub fn set(&self, flags: i32, value: i64, interval: i64) -> io::Result<i64> {
        let new = libc::itimerspec { it_interval: timespec(interval), it_value: timespec(value) };
        let mut old = libc::itimerspec { it_interval: timespec(0), it_value: timespec(0) };
        // SAFETY: the kernel reads one itimerspec and writes one.
        unsafe { call!(libc::SYS_timer_settime, self.0, flags, &new, &mut old) }?;
        Ok(nanos(old.it_value))
    }

    /// The remaining time.
    pub fn left(&self) -> io::Result<i64> {
        let mut value = libc::itimerspec { it_interval: timespec(0), it_value: timespec(0) };
        // SAFETY: the kernel writes one itimerspec.
        unsafe { call!(libc::SYS_timer_gettime, self.0, &mut value) }?;
        Ok(nanos(value.it_value))
    }

    /// The number of expirations since the last signal, without that of the signal itself.
    fn overruns(&self) -> io::Result<i64> {
        // SAFETY: only a number is passed.
        unsafe { call!(libc::SYS_timer_getoverrun, self.0) }
    }
}

fn relative<const CLOCK: i32>(bench: &Bench) -> Answer {
    let timer = PosixTimer::new(CLOCK)?;
    bench.timed(CLOCK, bench.ask(), Ends::With(0), |_| {
        timer.set(0, bench.ask(), 0)?;
        sys::wait_for(libc::SIGUSR1).map(|()| 0)
    })
}

fn absolute<const CLOCK: i32>(bench: &Bench) -> Answer {
    let timer = PosixTimer::new(CLOCK)?;
    bench.timed(CLOCK, bench.ask(), Ends::With(0), |now| {
        timer.set(libc::TIMER_ABSTIME, now + bench.ask(), 0)?;
        sys::wait_for(libc::SIGUSR1).map(|()| 0)
    })
}

fn periodic(bench: &Bench) -> Answer {
    let timer = PosixTimer::new(MONOTONIC)?;
    let apart = bench.ask() / TICKS;
    bench.timed(MONOTONIC, bench.ask(), Ends::With(0), |_| {
        timer.set(0, apart, apart)?;
        let mut ticks = 0;
        while ticks < TICKS {
            sys::wait_for(libc::SIGUSR1)?;
            ticks += 1 + timer.overruns()?;
        }
        Ok(0)
    })
}

fn old(bench: &Bench) -> Answer {
    let timer = PosixTimer::new(MONOTONIC)?;
    bench.consumed(bench.ask(), LONG, || timer.set(0, LONG, 0).map(drop), || timer.set(0, 0, 0))
}

fn left(bench: &Bench) -> Answer {
    let timer = PosixTimer::new(MONOTONIC)?;
    bench.consumed(bench.ask(), LONG, || timer.set(0, LONG, 0).map(drop), || timer.left())
}

fn left_until(bench: &Bench) -> Answer {
    let timer = PosixTimer::new(REALTIME)?;
    let start = || timer.set(libc::TIMER_ABSTIME, sys::clock(REALTIME)? + LONG, 0).map(drop);
    bench.consumed(bench.ask(), LONG, start, || timer.left())
}

/// The amount of work that a CPU-time timer is set to.
const WORK: i64 = 60 * NS_PER_MS;

fn on_cpu_time(_bench: &Bench) -> Answer {
    let timer = PosixTimer::new(libc::CLOCK_PROCESS_CPUTIME_ID).needed("CPU-time timers")?;
    let before = sys::used_cpu()?;
    timer.set(0, WORK, 0)?;
    work_until(libc::SIGUSR1)?;
    Ok(Outcome::Length { right: WORK, shown: sys::used_cpu()? - before, passed: 0 })
}

/// Works, mostly in user mode, until a blocked signal is pending.
fn work_until(signal: i32) -> io::Result<()> {
    let mut pending = 0u64;
    while pending & (1 << (signal - 1)) == 0 {
        for _ in 0..100_000 {
            std::hint::spin_loop();
        }
        // SAFETY: the kernel writes a set of this size.
        unsafe { call!(libc::SYS_rt_sigpending, &mut pending, sys::SIGSET_BYTES) }?;
    }
    Ok(())
}

/// Arms an interval timer, and returns the previous setting.
fn setitimer(which: i32, value: i64, interval: i64) -> io::Result<i64> {
    let new = libc::itimerval { it_interval: timeval(interval), it_value: timeval(value) };
    let mut old = libc::itimerval { it_interval: timeval(0), it_value: timeval(0) };
    // SAFETY: the kernel reads one itimerval and writes one.
    unsafe { call!(libc::SYS_setitimer, which, &new, &mut old) }?;
    Ok(micros(old.it_value))
}

fn itimer(bench: &Bench) -> Answer {
    sys::block(libc::SIGALRM)?;
    bench.timed(MONOTONIC, bench.ask(), Ends::With(0), |_| {
        setitimer(REAL, bench.ask(), 0)?;
        sys::wait_for(libc::SIGALRM).map(|()| 0)
    })
}

fn itimer_periodic(bench: &Bench) -> Answer {
    sys::block(libc::SIGALRM)?;
    let apart = bench.ask() / TICKS;
    bench.timed(MONOTONIC, bench.ask(), Ends::With(0), |_| {
        setitimer(REAL, apart, apart)?;
        for _ in 0..TICKS {
            sys::wait_for(libc::SIGALRM)?;
        }
        Ok(0)
    })
}

fn itimer_old(bench: &Bench) -> Answer {
    bench.consumed(
        bench.ask(),
        LONG,
        || setitimer(REAL, LONG, 0).map(drop),
        || setitimer(REAL, 0, 0),
    )
}

fn itimer_left(bench: &Bench) -> Answer {
    let mut value = libc::itimerval { it_interval: timeval(0), it_value: timeval(0) };
    bench.consumed(
        bench.ask(),
        LONG,
        || setitimer(REAL, LONG, 0).map(drop),
        || {
            // SAFETY: the kernel writes one itimerval.
            unsafe { call!(libc::SYS_getitimer, REAL, &mut value) }?;
            Ok(micros(value.it_value))
        },
    )
}

fn itimer_of_work<const WHICH: i32, const SIGNAL: i32>(_bench: &Bench) -> Answer {
    sys::block(SIGNAL)?;
    let before = sys::used_cpu()?;
    setitimer(WHICH, WORK, 0)?;
    work_until(SIGNAL)?;
    Ok(Outcome::Length { right: WORK, shown: sys::used_cpu()? - before, passed: 0 })
}

fn alarm(bench: &Bench) -> Answer {
    sys::block(libc::SIGALRM)?;
    bench.timed(MONOTONIC, NS_PER_S, Ends::With(0), |_| {
        // SAFETY: only a number is passed.
        unsafe { call!(libc::SYS_alarm, 1) }?;
        sys::wait_for(libc::SIGALRM).map(|()| 0)
    })
}

/// The running time of an alarm that is queried for its remaining time, which it counts in seconds.
const ALARM: i64 = 3 * NS_PER_S;

fn alarm_left(bench: &Bench) -> Answer {
    // SAFETY: only a number is passed.
    let alarm = |seconds: i64| unsafe { call!(libc::SYS_alarm, seconds) };
    let start = || alarm(LONG / NS_PER_S).map(drop);
    bench.consumed(ALARM, LONG, start, || alarm(0).map(|left| left * NS_PER_S))
}
