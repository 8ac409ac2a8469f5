//! Programs with several threads in common languages: moved to another date and rate, and back.

use std::ffi::OsString;
use std::process::Command;
use std::time::{Duration, SystemTime};

use super::moves::{Answer, Partner};
use super::place::Place;
use crate::ensure;
use crate::needs::Need;
use crate::programs::{Build, Program};
use crate::suite::{Broken, Outcome, Suite};
use crate::timeline::{FUTURE, TENFOLD};
use crate::workspace;

/// The threads of each program, besides those of its runtime.
const THREADS: usize = 3;
/// How long programs sleep, on the host and in the timeline.
const HOST_MS: f64 = 900.0;
const VIRTUAL_MS: f64 = 9000.0;
/// Host time by which a sleep may seem too short, since its beginning may be read late: Node.js
/// writes nothing to a socket with timestamps.
const LEAST_SHARE: f64 = 0.65;
/// The three sleeps of an answer.
const SLEEPS: [&str; 3] = ["old", "new", "child"];
/// The exit status of all these programs.
pub const STATUS: i32 = 7;

/// A program in a language.
pub struct Language {
    pub name: &'static str,
    pub needs: Vec<Need>,
    pub words: fn() -> Result<Vec<OsString>, Broken>,
}

/// All of them.
pub fn all() -> Vec<Language> {
    let mut all: Vec<_> = [
        ("c_dynamic", Build::Dynamic, (|| compiled(Build::Dynamic)) as fn() -> _),
        ("c_static", Build::Static, || compiled(Build::Static)),
        ("c_musl", Build::Musl, || compiled(Build::Musl)),
        ("go", Build::Go, || compiled(Build::Go)),
        ("rust", Build::Rust, || compiled(Build::Rust)),
        ("rust_musl", Build::RustMusl, || compiled(Build::RustMusl)),
    ]
    .into_iter()
    .map(|(name, build, words)| Language { name, needs: vec![Need::Program(build)], words })
    .collect();
    all.push(Language {
        name: "java",
        needs: vec![Need::Program(Build::Java), Need::Tool("java")],
        words: || {
            let directory = workspace::compiled();
            let class = Program::Moved.class();
            Ok(vec!["java".into(), "-cp".into(), directory.into(), class.into()])
        },
    });
    all.push(Language {
        name: "node",
        needs: vec![Need::Tool("node")],
        words: || Ok(vec!["node".into(), workspace::script("moved.js").into()]),
    });
    all.push(Language {
        name: "python",
        needs: vec![Need::Tool("python3")],
        words: || Ok(vec![crate::languages::python()?, workspace::script("moved.py").into()]),
    });
    all
}

fn compiled(build: Build) -> Result<Vec<OsString>, Broken> {
    Ok(vec![Program::Moved.path(build).into()])
}

/// Starts a program that keeps running while it is moved.
pub fn start_moved(words: &[OsString], threads: usize) -> Result<Partner, Broken> {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    start_by(&mut command, threads)
}

/// The same with a command that starts it.
pub fn start_by(command: &mut Command, threads: usize) -> Result<Partner, Broken> {
    Partner::start(command.arg(threads.to_string()).arg(workspace::script("child.sh")))
}

/// The same for the one in C.
pub fn start_in_c(threads: usize) -> Result<Partner, Broken> {
    start_moved(&compiled(Build::Dynamic)?, threads)
}

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    for Language { name, needs, words } in all() {
        suite.test(format!("attach::languages::{name}"), &needs, move || there_and_back(&words()?));
    }
}

fn there_and_back(words: &[OsString]) -> Outcome {
    let place = Place::new()?;
    let mut partner = start_moved(words, THREADS)?;
    let pid = partner.pid();

    let before = partner.ask("1")?;
    check_dates(&before, host_date())?;

    let begin = SystemTime::now();
    let attached = place.attached(pid, &["--date", FUTURE.0, "--rate", TENFOLD.text])?;
    ensure!(attached.pid == pid && attached.threads > THREADS, "{attached:?}");
    let there = partner.ask(&VIRTUAL_MS.to_string())?;
    let passed = begin.elapsed().map_err(|_| Broken("the host's clock was set".into()))?;
    let most = FUTURE.1 as f64 + passed.as_secs_f64() * TENFOLD.rate;
    for key in ["date", "child_date"] {
        let date: f64 = there.number(key)?;
        ensure!((FUTURE.1 as f64..=most).contains(&date), "{key}={date}, not {FUTURE:?} to {most}");
    }
    for name in SLEEPS {
        check_sleep(&there, name, VIRTUAL_MS / TENFOLD.rate)?;
    }
    check_threads(&there, &before, 0)?;

    let detached = place.detached(pid)?;
    ensure!(detached.pid == pid && detached.threads > THREADS, "{detached:?}");
    let after = partner.ask(&HOST_MS.to_string())?;
    check_dates(&after, host_date())?;
    for name in SLEEPS {
        check_sleep(&after, name, HOST_MS)?;
    }
    // The timeline was ahead of the host: each thread sees one step back.
    check_threads(&after, &there, THREADS as u64)?;
    partner.finish(STATUS)?;
    place.expect_nobody()
}

/// The host's date in seconds.
pub fn host_date() -> f64 {
    SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_secs_f64()
}

fn check_dates(answer: &Answer, host: f64) -> Outcome {
    /// A child prints whole seconds, and everything was printed before it was read.
    const NEAR_S: f64 = 15.0;
    for key in ["date", "child_date"] {
        let date: f64 = answer.number(key)?;
        ensure!((date - host).abs() < NEAR_S, "{key}={date}, the host's is {host}");
    }
    Ok(())
}

/// The most that a busy machine may add to a sleep; less than the excess of an untranslated sleep
/// by the host's clock.
const LATE: Duration = Duration::from_millis(500);

fn check_sleep(answer: &Answer, name: &str, expected_ms: f64) -> Outcome {
    let expected = Duration::from_secs_f64(expected_ms / 1e3);
    let took = answer.took(name)?;
    ensure!(
        expected.mul_f64(LEAST_SHARE) <= took && took <= expected * 3 + LATE,
        "{name}: {took:?} of host time, not about {expected:?}"
    );
    Ok(())
}

fn check_threads(answer: &Answer, before: &Answer, most_back: u64) -> Outcome {
    let back: u64 = answer.number("back")?;
    ensure!(back <= most_back, "CLOCK_MONOTONIC stepped back {back} times");
    let failed: u64 = answer.number("failed")?;
    ensure!(failed == 0, "{failed} calls failed");
    let (loops, earlier): (u64, u64) = (answer.number("loops")?, before.number("loops")?);
    ensure!(loops >= earlier, "its threads do not go on: {earlier}, then {loops} loops");
    Ok(())
}
