use std::fmt;
use std::time::Duration;

use crate::Instant;

/// How a sleep went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slept {
    /// When it was to end.
    pub target: Instant,
    /// When it has ended.
    pub woke: Instant,
    /// How late that was: never early.
    pub miss: Duration,
    /// How long it has spun, without what it was kept off the processor meanwhile.
    pub spun: Duration,
    /// How late the kernel has ended its part; none if the sleep was too short for it to have one.
    pub kernel_miss: Option<Duration>,
    /// How long before the target the kernel was to end its part: the most that could be spun.
    pub guard: Duration,
    /// What kept it.
    pub lateness: Lateness,
}

/// What kept a sleep beyond its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lateness {
    /// Nothing: it ended on time, or its target had passed when it was asked for.
    OnTime,
    /// The kernel woke it after the target already: the timer came late, the processor was slow
    /// to wake, or busy with something else.
    WokenLate,
    /// It was awake, and then something else ran on its processor for more than 2 µs: another
    /// thread, an interrupt, or, which leaves no trace in the kernel's counts, another guest of
    /// the host.
    Preempted,
}

impl Slept {
    /// A sleep that had nothing to wait for.
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
    /// What was left of the sleep.
    pub remaining: Duration,
}
