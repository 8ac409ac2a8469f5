//! Everything else is left alone: containers without settings, and all other verbs.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;

use rustix::time::ClockId;
use serde_json::json;

use crate::command::{Finished, run};
use crate::containers::Scenario;
use crate::containers::abilities::Ability;
use crate::containers::bundle::Bundles;
use crate::containers::commandline::LIMIT;
use crate::containers::container::{Container, ctl_done, new_name, run_to_end, show, wait_until};
use crate::containers::engine::{Engine, Exec};
use crate::containers::spec::{Choice, Runtime, Spec};
use crate::ensure;
use crate::processes::tracer_of;
use crate::session::host_ns;
use crate::suite::{Broken, Outcome};
use crate::timeline::FUTURE;
use crate::workspace;

const NS_PER_S: i128 = 1_000_000_000;

/// The rows of the table.
pub const SCENARIOS: &[Scenario] = &[
    Scenario { name: "passes::without_settings", takes: &[], body: without_settings },
    Scenario { name: "passes::other_verbs", takes: &[Ability::Bundles], body: other_verbs },
    Scenario { name: "passes::hooks", takes: &[Ability::Bundles], body: hooks },
    Scenario { name: "passes::configuration", takes: &[Ability::Bundles], body: configuration },
    Scenario {
        name: "passes::profile_notifies",
        takes: &[Ability::Bundles],
        body: profile_notifies,
    },
    Scenario { name: "passes::time_namespace", takes: &[Ability::Bundles], body: time_namespace },
];

fn bundles(engine: &dyn Engine) -> Result<&Bundles, Broken> {
    engine.bundles().ok_or_else(|| Broken("no bundles".into()))
}

/// It runs on the host's clocks, and nothing traces it.
fn without_settings(engine: &dyn Engine) -> Outcome {
    let container = Container::serve(engine, &Spec::serving())?;
    let tracer = tracer_of(container.init()?);
    ensure!(tracer.is_none(), "{tracer:?} follows it");
    let id = container.id()?;
    let listed = ctl_done(engine, &["list"])?;
    ensure!(!listed.contains(&id), "it is listed:\n{listed}");
    let before = host_ns(ClockId::Realtime) / NS_PER_S;
    let ended = container.exec(&["date", "+%s"])?;
    ended.expect_code(0)?;
    let seconds: i128 = ended.output().trim().parse()?;
    ensure!(
        (before..=host_ns(ClockId::Realtime) / NS_PER_S).contains(&seconds),
        "its clock shows {seconds}, the host's showed {before} before"
    );
    Ok(())
}

/// The externally visible results of a command.
fn seen(ended: &Finished) -> (Option<i32>, String, &str) {
    (ended.status.code(), ended.output(), &ended.errors)
}

/// The wrapper and the runtime itself answer the same words alike.
fn other_verbs(engine: &dyn Engine) -> Outcome {
    let bundles = bundles(engine)?;
    let container = Container::serve(engine, &Spec::serving().set("date", FUTURE.0))?;
    let name = container.name.as_str();
    // Containers of other tests come and go.
    let elsewhere = workspace::scratch()?.display().to_string();
    for words in [
        &["--version"][..],
        &["--help"],
        &["features"],
        &["state", name],
        &["--root", &elsewhere, "list", "--format=json"],
        &["state", "no-such-container"],
        &["kill", "no-such-container", "TERM"],
        &["delete", "no-such-container"],
        &["delete", name],
        &["ps", name, "-o", "pid,args"],
        &["kill", name, "0"],
        &["no-such-verb"],
        &[],
    ] {
        let ask = |runtime| run(bundles.command(runtime).args(words), LIMIT);
        let (wrapped, bare) = (ask(Runtime::Wrapper)?, ask(Runtime::Bare)?);
        // A time precedes each error message.
        let comparable = |ended: &Finished| {
            let (status, output, errors) = seen(ended);
            let complaint = |line| {
                let parts = [" level=", "Z: "].into_iter().find_map(|at| str::split_once(line, at));
                parts.map_or(line, |(_time, complaint)| complaint)
            };
            let errors = errors.lines().map(complaint).collect::<Vec<_>>().join("\n");
            (status, output, errors)
        };
        ensure!(
            comparable(&wrapped) == comparable(&bare),
            "{words:?} of the wrapper is answered\n{wrapped}\nand of the runtime\n{bare}"
        );
    }
    Ok(())
}

/// Hooks run on the host's time, since they are not part of the container.
fn hooks(engine: &dyn Engine) -> Outcome {
    let directory = workspace::scratch()?;
    let hook = |name: &str| {
        let file = directory.join(name);
        json!([{
            "path": "/bin/sh",
            "args": ["sh", "-c", format!("cat > /dev/null; date +%s > {0}.new && mv {0}.new {0}", file.display())],
            "env": ["PATH=/usr/bin:/bin"],
        }])
    };
    const BEFORE: [&str; 3] = ["prestart", "createRuntime", "poststart"];
    let hooks = json!({
        "prestart": hook("prestart"),
        "createRuntime": hook("createRuntime"),
        "poststart": hook("poststart"),
        "poststop": hook("poststop"),
    });
    let start = host_ns(ClockId::Realtime) / NS_PER_S;
    let spec = Spec::serving().choose(Choice::Configuration("/hooks", hooks));
    let container = Container::serve(engine, &spec.set("date", FUTURE.0))?;
    BEFORE.iter().try_for_each(|name| expect_host_time(&directory.join(name), start))?;
    drop(container);
    expect_host_time(&directory.join("poststop"), start)
}

