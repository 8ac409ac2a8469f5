//! Many measurements, as requested on standard input.
//!
//! One thread waits for everything at once: requests, output and ends of the runs, signals, and
//! room in the output. Nothing blocks, so whatever ends first ends the rest: the input, the reader
//! of the output, or this process by a signal. A run is a separate process, which the kernel ends
//! with this one.
//!
//! - `lines`: lines of bounded length.
//! - `run`: one measurement.

mod lines;
mod run;

use std::collections::VecDeque;
use std::error::Error;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use eigentime_probe::protocol::{Answer, Greeting, Request, VERSION};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, read, write};
use rustix::process::{WaitOptions, wait};
use serde::Serialize;

use lines::{Line, Lines};
use run::{GRACE, Program, Run};

/// The longest request, in bytes.
const REQUEST: usize = 64 << 10;
/// The maximum number of simultaneous runs.
const RUNS: usize = 64;
/// The bytes written at once: what a pipe that accepts anything accepts without blocking
/// (PIPE_BUF).
const PIECE: usize = 4096;
/// The bytes that may wait for the reader before reading from the runs is suspended.
const WAITING: usize = 4 << 20;
/// The exit status of a run that could not be started, as in shells.
const NOT_STARTED: i32 = 126;

/// Answers until standard input ends.
///
/// # Errors
/// The kernel's errors; not that the other end has gone.
pub fn run() -> Result<(), Box<dyn Error>> {
    Ok(converse(io::stdin().as_fd(), io::stdout().as_fd())?)
}

/// Answers on `output` the requests from `input`, until that ends, the output is closed, or a
/// signal asks this process to end (SIGTERM, SIGINT, SIGHUP). They may be the same. Then all runs
/// are ended and waited for.
///
/// # Errors
/// The kernel's errors; not that the other end has gone.
pub fn converse(input: BorrowedFd<'_>, output: BorrowedFd<'_>) -> io::Result<()> {
    Conversation::new(Program::myself())?.hold(input, output)
}

struct Conversation {
    program: Program,
    signals: SignalFd,
    requests: Lines,
    runs: Vec<Run>,
    /// Answers not yet written.
    answers: VecDeque<u8>,
    /// Whether the output is still open.
    is_heard: bool,
    /// The deadline of the shutdown, once it has begun.
    until: Option<Instant>,
}

/// The events of a wait.
#[derive(Default)]
struct Events {
    signals: bool,
    input: bool,
    output: bool,
    gone: bool,
    /// For each run, whether it has ended or produced output.
    ended: Vec<bool>,
    said: Vec<bool>,
}

impl Conversation {
    fn new(program: Program) -> io::Result<Self> {
        let mut mask = SigSet::empty();
        // For orphans reparented to this process when it is process 1.
        mask.add(Signal::SIGCHLD);
        for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
            // Signals ignored because of `nohup` or a shell stay ignored.
            if !is_ignored(signal) {
                mask.add(signal);
            }
        }
        mask.thread_block()?;
        let signals = SignalFd::with_flags(&mask, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
        Ok(Self {
            program,
            signals,
            requests: Lines::new(REQUEST),
            runs: Vec::new(),
            answers: VecDeque::new(),
            is_heard: true,
            until: None,
        })
    }

    fn hold(mut self, input: BorrowedFd<'_>, output: BorrowedFd<'_>) -> io::Result<()> {
        self.answer(&Greeting { probe: env!("CARGO_PKG_VERSION").into(), protocol: VERSION });
        let ended = self.go_on(input, output);
        // After a failure, nothing is left running.
        for mut run in self.runs {
            run.force();
            run.finish();
        }
        ended
    }

