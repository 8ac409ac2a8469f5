//! Failures are reported together with a remedy, and change nothing.

use super::place::Place;
use crate::ensure;
use crate::suite::{Outcome, Suite};

/// The exit status of a failed command, and that of a usage error.
const NOT_DONE: i32 = 1;
const USAGE: i32 = 125;

/// Commands for a timeline `x`, and the expected messages.
const REFUSED: [(&str, &[&str], i32, &[&str]); 18] = [
    ("leap_back", &["leap", "x", "-1h"], NOT_DONE, &["goes forward", "help:", "--date"]),
    ("leap_back_first", &["leap", "-1h", "x"], NOT_DONE, &["goes forward"]),
    ("leap_too_far", &["leap", "x", "100000d"], NOT_DONE, &["2262-04-11", "help:"]),
    ("leap_no_span", &["leap", "x", "far"], USAGE, &["far"]),
    ("leap_nothing", &["leap"], USAGE, &["SPAN"]),
    ("leap_three", &["leap", "x", "1d", "2d"], USAGE, &["2d"]),
    ("offset_too_far", &["set", "x", "--offset", "-90000d"], NOT_DONE, &["1970-01-01", "help:"]),
    ("set_nothing", &["set", "x"], USAGE, &["--rate", "--date", "--offset"]),
    ("rate_zero", &["set", "x", "--rate", "0"], USAGE, &["zero"]),
    ("rate_negative", &["set", "x", "--rate=-1"], USAGE, &["-1"]),
    ("rate_too_fast", &["set", "x", "--rate", "1000001"], USAGE, &["1000001"]),
    ("rate_no_number", &["thaw", "x", "--rate", "fast"], USAGE, &["fast"]),
    ("no_date", &["set", "x", "--date", "soon"], USAGE, &["soon"]),
    ("date_before_1970", &["set", "x", "--date", "1960-01-01"], USAGE, &["1970-01-01"]),
    (
        "date_and_offset",
        &["set", "x", "--date", "2030-01-01", "--offset", "1d"],
        USAGE,
        &["--offset"],
    ),
    ("bad_name", &["show", "../x"], USAGE, &["a name has 1 to 64 letters"]),
    ("unknown_command", &["dance", "x"], USAGE, &["dance"]),
    ("unknown_option", &["freeze", "x", "--hard"], USAGE, &["--hard"]),
];

/// All commands that take a name.
const COMMANDS: [&[&str]; 7] = [
    &["show"],
    &["set", "--rate", "2"],
    &["leap", "+1d"],
    &["freeze"],
    &["thaw"],
    &["save"],
    &["rm"],
];

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    for (label, words, code, says) in REFUSED {
        suite.test(format!("named::errors::{label}"), &[], move || refused(words, code, says));
    }
    suite.test("named::errors::no_such_timeline", &[], no_such);
    suite.test("named::errors::no_timeline_at_all", &[], none_at_all);
    suite.test("named::errors::several_and_no_name", &[], several);
}

fn refused(words: &[&str], code: i32, says: &[&str]) -> Outcome {
    let place = Place::new()?;
    place.make("x", &["--freeze"])?;
    let before = place.show("x")?;
    let ended = place.ctl(words)?;
    ended.expect_code(code)?;
    ended.ensure(ended.lines.is_empty(), "it prints an answer")?;
    for says in says {
        let found = ended.errors.contains(says);
        ended.ensure(found, format_args!("it does not say {says}"))?;
    }
    let after = place.show("x")?;
    let readings = |shown: &super::shown::Shown| -> Vec<i64> {
        shown.clocks.iter().map(|reading| reading.virtual_ns).collect()
    };
    ensure!(
        (&before.state, before.rate) == (&after.state, after.rate)
            && readings(&before) == readings(&after),
        "{before:?} became {after:?}"
    );
    place.remove("x")
}

/// Returns the command, with a name where it takes one.
fn with_name<'a>(words: &[&'a str], name: &'a str) -> Vec<&'a str> {
    [&words[..1], &[name], &words[1..]].concat()
}

fn no_such() -> Outcome {
    let place = Place::new()?;
    place.make("x", &[])?;
    for words in COMMANDS {
        let ended = place.ctl(&with_name(words, "nix"))?;
        ended.expect_code(NOT_DONE)?;
        for says in ["there is no timeline 'nix'", "help:", "ctl list"] {
            let found = ended.errors.contains(says);
            ended.ensure(found, format_args!("it does not say {says}"))?;
        }
    }
    place.remove("x")
}

fn none_at_all() -> Outcome {
    let place = Place::new()?;
    for words in COMMANDS {
        let ended = place.ctl(words)?;
        ended.expect_code(NOT_DONE)?;
        for says in ["there is no timeline", "help:", "--timeline NAME"] {
            let found = ended.errors.contains(says);
            ended.ensure(found, format_args!("it does not say {says}"))?;
        }
    }
    place.expect_nobody()
}

fn several() -> Outcome {
    let place = Place::new()?;
    place.make("x", &[])?;
    place.make("y", &[])?;
    for words in COMMANDS {
        let ended = place.ctl(words)?;
        ended.expect_code(NOT_DONE)?;
        ended.ensure(ended.errors.contains("x, y"), "it does not name them")?;
    }
    ensure!(place.names() == ["x", "y"], "left are {:?}", place.names());
    place.ctl(&["rm", "y"])?;
    place.remove("x")
}
