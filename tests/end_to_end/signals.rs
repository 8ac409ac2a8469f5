//! Signals that interrupt, stop, leave or cancel a wait have the same effect as without Eigentime,
//! in virtual time.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::command::{Finished, User, run, run_stamped, start};
use crate::named::place::Place;
use crate::needs::Need;
use crate::programs::{Build, Program};
use crate::suite::{Broken, Outcome, Suite};
use crate::timeline::{HOST, PACES, Pace, TENFOLD};

const BUILDS: [Build; 3] = [Build::Dynamic, Build::Static, Build::Musl];
/// Ten thousand jumps, each with several stops for a tracer.
const LIMIT: Duration = Duration::from_secs(120);
/// The wait of a run without Eigentime.
const NATIVE_MS: u64 = 400;
/// By how much the clocks of two processes that are read in turn may differ.
const EARLY_MS: f64 = 0.1;

/// How many programs are started, and stopped meanwhile.
const PROGRAMS: u64 = 1500;
/// How many handlers check where they find their thread.
const HANDLED: u64 = 10_000;

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

/// Waits that a signal overtakes.
const OVERTAKEN: [&str; 4] = ["clock_nanosleep", "poll", "select", "futex"];

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
        test("overtaken_but_masked", overtaken_but_masked);
        test("while_programs_start", starting);
        test("while_programs_start_and_clocks_change", starting_and_changing);
        if build != Build::Dynamic {
            let name = format!("signals::{}::handlers_while_clocks_change", build.name());
            suite.test(name, &needs, move || handlers_while_clocks_change(build));
        }
        for how in ["--debuggable", "--traced"] {
            let name = format!("signals::{}::partial_write::{}", build.name(), &how[2..]);
            suite.test(name, &needs, move || partial_write(build, how));
        }
        for wait in OVERTAKEN {
            for (how, options) in [("traced", &["--traced"][..]), ("for_moments", &[])] {
                let name = format!("signals::{}::overtaken::{how}::{wait}", build.name());
                suite.test(name, &needs, move || overtaken(build, options, wait));
            }
        }
        for pace in PACES {
            let name = format!("signals::{}::remainder::rate_{}", build.name(), pace.text);
            suite.test(name, &needs, move || remainder(build, pace));
        }
    }
}

fn run_at(build: Build, pace: Pace, words: &[&str], wait_ms: u64) -> Result<Finished, Broken> {
    run_with(&[], build, pace, words, wait_ms)
}

fn run_with(
    options: &[&str],
    build: Build,
    pace: Pace,
    words: &[&str],
    wait_ms: u64,
) -> Result<Finished, Broken> {
    let clocks = ["--date", "2040-02-29", "--rate", pace.text];
    let mut command = User::Myself.eigentime(&[&clocks, options].concat())?;
    command.arg(Program::Signals.path(build)).args(words).arg(wait_ms.to_string());
    let ended = run_stamped(&mut command, LIMIT)?;
    ended.expect_code(0)?;
    Ok(ended)
}

/// Some calls restart with the remaining time, some end with EINTR, some keep their deadline: the
/// kernel without Eigentime defines which.
fn as_natively(build: Build, how: &str, wait: &str, pace: Pace) -> Outcome {
    // The addition of a stop, half of the wait, must be distinguishable from a late end on a busy
    // machine.
    let times = if how == "stopped" { 4 } else { 1 };
    let native_ms = NATIVE_MS * times;
    let native = run(
        Command::new(Program::Signals.path(build)).args([how, wait, &native_ms.to_string()]),
        LIMIT,
    )?;
    native.expect_code(0)?;
    let wait_ms = pace.wait_ms.max(NATIVE_MS) * times;
    let ended = run_at(build, pace, &[how, wait], wait_ms)?;
    for key in ["ret", "errno"] {
        ended.ensure(
            ended.text(key)? == native.text(key)?,
            format_args!("{key} is {} natively", native.text(key)?),
        )?;
    }
    let (end, native_end) = (End::of(&ended, wait_ms)?, End::of(&native, native_ms)?);
    // The kernel restarts these with the remaining time, so that a stop makes them longer. Keeping
    // the deadline, as it does for all others, is just as good.
    let may_keep_deadline = how == "stopped" && ["ppoll", "select", "pselect6"].contains(&wait);
    ended.ensure(
        end == native_end || (may_keep_deadline && end == End::Deadline),
        format_args!("ended at {end:?}, natively at {native_end:?}"),
    )?;
    pace.check_host(&ended, wait, ended.number("mono_ms")?, ended.measured()?)
}

/// When a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Signal,
    Continued,
    Deadline,
    /// Later by as long as it was stopped.
    Extended,
}

