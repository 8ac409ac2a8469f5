//! A timeline that ends with the process that made it: `eigentime ctl create --hold`.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use rustix::process::Signal;
use serde_json::Value;

use super::place::{PATIENCE, Place};
use crate::command::{User, run, start};
use crate::ensure;
use crate::processes::{Watch, send};
use crate::suite::{Broken, Outcome, Suite};

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    let mut test = |name: &str, body: fn() -> Outcome| {
        suite.test(format!("named::hold::{name}"), &[], body);
    };
    test("ends_with_its_maker", ends_with_its_maker);
    test("ends_by_a_signal", ends_by_a_signal);
    test("ends_whatever_signals_come", ends_whatever_signals_come);
    test("ends_if_it_is_killed", ends_if_it_is_killed);
    test("removes_no_other", removes_no_other);
    test("ends_where_nobody_reads", ends_where_nobody_reads);
    test("private", private);
    test("private_while_programs_look_for_it", private_while_programs_look_for_it);
    test("private_without_a_directory", private_without_a_directory);
    test("continued_from_standard_input", continued);
}

/// Starts the command, whose temporary files are in the place, too.
fn hold(place: &Place, options: &[&str]) -> Result<Child, Broken> {
    let mut command = place.outside(User::Myself.binary()?);
    command.args(["ctl", "create", "--hold", "--json"]).args(options);
    command.env("TMPDIR", place.directory()).stdin(Stdio::piped()).stdout(Stdio::piped());
    Ok(command.spawn()?)
}

/// The line that reports that the timeline exists.
fn told(holder: &mut Child) -> Result<Value, Broken> {
    let mut line = String::new();
    let out = holder.stdout.as_mut().ok_or_else(|| Broken("it has no output".to_owned()))?;
    BufReader::new(out).read_line(&mut line)?;
    serde_json::from_str(&line).map_err(|error| Broken(format!("{error} in {line:?}")))
}

fn ended(place: &Place, mut holder: Child) -> Outcome {
    let status = holder.wait()?;
    ensure!(status.success(), "it has ended with {status}");
    place.expect_nobody()
}

fn ends_with_its_maker() -> Outcome {
    let place = Place::new()?;
    let mut holder = hold(&place, &["x"])?;
    let info = told(&mut holder)?;
    ensure!(info["name"] == "x" && info["protocol"] == 1, "it says {info}");
    let mut sleeping = place.run("x", &["--existing"])?;
    let sleeper = start(sleeping.args(["sleep", "1000000"]).stdin(Stdio::null()))?;
    place.done(&["wait", "x", "--blocked", "--call", "clock_nanosleep"])?;
    drop(holder.stdin.take());
    let ended_member = sleeper.finish(PATIENCE)?;
    let signal = ended_member.status.signal();
    ended_member.ensure(signal == Some(libc::SIGKILL), "it was not ended with its timeline")?;
    ended(&place, holder)
}

fn ends_by_a_signal() -> Outcome {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let place = Place::new()?;
        let mut holder = hold(&place, &["x"])?;
        told(&mut holder)?;
        send(holder.id(), signal)?;
        ended(&place, holder)?;
    }
    Ok(())
}

/// The timeline ends even if signals arrive at its very end.
fn ends_whatever_signals_come() -> Outcome {
    for _ in 0..20 {
        let place = Place::new()?;
        let mut holder = hold(&place, &[])?;
        told(&mut holder)?;
        drop(holder.stdin.take());
        let end = Instant::now() + PATIENCE;
        while holder.try_wait()?.is_none() {
            ensure!(Instant::now() < end, "it does not end");
            send(holder.id(), Signal::TERM)?;
        }
        ended(&place, holder)?;
    }
    Ok(())
}

fn ends_if_it_is_killed() -> Outcome {
    let place = Place::new()?;
    let mut holder = hold(&place, &["x"])?;
    told(&mut holder)?;
    let mut sleeping = place.run("x", &["--existing"])?;
    let sleeper = start(sleeping.args(["sleep", "1000000"]).stdin(Stdio::null()))?;
    place.done(&["wait", "x", "--blocked", "--call", "clock_nanosleep"])?;
    let supervisor = Watch::new(place.show("x")?.supervisor)?;
    send(holder.id(), Signal::KILL)?;
    holder.wait()?;
    sleeper.finish(PATIENCE)?;
    ensure!(supervisor.ends_within(PATIENCE)?, "the timeline is left");
    place.expect_nobody()
}

