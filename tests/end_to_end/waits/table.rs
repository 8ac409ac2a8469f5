//! The answer of each wait of the program `waits` at its end. The names are those of
//! `tests/programs/waits`.

/// Which time a call counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// The timeline's.
    Virtual,
    /// CPU time, which no timeline changes.
    Cpu,
}

/// A bound.
#[derive(Clone, Copy, Debug)]
pub enum Bound {
    /// A share of the requested time.
    Share(f64),
    /// The remainder of this many times the time, if all elapsed time was spent in the call.
    Unspent(f64),
    Exactly(f64),
}

impl Bound {
    /// Returns it in the unit of the value it bounds.
    pub fn of(self, asked_ms: f64, took_ms: f64) -> f64 {
        match self {
            Bound::Share(share) => share * asked_ms,
            Bound::Unspent(times) => times * asked_ms - took_ms,
            Bound::Exactly(value) => value,
        }
    }
}

/// A value that the call wrote back.
#[derive(Clone, Copy, Debug)]
pub struct Extra {
    pub key: &'static str,
    pub least: Bound,
    pub most: Bound,
}

/// One call.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    pub name: &'static str,
    pub clock: Clock,
    /// Result and errno.
    pub answer: (i64, i32),
    /// Whether the result is an amount received, which is less on a busy host.
    pub may_be_less: bool,
    /// The shortest time that can be requested.
    pub least_ms: u64,
    pub extras: &'static [Extra],
    /// Whether the kernel counts its time in ticks, and not by a clock.
    pub in_ticks: bool,
    /// Not a system call, but a function that only the GNU C library has.
    pub only_glibc: bool,
}

impl Call {
    /// Whether it waits for an instant of the wall clock.
    pub fn waits_for_wall_clock(&self) -> bool {
        let wall = self.name.contains("realtime") || self.name.contains("tai");
        (wall && self.name.ends_with("_abs")) || self.name.starts_with("mq_")
    }

    const fn only_in_glibc(self) -> Call {
        Call { only_glibc: true, ..self }
    }

    const fn in_ticks(self) -> Call {
        Call { in_ticks: true, ..self }
    }

    const fn or_less(self) -> Call {
        Call { may_be_less: true, ..self }
    }

    /// Whether this is its answer.
    pub fn answers(&self, (result, errno): (i64, i32)) -> bool {
        let (most, expected) = self.answer;
        let least = if self.may_be_less { 1 } else { most };
        (least..=most).contains(&result) && errno == expected
    }

    const fn at_least(self, least_ms: u64) -> Call {
        Call { least_ms, ..self }
    }

    const fn with(self, extras: &'static [Extra]) -> Call {
        Call { extras, ..self }
    }

    const fn on_cpu_time(self) -> Call {
        Call { clock: Clock::Cpu, ..self }
    }
}

const EAGAIN: i32 = 11;
const ETIME: i32 = 62;
const ETIMEDOUT: i32 = 110;
const SIGUSR1: i64 = 10;
const SIGALRM: i64 = 14;
const SIGVTALRM: i64 = 26;
const SIGPROF: i64 = 27;

const fn returns(name: &'static str, result: i64) -> Call {
    Call {
        name,
        clock: Clock::Virtual,
        answer: (result, 0),
        may_be_less: false,
        least_ms: 0,
        extras: &[],
        in_ticks: false,
        only_glibc: false,
    }
}

const fn fails(name: &'static str, errno: i32) -> Call {
    Call { answer: (-1, errno), ..returns(name, -1) }
}

const fn exactly(key: &'static str, value: f64) -> Extra {
    Extra { key, least: Bound::Exactly(value), most: Bound::Exactly(value) }
}

const fn between(key: &'static str, least: f64, most: f64) -> Extra {
    Extra { key, least: Bound::Share(least), most: Bound::Share(most) }
}

/// The call must leave its time argument unchanged.
const UNTOUCHED: Extra = between("untouched_ms", 1.0, 1.0);
/// Nothing remained when the time was up.
const NOTHING_LEFT: Extra = exactly("remain_ms", 0.0);
/// The remainder of a time that is 20 times as long as it takes until something is ready. It counts
/// from when the thread sleeps; on a busy host, the call may begin late.
const MUCH_LEFT: Extra =
    Extra { key: "remain_ms", least: Bound::Unspent(20.0), most: Bound::Share(19.7) };
/// The time left on a timer that has just been started; a tenth, where nothing is translated.
const JUST_STARTED: Extra = between("left_ms", 0.15, 1.001);
/// A timer started before for 20 times as long, with an interval of 7 times.
const REPLACED: [Extra; 3] =
    [JUST_STARTED, between("old_ms", 10.0, 20.001), between("old_interval_ms", 6.999, 7.001)];
/// Four ticks in the whole time.
const INTERVAL: Extra = between("interval_ms", 0.2499, 0.2501);

