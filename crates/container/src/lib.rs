//! Containers with clocks of their own. An existing OCI runtime isolates them; this
//! crate says what the runtime is to do, and brings what it starts into a timeline.
//!
//! For engines:
//!
//! - `settings`: the clocks that a bundle asks for.
//! - `setup`: the entries by which engines find `eigentime-oci`.
//!
//! For `eigentime run` in a container:
//!
//! - `run`: from what is asked for to the exit status.
//! - `image`: images, and where they come from.
//! - `host`: what a container takes from the host, and what of that is put back.
//! - `spec`: what the runtime is told.
//!
//! For both:
//!
//! - `runtime`: the OCI runtimes of this machine.
//! - `program`: programs that are installed, their versions, and how they are started.
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
