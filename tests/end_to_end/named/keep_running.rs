//! With `--keep-running`, programs outlive the supervisor of their timeline: another replaces it,
//! and all waits, including those begun meanwhile, continue on the same clocks.

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::place::{PATIENCE, Place};
use super::shown::Shown;
use super::strangers::ask_directly;
use crate::command::{Running, User, run, start};
use crate::containers::container::wait_until;
use crate::ensure;
use crate::needs::Need;
use crate::processes::{Watch, send, status_field};
use crate::programs::{Build, Program};
use crate::suite::{Broken, Outcome, Suite};
use crate::timeline::FUTURE;
use crate::workspace;

/// How often a supervisor is killed at a random moment, by default.
const ROUNDS: u32 = 30;
const SET_BY: &str = "EIGENTIME_KILLING_ROUNDS";

/// The limit for a whole test.
const LIMIT: Duration = Duration::from_secs(600);

/// The longest pause between two kills.
const MOMENTS: Duration = Duration::from_millis(60);

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    let mut test = |name: &str, needs: &[Need], body: fn() -> Outcome| {
        suite.test(format!("named::keep_running::{name}"), needs, body);
    };
    let program = [Need::Program(Build::Dynamic)];
    let nobody = [Need::Program(Build::Dynamic), Need::Root, Need::Tool("setpriv")];
    test("supervisor_is_replaced", &program, || replaced(User::Myself));
    test("many_times_in_a_row", &[Need::Tool("prlimit")], many_times);
    test("made_before_its_programs", &[], made_before);
    test("supervisor_of_nobody_is_replaced", &nobody, || replaced(User::Nobody));
    test("clients_go_on", &[], clients_go_on);
    test("guardian_is_replaced", &[], guardian_replaced);
    test("frozen", &[], frozen);
    test("a_signal_ends_it", &[], ended_by_signal);
    test("at_any_moment", &program, || at_any_moment(&[]));
    test("at_any_moment_without_rewriting", &program, || at_any_moment(&["--no-rewrite"]));
    test("refused", &[], refused);
    test("adopted_while_programs_start", &program, || adopted_in_a_storm(None));
    test("adopted_and_killed", &[], adopted_and_killed);
    test("adopted_with_few_descriptors", &[Need::Tool("prlimit")], adopted_with_few_descriptors);
    test("not_adopted", &[], not_adopted);
    let needs = [
        Need::Program(Build::Dynamic),
        Need::Other(
            other_binary().is_some(),
            format!("{OTHER} with a build under EIGENTIME_IMAGE_PADDING=4160"),
        ),
    ];
    test("not_adopted_by_another_interface", &[], another_interface);
    test("adopted_by_another_image", &needs, || adopted_in_a_storm(other_binary()));
    test("joined_by_another_image", &needs, joined_by_another_image);
}

/// Kills the supervisor, and waits until another one answers.
pub fn kill_supervisor(place: &Place) -> Outcome {
    let former = place.show("x")?.supervisor;
    let ends = Watch::new(former)?;
    ends.kill()?;
    ensure!(ends.ends_within(PATIENCE)?, "supervisor {former} cannot be killed");
    place.wait_until("x", "another supervisor", |shown| shown.supervisor != former).map(drop)
}

/// Names an `eigentime` built with another image, as in another version: all its code has other
/// addresses.
const OTHER: &str = "EIGENTIME_OTHER_BIN";

fn other_binary() -> Option<PathBuf> {
    std::env::var_os(OTHER).map(PathBuf::from)
}

/// Makes another supervisor take the timeline over.
pub fn adopt(place: &Place) -> Outcome {
    let former = place.show("x")?.supervisor;
    let ends = Watch::new(former)?;
    place.done(&["adopt", "x"])?;
    ensure!(ends.ends_within(PATIENCE)?, "supervisor {former} goes on");
    ensure!(place.show("x")?.supervisor != former, "it has no other supervisor");
    Ok(())
}

/// Works before anything has joined, too.
fn made_before() -> Outcome {
    let place = Place::new()?;
    place.done(&["create", "x", "--keep-running", "--rate", "10"])?;
    kill_supervisor(&place)?;
    ensure!(place.show("x")?.rate == 10.0, "it has begun anew");
    run(place.run("x", &[])?.arg("true"), PATIENCE)?.expect_code(0)?;
    place.remove("x")
}

