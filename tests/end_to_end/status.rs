//! A program run through Eigentime ends visibly as if it had been run directly, and its input and
//! output pass through.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

use crate::command::{User, run, shown, start};
use crate::needs::Need;
use crate::suite::{Outcome, Suite};
use crate::timeline::{FUTURE, STUCK, TIMELINES};
use crate::workspace;

/// Adds the tests.
pub fn add(suite: &mut Suite) {
    for (label, options) in TIMELINES {
        let needs = [Need::TimeNamespace(User::Myself)];
        let needs = if label == "offset" { &needs[..] } else { &[] };
        for code in [0, 1, 3, 125, 126, 127, 255] {
            let name = format!("status::{label}::exit_{code}");
            suite.test(name, needs, move || exits(options, code));
        }
        for (signal, number) in [("HUP", 1), ("INT", 2), ("KILL", 9), ("TERM", 15), ("USR1", 10)] {
            let name = format!("status::{label}::killed_by_{signal}");
            suite.test(name, needs, move || killed(options, signal, number));
        }
        suite.test(format!("status::{label}::input_and_output"), needs, move || {
            input_and_output(options)
        });
    }
    suite.test("status::missing_command", &[], || fails(&["/no/such/program"], 127));
    suite.test("status::command_not_on_the_path", &[], || fails(&["no-such-program-at-all"], 127));
    suite.test("status::not_executable", &[], not_executable);
    suite.test("status::a_directory", &[], || fails(&["/"], 126));
    suite.test("status::script_without_interpreter_line", &[], bare_script);
    suite.test("status::options_after_the_command", &[], || {
        let mut command = Command::new(workspace::binary());
        command.args(["run", "--rate", "10", "echo", "--rate", "-x", "--", "y"]);
        let ended = run(&mut command, STUCK)?;
        ended.expect_code(0)?;
        ended.ensure(ended.output() == "--rate -x -- y", "other words")?;
        Ok(())
    });
    suite.test("status::silent_when_all_is_well", &[], || {
        let mut command = User::Myself.eigentime(&["--date", FUTURE.0, "--rate", "2"])?;
        let ended = run(command.arg("true"), STUCK)?;
        ended.expect_code(0)?;
        ended.ensure(ended.errors.is_empty(), "it printed something")?;
        Ok(())
    });
}

fn exits(options: &[&str], code: i32) -> Outcome {
    let mut command = User::Myself.eigentime(options)?;
    command.args(["sh", "-c", &format!("exit {code}")]);
    run(&mut command, STUCK)?.expect_code(code)?;
    Ok(())
}

/// As seen by a shell, and by a program that started it.
fn killed(options: &[&str], signal: &str, number: i32) -> Outcome {
    let mut command = User::Myself.eigentime(options)?;
    command.args(["sh", "-c", &format!("kill -{signal} $$; sleep 1000000")]);
    let ended = run(&mut command, STUCK)?;
    let status = ended.status;
    ended.ensure(
        status.signal() == Some(number) || status.code() == Some(128 + number),
        format_args!("not signal {number}"),
    )?;
    let script = format!("{}; echo status=$?", shown(&command));
    let ended = run(Command::new("sh").args(["-c", &script]), STUCK)?;
    ended
        .ensure(ended.number::<i32>("status")? == 128 + number, "the shell sees another status")?;
    Ok(())
}

fn input_and_output(options: &[&str]) -> Outcome {
    let mut command = User::Myself.eigentime(options)?;
    command.args(["sh", "-c", "wc -c; echo trouble >&2"]);
    let mut running = start(command.stdin(Stdio::piped()))?;
    let input = vec![b'\n'; 1 << 20];
    let mut pipe = running.child.stdin.take();
    let written = pipe.as_mut().map(|pipe| pipe.write_all(&input));
    drop(pipe);
    let ended = running.finish(STUCK)?;
    ended.expect_code(0)?;
    ended.ensure(matches!(written, Some(Ok(()))), "input broke")?;
    ended.ensure(ended.output().trim() == "1048576", "input was lost")?;
    ended.ensure(ended.errors == "trouble\n", "errors were changed")?;
    Ok(())
}

fn fails(words: &[&str], code: i32) -> Outcome {
    let mut command = User::Myself.eigentime(&["--date", FUTURE.0])?;
    let ended = run(command.args(words), STUCK)?;
    ended.expect_code(code)?;
    ended.ensure(ended.errors.contains(words[0]), "the message does not name it")?;
    Ok(())
}

fn not_executable() -> Outcome {
    let path = workspace::scratch()?.join("program");
    fs::write(&path, "echo hello\n")?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644))?;
    fails(&[&path.to_string_lossy()], 126)
}

/// `execvp` and `env` run such a file with the shell.
fn bare_script() -> Outcome {
    let path = workspace::scratch()?.join("script");
    fs::write(&path, "date -u +%Y\n")?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    let native = run(Command::new("env").arg(&path), STUCK)?;
    let mut command = User::Myself.eigentime(&["--date", FUTURE.0])?;
    let ended = run(command.arg(&path), STUCK)?;
    ended.ensure(
        ended.status.code() == native.status.code(),
        format_args!("env ends with {}", native.status),
    )?;
    ended.ensure(native.lines.is_empty() || ended.output() == "2100", "not in the timeline")?;
    Ok(())
}
