//! Setting the clock inside a timeline moves only the wall clock of that timeline, for root and for
//! ordinary users.
//!
//! Root could set the host's clock if Eigentime failed. So every test as root runs once without the
//! capability for that, and with it only if that passed.

use std::process::Command;
use std::time::Duration;

use rustix::time::{ClockId, Timespec, clock_settime};

use crate::command::{Finished, User, run, run_stamped};
use crate::needs::{Need, is_root};
use crate::programs::{Build, Program};
use crate::session::host_ns;
use crate::suite::{Broken, Outcome, Suite};
use crate::timeline::{FUTURE, HOST, Pace, STALL, STUCK, TENFOLD, Y2038, ms};

const NS_PER_S: i128 = 1_000_000_000;
const A_DAY_S: f64 = 86_400.0;
/// More than a clock is slewed in one test, and less than any tested change.
const HOST_SLACK_NS: i128 = NS_PER_S;
/// All of these take milliseconds when they work, and at least six minutes when they do not.
const LIMIT: Duration = Duration::from_secs(60);
const ETIMEDOUT: i32 = 110;
const SIGUSR1: i64 = 10;

/// Whoever may set the clock, the effect is the same; `consent` tests who may.
const SETTABLE: &[&str] = &["--settable-by", "anyone"];

pub const SETTERS: [&str; 5] =
    ["clock_settime", "libc_clock_settime", "settimeofday", "adjtimex", "clock_adjtime"];

/// Waits for an instant of the wall clock, and their results when woken.
pub const WAITERS: [(&str, (i64, i32)); 6] = [
    ("clock_nanosleep", (0, 0)),
    ("futex", (-1, ETIMEDOUT)),
    ("cond", (-1, ETIMEDOUT)),
    ("timerfd", (8, 0)),
    // With TFD_TIMER_CANCEL_ON_SET, the kernel would cancel the read; in a timeline the timer
    // follows the new date (docs/coverage.md).
    ("timerfd_cancelled", (8, 0)),
    ("timer", (SIGUSR1, 0)),
];

/// A timeline whose clock is set.
#[derive(Clone, Copy)]
pub struct Setting<'a> {
    pub name: &'static str,
    pub options: &'a [&'a str],
    pub pace: Pace,
}

const SETTINGS: [Setting<'static>; 4] = [
    Setting { name: "date", options: &["--date", FUTURE.0], pace: HOST },
    Setting { name: "offset", options: &["--offset", "+3h"], pace: HOST },
    FAST,
    Setting {
        name: "everything",
        options: &["--monotonic", "+1d", "--boottime", "+2d", "--date", FUTURE.0, "--rate", "10"],
        pace: TENFOLD,
    },
];
const FAST: Setting<'static> = Setting { name: "rate", options: &["--rate", "10"], pace: TENFOLD };

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    for (user, label) in [(User::Myself, "me"), (User::Nobody, "nobody")] {
        for build in [Build::Dynamic, Build::Musl] {
            let mut needs = vec![Need::Program(build), Need::Tool("setpriv")];
            if user == User::Nobody {
                needs.push(Need::Root);
            }
            for setting in SETTINGS {
                let mut needs = needs.clone();
                if setting.options.contains(&"--monotonic") {
                    needs.push(Need::TimeNamespace(user));
                }
                let prefix = format!("setclock::{label}::{}::{}", build.name(), setting.name);
                for how in SETTERS {
                    suite.test(format!("{prefix}::{how}"), &needs, move || {
                        guarded(user, |guard| set(user, guard, build, setting, how))
                    });
                }
                // musl turns these instants into durations, and so continues to sleep.
                let wakes = |waiter: &str| waiter != "cond" || build == Build::Dynamic;
                for (waiter, answer) in WAITERS.into_iter().filter(|(name, _)| wakes(name)) {
                    suite.test(format!("{prefix}::wakes::{waiter}"), &needs, move || {
                        guarded(user, |guard| wake(user, guard, build, setting, waiter, answer))
                    });
                }
            }
            let prefix = format!("setclock::{label}::{}", build.name());
            suite.test(format!("{prefix}::relative_sleep_goes_on"), &needs, move || {
                guarded(user, |guard| keep(user, guard, build))
            });
            suite.test(format!("{prefix}::refused"), &needs, move || {
                guarded(user, |guard| refused(user, guard, build))
            });
            suite.test(format!("{prefix}::adjtimex_reads"), &needs, move || {
                guarded(user, |guard| reads(user, guard, build))
            });
        }
        let mut needs = vec![Need::Tool("date"), Need::Tool("setpriv")];
        if user == User::Nobody {
            needs.push(Need::Root);
        }
        suite.test(format!("setclock::{label}::date_command"), &needs, move || {
            guarded(user, |guard| date_command(user, guard))
        });
    }
}

/// A prefix that takes away the right to set the host's clock.
pub type Guard = &'static [&'static str];
const GUARDED: Guard = &["setpriv", "--bounding-set", "-sys_time", "--"];
const UNGUARDED: Guard = &[];

/// Runs it without the right to set the host's clock, then with it.
pub fn guarded(user: User, body: impl Fn(Guard) -> Outcome) -> Outcome {
    let apart = || host_ns(ClockId::Realtime) - host_ns(ClockId::Monotonic);
    let before = apart();
    let guards: &[Guard] = match user {
        User::Myself if is_root() => &[GUARDED, UNGUARDED],
        _ => &[UNGUARDED],
    };
    let mut result = Ok(());
    for guard in guards {
        result = result.and_then(|()| body(guard));
    }
    let moved = apart() - before;
    if moved.abs() > HOST_SLACK_NS {
        put_back(host_ns(ClockId::Monotonic) + before)?;
        return Err(Broken(format!(
            "the host's clock was moved by {moved} ns, and has been put back"
        )));
    }
    result
}

