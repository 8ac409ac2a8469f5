//! The clocks of a timeline inside another when either is changed. `named::follows::inside` tests
//! how waits follow, with the outer timeline's rate.

use std::process::Stdio;
use std::thread;
use std::time::Duration;

use super::{USERS, borrowed, options, run_in};
use crate::command::{User, run, start};
use crate::ensure;
use crate::named::agreement::CHANGES;
use crate::named::place::Place;
use crate::named::shown::{Inner, Shown};
use crate::needs::Need;
use crate::programs::{Build, Program};
use crate::session::Session;
use crate::setclock::{SETTERS, Setting, WAITERS, guarded, set, wake};
use crate::suite::{Broken, Outcome, Suite};
use crate::timeline::{FUTURE, STUCK, TENFOLD};

const S: i128 = 1_000_000_000;
const DAY: i128 = 86_400 * S;
/// How long a busy machine takes between two polls, by the host's clocks.
const SLACK: i128 = 60 * S;

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    for (user_name, user) in USERS {
        let mut needs = vec![Need::Program(Build::Dynamic)];
        needs.extend(user.needs());
        let mut test = |what: &str, body: fn(User) -> Outcome| {
            suite.test(format!("nested::changes::{user_name}::{what}"), &needs, move || body(user));
        };
        test("outer_changes", outer_changes);
        test("rates_out_of_range", rates_out_of_range);
        test("a_timer_follows", a_timer_follows);
        test("never_back", never_back);
        test("inner_does_not_move_outer", inner_does_not_move_outer);
        test("outer_moves_inner", outer_moves_inner);
        for how in SETTERS {
            suite.test(format!("nested::set::{user_name}::{how}"), &needs, move || {
                guarded(user, |guard| {
                    in_setting(user, |setting| set(user, guard, Build::Dynamic, setting, how))
                })
            });
        }
        for (waiter, answer) in WAITERS {
            suite.test(format!("nested::set::{user_name}::wakes::{waiter}"), &needs, move || {
                guarded(user, |guard| {
                    in_setting(user, |setting| {
                        wake(user, guard, Build::Dynamic, setting, waiter, answer)
                    })
                })
            });
        }
    }
}

