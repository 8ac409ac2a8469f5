//! Programs in common languages, which use their own runtimes.

use std::ffi::OsString;
use std::process::Command;
use std::time::Duration;

use crate::command::{Finished, User, run};
use crate::needs::Need;
use crate::programs::{Build, Program};
use crate::suite::{Broken, Outcome, Suite};
use crate::timeline::{FUTURE, PACES, Pace, TENFOLD};
use crate::workspace;

/// How to run a language's program, and the waits that it prints.
#[derive(Clone, Copy)]
struct Language {
    name: &'static str,
    needs: &'static [Need],
    words: fn() -> Result<Vec<OsString>, Broken>,
    waits: &'static [&'static str],
    /// The unit of the program's argument: milliseconds, or seconds.
    in_seconds: bool,
}

const ALL: [Language; 7] = [
    Language {
        name: "go",
        needs: &[Need::Program(Build::Go)],
        words: || Ok(vec![Program::Clocks.path(Build::Go).into()]),
        waits: &["sleep", "after", "ticker", "context", "deadline", "goroutines"],
        in_seconds: false,
    },
    Language {
        name: "rust",
        needs: &[Need::Program(Build::Rust)],
        words: || Ok(vec![Program::Clocks.path(Build::Rust).into()]),
        waits: RUST_WAITS,
        in_seconds: false,
    },
    Language {
        name: "rust_musl",
        needs: &[Need::Program(Build::RustMusl)],
        words: || Ok(vec![Program::Clocks.path(Build::RustMusl).into()]),
        waits: RUST_WAITS,
        in_seconds: false,
    },
    Language {
        name: "java",
        needs: &[Need::Program(Build::Java), Need::Tool("java")],
        words: || {
            // The Java compiler names its output after the class.
            let directory = workspace::compiled();
            Ok(vec!["java".into(), "-cp".into(), directory.into(), "Clocks".into()])
        },
        waits: &["sleep", "object_wait", "latch", "park", "scheduler", "sleep_after_gc"],
        in_seconds: false,
    },
    Language {
        name: "node",
        needs: &[Need::Tool("node")],
        words: || Ok(vec!["node".into(), workspace::script("clocks.js").into()]),
        waits: &["timeout", "interval", "atomics"],
        in_seconds: false,
    },
    Language {
        name: "python",
        needs: &[Need::Tool("python3")],
        words: || Ok(vec![python()?, workspace::script("clocks.py").into()]),
        waits: &[
            "sleep",
            "event",
            "select",
            "asyncio",
            "queue",
            "socket",
            "setitimer",
            "subprocess",
        ],
        in_seconds: false,
    },
    Language {
        name: "shell",
        needs: &[Need::Tool("bash"), Need::Tool("awk"), Need::Tool("timeout")],
        words: || Ok(vec!["bash".into(), workspace::script("clocks.sh").into()]),
        waits: &["sleep", "read", "timeout"],
        in_seconds: true,
    },
];

const RUST_WAITS: &[&str] = &["sleep", "park", "condvar", "channel", "read_timeout", "threads"];

/// Runtimes round to milliseconds, some of them down.
const ROUNDING: f64 = 0.01;
/// Slower clocks with a longer wait: Node.js writes nothing to a socket with timestamps, so all
/// lines are judged by when they are read, which may be 300 ms late on a busy machine.
const SLOW: Pace = Pace { wait_ms: 480, ..PACES[0] };

/// The start of the slowest runtime, with a tracer, on a busy machine.
const START: Duration = Duration::from_secs(20);

/// The interpreter itself: version managers put a chain of scripts in front of it.
pub fn python() -> Result<OsString, Broken> {
    let asked =
        Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output()?;
    Ok(String::from_utf8_lossy(&asked.stdout).trim().into())
}

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    for language in ALL {
        for pace in [SLOW, TENFOLD, PACES[2]] {
            let name = format!("languages::{}::rate_{}", language.name, pace.text);
            suite.test(name, language.needs, move || waits(language, pace));
        }
    }
    let needs = [Need::Program(Build::Go)];
    for rate in ["10", "100"] {
        let name = format!("languages::go::small_stacks::rate_{rate}");
        suite.test(name, &needs, move || small_stacks(rate));
    }
    let needs = [Need::Tool("bash")];
    suite.test("languages::shell::seconds_variable", &needs, shell_seconds);
}

