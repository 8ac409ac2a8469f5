//! Reasons to trace programs for their whole life.

use serde::{Deserialize, Serialize};

/// Why programs are traced for their whole life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, thiserror::Error)]
#[cfg_attr(any(test, feature = "schema"), derive(schemars::JsonSchema))]
pub enum Lifelong {
    /// It was requested.
    #[error("by --traced")]
    Asked,
    /// The supervisor must know whether each thread waits.
    #[error("since idle time is skipped")]
    SkipsTime,
    /// The supervisor must see signals that ask a program to end its waits.
    #[error("since the clocks are frozen")]
    Frozen,
    /// Yama lets only ancestors trace a process.
    #[error("since kernel.yama.ptrace_scope forbids tracing a program again")]
    Yama,
    /// A process can have only one listener.
    #[error("since another process listens to its seccomp filters")]
    Listened,
    /// The supervisor must see signals that cancel threads.
    #[error("since it cancels threads")]
    Cancels,
    /// Only root can trace it again.
    #[error("since its memory is closed to this user")]
    Closed,
    /// It may make no other calls than those of the strict mode.
    #[error("since it is in the strict mode of seccomp")]
    Strict,
    /// The filter of the outer timeline does not report all calls that its own clocks change.
    #[error("since its timeline changes clocks that the outer timeline leaves alone")]
    Nested,
}
