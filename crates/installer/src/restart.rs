//! Restarting the node's container engine. Running containers are not affected: their shims do not
//! belong to the engine's process.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::cri::Engine;
use crate::distribution::Distribution;
use crate::tree::Root;

/// How an engine is restarted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum How {
    /// By the node's service manager.
    Auto,
    /// By ending its process, which something on the node starts again.
    Signal,
}

/// A service manager.
struct Manager {
    name: &'static str,
    /// A file that exists while it is running.
    mark: &'static str,
    /// The command that succeeds if a service is running.
    runs: fn(&str) -> [String; 3],
    restart: fn(&str) -> [String; 3],
}

const MANAGERS: [Manager; 2] = [
    Manager {
        name: "systemd",
        mark: "/run/systemd/system",
        runs: |service| ["systemctl".into(), "is-active".into(), service.into()],
        restart: |service| ["systemctl".into(), "restart".into(), service.into()],
    },
    Manager {
        name: "OpenRC",
        mark: "/run/openrc/softlevel",
        runs: |service| ["rc-service".into(), service.into(), "status".into()],
        restart: |service| ["rc-service".into(), service.into(), "restart".into()],
    },
];

/// Restarts the engine of the node. The caller is in the node's root.
pub async fn restart(
    root: &Root,
    distribution: &Distribution,
    how: How,
    engine: &Engine,
) -> Result<()> {
    if distribution.services.is_empty() {
        return Ok(());
    }
    match how {
        How::Signal => {
            let pid = engine.process().await?;
            kill(Pid::from_raw(pid), Signal::SIGTERM)
                .with_context(|| format!("cannot end the container engine, process {pid}"))
        }
        How::Auto => {
            let manager = MANAGERS.iter().find(|one| root.at(Path::new(one.mark)).exists());
            let Some(manager) = manager else {
                bail!(
                    "this node has neither systemd nor OpenRC to restart its container engine\n\
                     help: set node.restart=signal, if something starts the engine again when it ends"
                )
            };
            let runs = |service: &&&str| run((manager.runs)(service)).is_ok();
            let Some(service) = distribution.services.iter().find(runs) else {
                bail!(
                    "{} runs none of the services that have the container engine of {}: {}\n\
                     help: set node.restart=signal, if something starts the engine again when it ends",
                    manager.name,
                    distribution.name,
                    distribution.services.join(", ")
                )
            };
            run((manager.restart)(service))
        }
    }
}

/// Runs a command of the node.
fn run([program, words @ ..]: [String; 3]) -> Result<()> {
    // In a chroot, systemctl would do nothing.
    let mut command = Command::new(&program);
    command.args(&words).env("SYSTEMD_IGNORE_CHROOT", "1");
    let ended = command.output().with_context(|| format!("cannot run the node's {program}"))?;
    match ended.status.success() {
        true => Ok(()),
        false => bail!(
            "{program} {}: {}: {}",
            words.join(" "),
            ended.status,
            String::from_utf8_lossy(&ended.stderr).trim()
        ),
    }
}
