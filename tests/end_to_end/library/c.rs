//! The examples in C.

use crate::command::{Finished, User};
use crate::suite::{Broken, Outcome, Suite};
use crate::workspace;

use super::compile::{LINKS, Language, Link, compile, example, program};
use super::{
    DATE, expect_virtual_date, finish, host_now, in_timeline, in_timeline_with, on_host,
    on_host_with,
};

const C: Language = Language::C;

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    for link in LINKS {
        let name = link.name();
        suite.test(format!("library::c::clock::{name}"), &C.needs_to(link), move || clock(link));
        suite.test(format!("library::c::sleep::{name}"), &C.needs_to(link), move || sleep(link));
        suite.test(format!("library::c::ticker::{name}"), &C.needs_to(link), move || ticker(link));
        let test = format!("library::c::interrupted::{name}");
        suite.test(test, &C.needs_to(link), move || interrupted(link));
        suite.test(format!("library::c::misuse::{name}"), &C.needs_to(link), move || misuse(link));
    }
    for link in [Link::Shared, Link::Static] {
        let name = link.name();
        let test = format!("library::c::clock::in_timeline::{name}");
        suite.test(test, &C.needs_to(link), move || clock_in_timeline(link));
        let test = format!("library::c::sleep::in_timeline::{name}");
        suite.test(test, &C.needs_to(link), move || sleep_in_timeline(link));
    }
    suite.test("library::c::sleep::none_early", &C.needs(), || {
        expect_none_early(&on_host(&compile(&program("early.c"), C, Link::Shared)?)?)
    });
    suite.test("library::c::ticker::in_timeline", &C.needs(), ticker_in_timeline);
    suite.test("library::c::clock::frozen", &C.needs(), frozen);
    suite.test("library::c::forked", &C.needs(), forked);
    for link in LINKS {
        let test = format!("library::c::cancelled::{}", link.name());
        suite.test(test, &C.needs_to(link), move || cancelled(link));
    }
    suite.test("library::c::sleep::degraded", &C.needs(), degraded);
}

/// An error in nanoseconds; none if it is unbounded.
pub fn error(ended: &Finished, key: &str) -> Result<Option<u64>, Broken> {
    if ended.text(key)? == "unbounded" { Ok(None) } else { ended.number(key).map(Some) }
}

/// The errors of a reading: those against the kernel's clocks are known, and no further part makes
/// the sum smaller.
pub fn expect_errors(ended: &Finished) -> Outcome {
    let monotonic = error(ended, "monotonic_error")?;
    let wall = error(ended, "wall_error")?;
    let utc = error(ended, "utc_error")?;
    ended.ensure(monotonic.is_some() && wall.is_some(), "an error that is not known")?;
    ended.ensure(wall >= monotonic, "the wall clock is better known than what it is made of")?;
    ended.ensure(utc.is_none_or(|utc| Some(utc) >= wall), "UTC is better known than the clock")
}

fn clock(link: Link) -> Outcome {
    let program = compile(&example("clock.c"), C, link)?;
    let before = host_now();
    let ended = on_host(&program)?;
    let after = host_now();
    ended.ensure(ended.text("version")? == env!("CARGO_PKG_VERSION"), "another version")?;
    ended.ensure(!ended.text("trust")?.is_empty(), "no reason for what it reads")?;
    expect_errors(&ended)?;
    let slack = error(&ended, "wall_error")?.unwrap_or(0);
    let (wall, limits) = (ended.number::<u64>("wall")?, [before, after].map(|at| at.as_nanos()));
    let inside = limits[0] <= u128::from(wall + slack)
        && u128::from(wall.saturating_sub(slack)) <= limits[1];
    ended.ensure(inside, format_args!("{wall} is not between {limits:?}"))
}

fn clock_in_timeline(link: Link) -> Outcome {
    let ended = in_timeline(&compile(&example("clock.c"), C, link)?)?;
    expect_virtual_date(&ended, ended.number::<f64>("wall")? / 1e9)?;
    ended.ensure(ended.text("date")?.starts_with("2038-01-"), "another date")?;
    let trust = ended.text("trust")?;
    ended.ensure(trust.contains("kernel"), "in a timeline the counter says nothing")
}

/// Every call with invalid arguments: a status and a sentence, and no crash.
fn misuse(link: Link) -> Outcome {
    let ended = on_host(&compile(&program("misuse.c"), C, link)?)?;
    ended.ensure(ended.output().ends_with("done=0"), "a call took what it should refuse")
}

/// Makes this many sleeps of this many microseconds.
fn sleep(link: Link) -> Outcome {
    let program = compile(&example("sleep.c"), C, link)?;
    let ended = on_host_with(&program, &["50", "1000"])?;
    expect_sleeps(&ended, 50, 50_000_000)
}

fn expect_sleeps(ended: &Finished, sleeps: u64, nanos: u64) -> Outcome {
    ended.ensure(ended.number::<u64>("sleeps")? == sleeps, "other sleeps than were asked for")?;
    ended.ensure(ended.number::<u64>("early")? == 0, "it woke too early")?;
    ended.ensure(ended.number::<u64>("slept")? >= nanos, "it slept for too short")?;
    let late: u64 = ended.number::<u64>("woken_late")? + ended.number::<u64>("preempted")?;
    ended.ensure(late <= sleeps, "more late sleeps than there were")
}

