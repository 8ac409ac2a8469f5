//! A supervisor killed at any moment of attaching leaves a process that lives on the host's clocks,
//! or no process: never one that hangs, lives in a wrong time or whose calls fail.

use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use super::languages::{host_date, start_in_c};
use super::moves::{LIMIT, Partner, wait_until};
use super::place::Place;
use crate::command::start;
use crate::ensure;
use crate::needs::Need;
use crate::processes::{send, status_field, tracer_of};
use crate::programs::Build;
use crate::suite::{Outcome, Suite};
use crate::timeline::FUTURE;

/// Number of kills, spread evenly over twice the time that attaching takes.
const ROUNDS: u32 = 60;
const THREADS: usize = 4;

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    let needs = [Need::Program(Build::Dynamic)];
    suite.test("attach::sudden_ends::while_attaching", &needs, while_attaching);
}

fn while_attaching() -> Outcome {
    let begin = Instant::now();
    let place = Place::new()?;
    place.make("x", &["--date", FUTURE.0, "--rate", "10"])?;
    let whole = Instant::now();
    let partner = start_in_c(THREADS)?;
    let attach = Instant::now();
    place.attached(partner.pid(), &["--timeline", "x"])?;
    let takes = attach.elapsed();
    partner.finish(7)?;
    place.remove("x")?;
    let mut lived = 0;
    for round in 0..ROUNDS {
        lived += u32::from(killed_after(takes * 2 * round / ROUNDS)?);
    }
    println!(
        "attach::sudden_ends: {lived} of {ROUNDS} processes lived on; attaching takes {takes:?}, \
         all {:?}, {:?} each",
        begin.elapsed(),
        whole.elapsed() / ROUNDS
    );
    Ok(())
}

/// Kills the supervisor this long after the command began. Returns whether the process survives.
fn killed_after(delay: Duration) -> Result<bool, crate::suite::Broken> {
    let place = Place::new()?;
    place.make("x", &["--date", FUTURE.0, "--rate", "10"])?;
    let supervisor = place.show("x")?.supervisor;
    let mut partner = start_in_c(THREADS)?;
    let pid = partner.pid();
    let mut command = place.outside(crate::workspace::binary());
    command.args(["attach", "--timeline", "x", "--pid", &pid.to_string()]);
    let attaching = start(command.stdin(Stdio::null()))?;
    // The moment is the object of the test.
    thread::sleep(delay);
    send(supervisor, Signal::KILL)?;
    attaching.finish(LIMIT)?;
    // If there was none left, the command has made another.
    for another in place.supervisors() {
        send(another, Signal::KILL)?;
    }
    let has_ended = || status_field(pid, "State").is_none_or(|state| state.starts_with('Z'));
    wait_until("it ends or is let go", || has_ended() || tracer_of(pid).is_none())?;
    // Until it answers, the kernel may still be about to end it.
    let lives = match answers(&mut partner) {
        Ok(outcome) => outcome.map(|()| true)?,
        Err(_) if has_ended() => false,
        Err(broken) => return Err(broken),
    };
    if lives {
        partner.finish(7)?;
    }
    place.expect_nobody()?;
    Ok(lives)
}

/// Whether it answers, and if so, what is wrong with its answer.
fn answers(partner: &mut Partner) -> Result<Outcome, crate::suite::Broken> {
    let answer = partner.ask("1")?;
    let check = || {
        for key in ["date", "child_date"] {
            let date: f64 = answer.number(key)?;
            ensure!((date - host_date()).abs() < 15.0, "{key}={date}: a wrong time");
        }
        let failed: u64 = answer.number("failed")?;
        ensure!(failed == 0, "{failed} calls failed");
        Ok(())
    };
    Ok(check())
}
