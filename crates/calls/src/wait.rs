//! Calls that wait: where the time is, how a wait ends, and what happens to it on a signal.

use eigentime_timeline::{Clock, ClockId};

use crate::{Nr, argument, nr};

/// The form of a time in memory or in a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A pointer to seconds and nanoseconds.
    Timespec,
    /// A pointer to seconds and microseconds.
    Timeval,
    /// Milliseconds in the register itself; negative means forever.
    Millis,
    /// A pointer to a `struct io_uring_getevents_arg`, which points to a `timespec`, if the flags
    /// in argument 3 say so.
    RingArgument,
}

/// Where the arguments of a wait have its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Time {
    /// In the register itself: milliseconds, at least one.
    Millis(u32),
    /// At this address.
    At(u64),
    /// Where the third word at this address points, if it points anywhere.
    Through(u64),
}

/// The origin of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    /// The present.
    Relative,
    /// The clock's epoch.
    Absolute,
    /// The epoch if one of `bits` is set in an argument, otherwise the present.
    Flag {
        /// The argument that holds the flags.
        arg: u8,
        /// The flags that mean absolute.
        bits: u32,
    },
    /// As the futex operation in argument 1 determines; see [`FUTEX_OPS`].
    Futex,
}

/// The clock of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum On {
    /// Always CLOCK_MONOTONIC (or none in particular, for relative times).
    Monotonic,
    /// Always CLOCK_REALTIME.
    Realtime,
    /// The clock id in an argument.
    Arg(u8),
    /// As the futex operation in argument 1 determines; see [`FUTEX_OPS`].
    Futex,
}

/// The call that is made in place of the program's if the form of that is too coarse for a scaled
/// time. All take a `timespec`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// The same call.
    Same,
    /// `ppoll(fds, nfds, time, NULL, 0)`.
    Ppoll,
    /// `pselect6(n, read, write, except, time, NULL)`.
    Pselect6,
    /// `epoll_pwait2(epfd, events, max, time, mask, size)`; without a mask if the program's own
    /// call takes none.
    EpollPwait2,
    /// The same call, with a relative time in place of an absolute one.
    RingRelative,
}

/// Where the kernel writes the remaining time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// Nowhere.
    Nowhere,
    /// Over the time that was passed, whatever the result; unwritable memory is ignored.
    InPlace,
    /// Over the time that was passed, only with a positive result; unwritable memory makes the call
    /// fail.
    WithResult,
    /// To the pointer in this argument, when a relative wait is interrupted.
    Interrupted(u8),
}

/// The result of a call that times out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimedOut {
    /// Zero.
    Zero,
    /// An error.
    Error(u16),
    /// A result that can also mean something else: a timeout cannot be recognized.
    Untold,
}

impl TimedOut {
    /// Whether `result` indicates a timeout.
    #[must_use]
    pub const fn is(self, result: i64) -> bool {
        match self {
            Self::Zero => result == 0,
            Self::Error(error) => result == -(error as i64),
            Self::Untold => false,
        }
    }
}

/// What the kernel does with a wait that a signal interrupts. The names are the internal results of
/// its functions, which programs never see (`include/linux/errno.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    /// EINTR: the call is never restarted.
    Never,
    /// ERESTARTNOHAND or ERESTART_RESTARTBLOCK: it fails with EINTR if a handler runs, and
    /// continues otherwise.
    UnlessHandled,
    /// ERESTARTSYS: it fails with EINTR if a handler without SA_RESTART runs, and is restarted
    /// otherwise.
    AsHandlerSays,
    /// ERESTARTNOINTR: it is restarted, whatever runs.
    Always,
    /// As the futex operation in argument 1 determines; see [`FUTEX_OPS`].
    Futex,
}

/// A call that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The argument that holds the time.
    pub arg: u8,
    /// The form of the time.
    pub form: Form,
    /// The origin of the time.
    pub base: Base,
    /// The clock of the time.
    pub on: On,
    /// The call that is made.
    pub via: Via,
    /// Where the remaining time is written.
    pub left: Left,
    /// The result of a timeout.
    pub timed_out: TimedOut,
    /// Whether a timeout clears the descriptor sets in arguments 1 to 3.
    pub clears_sets: bool,
    /// Whether the kernel accepts any time, including nanoseconds outside a second. A time with a
    /// negative total has passed, or never comes.
    pub takes_any_time: bool,
    /// What happens to it on a signal.
    pub restart: Restart,
    /// The argument that leads to its temporary signal mask, if it has one.
    pub mask: Option<u8>,
    /// Whether it is translated on every timeline. For rare calls that end on a signal that the
    /// program ignores: the kernel delivers such signals to traced threads.
    pub always: bool,
}

