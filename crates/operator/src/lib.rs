//! Timelines as objects of Kubernetes.
//!
//! - `api`: the objects.
//! - `controller`: makes a map of each change, for an instant that all nodes can meet.
//! - `agent`: keeps the timelines of a node as the objects say.
//! - `webhook`: lets pods join, and refuses what makes no sense.
//! - `plugin`: `kubectl eigentime`.
//! - `connect`: reaches the API server.
//! - `follow`: follows objects of the API.
//! - `members`: which pods are members of which timelines.
//! - `metrics`, `serve`: what is told over HTTP.
//! - `clock`: the clock of this machine.

#[cfg(test)]
#[macro_use]
extern crate eigentime_harness;

pub mod agent;
pub mod api;
pub mod clock;
pub mod connect;
pub mod controller;
mod follow;
mod members;
mod metrics;
pub mod plugin;
pub mod serve;
pub mod webhook;

/// Waits until this process is told to end.
async fn ended() {
    use tokio::signal::unix::{SignalKind, signal};
    let mut told = signal(SignalKind::terminate()).expect("SIGTERM can be handled");
    tokio::select! {
        _ = told.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
}

#[cfg(test)]
fn main() -> std::process::ExitCode {
    eigentime_harness::main()
}
