//! The table of time-related system calls.
//!
//! One row per system call says which argument is a time, whether it is relative
//! or absolute, on which clock, and what comes back. The seccomp filter, the
//! translator in the image, the supervisor and `docs/coverage.md` are all derived
//! from these rows: a call is added by adding a row.
#![cfg_attr(not(any(test, feature = "coverage")), no_std)]
#![forbid(unsafe_code)]

#[cfg(feature = "coverage")]
pub mod coverage;
mod table;

pub use table::{NOT_VIRTUALIZED, ROWS};

/// The number of a system call on x86-64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct Nr(pub u32);

/// How a time lies in memory or in a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A pointer to seconds and nanoseconds.
    Timespec,
    /// A pointer to seconds and microseconds.
    Timeval,
    /// Milliseconds in the register itself; negative means forever.
    Millis,
    /// A pointer to a `struct io_uring_getevents_arg`, which points to a `timespec`;
    /// if the flags in argument 3 say so.
    RingArgument,
}

/// What a time counts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    /// From now on.
    Relative,
    /// From the clock's epoch.
    Absolute,
    /// From the epoch if one of `bits` is set in an argument, else from now on.
    Flag {
        /// The argument that holds the flags.
        arg: u8,
        /// The flags that mean absolute.
        bits: u32,
    },
    /// As the futex operation in argument 1 says; see [`FUTEX_OPS`].
    Futex,
}

/// Which clock a time is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum On {
    /// Always CLOCK_MONOTONIC (or none in particular, for relative times).
    Monotonic,
    /// Always CLOCK_REALTIME.
    Realtime,
    /// The clock id in an argument.
    Arg(u8),
    /// As the futex operation in argument 1 says; see [`FUTEX_OPS`].
    Futex,
}

/// The call that is made in place of the program's, where its own form is too
/// coarse for a scaled time. All take a `timespec`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// The same call.
    Same,
    /// `ppoll(fds, nfds, time, NULL, 0)`.
    Ppoll,
    /// `pselect6(n, read, write, except, time, NULL)`.
    Pselect6,
    /// `epoll_pwait2(epfd, events, max, time, mask, size)`; `mask` is the
    /// program's argument 4 where its own call has one.
    EpollPwait2 {
        /// Does the program's own call have a signal mask?
        mask: bool,
    },
    /// The same call, with a relative time in the place of an absolute one.
    RingRelative,
}

/// Where the kernel writes the time that was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// Nowhere.
    Nowhere,
    /// Over the time that was passed.
    InPlace,
    /// To the pointer in this argument, when a relative wait is interrupted.
    Interrupted(u8),
}

/// A call that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The argument that holds the time.
    pub arg: u8,
    /// How the time lies there.
    pub form: Form,
    /// What the time counts from.
    pub base: Base,
    /// Which clock the time is on.
    pub on: On,
    /// The call that is made.
    pub via: Via,
    /// Where the time that was left goes.
    pub left: Left,
}

/// `ppoll`.
pub const PPOLL: Nr = Nr(271);
/// `pselect6`.
pub const PSELECT6: Nr = Nr(270);
/// `epoll_pwait2`.
pub const EPOLL_PWAIT2: Nr = Nr(441);

impl Wait {
    /// The call that is made for the call `nr` of the program.
    #[must_use]
    pub const fn made_as(&self, nr: Nr) -> Nr {
        match self.via {
            Via::Same | Via::RingRelative => nr,
            Via::Ppoll => PPOLL,
            Via::Pselect6 => PSELECT6,
            Via::EpollPwait2 { .. } => EPOLL_PWAIT2,
        }
    }
}

/// Which timers a timer call works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timer {
    /// A POSIX timer, named by the id in argument 0.
    Posix,
    /// A timer file descriptor in argument 0.
    Descriptor,
    /// The interval timer named by argument 0; only ITIMER_REAL runs on time.
    Interval,
    /// The process's alarm, which is its ITIMER_REAL in whole seconds.
    Alarm,
}

