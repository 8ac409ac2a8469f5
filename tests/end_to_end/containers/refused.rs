//! Impossible requests are reported where the engine's user sees it, and no container is made.

use crate::command::{Finished, run};
use crate::containers::Scenario;
use crate::containers::commandline::LIMIT;
use crate::containers::container::{Container, new_name};
use crate::containers::engine::Engine;
use crate::containers::spec::{Runtime, Spec, variable};
use crate::suite::{Broken, Outcome};
use crate::timeline::FUTURE;

/// The rows of the table.
pub const SCENARIOS: &[Scenario] = &[
    Scenario { name: "refused::date", takes: &[], body: |e| refused(e, &[("date", "yesterday")]) },
    Scenario { name: "refused::rate", takes: &[], body: |e| refused(e, &[("rate", "-1")]) },
    Scenario { name: "refused::freeze", takes: &[], body: |e| refused(e, &[("freeze", "maybe")]) },
    Scenario {
        name: "refused::monotonic",
        takes: &[],
        body: |e| refused(e, &[("monotonic", "1x")]),
    },
    Scenario { name: "refused::anchor", takes: &[], body: |e| refused(e, &[("anchor", "@1")]) },
    Scenario {
        name: "refused::timeline",
        takes: &[],
        body: |e| refused(e, &[("timeline", "a/b")]),
    },
    Scenario { name: "refused::unknown", takes: &[], body: unknown },
    Scenario { name: "refused::contradiction", takes: &[], body: contradiction },
    Scenario { name: "refused::before_the_boot", takes: &[], body: before_the_boot },
    Scenario { name: "refused::other_settings", takes: &[], body: other_settings },
    Scenario { name: "refused::no_runtime", takes: &[], body: no_runtime },
];

/// An engine's message about a container that cannot be made.
fn fails(engine: &dyn Engine, spec: &Spec) -> Result<Finished, Broken> {
    let name = new_name();
    let ended = run(&mut engine.start(&name, spec)?, LIMIT)?;
    let init = engine.init(&name);
    engine.remove(&name);
    ended.ensure(!ended.status.success(), "the container was made")?;
    let runs = matches!(init, Ok(pid) if pid != 0);
    ended.ensure(!runs, "its first process runs")?;
    Ok(ended)
}

fn expect_words(ended: &Finished, words: &[&str]) -> Outcome {
    for word in words {
        ended.ensure(ended.errors.contains(word), format_args!("it does not say {word:?}"))?;
    }
    Ok(())
}

fn refused(engine: &dyn Engine, settings: &[(&'static str, &str)]) -> Outcome {
    let ended = fails(engine, &Spec::serving().with_settings(settings))?;
    expect_words(&ended, &["eigentime-oci: ", settings[0].1])?;
    let key = settings[0].0;
    let names = [format!("io.eigentime.{key}"), variable(key)];
    let named = names.iter().any(|name| ended.errors.contains(name));
    ended.ensure(named, format_args!("it does not name {key}"))
}

fn unknown(engine: &dyn Engine) -> Outcome {
    let ended = fails(engine, &Spec::serving().set("speed", "2").set("rate", "2"))?;
    expect_words(&ended, &["eigentime-oci: ", "no setting", "help: "])?;
    let named = ["io.eigentime.speed", "EIGENTIME_SPEED"];
    let named = named.iter().any(|name| ended.errors.contains(name));
    ended.ensure(named, "it does not name it")
}

fn contradiction(engine: &dyn Engine) -> Outcome {
    let ended = fails(engine, &Spec::serving().set("date", FUTURE.0).set("offset", "+1d"))?;
    expect_words(&ended, &["eigentime-oci: ", "cannot both be set"])
}

/// No kernel shows a clock below zero.
fn before_the_boot(engine: &dyn Engine) -> Outcome {
    let ended = fails(engine, &Spec::serving().set("monotonic", "-36500d"))?;
    expect_words(&ended, &["eigentime-oci: ", "36500"])
}

/// A container that joins a timeline must ask for the same settings, or for none.
fn other_settings(engine: &dyn Engine) -> Outcome {
    let timeline = new_name();
    let spec = |rate: &str| Spec::serving().joinable(&timeline).set("rate", rate);
    let _first = Container::serve(engine, &spec("2"))?;
    let ended = fails(engine, &spec("3"))?;
    expect_words(&ended, &["eigentime-oci: ", &timeline, "exists already"])?;
    Container::serve(engine, &spec("2"))?;
    Ok(())
}

fn no_runtime(engine: &dyn Engine) -> Outcome {
    let ended = fails(engine, &Spec::serving().by(Runtime::WrapperOfNothing))?;
    expect_words(&ended, &["eigentime-oci: ", "/nonexistent", "help: "])?;
    let spec = Spec::serving().by(Runtime::WrapperOfNothing).set("date", FUTURE.0);
    expect_words(&fails(engine, &spec)?, &["/nonexistent"])
}
