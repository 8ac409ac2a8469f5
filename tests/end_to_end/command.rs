//! Runs a command to its end, or to a limit, and records the time of each line.

use std::fmt;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::str::FromStr;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use crate::needs::{Need, is_root};
use crate::processes;
use crate::programs::{Build, Program};
use crate::stamped;
use crate::suite::Broken;
use crate::workspace;

/// How long output may still come after the command has ended.
const OUTPUT_GRACE: Duration = Duration::from_secs(2);

/// Number of `nobody` and its group on every Linux distribution.
pub const NOBODY: u32 = 65534;

/// The user who runs a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum User {
    /// The user who runs the tests.
    Myself,
    /// An ordinary user; becoming it needs root.
    Nobody,
}

impl fmt::Display for User {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            User::Myself if is_root() => "root",
            User::Myself => "me",
            User::Nobody => "nobody",
        })
    }
}

impl User {
    /// What becoming this user needs.
    pub fn needs(self) -> Vec<Need> {
        match self {
            User::Myself => Vec::new(),
            User::Nobody => vec![Need::Root, Need::Tool("setpriv")],
        }
    }

    /// Returns a command of this user, without Eigentime.
    pub fn wrap(self, program: impl Into<std::ffi::OsString>) -> Command {
        match self {
            User::Myself => Command::new(program.into()),
            User::Nobody => {
                let mut command = Command::new("setpriv");
                let number = NOBODY.to_string();
                command
                    .env(workspace::RUNTIME_VARIABLE, workspace::runtime(self))
                    .args(["--reuid", &number, "--regid", &number, "--clear-groups"])
                    .arg("--")
                    .arg(program.into());
                command
            }
        }
    }

    /// Whether this user is root.
    pub fn is_root(self) -> bool {
        self == User::Myself && is_root()
    }

    /// Returns `eigentime run OPTIONS --`, to which the program is added.
    pub fn eigentime(self, options: &[&str]) -> Result<Command, Broken> {
        let mut command = self.wrap(self.binary()?);
        command.arg("run").args(options).arg("--");
        Ok(command)
    }

    /// The command under test at a path that this user can reach.
    pub fn binary(self) -> Result<PathBuf, Broken> {
        Ok(match self {
            User::Myself => workspace::binary().to_owned(),
            User::Nobody => workspace::public()?.join("eigentime"),
        })
    }

    /// A compiled program at a path that this user can reach.
    pub fn program(self, program: Program, build: Build) -> Result<PathBuf, Broken> {
        Ok(match self {
            User::Myself => program.path(build),
            User::Nobody => workspace::public()?.join(program.file_name(build)),
        })
    }
}

/// A line of output, and when it came, relative to the start of the command.
#[derive(Debug)]
pub struct Line {
    pub at: Duration,
    pub text: String,
}

/// A command that has ended.
#[derive(Debug)]
pub struct Finished {
    shown: String,
    is_stamped: bool,
    pub status: ExitStatus,
    pub lines: Vec<Line>,
    pub errors: String,
    pub elapsed: Duration,
}

impl Finished {
    /// Returns a failure with everything needed to reproduce it.
    pub fn broken(&self, why: impl fmt::Display) -> Broken {
        Broken(format!("{why}\n{self}"))
    }

    /// Fails with that unless a condition holds.
    pub fn ensure(&self, holds: bool, why: impl fmt::Display) -> Result<(), Broken> {
        if holds { Ok(()) } else { Err(self.broken(why)) }
    }

    /// Fails unless the exit status is this.
    pub fn expect_code(&self, code: i32) -> Result<&Self, Broken> {
        if self.status.code() == Some(code) {
            Ok(self)
        } else {
            Err(self.broken(format_args!("expected exit status {code}")))
        }
    }

    /// Standard output without the times.
    pub fn output(&self) -> String {
        let texts: Vec<&str> = self.lines.iter().map(|line| line.text.as_str()).collect();
        texts.join("\n")
    }

