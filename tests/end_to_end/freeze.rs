//! In a frozen timeline clocks are stopped and waits do not end, unless there is nothing to wait
//! for.

use std::ffi::OsString;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use rustix::process::Signal;

use crate::command::{User, run, start};
use crate::ensure;
use crate::languages;
use crate::needs::Need;
use crate::processes::send;
use crate::programs::{Build, Program};
use crate::session::{Session, Snapshot};
use crate::suite::{Broken, Outcome, Suite};
use crate::timeline::{FUTURE, STUCK};
use crate::workspace;

const SIGTERM: i32 = 15;

/// Waits of 100 ms must last longer than this.
const LONG_ENOUGH: Duration = Duration::from_millis(700);

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    for build in [Build::Dynamic, Build::Static, Build::Musl] {
        let needs = [Need::Program(build)];
        let name = format!("freeze::{}::clocks_stand_still", build.name());
        suite.test(name, &needs, move || clocks_stand_still(build));
        let name = format!("freeze::{}::ticks_stand_still", build.name());
        suite.test(name, &needs, move || ticks_stand_still(build));
    }
    let needs = [Need::Program(Build::Dynamic)];
    for call in [
        "nanosleep",
        "clock_nanosleep_realtime_abs",
        "clock_nanosleep_monotonic_abs",
        "poll",
        "select",
        "ppoll",
        "epoll_wait",
        "futex_wait",
        "rt_sigtimedwait",
        "so_rcvtimeo",
        "timer_monotonic",
        "timerfd_monotonic",
        "timerfd_realtime_abs",
        "setitimer_real",
        "pthread_cond_timedwait_realtime_abs",
        "pthread_cond_timedwait_monotonic_abs",
    ] {
        suite.test(format!("freeze::sleeps_on::{call}"), &needs, move || {
            sleeps_on(call, "--freeze")
        });
    }
    for call in [
        "nanosleep",
        "clock_nanosleep_realtime_abs",
        "clock_nanosleep_monotonic_abs",
        "poll",
        "ppoll",
        "select",
        "pselect6",
        "epoll_wait",
        "epoll_pwait2",
        "rt_sigtimedwait",
        "futex_wait",
        "pthread_cond_timedwait_realtime_abs",
    ] {
        suite.test(format!("freeze::zero_returns::{call}"), &needs, move || {
            zero_returns(call, "--freeze")
        });
    }
    let needs = [Need::Program(Build::Dynamic)];
    suite.test("freeze::work_goes_on", &needs, work_goes_on);
    suite.test("freeze::note", &[Need::Tool("sleep"), Need::Tool("sh")], note);
    let java = [Need::Tool("java"), Need::Program(Build::Java)];
    suite.test("freeze::asked_to_end::java", &java, || {
        let class = Program::Ticking.class();
        let words: [OsString; 4] =
            ["java".into(), "-cp".into(), workspace::compiled().into(), class.into()];
        asked_to_end(&words, 128 + SIGTERM)
    });
    suite.test("freeze::asked_to_end::python", &[Need::Tool("python3")], || {
        let script = "import signal, sys, time
def leave(*_):
    time.sleep(0.2)
    sys.exit(3)
signal.signal(signal.SIGTERM, leave)
print('up', flush=True)
while True:
    time.sleep(1)";
        let words = [languages::python()?, "-c".into(), script.into()];
        asked_to_end(&words, 3)
    });
    wall(suite);
}

