//! What one side tells the other before it ends the session.

use serde::{Deserialize, Serialize};

/// What one side has against the other, for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// What came is not of this protocol.
    NotOurs,
    /// The other speaks another version.
    Version,
    /// Others are served first, for longer than one may wait, or too many wait.
    Busy,
    /// A rate above what is allowed.
    Rate,
    /// More bytes than are allowed.
    Bytes,
    /// More time than is allowed.
    Time,
    /// Nothing was asked for, for too long.
    Idle,
    /// A train that cannot be sent.
    Train,
    /// The path of datagrams is not validated.
    Path,
    /// A message where another was due.
    Order,
    /// The host failed to do what was asked.
    Failed,
    /// Something a later version may say.
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
    /// With this code and message.
    #[must_use]
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}
