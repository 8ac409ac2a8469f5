//! The output of `ctl`: clocks on both sides, members, the calls in which they wait and until when;
//! for people and as JSON.

use std::process::Stdio;

use rustix::time::ClockId;
use serde_json::Value;

use super::creation::sleeper;
use super::place::Place;
use super::shown::{CLOCKS, Shown, Thread, Until};
use crate::command::{User, start};
use crate::ensure;
use crate::needs::Need;
use crate::programs::{Build, Program};
use crate::session::host_ns;
use crate::suite::{Broken, Outcome, Suite};
use crate::timeline::FUTURE;

const NS_PER_S: i128 = 1_000_000_000;
/// The clocks that can be read here, too.
const HOST_CLOCKS: [(&str, ClockId); 4] = [
    ("realtime", ClockId::Realtime),
    ("monotonic", ClockId::Monotonic),
    ("monotonic_raw", ClockId::MonotonicRaw),
    ("boottime", ClockId::Boottime),
];

/// A day, for which the programs wait.
const WAIT_MS: i128 = 86_400_000;

/// A wait, and its reported call (as the kernel sees it) and clock.
const WAITS: [(&str, &str, &str); 8] = [
    ("nanosleep", "nanosleep", "monotonic"),
    ("poll", "poll", "monotonic"),
    ("select", "select", "monotonic"),
    ("epoll_wait", "epoll", "monotonic"),
    ("clock_nanosleep_realtime_abs", "clock_nanosleep", "realtime"),
    ("clock_nanosleep_boottime_abs", "clock_nanosleep", "boottime"),
    ("futex_wait", "futex", "monotonic"),
    ("pthread_cond_timedwait_realtime_abs", "futex", "realtime"),
];

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    let needs = [Need::Program(Build::Dynamic)];
    for (wait, call, clock) in WAITS {
        suite.test(format!("named::answers::waits::{wait}"), &needs, move || {
            waiter(wait, call, clock)
        });
    }
    let mut test = |name: &str, body: fn() -> Outcome| {
        suite.test(format!("named::answers::{name}"), &needs, body);
    };
    test("clocks", clocks);
    test("for_people", for_people);
    test("list", list);
    test("json_of_every_command", json_of_every_command);
    test("the_only_one_needs_no_name", only_one);
    test("threads", threads);
    test("a_call_about_to_be_made", about_to_be_made);
}

/// Both sides of every clock lie between the readings before and after.
fn clocks() -> Outcome {
    let place = Place::new()?;
    let program = User::Myself.program(Program::Reads, Build::Dynamic)?;
    let mut session = place.talk("x", &["--rate", "10", "--date", FUTURE.0], program, &[])?;
    let host = || HOST_CLOCKS.map(|(_, clock)| host_ns(clock));
    let (host_before, before) = (host(), session.snapshot()?);
    let shown = place.show("x")?;
    let (after, host_after) = (session.snapshot()?, host());
    ensure!(
        (&*shown.name, &*shown.state, shown.rate) == ("x", "running", 10.0),
        "it is shown as {shown:?}"
    );
    let names: Vec<&str> = shown.clocks.iter().map(|reading| reading.clock.as_str()).collect();
    ensure!(names == CLOCKS.map(|(name, _)| name), "the clocks are {names:?}");
    for (index, (name, _)) in HOST_CLOCKS.into_iter().enumerate() {
        let reading = shown.clock(name)?;
        let host = host_before[index]..=host_after[index];
        ensure!(host.contains(&reading.host_ns.into()), "{reading:?} is not in {host:?}");
    }
    for (name, number) in CLOCKS {
        let reading = shown.clock(name)?;
        let key = format!("vdso_{number}");
        let timeline = before.ns(&key)?..=after.ns(&key)?;
        ensure!(timeline.contains(&reading.virtual_ns.into()), "{reading:?} not in {timeline:?}");
    }
    let pid = session.pid();
    let member = shown.member(pid).ok_or_else(|| Broken(format!("no {pid} in {shown:?}")))?;
    ensure!(member.command.contains("reads"), "{member:?}");
    session.finish()?;
    place.remove("x")
}

/// A thread that waits until a time.
fn expect_wait(shown: &Shown, pid: u32) -> Result<(Thread, Until), Broken> {
    let thread = shown.main_thread(pid).cloned();
    let until = thread.as_ref().and_then(|thread| thread.until.clone());
    thread.zip(until).ok_or_else(|| Broken(format!("{pid} is not shown to wait: {shown:?}")))
}

