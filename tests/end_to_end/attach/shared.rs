//! Processes attached to a timeline with other members, and what the commands report.

use std::process::Command;
use std::time::Duration;

use super::languages::start_in_c;
use super::moves::{Moved, Partner, wait_for_end_of};
use super::place::Place;
use crate::needs::Need;
use crate::processes::{Watch, send, tracer_of};
use crate::programs::{Build, Program};
use crate::session::Session;
use crate::suite::{Broken, Outcome, Suite};
use crate::timeline::FUTURE;
use crate::{command, ensure};

const NEEDS: [Need; 1] = [Need::Program(Build::Dynamic)];
/// A member that is still running when its supervisor is asked to end, ends within this time.
const SOON: Duration = Duration::from_secs(10);

type Test = fn() -> Outcome;

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    let tests: [(&str, Test); 9] = [
        ("one_clock_for_all", one_clock_for_all),
        ("step_back_refused", step_back_refused),
        ("other_options_refused", other_options_refused),
        ("made_by_attach", made_by_attach),
        ("own_ends_with_the_process", own_ends_with_the_process),
        ("json", json),
        ("words", words),
        ("not_detached", not_detached),
        ("detached_in_vfork", detached_in_vfork),
    ];
    for (name, test) in tests {
        suite.test(format!("attach::shared::{name}"), &NEEDS, test);
    }
}

fn reads() -> std::path::PathBuf {
    Program::Reads.path(Build::Dynamic)
}

/// A program started in the timeline and one attached to it read the same clocks.
fn one_clock_for_all() -> Outcome {
    let place = Place::new()?;
    let mut inside = place.talk("x", &["--date", FUTURE.0, "--rate", "100"], reads(), &[])?;
    // It makes the timeline, and the other program is running.
    inside.snapshot()?;
    let mut moved = Session::start(Command::new(reads()))?;
    moved.snapshot()?;
    place.attached(moved.pid(), &["--timeline", "x"])?;
    for key in ["vdso_0", "raw_0", "vdso_1", "raw_1", "vdso_7"] {
        for _ in 0..20 {
            let before = inside.snapshot()?.ns(key)?;
            let between = moved.snapshot()?.ns(key)?;
            let after = inside.snapshot()?.ns(key)?;
            ensure!(
                before <= between && between <= after,
                "{key}: {between} is not between {before} and {after}"
            );
        }
    }
    let shown = place.show("x")?;
    for pid in [inside.pid(), moved.pid()] {
        ensure!(shown.member(pid).is_some(), "{pid} is not shown: {shown:?}");
    }
    let supervisor = shown.supervisor;
    inside.finish()?;
    moved.finish()?;
    place.done(&["rm", "x"])?;
    wait_for_end_of(supervisor)?;
    place.expect_nobody()
}

/// A timeline behind the host would turn a monotonic clock back.
fn step_back_refused() -> Outcome {
    let place = Place::new()?;
    place.make("slow", &["--rate", "0.001"])?;
    let mut partner = start_in_c(2)?;
    let pid = partner.pid();
    let refused = place.attach(pid, &["--timeline", "slow"])?;
    refused.expect_code(125)?;
    refused.ensure(
        refused.errors.contains("step back") && refused.errors.contains("--force"),
        "it does not say why, or what helps",
    )?;
    ensure!(tracer_of(pid).is_none(), "it is followed all the same");
    let before = partner.ask("0")?;
    ensure!(before.number::<u64>("back")? + before.number::<u64>("failed")? == 0, "{before:?}");
    place.attached(pid, &["--timeline", "slow", "--force"])?;
    let after = partner.ask("0")?;
    ensure!(after.number::<u64>("failed")? == 0, "{after:?}");
    partner.finish(7)?;
    place.remove("slow")
}

fn other_options_refused() -> Outcome {
    let place = Place::new()?;
    place.make("x", &["--rate", "10"])?;
    let partner = start_in_c(2)?;
    let refused = place.attach(partner.pid(), &["--timeline", "x", "--rate", "20"])?;
    refused.expect_code(125)?;
    refused.ensure(refused.errors.contains("exists already"), "it does not say why")?;
    ensure!(tracer_of(partner.pid()).is_none(), "it is followed all the same");
    place.attached(partner.pid(), &["--timeline", "x", "--rate", "10"])?;
    partner.finish(7)?;
    place.remove("x")
}

