//! Every process that a program starts is in its timeline, however it starts it.

use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader};
use std::process::Command;

use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::command::{Finished, User, run, start};
use crate::ensure;
use crate::groups::{self, Group};
use crate::named::place::Place;
use crate::needs::{Need, is_root};
use crate::processes::wait_readable;
use crate::programs::{Build, Program};
use crate::suite::{Broken, Outcome, Suite};
use crate::timeline::{FUTURE, STUCK, TENFOLD};
use crate::workspace;

/// Virtual milliseconds that each process sleeps.
const SLEEP_MS: u64 = 6000;
const OPTIONS: [&str; 4] = ["--date", FUTURE.0, "--rate", TENFOLD.text];

const WAYS: [&str; 14] = [
    "fork",
    "fork_exec",
    "vfork_exec",
    "vfork_late",
    "posix_spawn",
    "clone",
    "clone_vm",
    "clone3",
    "system",
    "exec_from_thread",
    "fexecve",
    "failed_exec",
    "new_session",
    "many",
];

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    for build in [Build::Dynamic, Build::Static, Build::Musl] {
        let needs = [Need::Program(build)];
        for way in WAYS {
            let name = format!("tree::{}::{way}", build.name());
            suite.test(name, &needs, move || way_of(User::Myself, build, way));
        }
        let name = format!("tree::{}::daemon", build.name());
        suite.test(name, &needs, move || daemon(build));
    }
    let needs = [Need::Program(Build::Dynamic), Need::Root, Need::Tool("setpriv")];
    for way in WAYS {
        let name = format!("tree::nobody::{way}");
        suite.test(name, &needs, move || way_of(User::Nobody, Build::Dynamic, way));
    }
    suite.test("tree::pid_namespace", &needs[..2], || {
        way_of(User::Myself, Build::Dynamic, "pid_namespace")
    });
    let needs = [Need::Program(Build::Static), Need::Root];
    suite.test("tree::chroot", &needs, chroot);
    let needs = [Need::Program(Build::Dynamic)];
    suite.test("tree::empty_environment", &needs, empty_environment);
    for (name, options) in [("untraced", &[][..]), ("traced", &["--traced"])] {
        let needs = [&needs[..], &groups::needs()].concat();
        suite.test(format!("tree::into_group::{name}"), &needs, move || into_group(options));
    }
    for (name, user) in [("root", User::Myself), ("nobody", User::Nobody)] {
        let needs = [&needs[..], &user.needs()].concat();
        for (label, tracing) in [("untraced", &[][..]), ("traced", &["--traced"])] {
            let test = |what: &str| format!("tree::racing_execs::{label}::{what}::{name}");
            let options = move || [tracing, &OPTIONS[..]].concat();
            suite.test(test("private"), &needs, move || {
                racing_execs(user.eigentime(&options())?, user)
            });
            suite.test(test("named"), &needs, move || {
                let place = Place::of(user)?;
                racing_execs(place.run("x", &options())?, user)?;
                place.remove("x")
            });
        }
    }
    suite.test("tree::shell_pipeline", &[], shell_pipeline);
}

/// Checks a line `NAME wall=SECONDS mono_ms=MILLISECONDS`.
fn check_line(text: &str, name: &str, most_passed_s: f64) -> Result<(), String> {
    let number = |key: &str| -> Option<f64> {
        let (_, rest) = text.split_once(key)?;
        rest.split_whitespace().next()?.parse().ok()
    };
    let (Some(wall), Some(slept)) = (number("wall="), number("mono_ms=")) else {
        return Err(format!("{name}: no times in {text:?}"));
    };
    let since = wall - FUTURE.1 as f64;
    if !(0.0..=most_passed_s).contains(&since) {
        return Err(format!("{name}: its date is {since} s after {}", FUTURE.0));
    }
    // One that is not translated takes ten times as long; a busy host may take seconds.
    let most_slept = SLEEP_MS as f64 * 0.9 * TENFOLD.rate;
    if slept < SLEEP_MS as f64 || slept > most_slept {
        return Err(format!("{name}: it slept {slept} ms, not {SLEEP_MS}"));
    }
    Ok(())
}

fn check_lines(ended: &Finished, name: &str, count: usize) -> Outcome {
    let most_passed_s = ended.elapsed.as_secs_f64() * TENFOLD.rate;
    let lines: Vec<&str> = ended
        .lines
        .iter()
        .map(|line| line.text.as_str())
        .filter(|text| text.starts_with(name))
        .collect();
    ended.ensure(
        lines.len() == count,
        format_args!("{} lines of {name}, not {count}", lines.len()),
    )?;
    for line in lines {
        check_line(line, name, most_passed_s).map_err(|why| ended.broken(why))?;
    }
    let failed =
        ended.lines.iter().any(|line| line.text.starts_with("status=") && line.text != "status=0");
    ended.ensure(!failed, "a child failed")?;
    Ok(())
}

