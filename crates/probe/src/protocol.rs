//! The protocol of `eigentime-probe serve`: a JSON document per line, in both directions.
//!
//! The probe sends a greeting first. It runs requests in separate processes, several at a time, and
//! ends them and itself when its standard input ends.

use serde::{Deserialize, Serialize};

use crate::Record;

/// The version of the protocol.
pub const VERSION: u32 = 1;

/// The first message of the probe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Greeting {
    /// The version of the program.
    pub probe: String,
    /// [`VERSION`].
    pub protocol: u32,
}

/// A request to the probe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// Run the probe with these arguments.
    Run {
        /// The id used in answers; not that of a current run.
        id: u64,
        /// As on the command line, without the program's name.
        arguments: Vec<String>,
    },
    /// End a run: with SIGTERM, and with SIGKILL two seconds later.
    Stop {
        /// The run.
        id: u64,
    },
}

/// An answer from the probe.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// A record of a run.
    Record {
        /// The run.
        id: u64,
        /// The record.
        record: Box<Record>,
    },
    /// A run has ended.
    Ended {
        /// The run.
        id: u64,
        /// Its exit status; 128 + n if signal n has ended it.
        status: i32,
        /// Its standard error output.
        error: String,
    },
    /// An invalid request.
    Refused {
        /// The reason.
        why: String,
    },
}
