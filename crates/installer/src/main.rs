//! `eigentime-installer`: installs Eigentime's OCI runtime on a node of a Kubernetes cluster,
//! configures the node's container engine for it, and undoes both.
//!
//! - `distribution`: the table of distributions of Kubernetes.
//! - `folder`: which folders are acceptable.
//! - `plan`: the required configuration of the engine.
//! - `record`: the changes to files of the node, and their previous contents.
//! - `tree`: our folder, with versions.
//! - `cri`: requests to the engine.
//! - `restart`: restarting the engine.
//! - `cluster`: requests to the API server.
//! - `verify`: the pod that shows whether it works.
//! - `node`: installing and uninstalling, step by step.

mod cluster;
mod cri;
mod distribution;
mod folder;
mod node;
mod plan;
mod record;
mod restart;
#[cfg(test)]
mod scratch;
mod tree;
mod verify;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use kube::Client;
use tokio::signal::unix::{SignalKind, signal};

use cluster::Here;
use node::Place;

/// Installs Eigentime's OCI runtime on the nodes of a Kubernetes cluster, or uninstalls it.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Install on this node
    Install {
        #[command(flatten)]
        here: Here,
        #[command(flatten)]
        place: Place,
        /// The folder with the programs to install
        #[arg(long, default_value = "/")]
        programs: PathBuf,
        /// Do not run a pod before the node gets its label
        #[arg(long, env = "NO_VERIFY", value_parser = clap::builder::BoolishValueParser::new())]
        no_verify: bool,
    },
    /// Uninstall from this node
    Uninstall {
        #[command(flatten)]
        here: Here,
        #[command(flatten)]
        place: Place,
    },
    /// Let the installer's DaemonSet uninstall from all nodes
    UninstallEverywhere {
        /// The DaemonSet
        #[arg(long)]
        daemonset: String,
        /// Its namespace
        #[arg(long, env = "POD_NAMESPACE")]
        namespace: String,
        /// The timeout, in seconds
        #[arg(long, default_value_t = 240)]
        patience: u64,
    },
    /// Fail unless the clock shows the date given to the verifying pod
    Verify,
    /// Do nothing until the end
    Wait,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let ended =
        runtime.context("cannot start").and_then(|runtime| runtime.block_on(run(arguments.action)));
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("eigentime-installer: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(action: Action) -> Result<()> {
    match action {
        Action::Install { here, place, programs, no_verify } => {
            let programs = node::programs(&programs)?;
            let client = client().await?;
            node::install(&client, &here, &place, &programs, !no_verify).await
        }
        Action::Uninstall { here, place } => node::uninstall(&client().await?, &here, &place).await,
        Action::UninstallEverywhere { daemonset, namespace, patience } => {
            let patience = Duration::from_secs(patience);
            cluster::uninstall_everywhere(&client().await?, &namespace, &daemonset, patience).await
        }
        Action::Verify => verify::check(),
        Action::Wait => wait().await,
    }
}

async fn client() -> Result<Client> {
    let mut config = kube::Config::incluster().context("this is to run in a pod with a token")?;
    // Its file is inaccessible once the node's root is ours.
    if let Some(file) = config.auth_info.token_file.take() {
        let token =
            std::fs::read_to_string(&file).with_context(|| format!("cannot read {file}"))?;
        config.auth_info.token = Some(token.into());
    }
    Client::try_from(config).context("cannot speak to the API server")
}

async fn wait() -> Result<()> {
    let mut ends = signal(SignalKind::terminate()).context("cannot wait for a signal")?;
    ends.recv().await;
    Ok(())
}
