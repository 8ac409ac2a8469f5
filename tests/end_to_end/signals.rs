//! Signals that interrupt, stop, leave or cancel a wait do to it what they do
//! without Eigentime, in virtual time.

use std::process::Command;
use std::time::Duration;

use crate::command::{Finished, User, run, start};
use crate::named::place::Place;
use crate::needs::Need;
use crate::programs::{Build, Program};
use crate::suite::{Broken, Outcome, Suite};
use crate::timeline::{HOST, PACES, Pace, TENFOLD};

const BUILDS: [Build; 3] = [Build::Dynamic, Build::Static, Build::Musl];
/// Ten thousand jumps, each with several stops for a tracer.
const LIMIT: Duration = Duration::from_secs(30);
/// What a run without Eigentime waits for.
const NATIVE_MS: u64 = 400;
/// Shares of a wait that two runs may differ by.
const SHARE_SLACK: f64 = 0.2;

/// How many programs are started, to be stopped meanwhile.
const PROGRAMS: u64 = 1500;

const WAITS: [&str; 11] = [
    "nanosleep",
    "clock_nanosleep",
    "clock_nanosleep_abs",
    "poll",
    "ppoll",
    "select",
    "pselect6",
    "epoll_wait",
    "futex",
    "futex_bitset",
    "rt_sigtimedwait",
];

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    for build in BUILDS {
        let needs = [Need::Program(build)];
        for how in ["interrupted", "stopped"] {
            for wait in WAITS {
                for pace in [HOST, TENFOLD] {
                    let name =
                        format!("signals::{}::{how}::{wait}::rate_{}", build.name(), pace.text);
                    suite.test(name, &needs, move || as_natively(build, how, wait, pace));
                }
            }
        }
        let mut test = |name: &str, body: fn(Build) -> Outcome| {
            let name = format!("signals::{}::{name}", build.name());
            suite.test(name, &needs, move || body(build));
        };
        test("handler_sleeps", handler_sleeps);
        test("handler_after_an_ignored_signal", after_ignored);
        test("all_signals_blocked", all_blocked);
        test("jumps_out_of_poll", jumps);
        test("threads_cancelled", cancelled);
        test("threads_cancelled_anywhere", cancelled_anywhere);
        test("many_threads", many_threads);
        test("interval_alarms", interval_alarms);
        test("while_programs_start", starting);
        test("while_programs_start_and_clocks_change", starting_and_changing);
        for pace in PACES {
            let name = format!("signals::{}::remainder::rate_{}", build.name(), pace.text);
            suite.test(name, &needs, move || remainder(build, pace));
        }
    }
}

fn run_at(build: Build, pace: Pace, words: &[&str], wait_ms: u64) -> Result<Finished, Broken> {
    let mut command = User::Myself.eigentime(&["--date", "2040-02-29", "--rate", pace.text])?;
    command.arg(Program::Signals.path(build)).args(words).arg(wait_ms.to_string());
    let ended = run(&mut command, LIMIT)?;
    ended.expect_code(0)?;
    Ok(ended)
}

/// Some calls restart with what was left, some end with EINTR, some keep their
/// deadline: the kernel without Eigentime says which.
fn as_natively(build: Build, how: &str, wait: &str, pace: Pace) -> Outcome {
    let native = run(
        Command::new(Program::Signals.path(build)).args([how, wait, &NATIVE_MS.to_string()]),
        LIMIT,
    )?;
    native.expect_code(0)?;
    let wait_ms = pace.wait_ms.max(NATIVE_MS);
    let ended = run_at(build, pace, &[how, wait], wait_ms)?;
    for key in ["ret", "errno"] {
        ended.ensure(
            ended.text(key)? == native.text(key)?,
            format_args!("{key} is {} natively", native.text(key)?),
        )?;
    }
    let share = ended.number::<f64>("mono_ms")? / wait_ms as f64;
    let native_share = native.number::<f64>("mono_ms")? / NATIVE_MS as f64;
    // The kernel starts these again with what was left, so that a stop makes them
    // longer. To keep the deadline, as it does for all others, is as good.
    let may_keep_deadline = how == "stopped" && ["ppoll", "select", "pselect6"].contains(&wait);
    let least = if may_keep_deadline { 1.0 } else { native_share };
    ended.ensure(
        (least - SHARE_SLACK..=native_share + SHARE_SLACK).contains(&share),
        format_args!("lasted {share:.2} of its time, natively {native_share:.2}"),
    )?;
    pace.check_host(&ended, wait, share * wait_ms as f64, ended.measured()?)
}

/// A value that should be a share of the whole wait.
fn check_share(ended: &Finished, key: &str, wait_ms: u64, share: f64, slack: f64) -> Outcome {
    let found = ended.number::<f64>(key)? / wait_ms as f64;
    ended.ensure(
        (found - share).abs() <= slack,
        format_args!("{key} is {found:.3} of the wait, not {share:.3}"),
    )?;
    Ok(())
}

fn remainder(build: Build, pace: Pace) -> Outcome {
    let wait_ms = pace.wait_ms;
    let ended = run_at(build, pace, &["interrupted_sleep"], wait_ms)?;
    let answer: (i64, i32) = (ended.number("ret")?, ended.number("errno")?);
    ended.ensure(answer == (-1, 4), "not EINTR")?;
    // The child that sends the signal is started first, and may be late.
    check_share(&ended, "mono_ms", wait_ms, 0.45, 0.15)?;
    let slept: f64 = ended.number("mono_ms")?;
    let left: f64 = ended.number("remain_ms")?;
    let sum = (slept + left) / wait_ms as f64;
    ended.ensure(
        (0.999..1.15).contains(&sum),
        format_args!("slept and left are {sum:.3} of the wait together"),
    )?;
    Ok(())
}

