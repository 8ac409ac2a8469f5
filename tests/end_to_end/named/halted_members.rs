//! A member that cannot run, because its cgroup is frozen, it is stopped, or its `vfork` child sleeps,
//! delays no other, and catches up once it runs again.

use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::place::{PATIENCE, Place};
use crate::command::{User, start};
use crate::ensure;
use crate::groups::{Group, Hierarchy};
use crate::needs::Need;
use crate::processes::{send, status_field};
use crate::programs::{Build, Program};
use crate::session::{Session, Snapshot};
use crate::suite::{Broken, Outcome, Suite};

const HOUR_MS: u32 = 3_600_000;
const HOUR_NS: i128 = 3_600_000_000_000;
/// The rate that the clocks are given while a member is halted.
const RATE: i32 = 60;
/// What a timer may be late by that is armed anew on a busy host, at rate 60.
const SLACK_NS: i128 = 60_000_000_000;
const CLOCKS: [u32; 2] = [1, 7];
/// A change takes milliseconds. If it waited for the member, it would fail after ten seconds.
const PROMPT: Duration = Duration::from_secs(5);

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    let program = [Need::Program(Build::Dynamic)];
    for hierarchy in Hierarchy::ALL {
        let test = |what: &str| format!("named::{what}::{}", hierarchy.name());
        let needs = [&hierarchy.needs()[..], &program].concat();
        suite.test(test("frozen_member"), &needs, move || frozen_member(hierarchy));
        for (name, options) in [("untraced", &[][..]), ("traced", &["--traced"])] {
            let needs = [&hierarchy.needs()[..], &[Need::Tool("perl")]].concat();
            let test = test(&format!("frozen_while_rewritten::{name}"));
            suite.test(test, &needs, move || frozen_while_rewritten(hierarchy, options));
        }
    }
    for (name, options) in [("untraced", &[][..]), ("traced", &["--traced"])] {
        let test = |what: &str| format!("named::{what}::{name}");
        suite.test(test("stopped_member"), &program, move || stopped_member(options));
        suite.test(test("vfork_parent"), &program, move || vfork_parent(options));
    }
}

/// A member of the timeline `x` whose timers expire in an hour.
fn armed(place: &Place, options: &[&str]) -> Result<Session, Broken> {
    let program = User::Myself.program(Program::Armed, Build::Dynamic)?;
    let hour = HOUR_MS.to_string();
    let mut armed = place.talk("x", options, program, &[&hour, &hour])?;
    armed.snapshot()?;
    Ok(armed)
}

/// Changes the clocks while a member is halted: promptly, and other members follow.
fn change(place: &Place) -> Outcome {
    let promptly = |words: &[&str]| {
        let begin = Instant::now();
        place.done(words)?;
        let took = begin.elapsed();
        ensure!(took < PROMPT, "`ctl {}` took {took:?}", words.join(" "));
        Ok(())
    };
    promptly(&["set", "x", "--rate", &RATE.to_string()])?;
    ensure!(place.show("x")?.rate == f64::from(RATE), "its rate is another");
    let reads = User::Myself.program(Program::Reads, Build::Dynamic)?;
    let mut other = place.talk("x", &[], reads, &[])?;
    let (first, second) = (other.snapshot()?, other.snapshot()?);
    let passed = second.ns("vdso_1")? - first.ns("vdso_1")?;
    let least = i128::try_from((second.before - first.after).as_nanos())? * i128::from(RATE);
    ensure!(passed > 0 && passed >= least, "{passed} ns passed on its clock, not {least}");
    promptly(&["leap", "x", "60s"])?;
    other.finish()
}

/// The timers expire an hour after they were armed, by the timeline's clocks.
fn expect_caught_up(armed: &Snapshot) -> Outcome {
    for clock in CLOCKS {
        let of = |key: &str| armed.ns(&format!("{key}_{clock}"));
        let now = of("now")?;
        for timer in
            ["timerfd", "timerfd_abs", "timerfd_every", "timer", "timer_abs", "timer_every"]
        {
            let due = now + armed.ns(&format!("{timer}_{clock}_left"))?;
            let (least, most) =
                (of("from")? + HOUR_NS - SLACK_NS, of("till")? + HOUR_NS + SLACK_NS);
            ensure!(
                (least..=most).contains(&due),
                "{timer}_{clock} is due at {due}, not {least} to {most}"
            );
        }
    }
    Ok(())
}

