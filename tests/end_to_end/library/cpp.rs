//! The examples in C++.

use crate::suite::{Outcome, Suite};

use super::c::{expect_errors, expect_none_early};
use super::compile::{LINKS, Language, Link, compile, example, program};
use super::{expect_virtual_date, host_now, in_timeline, on_host};

const CPP: Language = Language::Cpp;

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    for link in LINKS {
        let name = link.name();
        suite.test(format!("library::cpp::chrono::{name}"), &CPP.needs_to(link), move || {
            chrono(link)
        });
        suite.test(format!("library::cpp::ticker::{name}"), &CPP.needs_to(link), move || {
            ticker(link)
        });
        suite.test(format!("library::cpp::lengths::{name}"), &CPP.needs_to(link), move || {
            lengths(link)
        });
    }
    suite.test("library::cpp::chrono::in_timeline", &CPP.needs(), chrono_in_timeline);
    suite.test("library::cpp::none_early", &CPP.needs(), || {
        expect_none_early(&on_host(&compile(&program("early.cpp"), CPP, Link::Shared)?)?)
    });
}

/// How long the example waits by each clock, in nanoseconds.
const WAIT: u64 = 20_000_000;

fn chrono(link: Link) -> Outcome {
    let program = compile(&example("chrono.cpp"), CPP, link)?;
    let before = host_now();
    let ended = on_host(&program)?;
    ended.ensure(ended.number::<u64>("steady")? >= WAIT, "it woke too early")?;
    ended.ensure(ended.number::<u64>("between")? == 1500, "1500 µs are not 1500 µs")?;
    ended.ensure(ended.number::<u64>("early")? == 0, "its sleeper woke too early")?;
    let date = ended.number::<u64>("date")?;
    ended.ensure((before.as_secs()..=host_now().as_secs()).contains(&date), "another date")?;
    expect_errors(&ended)
}

fn chrono_in_timeline() -> Outcome {
    let ended = in_timeline(&compile(&example("chrono.cpp"), CPP, Link::Shared)?)?;
    expect_virtual_date(&ended, ended.number("date")?)?;
    ended.ensure(ended.number::<u64>("steady")? >= WAIT, "it woke too early")
}

fn ticker(link: Link) -> Outcome {
    let ended = on_host(&compile(&example("ticker.cpp"), CPP, link)?)?;
    ended.ensure(ended.number::<u64>("counted")? >= 20, "too few were counted")?;
    ended.ensure(ended.number::<u64>("ticks")? >= 19, "too few were called")?;
    ended.ensure(ended.number::<u64>("early")? == 0, "one came too early")?;
    ended.ensure(ended.number::<u64>("chained")? == 1, "a callback could not add an event")?;
    let refused = ended.text("refused")?;
    ended.ensure(refused.contains("1µs") && refused.contains("10µs"), "it does not say why")
}

/// A duration beyond the range of nanoseconds is as long as they can express, and no wait ends at
/// once.
fn lengths(link: Link) -> Outcome {
    let ended = on_host(&compile(&program("lengths.cpp"), CPP, link)?)?;
    ended.ensure(ended.number::<u64>("returned")? == 0, "a wait ended at once")?;
    ended.ensure(ended.number::<u64>("short")? == 0, "a sleep was shorter than it should be")?;
    ended.ensure(ended.number::<u64>("past")? == 1, "the past was waited for")?;
    ended.ensure(ended.number::<u64>("counted")? == 0, "a long period passed")?;
    ended.ensure(ended.text("nearest")? == "taken", "a period is not the nearest")?;
    for refused in ["nan", "nan_timeout", "nan_period"] {
        ended.ensure(ended.text(refused)?.contains("not a number"), "NaN was taken")?;
    }
    ended.ensure(ended.text("negative")? != "taken", "a negative period was taken")
}
