//! Runs probes on levels under loads, and stores their results.
//!
//! - `levels`: where probes run, and how each is started.
//! - `load`: what keeps the levels busy meanwhile.
//! - `measurement`: what is measured.
//! - `preset`: named plans.
//! - `plan`: what is measured in which order.
//! - `results`: the stored results.
//! - `session`: the conversation with a probe.
//! - `stop`: how a study is asked to stop.
//! - `study`: from a plan to its results.
//! - `summary`: the table at the end.
#![warn(missing_docs)]
#![forbid(unsafe_code)]

#[cfg(test)]
#[macro_use]
extern crate eigentime_harness;

#[cfg(test)]
mod fake;
pub mod levels;
pub mod load;
pub mod measurement;
pub mod plan;
pub mod preset;
pub mod results;
pub mod session;
pub mod stop;
pub mod study;
pub mod summary;

pub use eigentime_probe::metrics;

#[cfg(test)]
fn main() -> std::process::ExitCode {
    eigentime_harness::main()
}
