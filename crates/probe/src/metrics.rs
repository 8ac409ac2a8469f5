//! The metrics, a row each. The options of the probe and of `eigentime bench`, `metrics` in
//! `manifest.json`, and its documentation are generated from them.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// A metric.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metric {
    /// The command of the probe that measures it, which is also the name of the table of results:
    /// `calls`, `read`, `sleep`, `events`, `warp`.
    pub kind: Cow<'static, str>,
    /// Its name in rows and options.
    pub name: Cow<'static, str>,
    /// The column with its values.
    pub column: Cow<'static, str>,
    /// Their unit.
    pub unit: Cow<'static, str>,
    /// The meaning of a value.
    pub meaning: Cow<'static, str>,
    /// Which of two values is better.
    pub better: Better,
    /// The requested part of each value, in its unit: the rest is latency.
    pub asked: Option<u64>,
}

/// Which of two values is better.
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// The lower one.
    Lower,
    /// The one closer to the requested interval.
    CloserToInterval,
}

/// A metric in nanoseconds.
const fn row(
    kind: &'static str,
    column: &'static str,
    better: Better,
    asked: Option<u64>,
    name: &'static str,
    meaning: &'static str,
) -> Metric {
    Metric {
        kind: Cow::Borrowed(kind),
        name: Cow::Borrowed(name),
        column: Cow::Borrowed(column),
        unit: Cow::Borrowed("ns"),
        meaning: Cow::Borrowed(meaning),
        better,
        asked,
    }
}

const fn call(name: &'static str, meaning: &'static str) -> Metric {
    row("calls", "call_ns", Better::Lower, None, name, meaning)
}

/// A call that sleeps for 100 ms, as in the paper.
const fn sleeping_call(name: &'static str, meaning: &'static str) -> Metric {
    row("calls", "call_ns", Better::Lower, Some(100_000_000), name, meaning)
}

const fn reading(name: &'static str, meaning: &'static str) -> Metric {
    row("read", "value_ns", Better::Lower, None, name, meaning)
}

const fn sleep(name: &'static str, meaning: &'static str) -> Metric {
    row("sleep", "miss_ns", Better::Lower, None, name, meaning)
}

const fn events(name: &'static str, meaning: &'static str) -> Metric {
    row("events", "after_ns", Better::CloserToInterval, None, name, meaning)
}

/// The calls of Table IV of *Time namespaces in containers*, in its order and with its names.
pub const CALLS: &[Metric] = &[
    sleeping_call("clock_nanosleep", "Duration of a sleep of 100 ms by clock_nanosleep(2)"),
    sleeping_call("nanosleep", "Duration of a sleep of 100 ms by nanosleep(2)"),
    call("clock_getres", "Duration of the system call clock_getres(2)"),
    call("clock_gettime_boottime", "Duration of the system call clock_gettime(2), CLOCK_BOOTTIME"),
    call(
        "clock_gettime_monotonic",
        "Duration of the system call clock_gettime(2), CLOCK_MONOTONIC",
    ),
    call("gettimeofday", "Duration of the system call gettimeofday(2)"),
    call("timer_create", "Duration of timer_create(2)"),
    call("timer_settime", "Duration of timer_settime(2), of a timer that is armed"),
    call("timer_delete", "Duration of timer_delete(2)"),
    call("timer_getoverrun", "Duration of timer_getoverrun(2), of a timer that has not expired"),
    call("timerfd_create", "Duration of timerfd_create(2)"),
    call("timerfd_settime", "Duration of timerfd_settime(2), of a timer that is armed"),
    call("vdso_clock_gettime_boottime", "Duration of clock_gettime(2) by the vDSO, CLOCK_BOOTTIME"),
    call(
        "vdso_clock_gettime_monotonic",
        "Duration of clock_gettime(2) by the vDSO, CLOCK_MONOTONIC",
    ),
    call("vdso_gettimeofday", "Duration of gettimeofday(2) by the vDSO"),
];

/// Calls that the probe measures only on request, and `eigentime bench` does not.
pub const MORE_CALLS: &[Metric] = &[
    call("clock_gettime_realtime", "Duration of the system call clock_gettime(2), CLOCK_REALTIME"),
    call("vdso_clock_gettime_realtime", "Duration of clock_gettime(2) by the vDSO, CLOCK_REALTIME"),
    call(
        "vdso_clock_gettime_realtime_coarse",
        "Duration of clock_gettime(2) by the vDSO, CLOCK_REALTIME_COARSE",
    ),
    call(
        "vdso_clock_gettime_monotonic_coarse",
        "Duration of clock_gettime(2) by the vDSO, CLOCK_MONOTONIC_COARSE",
    ),
    call(
        "vdso_clock_gettime_monotonic_raw",
        "Duration of clock_gettime(2) by the vDSO, CLOCK_MONOTONIC_RAW",
    ),
    call(
        "vdso_clock_gettime_thread_cputime",
        "Duration of clock_gettime(2) by the vDSO, CLOCK_THREAD_CPUTIME_ID: it falls back",
    ),
    call("vdso_clock_getres", "Duration of clock_getres(2) by the vDSO"),
    call("vdso_getcpu", "Duration of getcpu(2) by the vDSO"),
    call("getcpu", "Duration of the system call getcpu(2)"),
];

/// Single readings of clocks.
pub const READS: &[Metric] = &[
    reading("tsc", "Duration of a reading of the processor's counter"),
    reading("clock_gettime", "Duration of a reading of CLOCK_MONOTONIC by the vDSO"),
    reading("clock_gettime_raw", "Duration of a reading of CLOCK_MONOTONIC by a system call"),
    reading("library", "Duration of a reading of libeigentime's clock"),
];

/// Methods of sleeping.
pub const SLEEPS: &[Metric] = &[
    sleep("usleep", "Latency of a sleep by usleep(3)"),
    sleep("nanosleep", "Latency of a sleep by nanosleep(2)"),
    sleep("clock_nanosleep", "Latency of a sleep by clock_nanosleep(2), to a deadline"),
    sleep("timerfd", "Latency of a sleep by timerfd_create(2), to a deadline"),
    sleep("posix_timer", "Latency of a sleep by timer_create(2) and sigwaitinfo(2), to a deadline"),
    sleep("epoll", "Latency of a sleep by epoll_pwait2(2)"),
    sleep("sleeper", "Latency of a sleep by libeigentime's sleeper, to a deadline"),
];

/// Sources of periodic events.
pub const EVENTS: &[Metric] = &[
    events("timerfd", "Interval between two events of a timerfd"),
    events("clock_nanosleep", "Interval between two wake-ups by clock_nanosleep(2)"),
    events("ticker", "Interval between two events of libeigentime's ticker"),
    events("bpf_timer", "Interval between two events of a BPF timer, in the kernel"),
    events("hrtimer", "Interval between two events of an hrtimer, in the kernel"),
];

/// Comparisons of clocks.
pub const WARPS: &[Metric] =
    &[row("warp", "worst_ns", Better::Lower, None, "worst", "The largest step back of a clock")];

/// All metrics of `eigentime bench`.
pub fn of_a_study() -> impl Iterator<Item = &'static Metric> {
    [CALLS, READS, SLEEPS, EVENTS, WARPS].into_iter().flatten()
}

/// Their names.
pub fn names(of: &'static [Metric]) -> impl Iterator<Item = &'static str> + Clone {
    of.iter().map(|metric| metric.name.as_ref())
}