/// In timelines inside others that receive calls in different ways.
fn in_setting(user: User, body: impl Fn(Setting<'_>) -> Outcome) -> Outcome {
    let ways: [&[&[&str]]; 3] = [
        &[&["--rate", "2"], &["--rate", "5"]],
        &[&["--offset", "+1d"], &["--rate", "10", "--date", FUTURE.0]],
        &[&["--traced", "--rate", "5"], &["--rate", "2"]],
    ];
    for way in ways {
        let options = options(user, way)?;
        body(Setting { name: "inside", options: &borrowed(&options), pace: TENFOLD })?;
    }
    Ok(())
}

/// A program that reads clocks, in a timeline inside "x".
fn reader(place: &Place, user: User, inner: &[&str]) -> Result<Session, Broken> {
    let mut command = place.run("x", &[])?;
    command.arg(user.binary()?).arg("run").args(inner).arg("--");
    command.arg(user.program(Program::Reads, Build::Dynamic)?);
    Session::start(command)
}

fn inner_of(shown: &Shown, pid: u32) -> Result<&Inner, Broken> {
    let inner = shown.member(pid).and_then(|member| member.inner.as_ref());
    inner.ok_or_else(|| Broken(format!("{pid} is in no timeline inside: {shown:#?}")))
}

/// Leap, rate, freeze and thaw reach the inner clocks, and `ctl show` reports these.
fn outer_changes(user: User) -> Outcome {
    let place = Place::of(user)?;
    place.make("x", &["--rate", "2"])?;
    let mut session = reader(&place, user, &["--rate", "3", "--date", FUTURE.0])?;
    let first = session.snapshot()?;
    let shown = place.show("x")?;
    let inner = inner_of(&shown, session.pid())?;
    ensure!(inner.rate == 6.0 && inner.state == "running", "{inner:?}");
    ensure!(inner.options == "--date 2100-01-01T00:00:00Z --rate 3", "{inner:?}");

    place.done(&["leap", "x", "+1d"])?;
    let leapt = session.snapshot()?;
    for clock in ["vdso_0", "raw_0", "vdso_1", "raw_1", "vdso_7"] {
        let moved = leapt.ns(clock)? - first.ns(clock)?;
        ensure!((3 * DAY..3 * DAY + 6 * SLACK).contains(&moved), "{clock} leapt by {moved} ns");
    }
    place.done(&["freeze", "x"])?;
    let [frozen, later] = [session.snapshot()?, session.snapshot()?];
    for clock in ["vdso_0", "raw_0", "vdso_1", "raw_1"] {
        ensure!(frozen.ns(clock)? == later.ns(clock)?, "{clock} moves although it stands still");
        ensure!(frozen.ns(clock)? >= leapt.ns(clock)?, "{clock} went back");
    }
    let shown = place.show("x")?;
    let inner = inner_of(&shown, session.pid())?;
    ensure!(inner.state == "frozen", "{inner:?}");
    let wall = inner.clocks.iter().find(|it| it.clock == "realtime").map(|it| it.virtual_ns);
    ensure!(wall == Some(frozen.ns("vdso_0")? as i64), "{inner:?} is not what it reads");

    place.done(&["thaw", "x", "--rate", "1000"])?;
    let before = session.snapshot()?;
    thread::sleep(Duration::from_millis(200));
    let after = session.snapshot()?;
    let host = after.before.duration_since(before.after).as_nanos() as i128;
    let moved = after.ns("vdso_1")? - before.ns("vdso_1")?;
    ensure!(moved >= 2990 * host, "it moved by {moved} ns in {host} ns of the host");
    // It is a day ahead of the outer clock, not more: it follows that, and was not moved itself.
    place.done(&["set", "x", "--date", "2050-01-01T00:00:00Z"])?;
    let set = session.snapshot()?;
    ensure!(set.ns("vdso_1")? >= after.ns("vdso_1")?, "the monotonic clock was set, too");
    session.finish()?;
    place.remove("x")
}

fn rates_out_of_range(user: User) -> Outcome {
    let place = Place::of(user)?;
    place.make("x", &["--rate", "1000"])?;
    let mut session = reader(&place, user, &["--rate", "1000"])?;
    session.snapshot()?;
    for change in [&["set", "x", "--rate", "1001"][..], &["thaw", "x", "--rate", "2000"]] {
        let refused = place.ctl(change)?;
        refused.expect_code(1)?;
        refused.ensure(refused.errors.contains("would run at a rate"), "it does not say why")?;
    }
    ensure!(place.show("x")?.rate == 1000.0, "it was changed nevertheless");
    session.finish()?;
    place.done(&["set", "x", "--rate", "1001"])?;
    place.remove("x")
}

/// A POSIX timer set by the inner clocks expires when these say so.
fn a_timer_follows(user: User) -> Outcome {
    const SCRIPT: &str = "
import signal, time
signal.signal(signal.SIGALRM, lambda *_: None)
begin = time.monotonic()
signal.setitimer(signal.ITIMER_REAL, 3600)
print('armed', flush=True)
signal.pause()
print(f'passed={time.monotonic() - begin}')
";
    let place = Place::of(user)?;
    place.make("x", &["--rate", "2"])?;
    let mut command = place.run("x", &[])?;
    command.arg(user.binary()?).args(["run", "--rate", "5", "--", "python3", "-c", SCRIPT]);
    let mut timer = start(command.stdin(Stdio::null()))?;
    while timer.next_line(STUCK)? != "armed" {}
    // Three minutes of host time are left of six, then a second.
    place.done(&["leap", "x", "360s"])?;
    place.done(&["set", "x", "--rate", "360"])?;
    let ended = timer.finish(STUCK)?;
    ended.expect_code(0)?;
    let passed: f64 = ended.number("passed")?;
    ended.ensure(passed >= 3599.99, format_args!("it went off after {passed} s"))?;
    place.remove("x")
}

/// No inner clock goes back while the outer ones change, in one thread or from one to another.
fn never_back(user: User) -> Outcome {
    const ROUNDS: usize = 10;
    let place = Place::of(user)?;
    place.make("x", &[])?;
    let mut command = place.run("x", &[])?;
    command.arg(user.binary()?).args(["run", "--rate", "0.3", "--offset", "-1d", "--"]);
    command.arg(user.program(Program::Monotonic, Build::Dynamic)?).arg("1000");
    let reads = start(command.stdin(Stdio::null()))?;
    let pid = reads.child.id();
    place.wait_until("x", "it runs inside", |shown| {
        shown.member(pid).is_some_and(|member| member.inner.is_some())
    })?;
    for _ in 0..ROUNDS {
        for change in CHANGES {
            place.done(change)?;
        }
    }
    let ended = reads.finish(STUCK)?;
    ended.expect_code(0)?;
    let went_back = |text: &str| text.starts_with("backward_") && !text.ends_with("=0");
    match ended.lines.iter().find(|line| went_back(&line.text)) {
        Some(line) => Err(ended.broken(&line.text)),
        None => place.remove("x"),
    }
}

/// Setting the inner clock leaves the outer one alone.
fn inner_does_not_move_outer(user: User) -> Outcome {
    let mut command = user.eigentime(&["--date", FUTURE.0])?;
    let script = "\"$0\" run --settable-by anyone -- \
                  sh -c 'date -u -s 2033-05-05 >/dev/null; date -u +inner=%Y'; date -u +outer=%Y";
    let ended = run(command.args(["sh", "-c", script]).arg(user.binary()?), STUCK)?;
    ended.expect_code(0)?;
    ended.ensure(ended.text("inner")? == "2033", "the inner clock was not set")?;
    ended.ensure(ended.text("outer")? == "2100", "the outer clock was set")
}

/// Setting the outer clock moves the inner one by the same amount, and ends waits for it there.
fn outer_moves_inner(user: User) -> Outcome {
    const WAITS: &str = "
import ctypes, time
begin = time.time()
print('begins', flush=True)
until = (ctypes.c_long * 2)(int(begin) + 50000, 0)
ctypes.CDLL(None).clock_nanosleep(0, 1, until, None)
print(f'passed={time.time() - begin}', flush=True)
";
    let script = "\"$0\" run --offset +100d -- python3 -c \"$1\" | \
                  { read begins; date -u -s '+1 day' >/dev/null; cat; }";
    let mut command = run_in(user, &[&["--settable-by", "anyone", "--offset", "+1d"]])?;
    command.args(["sh", "-c", script]).arg(user.binary()?).arg(WAITS);
    let ended = run(&mut command, STUCK)?;
    ended.expect_code(0)?;
    let passed: f64 = ended.number("passed")?;
    ended.ensure(passed >= 50_000.0, format_args!("{passed} s passed"))
}