/// `--freeze=wall`: the date is frozen, and nothing else.
fn wall(suite: &mut Suite) {
    for build in [Build::Dynamic, Build::Static, Build::Musl] {
        for rate in ["1", "10"] {
            let name = format!("freeze::wall::{}::rate_{rate}::date_stands_still", build.name());
            suite.test(name, &[Need::Program(build)], move || date_stands_still(build, rate));
        }
    }
    let needs = [Need::Program(Build::Dynamic)];
    for call in ENDS {
        for rate in ["1", "10"] {
            let name = format!("freeze::wall::ends::rate_{rate}::{call}");
            suite.test(name, &needs, move || ends_beside(call, rate));
        }
    }
    for call in ON_THE_WALL {
        let name = |what: &str| format!("freeze::wall::{what}::{call}");
        suite.test(name("sleeps_on"), &needs, move || sleeps_on(call, "--freeze=wall"));
    }
    for call in ["clock_nanosleep_realtime_abs", "pthread_cond_timedwait_realtime_abs"] {
        let name = format!("freeze::wall::past_returns::{call}");
        suite.test(name, &needs, move || zero_returns(call, "--freeze=wall"));
    }
}

/// Waits that end as usual while only the wall clock is stopped.
const ENDS: [&str; 14] = [
    "nanosleep",
    "clock_nanosleep_monotonic_abs",
    "poll",
    "select",
    "epoll_wait",
    "futex_wait",
    "rt_sigtimedwait",
    "timer_realtime",
    "timer_monotonic",
    "timer_monotonic_abs",
    "timerfd_realtime",
    "timerfd_monotonic",
    "setitimer_real",
    "pthread_cond_timedwait_monotonic_abs",
];

/// Waits for an instant of the wall clock.
const ON_THE_WALL: [&str; 4] = [
    "clock_nanosleep_realtime_abs",
    "timer_realtime_abs",
    "timerfd_realtime_abs",
    "pthread_cond_timedwait_realtime_abs",
];

fn date_stands_still(build: Build, rate: &str) -> Outcome {
    const PAUSE: Duration = Duration::from_millis(200);
    let options = ["--freeze=wall", "--date", FUTURE.0, "--rate", rate];
    let mut command = User::Myself.eigentime(&options)?;
    command.arg(Program::Reads.path(build));
    let mut session = Session::start(command)?;
    let first = session.snapshot()?;
    thread::sleep(PAUSE);
    let second = session.snapshot()?;
    session.finish()?;
    // Through the vDSO and with calls: CLOCK_REALTIME, its coarse and alarm variants, and TAI.
    let wall = FUTURE.1 as i128 * 1_000_000_000;
    for id in [0, 5, 8, 11] {
        for key in [format!("vdso_{id}"), format!("raw_{id}")] {
            let (Ok(before), Ok(after)) = (first.ns(&key), second.ns(&key)) else { continue };
            ensure!(before == after, "{key} went from {before} to {after}");
            ensure!(id == 11 || after == wall, "{key} stands at {after}, not at {}", FUTURE.0);
        }
    }
    for id in [1, 4, 6, 7] {
        for key in [format!("vdso_{id}"), format!("raw_{id}")] {
            let passed = second.ns(&key)? - first.ns(&key)?;
            let least = PAUSE.as_nanos() as i128 * rate.parse::<i128>()?;
            // The coarse clocks lag by a tick.
            ensure!(passed * 10 > least * 9, "{key} went on by {passed} ns at rate {rate}");
        }
    }
    Ok(())
}

fn ends_beside(call: &str, rate: &str) -> Outcome {
    let mut command = User::Myself.eigentime(&["--freeze=wall", "--rate", rate])?;
    command.arg(Program::Waits.path(Build::Dynamic)).args([call, "500"]);
    let ended = run(&mut command, STUCK)?;
    ended.expect_code(0)?;
    let passed: f64 = ended.number("mono_ms")?;
    ended.ensure(passed >= 499.0, "it ended early")?;
    let wall: f64 = ended.number("real_ms")?;
    ended.ensure(wall == 0.0, "the date went on")?;
    ended.ensure(ended.errors.is_empty(), "it complains")
}

