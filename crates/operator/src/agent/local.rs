//! The timelines of this machine, through the protocol of their sockets.

use std::collections::HashSet;
use std::path::PathBuf;
use std::process::Command;

use super::host;
use crate::api::LOCAL_PREFIX;
use eigentime_supervisor::Consent;
use eigentime_supervisor::control::client::{self, Failure};
use eigentime_supervisor::control::protocol::{Factor, Method, Settings, Span};
use eigentime_supervisor::control::{Answer, Reading, Request, Shown, State};
use eigentime_supervisor::registry::{Name, Registry};
use eigentime_timeline::{Clock, Nanos, Rate};

/// The prefix of the timelines of containers that were not started on one; UIDs have no dash there.
const OF_CONTAINER: &str = "k8s-c-";
/// The length of a container's id that is unique and fits.
const NUMBER: usize = 32;
/// The difference between two equal wall clocks at rate 1, since they are read one after the other.
pub const SLACK_NS: u64 = 10_000;

/// The timeline of a container that was not started on one.
///
/// # Errors
///
/// If the container's id is not valid in a name.
pub fn name_of_container(id: &str) -> Result<Name, String> {
    format!("{OF_CONTAINER}{}", id.get(..NUMBER).unwrap_or(id)).parse()
}

/// Attaches a process to an existing timeline; returns notes for its user. Container engines give
/// containers seccomp filters that refuse calls but kill no process.
pub fn attach(timeline: &Name, process: i32) -> Result<Vec<String>, String> {
    let (clocks, consent, force, rewrites) = (None, Consent::default(), true, true);
    let request = Request::Attach { pid: process, clocks, consent, force, rewrites };
    match client::ask(&Registry::open().map_err(text)?, timeline, &request) {
        Ok(Answer::Attached(attached)) => Ok(attached.notes),
        Ok(other) => Err(format!("timeline '{timeline}' answers {other:?}")),
        Err(failure) => Err(failure.to_string()),
    }
}

/// The processes whose clocks are those of a timeline.
///
/// # Errors
///
/// If it does not answer or does not exist.
pub fn members(timeline: &Name) -> Result<HashSet<i32>, String> {
    let shown: Option<Shown> = call(timeline, Method::Show {})?;
    let shown = shown.ok_or_else(|| format!("timeline '{timeline}' has ended"))?;
    Ok(shown.members.iter().filter(|it| !it.detached).map(|it| it.pid).collect())
}

/// Whether it is the timeline of a container that was not started on one.
pub fn is_of_container(name: &Name) -> bool {
    name.to_string().starts_with(OF_CONTAINER)
}

/// Whether its clocks are the host's, except for monotonic ones that are ahead.
fn is_host(shown: &Shown) -> bool {
    let is_running = shown.timeline.state == State::Running && shown.timeline.rate == 1.0;
    is_running && wall_of(shown).is_some_and(|it| it.virtual_ns.abs_diff(it.host_ns) <= SLACK_NS)
}

/// Its wall clock.
pub fn wall_of(shown: &Shown) -> Option<&Reading> {
    shown.timeline.clocks.iter().find(|it| it.clock == Clock::Wall.name())
}

/// The timelines of this machine.
pub struct Local {
    eigentime: PathBuf,
    /// Whether timelines are created in the node's namespaces instead of the agent's pod.
    on_node: bool,
}

fn text(error: impl ToString) -> String {
    error.to_string()
}

/// A timeline's answer; none if it does not exist.
fn call<T: serde::de::DeserializeOwned>(name: &Name, method: Method) -> Result<Option<T>, String> {
    let Some(registry) = Registry::existing().map_err(text)? else { return Ok(None) };
    match client::call(&registry, name, method) {
        Ok(answer) => Ok(Some(answer)),
        Err(Failure::NoSuch { .. } | Failure::Gone(_)) => Ok(None),
        Err(failure) => Err(failure.to_string()),
    }
}

impl Local {
    /// `eigentime` is the command that creates timelines, `on_node` whether in the node's
    /// namespaces.
    pub fn new(eigentime: PathBuf, on_node: bool) -> Self {
        Self { eigentime, on_node }
    }

    /// The state of a timeline; none if it does not exist.
    pub fn look(&self, name: &Name) -> Result<Option<Shown>, String> {
        call(name, Method::Show {})
    }

    /// Creates a timeline; containers can join it, unless it is that of one.
    pub fn create(&self, name: &Name, skips_idle: bool) -> Result<(), String> {
        let mut command = match self.on_node {
            true => host::command(self.eigentime.clone()).map_err(text)?,
            false => Command::new(&self.eigentime),
        };
        command.args(["ctl", "create", &name.to_string()]);
        command.args((!is_of_container(name)).then_some("--joinable"));
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
        let answer: Option<serde_json::Value> = call(name, Method::Set(settings))?;
        answer.map(drop).ok_or_else(|| format!("timeline '{name}' has ended"))
    }

    /// Gives a timeline the host's clocks, with a shifted wall clock.
    pub fn shift(&self, name: &Name, offset: Nanos) -> Result<(), String> {
        if self.look(name)?.is_none() {
            self.create(name, false)?;
        }
        self.set(
            name,
            Settings {
                offset: Some(Span(offset)),
                rate: Some(Factor(Rate::ONE)),
                frozen: Some(false),
                ..Settings::default()
            },
        )
    }

    /// Removes the timelines of Kubernetes that are no longer desired and have no members. Attached
    /// processes get the host's clocks again: they stay members, because a filter cannot be
    /// removed.
    pub fn remove_others(&self, wanted: &[String]) -> Result<(), String> {
        // It is not created here: an uninstallation may be in progress.
        let Some(registry) = Registry::existing().map_err(text)? else { return Ok(()) };
        for name in registry.names().map_err(text)? {
            let full = name.to_string();
            if !full.starts_with(LOCAL_PREFIX) || wanted.contains(&full) {
                continue;
            }
            let Some(shown) = self.look(&name)? else { continue };
            if shown.members.is_empty() {
                call::<serde_json::Value>(&name, Method::Remove { force: false })?;
            } else if is_of_container(&name) && !is_host(&shown) {
                self.shift(&name, Nanos::ZERO)?;
            }
        }
        Ok(())
    }
}
