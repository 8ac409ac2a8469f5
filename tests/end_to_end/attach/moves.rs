//! Programs that are moved, and the commands that move them.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::process::{ChildStdin, Command, Stdio};
use std::str::FromStr;
use std::thread;
use std::time::{Duration, Instant};

use serde::Deserialize;

use super::place::Place;
use crate::command::{Finished, Running, run, start};
use crate::processes::{Watch, tracer_of};
use crate::suite::{Broken, Outcome};

/// How long anything may take on a busy machine before it counts as stuck.
pub const LIMIT: Duration = Duration::from_secs(120);

/// Pause between two polls.
const PAUSE: Duration = Duration::from_millis(1);

/// The output of `attach --json` and `detach --json`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Moved {
    pub pid: u32,
    pub command: String,
    pub threads: usize,
    pub stopped_ns: u64,
    pub notes: Vec<String>,
}

impl Place {
    /// Runs `eigentime attach --pid PID OPTIONS`, whatever its exit status.
    pub fn attach(&self, pid: u32, options: &[&str]) -> Result<Finished, Broken> {
        let mut command = self.eigentime("attach", pid)?;
        run(command.args(options), LIMIT)
    }

    /// The same, which must succeed.
    pub fn attached(&self, pid: u32, options: &[&str]) -> Result<Moved, Broken> {
        parse(&self.attach(pid, &[&["--json"], options].concat())?)
    }

    /// Runs `eigentime detach --pid PID --json`, whatever its exit status.
    pub fn detach(&self, pid: u32) -> Result<Finished, Broken> {
        let mut command = self.eigentime("detach", pid)?;
        run(command.arg("--json"), LIMIT)
    }

    /// The same, which must succeed.
    pub fn detached(&self, pid: u32) -> Result<Moved, Broken> {
        parse(&self.detach(pid)?)
    }

    fn eigentime(&self, verb: &str, pid: u32) -> Result<Command, Broken> {
        let mut command = self.outside(crate::workspace::binary());
        command.args([verb, "--pid", &pid.to_string()]);
        Ok(command)
    }
}

fn parse(ended: &Finished) -> Result<Moved, Broken> {
    ended.expect_code(0)?;
    serde_json::from_str(&ended.output()).map_err(|error| ended.broken(error))
}

/// A program's answer to a line.
#[derive(Debug, Default)]
pub struct Answer {
    /// Its `key=value` lines.
    pub values: BTreeMap<String, String>,
    /// All lines, with their time of arrival.
    pub lines: Vec<(Instant, String)>,
}

impl Answer {
    /// Returns a value as a number.
    pub fn number<N: FromStr>(&self, key: &str) -> Result<N, Broken> {
        let value = self.values.get(key).and_then(|value| value.parse().ok());
        value.ok_or_else(|| Broken(format!("no number {key} in {:?}", self.values)))
    }

    /// Returns when a line came.
    pub fn when(&self, text: &str) -> Result<Instant, Broken> {
        let line = self.lines.iter().find(|(_, line)| line == text);
        let line = line.ok_or_else(|| Broken(format!("no line {text:?} in {:?}", self.lines)));
        line.map(|(at, _)| *at)
    }

    /// Returns the host time from the line `NAME begin` to the line `NAME end`.
    pub fn took(&self, name: &str) -> Result<Duration, Broken> {
        let begin = self.when(&format!("{name} begin"))?;
        Ok(self.when(&format!("{name} end"))?.saturating_duration_since(begin))
    }
}

/// A program that answers lines.
pub struct Partner {
    running: Running,
    input: Option<ChildStdin>,
}

impl Partner {
    /// Starts it, and waits until it is ready.
    pub fn start(command: &mut Command) -> Result<Self, Broken> {
        let mut running = start(command.stdin(Stdio::piped()))?;
        let input = running.child.stdin.take();
        let mut partner = Self { running, input };
        partner.expect("ready")?;
        Ok(partner)
    }

    /// Its process ID.
    pub fn pid(&self) -> u32 {
        self.running.child.id()
    }

    /// Fails unless the next line is this.
    pub fn expect(&mut self, line: &str) -> Outcome {
        let next = self.running.next_line(LIMIT)?;
        if next == line {
            return Ok(());
        }
        let why = format!("{next:?} instead of {line:?}");
        Err(self.running.give_up(why))
    }

