//! Timelines as objects of Kubernetes.
//!
//! - `api`: the objects.
//! - `controller`: makes a map of each change, for an instant that all nodes can meet.
//! - `agent`: keeps the timelines of a node as specified by the objects.
//! - `webhook`: lets pods join, and refuses invalid objects.
//! - `plugin`: `kubectl eigentime`.
//! - `connect`: connects to the API server.
//! - `follow`: follows objects of the API.
//! - `members`: which pods are members of which timelines.
//! - `metrics`, `serve`: metrics over HTTP.
//! - `clock`: the clock of this machine; `unchanged`: how long others have written nothing,
//!   measured with it.

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
mod unchanged;
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

/// The text of an event, truncated to the API server's limit.
fn event_note(mut text: String) -> String {
    const LONGEST: usize = 1024;
    const CUT: &str = "...";
    if text.len() > LONGEST {
        let end = (0..=LONGEST - CUT.len()).rev().find(|end| text.is_char_boundary(*end));
        text.truncate(end.unwrap_or(0));
        text.push_str(CUT);
    }
    text
}

#[cfg(test)]
fn main() -> std::process::ExitCode {
    eigentime_harness::main()
}

#[cfg(test)]
mod tests {
    #[test]
    fn an_event_has_no_more_than_the_api_server_takes() {
        assert_eq!(super::event_note("short".into()), "short");
        let cut = super::event_note("µ".repeat(1024));
        assert_eq!((cut.len(), cut.ends_with("µ...")), (1023, true));
    }
}
