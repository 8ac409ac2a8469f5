//! The definition of an event source, and its request.

use std::error::Error;
use std::time::Duration;

/// A source of events: a row of the tables.
pub struct Source {
    /// Its name for `--source` and in records.
    pub name: &'static str,
    /// Where the time of an event is taken.
    pub place: Place,
    /// Requests events, waits for them, and returns their times.
    pub measure: fn(&Asked) -> Result<Measured, Failure>,
}

/// Where the time of an event is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the thread that the event wakes.
    User,
    /// In the interrupt itself.
    // Only the rows of the kernel's sources use it.
    #[allow(dead_code)]
    Kernel,
}

/// A request to a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The interval between events; not zero.
    pub interval: Duration,
    /// The number of events, delivered or missed.
    pub count: u32,
    /// The processor for the events. The requesting thread is also on it, and stays there if it was
    /// pinned.
    pub cpu: u32,
}

/// The result of a measurement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    /// The time of each event, in nanoseconds since the first one was due.
    pub at_ns: Vec<i64>,
    /// Events that were merged into a later one. Together with those that came, as many as were
    /// requested.
    pub missed: u64,
    /// What was requested and not granted.
    pub degradation: Vec<String>,
}

/// Why there is no result.
#[derive(Debug)]
pub enum Failure {
    /// It is not available here: what it needs. The record is then
    /// [`Skipped`](eigentime_probe::record::Skipped).
    Unavailable {
        /// What it needs.
        why: String,
    },
    /// It should have worked, or has stopped half-way.
    Failed(Box<dyn Error>),
}

impl Place {
    /// Its name in records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Kernel => "kernel",
        }
    }
}

impl Failure {
    /// The failure of an unavailable source.
    pub fn unavailable(why: impl Into<String>) -> Self {
        Self::Unavailable { why: why.into() }
    }
}

impl<E: Into<Box<dyn Error>>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}
