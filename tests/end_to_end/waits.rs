//! A program that waits ten seconds by its own clock waits until that clock has moved ten seconds,
//! in every call that takes a time.

pub mod table;

use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::time::{ClockId, Timespec, clock_getres};

use crate::command::{Finished, User, run_stamped};
use crate::needs::Need;
use crate::programs::{Build, Program};
use crate::suite::{Broken, Outcome, Suite};
use crate::timeline::{FUTURE, HOST, PACES, PAST, Pace, TENFOLD, ms};
use table::{CALLS, Call, Clock};

/// CPU time of unscaled waits: long enough to tell it from a tenth.
const CPU_WAIT_MS: u64 = 200;
/// How many ticks the kernel may not have counted yet when it begins to wait for some, if the
/// processor that counts is stalled, as in a virtual machine (`MAX_STALLED_JIFFIES` in
/// kernel/time/tick-sched.c).
const UNCOUNTED: f64 = 5.0;
/// How long a busy machine may take to give a program this much CPU time.
const CPU_LIMIT: Duration = Duration::from_secs(60);
const BUILDS: [Build; 3] = [Build::Dynamic, Build::Static, Build::Musl];

/// The kinds of call for which one static-pie build suffices.
const STATIC_PIE_CALLS: [&str; 6] = [
    "nanosleep",
    "poll",
    "select_ready",
    "futex_wait_bitset_realtime_abs",
    "timerfd_monotonic",
    "timer_realtime_abs",
];
/// Relative waits that must not notice a date.
const RELATIVE_CALLS: [&str; 5] =
    ["nanosleep", "clock_nanosleep_realtime", "poll", "futex_wait", "timerfd_realtime"];

/// Adds one test per call, build and rate, and those of absolute waits.
pub fn add(suite: &mut Suite) {
    for build in BUILDS {
        let present = calls_present(build);
        let has = |call: &&Call| build != Build::Musl || !call.only_glibc;
        for call in CALLS.iter().filter(has) {
            for pace in PACES {
                let options = vec!["--rate", pace.text];
                add_one(suite, call, build, &present, pace, "", options, User::Myself);
            }
        }
    }
    let present = calls_present(Build::StaticPie);
    for call in CALLS.iter().filter(|call| STATIC_PIE_CALLS.contains(&call.name)) {
        let options = vec!["--rate", TENFOLD.text];
        add_one(suite, call, Build::StaticPie, &present, TENFOLD, "", options, User::Myself);
    }
    add_dates(suite);
    add_offsets(suite);
    add_ordinary_user(suite);
    add_traced(suite);
    add_closed(suite);
}

/// The same where the program is traced for life.
fn add_traced(suite: &mut Suite) {
    let present = calls_present(Build::Dynamic);
    for call in CALLS {
        for pace in PACES {
            let options = vec!["--traced", "--rate", pace.text];
            let name = "traced";
            add_one(suite, call, Build::Dynamic, &present, pace, name, options, User::Myself);
        }
    }
}

/// Absolute wall-clock waits, whose deadlines are decades away from the host's clock: untranslated,
/// they would never end, or end at once.
fn add_dates(suite: &mut Suite) {
    let present = calls_present(Build::Dynamic);
    for (name, date) in [("future", FUTURE), ("past", PAST)] {
        for pace in [HOST, TENFOLD] {
            let concerned =
                |call: &&Call| call.waits_for_wall_clock() || RELATIVE_CALLS.contains(&call.name);
            for call in CALLS.iter().filter(concerned) {
                let options = vec!["--date", date.0, "--rate", pace.text];
                add_one(suite, call, Build::Dynamic, &present, pace, name, options, User::Myself);
            }
        }
    }
}

