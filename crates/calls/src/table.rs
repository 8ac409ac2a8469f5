//! The rows.

use crate::arch::{self, Numbered};
use crate::{
    Base, Call, Form, Kind, Left, MSG_WAITALL, On, Partial, RING_ABS_TIMER, RING_SUBMITS, Read,
    Restart, Row, Set, Socket, TIMER_ABSTIME, TimedOut, Timer, TimerOp, Via, Wait, Watch, WokenBy,
};

const EAGAIN: u16 = 11;
const ETIME: u16 = 62;
const ETIMEDOUT: u16 = 110;

/// A call that does not block.
const fn row(call: Numbered, kind: Kind, note: &'static str) -> Row {
    Row {
        call: Call { nr: call.nr, kind, woken_by: WokenBy::Nothing, partial: Partial::No },
        name: call.name,
        source: "",
        sleeps_in: None,
        note,
    }
}

/// A call that blocks until something happens, without a time limit.
const fn blocks(call: Numbered, woken_by: WokenBy) -> Row {
    let Row { name, source, sleeps_in, note, call } = row(call, Kind::Block, "");
    Row { call: Call { woken_by, ..call }, name, source, sleeps_in, note }
}

/// A call that waits; `source` is the kernel's function that decides on its restart.
const fn waits(call: Numbered, wait: Wait, woken_by: WokenBy, source: &'static str) -> Row {
    let row = row(call, Kind::Wait(wait), "");
    Row { call: Call { woken_by, ..row.call }, source, ..row }
}

const fn noted(row: Row, note: &'static str) -> Row {
    Row { note, ..row }
}

/// A call that an interruption ends with part of its work done.
const fn partial(row: Row) -> Row {
    Row { call: Call { partial: Partial::Yes, ..row.call }, ..row }
}

/// Like [`partial`], if one of `bits` is set in an argument.
const fn partial_if(row: Row, arg: u8, bits: u32) -> Row {
    Row { call: Call { partial: Partial::Flag { arg, bits }, ..row.call }, ..row }
}

/// A wait that the kernel continues with `restart_syscall`.
const fn continued(row: Row, sleeps_in: &'static str) -> Row {
    Row { sleeps_in: Some(sleeps_in), ..row }
}

/// A relative `timespec` on no particular clock, for a wait that returns zero on timeout.
const fn relative(arg: u8, restart: Restart) -> Wait {
    Wait {
        arg,
        form: Form::Timespec,
        base: Base::Relative,
        on: On::Monotonic,
        via: Via::Same,
        left: Left::Nowhere,
        timed_out: TimedOut::Zero,
        clears_sets: false,
        takes_any_time: false,
        restart,
        mask: None,
        always: false,
    }
}

/// A wait with a temporary signal mask in this argument.
const fn masked(mask: u8, wait: Wait) -> Wait {
    Wait { mask: Some(mask), ..wait }
}

/// A rare relative wait that any signal ends.
const fn rare(arg: u8) -> Wait {
    Wait { always: true, ..relative(arg, Restart::Never) }
}

/// An absolute `timespec`, for a wait that returns ETIMEDOUT on timeout.
const fn absolute(arg: u8, on: On, restart: Restart) -> Wait {
    let timed_out = TimedOut::Error(ETIMEDOUT);
    Wait { base: Base::Absolute, on, timed_out, ..relative(arg, restart) }
}

/// Milliseconds in a register, made with a call that takes a `timespec`.
const fn millis(arg: u8, via: Via, restart: Restart) -> Wait {
    Wait { form: Form::Millis, via, ..relative(arg, restart) }
}

/// Descriptor sets, with the time in argument 4.
const fn selects(form: Form, via: Via) -> Wait {
    let left = Left::InPlace;
    Wait { form, via, left, clears_sets: true, ..relative(4, Restart::UnlessHandled) }
}

const fn timer_set(timer: Timer, new: u8, old: u8, absolute: u32) -> Kind {
    Kind::Timer(timer, TimerOp::Set { new, old, absolute })
}

const fn timer_get(timer: Timer, to: u8) -> Kind {
    Kind::Timer(timer, TimerOp::Get { to })
}