fn waiter(wait: &str, call: &str, clock: &str) -> Outcome {
    let place = Place::new()?;
    place.make("x", &["--rate", "10", "--date", FUTURE.0])?;
    let before = place.show("x")?;
    let mut command = place.run("x", &[])?;
    command.arg(User::Myself.program(Program::Waits, Build::Dynamic)?);
    let member = start(command.args([wait, &WAIT_MS.to_string()]).stdin(Stdio::null()))?;
    let pid = member.child.id();
    let shown = place.wait_until("x", "it waits", |shown| shown.waits(pid, &[]))?;
    let (thread, until) = expect_wait(&shown, pid)?;
    let found = thread.call.unwrap_or_default();
    ensure!(found.contains(call), "it is shown to wait in {found}, not {call}");
    ensure!(until.clock == clock, "it is shown to wait on {}, not {clock}", until.clock);
    let wait_ns = WAIT_MS * 1_000_000;
    let (least, most) = (before.virtual_ns(clock)? + wait_ns, shown.virtual_ns(clock)? + wait_ns);
    ensure!(
        // A wait for a duration counts from when the program calls.
        (least..=most + NS_PER_S / 100).contains(&until.at_ns.into()),
        "it is shown to end at {}, not {least} to {most}",
        until.at_ns
    );
    let left = i128::from(until.at_ns) - shown.virtual_ns(clock)?;
    let found = i128::from(until.left_ns);
    ensure!((left - NS_PER_S * 10..=left).contains(&found), "{found} ns left, not {left}");
    let host = i128::from(until.host_left_ns.unwrap_or_default());
    ensure!(
        (host - found / 10).abs() < NS_PER_S * 10,
        "{host} ns left on the host, not {found}/10"
    );
    place.done(&["freeze", "x"])?;
    let frozen =
        expect_wait(&place.wait_until("x", "it waits", |shown| shown.waits(pid, &[]))?, pid)?;
    ensure!(frozen.1.host_left_ns.is_none(), "frozen, it is shown to end: {frozen:?}");
    ensure!(frozen.1.at_ns == until.at_ns, "it was to end at {}, now {frozen:?}", until.at_ns);
    place.remove("x")
}

fn for_people() -> Outcome {
    let place = Place::new()?;
    let member = sleeper(&place, "x", &["--date", FUTURE.0, "--rate", "10"])?;
    let pid = member.child.id();
    place.await_start("x")?;
    place.wait_until("x", "it sleeps", |shown| shown.waits(pid, &[]))?;
    let text = place.done(&["show", "x"])?;
    let sleeps = format!("process {pid}: sleep 86400");
    let waits = format!("thread {pid}: waits in clock_nanosleep until monotonic ");
    for words in ["timeline x: running, rate 10", "2100-01-01T00:0", "on the host", &sleeps, &waits]
    {
        ensure!(text.contains(words), "no {words:?} in\n{text}");
    }
    for (clock, _) in CLOCKS {
        ensure!(text.lines().any(|line| line.starts_with(clock)), "no {clock} in\n{text}");
    }
    place.done(&["freeze", "x"])?;
    // A thread that reads the new map runs for a moment.
    place.wait_until("x", "it sleeps again", |shown| shown.waits(pid, &[]))?;
    let text = place.done(&["show", "x"])?;
    for words in ["timeline x: frozen, rate 10", "never on the host"] {
        ensure!(text.contains(words), "no {words:?} in\n{text}");
    }
    place.remove("x")
}

fn list() -> Outcome {
    let place = Place::new()?;
    let none = place.ctl(&["list"])?;
    none.expect_code(0)?;
    none.ensure(none.lines.is_empty(), "something is listed where nothing is")?;
    let looked = none.errors.contains(&place.sockets().display().to_string());
    none.ensure(looked, "it does not say where it looked")?;
    let none: Vec<Value> = serde_json::from_str(&place.done(&["list", "--json"])?)?;
    ensure!(none.is_empty(), "{none:?}");
    for (name, options) in
        [("b", &["--rate", "3"][..]), ("a", &["--date", FUTURE.0]), ("c", &["--freeze"])]
    {
        place.make(name, options)?;
    }
    let text = place.done(&["list"])?;
    let starts: Vec<Vec<&str>> =
        text.lines().map(|line| line.split_whitespace().take(4).collect()).collect();
    let expected = [
        ["a", "running", "rate", "1"],
        ["b", "running", "rate", "3"],
        ["c", "frozen", "rate", "1"],
    ];
    ensure!(starts == expected, "the list is\n{text}");
    ensure!(text.contains("2100-01-01T00:0") && text.contains("0 members"), "the list is\n{text}");
    let shown: Vec<Shown> = serde_json::from_str(&place.done(&["list", "--json"])?)?;
    let names: Vec<&str> = shown.iter().map(|one| one.name.as_str()).collect();
    ensure!(names == ["a", "b", "c"], "the list as JSON names {names:?}");
    for name in ["a", "b"] {
        place.ctl(&["rm", name])?;
    }
    place.remove("c")
}