fn removes_no_other() -> Outcome {
    let place = Place::new()?;
    let mut holder = hold(&place, &["x"])?;
    told(&mut holder)?;
    place.done(&["rm", "--force", "x"])?;
    place.done(&["create", "x"])?;
    drop(holder.stdin.take());
    ensure!(holder.wait()?.success(), "it fails");
    ensure!(place.names() == ["x"], "another timeline of the name is gone");
    place.remove("x")
}

fn ends_where_nobody_reads() -> Outcome {
    let place = Place::new()?;
    let mut holder = hold(&place, &[])?;
    drop(holder.stdout.take());
    ended(&place, holder)?;
    let names = fs::read_dir(place.directory())?.map(|entry| Ok(entry?.file_name()));
    let left = names.collect::<Result<Vec<_>, Broken>>()?;
    let is_own = |name: &OsString| name.as_encoded_bytes().starts_with(b"eigentime-");
    ensure!(!left.iter().any(is_own), "it has left {left:?}");
    Ok(())
}

/// The runtime directory of a timeline that has its own.
fn private_directory(info: &Value) -> Result<PathBuf, Broken> {
    let directory = info["socket"].as_str().and_then(|socket| Path::new(socket).ancestors().nth(2));
    directory.map(Path::to_owned).ok_or_else(|| Broken(format!("it has no socket: {info}")))
}

fn private() -> Outcome {
    let place = Place::new()?;
    let mut holder = hold(&place, &["--date", "2038-01-19T00:00:00Z"])?;
    let info = told(&mut holder)?;
    let name = info["name"].as_str().unwrap_or_default();
    ensure!(place.names().is_empty(), "others find {:?}", place.names());
    let directory = private_directory(&info)?;
    ensure!(directory.starts_with(place.directory()), "it is in {}", directory.display());
    let mut date = place.run(name, &["--existing"])?;
    date.env("EIGENTIME_RUNTIME_DIR", &directory);
    let dated = run(date.args(["date", "-u", "+%F"]), PATIENCE)?;
    dated.expect_code(0)?;
    ensure!(dated.output() == "2038-01-19", "{}", dated.output());
    drop(holder.stdin.take());
    ended(&place, holder)?;
    ensure!(!directory.exists(), "{} is left", directory.display());
    Ok(())
}

/// Programs that look for a timeline create the directory and the lock if they are missing.
fn private_while_programs_look_for_it() -> Outcome {
    for _ in 0..20 {
        let place = Place::new()?;
        let mut holder = hold(&place, &[])?;
        let directory = private_directory(&told(&mut holder)?)?;
        let own = directory.join("eigentime");
        let has_ended = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !has_ended.load(Ordering::Relaxed) {
                    let _ = fs::create_dir(&own).and_then(|()| File::create(own.join(".lock")));
                }
            });
            drop(holder.stdin.take());
            let outcome = ended(&place, holder);
            has_ended.store(true, Ordering::Relaxed);
            outcome
        })?;
        ensure!(!directory.exists(), "{} is left", directory.display());
    }
    Ok(())
}

fn private_without_a_directory() -> Outcome {
    let place = Place::new()?;
    let missing = place.directory().join("missing");
    let mut command = place.outside(User::Myself.binary()?);
    let refused = run(command.args(["ctl", "create", "--hold"]).env("TMPDIR", &missing), PATIENCE)?;
    refused.expect_code(1)?;
    let says = |text: &str| refused.ensure(refused.errors.contains(text), text);
    says(&missing.display().to_string())?;
    says("help: set TMPDIR to a directory that you may write to")
}

/// The command reads the saved document from standard input, and nothing after it.
fn continued() -> Outcome {
    let place = Place::new()?;
    place.done(&["create", "y", "--date", "2038-01-19T00:00:00Z", "--freeze"])?;
    let saved = place.done(&["save", "y"])?;
    place.remove("y")?;
    let mut holder = hold(&place, &["x", "--continue", "-"])?;
    if let Some(input) = &mut holder.stdin {
        input.write_all(saved.as_bytes())?;
    }
    told(&mut holder)?;
    let shown = place.done(&["show", "x"])?;
    ensure!(shown.contains("2038-01-19T00:00:00Z"), "{shown}");
    drop(holder.stdin.take());
    ended(&place, holder)
}
