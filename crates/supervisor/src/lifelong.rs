//! Reasons to trace programs for their whole life.

use serde::{Deserialize, Serialize};

/// Why programs are traced for their whole life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub enum Lifelong {
    /// It was asked for.
    #[error("by --traced")]
    Asked,
    /// Of each thread it has to be known whether it waits.
    #[error("since idle time is skipped")]
    SkipsTime,
    /// Signals that ask a program to end its waits have to be known.
    #[error("since the clocks are frozen")]
    Frozen,
    /// Yama lets only ancestors trace a process.
    #[error("since kernel.yama.ptrace_scope forbids tracing a program again")]
    Yama,
    /// A process has one listener at most.
    #[error("since another process listens to its seccomp filters")]
    Listened,
    /// Signals that cancel threads have to be told.
    #[error("since it cancels threads")]
    Cancels,
    /// Nobody but root can trace it again.
    #[error("since its memory is closed to this user")]
    Closed,
    /// It may make no other calls.
    #[error("since it is in the strict mode of seccomp")]
    Strict,
    /// The filter of the outer timeline does not tell of all calls that its own clocks change.
    #[error("since its timeline changes clocks that the outer timeline leaves alone")]
    Nested,
}