/// Offsets of the other clocks are applied by the kernel, the rate by Eigentime: both at once must
/// not count anything twice. Linux itself does not translate this one deadline of io_uring into
/// time namespaces.
fn add_offsets(suite: &mut Suite) {
    let present = calls_present(Build::Dynamic);
    let concerned = |call: &&Call| call.name.ends_with("_abs") && call.name != "io_uring_enter_abs";
    for pace in [HOST, TENFOLD] {
        for call in CALLS.iter().filter(concerned) {
            let options = vec![
                "--monotonic",
                "+10d",
                "--boottime",
                "+20d",
                "--date",
                FUTURE.0,
                "--rate",
                pace.text,
            ];
            add_one(suite, call, Build::Dynamic, &present, pace, "offsets", options, User::Myself);
        }
    }
}

fn add_ordinary_user(suite: &mut Suite) {
    let present = calls_present(Build::Dynamic);
    for call in CALLS.iter().filter(|call| STATIC_PIE_CALLS.contains(&call.name)) {
        let options = vec!["--date", FUTURE.0, "--rate", TENFOLD.text];
        add_one(suite, call, Build::Dynamic, &present, TENFOLD, "nobody", options, User::Nobody);
    }
}

/// The same where the program has closed itself to its user.
fn add_closed(suite: &mut Suite) {
    let present = calls_present(Build::Dynamic);
    // For an ordinary user, POSIX timers count as those of CLOCK_MONOTONIC, timer descriptors as those of
    // the wall clock, and `recvmmsg` keeps the host's time (docs/coverage.md).
    const DIFFER: [&str; 3] = ["timerfd_monotonic_abs", "timerfd_boottime_abs", "recvmmsg"];
    let known = |call: &Call| {
        call.name.starts_with("timer_") && call.waits_for_wall_clock()
            || DIFFER.contains(&call.name)
    };
    for (name, user, tracing) in [
        ("root", User::Myself, None),
        ("nobody", User::Nobody, None),
        ("nobody_traced", User::Nobody, Some("--traced")),
    ] {
        let is_known = |call: &Call| user == User::Nobody && known(call);
        let concerned = |call: &&Call| call.clock == Clock::Virtual && !is_known(call);
        for call in CALLS.iter().filter(concerned) {
            let own = needs_of(call, Build::Dynamic, &present, user);
            let needs = [own, vec![Need::Root]].concat();
            suite.test(
                format!("waits::dynamic::closed::{name}::{}", call.name),
                &needs,
                move || {
                    let options = ["--date", FUTURE.0, "--rate", TENFOLD.text];
                    let options: Vec<_> = options.into_iter().chain(tracing).collect();
                    check_program(call, Build::Dynamic, TENFOLD, &options, user, &["closed"])
                },
            );
        }
    }
}

/// The calls that this kernel and this C library have.
pub fn calls_present(build: Build) -> BTreeSet<String> {
    let names =
        Command::new(Program::Waits.path(build)).arg("--names").stdin(Stdio::null()).output();
    let text = names.map(|output| output.stdout).unwrap_or_default();
    String::from_utf8_lossy(&text).lines().map(str::to_owned).collect()
}

#[expect(clippy::too_many_arguments, reason = "one row of the matrix")]
fn add_one(
    suite: &mut Suite,
    call: &'static Call,
    build: Build,
    present: &BTreeSet<String>,
    pace: Pace,
    extra: &str,
    options: Vec<&'static str>,
    user: User,
) {
    let separator = if extra.is_empty() { "" } else { "::" };
    let name =
        format!("waits::{}{separator}{extra}::{}::rate_{}", build.name(), call.name, pace.text);
    let needs = needs_of(call, build, present, user);
    suite.test(name, &needs, move || check(call, build, pace, &options, user));
}

/// The requirements of a call, if those that are `present` exist.
pub fn needs_of(call: &Call, build: Build, present: &BTreeSet<String>, user: User) -> Vec<Need> {
    let is_there = present.contains(call.name);
    let own = [
        Need::Program(build),
        Need::Other(is_there, format!("{} of this kernel and C library", call.name)),
    ];
    own.into_iter().chain(user.needs()).collect()
}

/// A call waits for the requested time by the clocks of a timeline with these options.
pub fn check(call: &Call, build: Build, pace: Pace, options: &[&str], user: User) -> Outcome {
    check_program(call, build, pace, options, user, &[])
}

