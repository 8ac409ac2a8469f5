//! The OCI runtime, or `eigentime-oci` before it executes that, is killed while it makes a
//! container.

use std::fs::{self, File};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Instant;

use crate::containers::Scenario;
use crate::containers::abilities::Ability;
use crate::containers::bundle::Bundles;
use crate::containers::container::{ctl_done, new_name, wait_until};
use crate::containers::engine::Engine;
use crate::containers::spec::{Runtime, Spec};
use crate::ensure;
use crate::killing::is_marked;
use crate::processes::{Watch, all, command_line, status_field};
use crate::suite::{Broken, Outcome};
use crate::timeline::{FUTURE, STUCK};
use crate::workspace;

/// The rows of the table.
pub const SCENARIOS: &[Scenario] = &[Scenario {
    name: "killed_runtime::at_any_moment",
    takes: &[Ability::Bundles],
    body: at_any_moment,
}];

/// How often it is killed, by default.
const ROUNDS: u32 = 12;
const SET_BY: &str = "EIGENTIME_KILLING_ROUNDS";

/// Marks the processes of a test, in their environment.
const MARK: &str = "EIGENTIME_TEST_ROUND";

/// Whatever the moment, nothing is left once the container has been removed, as engines do then,
/// and the next one can be made.
fn at_any_moment(engine: &dyn Engine) -> Outcome {
    let bundles = engine.bundles().ok_or_else(|| Broken("no bundles".into()))?;
    let name = new_name();
    let serving = Spec::serving().set("date", FUTURE.0).set("monotonic", "+1d");
    let dates = Spec { command: vec!["date".into(), "+%Y".into()], ..serving.clone() };
    let file = bundles.bundle(&name).join("config.json");
    let written = |spec| {
        // The runtime does not overwrite an existing file.
        let _ = fs::remove_file(&file);
        engine.run(&name, spec)
    };
    // Measures how long it takes.
    written(&serving)?;
    let begun = Instant::now();
    let status = create(bundles, &name)?.status()?;
    let whole = begun.elapsed();
    engine.remove(&name);
    ensure!(status.success(), "it cannot be made: {}", said(bundles, &name));
    for round in 0..workspace::number_set_by(SET_BY, ROUNDS)? {
        written(&serving)?;
        let config = fs::read(&file)?;
        let after = whole.mul_f64(fastrand::f64() * 1.2);
        let mut runtime = create(bundles, &name)?.spawn()?;
        thread::sleep(after);
        runtime.kill()?;
        runtime.wait()?;
        engine.remove(&name);
        end_forgotten(bundles, &name);
        let tell = |Broken(why)| {
            let left: Vec<_> = left(&name).map(|pid| (pid, command_line(pid))).collect();
            Broken(format!("round {round}, after {after:?} of {whole:?}: {why}; left: {left:?}"))
        };
        wait_until("no process is left", || Ok(left(&name).next().is_none())).map_err(tell)?;
        // runc fails to delete a file that its child has mounted, also without a timeline, and
        // leaves the directory that it was in.
        engine.remove(&name);
        wait_until("the bundle is as before", || Ok(fs::read(&file)? == config)).map_err(tell)?;
        let listed = ctl_done(engine, &["list"])?;
        ensure!(!listed.contains(&name), "round {round}: its timeline is left:\n{listed}");
        let ended = crate::command::run(&mut written(&dates)?, STUCK)?;
        ended.ensure(ended.output() == "2100", format_args!("round {round}, after {after:?}"))?;
    }
    engine.remove(&name);
    Ok(())
}

/// Makes the container of this name. Its messages go to a file, since the container has its output.
fn create(bundles: &Bundles, name: &str) -> Result<Command, Broken> {
    let bundle = bundles.bundle(name);
    let mut command = bundles.command(Runtime::Wrapper);
    command.arg("create").arg("--bundle").arg(&bundle).arg(name).env(MARK, name);
    let output = File::create(bundle.join("output"))?;
    command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
    Ok(command)
}

fn said(bundles: &Bundles, name: &str) -> String {
    fs::read_to_string(bundles.bundle(name).join("output")).unwrap_or_default()
}

/// Ends a container that crun has forgotten. crun records a container only when that waits to be
/// started: killed before, it leaves it behind, also without a timeline.
fn end_forgotten(bundles: &Bundles, name: &str) {
    if !bundles.runtime.ends_with("crun") {
        return;
    }
    let is_first = |pid: &u32| {
        status_field(*pid, "NSpid").is_some_and(|all| all.split_whitespace().last() == Some("1"))
    };
    for process in left(name).filter(is_first).filter_map(|pid| Watch::new(pid).ok()) {
        // It may have ended by now.
        let _ = process.kill();
    }
}

/// The processes started to make it, and those in its control group.
fn left(name: &str) -> impl Iterator<Item = u32> {
    all().filter(move |pid| {
        let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        is_marked(*pid, name) || groups.contains(name)
    })
}