fn expect_host_time(file: &Path, least: i128) -> Outcome {
    wait_until(&format!("there is {}", file.display()), || Ok(file.is_file()))?;
    let seconds: i128 = std::fs::read_to_string(file)?.trim().parse()?;
    let most = host_ns(ClockId::Realtime) / NS_PER_S;
    ensure!((least..=most).contains(&seconds), "{} has {seconds}", file.display());
    Ok(())
}

/// The bundle of a container that has ended is unchanged.
fn configuration(engine: &dyn Engine) -> Outcome {
    let bundles = bundles(engine)?;
    let spec = Spec::serving()
        .set("date", FUTURE.0)
        .set("monotonic", "+10d")
        .choose(Choice::Configuration("/linux/namespaces", json!({ "type": "time" })));
    let name = new_name();
    let mut command = engine.start(&name, &spec)?;
    let file = bundles.bundle(&name).join("config.json");
    let before = std::fs::read(&file)?;
    run(&mut command, LIMIT)?.expect_code(0)?;
    let year = run(engine.exec(&name, Exec::Plain).args(["date", "+%Y"]), LIMIT)?;
    engine.remove(&name);
    let put_back = || Ok(std::fs::read(&file)? == before);
    wait_until("config.json is as it was before", put_back)?;
    let entries = std::fs::read_dir(bundles.bundle(&name))?.flatten();
    let mut left: Vec<_> = entries.map(|entry| entry.file_name()).collect();
    left.sort();
    year.ensure(year.output().trim() == "2100", "the settings have no effect")?;
    ensure!(left == ["config.json", "log"], "in the bundle there are {left:?}");
    Ok(())
}

/// A container whose profile has another listener for calls is traced for life, as are processes
/// that enter it: the kernel allows one such filter.
fn profile_notifies(engine: &dyn Engine) -> Outcome {
    let socket = workspace::public()?.join(new_name());
    // The runtime's connection waits there.
    let listener = UnixListener::bind(&socket)?;
    std::fs::set_permissions(&socket, Permissions::from_mode(0o777))?;
    let profile = json!({
        "defaultAction": "SCMP_ACT_ALLOW",
        "listenerPath": socket,
        "syscalls": [{ "names": ["swapon"], "action": "SCMP_ACT_NOTIFY" }],
    });
    let spec = Spec::serving().choose(Choice::Configuration("/linux/seccomp", profile));
    // For an ordinary user, runc lets nothing enter such a container.
    let can_enter = Container::serve(engine, &spec.clone().by(Runtime::Bare))?
        .exec(&["true"])?
        .status
        .success();
    let container = Container::serve(engine, &spec.set("date", FUTURE.0))?;
    let shown = show(engine, &container.id()?)?;
    let why = shown.traced.as_deref();
    ensure!(why == Some("since another process listens to its seccomp filters"), "{why:?}");
    let tracer = tracer_of(container.init()?);
    ensure!(tracer == Some(shown.supervisor), "it is traced by {tracer:?}");
    if can_enter {
        let year = container.exec(&["date", "+%Y"])?;
        year.expect_code(0)?;
        year.ensure(year.output().trim() == "2100", "it does not live by the timeline")?;
    }
    drop((container, listener));
    std::fs::remove_file(&socket)?;
    Ok(())
}

/// A time namespace that is already configured is replaced.
fn time_namespace(engine: &dyn Engine) -> Outcome {
    let namespace = || Choice::Configuration("/linux/namespaces", json!({ "type": "time" }));
    let offsets = json!({ "monotonic": { "secs": 5 }, "boottime": { "secs": 7 } });
    let offsets = Choice::Configuration("/linux/timeOffsets", offsets);
    let tell = Spec::new(&["cat", "/proc/self/timens_offsets"]).set("date", FUTURE.0);
    for (spec, expected) in [
        (tell.clone().choose(namespace()), ["monotonic 0 0", "boottime 0 0"]),
        (
            tell.clone().choose(namespace()).set("monotonic", "+10d").set("boottime", "+20d"),
            ["monotonic 864000 0", "boottime 1728000 0"],
        ),
        (
            tell.choose(namespace()).choose(offsets).set("monotonic", "+10d"),
            ["monotonic 864000 0", "boottime 0 0"],
        ),
    ] {
        let ended = run_to_end(engine, &spec)?;
        ended.expect_code(0)?;
        let lines = ended.lines.iter().map(|line| line.text.split_whitespace());
        let found: Vec<String> = lines.map(|words| words.collect::<Vec<_>>().join(" ")).collect();
        ended.ensure(found == expected, format_args!("its offsets are not {expected:?}"))?;
    }
    Ok(())
}
