//! Timelines as objects of Kubernetes.
//!
//! - `api`: the objects.
//! - `controller`: makes a map of each change, for an instant that all nodes can meet.
//! - `agent`: keeps the timelines of a node as the objects say.
//! - `webhook`: lets pods join, and refuses what makes no sense.
//! - `members`: which pods are members of which timelines.
//! - `metrics`, `serve`: what is told over HTTP.
//! - `clock`: the clock of this machine.

mod agent;
mod api;
mod clock;
mod controller;
mod members;
mod metrics;
mod serve;
mod webhook;

use std::net::SocketAddr;

use clap::{Parser, Subcommand};
use kube::Client;
use tracing_subscriber::EnvFilter;

/// Timelines as objects of Kubernetes
#[derive(Parser)]
#[command(name = "eigentime-operator", version)]
struct Arguments {
    #[command(subcommand)]
    part: Part,
    /// Where metrics and the state of health are served
    #[arg(long, global = true, value_name = "ADDRESS:PORT")]
    metrics: Option<SocketAddr>,
}

#[derive(Subcommand)]
enum Part {
    /// Print the definitions of the objects
    Crds,
    /// Make a map of each change of a timeline
    Controller(controller::lease::Options),
    /// Keep the timelines of a node
    Agent(agent::Options),
    /// Let pods join their timeline, and refuse what makes no sense
    Webhook(webhook::Options),
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let Arguments { part, metrics } = Arguments::parse();
    if let Part::Crds = part {
        print!("{}", api::definitions());
        return Ok(());
    }
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt().json().with_env_filter(filter).with_writer(std::io::stderr).init();
    if let Some(address) = metrics {
        tokio::spawn(serve::metrics(serve::listen(address).await?));
    }
    let client = Client::try_default().await?;
    match part {
        Part::Crds => unreachable!("they are printed"),
        Part::Controller(options) => controller::run(client, options).await,
        Part::Agent(options) => agent::run(client, options).await,
        Part::Webhook(options) => webhook::run(client, options).await,
    }
}

/// Waits until this process is told to end.
async fn ended() {
    use tokio::signal::unix::{SignalKind, signal};
    let mut told = signal(SignalKind::terminate()).expect("SIGTERM can be handled");
    tokio::select! {
        _ = told.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
}
