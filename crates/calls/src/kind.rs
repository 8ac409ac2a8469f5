//! Calls that involve time in other ways than waiting.

/// The kind of timer that a timer call works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timer {
    /// A POSIX timer, named by the id in argument 0.
    Posix,
    /// A timer file descriptor in argument 0.
    Descriptor,
    /// The interval timer named by argument 0; only ITIMER_REAL counts real time.
    Interval,
    /// The process's alarm, which is its ITIMER_REAL in whole seconds.
    Alarm,
}

/// The operation of a timer call.
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
    /// Queries: the remaining time goes to this argument.
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

/// A call that sets or adjusts the wall clock. It moves the timeline's clock and never reaches the
/// kernel.
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

/// A call that the supervisor must see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watch {
    /// `io_uring_setup`: its timeouts are in memory shared with the kernel and run on host time.
    IoUring,
    /// `clone` with CLONE_UNTRACED, which would escape the supervisor: the flag is removed.
    Untraced,
    /// `getgroups` in a user namespace, which would show unmapped groups as `nogroup`.
    Groups,
    /// `seccomp`, and `prctl` with PR_SET_SECCOMP: the process installs its own filter, after which
    /// no calls may be made on its behalf. `prctl` with PR_GET_SECCOMP does not show the timeline's
    /// filter.
    Filters,
    /// `rt_sigaction` with a handler for a signal with which the C library cancels threads: the
    /// handler inspects the interrupted instruction, and must not see the image.
    Cancellation,
    /// `ptrace` that begins to trace a thread, which fails if the supervisor traces it.
    Debugger,
}

/// PR_SET_DUMPABLE.
pub const PR_SET_DUMPABLE: u32 = 4;
/// PR_GET_SECCOMP.
pub const PR_GET_SECCOMP: u32 = 21;
/// PR_SET_SECCOMP.
pub const PR_SET_SECCOMP: u32 = 22;

/// SOL_SOCKET.
pub const SOL_SOCKET: u32 = 1;
/// SO_RCVTIMEO and SO_SNDTIMEO, in both of their forms (the same on x86-64).
pub const SOCKET_TIMEOUTS: [u32; 4] = [20, 21, 66, 67];

/// The signals with which C libraries cancel threads: SIGCANCEL of glibc and of musl. Their other
/// uses are rare.
pub const CANCELLATION_SIGNALS: [u32; 2] = [32, 33];

/// PTRACE_TRACEME.
pub const PTRACE_TRACEME: u32 = 0;
/// The requests that begin to trace a thread: PTRACE_TRACEME, PTRACE_ATTACH and PTRACE_SEIZE.
pub const BEGINNINGS_OF_TRACING: [u32; 3] = [PTRACE_TRACEME, 16, 0x4206];

/// MSG_WAITALL.
pub const MSG_WAITALL: u32 = 0x100;
/// TIMER_ABSTIME and TFD_TIMER_ABSTIME.
pub const TIMER_ABSTIME: u32 = 1;
/// CLONE_UNTRACED.
pub const CLONE_UNTRACED: u32 = 0x0080_0000;
/// ITIMER_REAL.
pub const ITIMER_REAL: u32 = 0;