/// The same of a program with more arguments.
fn check_program(
    call: &Call,
    build: Build,
    pace: Pace,
    options: &[&str],
    user: User,
    more: &[&str],
) -> Outcome {
    let asked_ms = match call.clock {
        Clock::Virtual => pace.wait_ms.max(call.least_ms),
        Clock::Cpu => CPU_WAIT_MS,
    };
    let limit = match call.clock {
        Clock::Virtual => pace.limit(asked_ms as f64),
        Clock::Cpu => CPU_LIMIT,
    };
    let attempt = || {
        let mut command = user.eigentime(options)?;
        command.arg(user.program(Program::Waits, build)?).args([call.name, &asked_ms.to_string()]);
        command.args(more);
        let ended = run_stamped(&mut command, limit)?;
        ended.expect_code(0)?;
        Ok::<_, Broken>(ended)
    };
    let mut ended = attempt()?;
    // Other processes may make a wait late, but hardly twice: the next attempt is judged.
    let is_late = ended.measured()? > pace.longest(asked_ms as f64);
    if call.clock == Clock::Virtual && is_late {
        ended = attempt()?;
    }
    let answer = (ended.number("ret")?, ended.number("errno")?);
    ended.ensure(
        call.answers(answer),
        format_args!("ret and errno {answer:?}, not {:?}", call.answer),
    )?;
    let asked_ms = asked_ms as f64;
    match call.clock {
        Clock::Virtual => check_scaled(call, pace, asked_ms, &ended)?,
        Clock::Cpu => check_unscaled(asked_ms, &ended)?,
    }
    check_written_back(call, asked_ms, &ended)
}

fn check_scaled(call: &Call, pace: Pace, asked_ms: f64, ended: &Finished) -> Outcome {
    let took = ended.measured()?;
    pace.check_host(ended, call.name, asked_ms, took)?;
    let monotonic: f64 = ended.number("mono_ms")?;
    let least_ms = match call.in_ticks {
        true => asked_ms - UNCOUNTED * tick_ms() * pace.rate,
        false => asked_ms,
    };
    pace.check_virtual(ended, "CLOCK_MONOTONIC", least_ms, monotonic, took)?;
    // The host may slew or even step its wall clock meanwhile.
    let wall: f64 = ended.number("real_ms")?;
    pace.check_virtual(ended, "CLOCK_REALTIME", least_ms * 0.999, wall, took)
}

/// A tick of the kernel, by which the coarse clocks advance.
fn tick_ms() -> f64 {
    let Timespec { tv_sec, tv_nsec } = clock_getres(ClockId::MonotonicCoarse);
    tv_sec as f64 * 1e3 + tv_nsec as f64 / 1e6
}

/// CPU time passes as on the host, whatever the clocks do.
fn check_unscaled(asked_ms: f64, ended: &Finished) -> Outcome {
    let cpu_ms: f64 = ended.number("cpu_ms")?;
    let host_ms = ms(ended.measured()?);
    // The kernel counts some of these in ticks, charged to whatever ran at the tick.
    ended.ensure(
        (0.5 * asked_ms..=2.0 * asked_ms).contains(&cpu_ms),
        format_args!("{cpu_ms} ms of CPU time, not {asked_ms}"),
    )?;
    ended.ensure(
        host_ms >= 0.5 * asked_ms,
        format_args!("{host_ms} ms of host time for {asked_ms} ms of CPU time"),
    )?;
    Ok(())
}

fn check_written_back(call: &Call, asked_ms: f64, ended: &Finished) -> Outcome {
    let took_ms: f64 = ended.number("mono_ms")?;
    for extra in call.extras {
        let value: f64 = ended.number(extra.key)?;
        let (least, most) = (extra.least.of(asked_ms, took_ms), extra.most.of(asked_ms, took_ms));
        ended.ensure(
            least <= value && value <= most,
            format_args!("{}={value}, not {least} to {most}", extra.key),
        )?;
    }
    Ok(())
}
