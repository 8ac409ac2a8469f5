//! Several containers on one timeline, and `eigentime ctl` on it.

use crate::containers::Scenario;
use crate::containers::abilities::Ability;
use crate::containers::container::{
    Container, PATIENCE, ctl, ctl_done, new_name, run_to_end, show,
};
use crate::containers::engine::Engine;
use crate::containers::later::expect_agreement;
use crate::containers::spec::{Choice, Spec};
use crate::ensure;
use crate::processes::Watch;
use crate::session::Session;
use crate::suite::Outcome;
use crate::timeline::FUTURE;
use crate::workspace;

const NS_PER_S: i128 = 1_000_000_000;
const DAY_NS: i128 = 86_400 * NS_PER_S;
/// The clocks that can be read to the nanosecond.
const FINE: [u32; 5] = [0, 1, 4, 7, 11];

/// The rows of the table.
pub const SCENARIOS: &[Scenario] = &[
    Scenario { name: "shared::two_containers", takes: &[], body: two_containers },
    Scenario { name: "shared::offsets", takes: &[], body: offsets },
    Scenario { name: "shared::to_the_nanosecond", takes: &[Ability::Volume], body: nanosecond },
    Scenario { name: "shared::pod", takes: &[Ability::Pods], body: pod },
    Scenario { name: "shared::ends_with_the_last", takes: &[], body: ends_with_the_last },
    Scenario { name: "shared::each_its_own", takes: &[], body: each_its_own },
    Scenario { name: "shared::ctl_by_id", takes: &[], body: ctl_by_id },
    Scenario { name: "shared::ctl_by_name", takes: &[Ability::Names], body: ctl_by_name },
    Scenario { name: "shared::ctl_changes", takes: &[], body: ctl_changes },
];

/// The readings of one lie between the other's readings before and after.
fn expect_one_clock(one: &mut Session, other: &mut Session) -> Outcome {
    let (before, between, after) = (one.snapshot()?, other.snapshot()?, one.snapshot()?);
    for clock in FINE {
        let key = format!("vdso_{clock}");
        let read = (before.ns(&key)?, between.ns(&key)?, after.ns(&key)?);
        ensure!(read.0 <= read.1 && read.1 <= read.2, "{key} shows {read:?} in turn");
    }
    Ok(())
}

/// Two talking containers, on a timeline of this name.
fn expect_shared(engine: &dyn Engine, timeline: &str, specs: [Spec; 2]) -> Outcome {
    let [first, second] = specs;
    let (mut one, first) = Container::talk(engine, first)?;
    one.snapshot()?;
    let (mut other, second) = Container::talk(engine, second)?;
    expect_one_clock(&mut one, &mut other)?;

    let shown = show(engine, timeline)?;
    let mut ids: Vec<_> = shown.containers.iter().map(|container| &*container.id).collect();
    ids.sort_unstable();
    let mut expected = [first.id()?, second.id()?];
    expected.sort();
    ensure!(ids == expected, "{timeline} has {ids:?}, not {expected:?}");
    let text = ctl_done(engine, &["show", timeline])?;
    for container in [&first, &second] {
        let init = container.init()?;
        let member = shown.member(init).and_then(|member| member.container.clone());
        ensure!(member == Some(container.id()?), "{init} is in {member:?}");
        let named = text.contains(&container.name) || text.contains(&container.id()?);
        ensure!(named, "{} is not in\n{text}", container.name);
    }

    let before = other.snapshot()?.ns("vdso_0")?;
    ctl_done(engine, &["leap", timeline, "+100d"])?;
    let leapt = other.snapshot()?.ns("vdso_0")? - before;
    ensure!(leapt >= 100 * DAY_NS, "the leap was {leapt} ns");
    expect_one_clock(&mut one, &mut other)?;
    one.finish()?;
    other.finish()
}

fn two_containers(engine: &dyn Engine) -> Outcome {
    let timeline = new_name();
    let first = Spec::new(&[]).joinable(&timeline).set("date", FUTURE.0).set("rate", "2");
    let second = Spec::new(&[]).joinable(&timeline);
    expect_shared(engine, &timeline, [first, second])
}

/// The kernel's uptime is the same, too.
fn offsets(engine: &dyn Engine) -> Outcome {
    let timeline = new_name();
    let spec = || Spec::new(&[]).joinable(&timeline);
    let asked = spec().set("boottime", "+20d").set("monotonic", "+10d");
    expect_shared(engine, &timeline, [asked, spec()])?;
    let timeline = new_name();
    let spec = || Spec::new(&[]).joinable(&timeline);
    let (mut one, _one) = Container::talk(engine, spec().set("boottime", "+20d"))?;
    one.snapshot()?;
    let (mut other, _other) = Container::talk(engine, spec())?;
    let read = (one.snapshot()?, other.snapshot()?);
    let apart = read.1.ns("proc_uptime")? - read.0.ns("proc_uptime")?;
    ensure!((0..60 * NS_PER_S).contains(&apart), "the uptimes are {apart} ns apart");
    one.finish()?;
    other.finish()
}

/// Programs of two containers compare their clocks through a shared file.
fn nanosecond(engine: &dyn Engine) -> Outcome {
    let (timeline, folder) = (new_name(), workspace::scratch()?);
    let spec = || {
        let volume = Choice::Volume(folder.clone(), "/mnt");
        Spec::serving().choose(volume).joinable(&timeline)
    };
    let first = Container::serve(engine, &spec().set("date", FUTURE.0).set("rate", "3"))?;
    let second = Container::serve(engine, &spec())?;
    expect_agreement(engine, [&first.name, &second.name], "/mnt/agree", 3)
}