impl End {
    /// The candidate nearest to the end, among those that the end did not precede: on a busy
    /// machine signals are late, and so are ends. An interrupted wait reports that itself, and one
    /// that is stopped at its deadline ends once it continues.
    fn of(ended: &Finished, wait_ms: u64) -> Result<Self, Broken> {
        let deadline = wait_ms as f64;
        let signal: f64 = ended.number("signal_ms")?;
        let took: f64 = ended.number("mono_ms")?;
        let ends = match ended.number::<f64>("continued_ms") {
            Ok(continued) if ended.number::<i32>("errno")? == libc::EINTR => {
                vec![(Self::Signal, signal), (Self::Continued, continued)]
            }
            // It was over when the signal came, late on a busy machine.
            Ok(_) if took < signal => vec![(Self::Deadline, deadline)],
            Ok(continued) => {
                let extended = deadline + continued - signal;
                vec![(Self::Deadline, deadline.max(continued)), (Self::Extended, extended)]
            }
            Err(_) if ended.number::<i32>("errno")? == libc::EINTR => {
                vec![(Self::Signal, signal)]
            }
            Err(_) => vec![(Self::Signal, signal), (Self::Deadline, deadline)],
        };
        // The time left at the stop depends on when the signal arrives.
        let can_be = |(end, at): &(Self, f64)| *end == Self::Extended || took >= at - EARLY_MS;
        let distance = |(_, at): &(Self, f64)| (took - at).abs();
        let possible = ends.iter().copied().filter(can_be);
        let nearest = possible.min_by(|one, other| distance(one).total_cmp(&distance(other)));
        let early = || ended.broken(format_args!("ended before any of {ends:?}, in ms"));
        nearest.map(|(end, _)| end).ok_or_else(early)
    }
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
    // The sleep is interrupted after the signal is sent, and before it ends. On a busy machine it
    // begins some time after the recorded instant: the slept time is at least half of the elapsed
    // time.
    let [signal, slept, left] = ["signal_ms", "mono_ms", "remain_ms"].map(|key| ended.number(key));
    let (signal, slept, left): (f64, f64, f64) = (signal?, slept?, left?);
    let wait = wait_ms as f64;
    let share = 0.001 * wait;
    ended.ensure(
        (wait - slept - share..wait - 0.5 * signal + share).contains(&left),
        format_args!("{left:.3} ms are left of {wait} after {signal:.3} to {slept:.3} ms"),
    )
}

fn handler_sleeps(build: Build) -> Outcome {
    let wait_ms = TENFOLD.wait_ms;
    let ended = run_at(build, TENFOLD, &["handler_sleeps"], wait_ms)?;
    let answer: (i64, i32) = (ended.number("ret")?, ended.number("errno")?);
    ended.ensure(answer == (-1, 4), "not EINTR")?;
    // Each waits for a quarter; by the host's clock that would be ten times as long.
    check_share(&ended, "handler_ms", wait_ms, 0.75, 0.501)?;
    check_share(&ended, "handler_poll_ms", wait_ms, 0.75, 0.501)?;
    // The remaining time is what had not passed before the handler, however late that began.
    let keys = ["mono_ms", "handler_ms", "handler_poll_ms", "remain_ms"];
    let [mono, handler, poll, left] = keys.map(|key| ended.number::<f64>(key));
    let (wait, least) = (wait_ms as f64, wait_ms as f64 - (mono? - handler? - poll?));
    let left = left?;
    ended.ensure(
        least - 0.001 * wait <= left && left < wait,
        format_args!("{left:.3} ms are left, not {least:.3} to {wait:.3}"),
    )
}

/// A program checks whether a signal has come, and waits if none has: however long the call is on
/// its way, a signal that comes meanwhile ends it.
fn overtaken(build: Build, options: &[&str], wait: &str) -> Outcome {
    const WAIT_MS: u64 = 400;
    /// Of 300. Natively, too, the signal may come between the check and the call.
    const MOST: u32 = 3;
    let pace = Pace { text: "2", ..TENFOLD };
    let options = [&["--no-rewrite"], options].concat();
    let ended = run_with(&options, build, pace, &["overtaken", wait], WAIT_MS)?;
    let missed: u32 = ended.number("missed")?;
    ended
        .ensure(missed <= MOST, format_args!("{missed} waits went on although the signal had come"))
}

