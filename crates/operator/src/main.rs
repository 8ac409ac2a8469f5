//! `eigentime-operator`: arguments in, one call.

use std::net::SocketAddr;

use clap::{Parser, Subcommand};
use eigentime_operator::{agent, api, connect, controller, serve, webhook};
use tracing_subscriber::EnvFilter;

/// Timelines as Kubernetes objects
#[derive(Parser)]
#[command(name = "eigentime-operator", version)]
struct Arguments {
    #[command(subcommand)]
    part: Part,
    /// The address to serve metrics and health checks on
    #[arg(long, global = true, value_name = "ADDRESS:PORT")]
    metrics: Option<SocketAddr>,
}

#[derive(Subcommand)]
enum Part {
    /// Print the custom resource definitions
    Crds,
    /// Make a map of each change of a timeline, and select the containers that a TimeChaos shifts
    Controller(controller::Options),
    /// Maintain the timelines of a node
    Agent(agent::Options),
    /// Execute a program in the namespaces of the node
    #[command(name = agent::host::SUBCOMMAND, hide = true)]
    OnNode {
        #[arg(last = true, required = true)]
        command: Vec<String>,
    },
    /// Let pods join their timeline, and reject invalid objects
    Webhook(webhook::Options),
}

fn main() -> anyhow::Result<()> {
    let Arguments { part, metrics } = Arguments::parse();
    match part {
        Part::Crds => {
            print!("{}", api::definitions());
            Ok(())
        }
        Part::OnNode { command } => Err(agent::host::become_program(&command)),
        part => work(part, metrics),
    }
}

#[tokio::main]
async fn work(part: Part, metrics: Option<SocketAddr>) -> anyhow::Result<()> {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt().json().with_env_filter(filter).with_writer(std::io::stderr).init();
    if let Some(address) = metrics {
        tokio::spawn(serve::metrics(serve::listen(address).await?));
    }
    let client = connect::client().await?;
    match part {
        Part::Crds | Part::OnNode { .. } => unreachable!("they need no client"),
        Part::Controller(options) => controller::run(client, options).await,
        Part::Agent(options) => agent::run(client, options).await,
        Part::Webhook(options) => webhook::run(client, options).await,
    }
}