/// A pod that is removed when dropped.
struct Pod<'a>(&'a dyn Engine, String);

impl Drop for Pod<'_> {
    fn drop(&mut self) {
        self.0.remove_pod(&self.1);
    }
}

fn pod(engine: &dyn Engine) -> Outcome {
    let (pod, timeline) = (Pod(engine, new_name()), new_name());
    engine.make_pod(&pod.1)?;
    let spec = || Spec::new(&[]).choose(Choice::Pod(pod.1.clone())).joinable(&timeline);
    expect_shared(engine, &timeline, [spec().set("date", FUTURE.0), spec()])
}

fn ends_with_the_last(engine: &dyn Engine) -> Outcome {
    let timeline = new_name();
    let spec = || Spec::serving().joinable(&timeline).set("date", FUTURE.0);
    let (first, second) = (Container::serve(engine, &spec())?, Container::serve(engine, &spec())?);
    let supervisor = Watch::new(show(engine, &timeline)?.supervisor)?;
    drop(first);
    second.exec(&["date", "+%Y"])?.expect_code(0)?;
    let shown = show(engine, &timeline)?;
    ensure!(shown.containers.len() == 1, "after the end of one it has {:?}", shown.containers);
    drop(second);
    ensure!(supervisor.ends_within(PATIENCE)?, "the supervisor goes on after the last");
    let gone = ctl(engine, &["show", &timeline])?;
    gone.ensure(!gone.status.success(), "the timeline still answers")
}

/// Without a name for the timeline, each container has its own.
fn each_its_own(engine: &dyn Engine) -> Outcome {
    let first = Container::serve(engine, &Spec::serving().set("date", FUTURE.0))?;
    let second = Container::serve(engine, &Spec::serving().set("date", FUTURE.0))?;
    ctl_done(engine, &["leap", &first.id()?, "+1000d"])?;
    for (container, year) in [(&first, "2102"), (&second, "2100")] {
        let ended = container.exec(&["date", "+%Y"])?;
        ended.expect_code(0)?;
        ended.ensure(ended.output().trim() == year, format_args!("it is not {year}"))?;
    }
    Ok(())
}

fn ctl_by_id(engine: &dyn Engine) -> Outcome {
    let container = Container::serve(engine, &Spec::serving().set("date", FUTURE.0))?;
    let id = container.id()?;
    let shown = show(engine, &id)?;
    ensure!(shown.containers.iter().any(|one| one.id == id), "{shown:?}");
    let init = container.init()?;
    ensure!(shown.member(init).is_some(), "{init} is no member of {shown:?}");
    let listed = ctl_done(engine, &["list"])?;
    ensure!(listed.contains(&id[..id.len().min(12)]), "{id} is not in\n{listed}");
    let missing = ctl(engine, &["show", "no-such-container"])?;
    missing.ensure(!missing.status.success(), "it shows what is not there")
}

fn ctl_by_name(engine: &dyn Engine) -> Outcome {
    let container = Container::serve(engine, &Spec::serving().set("date", FUTURE.0))?;
    let id = container.id()?;
    for word in [&*container.name, &id, &id[..12], &id[..8]] {
        let shown = show(engine, word)?;
        let found = shown
            .containers
            .iter()
            .any(|one| one.id == id && one.name.as_deref() == Some(&container.name));
        ensure!(found, "{word} leads to {shown:?}");
    }
    ctl_done(engine, &["leap", &container.name, "+366d"])?;
    let ended = container.exec(&["date", "+%Y"])?;
    ended.ensure(ended.output().trim() == "2101", "it did not leap")
}

fn ctl_changes(engine: &dyn Engine) -> Outcome {
    let (mut session, container) = Container::talk(engine, Spec::new(&[]).set("date", FUTURE.0))?;
    session.snapshot()?;
    let id = container.id()?;
    ctl_done(engine, &["freeze", &id])?;
    let (one, other) = (session.snapshot()?.ns("vdso_1")?, session.snapshot()?.ns("vdso_1")?);
    ensure!(one == other, "{} ns passed while it was frozen", other - one);
    ctl_done(engine, &["thaw", &id, "--rate", "1000"])?;
    let (one, other) = (session.snapshot()?, session.snapshot()?);
    let passed = (other.ns("vdso_1")? - one.ns("vdso_1")?) as f64;
    let host = other.after.duration_since(one.before).as_nanos() as f64;
    ensure!(passed > 0.0 && passed <= host * 1000.0 + 1000.0, "{passed} ns passed in {host}");
    ctl_done(engine, &["set", &id, "--date", "2000-06-01"])?;
    let seen = container.exec(&["date", "+%Y"])?;
    seen.ensure(seen.output().trim() == "2000", "the date is not what was set")?;
    session.finish()?;
    // A container that is removed by force ends.
    let served = Spec::serving().set("date", FUTURE.0);
    let container = Container::serve(engine, &served)?;
    let init = Watch::new(container.init()?)?;
    ctl_done(engine, &["rm", "--force", &container.id()?])?;
    ensure!(init.ends_within(PATIENCE)?, "it goes on after rm --force");
    run_to_end(engine, &Spec::new(&["true"]))?.expect_code(0)?;
    Ok(())
}
