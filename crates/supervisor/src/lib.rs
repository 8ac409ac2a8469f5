//! Starts programs in a timeline, follows them, and changes their clocks.
//!
//! [`run`] turns the calling process into the program, so the program has the parent, the terminal,
//! the descriptors and the exit status that it would have without a timeline. Before that, it
//! splits off a **supervisor**: a process that traces the program and all its descendants until the
//! last of them has ended. They end if it ends.
//!
//! - `motion`: how the clocks run.
//! - `plan`: a request, and the map that follows from it.
//! - `lifelong`: why programs are traced for their whole life.
//! - `launch`: the steps from the calling process to the program.
//! - `caller`: the calling process.
//! - `checkpoint`: timelines at rest for CRIU, and restored programs brought back into one.
//! - `daemon`: the supervisor's process.
//! - `named`: the same for named timelines; attaching and detaching.
//! - `nested`: the same for timelines inside others.
//! - `version`: joining a timeline that another version keeps.
//! - `container`: the same for the OCI runtimes that create containers.
//! - `moved`: the data of a checkpoint that CRIU does not have.
//! - `namespace`: time and user namespaces.
//! - `region`: the memory that every program of the timeline shares.
//! - `filter`: the seccomp filter, generated from the table of calls.
//! - `fingerprint`: fingerprints of text and code.
//! - `replaced`: files that are replaced temporarily.
//! - `clock_request`: a request for a timeline, however it is written.
//! - `consent`: what the creator of a timeline allows others.
//! - `container_id`: how engines identify a container.
//! - `registry`: the directory of named timelines, their names, and its lock.
//! - `control`: the control of named timelines.
//! - `saved`: a timeline as a document; `onward`: where it resumes after a move.
//! - `skip`: how a timeline skips idle time.
//! - `host`: properties of this host's clocks and kernel.
//! - `proc`: information from `/proc` on processes; `maps`: their mappings.
//! - `arch`: what differs between architectures.
//! - `tracer`: the supervisor.
#![warn(missing_docs)]

mod arch;
mod caller;
mod checkpoint;
pub mod clock_request;
mod consent;
pub mod container;
mod container_id;
pub mod control;
mod daemon;
mod error;
mod filter;
mod fingerprint;
mod host;
mod launch;
mod lifelong;
mod maps;
mod motion;
mod moved;
mod named;
mod namespace;
mod nested;
mod onward;
mod plan;
mod proc;
mod region;
pub mod registry;
pub mod replaced;
mod saved;
mod skip;
mod tracer;
mod version;

pub use caller::{arguments, hold_closed_descriptors, keep_arguments};
pub use checkpoint::{
    Clocked, Moments, Moved, Onto, Rest, Restoring, bring_back, end_tree, enter_time_of, look_at,
    time_namespace_of, tree_of,
};
pub use clock_request::ClockRequest;
pub use consent::{Consent, NamedBy, SettableBy};
pub use error::{Error, ExecError};
pub use launch::{create, run, run_in_namespace};
pub use motion::Motion;
pub use moved::{Left, QUEUED_BY_CRIU, Resting, Stood, Withheld};
pub use named::{
    Looked, Manner, adopt, attach, detach, in_none, lend_name, match_version, timeline_with,
};
pub use namespace::is_privileged;
pub use onward::{Course, Onward, SLEW_RATE};
pub use plan::{Clocks, Lifelong, Plan, Start, Tracing, Wall};
pub use proc::{Pidfd, is_in_timeline};
pub use region::REGION_NAME;
pub use saved::{Policies, Policy, Saved, Unreadable};
pub use skip::{AtLimit, Limit, Skip, parse_busy_rate, parse_pause, parse_skips};