    /// Sends a line.
    pub fn say(&mut self, line: &str) -> Outcome {
        let said = self.input.as_mut().map(|input| writeln!(input, "{line}"));
        match said {
            Some(Ok(())) => Ok(()),
            _ => Err(self.running.give_up("it does not take input")),
        }
    }

    /// Sends a line, and reads the answer up to `done`.
    pub fn ask(&mut self, line: &str) -> Result<Answer, Broken> {
        self.say(line)?;
        self.answer()
    }

    /// Reads the answer to a line that was sent, up to `done`.
    pub fn answer(&mut self) -> Result<Answer, Broken> {
        let mut answer = Answer::default();
        loop {
            let line = self.running.next_line(LIMIT)?.to_owned();
            if line == "done" {
                return Ok(answer);
            }
            if let Some((key, value)) = line.split_once('=') {
                answer.values.insert(key.to_owned(), value.to_owned());
            }
            answer.lines.push((self.running.heard(), line));
        }
    }

    /// Ends its input; it must end with this status.
    pub fn finish(mut self, code: i32) -> Result<Finished, Broken> {
        drop(self.input.take());
        let limit = self.running.started.elapsed() + LIMIT;
        let ended = self.running.finish(limit)?;
        ended.expect_code(code)?;
        ended.ensure(ended.errors.is_empty(), "it complains")?;
        Ok(ended)
    }

    /// Kills it, and returns the failure.
    pub fn give_up(&mut self, why: impl std::fmt::Display) -> Broken {
        self.running.give_up(why)
    }
}

/// Waits until a condition holds.
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) -> Outcome {
    let end = Instant::now() + LIMIT;
    while !holds() {
        if Instant::now() > end {
            return Err(Broken(format!("not within {LIMIT:?}: {what}")));
        }
        thread::sleep(PAUSE);
    }
    Ok(())
}

/// The threads of a process.
pub fn threads_of(pid: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    tasks.filter_map(|task| task.file_name().to_str()?.parse().ok()).collect()
}

/// The call in which a thread is blocked.
pub fn blocked_in(thread: u32) -> Option<u64> {
    let call = fs::read_to_string(format!("/proc/{thread}/syscall")).ok()?;
    call.split_whitespace().next()?.parse().ok()
}

/// Waits until all threads of a process are blocked in calls other than writes.
pub fn wait_until_blocked(pid: u32) -> Outcome {
    const WRITE: u64 = 1;
    wait_until("every thread waits", || {
        threads_of(pid).into_iter().all(|thread| blocked_in(thread).is_some_and(|nr| nr != WRITE))
    })
}

/// Waits until a supervisor has ended.
pub fn wait_for_end_of(supervisor: u32) -> Outcome {
    match Watch::new(supervisor) {
        Ok(watch) if !watch.ends_within(LIMIT)? => {
            Err(Broken(format!("supervisor {supervisor} goes on")))
        }
        _ => Ok(()),
    }
}

/// Everything visible of a process from outside that must not change.
#[derive(Debug, PartialEq, Eq)]
pub struct Outside {
    maps: String,
    descriptors: usize,
    tracer: Option<u32>,
    threads: usize,
}

impl Outside {
    /// Its current state.
    pub fn of(pid: u32) -> Result<Self, Broken> {
        let descriptors = fs::read_dir(format!("/proc/{pid}/fd"))?.count();
        // The stack and the heap may grow at any time.
        let maps = fs::read_to_string(format!("/proc/{pid}/maps"))?;
        let grows = |line: &&str| line.ends_with("[heap]") || line.ends_with("[stack]");
        let maps: Vec<_> = maps.lines().filter(|line| !grows(line)).collect();
        let maps = maps.join("\n");
        Ok(Self { maps, descriptors, tracer: tracer_of(pid), threads: threads_of(pid).len() })
    }

    /// Fails unless it is unchanged.
    pub fn ensure_unchanged(&self, pid: u32) -> Outcome {
        let now = Self::of(pid)?;
        if *self == now {
            return Ok(());
        }
        Err(Broken(format!("it was touched: before {self:#?}, after {now:#?}")))
    }
}
