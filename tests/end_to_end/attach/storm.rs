//! Signals that arrive while a process is moved reach it, with all their data.

use std::process::Command;

use super::moves::{Answer, LIMIT, Partner};
use super::place::Place;
use crate::ensure;
use crate::needs::Need;
use crate::programs::{Build, Program};
use crate::suite::{Broken, Outcome, Suite};
use crate::timeline::FUTURE;
use std::time::Instant;

const ROUNDS: usize = 12;
const PERIOD_US: &str = "1000";
/// This many signals of each kind arrive between two moves.
const ENOUGH: u64 = 20;
/// Threads that can see the monotonic clock step back when they leave the timeline.
const THREADS: u64 = 6;

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    for build in [Build::Dynamic, Build::Static] {
        let needs = [Need::Program(build)];
        let name = format!("attach::storm::{}", build.name());
        suite.test(name, &needs, move || (0..ROUNDS).try_for_each(|_| through_a_storm(build)));
    }
}

fn through_a_storm(build: Build) -> Outcome {
    let place = Place::new()?;
    let mut partner = Partner::start(Command::new(Program::Storm.path(build)).arg(PERIOD_US))?;
    let pid = partner.pid();
    let before = hear(&mut partner, None)?;
    place.attached(pid, &["--date", FUTURE.0, "--rate", "2"])?;
    let inside = hear(&mut partner, Some(&before))?;
    check(&inside, 0)?;
    place.detached(pid)?;
    let after = hear(&mut partner, Some(&inside))?;
    check(&after, THREADS)?;
    partner.finish(0)?;
    place.expect_nobody()
}

/// Asks until enough signals have arrived since.
fn hear(partner: &mut Partner, since: Option<&Answer>) -> Result<Answer, Broken> {
    let end = Instant::now() + LIMIT;
    loop {
        let answer = partner.ask("")?;
        let enough = ["alarms", "ticks", "queued"].into_iter().map(|key| {
            let before: u64 = since.map_or(Ok(0), |since| since.number(key))?;
            Ok(answer.number::<u64>(key)? >= before + ENOUGH)
        });
        if enough.collect::<Result<Vec<_>, Broken>>()?.into_iter().all(|enough| enough) {
            return Ok(answer);
        }
        ensure!(
            Instant::now() < end,
            "{}",
            partner.give_up(format_args!("signals stay out: {answer:?}"))
        );
    }
}

fn check(answer: &Answer, most_back: u64) -> Outcome {
    for (key, most) in
        [("foreign", 0), ("lost", 0), ("failed", 0), ("back", most_back), ("short", most_back)]
    {
        let count: u64 = answer.number(key)?;
        ensure!(count <= most, "{key}={count}: {:?}", answer.values);
    }
    Ok(())
}
