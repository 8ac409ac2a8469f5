//! Containers begin and end as their engine says, and their timelines with them.

use rustix::process::Signal;

use crate::command::start;
use crate::containers::Scenario;
use crate::containers::abilities::Ability;
use crate::containers::container::{
    Container, PATIENCE, ctl, ctl_done, run_to_end, show, wait_until,
};
use crate::containers::engine::Engine;
use crate::containers::spec::Spec;
use crate::ensure;
use crate::processes::{Watch, send, tracer_of};
use crate::suite::{Broken, Outcome};
use crate::timeline::FUTURE;

use std::process::Stdio;

/// The rows of the table.
pub const SCENARIOS: &[Scenario] = &[
    Scenario { name: "life::logs", takes: &[], body: logs },
    Scenario { name: "life::restart", takes: &[Ability::Restart], body: restart },
    Scenario { name: "life::stop", takes: &[], body: stop },
    Scenario { name: "life::traced_for_moments", takes: &[], body: traced_for_moments },
    Scenario { name: "life::removed", takes: &[], body: removed },
    Scenario { name: "life::killed", takes: &[], body: killed },
    Scenario { name: "life::supervisor_killed", takes: &[], body: supervisor_killed },
    Scenario { name: "life::ends_at_once", takes: &[], body: ends_at_once },
    Scenario { name: "life::crashes", takes: &[], body: crashes },
];

/// The supervisor of a container's timeline, of which its init is a member.
fn supervisor(engine: &dyn Engine, container: &Container<'_>) -> Result<Watch, Broken> {
    let shown = show(engine, &container.id()?)?;
    let init = container.init()?;
    ensure!(shown.member(init).is_some(), "{init} is not among {:?}", shown.members);
    Watch::new(shown.supervisor)
}

/// Between their calls nothing traces a container's first process, nor one that comes in later, and
/// their waits follow the clocks.
fn traced_for_moments(engine: &dyn Engine) -> Outcome {
    let container = Container::serve(engine, &Spec::serving().set("date", FUTURE.0))?;
    let mut later = container.talk_too()?;
    later.snapshot()?;
    let id = container.id()?;
    let expect_untraced = || {
        let shown = show(engine, &id)?;
        ensure!(shown.traced.is_none(), "traced: {:?}", shown.traced);
        ensure!(shown.members.len() >= 2, "there are only {:?}", shown.members);
        for member in &shown.members {
            ensure!(member.traced.is_none(), "{member:?} is traced for life");
            ensure!(member.container.as_ref() == Some(&id), "{member:?} is in no container");
            wait_until("nothing traces it", || Ok(tracer_of(member.pid).is_none()))?;
        }
        Ok(())
    };
    expect_untraced()?;
    let before = later.snapshot()?.ns("vdso_0")?;
    ctl_done(engine, &["leap", &id, "+10d"])?;
    let leapt = later.snapshot()?.ns("vdso_0")? - before;
    ensure!(leapt >= 864_000 * 1_000_000_000, "it has leapt by {leapt} ns only");
    expect_untraced()?;
    later.finish()
}

/// Nothing is left of a container's timeline.
fn expect_gone(engine: &dyn Engine, id: &str, supervisor: &Watch) -> Outcome {
    ensure!(supervisor.ends_within(PATIENCE)?, "its supervisor goes on");
    let listed = ctl_done(engine, &["list"])?;
    ensure!(!listed.contains(id), "its timeline is listed:\n{listed}");
    Ok(())
}

fn logs(engine: &dyn Engine) -> Outcome {
    let script = "date +%Y; echo to errors >&2; exec /opt/contained serve";
    let spec = Spec::new(&["sh", "-c", script]).set("date", FUTURE.0);
    let container = Container::serve(engine, &spec)?;
    container.await_output("2100")
}

/// It starts at the date again, with a timeline anew.
fn restart(engine: &dyn Engine) -> Outcome {
    let container = Container::serve(engine, &Spec::serving().set("date", FUTURE.0))?;
    let id = container.id()?;
    let first = supervisor(engine, &container)?;
    ctl_done(engine, &["leap", &id, "+10d"])?;
    crate::command::run(&mut engine.restart(&container.name), PATIENCE)?.expect_code(0)?;
    ensure!(first.ends_within(PATIENCE)?, "the supervisor of its first time goes on");
    wait_until("it serves again", || Ok(container.exec(&["true"])?.status.success()))?;
    let ended = container.exec(&["date", "+%s"])?;
    ended.expect_code(0)?;
    let since = ended.output().trim().parse::<i64>()? - FUTURE.1;
    ended.ensure((0..60).contains(&since), "it does not start at its date again")?;
    supervisor(engine, &container)?;
    Ok(())
}

/// A program that ends well when it is asked to.
fn stop(engine: &dyn Engine) -> Outcome {
    let spec = Spec::serving().set("date", FUTURE.0);
    let (container, mut command) = Container::foreground(engine, &spec)?;
    let mut running = start(command.stdin(Stdio::null()))?;
    running.next_line(PATIENCE)?;
    let (id, supervisor) = (container.id()?, supervisor(engine, &container)?);
    container.signal("TERM")?;
    running.finish(PATIENCE)?.expect_code(3)?;
    expect_gone(engine, &id, &supervisor)
}

/// Its first process ends by a fault, as on the host; `abort` ends with one, since the kernel delivers
/// no SIGABRT there.
fn crashes(engine: &dyn Engine) -> Outcome {
    let faults = [
        ("segv", Signal::SEGV),
        ("ill", Signal::ILL),
        ("fpe", Signal::FPE),
        ("abort", Signal::SEGV),
    ];
    for (fault, signal) in faults {
        let spec = Spec::new(&["/opt/contained", fault]).set("rate", "2");
        run_to_end(engine, &spec)?.expect_code(128 + signal.as_raw())?;
    }
    Ok(())
}

fn removed(engine: &dyn Engine) -> Outcome {
    let container = Container::serve(engine, &Spec::serving().set("rate", "2"))?;
    let (id, supervisor) = (container.id()?, supervisor(engine, &container)?);
    drop(container);
    expect_gone(engine, &id, &supervisor)
}

/// Its first process is killed from outside.
fn killed(engine: &dyn Engine) -> Outcome {
    let container = Container::serve(engine, &Spec::serving().set("rate", "2"))?;
    let (id, supervisor) = (container.id()?, supervisor(engine, &container)?);
    send(container.init()?, Signal::KILL)?;
    expect_gone(engine, &id, &supervisor)
}

/// A container does not go on without its clock.
fn supervisor_killed(engine: &dyn Engine) -> Outcome {
    let container = Container::serve(engine, &Spec::serving().set("rate", "2"))?;
    let shown = show(engine, &container.id()?)?;
    let init = Watch::new(container.init()?)?;
    send(shown.supervisor, Signal::KILL)?;
    ensure!(init.ends_within(PATIENCE)?, "its first process goes on without a supervisor");
    let refused = ctl(engine, &["show", &container.id()?])?;
    refused.ensure(!refused.status.success(), "its timeline still answers")
}

/// Nothing is left of one that ends before anybody looks.
fn ends_at_once(engine: &dyn Engine) -> Outcome {
    for _ in 0..5 {
        let spec = Spec::new(&["true"]).set("date", FUTURE.0);
        let (container, mut command) = Container::foreground(engine, &spec)?;
        crate::command::run(&mut command, PATIENCE)?.expect_code(0)?;
        wait_until("its timeline is gone", || {
            Ok(!ctl_done(engine, &["list", "--json"])?.contains(&container.name))
        })?;
    }
    Ok(())
}