    fn go_on(&mut self, input: BorrowedFd<'_>, output: BorrowedFd<'_>) -> io::Result<()> {
        while !self.is_over() {
            let events = self.wait(input, output)?;
            if events.gone {
                self.nobody_hears();
            }
            if events.signals {
                self.take_signals()?;
            }
            if events.output {
                self.write(output);
            }
            self.hear_runs(&events);
            if events.input {
                self.hear(input);
            }
            self.force_those_due();
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        let has_said_all = self.answers.is_empty() || !self.is_heard;
        self.until.is_some_and(|until| {
            self.runs.is_empty() && (has_said_all || Instant::now() >= until + GRACE)
        })
    }

    /// Waits for an event.
    fn wait(&self, input: BorrowedFd<'_>, output: BorrowedFd<'_>) -> io::Result<Events> {
        let mut waited = vec![PollFd::new(&self.signals, PollFlags::IN)];
        // Without requested events, poll still reports that the reader has gone.
        let wanted = if self.answers.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
        let output = self.is_heard.then(|| PollFd::from_borrowed_fd(output, wanted));
        let input = self.until.is_none().then(|| PollFd::from_borrowed_fd(input, PollFlags::IN));
        let (has_output, has_input) = (output.is_some(), input.is_some());
        waited.extend(output.into_iter().chain(input));
        let is_full = self.is_heard && self.answers.len() > WAITING;
        let mut owners = Vec::new();
        for (at, run) in self.runs.iter().enumerate() {
            for (which, descriptor) in run.ended_and_said().into_iter().enumerate() {
                if let Some(descriptor) = descriptor.filter(|_| which == 0 || !is_full) {
                    waited.push(PollFd::new(descriptor, PollFlags::IN));
                    owners.push((at, which == 0));
                }
            }
        }
        match poll(&mut waited, self.time_left().as_ref()) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(Events::none(self.runs.len())),
            Err(error) => return Err(error.into()),
        }
        let mut found = waited.iter().map(PollFd::revents);
        let mut next = |is_there: bool| match is_there {
            true => found.next().unwrap_or(PollFlags::empty()),
            false => PollFlags::empty(),
        };
        let mut events = Events::none(self.runs.len());
        events.signals = !next(true).is_empty();
        let output = next(has_output);
        events.output = output.contains(PollFlags::OUT);
        events.gone = output.intersects(PollFlags::ERR | PollFlags::NVAL);
        events.input = !next(has_input).is_empty();
        for (at, is_end) in owners {
            let list = if is_end { &mut events.ended } else { &mut events.said };
            list[at] |= !next(true).is_empty();
        }
        Ok(events)
    }

    /// The time until the next run is killed, or the shutdown is forced.
    fn time_left(&self) -> Option<Timespec> {
        let runs = self.runs.iter().filter_map(Run::until);
        let own = self.until.map(|until| until + GRACE);
        let left = runs.chain(own).min()?.saturating_duration_since(Instant::now());
        // Slightly more, so that it is due after the wait.
        let left = left + Duration::from_millis(1);
        Timespec::try_from(left).ok()
    }

    fn take_signals(&mut self) -> io::Result<()> {
        while let Some(signal) = self.signals.read_signal()? {
            if signal.ssi_signo != Signal::SIGCHLD as u32 {
                self.end();
            }
        }
        if std::process::id() == 1 {
            self.reap_others();
        }
        Ok(())
    }

    /// Reaps orphans, which process 1 inherits. Its own runs are waited for where their end is
    /// detected, so this is done only when no child is one of them.
    fn reap_others(&mut self) {
        // While there are runs, waiting for any child could consume a run's exit status; orphans
        // wait for the last run.
        while self.runs.is_empty() && matches!(wait(WaitOptions::NOHANG), Ok(Some(_))) {}
    }

    /// Reads requests, and carries them out.
    fn hear(&mut self, input: BorrowedFd<'_>) {
        let mut piece = [0; PIECE];
        match read(input, &mut piece) {
            Ok(length @ 1..) => {
                for line in self.requests.complete(&piece[..length]) {
                    self.carry_out(&line);
                }
            }
            Err(Errno::INTR | Errno::AGAIN) => {}
            // The end, including that of a terminal that was hung up.
            Ok(0) | Err(_) => self.end(),
        }
    }

