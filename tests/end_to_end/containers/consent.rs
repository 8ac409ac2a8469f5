//! The author of an image or a bundle cannot reach beyond its container.

use crate::command::run;
use crate::containers::Scenario;
use crate::containers::abilities::Ability;
use crate::containers::commandline::LIMIT;
use crate::containers::container::{Container, ctl_done, new_name, run_to_end, show};
use crate::containers::engine::Engine;
use crate::containers::spec::{Choice, Spec};
use crate::ensure;
use crate::suite::Outcome;
use crate::timeline::FUTURE;

/// The rows of the table.
pub const SCENARIOS: &[Scenario] = &[
    Scenario { name: "consent::joining", takes: &[], body: joining },
    Scenario { name: "consent::allowed_later", takes: &[], body: allowed_later },
    Scenario { name: "consent::existing", takes: &[], body: existing },
    // Where variables are the only channel, they are trusted.
    Scenario { name: "consent::environment", takes: &[Ability::Bundles], body: environment },
];

/// A bundle that names a timeline of other programs is refused, and these keep running undisturbed.
fn joining(engine: &dyn Engine) -> Outcome {
    let timeline = new_name();
    let spec = || Spec::serving().set("timeline", &timeline);
    let first = Container::serve(engine, &spec().set("date", FUTURE.0))?;
    // Its own consent has no effect.
    for spec in [spec(), spec().set("joinable", "true")] {
        let stranger = new_name();
        let ended = run(&mut engine.start(&stranger, &spec)?, LIMIT)?;
        engine.remove(&stranger);
        ended.ensure(!ended.status.success(), "it joined")?;
        ended.ensure(ended.errors.contains("joinable"), "it does not say what would help")?;
    }
    let shown = show(engine, &timeline)?;
    ensure!(shown.containers.len() == 1 && !shown.joinable, "{shown:?}");
    first.exec(&["date", "+%Y"])?.expect_code(0).map(drop)
}

fn allowed_later(engine: &dyn Engine) -> Outcome {
    let timeline = new_name();
    let spec = || Spec::serving().set("timeline", &timeline);
    let _first = Container::serve(engine, &spec().set("date", FUTURE.0))?;
    ctl_done(engine, &["set", &timeline, "--joinable", "true"])?;
    let _second = Container::serve(engine, &spec())?;
    let shown = show(engine, &timeline)?;
    ensure!(shown.containers.len() == 2 && shown.settable_by == "nobody", "{shown:?}");
    Ok(())
}

/// Joining a missing timeline does not make one of that name.
fn existing(engine: &dyn Engine) -> Outcome {
    let timeline = new_name();
    let joining = || Spec::serving().set("timeline", &timeline).set("existing", "true");
    let stranger = new_name();
    let ended = run(&mut engine.start(&stranger, &joining())?, LIMIT)?;
    engine.remove(&stranger);
    ended.ensure(!ended.status.success(), "it started")?;
    ended.ensure(ended.errors.contains("there is no timeline"), "it does not say why")?;
    let _first = Container::serve(engine, &Spec::serving().joinable(&timeline))?;
    let _second = Container::serve(engine, &joining())?;
    let shown = show(engine, &timeline)?;
    ensure!(shown.containers.len() == 2, "{shown:?}");
    Ok(())
}

/// Variables have no effect, are reported, and stay with the program.
fn environment(engine: &dyn Engine) -> Outcome {
    let variable = || Choice::Variable("EIGENTIME_DATE", FUTURE.0.to_owned());
    let spec = Spec::new(&["sh", "-c", "date +%Y; echo $EIGENTIME_DATE"]).choose(variable());
    let ended = run_to_end(engine, &spec)?;
    ended.expect_code(0)?;
    let output = ended.output();
    ended.ensure(!output.starts_with("2100"), "the variable counts")?;
    ended.ensure(output.contains(FUTURE.0), "the variable was taken away")?;
    for word in ["EIGENTIME_DATE", "--trust-environment", "io.eigentime.date"] {
        ended.ensure(ended.errors.contains(word), format_args!("it does not say {word}"))?;
    }
    Ok(())
}
