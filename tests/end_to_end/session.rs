//! A conversation with the program `reads`: snapshots of all clocks, each between two host
//! instants.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::{ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::command::{Running, start};
use crate::suite::Broken;

/// A snapshot takes milliseconds; this long means it hangs.
const ANSWER_LIMIT: Duration = Duration::from_secs(10);

/// Returns a host clock in nanoseconds.
pub fn host_ns(clock: ClockId) -> i128 {
    let time = clock_gettime(clock);
    i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec)
}

/// All clocks as the program sees them, in nanoseconds; failed readings are in `errors`.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub before: Instant,
    pub after: Instant,
    pub clocks: BTreeMap<String, i128>,
    pub errors: BTreeMap<String, String>,
}

impl Snapshot {
    /// Returns one reading.
    pub fn ns(&self, key: &str) -> Result<i128, Broken> {
        self.clocks
            .get(key)
            .copied()
            .ok_or_else(|| Broken(format!("no clock {key}; failed: {:?}", self.errors)))
    }
}

/// A running `reads`.
pub struct Session {
    running: Running,
    input: Option<ChildStdin>,
    /// How long the next answer may take.
    limit: Duration,
}

impl Session {
    /// Starts it; `command` ends with the program.
    pub fn start(command: Command) -> Result<Self, Broken> {
        Self::start_within(ANSWER_LIMIT, command)
    }

    /// Starts it, which may take this long.
    pub fn start_within(limit: Duration, mut command: Command) -> Result<Self, Broken> {
        command.stdin(Stdio::piped());
        let mut running = start(&mut command)?;
        let input = running.child.stdin.take();
        Ok(Session { running, input, limit })
    }

    /// The program's process ID.
    pub fn pid(&self) -> u32 {
        self.running.child.id()
    }

    /// Reads all clocks once.
    pub fn snapshot(&mut self) -> Result<Snapshot, Broken> {
        let before = Instant::now();
        let asked = self.input.as_mut().map(|input| input.write_all(b"\n"));
        if !matches!(asked, Some(Ok(()))) {
            return Err(self.running.give_up("it does not take input"));
        }
        let (mut clocks, mut errors) = (BTreeMap::new(), BTreeMap::new());
        loop {
            let line = self.running.next_line(self.limit)?;
            if line == "done" {
                break;
            }
            let Some((key, value)) = line.split_once('=') else {
                continue;
            };
            match value.parse() {
                Ok(ns) => drop(clocks.insert(key.to_owned(), ns)),
                Err(_) => drop(errors.insert(key.to_owned(), value.to_owned())),
            }
        }
        self.limit = ANSWER_LIMIT;
        Ok(Snapshot { before, after: Instant::now(), clocks, errors })
    }

    /// Ends its input and expects a clean end.
    pub fn finish(mut self) -> Result<(), Broken> {
        drop(self.input.take());
        self.running.finish(Duration::from_secs(60))?.expect_code(0)?;
        Ok(())
    }
}
