//! A conversation with a probe, with timeouts for everything.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Read, Write};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

use eigentime_probe::Record;
use eigentime_probe::protocol::{Answer, Greeting, Request, VERSION};

use crate::levels::{Complaints, Level, Outcome, Unavailable};
use crate::stop::Stop;

/// How long a level may take to start: a virtual machine without hardware support is slow.
const GREETING: Duration = Duration::from_secs(180);

/// How long a stopped run may take to end: the probe kills it after two seconds.
const STOPPING: Duration = Duration::from_secs(10);

/// How long a probe's standard error may still arrive after it has gone.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// The maximum number of foreign lines before the greeting: the output of a starting shell.
const CHATTER: usize = 200;

/// How much of that is reported if no greeting comes, in characters.
const TOLD: usize = 300;

/// The beginning of a greeting: a shell's prompt may precede it on the line.
const GREETS: &str = "{\"probe\":";

/// The time after which waiting for a level is reported.
const SOON: Duration = Duration::from_secs(5);

/// The longest line, in bytes: longer than a million events.
const LINE: u64 = 16 << 20;

/// The maximum number of lines waiting to be taken.
const WAITING: usize = 8;

/// An event to wait for.
#[derive(Debug)]
enum Event {
    /// A line from the probe.
    Line(String),
    /// The end of the lines, with the error if there was one.
    End(Option<io::Error>),
    /// A request to stop the study.
    Stop,
}

/// Why a conversation failed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The level is unavailable.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// The probe is gone, or violates the protocol.
    #[error("level {level}: {what}{}{}", said(.complaints), helped(.help))]
    Broken {
        /// The level.
        level: String,
        /// What happened.
        what: String,
        /// Its standard error.
        complaints: String,
        /// A remedy, if known.
        help: Option<String>,
    },
    /// A run failed; the probe is still usable.
    #[error("level {level}: '{arguments}' ended with status {status}{}", said(.complaints))]
    Run {
        /// The level.
        level: String,
        /// The arguments of the run.
        arguments: String,
        /// Its exit status.
        status: i32,
        /// Its standard error.
        complaints: String,
    },
    /// The study was asked to stop.
    #[error("interrupted")]
    Stopped,
}

fn said(complaints: &str) -> String {
    if complaints.is_empty() { String::new() } else { format!(": {complaints}") }
}

fn helped(help: &Option<String>) -> String {
    help.as_ref().map_or_else(String::new, |help| format!("\nhelp: {help}"))
}

impl Failure {
    /// The failure without the level.
    #[must_use]
    pub fn what(&self) -> String {
        match self {
            Self::Broken { what, complaints, help, .. } => {
                format!("{what}{}{}", said(complaints), helped(help))
            }
            other => other.to_string(),
        }
    }
}

/// A run of the probe beside others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beside(u64);

/// A conversation. The probe ends when this is dropped.
pub struct Session {
    level: String,
    /// Dropped before `held`, which tells the probe to end.
    to: Option<Box<dyn Write + Send>>,
    events: Receiver<Event>,
    held: Option<Box<dyn Send>>,
    complaints: Complaints,
    outcome: Outcome,
    stop: Stop,
    next: u64,
    /// Runs beside others, and their records not yet taken.
    beside: BTreeMap<u64, Vec<Record>>,
    /// The properties of the level, besides the doctor's facts.
    pub notes: BTreeMap<String, String>,
}

impl Session {
    /// Opens a level and waits for the probe's greeting. If that takes long, `waits` is called
    /// once, with the timeout.
    ///
    /// # Errors
    /// If no probe can be reached.
    pub fn open(
        level: &dyn Level,
        stop: &Stop,
        waits: impl FnOnce(Duration),
    ) -> Result<Self, Failure> {
        if stop.is_asked() {
            return Err(Failure::Stopped);
        }
        let channel = match level.open(stop) {
            Ok(channel) => channel,
            Err(_) if stop.is_asked() => return Err(Failure::Stopped),
            Err(unavailable) => return Err(unavailable.into()),
        };
        let (sender, events) = mpsc::sync_channel(WAITING);
        stop.forget();
        let asked = sender.clone();
        // A receiver that no longer waits needs no event, and one without room for it does not
        // wait: it checks the request before it waits again.
        stop.wake(move || drop(asked.try_send(Event::Stop)));
        thread::spawn(move || forward(channel.from, &sender));
        let mut session = Self {
            level: level.name().to_owned(),
            to: Some(channel.to),
            events,
            held: Some(channel.held),
            complaints: channel.complaints,
            outcome: channel.outcome,
            stop: stop.clone(),
            next: 0,
            beside: BTreeMap::new(),
            notes: channel.notes,
        };
        // The request may have come between the first check and the registration.
        if stop.is_asked() {
            return Err(Failure::Stopped);
        }
        let greeting = session.greeting(waits).map_err(|failure| match failure {
            Failure::Broken { level: name, what, complaints, .. } => {
                let help = Some(level.help().to_owned());
                Failure::Broken { level: name, what, complaints, help }
            }
            other => other,
        })?;
        session.notes.insert("probe".into(), greeting.probe);
        Ok(session)
    }

