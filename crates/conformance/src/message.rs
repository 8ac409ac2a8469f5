//! What the probes inside a timeline tell the harness outside: one line of JSON per
//! message, short enough to be written in one piece (PIPE_BUF).

use serde::{Deserialize, Serialize};

use crate::judge::Seen;

/// A line from a timeline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// The order that it answers; 0 for the greeting.
    pub order: u32,
    /// What it says.
    pub what: What,
}

/// What a message says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum What {
    /// The probes are ready for orders.
    Ready,
    /// The wait starts now.
    Begin,
    /// The wait ended just now; what it came to follows.
    End,
    /// What the probe found out.
    Found(Outcome),
    /// The probe's process ended, with this status of `wait`.
    Exit(i32),
}

/// What a probe found out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Outcome {
    /// A wait of `asked` ended when `passed` had passed on its own clock (both in
    /// nanoseconds). The harness knows how long it lasted on the host.
    Waited {
        /// What was asked for.
        asked: i64,
        /// What passed.
        passed: i64,
    },
    /// A length of time, in nanoseconds: what it should be by the clock that it is
    /// said to go by, and what it is.
    Length {
        /// What it should be.
        right: i64,
        /// What it is.
        shown: i64,
        /// What passed on its clock between `Begin` and `End`; 0 if those were not said.
        passed: i64,
    },
    /// All readings, in the order of the table.
    Readings(Vec<Option<i64>>),
    /// The probe judged by itself.
    Seen(Seen, String),
    /// A text that Eigentime must have written to the program's standard error by the
    /// time that the timeline ends.
    Noted(String),
    /// This machine does not have it.
    Skipped(String),
    /// The probe did not come to a result.
    Broken(String),
}