/// What a timer call does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimerOp {
    /// Arms: the new value is in `new`, the old one goes to `old`; absolute if
    /// bit `absolute` is set in argument 1 (zero: never).
    Set {
        /// The argument with the new value.
        new: u8,
        /// The argument with the pointer for the old value.
        old: u8,
        /// The flag in argument 1 that makes the value absolute.
        absolute: u32,
    },
    /// Asks: the remaining time goes to this argument.
    Get {
        /// The argument with the pointer for the value.
        to: u8,
    },
}

/// A call that reads a clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// `clock_gettime(clock, timespec)`.
    ClockGettime,
    /// `gettimeofday(timeval, timezone)`.
    Gettimeofday,
    /// `time(seconds)`.
    Time,
    /// `times(buffer)`, whose result counts ticks of the monotonic clock.
    Times,
    /// `sysinfo(buffer)`, whose first word is the uptime in seconds.
    Sysinfo,
}

/// A call that sets or adjusts the wall clock. It moves the timeline's and never
/// reaches the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Set {
    /// `clock_settime(clock, timespec)`.
    ClockSettime,
    /// `settimeofday(timeval, timezone)`.
    Settimeofday,
    /// `adjtimex(timex)`.
    Adjtimex,
    /// `clock_adjtime(clock, timex)`.
    ClockAdjtime,
}

/// A call on a socket's timeouts (SO_RCVTIMEO, SO_SNDTIMEO).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Socket {
    /// `setsockopt`.
    Set,
    /// `getsockopt`.
    Get,
}

/// A call that the supervisor wants to know of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watch {
    /// `io_uring_setup`: its timeouts lie in memory shared with the kernel and
    /// run on host time.
    IoUring,
    /// `clone` with CLONE_UNTRACED, which would leave the supervisor: the flag
    /// is taken out.
    Untraced,
    /// `getgroups` in a user namespace, which would show unmapped groups as
    /// `nogroup`.
    Groups,
    /// `seccomp`, and `prctl` with PR_SET_SECCOMP: the process puts a filter of its own
    /// on itself, under which nothing is to be done in its name.
    Filters,
}

/// What a call has to do with time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It waits.
    Wait(Wait),
    /// It works on a timer.
    Timer(Timer, TimerOp),
    /// It works on a socket's timeouts.
    Socket(Socket),
    /// It reads a clock.
    Read(Read),
    /// It sets the wall clock.
    Set(Set),
    /// It is watched.
    Watch(Watch),
}

/// One translated system call, without anything that would need relocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Its number.
    pub nr: Nr,
    /// What it has to do with time.
    pub kind: Kind,
}

/// A row of the table: a call, its name, and a word for the reader of the docs.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The call.
    pub call: Call,
    /// Its name.
    pub name: &'static str,
    /// What the documentation adds to what the row says by itself.
    pub note: &'static str,
}

/// The rows' calls, for code that cannot carry names.
pub const CALLS: [Call; ROWS.len()] = {
    let mut calls = [ROWS[0].call; ROWS.len()];
    let mut index = 0;
    while index < ROWS.len() {
        calls[index] = ROWS[index].call;
        index += 1;
    }
    calls
};

/// The highest call number in the table.
const LAST_NR: usize = {
    let mut last = 0;
    let mut index = 0;
    while index < CALLS.len() {
        if CALLS[index].nr.0 > last {
            last = CALLS[index].nr.0;
        }
        index += 1;
    }
    last as usize
};

/// Index into [`CALLS`] by number, 255 for a call that is not in the table.
static INDEX: [u8; LAST_NR + 1] = {
    let mut by_nr = [u8::MAX; LAST_NR + 1];
    let mut index = 0;
    while index < CALLS.len() {
        by_nr[CALLS[index].nr.0 as usize] = index as u8;
        index += 1;
    }
    by_nr
};

static CALL_TABLE: [Call; CALLS.len()] = CALLS;

impl Call {
    /// The row's call for a number, if the table has one.
    #[must_use]
    #[inline]
    pub fn find(nr: Nr) -> Option<&'static Self> {
        let index = *INDEX.get(nr.0 as usize)?;
        CALL_TABLE.get(index as usize)
    }

    /// The name of the call.
    #[must_use]
    pub fn name(&self) -> &'static str {
        ROWS.iter().find(|row| row.call.nr == self.nr).map_or("?", |row| row.name)
    }
}