/// Printed once, whatever waits, and not for a zero timeout.
fn note() -> Outcome {
    let mut command = User::Myself.eigentime(&["--freeze"])?;
    let script = "sleep 0; echo slept; sleep 100 & sleep 100 & sleep 100";
    let mut running = start(command.args(["sh", "-c", script]).stdin(Stdio::null()))?;
    ensure!(running.next_line(STUCK)? == "slept", "{}", running.give_up("no line"));
    thread::sleep(LONG_ENOUGH);
    let told = running.give_up("killed").0;
    ensure!(told.matches("with --freeze=wall only the date is frozen").count() == 1, "{told}");
    Ok(())
}

/// A program that handles SIGTERM, and waits for a time on its way out, ends. It has printed a line
/// once it is up.
fn asked_to_end(words: &[OsString], code: i32) -> Outcome {
    let mut command = User::Myself.eigentime(&["--freeze"])?;
    let mut running = start(command.args(words).stdin(Stdio::null()))?;
    running.next_line(STUCK)?;
    send(running.child.id(), Signal::TERM)?;
    let started = running.started;
    let ended = running.finish(started.elapsed() + STUCK)?;
    ended.expect_code(code).map(drop)
}

fn two_snapshots(build: Build) -> Result<(Snapshot, Snapshot), Broken> {
    let mut command = User::Myself.eigentime(&["--freeze", "--date", FUTURE.0])?;
    command.arg(Program::Reads.path(build));
    let mut session = Session::start(command)?;
    let first = session.snapshot()?;
    thread::sleep(Duration::from_millis(200));
    let second = session.snapshot()?;
    session.finish()?;
    Ok((first, second))
}

/// The return value of times(2).
fn ticks_stand_still(build: Build) -> Outcome {
    let (first, second) = two_snapshots(build)?;
    let (before, after) = (first.ns("times")?, second.ns("times")?);
    ensure!(before == after, "times() went from {before} to {after} while frozen");
    Ok(())
}

fn clocks_stand_still(build: Build) -> Outcome {
    let (first, second) = two_snapshots(build)?;
    // CPU time advances; the values in `/proc` are the kernel's.
    let moving = ["times", "vdso_2", "raw_2", "vdso_3", "raw_3", "proc_uptime"];
    for (key, before) in &first.clocks {
        if moving.contains(&key.as_str()) {
            continue;
        }
        let after = second.ns(key)?;
        ensure!(*before == after, "{key} went from {before} to {after} while frozen");
    }
    let wall = first.ns("vdso_0")?;
    ensure!(wall == i128::from(FUTURE.1) * 1_000_000_000, "frozen at {wall}, not at {}", FUTURE.0);
    Ok(())
}

fn sleeps_on(call: &str, freeze: &str) -> Outcome {
    let mut command = User::Myself.eigentime(&[freeze])?;
    command.arg(Program::Waits.path(Build::Dynamic)).args([call, "100"]);
    let mut running = start(&mut command)?;
    let first = running.next_line(STUCK)?.to_owned();
    ensure!(first == "begin", "{}", running.give_up("no wait"));
    let lines = running.expect_no_end(LONG_ENOUGH)?;
    ensure!(
        lines.iter().all(|line| line.text != "end"),
        "the wait ended in a frozen timeline: {lines:?}"
    );
    Ok(())
}

fn zero_returns(call: &str, freeze: &str) -> Outcome {
    let mut command = User::Myself.eigentime(&[freeze])?;
    command.arg(Program::Waits.path(Build::Dynamic)).args([call, "0"]);
    let ended = run(&mut command, STUCK)?;
    ended.expect_code(0)?;
    let passed: f64 = ended.number("real_ms")?;
    ended.ensure(passed == 0.0, "time passed")?;
    Ok(())
}

fn work_goes_on() -> Outcome {
    let mut command = User::Myself.eigentime(&["--freeze"])?;
    command.arg(Program::Reads.path(Build::Dynamic)).args(["cpu", "100"]);
    let ended = run(&mut command, STUCK)?;
    ended.expect_code(0)?;
    let passed: f64 = ended.number("mono_ms")?;
    ended.ensure(passed == 0.0, "time passed")?;
    Ok(())
}
