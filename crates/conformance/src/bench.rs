//! The context of a probe: its timeline, the length of its waits, and the messages to the harness.

use std::io::{self, Write};
use std::thread::{self, JoinHandle};

use crate::message::{Message, Outcome, What};
use crate::seen::Seen;
use crate::sys::{self, timespec};
use crate::timelines::Timeline;

/// The result of a probe.
pub type Answer = Result<Outcome, Failure>;

/// Why a probe had no result.
#[derive(Debug)]
pub enum Failure {
    /// The machine lacks this.
    Lacks(String),
    /// Something failed that is not under test.
    Broken(String),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Broken(error.to_string())
    }
}

/// Errors of a kernel or a container that lacks an interface, or does not permit it to this user.
const LACKING: [i32; 6] =
    [libc::ENOSYS, libc::EPERM, libc::EACCES, libc::EOPNOTSUPP, libc::ENOENT, libc::ENODEV];

/// Adds the attempted action to an error, and distinguishes what the machine lacks from a failure.
pub trait Needed<T> {
    /// The value, if the machine has `what`.
    fn needed(self, what: &str) -> Result<T, Failure>;
}

impl<T> Needed<T> for io::Result<T> {
    fn needed(self, what: &str) -> Result<T, Failure> {
        self.map_err(|error| match error.raw_os_error() {
            Some(errno) if LACKING.contains(&errno) => {
                Failure::Lacks(format!("needs {what}: {error}"))
            }
            _ => Failure::Broken(format!("{what}: {error}")),
        })
    }
}

/// How a wait ends on timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// With this result.
    With(i64),
    /// With this error.
    By(i32),
}

/// The context of a probe.
#[derive(Debug)]
pub struct Bench {
    /// The order being carried out.
    pub order: u32,
    /// The timeline that the probe is in.
    pub timeline: &'static Timeline,
    /// The command line that started it, up to the probe's name.
    pub prefix: Vec<String>,
}

impl Bench {
    /// A context for one order.
    #[must_use]
    pub fn new(order: u32, timeline: &'static Timeline, prefix: Vec<String>) -> Self {
        Self { order, timeline, prefix }
    }

    /// The requested length of a wait, in virtual nanoseconds.
    #[must_use]
    pub fn ask(&self) -> i64 {
        self.timeline.ask
    }

    /// Sends a message to the harness.
    pub fn say(&self, what: What) {
        say(&Message { order: self.order, what });
    }

    /// Makes a wait of `ask` on a clock, passing the relative length to the call.
    pub fn relative<T>(
        &self,
        ends: Ends,
        call: impl FnOnce(libc::timespec) -> io::Result<T>,
    ) -> Answer
    where
        i64: From<T>,
    {
        self.timed(libc::CLOCK_MONOTONIC, self.ask(), ends, |_| call(timespec(self.ask())))
    }

    /// Makes a wait for the instant `ask` ahead on a clock, passing the instant to the call.
    pub fn absolute<T>(
        &self,
        clock: i32,
        ends: Ends,
        call: impl FnOnce(libc::timespec) -> io::Result<T>,
    ) -> Answer
    where
        i64: From<T>,
    {
        self.timed(clock, self.ask(), ends, |now| call(timespec(now + self.ask())))
    }

    /// Makes a wait that should last `asked`, measured on a clock; the call gets that clock's
    /// reading at its start.
    pub fn timed<T>(
        &self,
        clock: i32,
        asked: i64,
        ends: Ends,
        call: impl FnOnce(i64) -> io::Result<T>,
    ) -> Answer
    where
        i64: From<T>,
    {
        self.say(What::Begin);
        let begun = sys::clock(clock)?;
        let result = call(begun).map(i64::from);
        let passed = sys::clock(clock)? - begun;
        self.say(What::End);
        let right = match (ends, &result) {
            (Ends::With(right), Ok(result)) => right == *result,
            (Ends::By(right), Err(error)) => error.raw_os_error() == Some(right),
            _ => false,
        };
        match result {
            _ if right => Ok(Outcome::Waited { asked, passed }),
            Ok(result) => Err(Failure::Broken(format!("answered {result}, not {ends:?}"))),
            Err(error) => Err(error).needed("the call"),
        }
    }

    /// Lets `passing` pass after `start`, and compares the time passed on a clock with `whole`
    /// minus the remaining time reported by `left`. `whole` began at `start`.
    pub fn consumed(
        &self,
        passing: i64,
        whole: i64,
        start: impl FnOnce() -> io::Result<()>,
        left: impl FnOnce() -> io::Result<i64>,
    ) -> Answer {
        self.say(What::Begin);
        let begun = sys::clock(libc::CLOCK_MONOTONIC)?;
        start()?;
        sleep(passing);
        let left = left()?;
        let passed = sys::clock(libc::CLOCK_MONOTONIC)? - begun;
        self.say(What::End);
        Ok(Outcome::Length { right: passed, shown: whole - left, passed })
    }

    /// Compares the remaining time that a call reports for an interrupted wait of [`Bench::whole`]
    /// with the time that had not passed; `wait` returns the former, unless it ended otherwise.
    pub fn remaining(&self, wait: impl FnOnce() -> io::Result<Result<i64, String>>) -> Answer {
        self.say(What::Begin);
        let begun = sys::clock(libc::CLOCK_MONOTONIC)?;
        let left = wait()?;
        let passed = sys::clock(libc::CLOCK_MONOTONIC)? - begun;
        self.say(What::End);
        Ok(match left {
            Ok(left) => Outcome::Length { right: self.whole() - passed, shown: left, passed },
            Err(otherwise) => wrong(otherwise),
        })
    }

    /// The length of waits that are cut short. Both this and [`Bench::cut`] give a busy machine as
    /// much time as a wait.
    #[must_use]
    pub fn whole(&self) -> i64 {
        4 * self.ask()
    }

    /// When they are cut short: late enough to distinguish the remaining time from that on another
    /// clock.
    #[must_use]
    pub fn cut(&self) -> i64 {
        3 * self.ask()
    }

    /// Runs something in parallel to the probe to cut a wait short.
    pub fn cutting<T: Send + 'static>(
        &self,
        run: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        let cut = self.cut();
        thread::spawn(move || {
            sleep(cut);
            run()
        })
    }

    /// The outcome for something found to follow the timeline; `wall` if it uses the wall clock.
    #[must_use]
    pub fn agrees(&self, wall: bool, detail: String) -> Outcome {
        let seen = if self.timeline.changes(wall) { Seen::Virtual } else { Seen::Both };
        Outcome::Seen(seen, detail)
    }
}

/// Sleeps for this many virtual nanoseconds.
pub fn sleep(ns: i64) {
    let mut left = timespec(ns);
    // SAFETY: the kernel reads and writes one timespec.
    while unsafe { libc::nanosleep(&raw const left, &raw mut left) } == -1 {}
}

/// The outcome for something found to be wrong.
#[must_use]
pub fn wrong(detail: String) -> Outcome {
    Outcome::Seen(Seen::Neither, detail)
}

/// Writes a message with a single write.
pub fn say(message: &Message) {
    let mut line = serde_json::to_string(message).expect("messages are plain data");
    line.push('\n');
    // If the harness is gone, there is no reader.
    let _ = io::stdout().lock().write_all(line.as_bytes()).and_then(|()| io::stdout().flush());
}