    /// Returns when a line that is exactly this came.
    pub fn when(&self, text: &str) -> Result<Duration, Broken> {
        self.lines
            .iter()
            .find(|line| line.text == text)
            .map(|line| line.at)
            .ok_or_else(|| self.broken(format_args!("no line {text:?}")))
    }

    /// Returns the host time from the line `begin` to the line `end`, by the kernel's timestamps.
    pub fn measured(&self) -> Result<Duration, Broken> {
        self.ensure(self.is_stamped, "its lines were not stamped: use `run_stamped`")?;
        Ok(self.when("end")?.saturating_sub(self.when("begin")?))
    }

    /// The value of a line `key=value`.
    pub fn text(&self, key: &str) -> Result<&str, Broken> {
        self.lines
            .iter()
            .find_map(|line| line.text.strip_prefix(key)?.strip_prefix('='))
            .ok_or_else(|| self.broken(format_args!("no line {key}=")))
    }

    /// The same as a number.
    pub fn number<N: FromStr>(&self, key: &str) -> Result<N, Broken> {
        let text = self.text(key)?;
        text.parse().map_err(|_| self.broken(format_args!("{key}={text} is not a number")))
    }
}

impl fmt::Display for Finished {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "command: {}", self.shown)?;
        writeln!(
            formatter,
            "ended after {:.3} s with {}",
            self.elapsed.as_secs_f64(),
            self.status
        )?;
        show_output(formatter, &self.lines, &self.errors)
    }
}

/// Longer output is shortened in messages.
const SHOWN_LINES: usize = 60;

fn show_output(out: &mut impl fmt::Write, lines: &[Line], errors: &str) -> fmt::Result {
    for line in lines.iter().take(SHOWN_LINES) {
        writeln!(out, "{:9.3} | {}", line.at.as_secs_f64(), line.text)?;
    }
    if lines.len() > SHOWN_LINES {
        writeln!(out, "          | and {} more lines", lines.len() - SHOWN_LINES)?;
    }
    for line in errors.lines().take(SHOWN_LINES) {
        writeln!(out, "   stderr | {line}")?;
    }
    Ok(())
}

/// The command as typed in a shell.
pub fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    let quoted: Vec<String> = words
        .map(|word| {
            let word = word.to_string_lossy();
            let plain = |c: char| c.is_alphanumeric() || "-_./=:+,@%".contains(c);
            if !word.is_empty() && word.chars().all(plain) {
                word.into_owned()
            } else {
                format!("'{}'", word.replace('\'', r"'\''"))
            }
        })
        .collect();
    quoted.join(" ")
}

/// A started command whose output is being read.
pub struct Running {
    pub child: Child,
    pub started: Instant,
    shown: String,
    is_stamped: bool,
    incoming: Receiver<Line>,
    errors: Receiver<String>,
    lines: Vec<Line>,
}

/// Starts a command with its output in pipes, and standard input as it was set.
pub fn start(command: &mut Command) -> Result<Running, Broken> {
    start_reading(command.stdout(Stdio::piped()), |child| {
        let output = child.stdout.take().ok_or(Broken("no stdout".into()))?;
        let lines = BufReader::new(output).lines().map_while(Result::ok);
        Ok(lines.map(|text| (Instant::now(), text)))
    })
}

/// The same where durations are judged by when lines were written. Its output is a socket.
pub fn start_stamped(command: &mut Command) -> Result<Running, Broken> {
    let (lines, output) = stamped::pair()?;
    let running = start_reading(command.stdout(output), |_| Ok(lines));
    // The command has a copy, which would keep the output open.
    command.stdout(Stdio::null());
    running.map(|running| Running { is_stamped: true, ..running })
}

