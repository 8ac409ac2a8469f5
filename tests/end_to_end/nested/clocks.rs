//! The clocks of a timeline inside another, and how waits follow them.

use rustix::time::ClockId;

use super::{USERS, borrowed, options, run_in};
use crate::command::{Finished, User, run};
use crate::ensure;
use crate::monotonic::never_back;
use crate::needs::Need;
use crate::programs::Build;
use crate::reads::{clocks_follow, clocks_show_date};
use crate::session::host_ns;
use crate::suite::{Broken, Outcome, Suite};
use crate::timeline::{FUTURE, PACES, Pace, STUCK, TENFOLD};
use crate::waits::{calls_present, check, needs_of, table};
use table::{CALLS, Clock};

/// The options of timelines, each inside the previous one.
type Levels = &'static [&'static [&'static str]];

/// Ways to reach ten times the host's rate.
const TENFOLD_WAYS: [(&str, Levels); 5] = [
    ("rates", &[&["--rate", "2"], &["--rate", "5"]]),
    ("traced", &[&["--traced", "--rate", "20"], &["--rate", "0.5"]]),
    // The outer one translates none of the calls that the inner one must.
    ("beside_a_date", &[&["--offset", "+1d"], &["--date", FUTURE.0, "--rate", "10"]]),
    ("three", &[&["--date", FUTURE.0], &["--rate", "5"], &["--rate", "2", "--offset", "-1h"]]),
    ("traced_inside", &[&["--rate", "10"], &["--traced", "--monotonic", "+1d"]]),
];

const SIXTY: Pace = Pace { rate: 60.0, text: "60", wait_ms: 20_000 };
const ONE: Pace = Pace { rate: 1.0, text: "1", wait_ms: 240 };

/// The rates of the inner clocks.
const PRODUCTS: [(&str, Levels, Pace); 6] = [
    ("ten_of_six", &[&["--rate", "10"], &["--rate", "6"]], SIXTY),
    ("three_levels", &[&["--rate", "5"], &["--rate", "3"], &["--rate", "4"]], SIXTY),
    ("slow_of_fast", &[&["--rate", "0.1"], &["--rate", "10"]], ONE),
    ("fast_of_host", &[&["--offset", "+1h"], &["--rate", "1000"]], PACES[2]),
    ("slow", &[&["--rate", "0.25"], &["--rate", "2"]], PACES[0]),
    ("of_traced", &[&["--traced", "--offset", "+1h"], &["--rate", "1000"]], PACES[2]),
];

/// The output of `date -u` to the hour, with the options of the timelines.
const DATES: [(&str, Levels, &str); 6] = [
    ("day_later", &[&["--date", "2038-01-19T00:30:00Z"], &["--offset", "+1d"]], "2038-01-20 00"),
    ("day_before", &[&["--date", "2038-01-19T00:30:00Z"], &["--offset", "-1d"]], "2038-01-18 00"),
    (
        "date_of_date",
        &[&["--date", "2038-01-19"], &["--date", "2024-02-29T12:30:00Z"]],
        "2024-02-29 12",
    ),
    (
        "anchored",
        &[&["--date", "2038-01-19"], &["--anchor", "2038-01-19=2050-06-01T06:30:00Z"]],
        "2050-06-01 06",
    ),
    (
        "three",
        &[&["--date", "2038-01-19T00:30:00Z"], &["--offset", "+1d"], &["--offset", "+2h"]],
        "2038-01-20 02",
    ),
    (
        "of_frozen",
        &[&["--freeze", "--date", "2038-01-19T00:30:00Z"], &["--offset", "+1d"]],
        "2038-01-20 00",
    ),
];

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    for (user_name, user) in USERS {
        let mut needs = vec![Need::Program(Build::Dynamic)];
        needs.extend(user.needs());
        for (name, levels, shows) in DATES {
            suite.test(format!("nested::dates::{user_name}::{name}"), &needs, move || {
                shows_date(user, levels, shows)
            });
        }
        for (name, body) in [
            ("monotonic_offsets_add_up", offsets_add_up as fn(User) -> Outcome),
            ("frozen_inside", frozen_inside),
            ("frozen_outside", frozen_outside),
            ("only_the_wall_stands", only_the_wall_stands),
        ] {
            suite.test(format!("nested::clocks::{user_name}::{name}"), &needs, move || body(user));
        }
    }
    for build in [Build::Dynamic, Build::Static, Build::Musl] {
        let needs = [Need::Program(build)];
        for (name, levels, pace) in PRODUCTS {
            let test = format!("nested::rates::{}::{name}", build.name());
            suite.test(test, &needs, move || {
                clocks_follow(&borrowed(&options(User::Myself, levels)?), build, pace)
            });
        }
    }
    let needs = [Need::Program(Build::Dynamic)];
    for (name, levels) in TENFOLD_WAYS {
        suite.test(format!("nested::never_back::{name}"), &needs, move || {
            never_back(Build::Dynamic, &borrowed(&options(User::Myself, levels)?))
        });
    }
    let date: Levels = &[&["--rate", "2"], &["--rate", "5", "--date", FUTURE.0]];
    suite.test("nested::all_clocks_show_the_date", &needs, move || {
        let options = options(User::Myself, date)?;
        clocks_show_date(&borrowed(&options), Build::Dynamic, FUTURE, TENFOLD)
    });
    add_waits(suite);
}