/// None of some thousands of short sleeps of each kind, by the kernel's own clock.
pub fn expect_none_early(ended: &Finished) -> Outcome {
    ended.ensure(ended.number::<u64>("rounds")? >= 1000, "too few rounds")?;
    ["relative", "absolute", "timed"].iter().try_for_each(|sleeps| {
        ended.ensure(ended.number::<u64>(sleeps)? == 0, format_args!("{sleeps} ones ended early"))
    })
}

/// Three sleeps of twenty seconds each, which pass in sixty milliseconds.
fn sleep_in_timeline(link: Link) -> Outcome {
    let program = compile(&example("sleep.c"), C, link)?;
    let ended = in_timeline_with(&program, &["3", "20000000"])?;
    expect_sleeps(&ended, 3, 60_000_000_000)?;
    ended.ensure(ended.elapsed.as_secs() < 60, "it slept in host time")
}

/// A request for a nonexistent processor is not granted.
fn degraded() -> Outcome {
    let program = compile(&example("sleep.c"), C, Link::Shared)?;
    let ended = on_host_with(&program, &["2", "100", "100000"])?;
    expect_sleeps(&ended, 2, 200_000)?;
    let said = ended.text("degraded")?;
    ended.ensure(said.contains("processor 100000: "), "it does not say what it lacks")
}

fn interrupted(link: Link) -> Outcome {
    let ended = on_host(&compile(&program("interrupted.c"), C, link)?)?;
    expect_texts(
        &ended,
        &[
            ("status", "-4"),
            ("remaining", "1"),
            ("untouched", "1"),
            ("handled", "1"),
            ("second", "0"),
            ("whole", "1"),
            ("third", "0"),
            ("nothing", "0"),
        ],
    )?;
    ended.ensure(ended.text("message")?.contains("signal"), "it does not say why")
}

fn ticker(link: Link) -> Outcome {
    let program = compile(&example("ticker.c"), C, link)?;
    expect_events(&on_host_with(&program, &["20", "1000"])?, 20)
}

/// Twenty seconds of virtual time.
fn ticker_in_timeline() -> Outcome {
    let program = compile(&example("ticker.c"), C, Link::Shared)?;
    let ended = in_timeline_with(&program, &["20", "1000000"])?;
    expect_events(&ended, 20)?;
    ended.ensure(ended.elapsed.as_secs() < 20, "it ticked in host time")
}

fn expect_events(ended: &Finished, events: u64) -> Outcome {
    ended.ensure(ended.number::<u64>("counted")? >= events, "too few were counted")?;
    ended.ensure(ended.number::<u64>("written")? >= events, "too few were written")?;
    let called = ended.number::<u64>("ticks")? + ended.number::<u64>("missed")?;
    ended.ensure(called >= events - 1, "too few were called")?;
    ended.ensure(ended.number::<u64>("early")? == 0, "one came too early")?;
    ended.ensure(ended.number::<u64>("out_of_order")? == 0, "one was lost and not counted")?;
    ended.ensure(ended.number::<u64>("late")? == 1, "the one that comes once came too early")?;
    for name in ["callback", "counter", "eventfd", "once"] {
        let named = format!("\"{name}\"");
        ended.ensure(ended.output().contains(&named), format_args!("no {name} in its text"))?;
    }
    Ok(())
}

fn expect_texts(ended: &Finished, wanted: &[(&str, &str)]) -> Outcome {
    wanted.iter().try_for_each(|(key, value)| {
        ended.ensure(ended.text(key)? == *value, format_args!("{key} is not {value}"))
    })
}

/// The child reads and sleeps, has no ticker but can start one; the parent's ticker continues.
fn forked() -> Outcome {
    let ended = on_host(&compile(&program("forked.c"), C, Link::Shared)?)?;
    expect_texts(
        &ended,
        &[
            ("later", "1"),
            ("sleep", "0"),
            ("whole", "1"),
            ("wait", "-125"),
            ("add", "-125"),
            ("ended", "1"),
            ("own", "0"),
            ("child", "0"),
            ("goes_on", "0"),
        ],
    )?;
    ended.ensure(ended.text("message")?.contains("fork"), "it does not say why")
}

/// Only the program's own calls end a cancelled thread.
fn cancelled(link: Link) -> Outcome {
    let ended = on_host(&compile(&program("cancelled.c"), C, link)?)?;
    expect_texts(&ended, &[("reached", "the end"), ("cancelled", "1")])
}

/// A million readings take no time in a frozen timeline.
fn frozen() -> Outcome {
    let program = compile(&example("clock.c"), C, Link::Shared)?;
    let mut command = User::Myself.eigentime(&["--date", DATE.0, "--freeze"])?;
    command.arg(&program.path).env("LD_LIBRARY_PATH", workspace::libraries());
    let ended = finish(&mut command)?;
    expect_texts(&ended, &[("date", DATE.0), ("read_ns", "0.0")])
}