    fn greeting(&mut self, waits: impl FnOnce(Duration)) -> Result<Greeting, Failure> {
        let until = Instant::now() + GREETING;
        let late = format!("the probe did not greet within {} s", GREETING.as_secs());
        let mut waits = Some(waits);
        let mut chatter = String::new();
        let mut lines = 0;
        while lines < CHATTER {
            let event = match waits.take() {
                None => self.wait(until),
                Some(waiting) => match self.wait(Instant::now() + SOON) {
                    Err(RecvTimeoutError::Timeout) => {
                        waiting(GREETING);
                        self.wait(until)
                    }
                    early => {
                        waits = Some(waiting);
                        early
                    }
                },
            };
            let line = self.taken(event, &late).map_err(|failure| match failure {
                Failure::Broken { level, what, complaints, help } => {
                    let what = format!("{what}{}", before(&chatter));
                    Failure::Broken { level, what, complaints, help }
                }
                other => other,
            })?;
            match greeting_in(&line) {
                Some(greeting) if greeting.protocol == VERSION => return Ok(greeting),
                Some(Greeting { probe, protocol }) => {
                    let what = format!(
                        "the probe, version {probe}, speaks protocol {protocol}, not {VERSION}"
                    );
                    return Err(self.broken(what));
                }
                None => note(&mut chatter, &line),
            }
            lines += 1;
        }
        Err(self.broken(format!("what answers is no probe{}", before(&chatter))))
    }

    /// Runs the probe with these arguments to its end, and passes its records to `each`.
    ///
    /// # Errors
    /// If it does not finish in time, ends with a status, or the study is asked to stop.
    pub fn run(
        &mut self,
        arguments: &[String],
        limit: Duration,
        mut each: impl FnMut(Record),
    ) -> Result<(), Failure> {
        let id = self.start(arguments)?;
        let until = Instant::now() + limit;
        let late = format!("'{}' took longer than {} s", arguments.join(" "), limit.as_secs());
        loop {
            match self.answer(until, &late)? {
                Answer::Record { id: of, record } if of == id => each(*record),
                Answer::Ended { id: of, status, error } if of == id => {
                    return match status {
                        0 => Ok(()),
                        status => Err(self.failed(arguments, status, error)),
                    };
                }
                other => self.aside(other)?,
            }
        }
    }

