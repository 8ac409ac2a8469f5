//! Messages from the probes inside a timeline to the harness outside: one line of JSON each, short
//! enough to be written atomically (PIPE_BUF).

use serde::{Deserialize, Serialize};

use crate::seen::Seen;

/// A line from a timeline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// The order that it answers; 0 for the greeting.
    pub order: u32,
    /// The contents.
    pub what: What,
}

/// The contents of a message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum What {
    /// The probes are ready for orders.
    Ready,
    /// The wait starts now.
    Begin,
    /// The wait has just ended; its result follows.
    End,
    /// The finding of the probe.
    Found(Outcome),
    /// The probe's process ended, with this wait status.
    Exit(i32),
}

/// The finding of a probe.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Outcome {
    /// A wait of `asked` ended when `passed` had passed on its own clock (both in nanoseconds). The
    /// harness knows its duration on the host.
    Waited {
        /// The requested time.
        asked: i64,
        /// The time that passed.
        passed: i64,
    },
    /// A length of time, in nanoseconds: the expected one on the clock of its claim, and the actual
    /// one.
    Length {
        /// The expected length.
        right: i64,
        /// The actual length.
        shown: i64,
        /// The time that passed on its clock between `Begin` and `End`; 0 if those were not sent.
        passed: i64,
    },
    /// All readings, in the order of the table.
    Readings(Vec<Option<i64>>),
    /// The probe's own judgment.
    Seen(Seen, String),
    /// A text that Eigentime must have written to the program's standard error by the end of the
    /// timeline.
    Noted(String),
    /// This machine does not have the interface.
    Skipped(String),
    /// The probe had no result.
    Broken(String),
}