/// Every call that waits: both where the outer timeline's filter reports it, and, as an ordinary
/// user, where only that of the inner one does.
fn add_waits(suite: &mut Suite) {
    let present = calls_present(Build::Dynamic);
    let ways = [("rates", &USERS[0]), ("beside_a_date", &USERS[1])];
    for (way, (user_name, user)) in ways {
        let levels = TENFOLD_WAYS.iter().find(|it| it.0 == way).expect("it is one of them").1;
        for call in CALLS.iter().filter(|call| call.clock == Clock::Virtual) {
            let needs = needs_of(call, Build::Dynamic, &present, *user);
            let test = format!("nested::waits::{way}::{user_name}::{}", call.name);
            suite.test(test, &needs, move || {
                let options = options(*user, levels)?;
                check(call, Build::Dynamic, TENFOLD, &borrowed(&options), *user)
            });
        }
    }
}

fn shows_date(user: User, levels: Levels, shows: &str) -> Outcome {
    let mut command = run_in(user, levels)?;
    let ended = run(command.args(["date", "-u", "+%F %H"]), STUCK)?;
    ended.expect_code(0)?;
    ended.ensure(ended.output() == shows, format_args!("it is not {shows}"))?;
    ended.ensure(ended.errors.is_empty(), "it complains")
}

/// The output of a Python script inside.
fn python(user: User, levels: &[&[&str]], script: &str) -> Result<Finished, Broken> {
    let ended = run(run_in(user, levels)?.args(["python3", "-c", script]), STUCK)?;
    ended.expect_code(0)?;
    Ok(ended)
}

const READINGS: &str = "
import ctypes, time
libc = ctypes.CDLL(None)
for clock in 0, 1, 7:
    raw = (ctypes.c_long * 2)()
    libc.syscall(228, clock, raw)
    print(f'clock_{clock}={time.clock_gettime(clock)}')
    print(f'raw_{clock}={raw[0] + raw[1] / 1e9}')
";

/// Without a time namespace, however they are read.
fn offsets_add_up(user: User) -> Outcome {
    const DAY: f64 = 86_400.0;
    let levels: Levels = &[
        &["--date", FUTURE.0],
        &["--monotonic", "+10d"],
        &["--monotonic", "+1d", "--boottime", "+2d"],
    ];
    let host = host_ns(ClockId::Monotonic) as f64 / 1e9;
    let ended = python(user, levels, READINGS)?;
    for (key, ahead) in [("clock_1", 11.0), ("raw_1", 11.0), ("clock_7", 2.0), ("raw_7", 2.0)] {
        let days = (ended.number::<f64>(key)? - host) / DAY;
        ended.ensure((days - ahead).abs() < 0.01, format_args!("{key} is {days} days ahead"))?;
    }
    let wall: f64 = ended.number("clock_0")?;
    ended.ensure((wall - FUTURE.1 as f64).abs() < 100.0, "the wall clock was moved as well")
}

const TWICE: &str = "
import time
for key in 'first', 'second':
    print(f'{key}_wall={time.time_ns()}')
    print(f'{key}_mono={time.monotonic_ns()}')
    begin = time.process_time()
    while time.process_time() - begin < 0.05: pass
";

/// How far the wall and the monotonic clock move while a program runs for a while.
fn moved(user: User, levels: Levels) -> Result<[i64; 2], Broken> {
    let ended = python(user, levels, TWICE)?;
    let moved = |clock| -> Result<i64, Broken> {
        let at = |key: &str| ended.number::<i64>(&format!("{key}_{clock}"));
        Ok(at("second")? - at("first")?)
    };
    Ok([moved("wall")?, moved("mono")?])
}

fn frozen_inside(user: User) -> Outcome {
    const WAYS: [Levels; 3] = [
        &[&["--rate", "10"], &["--freeze"]],
        &[&["--date", FUTURE.0], &["--freeze"]],
        &[&["--traced", "--rate", "10"], &["--freeze"], &["--rate", "5"]],
    ];
    for levels in WAYS {
        let moved = moved(user, levels)?;
        ensure!(moved == [0, 0], "clocks that stand still moved by {moved:?}: {levels:?}");
    }
    Ok(())
}

fn frozen_outside(user: User) -> Outcome {
    let levels: Levels = &[&["--freeze"], &["--rate", "10"]];
    let moved = moved(user, levels)?;
    ensure!(moved == [0, 0], "clocks moved by {moved:?} on clocks that stand still");
    Ok(())
}

fn only_the_wall_stands(user: User) -> Outcome {
    const WAYS: [Levels; 3] = [
        &[&["--freeze=wall"], &["--rate", "10"]],
        &[&["--rate", "10"], &["--freeze=wall"]],
        &[&["--date", FUTURE.0], &["--freeze=wall"], &["--rate", "10"]],
    ];
    for levels in WAYS {
        let [wall, mono] = moved(user, levels)?;
        ensure!(wall == 0, "the wall clock moved by {wall}: {levels:?}");
        // At least fifty milliseconds of host time.
        ensure!(mono >= 490_000_000, "the monotonic clock moved by {mono}: {levels:?}");
    }
    Ok(())
}
