//! The probe's output: one JSON document per line, with its `kind`.

use std::collections::BTreeMap;

use eigentime_doctor::Report;
use serde::{Deserialize, Serialize};

/// A line of the probe's output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Record {
    /// The setting of the measurement: the first record, unless the policy is refused.
    Began(Began),
    /// Equal calls, timed together.
    Calls(Calls),
    /// Single readings of a clock, as a distribution.
    Reads(Reads),
    /// Consecutive sleeps.
    Sleeps(Sleeps),
    /// Events of a periodic timer.
    Events(Events),
    /// Readings of a clock compared between two processors, or within a thread.
    Warp(Warp),
    /// The effect of a load on the machine.
    Load(Load),
    /// The doctor's facts about the place where the probe runs.
    Facts(Report),
    /// A measurement that is not possible here, with the reason.
    Skipped(Skipped),
}

/// The setting of a measurement.
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
    /// Whether its memory is locked.
    pub memory_locked: bool,
    /// Ticks of the processor's counter per nanosecond, relative to the kernel's monotonic clock;
    /// in a timeline, which may have a rate of its own, relative to the probe's processor time.
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

/// Equal calls, timed together: a *record* of the first paper.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calls {
    /// The metric: a name of `eigentime-probe calls --list`.
    pub metric: String,
    /// What served the calls, according to the seccomp oracle in this process's environment.
    pub served: Served,
    /// The index of the record for the metric, from 0.
    pub index: u32,
    /// The number of calls.
    pub calls: u64,
    /// Their time, in nanoseconds, including the loop. If calls create or delete something, this is
    /// the sum over chunks (256 timers, 128 descriptors), without preparation and cleanup.
    pub elapsed_ns: u64,
    /// The time of the bare loop per call, in nanoseconds.
    pub loop_ns: f64,
    /// `elapsed_ns / calls - loop_ns`; for sleeps without the subtraction.
    pub call_ns: f64,
}

/// Values and their counts, with none dropped: log-linear, three significant digits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Histogram {
    /// The number of values: the sum of the counts.
    pub count: u64,
    /// The smallest value.
    pub min: u64,
    /// The largest value.
    pub max: u64,
    /// The mean of the values themselves.
    pub mean: f64,
    /// The uncorrected standard deviation of the values themselves.
    pub sd: f64,
    /// The smallest value of each non-empty bucket, and its count.
    pub buckets: Vec<(u64, u64)>,
}

/// Single readings of a clock.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reads {
    /// The source: `tsc`, `clock_gettime`, …
    pub source: String,
    /// `hot`, or `cold`: the vDSO's code and data are flushed from the caches before each; for
    /// `library`, the program's variables and the function's page.
    pub cache: String,
    /// What serves it, according to the seccomp oracle; None if neither does.
    pub served: Option<Served>,
    /// The mean time of an empty bracket, in ticks. It is included in each value.
    pub empty_mean_ticks: f64,
    /// The median of the same, interpolated between the steps of the counter.
    pub empty_median_ticks: f64,
    /// The step of the counter in ticks: each value is a multiple of it.
    pub step_ticks: u64,
    /// Ticks per nanosecond.
    pub ticks_per_ns: f64,
    /// The time of each reading with its bracket, in ticks: nothing is subtracted, so no value is
    /// negative and none must be clamped.
    pub histogram: Histogram,
}

impl Reads {
    /// The mean without the bracket, in nanoseconds.
    #[must_use]
    pub fn mean_ns(&self) -> f64 {
        (self.histogram.mean - self.empty_mean_ticks) / self.ticks_per_ns
    }

    /// The range of the values in a bucket, in ticks: a counter with steps shows the nearest one.
    #[must_use]
    pub fn cell(&self, least: u64) -> [f64; 2] {
        cell(least, self.step_ticks)
    }
}

/// See [`Reads::cell`].
#[must_use]
pub fn cell(least: u64, step_ticks: u64) -> [f64; 2] {
    /// Values of up to this many binary digits have buckets of their own.
    const DIGITS: u32 = 11;
    let bucket = 1_u64 << (u64::BITS - least.leading_zeros()).saturating_sub(DIGITS);
    let middle = least as f64 + (bucket - 1) as f64 / 2.0;
    let half = bucket.max(step_ticks) as f64 / 2.0;
    [middle - half, middle + half]
}

