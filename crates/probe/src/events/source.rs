//! What a source of events is, and what it is asked for.

use std::error::Error;
use std::time::Duration;

/// A source of events: a row of the tables.
pub struct Source {
    /// As it is called by `--source` and in records.
    pub name: &'static str,
    /// Where the time of an event is taken.
    pub place: Place,
    /// Asks for events, waits for them, and says when they were.
    pub measure: fn(&Asked) -> Result<Measured, Failure>,
}

/// Where the time of an event is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In the thread that the event wakes.
    User,
    /// In the interrupt itself.
    // The rows of the kernel's sources are the ones that have it.
    #[allow(dead_code)]
    Kernel,
}

/// What a source is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// From one event to the next: not zero.
    pub interval: Duration,
    /// How many: those that are delivered and those that are missed.
    pub count: u32,
    /// The processor that they are to come on. The thread that asks is on it, too, and stays
    /// there if it was pinned.
    pub cpu: u32,
}

/// What came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    /// When each event was, in nanoseconds since the first one was due.
    pub at_ns: Vec<i64>,
    /// Those that were merged into a later one. With those that came, as many as were asked for.
    pub missed: u64,
    /// What was asked for and not granted.
    pub degradation: Vec<String>,
}

/// Why there is nothing.
#[derive(Debug)]
pub enum Failure {
    /// It cannot be had here: what it needs. The record is then
    /// [`Skipped`](eigentime_probe::record::Skipped).
    Unavailable {
        /// What it needs.
        why: String,
    },
    /// It should have worked: also where it has stopped half-way.
    Failed(Box<dyn Error>),
}

impl Place {
    /// As it is called in records.
    pub const fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Kernel => "kernel",
        }
    }
}

impl Failure {
    /// It cannot be had here.
    pub fn unavailable(why: impl Into<String>) -> Self {
        Self::Unavailable { why: why.into() }
    }
}

impl<E: Into<Box<dyn Error>>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}
