//! A container that its engine has paused delays nothing else on its timeline, and catches up
//! afterwards.

use crate::containers::Scenario;
use crate::containers::abilities::Ability;
use crate::containers::container::{Container, ctl_done, new_name, show, wait_until};
use crate::containers::engine::Engine;
use crate::containers::spec::Spec;
use crate::ensure;
use crate::suite::Outcome;
use crate::timeline::FUTURE;

/// The rows of the table.
pub const SCENARIOS: &[Scenario] = &[
    Scenario { name: "paused::delays_nobody", takes: &[Ability::Pause], body: delays_nobody },
    Scenario { name: "paused::removed", takes: &[Ability::Pause], body: removed },
];

fn delays_nobody(engine: &dyn Engine) -> Outcome {
    let timeline = new_name();
    let on = |spec: Spec| spec.joinable(&timeline).set("date", FUTURE.0);
    let sleeper = Spec::new(&["sh", "-c", "echo ready; sleep 864000; echo slept"]);
    let paused = Container::serve(engine, &on(sleeper))?;
    let (mut other, _container) = Container::talk(engine, on(Spec::serving()))?;
    let before = other.snapshot()?;
    paused.pause(true)?;
    ctl_done(engine, &["set", &timeline, "--rate", "60"])?;
    ensure!(show(engine, &timeline)?.rate == 60.0, "its rate is another");
    ctl_done(engine, &["leap", &timeline, "+20d"])?;
    let after = other.snapshot()?;
    let leapt = after.ns("vdso_1")? - before.ns("vdso_1")?;
    ensure!(leapt >= 20 * 86_400_000_000_000, "the other has leapt by {leapt} ns only");
    // A container that joins meanwhile is not delayed either.
    let (mut later, _later) = Container::talk(engine, on(Spec::serving()))?;
    ensure!(later.snapshot()?.ns("vdso_1")? > after.ns("vdso_1")?, "it is on another clock");
    later.finish()?;
    let slept = paused.output()?.contains("slept");
    ensure!(!slept, "it is not paused");
    paused.pause(false)?;
    paused.await_output("slept")?;
    other.finish()
}

/// Nothing is left of a container that is removed while it is paused.
fn removed(engine: &dyn Engine) -> Outcome {
    let paused = Container::serve(engine, &Spec::serving().set("rate", "2"))?;
    let id = paused.id()?;
    paused.pause(true)?;
    ctl_done(engine, &["leap", &id, "+10d"])?;
    drop(paused);
    wait_until("its timeline is gone", || Ok(!ctl_done(engine, &["list"])?.contains(&id)))
}