fn frozen_member(hierarchy: Hierarchy) -> Outcome {
    let place = Place::new()?;
    let mut frozen = armed(&place, &[])?;
    let group = Group::of(hierarchy)?;
    group.take(frozen.pid())?;
    group.freeze()?;
    change(&place)?;
    group.thaw()?;
    expect_caught_up(&frozen.snapshot()?)?;
    frozen.finish()?;
    place.remove("x")
}

/// Programs are frozen at any moment while their call sites are rewritten: the supervisor answers, and
/// they go on afterwards.
fn frozen_while_rewritten(hierarchy: Hierarchy, options: &[&str]) -> Outcome {
    const ROUNDS: u32 = 200;
    // A site is rewritten at its second call, or, where threads are traced, at the sixteenth.
    let script = "echo ready; \
        while perl -e 'select undef, undef, undef, 0.0001 for 1 .. 20'; do :; done; echo failed";
    let place = Place::new()?;
    let options = [&["--rate", "10"], options].concat();
    let mut command = place.run("x", &options)?;
    let mut programs = start(command.args(["sh", "-c", script]).stdin(Stdio::null()))?;
    ensure!(programs.next_line(PATIENCE)? == "ready", "they do not start");
    let group = Group::of(hierarchy)?;
    group.take(programs.child.id())?;
    for round in 0..ROUNDS {
        group.freeze()?;
        let begin = Instant::now();
        place.show("x").map_err(|error| Broken(format!("round {round}: {error}")))?;
        let took = begin.elapsed();
        ensure!(took < PROMPT, "round {round}: `ctl show` took {took:?}");
        group.thaw()?;
    }
    place.done(&["rm", "--force", "x"])?;
    let ended = programs.finish(PATIENCE)?;
    ended.ensure(ended.output() == "ready", "a program has failed")?;
    ended.ensure(ended.errors.is_empty(), "something is said")?;
    place.expect_nobody()
}

/// Neither change resumes a member that a signal has stopped.
fn stopped_member(options: &[&str]) -> Outcome {
    let place = Place::new()?;
    let mut stopped = armed(&place, options)?;
    let pid = stopped.pid();
    send(pid, Signal::STOP)?;
    let is_stopped =
        || status_field(pid, "State").is_some_and(|state| state.starts_with(['T', 't']));
    place.wait_until("x", "it stops", |_| is_stopped())?;
    change(&place)?;
    ensure!(is_stopped(), "it runs before it is continued");
    send(pid, Signal::CONT)?;
    expect_caught_up(&stopped.snapshot()?)?;
    stopped.finish()?;
    place.remove("x")
}

/// The parent cannot be interrupted until its child, which sleeps for two hours, has started a program.
fn vfork_parent(options: &[&str]) -> Outcome {
    let place = Place::new()?;
    let mut command = place.run("x", options)?;
    command.arg(Program::Tree.path(Build::Dynamic)).args(["vfork_late", &HOUR_MS.to_string()]);
    let family = start(command.stdin(Stdio::null()))?;
    let parent = family.child.id();
    place.await_start("x")?;
    let is_held = || status_field(parent, "State").is_some_and(|state| state.starts_with('D'));
    place.wait_until("x", "the child sleeps", |shown| {
        let sleeps = |pid: u32| shown.main_thread(pid).is_some_and(|it| it.until.is_some());
        is_held() && shown.members.iter().any(|it| it.pid != parent && sleeps(it.pid))
    })?;
    change(&place)?;
    ensure!(is_held(), "the parent does not wait for its child any more");
    // For the two hours of the child, and one of the program that it starts.
    place.done(&["set", "x", "--rate", "3600"])?;
    let ended = family.finish(PATIENCE)?;
    ended.expect_code(0)?;
    ended.ensure(ended.text("status")? == "0", "the child failed")?;
    let slept = ended.output().lines().find_map(|line| line.split_once("mono_ms=")?.1.parse().ok());
    ended.ensure(slept >= Some(f64::from(HOUR_MS)), format_args!("it slept {slept:?} ms"))?;
    place.remove("x")
}
