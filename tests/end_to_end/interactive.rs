//! On a terminal: it is the program's terminal, the keys that send signals reach the program, and a
//! shell's job control works outside and inside.

use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::time::Duration;

use crate::command::{User, shown};
use crate::ensure;
use crate::needs::Need;
use crate::programs::{Build, Program};
use crate::suite::{Broken, Outcome, Suite};
use crate::terminal::Terminal;
use crate::timeline::FUTURE;

const LIMIT: Duration = Duration::from_secs(10);
const CTRL_C: &str = "\x03";
const CTRL_Z: &str = "\x1a";
const CTRL_BACKSLASH: &str = "\x1c";
/// The quotes make the echoed input differ from the printed output.
const SLEEPER: &str = "echo rea''dy; exec sleep 100000000";

const TIMELINES: [(&str, &[&str]); 2] =
    [("date", &["--date", FUTURE.0]), ("rate", &["--date", FUTURE.0, "--rate", "10"])];

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    let needs = [
        Need::Program(Build::Dynamic),
        Need::Tool("setsid"),
        Need::Tool("bash"),
        Need::Tool("tty"),
        Need::Tool("stty"),
    ];
    for (label, options) in TIMELINES {
        let mut test = |name: &str, body: fn(&[&str]) -> Outcome| {
            let name = format!("interactive::{label}::{name}");
            suite.test(name, &needs, move || body(options));
        };
        test("own_terminal", own_terminal);
        test("resized", resized);
        test("interrupt_key", |options| key_ends(options, CTRL_C, 130));
        test("quit_key", |options| key_ends(options, CTRL_BACKSLASH, 131));
        test("stopped_and_continued", stopped_and_continued);
        test("shell_inside", shell_inside);
    }
}

fn command(options: &[&str], words: &[&str]) -> Result<Command, Broken> {
    let mut command = User::Myself.eigentime(options)?;
    command.args(words);
    Ok(command)
}

fn own_terminal(options: &[&str]) -> Outcome {
    let words = ["sh", "-c", "read line; tty; stty size; echo wrote; test -t 0 -a -t 1 -a -t 2"];
    let mut terminal = Terminal::start(&command(options, &words)?)?;
    terminal.resize(33, 101)?;
    terminal.type_in("go\n")?;
    let name = terminal.name().to_owned();
    terminal.expect(&name, LIMIT)?;
    terminal.expect("33 101", LIMIT)?;
    terminal.expect("wrote", LIMIT)?;
    let status = terminal.finish(LIMIT)?;
    ensure!(status.code() == Some(0), "it ended with {status}");
    Ok(())
}

fn resized(options: &[&str]) -> Outcome {
    let program = Program::Foreground.path(Build::Dynamic);
    let mut terminal = Terminal::start(User::Myself.eigentime(options)?.arg(program))?;
    terminal.expect("ready", LIMIT)?;
    terminal.resize(17, 71)?;
    terminal.expect("17 rows, 71 columns", LIMIT)?;
    terminal.type_in(CTRL_C)?;
    let status = terminal.finish(LIMIT)?;
    ensure!(status.code() == Some(130) || status.signal() == Some(2), "it ended with {status}");
    Ok(())
}

/// An interactive shell, ready for input.
fn shell() -> Result<Terminal, Broken> {
    let mut command = Command::new("bash");
    command.args(["--norc", "--noprofile", "-i"]);
    let mut terminal = Terminal::start(&command)?;
    terminal.expect("$ ", LIMIT)?;
    Ok(terminal)
}

fn leave(mut terminal: Terminal) -> Outcome {
    terminal.type_in("exit 5\n")?;
    let status = terminal.finish(LIMIT)?;
    ensure!(status.code() == Some(5), "the shell ended with {status}");
    Ok(())
}

fn key_ends(options: &[&str], key: &str, status: i32) -> Outcome {
    let mut terminal = shell()?;
    terminal.type_in("ulimit -c 0\n")?;
    let line = shown(&command(options, &["sh", "-c", SLEEPER])?);
    terminal.type_in(&format!("{line}\n"))?;
    terminal.expect("ready", LIMIT)?;
    terminal.type_in(key)?;
    terminal.expect("$ ", LIMIT)?;
    terminal.type_in("echo status=$?\n")?;
    terminal.expect(&format!("status={status}"), LIMIT)?;
    leave(terminal)
}

fn stopped_and_continued(options: &[&str]) -> Outcome {
    let mut terminal = shell()?;
    let mut command = User::Myself.eigentime(options)?;
    let line = shown(command.arg(Program::Foreground.path(Build::Dynamic)));
    terminal.type_in(&format!("{line}\n"))?;
    stop_and_continue(&mut terminal)?;
    leave(terminal)
}

/// Stops the foreground twice, continues it, and ends it.
fn stop_and_continue(terminal: &mut Terminal) -> Outcome {
    terminal.expect("ready", LIMIT)?;
    for _ in 0..2 {
        terminal.type_in(CTRL_Z)?;
        terminal.expect("Stopped", LIMIT)?;
        terminal.expect("$ ", LIMIT)?;
        terminal.type_in("jobs; echo job''s=shown\n")?;
        terminal.expect("Stopped", LIMIT)?;
        terminal.expect("jobs=shown", LIMIT)?;
        terminal.type_in("fg\n")?;
        terminal.expect("going on", LIMIT)?;
    }
    terminal.type_in(CTRL_C)?;
    terminal.expect("$ ", LIMIT)?;
    terminal.type_in("echo status=$?\n")?;
    terminal.expect("status=130", LIMIT)
}

fn shell_inside(options: &[&str]) -> Outcome {
    let words = ["bash", "--norc", "--noprofile", "-i"];
    let mut terminal = Terminal::start(&command(options, &words)?)?;
    terminal.expect("$ ", LIMIT)?;
    terminal.type_in("date -u +year=%Y\n")?;
    terminal.expect("year=2100", LIMIT)?;
    let program = Program::Foreground.path(Build::Dynamic);
    terminal.type_in(&format!("{}\n", program.display()))?;
    stop_and_continue(&mut terminal)?;
    leave(terminal)
}