fn handler_sleeps(build: Build) -> Outcome {
    let wait_ms = TENFOLD.wait_ms;
    let ended = run_at(build, TENFOLD, &["handler_sleeps"], wait_ms)?;
    let answer: (i64, i32) = (ended.number("ret")?, ended.number("errno")?);
    ended.ensure(answer == (-1, 4), "not EINTR")?;
    check_share(&ended, "handler_ms", wait_ms, 0.3, 0.0501)?;
    check_share(&ended, "handler_poll_ms", wait_ms, 0.3, 0.0501)?;
    check_share(&ended, "remain_ms", wait_ms, 0.7, 0.1)?;
    check_share(&ended, "mono_ms", wait_ms, 0.85, 0.15)
}

fn all_blocked(build: Build) -> Outcome {
    let wait_ms = TENFOLD.wait_ms;
    let ended = run_at(build, TENFOLD, &["all_blocked"], wait_ms)?;
    ended.ensure(ended.text("ret")? == "0", "the sleep failed")?;
    let took = ended.measured()?;
    TENFOLD.check_host(&ended, "nanosleep", wait_ms as f64, took)?;
    TENFOLD.check_virtual(&ended, "CLOCK_MONOTONIC", wait_ms as f64, ended.number("mono_ms")?, took)
}

/// What a wait was interrupted by says nothing about the next one. Without `futex_waitv`, there is only
/// that one.
fn after_ignored(build: Build) -> Outcome {
    let ended = run_at(build, TENFOLD, &["after_ignored"], TENFOLD.wait_ms)?;
    let first = (ended.text("first")?, ended.number("first_errno")?);
    let is_over = [("-1", libc::ETIMEDOUT), ("-1", libc::ENOSYS)].contains(&first);
    ended.ensure(is_over, format_args!("the first wait ended with {first:?}"))?;
    let second = (ended.text("ret")?, ended.number("errno")?);
    ended.ensure(second == ("-1", libc::EINTR), format_args!("the second ended with {second:?}"))
}

fn jumps(build: Build) -> Outcome {
    let wait_ms = TENFOLD.wait_ms;
    let ended = run_at(build, TENFOLD, &["jumps"], wait_ms)?;
    ended.ensure(
        ended.text("jumps")? == "10000" && ended.text("timeouts")? == "0",
        "not every poll was left by a jump",
    )?;
    check_share(&ended, "mono_ms", wait_ms, 1.5, 0.5)
}

/// The waits would last 50 s of virtual time; each is cancelled after 50 ms.
fn cancelled(build: Build) -> Outcome {
    let ended = run_at(build, TENFOLD, &["cancelled"], 50_000)?;
    let asked: u32 = ended.number("asked")?;
    ended.ensure(ended.number::<u32>("cancelled")? == asked, "some threads were not cancelled")?;
    ended.ensure(ended.number::<u32>("cleanups")? == asked, "some cleanups did not run")?;
    ended.ensure(ended.number::<f64>("mono_ms")? < 40_000.0, "a thread waited to the end")?;
    Ok(())
}

/// A signal can overtake a call anywhere on its way through the image; a C library
/// that cancels threads must not be left waiting for one.
fn cancelled_anywhere(build: Build) -> Outcome {
    const THREADS: u64 = 1_000;
    let ended = run_at(build, TENFOLD, &["cancelled_anywhere"], THREADS)?;
    ended.ensure(ended.number::<u64>("cancelled")? == THREADS, "some were not cancelled")?;
    Ok(())
}

fn many_threads(build: Build) -> Outcome {
    let wait_ms = TENFOLD.wait_ms;
    let ended = run_at(build, TENFOLD, &["many_threads"], wait_ms)?;
    let least: f64 = ended.number("least_ms")?;
    ended.ensure(least >= wait_ms as f64, "one woke early")?;
    check_share(&ended, "most_ms", wait_ms, 1.5, 0.5)?;
    TENFOLD.check_host(&ended, "64 sleeps", wait_ms as f64, ended.measured()?)
}

fn starting(build: Build) -> Outcome {
    none_failed(&run_at(build, TENFOLD, &["starting"], PROGRAMS)?)
}

fn starting_and_changing(build: Build) -> Outcome {
    let place = Place::new()?;
    let mut command = place.run("x", &["--rate", "10"])?;
    command.arg(Program::Signals.path(build)).args(["starting", &PROGRAMS.to_string()]);
    let mut programs = start(&mut command)?;
    place.await_start("x")?;
    let mut rates = (1..10).cycle();
    while programs.child.try_wait()?.is_none() {
        place.done(&["set", "x", "--rate", &rates.next().unwrap_or(1).to_string()])?;
    }
    let ended = programs.finish(LIMIT)?;
    ended.expect_code(0)?;
    none_failed(&ended)?;
    place.remove("x")
}

fn none_failed(ended: &Finished) -> Outcome {
    let failed: u64 = ended.number("failed")?;
    ended.ensure(failed == 0, format_args!("{failed} programs did not start"))
}

fn interval_alarms(build: Build) -> Outcome {
    let wait_ms = TENFOLD.wait_ms;
    let ended = run_at(build, TENFOLD, &["interval_alarms"], wait_ms)?;
    ended.ensure(ended.text("alarms")? == "10", "not ten alarms")?;
    check_share(&ended, "mono_ms", wait_ms, 1.5, 0.501)?;
    TENFOLD.check_host(&ended, "ten alarms", wait_ms as f64, ended.measured()?)
}
