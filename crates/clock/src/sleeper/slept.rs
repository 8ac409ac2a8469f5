use std::fmt;
use std::time::Duration;

use crate::Instant;

/// The outcome of a sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slept {
    /// The target.
    pub target: Instant,
    /// When it ended.
    pub woke: Instant,
    /// How late it ended; never early.
    pub miss: Duration,
    /// How long it spun, excluding time off the processor.
    pub spun: Duration,
    /// How late the kernel ended its part; none if the sleep was too short to have one.
    pub kernel_miss: Option<Duration>,
    /// How long before the target the kernel was asked to end its part: the maximum time to spin.
    pub guard: Duration,
    /// The cause of its lateness.
    pub lateness: Lateness,
}

/// Why a sleep ended after its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lateness {
    /// It ended on time, or its target had passed when it was requested.
    OnTime,
    /// The kernel woke it after the target: the timer was late, or the processor was slow to wake
    /// or busy.
    WokenLate,
    /// It was awake, and then something else ran on its processor for more than 2 µs: another
    /// thread, an interrupt, or another guest of the host, which leaves no trace in the kernel's
    /// counts.
    Preempted,
}

impl Slept {
    /// A sleep whose target had already passed.
    pub(super) fn at_once(target: Instant, woke: Instant) -> Self {
        Self {
            target,
            woke,
            miss: woke - target,
            spun: Duration::ZERO,
            kernel_miss: None,
            guard: Duration::ZERO,
            lateness: Lateness::OnTime,
        }
    }
}

impl fmt::Display for Lateness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OnTime => "on time",
            Self::WokenLate => "woken late by the kernel",
            Self::Preempted => "kept off the processor",
        })
    }
}

/// A signal handler ran before the sleep was over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a signal came {remaining:?} before the end of the sleep")]
pub struct Interrupted {
    /// The remaining part of the sleep.
    pub remaining: Duration,
}
