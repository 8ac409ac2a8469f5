//! An anchor is a pair of instants at which the host's wall clock and the timeline's agree.
//! Timelines started with the same pair have the same clock, anywhere and at any time.

use rustix::time::ClockId;

use super::place::Place;
use crate::command::{User, run};
use crate::ensure;
use crate::needs::Need;
use crate::programs::{Build, Program};
use crate::session::{Session, host_ns};
use crate::suite::{Broken, Outcome, Suite};
use crate::timeline::STUCK;

const NS_PER_S: i128 = 1_000_000_000;
/// 2038-01-01T00:00:00Z.
const VIRTUAL: (&str, i128) = ("2038-01-01T00:00:00Z", 2_145_916_800);
/// Instants that no host shows while it runs this: an hour ago and in an hour.
const HOSTS: [(&str, i128); 2] = [("past", -3600), ("future", 3600)];
/// Rates in thousandths.
const RATES: [(&str, &[&str], i128); 4] = [
    ("1", &[], 1000),
    ("10", &["--rate", "10"], 10_000),
    ("0.5", &["--rate", "0.5"], 500),
    ("frozen", &["--freeze"], 0),
];

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    let needs = [Need::Program(Build::Dynamic)];
    for (when, ahead) in HOSTS {
        for (label, options, rate) in RATES {
            let name = |what: &str| format!("named::anchors::{when}::rate_{label}::{what}");
            suite.test(name("private"), &needs, move || follows(ahead, options, rate, false));
            suite.test(name("named"), &needs, move || follows(ahead, options, rate, true));
        }
    }
    suite.test("named::anchors::atomic_time_goes_along", &needs, atomic_time);
    suite.test("named::anchors::goes_on_by_ctl", &needs, goes_on);
    for (label, pair, reason) in [
        ("no_pair", "2038-01-01T00:00:00Z", "="),
        ("empty_host", "=2038-01-01T00:00:00Z", "date"),
        ("empty_virtual", "2038-01-01T00:00:00Z=", "date"),
        ("no_date", "yesterday=2038-01-01T00:00:00Z", "yesterday"),
        ("no_such_day", "2026-02-30T00:00:00Z=2038-01-01T00:00:00Z", "2026-02-30"),
        ("three", "@1=@2=@3", "@2=@3"),
    ] {
        suite.test(format!("named::anchors::refused::{label}"), &[], move || {
            refused(&["--anchor", pair], &[pair, reason])
        });
    }
    suite.test("named::anchors::refused::before_1970", &[], || {
        refused(
            &["--anchor", "2200-01-01T00:00:00Z=1970-01-02T00:00:00Z"],
            &["1970-01-01", "help:"],
        )
    });
    suite.test("named::anchors::refused::after_2262", &[], || {
        refused(&["--anchor", "@0=@0", "--rate", "1000000"], &["2262-04-11", "help:"])
    });
    for other in [["--date", "2030-01-01"], ["--offset", "+1d"]] {
        suite.test(format!("named::anchors::refused::with{}", other[0]), &[], move || {
            let anchor = ["--anchor", "@1700000000=@1800000000"];
            refused(&[&anchor[..], &other[..]].concat(), &[other[0]])
        });
    }
}

/// The pair as an option's argument, and its host side in nanoseconds.
fn pair(ahead: i128) -> (String, i128) {
    let host = host_ns(ClockId::Realtime) / NS_PER_S + ahead;
    (format!("@{host}={}", VIRTUAL.0), host * NS_PER_S)
}

/// The timeline's wall clock between two instants of the host's.
fn read(session: &mut Session) -> Result<(i128, i128, i128), Broken> {
    let before = host_ns(ClockId::Realtime);
    let snapshot = session.snapshot()?;
    Ok((before, snapshot.ns("vdso_0")?, host_ns(ClockId::Realtime)))
}

/// The reading follows from the pair and the rate.
fn expect_formula(reading: (i128, i128, i128), host: i128, rate: i128) -> Outcome {
    let (before, wall, after) = reading;
    let at = |now: i128| VIRTUAL.1 * NS_PER_S + (now - host) * rate / 1000;
    // The kernel's clock is slewed between its nanoseconds.
    let slack = 1000.max(rate);
    ensure!(
        (at(before) - slack..=at(after) + slack).contains(&wall),
        "the wall clock shows {wall}, not {} to {}",
        at(before),
        at(after)
    );
    Ok(())
}

fn follows(ahead: i128, options: &[&str], rate: i128, named: bool) -> Outcome {
    let place = Place::new()?;
    let (pair, host) = pair(ahead);
    let options = [&["--anchor", &pair], options].concat();
    let program = User::Myself.program(Program::Reads, Build::Dynamic)?;
    let start = |name: &str| match named {
        true => place.talk(name, &options, &program, &[]),
        false => {
            let mut command = place.run_private(&options)?;
            command.arg(&program);
            Session::start(command)
        }
    };
    let mut first = start("x")?;
    expect_formula(read(&mut first)?, host, rate)?;
    // Started at another moment, with the same result.
    let mut second = start("y")?;
    for session in [&mut second, &mut first] {
        expect_formula(read(session)?, host, rate)?;
    }
    first.finish()?;
    second.finish()?;
    if named {
        place.ctl(&["rm", "x", "--force"])?;
        place.remove("y")?;
    }
    place.expect_nobody()
}

fn atomic_time() -> Outcome {
    let ahead = |command| -> Result<i128, Broken> {
        let mut session = Session::start(command)?;
        let snapshot = session.snapshot()?;
        session.finish()?;
        Ok((snapshot.ns("vdso_11")? - snapshot.ns("vdso_0")?).div_euclid(NS_PER_S))
    };
    let place = Place::new()?;
    let program = User::Myself.program(Program::Reads, Build::Dynamic)?;
    let mut command = place.run_private(&["--anchor", &pair(3600).0])?;
    command.arg(&program);
    let (here, there) = (ahead(command)?, ahead(place.outside(&program))?);
    ensure!(here == there, "TAI is {here} s ahead of UTC, on the host {there}");
    Ok(())
}

/// An anchor is where a timeline starts; changes apply from there.
fn goes_on() -> Outcome {
    let place = Place::new()?;
    let (pair, host) = pair(-3600);
    let program = User::Myself.program(Program::Reads, Build::Dynamic)?;
    let mut session = place.talk("x", &["--anchor", &pair], program, &[])?;
    session.snapshot()?;
    place.done(&["leap", "x", "+100d"])?;
    let leapt = 100 * 86_400 * NS_PER_S;
    let (before, wall, after) = read(&mut session)?;
    expect_formula((before, wall - leapt, after), host, 1000)?;
    session.finish()?;
    place.remove("x")
}

fn refused(options: &[&str], reasons: &[&str]) -> Outcome {
    let place = Place::new()?;
    for options in [options.to_vec(), [&["--timeline", "x"], options].concat()] {
        let ended = run(place.run_private(&options)?.args(["echo", "started"]), STUCK)?;
        ended.expect_code(125)?;
        for reason in reasons {
            let says = ended.errors.contains(reason);
            ended.ensure(says, format_args!("it does not say {reason}"))?;
        }
        ended.ensure(ended.lines.is_empty(), "the program was started")?;
    }
    ensure!(place.names().is_empty(), "it made {:?}", place.names());
    place.expect_nobody()
}
