//! libeigentime, as used by programs that know nothing of this repository: from the layout of
//! `make build` beside the command, found with `pkg-config`.

mod c;
mod compile;
mod cpp;
mod headers;
mod installed;
mod live;
mod preload;
mod symbols;

use std::ffi::OsStr;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::command::{Finished, User, run};
use crate::named::place;
use crate::suite::{Broken, Suite};
use crate::workspace;

use compile::Compiled;

/// An example takes well under a second, but a machine can be busy.
const LIMIT: Duration = Duration::from_secs(30);

/// The date of the timelines here, and its value in seconds.
const DATE: (&str, i64) = ("2038-01-19T00:00:00Z", 2_147_472_000);
/// The rate of the timelines here.
const RATE: (&str, f64) = ("1000", 1000.0);

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    headers::add(suite);
    symbols::add(suite);
    c::add(suite);
    cpp::add(suite);
    installed::add(suite);
    live::add(suite);
    preload::add(suite);
}

/// Runs a program on the host.
fn on_host(program: &Compiled) -> Result<Finished, Broken> {
    on_host_with(program, &[])
}

/// The same with arguments.
fn on_host_with(program: &Compiled, arguments: &[&str]) -> Result<Finished, Broken> {
    let mut command = Command::new(&program.path);
    finish(command.args(arguments).env("LD_LIBRARY_PATH", workspace::libraries()))
}

/// Runs a program in a timeline in 2038 whose time passes a thousand times as fast.
fn in_timeline(program: &Compiled) -> Result<Finished, Broken> {
    in_timeline_with(program, &[])
}

/// The same with arguments.
fn in_timeline_with(program: &Compiled, arguments: &[&str]) -> Result<Finished, Broken> {
    let mut command = User::Myself.eigentime(&["--date", DATE.0, "--rate", RATE.0])?;
    command.arg(&program.path).args(arguments);
    finish(command.env("LD_LIBRARY_PATH", workspace::libraries()))
}

fn finish(command: &mut Command) -> Result<Finished, Broken> {
    let ended = run(command, LIMIT)?;
    ended.expect_code(0)?;
    Ok(ended)
}

/// The date is that of the timeline, and no later than the run allows.
fn expect_virtual_date(ended: &Finished, seconds: f64) -> Result<(), Broken> {
    let since = seconds - DATE.1 as f64;
    let most = (ended.elapsed.as_secs_f64() + 1.0) * RATE.1;
    ended.ensure((0.0..=most).contains(&since), format_args!("{since} s after {}", DATE.0))
}

/// The host's wall clock.
fn host_now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// The output of a tool.
fn printed<S: AsRef<OsStr>>(program: &str, arguments: &[S]) -> Result<String, Broken> {
    let output = Command::new(program).args(arguments).output()?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(Broken(format!("{program} failed: {}", String::from_utf8_lossy(&output.stderr))))
}
