//! In a frozen timeline clocks stand still and waits do not end, unless there is
//! nothing to wait for.

use std::thread;
use std::time::Duration;

use crate::command::{User, run, start};
use crate::ensure;
use crate::needs::Need;
use crate::programs::{Build, Program};
use crate::session::{Session, Snapshot};
use crate::suite::{Broken, Outcome, Suite};
use crate::timeline::{FUTURE, STUCK};

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
        suite.test(format!("freeze::sleeps_on::{call}"), &needs, move || sleeps_on(call));
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
        suite.test(format!("freeze::zero_returns::{call}"), &needs, move || zero_returns(call));
    }
    let needs = [Need::Program(Build::Dynamic)];
    suite.test("freeze::work_goes_on", &needs, work_goes_on);
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
    // CPU time goes on; what `/proc` says is the kernel's.
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

fn sleeps_on(call: &str) -> Outcome {
    let mut command = User::Myself.eigentime(&["--freeze"])?;
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

fn zero_returns(call: &str) -> Outcome {
    let mut command = User::Myself.eigentime(&["--freeze"])?;
    command.arg(Program::Waits.path(Build::Dynamic)).args([call, "0"]);
    let ended = run(&mut command, STUCK)?;
    ended.expect_code(0)?;
    let passed: f64 = ended.number("mono_ms")?;
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