fn json_of_every_command() -> Outcome {
    let place = Place::new()?;
    place.make("x", &[])?;
    for (words, state, rate) in [
        (&["set", "x", "--rate", "5"][..], "running", 5.0),
        (&["freeze", "x"], "frozen", 5.0),
        (&["leap", "x", "+1d"], "frozen", 5.0),
        (&["set", "x", "--rate", "7"], "frozen", 7.0),
        (&["set", "x", "--date", FUTURE.0], "frozen", 7.0),
        (&["thaw", "x"], "running", 7.0),
        (&["thaw", "x", "--rate", "0.5"], "running", 0.5),
    ] {
        let text = place.done(&[words, &["--json"]].concat())?;
        let shown: Value = serde_json::from_str(&text)?;
        ensure!(
            shown["name"] == "x" && shown["state"] == state && shown["rate"] == rate,
            "after {words:?} it is not {state} at {rate}: {shown}"
        );
    }
    let saved: Value = serde_json::from_str(&place.done(&["save", "x", "--json"])?)?;
    ensure!(saved["format"] == "eigentime timeline", "{saved}");
    place.remove("x")
}

fn only_one() -> Outcome {
    let place = Place::new()?;
    place.make("x", &[])?;
    for words in [
        &["show"][..],
        &["set", "--rate", "5"],
        &["freeze"],
        &["leap", "1h"],
        &["leap", "+1h"],
        &["thaw"],
        &["save"],
    ] {
        place.done(words)?;
    }
    ensure!(place.show("x")?.rate == 5.0, "the rate is not 5");
    place.remove("x")
}

/// Every thread of every member.
fn threads() -> Outcome {
    let place = Place::new()?;
    let program = User::Myself.program(Program::Steady, Build::Dynamic)?;
    let mut command = place.run("x", &["--freeze"])?;
    command.arg(program).args(["after", "0"]).stdin(Stdio::piped());
    let mut running = start(&mut command)?;
    let first = running.next_line(super::place::PATIENCE)?;
    ensure!(first == "ready", "{first:?} instead of ready");
    let pid = running.child.id();
    let shown = place.wait_until("x", "one reads and one sleeps", |shown| {
        let threads = shown.member(pid).map(|member| member.threads.as_slice());
        let calls = threads.unwrap_or_default().iter().map(|thread| thread.call.as_deref());
        calls.eq([Some("read"), Some("clock_nanosleep")])
    })?;
    let threads = shown.member(pid).map(|member| member.threads.clone()).unwrap_or_default();
    ensure!(threads[0].until.is_none() && threads[1].until.is_some(), "{threads:?}");
    place.remove("x")
}

/// A thread that is stopped before its call is not reported as waiting in it.
fn about_to_be_made() -> Outcome {
    const LOOKS: usize = 200;
    let place = Place::new()?;
    let program = User::Myself.program(Program::Steady, Build::Dynamic)?;
    // It spends most of its time in stops.
    let mut command = place.run("x", &["--rate", "1000", "--no-rewrite"])?;
    command.arg(program).args(["after", "0"]).stdin(Stdio::piped());
    let mut running = start(&mut command)?;
    let first = running.next_line(super::place::PATIENCE)?;
    ensure!(first == "ready", "{first:?} instead of ready");
    let pid = running.child.id();
    let mut seen = [0; 2];
    for _ in 0..LOOKS {
        let shown = place.show("x")?;
        let threads = shown.member(pid).map(|member| member.threads.as_slice());
        for thread in threads.unwrap_or_default() {
            match (thread.call.as_deref(), &thread.until) {
                (None, None) => seen[0] += 1,
                (Some("read"), None) => seen[1] += 1,
                (Some("clock_nanosleep"), Some(_)) => {}
                _ => return Err(Broken(format!("{thread:?}"))),
            }
        }
    }
    ensure!(seen.iter().all(|seen| *seen > 0), "runs or reads: {seen:?}");
    place.remove("x")
}
