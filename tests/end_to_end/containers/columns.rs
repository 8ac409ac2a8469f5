//! The engines of this machine, each started when the first test asks for it.

use std::sync::OnceLock;

use crate::containers::Scenario;
use crate::containers::abilities::Ability;
use crate::containers::abilities::Ability::{
    Bundles, HostTimelines, Names, OtherUsers, Pods, Privileged, Pull, Restart, User,
};
use crate::containers::bundle;
use crate::containers::containerd;
use crate::containers::docker;
use crate::containers::engine::Engine;
use crate::containers::host;
use crate::containers::podman;
use crate::needs::Need;
use crate::suite::Broken;

type Started = Result<Box<dyn Engine>, String>;

/// An engine, and how to start it.
pub struct Column {
    /// Its name in tests.
    pub label: &'static str,
    tools: &'static [&'static str],
    /// Abilities that it lacks on any machine.
    lacks: &'static [Ability],
    /// Selects the scenarios that suffice for it.
    takes: fn(&Scenario) -> bool,
    start: fn() -> Result<Box<dyn Engine>, Broken>,
    started: OnceLock<Started>,
}

const fn column(
    label: &'static str,
    tools: &'static [&'static str],
    lacks: &'static [Ability],
    start: fn() -> Result<Box<dyn Engine>, Broken>,
) -> Column {
    Column { label, tools, lacks, takes: |_| true, start, started: OnceLock::new() }
}

/// All of them.
pub static COLUMNS: [Column; 8] = [
    column("podman", &["podman", "conmon", "runc", "tar"], &[Bundles], podman::of_root),
    column(
        "podman_rootless",
        &["podman", "conmon", "runc", "newuidmap", "setpriv", "useradd", "tar"],
        &[Bundles],
        podman::rootless,
    ),
    column(
        "docker",
        &["dockerd", "docker", "containerd", "runc", "setpriv"],
        &[Bundles, Pods],
        docker::start,
    ),
    column(
        "containerd",
        &["containerd", "ctr", "runc", "setpriv"],
        // Its `run` has no option for the user.
        &[Bundles, Pods, Names, Restart, User],
        containerd::start,
    ),
    column("runc", &["runc"], &[Pods, Pull, Names, Restart, Privileged], bundle::runc),
    column(
        "runc_rootless",
        &["runc", "setpriv", "useradd"],
        // Its user namespace has one user, and is below that of programs outside.
        &[Pods, Pull, Names, Restart, Privileged, User, OtherUsers, HostTimelines],
        bundle::rootless,
    ),
    column("crun", &["crun", "unshare"], &[Pods, Pull, Names, Restart, Privileged], bundle::crun),
    Column {
        label: "podman_crun",
        tools: &["podman", "conmon", "crun", "unshare", "tar"],
        lacks: &[Bundles],
        takes: |scenario| scenario.takes.contains(&Ability::Pause),
        start: podman::with_crun,
        started: OnceLock::new(),
    },
];

impl Column {
    /// Whether it is able to run a scenario, and is to be tested with it.
    pub fn has(&self, scenario: &Scenario) -> bool {
        let abilities = scenario.takes;
        (self.takes)(scenario) && abilities.iter().all(|ability| !self.lacks.contains(ability))
    }

    /// Its requirements.
    pub fn needs(&self) -> Vec<Need> {
        let tools = self.tools.iter().chain(&["busybox", "sha256sum"]);
        let mut needs: Vec<Need> = tools.map(|tool| Need::Tool(tool)).collect();
        needs.extend([Need::Root, Need::Program(crate::programs::Build::Static)]);
        needs
    }

    /// Returns the engine, started, or what this machine lacks.
    pub fn engine(&self) -> Result<&dyn Engine, String> {
        host::remember();
        let started = self.started.get_or_init(|| {
            (self.start)().map_err(|broken| format!("{} to start: {broken}", self.label))
        });
        started.as_ref().map(AsRef::as_ref).map_err(Clone::clone)
    }

    /// Ends it, if it was started.
    pub fn shut_down(&self) {
        if let Some(Ok(engine)) = self.started.get() {
            engine.shut_down();
        }
    }
}
