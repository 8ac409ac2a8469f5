//! Programs that sandbox themselves behave as on the host: what their filter allows is executed,
//! and what it refuses is refused in the specified way.

use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::Signal;

use crate::command::{Finished, User, run, run_stamped, start};
use crate::needs::Need;
use crate::programs::{Build, Program};
use crate::suite::{Broken, Outcome, Suite};
use crate::timeline::{FUTURE, HOST, Pace, STUCK, TENFOLD};
use crate::workspace;

/// The waits of `tests/programs/sandbox.c`.
const WAITS: [&str; 12] = [
    "nanosleep",
    "clock_nanosleep",
    "poll",
    "ppoll",
    "select",
    "pselect6",
    "epoll_wait",
    "epoll_pwait",
    "futex",
    "rt_sigtimedwait",
    "timerfd",
    "alarm",
];

/// What happens to calls that a wait does not need.
const ANSWERS: [&str; 3] = ["kill", "errno", "trap"];

/// How long the waits are, in milliseconds.
const WAIT_MS: f64 = 3000.0;

const TIMELINES: [(&str, &[&str], Pace); 3] = [
    ("offset", &["--date", FUTURE.0], HOST),
    ("rate", &["--rate", TENFOLD.text], TENFOLD),
    ("traced", &["--traced", "--rate", TENFOLD.text], TENFOLD),
];

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    let needs = [Need::Program(Build::Dynamic), Need::Program(Build::Static)];
    for (label, options, pace) in TIMELINES {
        for wait in WAITS {
            // At the host's rate, relative waits are left alone: one way shows that.
            for answer in if label == "offset" { &ANSWERS[..1] } else { &ANSWERS[..] } {
                let name = format!("sandboxes::{label}::{answer}::{wait}");
                suite.test(name, &needs, move || waits(options, pace, &[answer, wait]));
            }
        }
        let name = |what: &str| format!("sandboxes::{label}::{what}");
        suite.test(name("refused"), &needs, move || refused(options));
        let root = [needs[0].clone(), needs[1].clone(), Need::Root];
        let program = Program::Sandbox.path(Build::Static).to_string_lossy().into_owned();
        suite.test(name("exec"), &root, move || {
            waits(options, pace, &["exec", &program, "sleeper"])
        });
        let body = move || many_at_once(options);
        suite.test(name("exec_many_at_once"), &root, body);
        let body = move || without_epoll_pwait2(options, pace);
        suite.test(name("without_epoll_pwait2"), &[needs[0].clone()], body);
        let browser = [Need::Tool("chromium"), Need::Root, Need::Tool("setpriv")];
        suite.test(name("chromium"), &browser, move || chromium(options));
        let ordinary = [root.as_slice(), &[Need::Tool("setpriv")]].concat();
        suite.test(name("blocked_signals"), &ordinary, move || blocked_signals(options));
        for call in ["getpid", "nanosleep", "clock_gettime", "seccomp"] {
            suite.test(name(&format!("strict::{call}")), &needs, move || killed(options, call));
        }
        let strict = [("read", 7, "read"), ("signal", 7, "handled")];
        for (call, code, line) in strict {
            let body = move || strict_goes_on(options, call, code, line);
            suite.test(name(&format!("strict::{call}")), &needs, body);
        }
        for (call, line) in [("thread", "others go on"), ("refused", "result=-1 errno=22")] {
            let body = move || strict_ends_with(options, call, line);
            suite.test(name(&format!("strict::{call}")), &needs, body);
        }
    }
}

fn in_sandbox(options: &[&str], arguments: &[&str]) -> Result<Finished, Broken> {
    let mut command = User::Myself.eigentime(options)?;
    command.arg(Program::Sandbox.path(Build::Dynamic)).args(arguments);
    run_stamped(&mut command, STUCK + Duration::from_secs(4))
}

fn waits(options: &[&str], pace: Pace, arguments: &[&str]) -> Outcome {
    let ended = in_sandbox(options, arguments)?;
    ended.expect_code(0)?;
    pace.check_host(&ended, "a wait", WAIT_MS, ended.measured()?)?;
    ended.ensure(ended.number::<f64>("passed")? >= WAIT_MS - 1.0, "it ended too early")?;
    // A program started there does not count them.
    if let Ok(trapped) = ended.number::<i32>("trapped") {
        ended.ensure(trapped == 0, "it made other calls")?;
    }
    Ok(())
}