/// It stays after its last member has ended, as any named timeline does.
fn made_by_attach() -> Outcome {
    let place = Place::new()?;
    let first = start_in_c(2)?;
    place.attached(first.pid(), &["--timeline", "x", "--date", FUTURE.0, "--rate", "10"])?;
    first.finish(7)?;
    let mut second = start_in_c(2)?;
    place.attached(second.pid(), &["--timeline", "x"])?;
    let date: f64 = second.ask("0")?.number("date")?;
    ensure!(date >= FUTURE.1 as f64, "its date is {date}");
    ensure!(place.names() == ["x"], "timelines: {:?}", place.names());
    second.finish(7)?;
    place.remove("x")
}

fn own_ends_with_the_process() -> Outcome {
    let place = Place::new()?;
    let partner = start_in_c(2)?;
    let name = partner.pid().to_string();
    place.attached(partner.pid(), &["--rate", "10"])?;
    ensure!(place.names() == [name.clone()], "timelines: {:?}", place.names());
    let shown = place.show(&name)?;
    ensure!(shown.state == "running", "{shown:?}");
    partner.finish(7)?;
    wait_for_end_of(shown.supervisor)?;
    ensure!(place.names().is_empty(), "left: {:?}", place.names());
    place.expect_nobody()
}

fn json() -> Outcome {
    let place = Place::new()?;
    let mut partner = start_in_c(5)?;
    let pid = partner.pid();
    let check = |moved: &Moved| {
        let holds = moved.pid == pid
            && moved.threads == 6
            && moved.command.contains("moved")
            && moved.stopped_ns > 0;
        if holds { Ok(()) } else { Err(crate::suite::Broken(format!("{moved:?}"))) }
    };
    let attached = place.attached(pid, &["--rate", "10"])?;
    check(&attached)?;
    partner.ask("0")?;
    let detached = place.detached(pid)?;
    check(&detached)?;
    ensure!(
        detached.notes.iter().any(|note| note.contains("supervisor keeps tracing")),
        "it does not say that the supervisor stays: {detached:?}"
    );
    partner.finish(7)?;
    place.expect_nobody()
}

fn words() -> Outcome {
    let place = Place::new()?;
    let partner = start_in_c(1)?;
    let ended = place.attach(partner.pid(), &["--rate", "10"])?;
    ended.expect_code(0)?;
    let expected = format!("attached process {} (", partner.pid());
    ended.ensure(
        ended.output().starts_with(&expected) && ended.output().contains("2 threads"),
        format_args!("not {expected:?}"),
    )?;
    partner.finish(7)?;
    place.expect_nobody()
}

/// While a child of `vfork` waits on the timeline's clocks, and then starts a program, its parent
/// does not stop.
fn detached_in_vfork() -> Outcome {
    let place = Place::new()?;
    let mut command = place.run("x", &["--rate", "10"])?;
    command.arg(Program::Tree.path(Build::Dynamic)).args(["vfork_late", "3000"]);
    let mut running = command::start(&mut command)?;
    let line = running.next_line(SOON)?;
    let pid = line.strip_prefix("pid=").and_then(|pid| pid.parse().ok());
    place.detached(pid.ok_or_else(|| Broken(format!("no pid in {line:?}")))?)?;
    let ended = running.finish(SOON)?;
    ended.expect_code(0)?;
    ended.ensure(ended.text("status")? == "0", "its child failed")?;
    place.remove("x")
}

/// A process in no timeline, or one that has left it, cannot be returned; and a process that ends
/// with its supervisor does so even after it was returned.
fn not_detached() -> Outcome {
    let place = Place::new()?;
    let refuse = |partner: &Partner| {
        let mut command = place.outside(crate::workspace::binary());
        command.args(["detach", "--pid", &partner.pid().to_string()]);
        let ended = command::run(&mut command, SOON)?;
        ended.expect_code(125)?;
        ended.ensure(!ended.errors.is_empty(), "it says nothing")
    };
    let partner = start_in_c(2)?;
    refuse(&partner)?;
    place.attached(partner.pid(), &["--rate", "10"])?;
    place.detached(partner.pid())?;
    refuse(&partner)?;
    let supervisor = tracer_of(partner.pid());
    let watch = Watch::new(partner.pid())?;
    ensure!(supervisor.is_some(), "nobody follows it any more");
    send(supervisor.unwrap_or_default(), rustix::process::Signal::KILL)?;
    ensure!(watch.ends_within(SOON)?, "it outlives its supervisor");
    place.expect_nobody()
}
