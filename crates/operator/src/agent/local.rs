//! The timelines of this machine, by the protocol of their sockets.

use std::path::PathBuf;
use std::process::Command;

use super::host;
use eigentime_supervisor::control::Shown;
use eigentime_supervisor::control::client::{self, Failure};
use eigentime_supervisor::control::protocol::{Method, Settings};
use eigentime_supervisor::registry::{Name, Registry};

/// What the names of timelines of Kubernetes begin with here.
const PREFIX: &str = "k8s-";

/// The timelines of this machine.
pub struct Local {
    eigentime: PathBuf,
    /// Are timelines made where the programs of the node are, and not in the agent's pod?
    on_node: bool,
}

fn text(error: impl ToString) -> String {
    error.to_string()
}

impl Local {
    /// `eigentime` is the command that makes timelines, `on_node` whether where the node's programs are.
    pub fn new(eigentime: PathBuf, on_node: bool) -> Self {
        Self { eigentime, on_node }
    }

    fn call<T: serde::de::DeserializeOwned>(
        name: &Name,
        method: Method,
    ) -> Result<Option<T>, String> {
        let registry = Registry::open().map_err(text)?;
        match client::call(&registry, name, method) {
            Ok(answer) => Ok(Some(answer)),
            Err(Failure::NoSuch { .. } | Failure::Gone(_)) => Ok(None),
            Err(failure) => Err(failure.to_string()),
        }
    }

    /// How a timeline stands; nothing if there is none.
    pub fn look(&self, name: &Name) -> Result<Option<Shown>, String> {
        Self::call(name, Method::Show {})
    }

    /// Makes a timeline that containers can join.
    pub fn create(&self, name: &Name, skips_idle: bool) -> Result<(), String> {
        let mut command = match self.on_node {
            true => host::command(self.eigentime.clone()).map_err(text)?,
            false => Command::new(&self.eigentime),
        };
        command.args(["ctl", "create", &name.to_string(), "--joinable"]);
        command.args(skips_idle.then_some("--skip-idle"));
        let output = command.output();
        let output = output.map_err(|error| format!("{}: {error}", self.eigentime.display()))?;
        match output.status.success() {
            true => Ok(()),
            false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        }
    }

    /// Changes the clocks.
    pub fn set(&self, name: &Name, settings: Settings) -> Result<(), String> {
        let answer: Option<serde_json::Value> = Self::call(name, Method::Set(settings))?;
        answer.map(drop).ok_or_else(|| format!("timeline '{name}' has ended"))
    }

    /// Removes the timelines of Kubernetes that are not wanted any more and have no members.
    pub fn remove_others(&self, wanted: &[String]) -> Result<(), String> {
        for name in Registry::open().map_err(text)?.names().map_err(text)? {
            let full = name.to_string();
            if !full.starts_with(PREFIX) || wanted.contains(&full) {
                continue;
            }
            let has_members = self.look(&name)?.is_some_and(|it| !it.members.is_empty());
            if !has_members {
                Self::call::<serde_json::Value>(&name, Method::Remove { force: false })?;
            }
        }
        Ok(())
    }
}
