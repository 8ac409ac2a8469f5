//! The rows.

use crate::{
    Base, Call, Form, Kind, Left, Nr, On, RING_ABS_TIMER, Read, Row, Set, Socket, TIMER_ABSTIME,
    Timer, TimerOp, Via, Wait, Watch,
};

const fn row(nr: u32, name: &'static str, kind: Kind, note: &'static str) -> Row {
    Row { call: Call { nr: Nr(nr), kind }, name, note }
}

/// A relative `timespec` on no clock in particular.
const fn relative(arg: u8) -> Wait {
    Wait {
        arg,
        form: Form::Timespec,
        base: Base::Relative,
        on: On::Monotonic,
        via: Via::Same,
        left: Left::Nowhere,
    }
}

/// An absolute `timespec`.
const fn absolute(arg: u8, on: On) -> Wait {
    Wait { base: Base::Absolute, on, ..relative(arg) }
}

/// Milliseconds in a register, asked of a call that takes a `timespec`.
const fn millis(arg: u8, via: Via) -> Wait {
    Wait { form: Form::Millis, via, ..relative(arg) }
}

const fn timer_set(timer: Timer, new: u8, old: u8, absolute: u32) -> Kind {
    Kind::Timer(timer, TimerOp::Set { new, old, absolute })
}

const fn timer_get(timer: Timer, to: u8) -> Kind {
    Kind::Timer(timer, TimerOp::Get { to })
}

/// Every translated system call of x86-64 Linux.
pub const ROWS: [Row; 43] = [
    // Waits, the most frequent first: the filter tests them in this order.
    row(
        202,
        "futex",
        Kind::Wait(Wait { base: Base::Futex, on: On::Futex, ..relative(3) }),
        "FUTEX_WAIT, FUTEX_WAIT_BITSET, FUTEX_LOCK_PI, FUTEX_LOCK_PI2, FUTEX_WAIT_REQUEUE_PI",
    ),
    row(232, "epoll_wait", Kind::Wait(millis(3, Via::EpollPwait2 { mask: false })), ""),
    row(281, "epoll_pwait", Kind::Wait(millis(3, Via::EpollPwait2 { mask: true })), ""),
    row(7, "poll", Kind::Wait(millis(2, Via::Ppoll)), "the deadline holds through SIGSTOP"),
    row(271, "ppoll", Kind::Wait(Wait { left: Left::InPlace, ..relative(2) }), ""),
    row(
        23,
        "select",
        Kind::Wait(Wait {
            form: Form::Timeval,
            via: Via::Pselect6,
            left: Left::InPlace,
            ..relative(4)
        }),
        "",
    ),
    row(270, "pselect6", Kind::Wait(Wait { left: Left::InPlace, ..relative(4) }), ""),
    row(35, "nanosleep", Kind::Wait(Wait { left: Left::Interrupted(1), ..relative(0) }), ""),
    row(
        230,
        "clock_nanosleep",
        Kind::Wait(Wait {
            base: Base::Flag { arg: 1, bits: TIMER_ABSTIME },
            on: On::Arg(0),
            left: Left::Interrupted(3),
            ..relative(2)
        }),
        "CPU-time clocks are left alone",
    ),
    row(441, "epoll_pwait2", Kind::Wait(relative(3)), ""),
    row(128, "rt_sigtimedwait", Kind::Wait(relative(2)), ""),
    row(220, "semtimedop", Kind::Wait(relative(3)), ""),
    row(242, "mq_timedsend", Kind::Wait(absolute(4, On::Realtime)), ""),
    row(243, "mq_timedreceive", Kind::Wait(absolute(4, On::Realtime)), ""),
    row(
        299,
        "recvmmsg",
        Kind::Wait(Wait { left: Left::InPlace, ..relative(4) }),
        "the kernel looks at the time after each datagram only",
    ),
    row(208, "io_getevents", Kind::Wait(relative(4)), ""),
    row(333, "io_pgetevents", Kind::Wait(relative(4)), ""),
    row(449, "futex_waitv", Kind::Wait(absolute(3, On::Arg(4))), ""),
    row(455, "futex_wait", Kind::Wait(absolute(4, On::Arg(5))), ""),
    row(
        426,
        "io_uring_enter",
        Kind::Wait(Wait {
            form: Form::RingArgument,
            base: Base::Flag { arg: 3, bits: RING_ABS_TIMER },
            via: Via::RingRelative,
            ..relative(4)
        }),
        "with IORING_ENTER_EXT_ARG, not with IORING_ENTER_EXT_ARG_REG",
    ),
    // Socket timeouts.
    row(
        54,
        "setsockopt",
        Kind::Socket(Socket::Set),
        "SO_RCVTIMEO, SO_SNDTIMEO; the kernel counts them in ticks of the host",
    ),
    row(55, "getsockopt", Kind::Socket(Socket::Get), "SO_RCVTIMEO, SO_SNDTIMEO"),
    // Timers.
    row(
        223,
        "timer_settime",
        timer_set(Timer::Posix, 2, 3, TIMER_ABSTIME),
        "timers on CPU-time clocks are left alone",
    ),
    row(
        224,
        "timer_gettime",
        timer_get(Timer::Posix, 1),
        "timers on CPU-time clocks are left alone",
    ),
    row(286, "timerfd_settime", timer_set(Timer::Descriptor, 2, 3, TIMER_ABSTIME), ""),
    row(287, "timerfd_gettime", timer_get(Timer::Descriptor, 1), ""),
    row(
        38,
        "setitimer",
        timer_set(Timer::Interval, 1, 2, 0),
        "ITIMER_VIRTUAL and ITIMER_PROF are left alone",
    ),
    row(
        36,
        "getitimer",
        timer_get(Timer::Interval, 1),
        "ITIMER_VIRTUAL and ITIMER_PROF are left alone",
    ),
    row(
        37,
        "alarm",
        timer_set(Timer::Alarm, 0, 0, 0),
        "through setitimer, since a scaled second is no whole second",
    ),
    // Reads that do not come through the vDSO.
    row(
        228,
        "clock_gettime",
        Kind::Read(Read::ClockGettime),
        "through the vDSO no system call is made",
    ),
    row(96, "gettimeofday", Kind::Read(Read::Gettimeofday), "also from the vsyscall page"),
    row(201, "time", Kind::Read(Read::Time), "also from the vsyscall page"),
    row(
        100,
        "times",
        Kind::Read(Read::Times),
        "the ticks that it returns; the CPU times are left alone",
    ),
    row(99, "sysinfo", Kind::Read(Read::Sysinfo), "the uptime; all else is the host's"),
    // Setting the wall clock.
    row(
        227,
        "clock_settime",
        Kind::Set(Set::ClockSettime),
        "CLOCK_REALTIME; other clocks as the kernel answers",
    ),
    row(164, "settimeofday", Kind::Set(Set::Settimeofday), "a time zone is accepted and ignored"),
    row(159, "adjtimex", Kind::Set(Set::Adjtimex), "offsets are applied at once"),
    row(
        305,
        "clock_adjtime",
        Kind::Set(Set::ClockAdjtime),
        "CLOCK_REALTIME; other clocks as the kernel answers",
    ),
    // Watched.
    row(
        425,
        "io_uring_setup",
        Kind::Watch(Watch::IoUring),
        "a note is printed: timeouts in the ring run on host time",
    ),
    row(
        56,
        "clone",
        Kind::Watch(Watch::Untraced),
        "CLONE_UNTRACED is taken out, so that the child stays in the timeline",
    ),
    row(
        115,
        "getgroups",
        Kind::Watch(Watch::Groups),
        "shows the caller's groups in the user namespace that a time namespace needs",
    ),
    row(
        317,
        "seccomp",
        Kind::Watch(Watch::Filters),
        "sites of calls are not rewritten in a process that has a filter of its own",
    ),
    row(157, "prctl", Kind::Watch(Watch::Filters), "PR_SET_SECCOMP, as seccomp"),
];