/// Clients that wait for a condition, or watch, continue with the new supervisor.
fn clients_go_on() -> Outcome {
    let place = Place::new()?;
    place.done(&["create", "x", "--keep-running", "--date", "2030-01-01"])?;
    let ctl = |words: &[&str]| {
        start(place.outside(User::Myself.binary()?).arg("ctl").args(words).stdin(Stdio::null()))
    };
    let waiter = ctl(&["wait", "x", "--for", "100d"])?;
    let ends = ctl(&["wait", "x", "--ended"])?;
    let mut watcher = ctl(&["watch", "x", "--json"])?;
    for replace in [kill_supervisor, adopt] {
        leap_until_told(&place, &mut watcher)?;
        replace(&place)?;
    }
    leap_until_told(&place, &mut watcher)?;
    place.done(&["leap", "x", "100d"])?;
    waiter.finish(PATIENCE)?.expect_code(0)?;
    place.done(&["rm", "x"])?;
    ends.finish(PATIENCE)?.expect_code(0)?;
    watcher.finish(PATIENCE)?.expect_code(0)?;
    Ok(())
}

/// Leaps until the watcher receives a leap that starts after now.
fn leap_until_told(place: &Place, watcher: &mut Running) -> Outcome {
    let from = place.show("x")?.virtual_ns("realtime")?;
    let is_told = AtomicBool::new(false);
    thread::scope(|scope| {
        let leaps = scope.spawn(|| -> Outcome {
            while !is_told.load(Ordering::Relaxed) {
                place.done(&["leap", "x", "1s"])?;
            }
            Ok(())
        });
        let mut listen = || -> Outcome {
            loop {
                let line = watcher.next_line(PATIENCE)?;
                let told: serde_json::Value = serde_json::from_str(line)
                    .map_err(|error| Broken(format!("{error} in {line}")))?;
                let at = told["virtual_ns"].as_i64().map(i128::from);
                if told["event"] == "changed" && at.is_some_and(|at| at > from) {
                    return Ok(());
                }
            }
        };
        let listened = listen();
        is_told.store(true, Ordering::Relaxed);
        leaps.join().expect("it does not panic").and(listened)
    })
}

