//! A timeline and its probes, as seen from outside.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::message::{Message, Outcome, What};
use crate::serve::{Order, readings};
use crate::timelines::Timeline;

/// The maximum time for a timeline to start, and to end.
const START: Duration = Duration::from_secs(20);
const FINISH: Duration = Duration::from_secs(5);
/// The maximum time of a probe beyond its wait.
const PATIENCE: Duration = Duration::from_secs(3);

/// The detail for a probe that had to be killed.
pub const DID_NOT_END: &str = "it did not end";

/// All readings of the host, made by the harness itself.
pub type HostReadings = Vec<Option<i64>>;

/// Readings in the timeline and, before and after, on the host.
#[derive(Clone, Debug)]
pub struct Readings {
    /// On the host, before.
    pub before: HostReadings,
    /// In the timeline.
    pub shown: Vec<Option<i64>>,
    /// On the host, after.
    pub after: HostReadings,
}

/// The result of an order.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The finding of the probe.
    pub outcome: Outcome,
    /// The duration of its wait on the host.
    pub lasted: Option<Duration>,
}

/// A running timeline.
pub struct Session {
    child: Child,
    orders: ChildStdin,
    messages: Receiver<(Instant, Message)>,
    errors: JoinHandle<String>,
    last: u32,
    running: Vec<Running>,
    /// The host's readings before and after the timeline began.
    pub began: [HostReadings; 2],
}

/// An order being carried out.
struct Running {
    order: u32,
    until: Instant,
    begun: Option<Instant>,
    ended: Option<Instant>,
    found: Option<Outcome>,
    /// Whether it was ordered to end.
    over: bool,
}

