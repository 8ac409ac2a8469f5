//! `eigentime doctor` tells what time costs here, in every form and from everywhere.
//!
//! - `clocksource`: with the kernel keeping time by something else.
//! - `forms`: the page, JSON, metrics, and where they go.
//! - `places`: in a time namespace and in timelines.
//! - `report`: the JSON, read again.

mod clocksource;
mod forms;
mod places;
mod report;

use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::command::{Finished, User, run};
use crate::needs::Need;
use crate::suite::{Broken, Suite};
use report::Report;

/// It takes some seconds on a machine that has nothing else to do.
const LIMIT: Duration = Duration::from_secs(90);

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    forms::add(suite);
    places::add(suite);
    clocksource::add(suite);
}

/// What a test of another user needs.
fn needs(user: User) -> Vec<Need> {
    match user {
        User::Myself => Vec::new(),
        User::Nobody => vec![Need::Root, Need::Tool("setpriv")],
    }
}

/// One test at a time: one of them changes the clocksource under the others.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    // What a failed test leaves behind is put back by itself.
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `eigentime doctor ARGUMENTS`.
fn doctor(user: User, arguments: &[&str]) -> Result<Command, Broken> {
    let mut command = user.wrap(user.binary()?);
    command.arg("doctor").args(arguments);
    Ok(command)
}

/// Runs it.
fn told(user: User, arguments: &[&str]) -> Result<Finished, Broken> {
    run(&mut doctor(user, arguments)?, LIMIT)
}

/// What a command says that ends with `doctor --json …`.
fn report(command: &mut Command) -> Result<Report, Broken> {
    let finished = run(command, LIMIT)?;
    finished.expect_code(0)?;
    Report::read(&finished)
}