/// However many supervisors there were before: the stack has room for only a few of them.
fn many_times() -> Outcome {
    const STACK: &str = "--stack=262144:262144";
    const TIMES: usize = 60;
    let place = Place::new()?;
    let run = place.run("x", &["--keep-running"])?;
    let mut limited = User::Myself.wrap("prlimit");
    limited.arg(STACK).arg(run.get_program()).args(run.get_args());
    limited.args(["sh", "-c", "echo begins; exec sleep 86400"]);
    limited.envs(run.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let mut sleeper = start(limited.stdin(Stdio::null()))?;
    sleeper.next_line(PATIENCE)?;
    let pid = sleeper.child.id();
    place.wait_until("x", "it sleeps", |shown| shown.waits(pid, &[]))?;
    for _ in 0..TIMES {
        kill_supervisor(&place)?;
    }
    place.done(&["leap", "x", "1d"])?;
    sleeper.finish(LIMIT)?.expect_code(0)?;
    place.remove("x")
}

/// A program that prints `wrong` if it ever reads an instant before the timeline began.
fn reader(place: &Place, user: User, options: &[&str]) -> Result<Running, Broken> {
    let mut command = place.run("x", options)?;
    command.arg(user.program(Program::Steady, Build::Dynamic)?);
    let mut running = start(command.args(["after", &FUTURE.1.to_string()]).stdin(Stdio::piped()))?;
    while running.next_line(PATIENCE)? != "ready" {}
    Ok(running)
}

/// Ends its input; it must have read nothing wrong.
fn expect_right(mut reader: Running) -> Outcome {
    drop(reader.child.stdin.take());
    let ended = reader.finish(LIMIT)?;
    ended.expect_code(0)?;
    let right = ended.lines.iter().all(|line| !line.text.starts_with("wrong"));
    ended.ensure(right, "it has read the host's time")
}

/// The reading of the wall clock, in nanoseconds.
fn wall(shown: &Shown) -> i64 {
    shown.clocks[0].virtual_ns
}

fn replaced(user: User) -> Outcome {
    let place = Place::of(user)?;
    let options = ["--keep-running", "--date", FUTURE.0, "--rate", "10"];
    let reader = reader(&place, user, &options)?;
    // A wait in progress, and one that begins later.
    let mut command = place.run("x", &[])?;
    let sleeper = start(command.args(["sleep", "86400"]).stdin(Stdio::null()))?;
    let script = "echo begins; read x; sleep 86400; date +%Y";
    let mut later = start(place.run("x", &[])?.args(["sh", "-c", script]).stdin(Stdio::piped()))?;
    // A program that is being started would end with the supervisor.
    later.next_line(PATIENCE)?;
    let pid = sleeper.child.id();
    place.wait_until("x", "it sleeps", |shown| shown.waits(pid, &[]))?;
    let shown = place.show("x")?;
    ensure!(shown.keep_running && shown.version == env!("CARGO_PKG_VERSION"), "{shown:#?}");
    for _ in 0..3 {
        let before = place.show("x")?;
        kill_supervisor(&place)?;
        let after = place.show("x")?;
        let passed = wall(&after) - wall(&before);
        let host = after.clocks[0].host_ns - before.clocks[0].host_ns;
        ensure!((passed - 10 * host).abs() < 1_000_000, "{passed} ns passed in {host}");
        ensure!(after.members.len() >= 3, "members are gone: {after:#?}");
    }
    drop(later.child.stdin.take());
    let pid = later.child.id();
    let waits = |shown: &Shown| {
        shown.members.iter().filter(|it| it.command.starts_with("sleep")).count() == 2
    };
    place.wait_until("x", "both sleep", waits)?;
    ensure!(Watch::new(pid).is_ok(), "the shell has ended");
    place.done(&["set", "x", "--rate", "1"])?;
    place.done(&["freeze", "x"])?;
    place.done(&["thaw", "x"])?;
    place.done(&["leap", "x", "1d"])?;
    sleeper.finish(LIMIT)?.expect_code(0)?;
    let ended = later.finish(LIMIT)?;
    ended.expect_code(0)?;
    let year = ended.lines.last().is_some_and(|line| line.text == FUTURE.0[..4]);
    ended.ensure(year, "it lives by another time")?;
    // Programs join, and are prepared, as before.
    let joined = crate::command::run(place.run("x", &[])?.args(["date", "+%Y"]), PATIENCE)?;
    joined.ensure(joined.output().trim() == &FUTURE.0[..4], "it lives by another time")?;
    expect_right(reader)?;
    place.remove("x")
}

/// The guardian of a place.
fn guardian(place: &Place) -> Option<u32> {
    let is_guardian = |pid: &u32| status_field(*pid, "Name").as_deref() == Some("eigentime-guard");
    place.processes().into_iter().find(is_guardian)
}

fn guardian_replaced() -> Outcome {
    let place = Place::new()?;
    let mut command = place.run("x", &["--keep-running", "--date", FUTURE.0])?;
    let member = start(command.args(["sleep", "86400"]).stdin(Stdio::null()))?;
    place.await_start("x")?;
    let pid = member.child.id();
    place.wait_until("x", "it sleeps", |shown| shown.waits(pid, &[]))?;
    for _ in 0..3 {
        let mut former = None;
        wait_until("a guardian", || {
            former = guardian(&place);
            Ok(former.is_some())
        })?;
        send(former.unwrap_or_default(), Signal::KILL)?;
        wait_until("another guardian", || {
            Ok(guardian(&place).is_some_and(|pid| Some(pid) != former))
        })?;
        kill_supervisor(&place)?;
    }
    place.done(&["leap", "x", "1d"])?;
    member.finish(LIMIT)?.expect_code(0)?;
    place.remove("x")
}

/// While the clocks are frozen, all threads are traced; they outlive their tracer, and their clocks
/// stay frozen.
fn frozen() -> Outcome {
    let place = Place::new()?;
    let mut command = place.run("x", &["--keep-running", "--date", FUTURE.0])?;
    let script = "date; while :; do date +%FT%T.%N; done | uniq";
    let mut member = start(command.args(["sh", "-c", script]).stdin(Stdio::null()))?;
    // A program that is being started would end with the supervisor.
    member.next_line(PATIENCE)?;
    place.done(&["freeze", "x"])?;
    let stands = wall(&place.show("x")?);
    kill_supervisor(&place)?;
    let shown = place.show("x")?;
    ensure!(wall(&shown) == stands && shown.state == "frozen", "it goes on: {shown:#?}");
    let pid = member.child.id();
    ensure!(shown.members.iter().any(|it| it.pid == pid), "the member is gone: {shown:#?}");
    kill_supervisor(&place)?;
    place.done(&["thaw", "x"])?;
    ensure!(wall(&place.show("x")?) > stands, "it stands still");
    place.remove("x")
}

/// A signal that asks the supervisor to end ends everything, once the first program has ended.
fn ended_by_signal() -> Outcome {
    let place = Place::new()?;
    place.make("x", &["--keep-running", "--date", FUTURE.0])?;
    let mut command = place.run("x", &[])?;
    let member = start(command.args(["sleep", "86400"]).stdin(Stdio::null()))?;
    let pid = member.child.id();
    let shown = place.wait_until("x", "it sleeps", |shown| shown.waits(pid, &[]))?;
    send(shown.supervisor, Signal::TERM)?;
    let ended = member.finish(LIMIT)?;
    ended.ensure(!ended.status.success(), "it ended as if all were well")?;
    place.expect_nobody()
}

/// Starts programs endlessly, some of them in the background; prints the year if it is not the
/// timeline's, and counts its rounds. A program that is being started when the supervisor is killed
/// ends with it, and prints nothing.
const STARTS: &str = "n=0; while :; do \
    (sleep 0.002; date +%Y | grep -v 2100) & \
    date +%Y | grep -v 2100; \
    wait; \
    n=$((n+1)); echo turn=$n; \
done";

/// Whenever the supervisor is killed, surviving programs continue on the timeline's clocks.
fn at_any_moment(options: &[&str]) -> Outcome {
    let place = Place::new()?;
    let options = [options, &["--keep-running", "--date", FUTURE.0]].concat();
    let readers = (0..2).map(|_| reader(&place, User::Myself, &options));
    let readers = readers.collect::<Result<Vec<_>, _>>()?;
    let starts =
        || start(place.run("x", &options)?.args(["sh", "-c", STARTS]).stdin(Stdio::null()));
    let mut starters = [starts()?, starts()?];
    let waits = "echo begins; while :; do sleep 0.001; sleep 0.003; done";
    let mut command = place.run("x", &options)?;
    let mut waiter = start(command.args(["sh", "-c", waits]).stdin(Stdio::null()))?;
    // A program that is being started would end with the supervisor.
    for program in starters.iter_mut().chain([&mut waiter]) {
        program.next_line(PATIENCE)?;
    }
    for round in 0..workspace::number_set_by(SET_BY, ROUNDS)? {
        let after = Duration::from_micros(fastrand::u64(..MOMENTS.as_micros() as u64));
        thread::sleep(after);
        let change = match round % 4 {
            0 => &["leap", "x", "1s"][..],
            1 => &["set", "x", "--rate", "2"],
            2 => &["set", "x", "--rate", "1"],
            _ => &["show", "x"],
        };
        let pid = place.supervisors();
        let [pid] = pid[..] else { return Err(Broken(format!("supervisors {pid:?}"))) };
        let watch = Watch::new(pid)?;
        // Concurrent with a change, whose outcome is not guaranteed.
        let changed = thread::scope(|scope| {
            let changing = scope.spawn(|| place.ctl(change));
            thread::sleep(Duration::from_micros(fastrand::u64(..2_000)));
            let killed = watch.kill();
            killed.and_then(|()| changing.join().map_err(|_| Broken("it panics".into()))?)
        });
        changed?;
        ensure!(watch.ends_within(PATIENCE)?, "round {round}: the supervisor cannot be killed");
        place.wait_until("x", "another supervisor", |shown| shown.supervisor != pid)?;
        for starter in &mut starters {
            // The timeline and its programs continue.
            let end = Instant::now() + PATIENCE;
            let mut turns = 0;
            while turns < 2 {
                let line = starter.next_line(PATIENCE)?.to_owned();
                let right = line.starts_with("turn=") || line.contains("Killed");
                ensure!(right, "round {round}: a program lives by another time: {line}");
                turns += u32::from(line.starts_with("turn="));
                ensure!(Instant::now() < end, "round {round}: {}", place.tell_processes());
            }
        }
    }
    for reader in readers {
        expect_right(reader)?;
    }
    let waits = waiter.child.try_wait()?;
    ensure!(waits.is_none(), "{}", waiter.give_up("the shell that waits has ended"));
    place.remove("x")
}

/// A version that prepares programs differently gets an error, and the supervisor continues.
fn another_interface() -> Outcome {
    let place = Place::new()?;
    place.make("x", &["--keep-running"])?;
    let supervisor = place.show("x")?.supervisor;
    let answer = ask_directly(&place.sockets().join("x"), r#"{"Adopt":{"interface":0}}"#)?;
    let said =
        answer.contains("uses interface 0;") && answer.contains("its supervisor keeps running");
    ensure!(said, "it was answered {answer:?}");
    ensure!(place.show("x")?.supervisor == supervisor, "it has another supervisor");
    place.remove("x")
}

/// However often another supervisor takes over, no program ends or fails, and no clock steps back.
fn adopted_in_a_storm(other: Option<PathBuf>) -> Outcome {
    let place = Place::new()?;
    let options = ["--keep-running", "--date", FUTURE.0];
    let reader = reader(&place, User::Myself, &options)?;
    let steady = User::Myself.program(Program::Steady, Build::Dynamic)?;
    let mut forward = place.run("x", &options)?;
    let mut forward = start(forward.arg(steady).args(["forward", "2"]).stdin(Stdio::piped()))?;
    let script = STARTS.replace("while :;", "while [ ! -e $0 ];");
    let stop = place.directory().join("stop");
    let starts = || {
        let mut command = place.run("x", &options)?;
        start(command.args(["sh", "-c", &script]).arg(&stop).stdin(Stdio::null()))
    };
    let mut starters = [starts()?, starts()?];
    let binary = User::Myself.binary()?;
    for round in 0..20 {
        // Alternates between both, if there is another.
        let command = other.as_ref().filter(|_| round % 2 == 0).unwrap_or(&binary);
        let before = place.show("x")?;
        let adopts =
            crate::command::run(place.outside(command).args(["ctl", "adopt", "x"]), PATIENCE)?;
        adopts.expect_code(0)?;
        let after = place.show("x")?;
        ensure!(before.supervisor != after.supervisor, "round {round}: the supervisor is the same");
        let passed = wall(&after) - wall(&before);
        let host = after.clocks[0].host_ns - before.clocks[0].host_ns;
        ensure!((passed - host).abs() < 1_000_000, "round {round}: {passed} ns passed in {host}");
        for starter in &mut starters {
            for _ in 0..2 {
                let line = starter.next_line(PATIENCE)?.to_owned();
                ensure!(line.starts_with("turn="), "round {round}: {line}");
            }
        }
        if round % 3 == 0 {
            place.done(&["leap", "x", "1s"])?;
        }
    }
    std::fs::write(&stop, "")?;
    for starter in starters {
        let ended = starter.finish(LIMIT)?;
        ended.expect_code(0)?;
        ended.ensure(ended.errors.is_empty(), "a program has failed")?;
    }
    drop(forward.child.stdin.take());
    let ended = forward.finish(LIMIT)?;
    ended.expect_code(0)?;
    let back = |line: &str| line.starts_with("back_") && !line.ends_with("=0");
    let steps = ended.lines.iter().any(|line| back(&line.text));
    ended.ensure(!steps, "a clock stepped back")?;
    expect_right(reader)?;
    place.remove("x")
}

/// A supervisor that has taken over can be killed, too.
fn adopted_and_killed() -> Outcome {
    let place = Place::new()?;
    let mut command = place.run("x", &["--keep-running", "--date", FUTURE.0])?;
    let member = start(command.args(["sleep", "86400"]).stdin(Stdio::null()))?;
    place.await_start("x")?;
    adopt(&place)?;
    kill_supervisor(&place)?;
    adopt(&place)?;
    place.done(&["freeze", "x"])?;
    adopt(&place)?;
    ensure!(place.show("x")?.state == "frozen", "it runs");
    place.done(&["thaw", "x"])?;
    place.done(&["leap", "x", "1d"])?;
    member.finish(LIMIT)?.expect_code(0)?;
    place.remove("x")
}

/// However few descriptors the new supervisor may have, the timeline is never without one: it is
/// the former one if they do not suffice.
fn adopted_with_few_descriptors() -> Outcome {
    /// From fewer than are needed at all, to more than enough.
    const LIMITS: std::ops::Range<u32> = 4..48;
    let place = Place::new()?;
    let mut command = place.run("x", &["--keep-running", "--date", FUTURE.0])?;
    let member = start(command.args(["sleep", "86400"]).stdin(Stdio::null()))?;
    place.await_start("x")?;
    let pid = member.child.id();
    place.wait_until("x", "it sleeps", |shown| shown.waits(pid, &[]))?;
    let (mut refused, mut adopted) = (0, 0);
    for limit in LIMITS {
        let former = place.show("x")?.supervisor;
        let mut command = place.outside("prlimit");
        command.arg(format!("--nofile={limit}:{limit}")).arg(User::Myself.binary()?);
        let ended = crate::command::run(command.args(["ctl", "adopt", "x"]), PATIENCE)?;
        let is_adopted = ended.status.success();
        let shown = place.show("x")?;
        let holds = is_adopted == (shown.supervisor != former);
        ended.ensure(holds, format_args!("{limit} descriptors, {former} before: {shown:#?}"))?;
        place.done(&["leap", "x", "1s"])?;
        *(if is_adopted { &mut adopted } else { &mut refused }) += 1;
    }
    ensure!(refused > 0 && adopted > 0, "refused {refused} times, adopted {adopted} times");
    place.done(&["leap", "x", "1d"])?;
    member.finish(LIMIT)?.expect_code(0)?;
    place.remove("x")
}

/// A timeline that cannot be taken over reports why, and continues.
fn not_adopted() -> Outcome {
    let place = Place::new()?;
    let expect = |reason: &str| {
        let ended = place.ctl(&["adopt", "x"])?;
        ended.expect_code(1)?;
        ended.ensure(ended.errors.contains(reason), format_args!("it does not say: {reason}"))
    };
    expect("there is no timeline 'x'")?;
    for options in [&[][..], &["--traced"]] {
        place.make("x", options)?;
        let supervisor = place.show("x")?.supervisor;
        expect("made without --keep-running")?;
        ensure!(place.show("x")?.supervisor == supervisor, "it has another supervisor");
        place.remove("x")?;
    }
    Ok(())
}

/// A command of another version starts programs in the timeline: they get the timeline's image.
fn joined_by_another_image() -> Outcome {
    let Some(other) = other_binary() else { return Ok(()) };
    let place = Place::new()?;
    place.make("x", &["--keep-running", "--date", FUTURE.0])?;
    let mut command = place.outside(&other);
    command.args([
        "run",
        "--timeline",
        "x",
        "--",
        "sh",
        "-c",
        "sleep 0.01; date +%Y; exec sleep 86400",
    ]);
    let mut member = start(command.stdin(Stdio::null()))?;
    ensure!(member.next_line(PATIENCE)? == &FUTURE.0[..4], "it lives by another time");
    let shown = crate::command::run(place.outside(&other).args(["ctl", "show", "x"]), PATIENCE)?;
    shown
        .ensure(shown.output().contains("another file than this command"), "it does not say so")?;
    let pid = member.child.id();
    place.wait_until("x", "it sleeps", |shown| shown.waits(pid, &[]))?;
    place.done(&["leap", "x", "1d"])?;
    member.finish(LIMIT)?.expect_code(0)?;
    place.remove("x")
}

fn refused() -> Outcome {
    let place = Place::new()?;
    for (options, reason) in [
        (&["--keep-running"][..], "--timeline <NAME>"),
        (&["--keep-running", "--timeline", "x", "--traced"], "cannot be used with"),
        (&["--keep-running", "--timeline", "x", "--skip-idle"], "cannot be used with"),
        (&["--keep-running", "--timeline", "x", "--freeze"], "since the clocks are frozen"),
    ] {
        let ended = crate::command::run(place.run_private(options)?.arg("true"), PATIENCE)?;
        ended.expect_code(125)?;
        ended.ensure(ended.errors.contains(reason), format_args!("it does not say {reason}"))?;
    }
    place.make("x", &[])?;
    let joins = crate::command::run(place.run("x", &["--keep-running"])?.arg("true"), PATIENCE)?;
    joins.expect_code(125)?;
    joins.ensure(joins.errors.contains("made without --keep-running"), "another reason")?;
    place.remove("x")
}