fn put_back(wall_ns: i128) -> Outcome {
    let time = Timespec {
        tv_sec: i64::try_from(wall_ns.div_euclid(NS_PER_S))?,
        tv_nsec: i64::try_from(wall_ns.rem_euclid(NS_PER_S))?,
    };
    Ok(clock_settime(ClockId::Realtime, time)?)
}

fn setclock(
    user: User,
    guard: Guard,
    build: Build,
    options: &[&str],
    words: &[&str],
) -> Result<Finished, Broken> {
    let mut command: Command = user.eigentime(&[options, SETTABLE].concat())?;
    command.args(guard).arg(user.program(Program::SetClock, build)?).args(words);
    let ended = run_stamped(&mut command, LIMIT)?;
    ended.expect_code(0)?;
    Ok(ended)
}

/// A call sets the clock of a timeline.
pub fn set(user: User, guard: Guard, build: Build, setting: Setting<'_>, how: &str) -> Outcome {
    let ended = setclock(user, guard, build, setting.options, &["set", how])?;
    ended.ensure(ended.text("ret")? == "0", "it was refused")?;
    let slack_ms = ms(STALL + STUCK) * setting.pace.rate;
    for key in ["wall_step_ms", "raw_wall_step_ms"] {
        let step: f64 = ended.number(key)?;
        ended.ensure(
            (A_DAY_S * 1e3 - 1.0..A_DAY_S * 1e3 + slack_ms).contains(&step),
            format_args!("{key} is {step}, not a day"),
        )?;
    }
    let monotonic: f64 = ended.number("mono_step_ms")?;
    ended.ensure(
        (0.0..slack_ms).contains(&monotonic),
        format_args!("CLOCK_MONOTONIC stepped by {monotonic} ms"),
    )?;
    for key in ["other_step_s", "other_raw_step_s"] {
        let step: f64 = ended.number(key)?;
        ended.ensure(
            (A_DAY_S - 1.0..A_DAY_S + slack_ms / 1e3).contains(&step),
            format_args!("another process saw a step of {step} s"),
        )?;
    }
    Ok(())
}

/// A wait for an instant ends when the clock is set beyond it.
pub fn wake(
    user: User,
    guard: Guard,
    build: Build,
    setting: Setting<'_>,
    waiter: &str,
    answer: (i64, i32),
) -> Outcome {
    let ended = setclock(user, guard, build, setting.options, &["wake", waiter])?;
    ended.ensure(ended.text("asleep")? == "1", "it did not wait")?;
    let found = (ended.number("ret")?, ended.number("errno")?);
    // By itself it would have waited an hour, and exceeded its limit.
    ended.ensure(found == answer, format_args!("ret and errno {found:?}, not {answer:?}"))
}

fn keep(user: User, guard: Guard, build: Build) -> Outcome {
    let ended = setclock(user, guard, build, &["--date", Y2038.0], &["keep"])?;
    ended.ensure(ended.text("ret")? == "0", "the sleep failed")?;
    HOST.check_host(&ended, "sleep", 300.0, ended.measured()?)
}

fn refused(user: User, guard: Guard, build: Build) -> Outcome {
    let ended = setclock(user, guard, build, &["--date", Y2038.0], &["refused"])?;
    for key in [
        "monotonic",
        "boottime",
        "tai",
        "no such clock",
        "cpu clock",
        "too many ns",
        "negative",
        "too many us",
        "time zone",
        "too large an offset",
    ] {
        ended.ensure(
            ended.text(key)? == "-1 Invalid argument",
            format_args!("{key} is not refused with EINVAL"),
        )?;
    }
    for key in ["pointer", "settimeofday pointer", "adjtimex pointer"] {
        ended.ensure(
            ended.text(key)? == "-1 Bad address",
            format_args!("{key} is not refused with EFAULT"),
        )?;
    }
    Ok(())
}

fn reads(user: User, guard: Guard, build: Build) -> Outcome {
    let ended = setclock(user, guard, build, FAST.options, &["read"])?;
    for key in ["ok", "clock_ok"] {
        ended.ensure(ended.text(key)? == "1", "reading was refused")?;
    }
    for key in ["apart_s", "clock_apart_s"] {
        let apart: i64 = ended.number(key)?;
        ended.ensure(apart.abs() <= 1, format_args!("it shows a wall clock {apart} s off"))?;
    }
    Ok(())
}

fn date_command(user: User, guard: Guard) -> Outcome {
    let mut command = user.eigentime(&[SETTABLE, &["--date", FUTURE.0]].concat())?;
    command.args(guard).args([
        "sh",
        "-c",
        "date -u -s '2033-05-05 05:05:05' >/dev/null && date -u +year=%Y && date -u +s=%s",
    ]);
    let ended = run(&mut command, STUCK)?;
    ended.expect_code(0)?;
    ended.ensure(ended.text("year")? == "2033", "not set")?;
    let seconds: i64 = ended.number("s")?;
    ended.ensure((1_998_882_305..1_998_882_305 + 10).contains(&seconds), "not what was set")?;
    Ok(())
}