/// If many programs start at once, each takes long to do so.
fn many_at_once(options: &[&str]) -> Outcome {
    const PROGRAMS: usize = 24;
    let started = (0..PROGRAMS).map(|_| {
        let mut command = User::Myself.eigentime(options)?;
        command.arg(Program::Sandbox.path(Build::Dynamic)).arg("exec");
        command.arg(Program::Sandbox.path(Build::Static)).arg("sleeper");
        start(command.stdin(Stdio::null()))
    });
    for running in started.collect::<Result<Vec<_>, _>>()? {
        running.finish(STUCK)?.expect_code(0)?;
    }
    Ok(())
}

fn refused(options: &[&str]) -> Outcome {
    let ended = in_sandbox(options, &["refused"])?;
    ended.expect_code(0)?;
    const EXDEV: i32 = 18;
    let lines = [("result", -1), ("trapped", 1), ("call", 1), ("at_the_call", 1), ("errno", EXDEV)];
    for (key, value) in lines {
        ended.ensure(ended.number::<i32>(key)? == value, format_args!("{key} is not {value}"))?;
    }
    Ok(())
}

/// A timeline under a filter that predates the call made for `epoll_wait`.
fn without_epoll_pwait2(options: &[&str], pace: Pace) -> Outcome {
    let mut command = User::Myself.wrap(Program::Sandbox.path(Build::Dynamic));
    command.args(["without", "epoll_pwait2"]).arg(workspace::binary()).arg("run").args(options);
    command.arg("--").arg(Program::Waits.path(Build::Dynamic));
    let ended = run_stamped(command.args(["epoll_wait", &WAIT_MS.to_string()]), STUCK)?;
    ended.expect_code(0)?;
    ended.ensure(ended.number::<i64>("ret")? == 0, "it fails")?;
    pace.check_host(&ended, "a wait", WAIT_MS, ended.measured()?)
}

/// A program that would start with all its signals blocked is refused.
fn blocked_signals(options: &[&str]) -> Outcome {
    const CANNOT_RUN: i32 = 126;
    let mut command = User::Nobody.eigentime(options)?;
    command
        .arg(User::Nobody.program(Program::Sandbox, Build::Dynamic)?)
        .args(["without", "rt_sigprocmask"]);
    command.arg(User::Nobody.program(Program::Sandbox, Build::Static)?).arg("sleeper");
    let ended = run(&mut command, STUCK)?;
    ended.expect_code(CANNOT_RUN)?;
    ended.ensure(ended.errors.contains("eigentime: "), "it does not say why")
}

fn killed(options: &[&str], call: &str) -> Outcome {
    let ended = in_sandbox(options, &["strict", call])?;
    ended.ensure(ended.number::<i64>("time").is_ok(), "it could not read a clock")?;
    let signal = ended.status.signal();
    ended.ensure(signal == Some(Signal::KILL.as_raw()), "it was not killed as the kernel does it")
}

fn strict_goes_on(options: &[&str], call: &str, code: i32, line: &str) -> Outcome {
    let ended = in_sandbox(options, &["strict", call])?;
    ended.expect_code(code)?;
    ended.when(line).map(drop)
}

fn strict_ends_with(options: &[&str], call: &str, line: &str) -> Outcome {
    let ended = in_sandbox(options, &["strict", call])?;
    ended.expect_code(0)?;
    ended.ensure(ended.output() == line, "something else")
}

/// A page that is loaded once its timer has fired. Its processes are in the browser's own sandbox,
/// which root does not have.
fn chromium(options: &[&str]) -> Outcome {
    const PAGE: &str = "<!doctype html><body><iframe></iframe><script>\
        const inner = document.querySelector('iframe').contentDocument; inner.open();\
        setTimeout(() => { document.body.append('the timer has run'); inner.close(); }, 2000);\
        </script></body>";
    const LIMIT: Duration = Duration::from_secs(60);
    let folder = workspace::scratch()?;
    let page = folder.join("page.html");
    std::fs::write(&page, PAGE)?;
    let mut command = User::Nobody.eigentime(options)?;
    command.env("HOME", &folder).env_remove("XDG_RUNTIME_DIR");
    command.args(["chromium", "--headless", "--disable-gpu", "--dump-dom"]);
    command.arg(format!("--user-data-dir={}", folder.join("profile").display()));
    let ended = run(command.arg(format!("file://{}", page.display())), LIMIT)?;
    ended.expect_code(0)?;
    // The script contains these words, too, but not at the end of an element.
    ended.ensure(ended.output().contains("the timer has run</"), "the page was not loaded")
}