fn way_of(user: User, build: Build, way: &str) -> Outcome {
    let mut command = user.eigentime(&OPTIONS)?;
    command.arg(user.program(Program::Tree, build)?).args([way, &SLEEP_MS.to_string()]);
    let ended = run(&mut command, TENFOLD.limit(SLEEP_MS as f64) + STUCK)?;
    ended.expect_code(0)?;
    check_lines(&ended, way, if way == "many" { 40 } else { 1 })
}

/// All threads of a program call `execve` at the same moment, many times in a row.
fn racing_execs(mut command: Command, user: User) -> Outcome {
    command.arg(user.program(Program::Tree, Build::Dynamic)?);
    command.args(["racing_execs", &SLEEP_MS.to_string()]);
    let ended = run(&mut command, TENFOLD.limit(SLEEP_MS as f64) + STUCK)?;
    ended.expect_code(0)?;
    check_lines(&ended, "racing_execs", 1)
}

/// A child that `clone3` puts into another control group.
fn into_group(options: &[&str]) -> Outcome {
    let group = Group::new()?;
    let mut command = User::Myself.eigentime(&[&OPTIONS, options].concat())?;
    command.arg(Program::Tree.path(Build::Dynamic)).arg("into_group");
    command.arg(group.directory()).arg(SLEEP_MS.to_string());
    let ended = run(&mut command, TENFOLD.limit(SLEEP_MS as f64))?;
    ended.expect_code(0)?;
    let name = group.directory().file_name().unwrap_or_default().to_string_lossy();
    ended.ensure(ended.text("group")?.ends_with(&*name), format_args!("it is not in {name}"))?;
    check_lines(&ended, "into_group", 1)
}

/// What a daemon writes after everybody it came from has ended.
fn daemon(build: Build) -> Outcome {
    let path = workspace::scratch()?.join("fifo");
    mknodat(CWD, &path, FileType::Fifo, Mode::from_raw_mode(0o600), 0)?;
    // Open for writing too, so that opening does not wait for the daemon.
    let fifo = OpenOptions::new().read(true).write(true).open(&path)?;
    let mut command = User::Myself.eigentime(&OPTIONS)?;
    command.arg(Program::Tree.path(build)).arg("daemon").arg(&path).arg(SLEEP_MS.to_string());
    let running = start(command.stdin(std::process::Stdio::null()))?;
    let limit = TENFOLD.limit(SLEEP_MS as f64);
    ensure!(wait_readable(&fifo, limit)?, "the daemon did not write within {limit:?}");
    let mut line = String::new();
    BufReader::new(fifo).read_line(&mut line)?;
    let ended = running.finish(limit)?;
    ended.expect_code(0)?;
    check_line(&line, "daemon", limit.as_secs_f64() * TENFOLD.rate).map_err(Broken)
}

fn chroot() -> Outcome {
    debug_assert!(is_root());
    let root = workspace::scratch()?;
    fs::copy(Program::Tree.path(Build::Static), root.join("tree"))?;
    let mut command = User::Myself.eigentime(&OPTIONS)?;
    command
        .arg(Program::Tree.path(Build::Dynamic))
        .arg("chroot")
        .arg(&root)
        .arg(SLEEP_MS.to_string());
    let ended = run(&mut command, TENFOLD.limit(SLEEP_MS as f64))?;
    ended.expect_code(0)?;
    check_lines(&ended, "chroot", 1)
}

/// Nothing about the timeline may travel in the environment.
fn empty_environment() -> Outcome {
    let mut command = User::Myself.eigentime(&OPTIONS)?;
    command.args(["env", "-i"]).arg(Program::Tree.path(Build::Dynamic)).args([
        "leaf",
        "env",
        &SLEEP_MS.to_string(),
    ]);
    let ended = run(&mut command, TENFOLD.limit(SLEEP_MS as f64))?;
    ended.expect_code(0)?;
    check_lines(&ended, "env", 1)
}

fn shell_pipeline() -> Outcome {
    let mut command = User::Myself.eigentime(&["--date", FUTURE.0])?;
    command.args(["sh", "-c", "(date -u +%Y; true) | cat | (read y; echo $y; date -u +%Y) & wait"]);
    let ended = run(&mut command, STUCK)?;
    ended.expect_code(0)?;
    ended.ensure(ended.output() == "2100\n2100", "not 2100 twice")?;
    Ok(())
}
