//! `eigentime run` inside a container on a timeline: it stacks its clocks on the container's, or
//! joins.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::command::{User, run};
use crate::containers::Scenario;
use crate::containers::abilities::Ability;
use crate::containers::commandline::LIMIT;
use crate::containers::container::{Container, new_name, run_to_end, show};
use crate::containers::engine::Engine;
use crate::containers::spec::{Choice, Spec};
use crate::ensure;
use crate::suite::{Broken, Outcome};
use crate::timeline::FUTURE;
use crate::workspace::{self, RUNTIME_VARIABLE};

/// The rows of the table.
pub const SCENARIOS: &[Scenario] = &[
    Scenario { name: "nested::on_top", takes: &[Ability::Volume], body: on_top },
    Scenario { name: "nested::waits", takes: &[Ability::Volume], body: waits },
    Scenario { name: "nested::joins", takes: &[Ability::Volume], body: joins },
];

/// The command in a container, started with the host's dynamic linker, which images may lack.
const EIGENTIME: &str = "/mnt/ld.so --library-path /mnt /mnt/eigentime";

/// A container with the command, whose shell runs this script.
fn with_command(script: &str) -> Result<Spec, Broken> {
    let script = script.replace("eigentime", EIGENTIME);
    Ok(Spec::new(&["sh", "-c", &script]).choose(Choice::Volume(folder()?, "/mnt")))
}

/// A folder with the command and the libraries that it needs.
fn folder() -> Result<PathBuf, Broken> {
    let folder = workspace::public()?.join("in-containers");
    if folder.exists() {
        return Ok(folder);
    }
    let unfinished = workspace::public()?.join(new_name());
    fs::create_dir(&unfinished)?;
    fs::copy(workspace::binary(), unfinished.join("eigentime"))?;
    let listed = run(Command::new("ldd").arg(workspace::binary()), LIMIT)?;
    listed.expect_code(0)?;
    for word in listed.output().split_whitespace().filter(|word| word.starts_with('/')) {
        let name = word.rsplit('/').next().unwrap_or_default();
        let name = if name.starts_with("ld-") { "ld.so" } else { name };
        fs::copy(word, unfinished.join(name))?;
    }
    // Another test may have been faster.
    let _ = fs::rename(&unfinished, &folder);
    Ok(folder)
}

fn on_top(engine: &dyn Engine) -> Outcome {
    let script = "outer=$(date +%s); inner=$(eigentime run --offset +10d -- date +%s); \
                  echo ahead=$((inner - outer)); date +outer=%Y; \
                  exec eigentime run --rate 6 -- /opt/contained serve";
    let spec = with_command(script)?.set("date", FUTURE.0).set("rate", "10");
    let container = Container::serve(engine, &spec)?;
    let output = container.output()?;
    let ahead = output.lines().find_map(|line| line.strip_prefix("ahead=")?.parse::<i64>().ok());
    let days = 10 * 86_400..10 * 86_400 + 600;
    ensure!(ahead.is_some_and(|ahead| days.contains(&ahead)), "it is not ten days:\n{output}");
    ensure!(output.contains("outer=2100"), "the outer clock is another:\n{output}");
    let shown = show(engine, &container.id()?)?;
    let inner = shown.member(container.init()?).and_then(|member| member.inner.as_ref());
    let inner = inner.ok_or_else(|| Broken(format!("it is not inside: {shown:#?}")))?;
    ensure!(inner.rate == 60.0 && shown.rate == 10.0, "{shown:#?}");
    Ok(())
}

/// With either map alone, it would take longer than a test may.
fn waits(engine: &dyn Engine) -> Outcome {
    let script = "eigentime run --rate 600 -- sleep 360000 && echo slept";
    let ended = run_to_end(engine, &with_command(script)?.set("rate", "600"))?;
    ended.expect_code(0)?;
    ended.ensure(ended.output().contains("slept"), "it did not sleep")
}

/// It joins where its timeline's socket is present, and elsewhere reports what is missing.
fn joins(engine: &dyn Engine) -> Outcome {
    let timeline = new_name();
    let script = format!(
        "eigentime run --timeline {timeline} -- date +unseen=%Y; echo status=$?; \
         {RUNTIME_VARIABLE}=/srv eigentime run --timeline {timeline} -- date +joined=%Y"
    );
    let directory = runtime_directory(engine)?;
    let spec = with_command(&script)?.choose(Choice::Volume(directory, "/srv"));
    let ended = run_to_end(engine, &spec.joinable(&timeline).set("date", FUTURE.0))?;
    ended.expect_code(0)?;
    ended.ensure(ended.text("unseen").is_err(), "it joined without a socket")?;
    ended.ensure(ended.text("status")? == "125", "it ended in another way")?;
    ended.ensure(ended.errors.contains("already in a timeline"), "it does not say why")?;
    ended.ensure(ended.text("joined")? == "2100", "it lives by another time")
}

/// The runtime directory of an engine's timelines.
fn runtime_directory(engine: &dyn Engine) -> Result<PathBuf, Broken> {
    let ctl = engine.ctl()?;
    let named = ctl.get_envs().find(|(name, _)| *name == RUNTIME_VARIABLE);
    let directory = named.and_then(|(_, value)| value.map(PathBuf::from));
    Ok(directory.unwrap_or_else(|| workspace::runtime(User::Myself)))
}
