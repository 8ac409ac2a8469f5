//! The failure that one side reports before it ends the session.

use serde::{Deserialize, Serialize};

/// The kind of a failure, for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// The input does not belong to this protocol.
    NotOurs,
    /// The other speaks another version.
    Version,
    /// The queue is too long, in clients or in waiting time.
    Busy,
    /// A rate above what is allowed.
    Rate,
    /// More bytes than are allowed.
    Bytes,
    /// More time than is allowed.
    Time,
    /// No request was made for too long.
    Idle,
    /// A train that cannot be sent.
    Train,
    /// The path of datagrams is not validated.
    Path,
    /// An unexpected message.
    Order,
    /// The host could not do what was requested.
    Failed,
    /// A code of a later version.
    #[serde(other)]
    Other,
}

/// A limit that was reached, or a request that cannot be met.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// For programs.
    pub code: Code,
    /// For people.
    pub message: String,
}

impl Failure {
    /// A failure with this code and message.
    #[must_use]
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}
