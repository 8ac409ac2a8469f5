//! What the probe prints: one JSON document a line, with its `kind`.

use std::collections::BTreeMap;

use eigentime_doctor::Report;
use serde::{Deserialize, Serialize};

/// A line of the probe's output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Record {
    /// How the measurement is made: the first, unless the policy is refused.
    Began(Began),
    /// A number of equal calls, timed together.
    Calls(Calls),
    /// Single readings of a clock, as a distribution.
    Reads(Reads),
    /// Sleeps, one after the other.
    Sleeps(Sleeps),
    /// Events of a periodic timer.
    Events(Events),
    /// Readings of a clock compared between two processors, or within a thread.
    Warp(Warp),
    /// What a load does to the machine.
    Load(Load),
    /// What the doctor says of the place where the probe runs.
    Facts(Report),
    /// What cannot be measured here, and why.
    Skipped(Skipped),
}

/// How a measurement is made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Began {
    /// The probe's version.
    pub version: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// The processor that it is pinned to; None if it is not, or may not be.
    pub cpu: Option<u32>,
    /// Its scheduling policy: `other`, `fifo:50`.
    pub policy: String,
    /// Its timer slack, in nanoseconds.
    pub slack_ns: u64,
    /// Whether its memory is kept from being paged out.
    pub memory_locked: bool,
    /// Ticks of the processor's counter in a nanosecond, by the kernel's monotonic clock; in a
    /// timeline, which may have a rate of its own, by the processor time of the probe.
    pub ticks_per_ns: f64,
    /// CLOCK_REALTIME when it began, in nanoseconds since the epoch.
    pub realtime_ns: i64,
}

/// What serves a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Served {
    /// The vDSO, without the kernel.
    Vdso,
    /// The kernel.
    SystemCall,
}

/// A number of equal calls, timed together: a *record* of the first paper.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calls {
    /// Which metric: a name of `eigentime-probe calls --list`.
    pub metric: String,
    /// What served the calls, by the seccomp oracle in this process's place.
    pub served: Served,
    /// Which record of the metric, from 0.
    pub index: u32,
    /// How many calls.
    pub calls: u64,
    /// What they took, in nanoseconds, the loop included. Where calls make or end something, this is
    /// the sum over chunks (256 timers, 128 descriptors), without what prepares or undoes them.
    pub elapsed_ns: u64,
    /// What the bare loop takes for one call, in nanoseconds.
    pub loop_ns: f64,
    /// `elapsed_ns / calls - loop_ns`; for sleeps without the subtraction.
    pub call_ns: f64,
}

/// Values and how often they came, nothing dropped: log-linear, three significant digits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Histogram {
    /// How many values: the sum of the counts.
    pub count: u64,
    /// The least.
    pub min: u64,
    /// The greatest.
    pub max: u64,
    /// The mean of the values themselves.
    pub mean: f64,
    /// The uncorrected standard deviation of the values themselves.
    pub sd: f64,
    /// The least value of each bucket that is not empty, and its count.
    pub buckets: Vec<(u64, u64)>,
}

/// Single readings of a clock.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reads {
    /// What is read: `tsc`, `clock_gettime`, …
    pub source: String,
    /// `hot`, or `cold`: the vDSO's code and data are flushed from the caches before each; of
    /// `library`, the program's variables and the function's page.
    pub cache: String,
    /// What serves it, by the seccomp oracle; None of what neither does.
    pub served: Option<Served>,
    /// What bracketing nothing takes, in ticks: the mean. It is in each value.
    pub empty_mean_ticks: f64,
    /// The same, the median, between the steps of the counter.
    pub empty_median_ticks: f64,
    /// The counter goes in steps of this many ticks: each value is a multiple of it.
    pub step_ticks: u64,
    /// Ticks in a nanosecond.
    pub ticks_per_ns: f64,
    /// What each reading took with its bracket, in ticks: nothing is subtracted, so that nothing
    /// is less than 0 and none has to be clamped.
    pub histogram: Histogram,
}

impl Reads {
    /// The mean without the bracket, in nanoseconds.
    #[must_use]
    pub fn mean_ns(&self) -> f64 {
        (self.histogram.mean - self.empty_mean_ticks) / self.ticks_per_ns
    }

    /// Between which lengths the values of a bucket are, in ticks: a counter with steps shows the
    /// nearest one.
    #[must_use]
    pub fn cell(&self, least: u64) -> [f64; 2] {
        cell(least, self.step_ticks)
    }
}

