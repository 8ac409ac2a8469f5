//! The conversation with `eigentime-probe serve`: a JSON document a line, each way.
//!
//! The probe greets first. It runs what it is told in processes of its own, several at a time, and
//! ends them and itself when its standard input ends.

use serde::{Deserialize, Serialize};

use crate::Record;

/// The version of the conversation.
pub const VERSION: u32 = 1;

/// What the probe says first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Greeting {
    /// The version of the program.
    pub probe: String,
    /// [`VERSION`].
    pub protocol: u32,
}

/// What it is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// Run the probe with these arguments.
    Run {
        /// By which answers name it; not one that is running.
        id: u64,
        /// As on the command line, without the program's name.
        arguments: Vec<String>,
    },
    /// End what is running: by SIGTERM, and by SIGKILL two seconds later.
    Stop {
        /// Which.
        id: u64,
    },
}

/// What it answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// A record of a run.
    Record {
        /// Of which.
        id: u64,
        /// The record.
        record: Box<Record>,
    },
    /// A run has ended.
    Ended {
        /// Which.
        id: u64,
        /// Its exit status; 128 + n where signal n has ended it.
        status: i32,
        /// What it said on its standard error.
        error: String,
    },
    /// A request that makes no sense.
    Refused {
        /// Why.
        why: String,
    },
}
