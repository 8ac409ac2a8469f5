//! Threads that read clocks without a pause are inside the vDSO when they are stopped: none
//! crashes, and none sees a clock step back.

use std::process::Command;

use super::moves::Partner;
use super::place::Place;
use crate::command::Finished;
use crate::needs::Need;
use crate::programs::{Build, Program};
use crate::suite::{Broken, Outcome, Suite};
use crate::timeline::FUTURE;

const THREADS: u64 = 8;

/// All clocks that the program reads and that are never set.
const CLOCKS: [u32; 7] = [0, 1, 4, 5, 6, 7, 11];
const STEADY: [u32; 4] = [1, 4, 6, 7];

/// The clocks of the timelines to which they are moved, from close to the host's to far from it.
const OPTIONS: [&[&str]; 5] = [
    &["--rate", "10"],
    &["--date", FUTURE.0, "--rate", "1000"],
    &["--rate", "0.1"],
    &["--freeze"],
    &["--monotonic", "+10d", "--boottime", "+20d", "--offset", "+1d"],
];

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    for (build, rounds) in [(Build::Dynamic, 30), (Build::Static, 10)] {
        let needs = [Need::Program(build)];
        let name = format!("attach::busy::{}::{rounds}_times", build.name());
        suite.test(name, &needs, move || {
            (0..rounds).try_for_each(|round| attach(build, OPTIONS[round % OPTIONS.len()]))
        });
        let name = format!("attach::busy::{}::{rounds}_times_and_back", build.name());
        suite.test(name, &needs, move || {
            (0..rounds).try_for_each(|round| and_back(build, OPTIONS[round % OPTIONS.len()]))
        });
    }
}

fn start(build: Build) -> Result<Partner, Broken> {
    let mut command = Command::new(Program::Steady.path(build));
    Partner::start(command.args(["forward", &THREADS.to_string()]))
}

fn attach(build: Build, options: &[&str]) -> Outcome {
    let place = Place::new()?;
    let partner = start(build)?;
    place.attached(partner.pid(), options)?;
    let ended = partner.finish(0)?;
    for clock in CLOCKS {
        check_back(&ended, clock, 0, options)?;
    }
    place.expect_nobody()
}

/// Clocks that were ahead of the host's no longer are: each thread sees one step back.
fn and_back(build: Build, options: &[&str]) -> Outcome {
    let place = Place::new()?;
    let partner = start(build)?;
    place.attached(partner.pid(), options)?;
    place.detached(partner.pid())?;
    let ended = partner.finish(0)?;
    for clock in STEADY {
        check_back(&ended, clock, THREADS, options)?;
    }
    place.expect_nobody()
}

fn check_back(ended: &Finished, clock: u32, most: u64, options: &[&str]) -> Outcome {
    let back: u64 = ended.number(&format!("back_{clock}"))?;
    let largest: i64 = ended.number(&format!("largest_{clock}"))?;
    ended.ensure(
        back <= most,
        format_args!("{options:?}: clock {clock} stepped back {back} times, by up to {largest} ns"),
    )
}