/// Interfaces that show or take host time inside a timeline, and what to know of it.
pub const NOT_VIRTUALIZED: [(&str, &str); 18] = [
    (
        "RDTSC, RDTSCP",
        "the processor's counter is read without the kernel; it runs at the host's rate",
    ),
    (
        "the kernel's own vDSO",
        "a program that looks for it in /proc/self/auxv or /proc/self/maps instead of its stack reads host time",
    ),
    ("VTIME of terminals, SO_LINGER, keyctl timeouts, /dev/rtc", "run on host time"),
    (
        "timers and the wall clock of programs that are not dumpable",
        "as an ordinary user: setting the clock fails, and timers are taken to run on CLOCK_MONOTONIC",
    ),
    ("CPU-time clocks", "left alone on purpose: they measure work, which no rate makes more of"),
    (
        "dynamic clock ids (/dev/ptpN), auxiliary clocks",
        "left alone on purpose: they name a device or a clock of its own",
    ),
    (
        "timeouts in the ring of an io_uring",
        "they lie in memory shared with the kernel; a note is printed",
    ),
    ("file times (mtime, ctime, atime)", "stamped by the kernel with the host's wall clock"),
    (
        "/proc/uptime, /proc/stat",
        "follow --monotonic and --boottime of an unnamed timeline, by the kernel; not a rate, nor a timeline that is named, continued or attached",
    ),
    ("process start times (/proc/PID/stat)", "as /proc/uptime"),
    ("SO_BUSY_POLL", "counts host time"),
    ("SO_TIMESTAMP and its kin", "stamped by the kernel with the host's wall clock"),
    ("TCP_USER_TIMEOUT, keepalive, protocol timers", "run on host time: the peer is outside"),
    ("IPC times (shmctl, msgctl, semctl)", "stamped by the kernel with the host's wall clock"),
    (
        "TFD_TIMER_CANCEL_ON_SET",
        "a read is not cancelled when the date is set inside; the timer itself follows",
    ),
    (
        "frequency of the wall clock (ADJ_FREQUENCY, ADJ_TICK, ADJ_TAI)",
        "refused with EPERM and a note: the rate is the timeline's",
    ),
    (
        "CLONE_UNTRACED through clone3",
        "a child made so is not followed; its translated calls fail with ENOSYS",
    ),
    ("kernel log, audit, tracing", "stamped with host time"),
];