fn start_reading<Lines: Iterator<Item = (Instant, String)> + Send + 'static>(
    command: &mut Command,
    lines_of: impl FnOnce(&mut Child) -> Result<Lines, Broken>,
) -> Result<Running, Broken> {
    let shown = shown(command);
    command.stderr(Stdio::piped());
    let started = Instant::now();
    let mut child =
        command.spawn().map_err(|error| Broken(format!("cannot run {shown}: {error}")))?;
    let lines = lines_of(&mut child)?;
    let mut error_output = child.stderr.take().ok_or(Broken("no stderr".into()))?;
    let (line_sender, incoming) = mpsc::channel();
    thread::spawn(move || {
        hear_at_once();
        for (at, text) in lines {
            let at = at.saturating_duration_since(started);
            if line_sender.send(Line { at, text }).is_err() {
                break;
            }
        }
    });
    let (error_sender, errors) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // Output before an error is still worth showing.
        let _ = error_output.read_to_end(&mut bytes);
        let _ = error_sender.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    let lines = Vec::new();
    Ok(Running { child, started, shown, is_stamped: false, incoming, errors, lines })
}

/// Lets the calling thread run as soon as there is something to read: durations are judged by when
/// a line came, and on a busy machine the thread might be scheduled later.
fn hear_at_once() {
    let parameters = libc::sched_param { sched_priority: 1 };
    // SAFETY: the parameters are live. For an ordinary user it is refused, which changes nothing.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) };
}

impl Running {
    /// Returns the next line of output.
    pub fn next_line(&mut self, limit: Duration) -> Result<&str, Broken> {
        match self.incoming.recv_timeout(limit) {
            Ok(line) => {
                self.lines.push(line);
                Ok(&self.lines[self.lines.len() - 1].text)
            }
            Err(RecvTimeoutError::Timeout) => {
                Err(self.give_up(format_args!("no output for {limit:?}")))
            }
            Err(RecvTimeoutError::Disconnected) => Err(self.give_up("its output ended")),
        }
    }

    /// When the last line came, whenever this is asked.
    pub fn heard(&self) -> Instant {
        self.lines.last().map_or(self.started, |line| self.started + line.at)
    }

    /// Waits for the end; kills everything and fails when `limit` has passed since the start.
    pub fn finish(mut self, limit: Duration) -> Result<Finished, Broken> {
        let left = limit.saturating_sub(self.started.elapsed());
        let Some(status) = processes::wait_for_end(&mut self.child, left)? else {
            return Err(self.give_up(format_args!("still running after {limit:?}")));
        };
        let elapsed = self.started.elapsed();
        while let Ok(line) = self.incoming.recv_timeout(OUTPUT_GRACE) {
            self.lines.push(line);
        }
        Ok(Finished {
            shown: self.shown,
            is_stamped: self.is_stamped,
            status,
            lines: self.lines,
            errors: self.errors.recv_timeout(OUTPUT_GRACE).unwrap_or_default(),
            elapsed,
        })
    }

    /// Runs it until `limit` has passed since the start, which it must not outlive on its own; then
    /// kills it.
    pub fn expect_no_end(mut self, limit: Duration) -> Result<Vec<Line>, Broken> {
        let left = limit.saturating_sub(self.started.elapsed());
        if let Some(status) = processes::wait_for_end(&mut self.child, left)? {
            return Err(self.give_up(format_args!("it ended by itself with {status}")));
        }
        let killed = self.give_up("killed");
        drop(killed);
        Ok(self.lines)
    }

    /// Kills what is left, and returns a failure with its output.
    pub fn give_up(&mut self, why: impl fmt::Display) -> Broken {
        processes::kill_tree(&mut self.child);
        while let Ok(line) = self.incoming.recv_timeout(OUTPUT_GRACE) {
            self.lines.push(line);
        }
        let errors = self.errors.recv_timeout(OUTPUT_GRACE).unwrap_or_default();
        let mut text = format!("{why}\ncommand: {}\n", self.shown);
        // Writing to a string does not fail.
        let _ = show_output(&mut text, &self.lines, &errors);
        Broken(text)
    }
}

/// Runs a command without input whose lines are timestamped.
pub fn run_stamped(command: &mut Command, limit: Duration) -> Result<Finished, Broken> {
    start_stamped(command.stdin(Stdio::null()))?.finish(limit)
}

/// Runs a command without input.
pub fn run(command: &mut Command, limit: Duration) -> Result<Finished, Broken> {
    command.stdin(Stdio::null());
    start(command)?.finish(limit)
}