fn waits(language: Language, pace: Pace) -> Outcome {
    let wanted_ms = pace.wait_ms as f64;
    let mut command = User::Myself.eigentime(&["--date", FUTURE.0, "--rate", pace.text])?;
    command.args((language.words)()?);
    if language.in_seconds {
        command.arg((wanted_ms / 1e3).to_string());
    } else {
        command.arg(pace.wait_ms.to_string());
    }
    let limit = pace.host(wanted_ms) * (3 * language.waits.len() as u32) + START;
    let ended = run(&mut command, limit)?;
    ended.expect_code(0)?;
    let since = ended.number::<f64>("date")? - FUTURE.1 as f64;
    ended.ensure(
        (0.0..=ended.elapsed.as_secs_f64() * pace.rate + 1.0).contains(&since),
        format_args!("its date is {since} s after {}", FUTURE.0),
    )?;
    for wait in language.waits {
        check_wait(&ended, wait, pace)?;
    }
    Ok(())
}

/// Compares a line `NAME begin` and its `NAME end wanted_ms=... *_ms=...`.
pub fn check_wait(ended: &Finished, wait: &str, pace: Pace) -> Outcome {
    let begin = ended.when(&format!("{wait} begin"))?;
    let prefix = format!("{wait} end ");
    let found = ended.lines.iter().find(|line| line.text.starts_with(&prefix));
    let Some(end) = found else {
        return Err(ended.broken(format_args!("{wait} did not end")));
    };
    let took = end.at.saturating_sub(begin);
    let mut values = Vec::new();
    for word in end.text[prefix.len()..].split_whitespace() {
        let pair = word.split_once('=');
        let value = pair.and_then(|(key, text)| Some((key, text.parse::<f64>().ok()?)));
        values.push(value.ok_or_else(|| ended.broken(format_args!("what is {word:?}?")))?);
    }
    let Some(("wanted_ms", wanted_ms)) = values.first().copied() else {
        return Err(ended.broken(format_args!("{wait} does not say what it wanted")));
    };
    pace.check_host(ended, wait, wanted_ms, took)?;
    for (clock, passed_ms) in &values[1..] {
        let least_ms = wanted_ms * (1.0 - ROUNDING);
        pace.check_virtual(ended, &format!("{wait} {clock}"), least_ms, *passed_ms, took)?;
    }
    Ok(())
}

/// System calls from stacks of a few kilobytes with hardly any room left: Eigentime's replacements
/// must not write beyond them.
fn small_stacks(rate: &str) -> Outcome {
    let mut command = User::Myself.eigentime(&["--rate", rate])?;
    command.arg(Program::Clocks.path(Build::Go)).arg("stacks");
    let ended = run(&mut command, Duration::from_secs(60))?;
    ended.expect_code(0)?;
    ended.ensure(!ended.output().contains("broken"), "a call failed")?;
    let damaged: u64 = ended.number("damaged")?;
    ended.ensure(damaged == 0, "stacks were overwritten")?;
    Ok(())
}

/// bash counts by the wall clock, in whole seconds.
fn shell_seconds() -> Outcome {
    let mut command = User::Myself.eigentime(&["--date", FUTURE.0, "--rate", TENFOLD.text])?;
    command.args(["bash", "-c", "sleep 3; echo seconds=$SECONDS"]);
    let ended = run(&mut command, TENFOLD.limit(3000.0))?;
    ended.expect_code(0)?;
    let seconds: u32 = ended.number("seconds")?;
    ended.ensure((3..=3 + 10).contains(&seconds), "not about 3 seconds")?;
    Ok(())
}
