//! What a path is to be.

use std::path::PathBuf;
use std::time::Duration;

use super::host::End;
use super::way;

/// What a path is to be, and how it is run.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Between what.
    pub ends: [End; 2],
    /// From the first end to the second, and back.
    pub ways: [way::Settings; 2],
    /// For how long.
    pub duration: Duration,
    /// Where its truth is written.
    pub truth: Option<PathBuf>,
    /// How long each span of the truth is.
    pub truth_every: Duration,
    /// The processor that it runs on.
    pub cpu: Option<usize>,
    /// The real-time priority (SCHED_FIFO) that it has where that is allowed.
    pub realtime: Option<u8>,
}