/// Every Linux system call that involves time or blocks.
pub const ROWS: &[Row] = &[
    // Waits, the most frequent first: the filter tests them in this order.
    noted(
        continued(
            waits(
                arch::FUTEX,
                Wait {
                    base: Base::Futex,
                    on: On::Futex,
                    timed_out: TimedOut::Error(ETIMEDOUT),
                    ..relative(3, Restart::Futex)
                },
                WokenBy::Futex(1),
                "futex_wait, kernel/futex/waitwake.c; futex_lock_pi, kernel/futex/pi.c; \
                 futex_wait_requeue_pi, kernel/futex/requeue.c",
            ),
            "futex",
        ),
        "FUTEX_WAIT, FUTEX_WAIT_BITSET, FUTEX_LOCK_PI, FUTEX_LOCK_PI2, FUTEX_WAIT_REQUEUE_PI",
    ),
    waits(
        arch::EPOLL_WAIT,
        millis(3, Via::EpollPwait2, Restart::Never),
        WokenBy::EventPoll,
        "ep_poll, fs/eventpoll.c",
    ),
    waits(
        arch::EPOLL_PWAIT,
        masked(4, millis(3, Via::EpollPwait2, Restart::Never)),
        WokenBy::EventPoll,
        "ep_poll, fs/eventpoll.c",
    ),
    noted(
        continued(
            waits(
                arch::POLL,
                millis(2, Via::Ppoll, Restart::UnlessHandled),
                WokenBy::PollList,
                "do_restart_poll, fs/select.c",
            ),
            "poll",
        ),
        "the deadline holds through SIGSTOP",
    ),
    waits(
        arch::PPOLL,
        masked(3, Wait { left: Left::InPlace, ..relative(2, Restart::UnlessHandled) }),
        WokenBy::PollList,
        "poll_select_finish, fs/select.c",
    ),
    waits(
        arch::SELECT,
        selects(Form::Timeval, Via::Pselect6),
        WokenBy::Sets,
        "core_sys_select, fs/select.c",
    ),
    waits(
        arch::PSELECT6,
        masked(5, selects(Form::Timespec, Via::Same)),
        WokenBy::Sets,
        "core_sys_select, fs/select.c",
    ),
    continued(
        waits(
            arch::NANOSLEEP,
            Wait { left: Left::Interrupted(1), ..relative(0, Restart::UnlessHandled) },
            WokenBy::Nothing,
            "hrtimer_nanosleep, kernel/time/hrtimer.c",
        ),
        "nanosleep",
    ),
    noted(
        continued(
            waits(
                arch::CLOCK_NANOSLEEP,
                Wait {
                    base: Base::Flag { arg: 1, bits: TIMER_ABSTIME },
                    on: On::Arg(0),
                    left: Left::Interrupted(3),
                    ..relative(2, Restart::UnlessHandled)
                },
                WokenBy::Nothing,
                "hrtimer_nanosleep, kernel/time/hrtimer.c",
            ),
            "nanosleep",
        ),
        "CPU-time clocks are left alone",
    ),
    waits(
        arch::EPOLL_PWAIT2,
        masked(4, relative(3, Restart::Never)),
        WokenBy::EventPoll,
        "ep_poll, fs/eventpoll.c",
    ),
    waits(
        arch::RT_SIGTIMEDWAIT,
        Wait { timed_out: TimedOut::Error(EAGAIN), ..rare(2) },
        WokenBy::Signal,
        "do_sigtimedwait, kernel/signal.c",
    ),
    waits(
        arch::SEMTIMEDOP,
        Wait { timed_out: TimedOut::Error(EAGAIN), ..rare(3) },
        WokenBy::Unknown,
        "__do_semtimedop, ipc/sem.c",
    ),
    waits(
        arch::MQ_TIMEDSEND,
        absolute(4, On::Realtime, Restart::AsHandlerSays),
        WokenBy::Unknown,
        "wq_sleep, ipc/mqueue.c",
    ),
    waits(
        arch::MQ_TIMEDRECEIVE,
        absolute(4, On::Realtime, Restart::AsHandlerSays),
        WokenBy::Unknown,
        "wq_sleep, ipc/mqueue.c",
    ),
    noted(
        partial(waits(
            arch::RECVMMSG,
            Wait {
                left: Left::WithResult,
                timed_out: TimedOut::Untold,
                ..relative(4, Restart::AsHandlerSays)
            },
            WokenBy::Descriptor(0),
            "sock_intr_errno, include/net/sock.h",
        )),
        "the kernel looks at the time after each datagram only",
    ),
    partial(waits(
        arch::IO_GETEVENTS,
        Wait { takes_any_time: true, ..rare(4) },
        WokenBy::Unknown,
        "io_getevents, fs/aio.c",
    )),
    partial(waits(
        arch::IO_PGETEVENTS,
        Wait { takes_any_time: true, ..relative(4, Restart::UnlessHandled) },
        WokenBy::Unknown,
        "io_pgetevents, fs/aio.c",
    )),
    waits(
        arch::FUTEX_WAITV,
        absolute(3, On::Arg(4), Restart::AsHandlerSays),
        WokenBy::Unknown,
        "futex_wait_multiple, kernel/futex/waitwake.c",
    ),
    waits(
        arch::FUTEX_WAIT,
        absolute(4, On::Arg(5), Restart::AsHandlerSays),
        WokenBy::Futex(3),
        "__futex_wait, kernel/futex/waitwake.c",
    ),
    noted(
        partial_if(
            waits(
                arch::IO_URING_ENTER,
                Wait {
                    form: Form::RingArgument,
                    base: Base::Flag { arg: 3, bits: RING_ABS_TIMER },
                    via: Via::RingRelative,
                    timed_out: TimedOut::Error(ETIME),
                    takes_any_time: true,
                    ..relative(4, Restart::Never)
                },
                WokenBy::Unknown,
                "io_run_task_work_sig, io_uring/io_uring.c",
            ),
            RING_SUBMITS,
            u32::MAX,
        ),
        "with IORING_ENTER_EXT_ARG, not with IORING_ENTER_EXT_ARG_REG",
    ),
    // Socket timeouts.
    row(
        arch::SETSOCKOPT,
        Kind::Socket(Socket::Set),
        "SO_RCVTIMEO, SO_SNDTIMEO; the kernel counts them in ticks of the host",
    ),
    row(arch::GETSOCKOPT, Kind::Socket(Socket::Get), "SO_RCVTIMEO, SO_SNDTIMEO"),
    // Timers.
    row(
        arch::TIMER_SETTIME,
        timer_set(Timer::Posix, 2, 3, TIMER_ABSTIME),
        "timers on CPU-time clocks are left alone",
    ),
    row(
        arch::TIMER_GETTIME,
        timer_get(Timer::Posix, 1),
        "timers on CPU-time clocks are left alone",
    ),
    row(arch::TIMERFD_SETTIME, timer_set(Timer::Descriptor, 2, 3, TIMER_ABSTIME), ""),
    row(arch::TIMERFD_GETTIME, timer_get(Timer::Descriptor, 1), ""),
    row(
        arch::SETITIMER,
        timer_set(Timer::Interval, 1, 2, 0),
        "ITIMER_VIRTUAL and ITIMER_PROF are left alone",
    ),
    row(
        arch::GETITIMER,
        timer_get(Timer::Interval, 1),
        "ITIMER_VIRTUAL and ITIMER_PROF are left alone",
    ),
    row(
        arch::ALARM,
        timer_set(Timer::Alarm, 0, 0, 0),
        "through setitimer, since a scaled second is no whole second",
    ),
    // Clock reads that do not use the vDSO.
    row(
        arch::CLOCK_GETTIME,
        Kind::Read(Read::ClockGettime),
        "through the vDSO no system call is made",
    ),
    row(arch::GETTIMEOFDAY, Kind::Read(Read::Gettimeofday), "also from the vsyscall page"),
    row(arch::TIME, Kind::Read(Read::Time), "also from the vsyscall page"),
    row(
        arch::TIMES,
        Kind::Read(Read::Times),
        "the ticks that it returns; the CPU times are left alone",
    ),
    row(arch::SYSINFO, Kind::Read(Read::Sysinfo), "the uptime; all else is the host's"),
    // Setting the wall clock.
    row(
        arch::CLOCK_SETTIME,
        Kind::Set(Set::ClockSettime),
        "CLOCK_REALTIME; other clocks as the kernel answers",
    ),
    row(arch::SETTIMEOFDAY, Kind::Set(Set::Settimeofday), "a time zone is accepted and ignored"),
    row(arch::ADJTIMEX, Kind::Set(Set::Adjtimex), "offsets are applied at once"),
    row(
        arch::CLOCK_ADJTIME,
        Kind::Set(Set::ClockAdjtime),
        "CLOCK_REALTIME; other clocks as the kernel answers",
    ),
    // Watched.
    row(
        arch::IO_URING_SETUP,
        Kind::Watch(Watch::IoUring),
        "a note is printed: timeouts in the ring run on host time",
    ),
    noted(
        Row {
            call: Call {
                kind: Kind::Watch(Watch::Untraced),
                ..blocks(arch::CLONE, WokenBy::NewChild).call
            },
            ..blocks(arch::CLONE, WokenBy::NewChild)
        },
        "CLONE_UNTRACED is taken out, so that the child stays in the timeline",
    ),
    row(
        arch::GETGROUPS,
        Kind::Watch(Watch::Groups),
        "shows the caller's groups in the user namespace that a time namespace needs",
    ),
    row(
        arch::SECCOMP,
        Kind::Watch(Watch::Filters),
        "sites of calls are not rewritten in a process that has a filter of its own, and no other \
         call is made in the place of one of its own",
    ),
    row(
        arch::PRCTL,
        Kind::Watch(Watch::Filters),
        "PR_SET_SECCOMP, as seccomp; PR_GET_SECCOMP does not show the filter of the timeline",
    ),
    row(
        arch::RT_SIGACTION,
        Kind::Watch(Watch::Cancellation),
        "the signals by which C libraries cancel threads: the process is traced for life from there on",
    ),
    row(
        arch::PTRACE,
        Kind::Watch(Watch::Debugger),
        "a note is printed if a thread that is traced for life cannot be traced by a debugger",
    ),
    // Calls that block without a time limit.
    blocks(arch::READ, WokenBy::Descriptor(0)),
    partial(blocks(arch::WRITE, WokenBy::Descriptor(0))),
    blocks(arch::IOCTL, WokenBy::Descriptor(0)),
    blocks(arch::PREAD64, WokenBy::Descriptor(0)),
    partial(blocks(arch::PWRITE64, WokenBy::Descriptor(0))),
    blocks(arch::READV, WokenBy::Descriptor(0)),
    partial(blocks(arch::WRITEV, WokenBy::Descriptor(0))),
    blocks(arch::PAUSE, WokenBy::Signal),
    partial(blocks(arch::SENDFILE, WokenBy::Descriptors(0, 1))),
    blocks(arch::CONNECT, WokenBy::Listener),
    blocks(arch::ACCEPT, WokenBy::Descriptor(0)),
    partial(blocks(arch::SENDTO, WokenBy::Descriptor(0))),
    partial_if(blocks(arch::RECVFROM, WokenBy::Descriptor(0)), 3, MSG_WAITALL),
    partial(blocks(arch::SENDMSG, WokenBy::Descriptor(0))),
    partial_if(blocks(arch::RECVMSG, WokenBy::Descriptor(0)), 2, MSG_WAITALL),
    blocks(arch::VFORK, WokenBy::NewChild),
    blocks(arch::WAIT4, WokenBy::Child),
    blocks(arch::RT_SIGSUSPEND, WokenBy::Signal),
    blocks(arch::WAITID, WokenBy::Child),
    partial(blocks(arch::SPLICE, WokenBy::Descriptors(0, 2))),
    partial(blocks(arch::TEE, WokenBy::Descriptors(0, 1))),
    partial(blocks(arch::VMSPLICE, WokenBy::Descriptor(0))),
    blocks(arch::ACCEPT4, WokenBy::Descriptor(0)),
    blocks(arch::PREADV, WokenBy::Descriptor(0)),
    partial(blocks(arch::PWRITEV, WokenBy::Descriptor(0))),
    partial(blocks(arch::SENDMMSG, WokenBy::Descriptor(0))),
    partial(blocks(arch::COPY_FILE_RANGE, WokenBy::Descriptors(0, 2))),
    blocks(arch::PREADV2, WokenBy::Descriptor(0)),
    partial(blocks(arch::PWRITEV2, WokenBy::Descriptor(0))),
    blocks(arch::CLONE3, WokenBy::NewChild),
];

