//! Containers with their own time: one list of scenarios, on every engine of this machine. The
//! tests start engines with state of their own, and stop them again.

// Shared by these tests; contains no tests.
mod abilities;
mod bundle;
mod columns;
mod commandline;
pub mod container;
mod containerd;
mod daemons;
mod direct;
mod docker;
mod engine;
mod host;
mod images;
mod leftovers;
mod ordinary;
mod podman;
mod registry;
mod spec;

mod clocks;
mod consent;
mod idle;
mod inside;
mod killed_runtime;
mod later;
mod life;
mod limits;
mod nested;
mod passes;
mod paused;
mod pods;
mod refused;
mod run_images;
mod run_options;
mod shared;
mod upgraded;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use abilities::Ability;
use columns::COLUMNS;
use engine::Engine;

use crate::suite::{Broken, Outcome, Suite};
use crate::workspace;

/// A test that every engine has to pass.
pub struct Scenario {
    name: &'static str,
    takes: &'static [Ability],
    body: fn(&dyn Engine) -> Outcome,
}

/// All of them.
const SCENARIOS: [&[Scenario]; 15] = [
    clocks::SCENARIOS,
    consent::SCENARIOS,
    idle::SCENARIOS,
    inside::SCENARIOS,
    later::SCENARIOS,
    life::SCENARIOS,
    limits::SCENARIOS,
    refused::SCENARIOS,
    shared::SCENARIOS,
    passes::SCENARIOS,
    killed_runtime::SCENARIOS,
    nested::SCENARIOS,
    paused::SCENARIOS,
    pods::SCENARIOS,
    upgraded::SCENARIOS,
];

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    for column in &COLUMNS {
        let scenarios = SCENARIOS.iter().copied().flatten();
        for scenario in scenarios.filter(|scenario| column.has(scenario)) {
            let name = format!("containers::{}::{}", column.label, scenario.name);
            let prepare = || {
                scenario.takes.iter().try_for_each(|ability| ability.try_on(column))?;
                column.engine()
            };
            suite.prepared_test(name, &column.needs(), prepare, scenario.body);
        }
    }
    add_direct(suite);
}

/// Adds the tests of containers without an engine.
fn add_direct(suite: &mut Suite) {
    for user in &direct::USERS {
        for scenario in run_options::SCENARIOS.iter().chain(run_images::SCENARIOS) {
            let name = format!("containers::eigentime_run::{}::{}", user.label, scenario.name);
            suite.prepared_test(name, &user.needs(scenario), || user.runner(), scenario.body);
        }
    }
}

/// A script that calls the wrapper with additional variables and words.
fn runtime_script(variables: &[(&str, &Path)], words: &[&str]) -> Result<PathBuf, Broken> {
    let path = workspace::scratch()?.join("runtime");
    let wrapper = workspace::oci_wrapper();
    let exports: String = variables
        .iter()
        .map(|(name, value)| format!("export {name}={}\n", value.display()))
        .collect();
    fs::write(
        &path,
        format!("#!/bin/sh\n{exports}exec {} {} \"$@\"\n", wrapper.display(), words.join(" ")),
    )?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    Ok(path)
}

/// Ends all engines when the tests have ended, in whatever way.
pub struct Guard;

impl Guard {
    /// Ends them, and compares the host with its former state.
    pub fn finish(self) -> Result<(), Broken> {
        std::mem::forget(self);
        end()?;
        host::compare()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Err(broken) = end() {
            eprintln!("{broken}");
        }
    }
}

fn end() -> Result<(), Broken> {
    COLUMNS.iter().for_each(columns::Column::shut_down);
    registry::end()?;
    ordinary::end()?;
    leftovers::remove()
}