/// A futex operation that takes a timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FutexOp {
    /// The operation, without its flags.
    pub op: u32,
    /// Is its timeout absolute?
    pub absolute: bool,
    /// How its clock is chosen.
    pub clock: FutexClock,
}

/// How a futex operation chooses its clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FutexClock {
    /// Always CLOCK_MONOTONIC; the kernel refuses FUTEX_CLOCK_REALTIME.
    Monotonic,
    /// Always CLOCK_REALTIME.
    Realtime,
    /// CLOCK_REALTIME with FUTEX_CLOCK_REALTIME, CLOCK_MONOTONIC without.
    Flag,
}

/// FUTEX_CLOCK_REALTIME.
pub const FUTEX_CLOCK_REALTIME: u32 = 256;
/// The bits of a futex operation that are not flags: all but FUTEX_PRIVATE_FLAG
/// and FUTEX_CLOCK_REALTIME.
pub const FUTEX_CMD_MASK: u32 = !(128 | FUTEX_CLOCK_REALTIME);

/// FUTEX_WAIT, FUTEX_LOCK_PI, FUTEX_WAIT_BITSET, FUTEX_WAIT_REQUEUE_PI and
/// FUTEX_LOCK_PI2: the futex operations whose argument 3 is a timeout (`kernel/futex/syscalls.c`,
/// `futex_cmd_has_timeout`).
pub const FUTEX_OPS: [FutexOp; 5] = [
    FutexOp { op: 0, absolute: false, clock: FutexClock::Monotonic },
    FutexOp { op: 6, absolute: true, clock: FutexClock::Realtime },
    FutexOp { op: 9, absolute: true, clock: FutexClock::Flag },
    FutexOp { op: 11, absolute: true, clock: FutexClock::Flag },
    FutexOp { op: 13, absolute: true, clock: FutexClock::Flag },
];

/// IORING_ENTER_EXT_ARG: argument 4 of io_uring_enter is a structure.
pub const RING_EXT_ARG: u32 = 1 << 3;
/// IORING_ENTER_ABS_TIMER: its time is absolute.
pub const RING_ABS_TIMER: u32 = 1 << 5;
/// IORING_ENTER_EXT_ARG_REG: the structure lies in memory registered before.
pub const RING_EXT_ARG_REG: u32 = 1 << 6;

/// PR_SET_SECCOMP.
pub const PR_SET_SECCOMP: u32 = 22;

/// SOL_SOCKET.
pub const SOL_SOCKET: u32 = 1;
/// SO_RCVTIMEO and SO_SNDTIMEO, in both of their forms (the same on x86-64).
pub const SOCKET_TIMEOUTS: [u32; 4] = [20, 21, 66, 67];

/// TIMER_ABSTIME and TFD_TIMER_ABSTIME.
pub const TIMER_ABSTIME: u32 = 1;
/// CLONE_UNTRACED.
pub const CLONE_UNTRACED: u32 = 0x0080_0000;
/// ITIMER_REAL.
pub const ITIMER_REAL: u32 = 0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_unique_and_found() {
        for row in &ROWS {
            let found = Call::find(row.call.nr).expect(row.name);
            assert_eq!(*found, row.call);
            assert_eq!(found.name(), row.name);
            assert_eq!(ROWS.iter().filter(|other| other.call.nr == row.call.nr).count(), 1);
        }
        assert_eq!(Call::find(Nr(39)), None); // getpid
        assert_eq!(Call::find(Nr(u32::MAX)), None);
    }

    #[test]
    fn the_documentation_is_current() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/coverage.md");
        let written = std::fs::read_to_string(path).expect(path);
        assert!(written == coverage::page(), "docs/coverage.md is old: run `make docs`");
    }

    #[test]
    fn arguments_exist() {
        for row in &ROWS {
            if let Kind::Wait(wait) = row.call.kind {
                assert!(wait.arg < 6, "{}", row.name);
            }
        }
    }
}
