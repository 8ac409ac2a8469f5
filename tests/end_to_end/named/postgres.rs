//! PostgreSQL in a timeline: a server with several processes that keeps time for its clients, waits
//! for instants, and cancels statements that take too long.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::place::{PATIENCE, Place};
use crate::command::{Running, User, run, start};
use crate::ensure;
use crate::needs::{Need, find_tool, is_root};
use crate::suite::{Broken, Outcome, Suite};
use crate::timeline::{FUTURE, STUCK};

/// Distributions install these outside the path.
const DIRECTORIES: &str = "/usr/lib/postgresql";
/// A database is created from scratch.
const LONG: Duration = Duration::from_secs(120);

/// Adds the test.
pub fn add(suite: &mut Suite) {
    let mut needs = vec![need()];
    if is_root() {
        // It refuses to run as root.
        needs.push(Need::Tool("setpriv"));
    }
    suite.test("named::postgres::now_sleep_and_timeout", &needs, postgres);
}

/// The requirement of tests that use it.
pub fn need() -> Need {
    let found = ["initdb", "postgres", "psql"].iter().all(|name| tool(name).is_some());
    Need::Other(found, "PostgreSQL's server".into())
}

/// One of its programs.
pub fn tool(name: &str) -> Option<PathBuf> {
    let versions = std::fs::read_dir(DIRECTORIES).into_iter().flatten().flatten();
    let installed = versions.map(|version| version.path().join("bin").join(name));
    installed.filter(|path| path.is_file()).max().or_else(|| find_tool(name))
}

fn tool_or_fail(name: &str) -> Result<PathBuf, Broken> {
    tool(name).ok_or_else(|| Broken(format!("no {name}")))
}

/// A client outside the timeline.
fn client(place: &Place, sql: &str) -> Result<Command, Broken> {
    let mut command = place.outside(tool_or_fail("psql")?);
    command
        .arg("-h")
        .arg(place.directory())
        .args(["-U", "postgres", "-d", "postgres", "-Atc", sql]);
    command.stdin(Stdio::null());
    Ok(command)
}

fn ask(place: &Place, sql: &str) -> Result<String, Broken> {
    let ended = run(&mut client(place, sql)?, STUCK)?;
    ended.expect_code(0)?;
    Ok(ended.output())
}

fn start_server(place: &Place, data: &Path) -> Result<Running, Broken> {
    let mut command = place.run("x", &["--date", FUTURE.0])?;
    command.arg(tool_or_fail("postgres")?).arg("-D").arg(data).arg("-k").arg(place.directory());
    command.args(["-c", "listen_addresses=", "-c", "fsync=off"]).stdin(Stdio::null());
    let mut server = start(&mut command)?;
    let end = Instant::now() + PATIENCE;
    while !run(&mut client(place, "select 1")?, STUCK)?.status.success() {
        ensure!(Instant::now() < end, "{}", server.give_up("it does not start"));
    }
    Ok(server)
}

/// Starts a statement, and waits until its server process sleeps.
fn statement(place: &Place, sql: &str) -> Result<Running, Broken> {
    let running = start(&mut client(place, sql)?)?;
    place.wait_until("x", "the statement sleeps", |shown| {
        shown.members.iter().any(|member| {
            member.command.contains("SELECT")
                && member.threads.iter().any(|thread| thread.until.is_some())
        })
    })?;
    Ok(running)
}

fn postgres() -> Outcome {
    let place = Place::of(if is_root() { User::Nobody } else { User::Myself })?;
    let data = place.directory().join("data");
    let mut command = place.outside(tool_or_fail("initdb")?);
    command.arg("-D").arg(&data).args(["-U", "postgres", "-A", "trust", "--no-sync"]);
    run(&mut command, LONG)?.expect_code(0)?;
    let server = start_server(&place, &data)?;

    let now =
        || -> Result<f64, Broken> { Ok(ask(&place, "select extract(epoch from now())")?.parse()?) };
    let since = now()? - FUTURE.1 as f64;
    ensure!((0.0..600.0).contains(&since), "now() is {since} s after the date");

    // A leap ends a sleep of a day, which has lasted a day by the server's clock.
    let sleep = "select extract(epoch from clock_timestamp() - now()) from pg_sleep(86400)";
    let running = statement(&place, sleep)?;
    place.done(&["leap", "x", "+1d"])?;
    let ended = running.finish(LONG)?;
    ended.expect_code(0)?;
    let slept: f64 = ended.output().parse()?;
    ended.ensure((86_400.0..87_000.0).contains(&slept), "it did not sleep for a day")?;

    // A statement that takes longer than permitted is cancelled after that time.
    let sleep = "set statement_timeout = '1h'; select pg_sleep(86400)";
    let running = statement(&place, sleep)?;
    place.done(&["leap", "x", "61min"])?;
    let ended = running.finish(LONG)?;
    ended.ensure(ended.errors.contains("statement timeout"), "it was not ended by its timeout")?;

    // Ten minutes pass in a second.
    place.done(&["set", "x", "--rate", "600"])?;
    let begin = Instant::now();
    ask(&place, "select pg_sleep(600)")?;
    let took = begin.elapsed();
    ensure!(
        (Duration::from_millis(650)..Duration::from_secs(5)).contains(&took),
        "ten minutes at rate 600 took {took:?}"
    );
    let since = now()? - FUTURE.1 as f64;
    ensure!(since > 86_400.0 + 3660.0 + 600.0, "now() is only {since} s after the date");

    place.remove("x")?;
    server.finish(PATIENCE)?;
    Ok(())
}