/// All calls.
pub const CALLS: &[Call] = &[
    returns("nanosleep", 0).with(&[exactly("untouched_ms", 77_000.000_077)]),
    returns("clock_nanosleep_realtime", 0),
    returns("clock_nanosleep_realtime_abs", 0),
    returns("clock_nanosleep_monotonic", 0),
    returns("clock_nanosleep_monotonic_abs", 0),
    returns("clock_nanosleep_boottime", 0),
    returns("clock_nanosleep_boottime_abs", 0),
    returns("clock_nanosleep_tai", 0),
    returns("clock_nanosleep_tai_abs", 0),
    returns("clock_nanosleep_cputime", 0).on_cpu_time(),
    returns("libc_nanosleep", 0),
    returns("libc_usleep", 0),
    returns("libc_sleep", 0).at_least(1000),
    returns("poll", 0),
    returns("poll_nothing", 0),
    returns("ppoll", 0).with(&[NOTHING_LEFT]),
    returns("ppoll_ready", 1).with(&[MUCH_LEFT]),
    returns("select", 0).with(&[NOTHING_LEFT]),
    returns("select_ready", 1).with(&[MUCH_LEFT]),
    returns("pselect6", 0).with(&[NOTHING_LEFT]),
    returns("pselect6_ready", 1).with(&[MUCH_LEFT]),
    // The kernel writes the remaining time back, but not every library does.
    returns("libc_select", 0),
    returns("epoll_wait", 0),
    returns("epoll_pwait", 0),
    returns("epoll_pwait2", 0).with(&[UNTOUCHED]),
    // Its ticks are up to 10 ms of host time, and it is rounded up.
    fails("so_rcvtimeo", EAGAIN).in_ticks().with(&[between("told_ms", 0.99, 1.25)]),
    fails("so_sndtimeo", EAGAIN).in_ticks(),
    fails("rt_sigtimedwait", EAGAIN).with(&[UNTOUCHED]),
    fails("semtimedop", EAGAIN),
    fails("mq_timedsend", ETIMEDOUT),
    fails("mq_timedreceive", ETIMEDOUT),
    returns("recvmmsg", 10).or_less().with(&[NOTHING_LEFT]),
    fails("futex_wait", ETIMEDOUT).with(&[UNTOUCHED]),
    fails("futex_wait_shared", ETIMEDOUT),
    fails("futex_wait_bitset_monotonic_abs", ETIMEDOUT),
    fails("futex_wait_bitset_realtime_abs", ETIMEDOUT),
    fails("futex_lock_pi_realtime_abs", ETIMEDOUT),
    fails("futex_lock_pi2_monotonic_abs", ETIMEDOUT),
    fails("futex_lock_pi2_realtime_abs", ETIMEDOUT),
    fails("futex_wait_requeue_pi_monotonic_abs", ETIMEDOUT),
    fails("futex_wait_requeue_pi_realtime_abs", ETIMEDOUT),
    fails("futex_waitv_monotonic_abs", ETIMEDOUT),
    fails("futex_waitv_realtime_abs", ETIMEDOUT),
    fails("futex2_wait_monotonic_abs", ETIMEDOUT),
    fails("futex2_wait_realtime_abs", ETIMEDOUT),
    returns("io_getevents", 0),
    returns("io_pgetevents", 0),
    fails("io_uring_enter", ETIME),
    fails("io_uring_enter_abs", ETIME),
    returns("timer_realtime", SIGUSR1).with(&REPLACED),
    returns("timer_realtime_abs", SIGUSR1).with(&[JUST_STARTED]),
    returns("timer_monotonic", SIGUSR1).with(&REPLACED),
    returns("timer_monotonic_abs", SIGUSR1).with(&[JUST_STARTED]),
    returns("timer_boottime", SIGUSR1).with(&REPLACED),
    returns("timer_boottime_abs", SIGUSR1).with(&[JUST_STARTED]),
    returns("timer_tai", SIGUSR1).with(&REPLACED),
    returns("timer_tai_abs", SIGUSR1).with(&[JUST_STARTED]),
    returns("timer_interval", 4).with(&[INTERVAL]),
    returns("timer_at_stack_end", SIGUSR1),
    returns("timer_cputime", SIGUSR1).on_cpu_time().with(&[JUST_STARTED]),
    returns("libc_timer_thread", 1),
    returns("setitimer_real", SIGALRM).with(&[
        JUST_STARTED,
        between("old_ms", 10.0, 20.001),
        exactly("old_interval_s", 5.0),
    ]),
    returns("setitimer_virtual", SIGVTALRM).on_cpu_time(),
    returns("setitimer_prof", SIGPROF).on_cpu_time(),
    // The kernel rounds the remaining time to seconds, of which 5000 were left.
    returns("alarm", SIGALRM).at_least(1000).with(&[Extra {
        key: "remainder_s",
        least: Bound::Exactly(4000.0),
        most: Bound::Exactly(5000.0),
    }]),
    returns("timerfd_realtime", 1).with(&REPLACED),
    returns("timerfd_realtime_abs", 1).with(&[JUST_STARTED]),
    returns("timerfd_monotonic", 1).with(&REPLACED),
    returns("timerfd_monotonic_abs", 1).with(&[JUST_STARTED]),
    returns("timerfd_boottime", 1).with(&REPLACED),
    returns("timerfd_boottime_abs", 1).with(&[JUST_STARTED]),
    returns("timerfd_interval", 4).with(&[INTERVAL]),
    returns("timerfd_polled", 1),
    fails("pthread_cond_timedwait_realtime_abs", ETIMEDOUT),
    fails("pthread_cond_timedwait_monotonic_abs", ETIMEDOUT),
    fails("pthread_mutex_timedlock_realtime_abs", ETIMEDOUT),
    fails("pthread_rwlock_timedrdlock_realtime_abs", ETIMEDOUT),
    fails("sem_timedwait_realtime_abs", ETIMEDOUT),
    returns("c11_thrd_sleep", 0),
    fails("pthread_timedjoin_np_realtime_abs", ETIMEDOUT).only_in_glibc(),
    fails("pthread_mutex_clocklock_monotonic_abs", ETIMEDOUT).only_in_glibc(),
    fails("sem_clockwait_monotonic_abs", ETIMEDOUT).only_in_glibc(),
];
