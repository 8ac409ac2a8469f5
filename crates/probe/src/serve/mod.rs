//! Many measurements, as standard input asks for them.
//!
//! One thread waits for everything at once: requests, what the runs say, their ends, signals, and
//! that the output takes more. Nothing of it blocks, so that whatever ends first ends the rest:
//! the input, the reader of the output, or this process by a signal. A run is a process of its
//! own, which the kernel ends with this one.
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
/// The most runs at a time.
const RUNS: usize = 64;
/// What is written at once, in bytes: what a pipe that takes anything takes without waiting
/// (PIPE_BUF).
const PIECE: usize = 4096;
/// What may wait for the reader before the runs are not listened to any more, in bytes.
const WAITING: usize = 4 << 20;
/// The exit status of what could not be started, as shells have it.
const NOT_STARTED: i32 = 126;

/// Answers until standard input ends.
///
/// # Errors
/// What the kernel refuses; not that somebody has gone.
pub fn run() -> Result<(), Box<dyn Error>> {
    Ok(converse(io::stdin().as_fd(), io::stdout().as_fd())?)
}

/// Answers on `output` what `input` asks for, until that ends, nobody reads the output, or a signal
/// asks this process to end (SIGTERM, SIGINT, SIGHUP). They may be one and the same. Then all
/// runs are ended and waited for.
///
/// # Errors
/// What the kernel refuses; not that somebody has gone.
pub fn converse(input: BorrowedFd<'_>, output: BorrowedFd<'_>) -> io::Result<()> {
    Conversation::new(Program::myself())?.hold(input, output)
}

struct Conversation {
    program: Program,
    signals: SignalFd,
    requests: Lines,
    runs: Vec<Run>,
    /// What the output has not taken yet.
    answers: VecDeque<u8>,
    /// Whether somebody may read it.
    is_heard: bool,
    /// When nobody is waited for any longer, since the end was asked for.
    until: Option<Instant>,
}

/// What has happened.
#[derive(Default)]
struct Events {
    signals: bool,
    input: bool,
    output: bool,
    gone: bool,
    /// Of each run: it has ended, or said something.
    ended: Vec<bool>,
    said: Vec<bool>,
}

impl Conversation {
    fn new(program: Program) -> io::Result<Self> {
        let mut mask = SigSet::empty();
        // Children of others, which end up here when this is process 1.
        mask.add(Signal::SIGCHLD);
        for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
            // What `nohup` or a shell has made it ignore stays ignored.
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
        // Where that has failed, nothing is left running.
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

    /// Waits until something happens.
    fn wait(&self, input: BorrowedFd<'_>, output: BorrowedFd<'_>) -> io::Result<Events> {
        let mut waited = vec![PollFd::new(&self.signals, PollFlags::IN)];
        // Asked for nothing, it still says that its reader has gone.
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

    /// Until the next run is ended by force, or the reader is waited for no longer.
    fn time_left(&self) -> Option<Timespec> {
        let runs = self.runs.iter().filter_map(Run::until);
        let own = self.until.map(|until| until + GRACE);
        let left = runs.chain(own).min()?.saturating_duration_since(Instant::now());
        // A little more than that: not to find, having waited, that it is not due yet.
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

    /// Process 1 inherits what others have left behind, and is to wait for it. Its own runs are
    /// waited for where their end is seen, so only those are looked at that none of them is.
    fn reap_others(&mut self) {
        // While there are runs, which of all children has ended cannot be asked without taking a
        // run's end away; the others wait for the last of them.
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
            // The end, also that of a terminal that was hung up.
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

    /// Passes on what the runs have said, and that they have ended.
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

    /// Records as they were printed, within an [`Answer::Record`].
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
            // Numbers and strings always can be written; and nobody is there to be told.
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
    // SAFETY: nothing is set; there is room for what is.
    unsafe {
        let mut now = std::mem::zeroed::<libc::sigaction>();
        libc::sigaction(signal as libc::c_int, std::ptr::null(), &raw mut now) == 0
            && now.sa_sigaction == libc::SIG_IGN
    }
}

#[cfg(test)]
mod tests;