/// See [`Reads::cell`].
#[must_use]
pub fn cell(least: u64, step_ticks: u64) -> [f64; 2] {
    /// Values of so many binary digits have buckets of their own.
    const DIGITS: u32 = 11;
    let bucket = 1_u64 << (u64::BITS - least.leading_zeros()).saturating_sub(DIGITS);
    let middle = least as f64 + (bucket - 1) as f64 / 2.0;
    let half = bucket.max(step_ticks) as f64 / 2.0;
    [middle - half, middle + half]
}

/// Sleeps, one after the other, in one way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sleeps {
    /// How: `usleep`, `nanosleep`, `clock_nanosleep`, `timerfd`, `posix_timer`, `epoll`, `sleeper`.
    pub method: String,
    /// What was asked for, in nanoseconds.
    pub interval_ns: u64,
    /// The timer slack, in nanoseconds; 0 for real-time policies.
    pub slack_ns: u64,
    /// `other`, `fifo:50`.
    pub policy: String,
    /// The number of the first of these, from 0.
    pub first: u64,
    /// Wake-up minus target of each, in nanoseconds.
    pub miss_ns: Vec<i64>,
    /// How many later deadlines of the even grid each of them made the program miss: without
    /// these, what is slept through would not be seen (coordinated omission).
    pub missed: Vec<u32>,
    /// Processor time that all of it took, in nanoseconds.
    pub cpu_ns: u64,
    /// What a reading of CLOCK_MONOTONIC takes, in nanoseconds: one is in each miss.
    pub reading_ns: u64,
    /// What was asked for and not granted.
    pub degradation: Vec<String>,
}

/// Events of a periodic timer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Events {
    /// Whose: `timerfd`, `clock_nanosleep`, `ticker`, `bpf_timer`, `hrtimer`.
    pub source: String,
    /// Where the time of an event is taken: `user` or `kernel`.
    pub place: String,
    /// What was asked for, in nanoseconds.
    pub interval_ns: u64,
    /// The number of the first of these, from 0, of those that came.
    pub first: u64,
    /// When the event before these was; null where there was none.
    pub before_ns: Option<i64>,
    /// When each event was, in nanoseconds since the first one was due. Those that were merged
    /// into a later one are not here.
    pub at_ns: Vec<i64>,
    /// How many of all events, not only of these, were merged into later ones.
    pub missed: u64,
    /// What was asked for and not granted.
    pub degradation: Vec<String>,
}

impl Events {
    /// From each event to the next, in nanoseconds; None for the first of all.
    pub fn after_ns(&self) -> impl Iterator<Item = Option<i64>> {
        let before = std::iter::once(self.before_ns).chain(self.at_ns.iter().copied().map(Some));
        before.zip(&self.at_ns).map(|(before, at)| Some(at - before?))
    }
}

/// Readings of a clock compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Warp {
    /// `tsc`, `CLOCK_MONOTONIC`, …
    pub clock: String,
    /// Between which processors; the same twice: within a thread on it.
    pub cpus: [u32; 2],
    /// How long was looked, in nanoseconds.
    pub looked_ns: u64,
    /// Readings that were compared with one before them.
    pub readings: u64,
    /// Those that were behind.
    pub backwards: u64,
    /// By how much at most, in nanoseconds.
    pub worst_ns: f64,
    /// What would have been seen at least, in nanoseconds.
    pub smallest_visible_ns: f64,
}

/// What a load does to the machine, over some time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// `idle`, `cpu`, `io`, `network`.
    pub load: String,
    /// Does it what it is for?
    pub is_loading: bool,
    /// If not, why; else what it does, in a few words.
    pub how: String,
    /// Over how long this was looked at, in nanoseconds.
    pub looked_ns: u64,
    /// Of all processors' time, the part that was not idle, 0 to 100.
    pub cpu_percent: f64,
    /// By /proc/stat.
    pub context_switches_per_second: f64,
    /// By /proc/stat.
    pub interrupts_per_second: f64,
    /// More of it: bytes or requests a second, which interrupt was steered.
    pub numbers: BTreeMap<String, f64>,
}

/// What cannot be measured here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// What: a metric, a method, a source, a load, a policy (see [`policy`](Self::policy)).
    pub what: String,
    /// What it needs.
    pub why: String,
}

/// What a skipped policy begins with.
const POLICY: &str = "policy ";

impl Skipped {
    /// A policy that the scheduler refuses: `policy fifo:50`. Nothing is measured then.
    #[must_use]
    pub fn of_policy(policy: &str, why: String) -> Self {
        Self { what: format!("{POLICY}{policy}"), why }
    }

    /// The policy in what was skipped, if it is one.
    #[must_use]
    pub fn policy(what: &str) -> Option<&str> {
        what.strip_prefix(POLICY)
    }
}
