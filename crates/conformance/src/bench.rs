//! What a probe works with: the timeline that it is in, the length of its waits, and
//! the messages to the harness.

use std::io::{self, Write};
use std::thread::{self, JoinHandle};

use crate::judge::Seen;
use crate::message::{Message, Outcome, What};
use crate::sys::{self, timespec};
use crate::timelines::Timeline;

/// What a probe came to.
pub type Answer = Result<Outcome, Failure>;

/// Why a probe came to nothing.
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

/// Errors of a kernel or a container that does not have an interface, or not for this
/// user.
const LACKING: [i32; 6] =
    [libc::ENOSYS, libc::EPERM, libc::EACCES, libc::EOPNOTSUPP, libc::ENOENT, libc::ENODEV];

/// Adds to an error what was tried, and tells a machine that lacks it from a failure.
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

/// How a wait ends when its time is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// With this result.
    With(i64),
    /// With this error.
    By(i32),
}

/// The place of a probe.
#[derive(Debug)]
pub struct Bench {
    /// The order that is being carried out.
    pub order: u32,
    /// The timeline that the probe is in.
    pub timeline: &'static Timeline,
    /// How it was started: the program and its arguments up to the probe's name.
    pub prefix: Vec<String>,
}

impl Bench {
    /// A place for one order.
    #[must_use]
    pub fn new(order: u32, timeline: &'static Timeline, prefix: Vec<String>) -> Self {
        Self { order, timeline, prefix }
    }

    /// How long a wait is to last, in virtual nanoseconds.
    #[must_use]
    pub fn ask(&self) -> i64 {
        self.timeline.ask
    }

    /// Tells the harness.
    pub fn say(&self, what: What) {
        say(&Message { order: self.order, what });
    }

    /// Makes a wait of `ask` on a clock: the call gets the length, relative.
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

    /// Makes a wait for an instant in `ask` on a clock: the call gets that instant.
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

    /// Makes a wait that should last `asked`, measured on a clock; the call gets that
    /// clock's reading at its start.
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

    /// Lets `passing` pass after `start`, and compares what a clock says of it with what
    /// `left` says is left of `whole`, which started then.
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

    /// Compares what a call says is left of a wait of [`Bench::whole`] that was cut short
    /// with what had not passed; `wait` returns that, unless it ended otherwise.
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

    /// How long waits are to last that are cut short. Both this and [`Bench::cut`] leave
    /// a busy machine as much time as a wait.
    #[must_use]
    pub fn whole(&self) -> i64 {
        4 * self.ask()
    }

    /// When they are cut short: late enough to tell what is left from what would be left
    /// by another clock.
    #[must_use]
    pub fn cut(&self) -> i64 {
        3 * self.ask()
    }

    /// Runs something beside the probe to cut a wait short.
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

    /// What to say of something that was found to be as the timeline is; `wall` if it
    /// goes by the wall clock.
    #[must_use]
    pub fn agrees(&self, wall: bool, detail: String) -> Outcome {
        let seen = if self.timeline.changes(wall) { Seen::Virtual } else { Seen::Both };
        Outcome::Seen(seen, detail)
    }
}

/// Sleeps so many virtual nanoseconds.
pub fn sleep(ns: i64) {
    let mut left = timespec(ns);
    // SAFETY: the kernel reads and writes one timespec.
    while unsafe { libc::nanosleep(&raw const left, &raw mut left) } == -1 {}
}

/// Something that was found to be wrong.
#[must_use]
pub fn wrong(detail: String) -> Outcome {
    Outcome::Seen(Seen::Neither, detail)
}

/// Writes a message in one piece.
pub fn say(message: &Message) {
    let mut line = serde_json::to_string(message).expect("messages are plain data");
    line.push('\n');
    // Nobody is left to be told if the harness is gone.
    let _ = io::stdout().lock().write_all(line.as_bytes()).and_then(|()| io::stdout().flush());
}