/// Consecutive sleeps with one method.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sleeps {
    /// The method: `usleep`, `nanosleep`, `clock_nanosleep`, `timerfd`, `posix_timer`, `epoll`,
    /// `sleeper`.
    pub method: String,
    /// The requested length, in nanoseconds.
    pub interval_ns: u64,
    /// The timer slack, in nanoseconds; 0 for real-time policies.
    pub slack_ns: u64,
    /// `other`, `fifo:50`.
    pub policy: String,
    /// The number of the first of these, from 0.
    pub first: u64,
    /// Wake-up minus target of each, in nanoseconds.
    pub miss_ns: Vec<i64>,
    /// How many later deadlines of the even grid each of them caused to be missed: without these,
    /// deadlines that were slept through would be invisible (coordinated omission).
    pub missed: Vec<u32>,
    /// The total processor time, in nanoseconds.
    pub cpu_ns: u64,
    /// The time of a reading of CLOCK_MONOTONIC, in nanoseconds: one is included in each miss.
    pub reading_ns: u64,
    /// What was requested and not granted.
    pub degradation: Vec<String>,
}

/// Events of a periodic timer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Events {
    /// The source: `timerfd`, `clock_nanosleep`, `ticker`, `bpf_timer`, `hrtimer`.
    pub source: String,
    /// Where the time of an event is taken: `user` or `kernel`.
    pub place: String,
    /// The requested interval, in nanoseconds.
    pub interval_ns: u64,
    /// The number of the first of these, from 0, among those that came.
    pub first: u64,
    /// The time of the event before these; null if there was none.
    pub before_ns: Option<i64>,
    /// The time of each event, in nanoseconds since the first one was due. Those merged into a
    /// later one are not included.
    pub at_ns: Vec<i64>,
    /// The number of all events, not only of these, that were merged into later ones.
    pub missed: u64,
    /// What was requested and not granted.
    pub degradation: Vec<String>,
}

impl Events {
    /// The time from each event to the next, in nanoseconds; None for the first of all.
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
    /// The processors compared; the same twice for readings within a thread on it.
    pub cpus: [u32; 2],
    /// The length of the comparison, in nanoseconds.
    pub looked_ns: u64,
    /// Readings that were compared with a previous one.
    pub readings: u64,
    /// Those that were behind.
    pub backwards: u64,
    /// The largest such distance, in nanoseconds.
    pub worst_ns: f64,
    /// The smallest warp that would have been seen, in nanoseconds.
    pub smallest_visible_ns: f64,
}

/// The effect of a load on the machine over some time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// `idle`, `cpu`, `io`, `network`.
    pub load: String,
    /// Whether it does its job.
    pub is_loading: bool,
    /// If not, why; otherwise what it does, briefly.
    pub how: String,
    /// The length of the observation, in nanoseconds.
    pub looked_ns: u64,
    /// The busy share of all processors' time, 0 to 100.
    pub cpu_percent: f64,
    /// From /proc/stat.
    pub context_switches_per_second: f64,
    /// From /proc/stat.
    pub interrupts_per_second: f64,
    /// Further numbers: bytes or requests per second, which interrupt was steered.
    pub numbers: BTreeMap<String, f64>,
}

/// A measurement that is not possible here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// What was skipped: a metric, a method, a source, a load, a policy (see
    /// [`policy`](Self::policy)).
    pub what: String,
    /// What it needs.
    pub why: String,
}

/// The prefix of a skipped policy.
const POLICY: &str = "policy ";

impl Skipped {
    /// A policy that the scheduler refuses: `policy fifo:50`. Nothing is measured then.
    #[must_use]
    pub fn of_policy(policy: &str, why: String) -> Self {
        Self { what: format!("{POLICY}{policy}"), why }
    }

    /// The policy that was skipped, if it is one.
    #[must_use]
    pub fn policy(what: &str) -> Option<&str> {
        what.strip_prefix(POLICY)
    }
}
