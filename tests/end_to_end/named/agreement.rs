//! Programs in one timeline read the same clocks: one program's reading lies between another's
//! readings before and after, however they joined, and whatever is being changed.

use std::fs;
use std::process::{ChildStdin, Stdio};
use std::time::Duration;

use super::place::Place;
use crate::command::{Running, User, start};
use crate::needs::Need;
use crate::processes::wait_for_end;
use crate::programs::{Build, Program};
use crate::suite::{Broken, Outcome, Suite};
use crate::timeline::FUTURE;

/// How closely the clocks must be shown to agree, in host time.
const AGREE_NS: f64 = 1000.0;
/// When a busy machine is asked for its measurements so far.
const ENOUGH: Duration = Duration::from_secs(60);
const LIMIT: Duration = Duration::from_secs(40);
/// Clocks whose readings bound each other, and those that advance in ticks.
const FINE: [u32; 5] = [0, 1, 4, 7, 11];
const COARSE: [u32; 2] = [5, 6];

const SETTINGS: [(&str, &[&str], f64); 6] = [
    ("host", &[], 1.0),
    ("date", &["--date", FUTURE.0, "--monotonic", "+10d"], 1.0),
    ("rate_0.5", &["--rate", "0.5"], 0.5),
    ("rate_10", &["--rate", "10", "--offset", "-1d"], 10.0),
    ("rate_1000000", &["--rate", "1000000"], 1e6),
    ("frozen", &["--freeze"], 1.0),
];

/// The changes while two programs compare; with these, each clock only moves forward.
pub const CHANGES: [&[&str]; 8] = [
    &["set", "x", "--rate", "10"],
    &["leap", "x", "1h"],
    &["freeze", "x"],
    &["leap", "x", "1ms"],
    &["thaw", "x", "--rate", "0.1"],
    &["set", "x", "--rate", "1"],
    &["set", "x", "--rate", "1000"],
    &["set", "x", "--rate", "1"],
];
const ROUNDS_OF_CHANGES: usize = 12;

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    let needs = [Need::Program(Build::Dynamic)];
    for (label, options, rate) in SETTINGS {
        suite.test(format!("named::agreement::me::{label}"), &needs, move || {
            agree(User::Myself, options, rate)
        });
    }
    let for_nobody = [Need::Program(Build::Dynamic), Need::Root, Need::Tool("setpriv")];
    for (label, options, rate) in [SETTINGS[1], SETTINGS[3]] {
        suite.test(format!("named::agreement::nobody::{label}"), &for_nobody, move || {
            agree(User::Nobody, options, rate)
        });
    }
    suite.test("named::agreement::while_the_clocks_change", &needs, agree_through_changes);
}

/// The widest permitted range of the difference, as a multiple of what must be told apart.
const WIDEST: i64 = 20;

/// Two programs that compare their clocks.
struct Pair {
    asks: Running,
    input: Option<ChildStdin>,
    answers: Running,
}

fn pair(place: &Place, user: User, options: &[&str], limit_ns: i64) -> Result<Pair, Broken> {
    let program = user.program(Program::Agree, Build::Dynamic)?;
    let file = place.directory().join("shared");
    fs::write(&file, [0; 4096])?;
    fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o666))?;
    place.make("x", options)?;
    let mut command = place.run("x", &[])?;
    let answers = start(command.arg(&program).arg("answer").arg(&file).stdin(Stdio::null()))?;
    let mut command = place.run("x", &[])?;
    command.arg(&program).arg("ask").arg(&file).arg(limit_ns.to_string());
    let mut asks = start(command.stdin(Stdio::piped()))?;
    let input = asks.child.stdin.take();
    Ok(Pair { asks, input, answers })
}

fn agree(user: User, options: &[&str], rate: f64) -> Outcome {
    let place = Place::of(user)?;
    let limit_ns = (AGREE_NS * rate.max(1.0)) as i64;
    let mut pair = pair(&place, user, options, limit_ns)?;
    wait_for_end(&mut pair.asks.child, ENOUGH)?;
    drop(pair.input);
    let ended = pair.asks.finish(LIMIT)?;
    ended.expect_code(0)?;
    pair.answers.finish(LIMIT)?.expect_code(0)?;
    for clock in FINE.iter().chain(&COARSE) {
        let wrong: u64 = ended.number(&format!("wrong_{clock}"))?;
        ended.ensure(wrong == 0, format_args!("clock {clock} was not between {wrong} times"))?;
    }
    for clock in FINE {
        let low: i64 = ended.number(&format!("low_{clock}"))?;
        let high: i64 = ended.number(&format!("high_{clock}"))?;
        // The middle is the estimate; the width depends on where the scheduler has put the two
        // programs.
        let (middle, width) = (low.midpoint(high), high - low);
        ended.ensure(
            middle.abs() <= limit_ns && width <= WIDEST * limit_ns,
            format_args!("clock {clock} is known to be {low} to {high} ns ahead"),
        )?;
    }
    place.remove("x")
}

fn agree_through_changes() -> Outcome {
    let place = Place::new()?;
    let mut pair = pair(&place, User::Myself, &[], -1)?;
    pair.asks.next_line(LIMIT)?;
    for _ in 0..ROUNDS_OF_CHANGES {
        for change in CHANGES {
            place.done(change)?;
        }
    }
    drop(pair.input);
    let ended = pair.asks.finish(LIMIT + LIMIT)?;
    ended.expect_code(0)?;
    pair.answers.finish(LIMIT + LIMIT)?.expect_code(0)?;
    for clock in FINE.iter().chain(&COARSE) {
        let wrong: u64 = ended.number(&format!("wrong_{clock}"))?;
        let worst: i64 = ended.number(&format!("worst_{clock}"))?;
        ended.ensure(
            wrong == 0,
            format_args!("clock {clock} was not between {wrong} times, by up to {worst} ns"),
        )?;
    }
    place.remove("x")
}
