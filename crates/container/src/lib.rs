//! Containers with their own clocks. An existing OCI runtime isolates them; this crate tells the
//! runtime what to do, and brings what it starts into a timeline.
//!
//! For engines:
//!
//! - `settings`: the clocks that a bundle requests.
//! - `setup`: the entries with which engines find `eigentime-oci`.
//!
//! For `eigentime run` in a container:
//!
//! - `run`: from the request to the exit status.
//! - `image`: images and their sources.
//! - `host`: the host's resources for a container, and their cleanup.
//! - `spec`: the description for the runtime.
//!
//! For both:
//!
//! - `runtime`: the OCI runtimes of this machine.
//! - `program`: installed programs, their versions, and how they are started.
#![warn(missing_docs)]

pub mod error;
pub mod host;
pub mod image;
pub mod program;
pub mod run;
pub mod runtime;
pub mod settings;
pub mod setup;
pub mod spec;
