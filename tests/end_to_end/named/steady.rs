//! Whatever changes are made to a running timeline, no thread sees a clock step back.

use std::process::Stdio;
use std::time::Duration;

use super::place::Place;
use crate::command::{User, start};
use crate::ensure;
use crate::needs::Need;
use crate::programs::{Build, Program};
use crate::suite::{Outcome, Suite};

const CLOCKS: [u32; 7] = [0, 1, 4, 5, 6, 7, 11];
const THREADS: u64 = 8;
const LIMIT: Duration = Duration::from_secs(120);

/// Every kind of change, from every kind of state, without setting the date.
const CHANGES: [&[&str]; 20] = [
    &["set", "x", "--rate", "10"],
    &["leap", "x", "1h"],
    &["freeze", "x"],
    &["leap", "x", "1d"],
    &["thaw", "x"],
    &["set", "x", "--rate", "0.1"],
    &["leap", "x", "1ms"],
    &["set", "x", "--rate", "1"],
    &["leap", "x", "1ns"],
    &["freeze", "x"],
    &["set", "x", "--rate", "1000"],
    &["thaw", "x"],
    &["set", "x", "--rate", "1000000"],
    &["set", "x", "--rate", "0.001"],
    &["freeze", "x"],
    &["thaw", "x", "--rate", "1"],
    &["set", "x", "--rate", "1/3"],
    &["freeze", "x"],
    &["thaw", "x", "--rate", "1000000"],
    &["set", "x", "--rate", "1"],
];

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    for (build, times) in [(Build::Dynamic, 20), (Build::Static, 4)] {
        let needs = [Need::Program(build)];
        let changes = times * CHANGES.len();
        suite.test(
            format!("named::steady::{}::{changes}_changes", build.name()),
            &needs,
            move || never_back(build, times),
        );
    }
}

fn never_back(build: Build, times: usize) -> Outcome {
    let place = Place::new()?;
    let mut command = place.run("x", &[])?;
    command.arg(User::Myself.program(Program::Steady, build)?);
    command.args(["forward", &THREADS.to_string()]).stdin(Stdio::piped());
    let mut running = start(&mut command)?;
    let input = running.child.stdin.take();
    let first = running.next_line(LIMIT)?;
    ensure!(first == "ready", "{first:?} instead of ready");
    for _ in 0..times {
        for change in CHANGES {
            place.done(change)?;
        }
    }
    drop(input);
    let ended = running.finish(LIMIT)?;
    ended.expect_code(0)?;
    let reads: u64 = ended.number("reads")?;
    ended.ensure(reads > 10_000, format_args!("only {reads} reads"))?;
    for clock in CLOCKS {
        let back: u64 = ended.number(&format!("back_{clock}"))?;
        let largest: i64 = ended.number(&format!("largest_{clock}"))?;
        ended.ensure(
            back == 0,
            format_args!("clock {clock} stepped back {back} times, by up to {largest} ns"),
        )?;
    }
    place.remove("x")
}
