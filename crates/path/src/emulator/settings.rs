//! The settings of a path.

use std::path::PathBuf;
use std::time::Duration;

use super::host::End;
use super::way;

/// The settings of a path and of its emulation.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Its ends.
    pub ends: [End; 2],
    /// The directions: from the first end to the second, and back.
    pub ways: [way::Settings; 2],
    /// How long to run.
    pub duration: Duration,
    /// The file for its truth.
    pub truth: Option<PathBuf>,
    /// The length of each span of the truth.
    pub truth_every: Duration,
    /// The processor that it runs on.
    pub cpu: Option<usize>,
    /// The real-time priority (SCHED_FIFO) to use if allowed.
    pub realtime: Option<u8>,
}
