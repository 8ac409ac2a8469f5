//! Calls that wait: where the time stands, how a wait ends, and what becomes of it at a signal.

use crate::{Nr, nr};

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
    /// `epoll_pwait2(epfd, events, max, time, mask, size)`; without a mask where the program's own call
    /// takes none.
    EpollPwait2,
    /// The same call, with a relative time in the place of an absolute one.
    RingRelative,
}

/// Where the kernel writes the time that was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// Nowhere.
    Nowhere,
    /// Over the time that was passed, whatever the result; memory that cannot be written is left
    /// alone.
    InPlace,
    /// Over the time that was passed, with a positive result only; memory that cannot be written
    /// makes the call fail.
    WithResult,
    /// To the pointer in this argument, when a relative wait is interrupted.
    Interrupted(u8),
}

/// What a call answers when its time is over, and nothing else has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimedOut {
    /// Zero.
    Zero,
    /// An error.
    Error(u16),
    /// What it also answers otherwise: the end of its time cannot be told from the result.
    Untold,
}

impl TimedOut {
    /// Does `result` say that the time is over?
    #[must_use]
    pub const fn is(self, result: i64) -> bool {
        match self {
            Self::Zero => result == 0,
            Self::Error(error) => result == -(error as i64),
            Self::Untold => false,
        }
    }
}

/// What the kernel does with a wait that a signal interrupts. These are the results by which its
/// functions say so; programs never see them (`include/linux/errno.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    /// EINTR: the call is never made again.
    Never,
    /// ERESTARTNOHAND or ERESTART_RESTARTBLOCK: it fails with EINTR if a handler runs, and goes on
    /// otherwise.
    UnlessHandled,
    /// ERESTARTSYS: it fails with EINTR if a handler without SA_RESTART runs, and is made again
    /// otherwise.
    AsHandlerSays,
    /// ERESTARTNOINTR: it is made again, whatever runs.
    Always,
    /// As the futex operation in argument 1 says; see [`FUTEX_OPS`].
    Futex,
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
    /// What the end of its time answers.
    pub timed_out: TimedOut,
    /// Does the end of its time clear the sets of descriptors in arguments 1 to 3?
    pub clears_sets: bool,
    /// Does the kernel take any time, also with nanoseconds that are no part of a second? One below
    /// zero in all has passed, or never comes.
    pub takes_any_time: bool,
    /// What becomes of it at a signal.
    pub restart: Restart,
    /// The argument that leads to the signals that it blocks meanwhile, if it takes any.
    pub mask: Option<u8>,
    /// Is it translated on every timeline? For calls that are rare, and that a signal ends which
    /// the program ignores: the kernel delivers such signals to traced threads.
    pub always: bool,
}

impl Wait {
    /// The call that is made for the call `asked` of the program.
    #[must_use]
    pub const fn made_as(&self, asked: Nr) -> Nr {
        match self.via {
            Via::Same | Via::RingRelative => asked,
            Via::Ppoll => nr::PPOLL,
            Via::Pselect6 => nr::PSELECT6,
            Via::EpollPwait2 => nr::EPOLL_PWAIT2,
        }
    }

    /// Seconds and nanoseconds that end it at once: the kernel refuses them, or they have passed. What
    /// it would clear at the end of its time stays.
    #[must_use]
    pub const fn over(&self) -> [i64; 2] {
        if self.takes_any_time { [0, 0] } else { [0, -1] }
    }

    /// What becomes of it at a signal, if these are its arguments.
    #[must_use]
    pub fn restart(&self, args: &[u64; 6]) -> Restart {
        match self.restart {
            Restart::Futex => FutexOp::of(args).map_or(Restart::UnlessHandled, |op| op.restart),
            restart => restart,
        }
    }

    /// What becomes of it at a signal that comes before it has begun. One that blocks signals of its own has
    /// to begin for that: those that come before may be among them.
    #[must_use]
    pub fn restart_early(&self, args: &[u64; 6]) -> Restart {
        match self.mask {
            Some(mask) if args[usize::from(mask)] != 0 => Restart::Always,
            _ => self.restart(args),
        }
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
    /// What becomes of it at a signal.
    pub restart: Restart,
}

impl FutexOp {
    /// The operation that the arguments of `futex` ask for, if it takes a timeout.
    #[must_use]
    pub fn of(args: &[u64; 6]) -> Option<&'static Self> {
        static OPS: [FutexOp; 5] = FUTEX_OPS;
        OPS.iter().find(|futex| futex.op == args[1] as u32 & FUTEX_CMD_MASK)
    }
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

/// FUTEX_WAIT, FUTEX_LOCK_PI, FUTEX_WAIT_BITSET, FUTEX_WAIT_REQUEUE_PI and FUTEX_LOCK_PI2: the
/// futex operations whose argument 3 is a timeout (`futex_cmd_has_timeout` in
/// `kernel/futex/syscalls.c`; for signals, `futex_wait` in `kernel/futex/waitwake.c`, and
/// `futex_lock_pi` in `kernel/futex/pi.c`, `futex_wait_requeue_pi` in `kernel/futex/requeue.c`).
pub const FUTEX_OPS: [FutexOp; 5] = [
    futex(0, false, FutexClock::Monotonic, Restart::UnlessHandled),
    futex(6, true, FutexClock::Realtime, Restart::Always),
    futex(9, true, FutexClock::Flag, Restart::UnlessHandled),
    futex(11, true, FutexClock::Flag, Restart::Always),
    futex(13, true, FutexClock::Flag, Restart::Always),
];

const fn futex(op: u32, absolute: bool, clock: FutexClock, restart: Restart) -> FutexOp {
    FutexOp { op, absolute, clock, restart }
}

/// IORING_ENTER_EXT_ARG: argument 4 of io_uring_enter is a structure.
pub const RING_EXT_ARG: u32 = 1 << 3;
/// IORING_ENTER_ABS_TIMER: its time is absolute.
pub const RING_ABS_TIMER: u32 = 1 << 5;
/// IORING_ENTER_EXT_ARG_REG: the structure lies in memory registered before.
pub const RING_EXT_ARG_REG: u32 = 1 << 6;