/// A wait that blocks the signal itself: the handler runs before or after it. If the supervisor
/// does not see the signal come, this does not always hold (docs/limits.md).
fn overtaken_but_masked(build: Build) -> Outcome {
    const WAIT_MS: u64 = 2;
    let options = ["--no-rewrite", "--traced"];
    let ended = run_with(&options, build, TENFOLD, &["overtaken", "ppoll_masked"], WAIT_MS)?;
    let count: u32 = ended.number("ended")?;
    ended.ensure(count == 0, format_args!("{count} waits were ended by a signal that they block"))
}

fn all_blocked(build: Build) -> Outcome {
    let wait_ms = TENFOLD.wait_ms;
    let ended = run_at(build, TENFOLD, &["all_blocked"], wait_ms)?;
    ended.ensure(ended.text("ret")? == "0", "the sleep failed")?;
    let took = ended.measured()?;
    TENFOLD.check_host(&ended, "nanosleep", wait_ms as f64, took)?;
    TENFOLD.check_virtual(&ended, "CLOCK_MONOTONIC", wait_ms as f64, ended.number("mono_ms")?, took)
}

/// The signal that interrupted a wait has no effect on the next one. Without `futex_waitv`, there
/// is only the latter.
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

/// The waits would last 500 s of virtual time; each is cancelled after 50 ms.
fn cancelled(build: Build) -> Outcome {
    let ended = run_at(build, TENFOLD, &["cancelled"], 500_000)?;
    let asked: u32 = ended.number("asked")?;
    ended.ensure(ended.number::<u32>("cancelled")? == asked, "some threads were not cancelled")?;
    ended.ensure(ended.number::<u32>("cleanups")? == asked, "some cleanups did not run")?;
    ended.ensure(ended.number::<f64>("mono_ms")? < 400_000.0, "a thread waited to the end")?;
    Ok(())
}

/// A signal can overtake a call anywhere on its way through the image; a C library that cancels
/// threads must not be left waiting for one.
fn cancelled_anywhere(build: Build) -> Outcome {
    const THREADS: u64 = 1_000;
    let ended = run_at(build, TENFOLD, &["cancelled_anywhere"], THREADS)?;
    ended.ensure(ended.number::<u64>("cancelled")? == THREADS, "some were not cancelled")?;
    Ok(())
}

/// A handler also finds its thread in the right place if the supervisor has ended the thread's wait
/// to make it check the clocks again.
fn handlers_while_clocks_change(build: Build) -> Outcome {
    let ended = while_clocks_change(build, &["--traced"], "looked_at", HANDLED)?;
    let elsewhere: u64 = ended.number("elsewhere")?;
    ended.ensure(elsewhere == 0, format_args!("{elsewhere} of {HANDLED} found it elsewhere"))
}

fn many_threads(build: Build) -> Outcome {
    let wait_ms = TENFOLD.wait_ms;
    let ended = run_at(build, TENFOLD, &["many_threads"], wait_ms)?;
    let least: f64 = ended.number("least_ms")?;
    ended.ensure(least >= wait_ms as f64, "one woke early")?;
    check_share(&ended, "most_ms", wait_ms, 1.5, 0.5)?;
    TENFOLD.check_host(&ended, "64 sleeps", wait_ms as f64, ended.measured()?)
}

/// A site is rewritten while another thread writes to a full pipe, whose write is not interrupted.
fn partial_write(build: Build, how: &str) -> Outcome {
    let ended = run_with(&[how], build, TENFOLD, &["partial_write"], TENFOLD.wait_ms)?;
    let left: u64 = ended.number("left")?;
    ended.ensure(left == 0, "the write ended early")
}

fn starting(build: Build) -> Outcome {
    none_failed(&run_at(build, TENFOLD, &["starting"], PROGRAMS)?)
}

fn starting_and_changing(build: Build) -> Outcome {
    none_failed(&while_clocks_change(build, &[], "starting", PROGRAMS)?)
}

/// Does something this many times, in a timeline whose rate changes all the time.
fn while_clocks_change(
    build: Build,
    options: &[&str],
    what: &str,
    count: u64,
) -> Result<Finished, Broken> {
    let place = Place::new()?;
    let mut command = place.run("x", &[&["--rate", "10"], options].concat())?;
    command.arg(Program::Signals.path(build)).args([what, &count.to_string()]);
    let mut program = start(&mut command)?;
    place.await_start("x")?;
    let begin = Instant::now();
    let mut rates = (1..10).cycle();
    while program.child.try_wait()?.is_none() {
        if begin.elapsed() > LIMIT {
            return Err(program.give_up("it does not end"));
        }
        place.done(&["set", "x", "--rate", &rates.next().unwrap_or(1).to_string()])?;
    }
    let ended = program.finish(LIMIT)?;
    ended.expect_code(0)?;
    place.remove("x")?;
    Ok(ended)
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
