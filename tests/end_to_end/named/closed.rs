//! A program that closes itself to its user (PR_SET_DUMPABLE). The supervisor of an ordinary user traces
//! it from then on, because it could not do so again; that of root does not have to.

use std::process::Stdio;

use rustix::process::Signal;

use super::place::{PATIENCE, Place};
use crate::command::{Running, User, start};
use crate::ensure;
use crate::needs::Need;
use crate::processes::{send, tracer_of};
use crate::programs::{Build, Program};
use crate::session::Session;
use crate::suite::{Broken, Outcome, Suite};
use crate::timeline::FUTURE;

const ROOT: (&str, User) = ("root", User::Myself);
const NOBODY: (&str, User) = ("nobody", User::Nobody);

/// The reason that `ctl show` gives for tracing such a program.
const WHY: &str = "since its memory is closed to this user";

const DAY_MS: f64 = 86_400_000.0;
const DAY_NS: i128 = 86_400_000_000_000;

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    let mut test = |what: &str, users: &[(&str, User)], body: fn(User) -> Outcome| {
        for (name, user) in users.iter().copied() {
            let needs = [vec![Need::Program(Build::Dynamic), Need::Root], user.needs()].concat();
            suite.test(format!("named::closed::{what}::{name}"), &needs, move || body(user));
        }
    };
    test("shown", &[ROOT, NOBODY], shown);
    test("ends_with_the_supervisor", &[ROOT, NOBODY], ends_with_the_supervisor);
    test("clocks", &[ROOT, NOBODY], clocks);
    test("waits", &[ROOT], waits);
}

/// A program that prints its clocks. It makes the timeline `x`.
fn clock(place: &Place, user: User) -> Result<Session, Broken> {
    let reads = user.program(Program::Reads, Build::Dynamic)?;
    let mut clock = place.talk("x", &["--date", FUTURE.0], reads, &["closed"])?;
    clock.snapshot()?;
    Ok(clock)
}

/// A program that sleeps for a day.
fn sleeper(place: &Place, user: User) -> Result<Running, Broken> {
    let mut command = place.run("x", &[])?;
    command.arg(user.program(Program::Waits, Build::Dynamic)?);
    command.args(["nanosleep", &DAY_MS.to_string(), "closed"]);
    let mut sleeper = start(command.stdin(Stdio::null()))?;
    ensure!(sleeper.next_line(PATIENCE)? == "begin", "it does not begin to sleep");
    Ok(sleeper)
}

fn shown(user: User) -> Outcome {
    let place = Place::of(user)?;
    let clock = clock(&place, user)?;
    let shown = place.show("x")?;
    let (why, tracer) = match user {
        User::Nobody => (Some(WHY), Some(shown.supervisor)),
        User::Myself => (None, None),
    };
    ensure!(shown.traced.is_none(), "traced: {:?}", shown.traced);
    let told = shown.member(clock.pid()).and_then(|it| it.traced.as_deref());
    ensure!(told == why, "the reason for tracing it is {told:?}, not {why:?}");
    let is_traced_by = format!("its tracer is {tracer:?}");
    place.wait_until("x", &is_traced_by, |_| tracer_of(clock.pid()) == tracer)?;
    clock.finish()?;
    place.remove("x")
}

fn clocks(user: User) -> Outcome {
    let place = Place::of(user)?;
    let mut clock = clock(&place, user)?;
    let before = clock.snapshot()?;
    place.done(&["leap", "x", "1d"])?;
    let after = clock.snapshot()?;
    for key in ["vdso_0", "raw_0", "vdso_1", "raw_1"] {
        let passed = after.ns(key)? - before.ns(key)?;
        ensure!(
            (DAY_NS..2 * DAY_NS).contains(&passed),
            "{key} has moved by {passed} ns, not by a day"
        );
    }
    clock.finish()?;
    place.remove("x")
}

fn waits(user: User) -> Outcome {
    let place = Place::of(user)?;
    place.make("x", &[])?;
    let sleeper = sleeper(&place, user)?;
    place.wait_until("x", "it sleeps", |shown| shown.waits(sleeper.child.id(), &[]))?;
    place.done(&["leap", "x", "12h"])?;
    place.done(&["set", "x", "--rate", "43200"])?;
    let ended = sleeper.finish(PATIENCE)?;
    ended.expect_code(0)?;
    let slept: f64 = ended.number("mono_ms")?;
    ended.ensure(slept >= DAY_MS, format_args!("it slept {slept} ms, not a day"))?;
    place.remove("x")
}

fn ends_with_the_supervisor(user: User) -> Outcome {
    let place = Place::of(user)?;
    let _clock = clock(&place, user)?;
    let _sleeper = sleeper(&place, user)?;
    send(place.show("x")?.supervisor, Signal::KILL)?;
    place.expect_nobody()
}