impl Session {
    /// Starts a timeline with `command`, which lacks only the name of the timeline. The error on
    /// failure is the text on standard error.
    pub fn start(mut command: Command, timeline: &Timeline) -> Result<Self, String> {
        let before = readings();
        command.arg(timeline.name).stdin(Stdio::piped());
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{}: {error}", command.get_program().display()))?;
        let orders = child.stdin.take().expect("it is piped");
        let output = child.stdout.take().expect("it is piped");
        let mut error_output = child.stderr.take().expect("it is piped");
        let (tell, messages) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                let now = Instant::now();
                let Ok(message) = serde_json::from_str(&line) else { continue };
                if tell.send((now, message)).is_err() {
                    return;
                }
            }
        });
        let errors = thread::spawn(move || {
            let mut text = Vec::new();
            // On an error, the text received so far is kept.
            let _ = error_output.read_to_end(&mut text);
            String::from_utf8_lossy(&text).into_owned()
        });
        let mut session = Self {
            child,
            orders,
            messages,
            errors,
            last: 0,
            running: Vec::new(),
            began: [before, Vec::new()],
        };
        match session.messages.recv_timeout(START) {
            Ok((_, Message { what: What::Ready, .. })) => {
                session.began[1] = readings();
                Ok(session)
            }
            other => {
                let errors = session.finish();
                let first = errors.lines().find(|line| !line.is_empty());
                Err(first.map_or_else(|| format!("it did not start: {other:?}"), str::to_owned))
            }
        }
    }

    /// Makes the probes test interfaces, up to `at_once` at the same time; `each` receives the
    /// answers as they arrive.
    pub fn run(
        &mut self,
        interfaces: &[usize],
        at_once: usize,
        waits: Duration,
        mut each: impl FnMut(usize, Answer),
    ) -> Result<(), String> {
        let mut left = interfaces.iter();
        let mut orders = Vec::new();
        loop {
            while self.running.len() < at_once {
                let Some(interface) = left.next() else { break };
                let order = self.order(|order| Order::Run(order, *interface), waits)?;
                orders.push((order, *interface));
            }
            if self.running.is_empty() {
                return Ok(());
            }
            if let Some((order, answer)) = self.next()? {
                let interface = orders.iter().find(|(other, _)| *other == order);
                each(interface.expect("it was given").1, answer);
            }
        }
    }

    /// Makes all readings.
    pub fn read(&mut self) -> Result<Readings, String> {
        let before = readings();
        self.order(Order::Read, Duration::ZERO)?;
        loop {
            if let Some((_, answer)) = self.next()? {
                let after = readings();
                return match answer.outcome {
                    Outcome::Readings(shown) => Ok(Readings { before, shown, after }),
                    other => Err(format!("no readings: {other:?}")),
                };
            }
        }
    }

    /// Gives an order.
    fn order(&mut self, order: impl FnOnce(u32) -> Order, waits: Duration) -> Result<u32, String> {
        self.last += 1;
        self.send(order(self.last))?;
        self.running.push(Running {
            order: self.last,
            until: Instant::now() + waits + PATIENCE,
            begun: None,
            ended: None,
            found: None,
            over: false,
        });
        Ok(self.last)
    }

    fn send(&mut self, order: Order) -> Result<(), String> {
        let line = order.line();
        self.orders.write_all(line.as_bytes()).map_err(|error| format!("it ended: {error}"))
    }

    /// Waits for a message; returns an answer if it completes an order.
    fn next(&mut self) -> Result<Option<(u32, Answer)>, String> {
        let now = Instant::now();
        let until = self.running.iter().map(|one| one.until).min().unwrap_or(now + PATIENCE);
        match self.messages.recv_timeout(until.saturating_duration_since(now)) {
            Ok((at, message)) => Ok(self.note(at, message)),
            Err(RecvTimeoutError::Timeout) => {
                self.end_late()?;
                Ok(None)
            }
            Err(RecvTimeoutError::Disconnected) => Err("the timeline ended".into()),
        }
    }

    /// Ends orders that take too long.
    fn end_late(&mut self) -> Result<(), String> {
        let now = Instant::now();
        let mut late = Vec::new();
        for one in self.running.iter_mut().filter(|one| one.until <= now) {
            if one.over {
                return Err("a probe cannot be ended".into());
            }
            one.over = true;
            one.until = now + PATIENCE;
            late.push(one.order);
        }
        late.into_iter().try_for_each(|order| self.send(Order::End(order)))
    }

    fn note(&mut self, at: Instant, message: Message) -> Option<(u32, Answer)> {
        let index = self.running.iter().position(|one| one.order == message.order)?;
        let one = &mut self.running[index];
        match message.what {
            What::Ready => {}
            What::Begin => one.begun = Some(at),
            What::End => one.ended = Some(at),
            What::Found(outcome) => one.found = Some(outcome),
            What::Exit(status) => {
                let one = self.running.swap_remove(index);
                let outcome = one.found.unwrap_or_else(|| {
                    Outcome::Broken(if one.over {
                        DID_NOT_END.into()
                    } else {
                        format!("its process ended ({})", exit_text(status))
                    })
                });
                let lasted = one.begun.zip(one.ended).map(|(begun, ended)| ended - begun);
                return Some((message.order, Answer { outcome, lasted }));
            }
        }
        None
    }

    /// Ends the timeline, and returns the text on its standard error.
    pub fn finish(mut self) -> String {
        drop(self.orders);
        let until = Instant::now() + FINISH;
        while matches!(self.child.try_wait(), Ok(None)) {
            if Instant::now() > until {
                let _ = self.child.kill();
                let _ = self.child.wait();
                break;
            }
            thread::sleep(Duration::from_millis(5));
        }
        // A remaining program keeps it open; then there is no text.
        while !self.errors.is_finished() && Instant::now() < until {
            thread::sleep(Duration::from_millis(5));
        }
        if self.errors.is_finished() {
            self.errors.join().unwrap_or_default()
        } else {
            String::new()
        }
    }
}

/// The text for a wait status.
fn exit_text(status: i32) -> String {
    if libc::WIFSIGNALED(status) {
        format!("signal {}", libc::WTERMSIG(status))
    } else {
        format!("status {}", libc::WEXITSTATUS(status))
    }
}