    fn carry_out(&mut self, line: &Line) {
        let request = match line {
            Line::Whole(text) => serde_json::from_slice(text).map_err(|why| why.to_string()),
            Line::TooLong => Err(format!("it is longer than {REQUEST} bytes")),
        };
        let refused = match request {
            Ok(Request::Run { id, arguments }) => self.start(id, &arguments),
            Ok(Request::Stop { id }) => match self.runs.iter_mut().find(|run| run.id == id) {
                Some(run) => {
                    run.stop(Instant::now());
                    Ok(())
                }
                None => Err(format!("there is no run {id}")),
            },
            Err(why) => Err(format!("this is no request: {why}")),
        };
        if let Err(why) = refused {
            self.answer(&Answer::Refused { why });
        }
    }

    fn start(&mut self, id: u64, arguments: &[String]) -> Result<(), String> {
        if self.runs.iter().any(|run| run.id == id) {
            return Err(format!("run {id} has not ended yet"));
        }
        if self.runs.len() == RUNS {
            return Err(format!("run {id}: there are {RUNS} already"));
        }
        match Run::start(id, &self.program, arguments) {
            Ok(run) => self.runs.push(run),
            Err(error) => {
                let error = format!("it cannot be started: {error}\n");
                self.answer(&Answer::Ended { id, status: NOT_STARTED, error });
            }
        }
        Ok(())
    }

    /// Forwards the output of the runs and their ends.
    fn hear_runs(&mut self, events: &Events) {
        let mut runs = std::mem::take(&mut self.runs);
        let number = events.ended.len();
        let rest = runs.split_off(number.min(runs.len()));
        for (at, mut run) in runs.into_iter().enumerate() {
            if events.ended[at] {
                let id = run.id;
                let (records, status, error) = run.finish();
                self.pass_on(id, records);
                self.answer(&Answer::Ended { id, status, error });
                continue;
            }
            if events.said[at] {
                let records = run.records();
                self.pass_on(run.id, records);
            }
            self.runs.push(run);
        }
        self.runs.extend(rest);
    }

    /// Forwards records as printed, within an [`Answer::Record`].
    fn pass_on(&mut self, id: u64, records: Vec<Vec<u8>>) {
        for record in records.iter().filter(|_| self.is_heard) {
            self.answers.extend(format!("{{\"record\":{{\"id\":{id},\"record\":").as_bytes());
            self.answers.extend(record);
            self.answers.extend(b"}}\n");
        }
    }

    fn answer(&mut self, answer: &impl Serialize) {
        match serde_json::to_vec(answer) {
            Ok(line) if self.is_heard => {
                self.answers.extend(line);
                self.answers.push_back(b'\n');
            }
            // Numbers and strings can always be written, and there is no one to report to.
            _ => {}
        }
    }

    fn write(&mut self, output: BorrowedFd<'_>) {
        let (waiting, _) = self.answers.as_slices();
        match write(output, &waiting[..waiting.len().min(PIECE)]) {
            Ok(length) => drop(self.answers.drain(..length)),
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(_) => self.nobody_hears(),
        }
    }

    fn nobody_hears(&mut self) {
        self.is_heard = false;
        self.answers.clear();
        self.end();
    }

    /// Ends the runs, and then the conversation.
    fn end(&mut self) {
        let now = Instant::now();
        self.until.get_or_insert(now + GRACE);
        for run in &mut self.runs {
            run.stop(now);
        }
    }

    fn force_those_due(&mut self) {
        let now = Instant::now();
        for run in &mut self.runs {
            if run.until().is_some_and(|until| until <= now) {
                run.force();
            }
        }
    }
}

impl Events {
    fn none(runs: usize) -> Self {
        Self { ended: vec![false; runs], said: vec![false; runs], ..Self::default() }
    }
}

fn is_ignored(signal: Signal) -> bool {
    // SAFETY: nothing is set; there is room for the result.
    unsafe {
        let mut now = std::mem::zeroed::<libc::sigaction>();
        libc::sigaction(signal as libc::c_int, std::ptr::null(), &raw mut now) == 0
            && now.sa_sigaction == libc::SIG_IGN
    }
}

#[cfg(test)]
mod tests;