impl Wait {
    /// The call that is made for the program's call `asked`.
    #[must_use]
    pub const fn made_as(&self, asked: Nr) -> Nr {
        match self.via {
            Via::Same | Via::RingRelative => asked,
            Via::Ppoll => nr::PPOLL,
            Via::Pselect6 => nr::PSELECT6,
            Via::EpollPwait2 => nr::EPOLL_PWAIT2,
        }
    }

    /// Seconds and nanoseconds that end it at once: the kernel refuses them, or they have passed.
    /// What a timeout would clear is kept.
    #[must_use]
    pub const fn over(&self) -> [i64; 2] {
        if self.takes_any_time { [0, 0] } else { [0, -1] }
    }

    /// Where these arguments have its time; `None` if it has no limit, or is over at once.
    #[inline(always)]
    #[must_use]
    pub fn time(&self, args: &[u64; 6]) -> Option<Time> {
        let time = argument(args, self.arg);
        match self.form {
            Form::Millis => match time as i32 {
                ..=0 => None,
                millis => Some(Time::Millis(millis as u32)),
            },
            _ if time == 0 => None,
            Form::Timespec | Form::Timeval => Some(Time::At(time)),
            Form::RingArgument => {
                (argument(args, 3) as u32 & RING_EXT_ARG != 0).then_some(Time::Through(time))
            }
        }
    }

    /// Whether its time is relative, given these arguments, and its clock: relative times are all
    /// kept on the monotonic clock, as the kernel does. `None` if there is no such clock, or the
    /// futex operation takes no timeout.
    #[inline(always)]
    #[must_use]
    pub fn origin(&self, args: &[u64; 6]) -> Option<(bool, Clock)> {
        let futex = if self.base == Base::Futex { FutexOp::of(args) } else { None };
        let relative = match self.base {
            Base::Relative => true,
            Base::Absolute => false,
            Base::Flag { arg, bits } => argument(args, arg) as u32 & bits == 0,
            Base::Futex => !futex?.absolute,
        };
        let clock = match self.on {
            On::Monotonic => Clock::Monotonic,
            On::Realtime => Clock::Wall,
            On::Arg(id) => ClockId(argument(args, id) as i32).clock()?,
            On::Futex => match futex?.clock {
                FutexClock::Monotonic => Clock::Monotonic,
                FutexClock::Realtime => Clock::Wall,
                FutexClock::Flag if args[1] as u32 & FUTEX_CLOCK_REALTIME != 0 => Clock::Wall,
                FutexClock::Flag => Clock::Monotonic,
            },
        };
        Some((relative, if relative { Clock::Monotonic } else { clock }))
    }

    /// What happens to it on a signal, given these arguments.
    #[must_use]
    pub fn restart(&self, args: &[u64; 6]) -> Restart {
        match self.restart {
            Restart::Futex => FutexOp::of(args).map_or(Restart::UnlessHandled, |op| op.restart),
            restart => restart,
        }
    }

    /// What happens to it on a signal that arrives before it begins. A wait with its own signal
    /// mask must still begin, since the earlier signal may be in that mask; so must one that
    /// submits requests first.
    #[must_use]
    pub fn restart_early(&self, args: &[u64; 6]) -> Restart {
        match self.mask {
            _ if self.form == Form::RingArgument && argument(args, RING_SUBMITS) != 0 => {
                Restart::Always
            }
            Some(mask) if argument(args, mask) != 0 => Restart::Always,
            _ => self.restart(args),
        }
    }
}

/// A futex operation that takes a timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FutexOp {
    /// The operation, without its flags.
    pub op: u32,
    /// Whether its timeout is absolute.
    pub absolute: bool,
    /// How its clock is chosen.
    pub clock: FutexClock,
    /// What happens to it on a signal.
    pub restart: Restart,
}

impl FutexOp {
    /// The operation that the arguments of `futex` request, if it takes a timeout.
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

/// The argument of io_uring_enter with the number of requests that it submits first.
pub const RING_SUBMITS: u8 = 1;
/// IORING_ENTER_EXT_ARG: argument 4 of io_uring_enter is a structure.
pub const RING_EXT_ARG: u32 = 1 << 3;
/// IORING_ENTER_ABS_TIMER: its time is absolute.
pub const RING_ABS_TIMER: u32 = 1 << 5;
/// IORING_ENTER_EXT_ARG_REG: the structure is in memory registered before.
pub const RING_EXT_ARG_REG: u32 = 1 << 6;