/// Interfaces that show or take host time inside a timeline, with a note on each.
pub const NOT_VIRTUALIZED: [(&str, &str); 19] = [
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
        "as an ordinary user: setting the clock fails; POSIX timers are taken to run on CLOCK_MONOTONIC, absolute timer \
         descriptors on the wall clock; a change of the clocks does not reach a wait that is under way, and `recvmmsg` may \
         end by the host's time",
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
    ("SO_TXTIME", "the times at which packets are to leave are the host's"),
    ("SO_TIMESTAMP and its kin", "stamped by the kernel with the host's wall clock"),
    ("TCP_USER_TIMEOUT, keepalive, protocol timers", "run on host time: the peer is outside"),
    ("IPC times (shmctl, msgctl, semctl)", "stamped by the kernel with the host's wall clock"),
    (
        "TFD_TIMER_CANCEL_ON_SET",
        "a read is not cancelled when the date is set inside; the timer itself follows",
    ),
    (
        "frequency of the wall clock (ADJ_FREQUENCY, ADJ_TICK), leap seconds (STA_INS, STA_DEL)",
        "refused with EPERM and a note: the rate is the timeline's",
    ),
    (
        "CLONE_UNTRACED through clone3",
        "where programs are traced for life, a child made so is not followed; its translated calls fail with ENOSYS",
    ),
    ("kernel log, audit, tracing", "stamped with host time"),
];