    /// Starts a run beside others, and waits for the first of its records that `is_it` accepts as
    /// the sign that it has begun.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn run_beside(
        &mut self,
        arguments: &[String],
        limit: Duration,
        mut is_it: impl FnMut(&Record) -> bool,
    ) -> Result<Beside, Failure> {
        let id = self.start(arguments)?;
        self.beside.insert(id, Vec::new());
        let until = Instant::now() + limit;
        let late = format!("'{}' did not begin in {} s", arguments.join(" "), limit.as_secs());
        loop {
            match self.answer(until, &late)? {
                Answer::Record { id: of, record } if of == id => {
                    let begun = is_it(&record);
                    self.beside.entry(id).or_default().push(*record);
                    if begun {
                        return Ok(Beside(id));
                    }
                }
                Answer::Ended { id: of, status, error } if of == id => {
                    self.beside.remove(&id);
                    return Err(self.failed(arguments, status, error));
                }
                other => self.aside(other)?,
            }
        }
    }

    /// Ends a run beside others, and returns all its records.
    ///
    /// # Errors
    /// If the communication with the probe fails.
    pub fn stop(&mut self, Beside(id): Beside) -> Result<Vec<Record>, Failure> {
        self.say(&Request::Stop { id })?;
        let until = Instant::now() + STOPPING;
        loop {
            match self.answer(until, "a load did not end")? {
                Answer::Record { id: of, record } if of == id => {
                    self.beside.entry(id).or_default().push(*record);
                }
                // It was killed by the signal, or ended by itself because of it: both are fine.
                Answer::Ended { id: of, .. } if of == id => {
                    return Ok(self.beside.remove(&id).unwrap_or_default());
                }
                other => self.aside(other)?,
            }
        }
    }

    fn start(&mut self, arguments: &[String]) -> Result<u64, Failure> {
        self.next += 1;
        let id = self.next;
        self.say(&Request::Run { id, arguments: arguments.to_vec() })?;
        Ok(id)
    }

    fn say(&mut self, request: &Request) -> Result<(), Failure> {
        let mut line = serde_json::to_string(request).expect("requests are plain data");
        line.push('\n');
        let said = match &mut self.to {
            Some(to) => to.write_all(line.as_bytes()).and_then(|()| to.flush()),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        };
        said.map_err(|cause| self.broken(format!("the probe does not listen any more: {cause}")))
    }

    /// Handles an answer for a run beside others, while another is awaited.
    fn aside(&mut self, answer: Answer) -> Result<(), Failure> {
        match answer {
            Answer::Record { id, record } => {
                if let Some(records) = self.beside.get_mut(&id) {
                    records.push(*record);
                }
                Ok(())
            }
            Answer::Ended { id, status, error } if self.beside.contains_key(&id) => {
                self.beside.remove(&id);
                let what = format!("the load ended by itself with status {status}{}", said(&error));
                Err(self.broken(what))
            }
            // The end of a run that was given up.
            Answer::Ended { .. } => Ok(()),
            Answer::Refused { why } => Err(self.broken(format!("the probe refused: {why}"))),
        }
    }

    fn answer(&mut self, until: Instant, late: &str) -> Result<Answer, Failure> {
        let line = self.line(until, late)?;
        serde_json::from_str(&line)
            .map_err(|error| self.broken(format!("the probe's answer is none: {error}: {line}")))
    }

    fn line(&mut self, until: Instant, late: &str) -> Result<String, Failure> {
        let event = self.wait(until);
        self.taken(event, late)
    }

    fn wait(&self, until: Instant) -> Result<Event, RecvTimeoutError> {
        // If lines are waiting, there may have been no room for the event.
        if self.stop.is_asked() {
            return Ok(Event::Stop);
        }
        self.events.recv_timeout(until.saturating_duration_since(Instant::now()))
    }

    fn taken(&self, event: Result<Event, RecvTimeoutError>, late: &str) -> Result<String, Failure> {
        match event {
            Ok(Event::Line(line)) => Ok(line),
            Ok(Event::Stop) => Err(Failure::Stopped),
            Ok(Event::End(cause)) => {
                let cause = cause.map_or_else(String::new, |cause| format!(" ({cause})"));
                Err(self.gone(&cause))
            }
            Err(RecvTimeoutError::Disconnected) => Err(self.gone("")),
            Err(RecvTimeoutError::Timeout) => Err(self.broken(late.to_owned())),
        }
    }

    fn gone(&self, cause: &str) -> Failure {
        // Its last messages come through another pipe, and may be in transit.
        let until = Instant::now() + LAST_WORDS;
        while (self.complaints.text().is_empty() || self.outcome.text().is_none())
            && Instant::now() < until
        {
            thread::sleep(Duration::from_millis(5));
        }
        let status = self.outcome.text().map_or_else(String::new, |it| format!(", {it}"));
        self.broken(format!("the probe has ended{cause}{status}"))
    }

    fn broken(&self, what: String) -> Failure {
        let (level, complaints) = (self.level.clone(), self.complaints.text());
        Failure::Broken { level, what, complaints, help: None }
    }

    fn failed(&self, arguments: &[String], status: i32, error: String) -> Failure {
        Failure::Run {
            level: self.level.clone(),
            arguments: arguments.join(" "),
            status,
            complaints: error.trim().to_owned(),
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.to = None;
        self.held = None;
    }
}

/// The greeting in a line.
fn greeting_in(line: &str) -> Option<Greeting> {
    let begin = line.find(GREETS)?;
    let mut values = serde_json::Deserializer::from_str(&line[begin..]).into_iter();
    values.next()?.ok()
}

/// Keeps the beginning of the foreign output.
fn note(chatter: &mut String, line: &str) {
    let room = TOLD.saturating_sub(chatter.chars().count());
    let separator = if chatter.is_empty() { "" } else { " | " };
    let printable = line.chars().filter(|letter| !letter.is_control());
    chatter.extend(separator.chars().chain(printable).take(room));
}

fn before(chatter: &str) -> String {
    if chatter.is_empty() { String::new() } else { format!("; it said '{chatter}'") }
}

/// Forwards lines until their end. Unwanted ones are still read, so that their writer can finish.
fn forward(mut from: impl BufRead, to: &SyncSender<Event>) {
    loop {
        let mut line = Vec::new();
        let event = match (&mut from).take(LINE).read_until(b'\n', &mut line) {
            Ok(0) => Event::End(None),
            Ok(_) if line.len() as u64 == LINE => {
                let why = format!("it sends a line of more than {} MiB", LINE >> 20);
                Event::End(Some(io::Error::new(io::ErrorKind::InvalidData, why)))
            }
            Ok(_) => Event::Line(String::from_utf8_lossy(&line).trim_end().to_owned()),
            Err(cause) => Event::End(Some(cause)),
        };
        let is_end = matches!(event, Event::End(_));
        if to.send(event).is_err() || is_end {
            break;
        }
    }
    // An error recurs, and then ends it.
    let _ = io::copy(&mut from, &mut io::sink());
}

#[cfg(test)]
mod tests;
