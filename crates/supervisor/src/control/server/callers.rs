//! Serves all callers, in its own thread that waits only for news.

use std::collections::HashMap;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

use eigentime_timeline::Clock;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use nix::unistd::Pid;
use serde_json::{Value, json};

use super::super::protocol::{self, Code, Event, Method, Moment, Outcome, Refusal, Reply};
use super::super::{Answer, Request};
use super::connection::{Connection, TooLong};
use super::methods;
use super::schedule::Schedule;
use super::waits::{Next, Wait};
use super::{Asked, Post, Token, Told, wake_tracer};
use crate::host;
use crate::proc::{self, Pidfd};
use crate::region::Region;
use crate::registry::Name;

/// How soon the tracing thread is woken again if it has not taken a request: the signal comes too
/// early if the thread is just about to wait.
const WAKE_AGAIN: Duration = Duration::from_millis(1);
const WAKE_AGAIN_AT_MOST: Duration = Duration::from_millis(64);

/// How long to wait before accepting the next caller if no descriptor is left for it.
const SHORTAGE: Duration = Duration::from_millis(100);

/// How long callers have at the end to read their answers.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// How many conditions a caller may wait for at once.
const MOST_WAITS: usize = 256;

/// What the thread starts with.
pub struct Ends {
    pub name: Name,
    /// Where it is.
    pub socket: Option<PathBuf>,
    pub region: Arc<Region>,
    pub listener: Arc<UnixListener>,
    /// Signals news from the tracing thread.
    pub bell: OwnedFd,
    pub asks: Sender<Asked>,
    pub told: Receiver<Told>,
    pub post: Post,
    pub is_watched: Arc<AtomicBool>,
}

/// All callers.
pub struct Callers {
    ends: Ends,
    connections: HashMap<u64, Connection>,
    /// How many IDs have been given to callers and requests.
    counted: u64,
    /// The requests that the tracing thread carries out.
    works: HashMap<Token, Work>,
    /// Requests that it has not taken, how soon it is woken again, and when.
    untaken: Vec<Arc<AtomicBool>>,
    wake_again: Duration,
    next_wake: Instant,
    waits: Vec<Wait>,
    /// The change that takes effect at an instant.
    schedule: Schedule,
    /// Requests to make once a process has ended.
    afters: Vec<(Pidfd, Request)>,
    /// The members whose end is reported, as long as a caller watches.
    members: HashMap<Pid, Pidfd>,
    /// Until when no caller is accepted, for lack of a descriptor.
    short_until: Option<Instant>,
}

/// For whom a request is carried out.
enum Work {
    /// A request of `eigentime` itself.
    Own { caller: u64 },
    /// One of the public protocol.
    Public { caller: u64, id: Value, method: Method },
    /// To find out whether a condition holds.
    Wait,
    /// A change whose instant has come.
    Scheduled,
    /// The outcome is not reported.
    Silent,
}

/// The origin of news.
enum Source {
    Bell,
    Listener,
    Connection(u64),
    After(usize),
    Member(Pid),
}

impl Callers {
    pub fn new(ends: Ends) -> Self {
        Self {
            ends,
            connections: HashMap::new(),
            counted: 0,
            works: HashMap::new(),
            untaken: Vec::new(),
            wake_again: WAKE_AGAIN,
            next_wake: Instant::now(),
            waits: Vec::new(),
            schedule: Schedule::default(),
            afters: Vec::new(),
            members: HashMap::new(),
            short_until: None,
        }
    }

    /// Serves callers until the tracing thread reports the end.
    pub fn serve(&mut self) {
        let end = loop {
            if let Some(end) = self.hear() {
                break end;
            }
            let next = [
                self.look_after_waits(),
                self.look_after_schedule(),
                self.wake_tracer_again(),
                self.short_until,
            ];
            let next = next.into_iter().flatten().min();
            self.connections.retain(|_, it| !it.is_gone);
            self.note_interest();
            self.attend(next);
        };
        self.finish(&end);
    }

    fn number(&mut self) -> u64 {
        self.counted += 1;
        self.counted
    }

    /// Takes the reports of the tracing thread; returns the final one.
    fn hear(&mut self) -> Option<Event> {
        while let Ok(told) = self.ends.told.try_recv() {
            match told {
                Told::Answer(token, answer) => self.pass_back(token, *answer),
                Told::Event(event) => self.tell(&event),
                Told::AskAfter(process, request) => self.afters.push((process, *request)),
                Told::Finish(event) => return Some(event),
            }
        }
        None
    }

    /// Waits for news until then, and handles it.
    fn attend(&mut self, until: Option<Instant>) {
        let mut sources = vec![(Source::Bell, self.ends.bell.as_fd(), PollFlags::POLLIN)];
        self.short_until = self.short_until.filter(|end| *end > Instant::now());
        if self.short_until.is_none() {
            sources.push((Source::Listener, self.ends.listener.as_fd(), PollFlags::POLLIN));
        }
        for (number, connection) in &self.connections {
            sources.push((Source::Connection(*number), connection.as_fd(), connection.interest()));
        }
        for (index, (process, _)) in self.afters.iter().enumerate() {
            sources.push((Source::After(index), process.0.as_fd(), PollFlags::POLLIN));
        }
        for (pid, process) in &self.members {
            sources.push((Source::Member(*pid), process.0.as_fd(), PollFlags::POLLIN));
        }
        let mut polled: Vec<_> = sources
            .iter()
            .map(|(_, descriptor, wanted)| PollFd::new(*descriptor, *wanted))
            .collect();
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        if ppoll(&mut polled, left.map(TimeSpec::from_duration), None).is_err() {
            // A signal that is passed on to a program.
            return;
        }
        let news: Vec<_> =
            polled.iter().map(|it| it.revents().unwrap_or(PollFlags::empty())).collect();
        drop(polled);
        let sources: Vec<_> = sources.into_iter().map(|(source, ..)| source).collect();
        let mut ended = Vec::new();
        for (source, news) in sources.into_iter().zip(news).filter(|(_, news)| !news.is_empty()) {
            match source {
                Source::Bell => {
                    // Only whether it was signalled matters.
                    let _ = nix::unistd::read(&self.ends.bell, &mut [0; 8]);
                }
                Source::Listener => self.accept(),
                Source::Connection(number) => self.attend_to(number, news),
                Source::After(index) => ended.push(index),
                Source::Member(pid) => {
                    self.members.remove(&pid);
                    self.tell(&Event::Ended { pid: pid.as_raw() });
                }
            }
        }
        for index in ended.into_iter().rev() {
            let (_, request) = self.afters.swap_remove(index);
            self.ask(Work::Silent, Pid::this(), request);
        }
    }

    /// Accepts callers.
    fn accept(&mut self) {
        loop {
            match self.ends.listener.accept() {
                Ok((stream, _)) => {
                    let number = self.number();
                    // A caller whose credentials cannot be read has hung up.
                    self.connections.extend(Connection::new(stream).ok().map(|it| (number, it)));
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                // No descriptor is left: the caller that has been silent longest is dropped.
                Err(_) => {
                    let waits = |number: &u64| self.waits.iter().any(|it| it.caller == *number);
                    let silent = self.connections.iter().filter(|(number, it)| {
                        !it.is_pending && !it.is_owed() && !it.watches && !waits(number)
                    });
                    match silent.min_by_key(|(_, it)| it.heard).map(|(number, _)| *number) {
                        Some(number) => drop(self.connections.remove(&number)),
                        None => {
                            self.short_until = Some(Instant::now() + SHORTAGE);
                            return;
                        }
                    }
                }
            }
        }
    }

    fn attend_to(&mut self, number: u64, news: PollFlags) {
        let Some(connection) = self.connections.get_mut(&number) else { return };
        if news.intersects(PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL) {
            // It has given up: what was reported as not done must not be done.
            connection.is_gone = true;
        } else {
            if news.contains(PollFlags::POLLOUT) {
                connection.flush();
                let moment = moment(&self.ends.region);
                connection.tell_lost(moment);
            }
            if news.contains(PollFlags::POLLIN) {
                connection.read();
            }
        }
        self.read_requests(number);
    }

    /// Takes requests of a caller, one after the other.
    fn read_requests(&mut self, number: u64) {
        while let Some(connection) = self.connections.get_mut(&number) {
            if connection.is_gone || connection.is_pending || connection.is_owed() {
                break;
            }
            match connection.next_line() {
                Some(line) => self.take_line(number, line),
                None => break,
            }
        }
        let has_waits = self.waits.iter().any(|it| it.caller == number);
        if let Some(it) = self.connections.get_mut(&number) {
            it.is_gone |=
                it.has_finished() && !(it.is_pending || it.is_owed() || it.watches || has_waits);
            if it.is_gone {
                self.waits.retain(|wait| wait.caller != number);
            }
        }
    }

    fn take_line(&mut self, number: u64, line: Result<String, TooLong>) {
        let invalid = |text: &str| Refusal::new(Code::InvalidRequest, text);
        let line = match line {
            Ok(line) => serde_json::from_str::<Value>(&line)
                .map_err(|error| invalid(&format!("the line is no JSON: {error}"))),
            Err(TooLong) => {
                Err(invalid(&format!("the line is longer than {} bytes", protocol::LONGEST)))
            }
        };
        let line = match line {
            Ok(line) => line,
            Err(refusal) => return self.reply(number, Value::Null, Outcome::Error(refusal)),
        };
        let Some(connection) = self.connections.get(&number) else { return };
        let (pid, is_owner) = (connection.pid, connection.is_owner);
        const FOREIGN: &str = "this timeline belongs to another user";
        if is_own_request(&line) {
            match serde_json::from_value(line) {
                _ if !is_owner => self.say(number, &Answer::Refused(FOREIGN.to_owned())),
                Ok(Request::Adopt { .. }) if self.schedule.is_pending() => {
                    let text = "a change of its clocks is scheduled, and a new supervisor would \
                                not know of it\n\
                                help: try again after the change";
                    self.say(number, &Answer::Refused(text.to_owned()));
                }
                Ok(request) => drop(self.ask(Work::Own { caller: number }, pid, request)),
                Err(error) => {
                    let text = format!("this version does not know that ({error})");
                    self.say(number, &Answer::Refused(text));
                }
            }
            return;
        }
        let (id, outcome) = match protocol::read_call(line) {
            Ok(protocol::Call { id, .. }) | Err((id, _)) if !is_owner => {
                (id, Some(Err(Refusal::new(Code::Forbidden, FOREIGN))))
            }
            Ok(call) => (call.id.clone(), self.call(number, pid, call)),
            Err((id, refusal)) => (id, Some(Err(refusal))),
        };
        if let Some(outcome) = outcome {
            self.reply(number, id, outcome.map_or_else(Outcome::Error, Outcome::Result));
        }
    }

    /// Starts a request of the public protocol; returns the answer, if it is already known.
    fn call(
        &mut self,
        number: u64,
        pid: Pid,
        call: protocol::Call,
    ) -> Option<Result<Value, Refusal>> {
        let protocol::Call { id, method, .. } = call;
        match methods::request(&method) {
            Err(text) => Some(Err(Refusal::new(Code::InvalidParams, text))),
            Ok(Some(Request::Change(changes, Some(at)))) => {
                Some(Ok(json!({ "scheduled": self.schedule.set(at, changes) })))
            }
            Ok(Some(request)) => {
                if let (Method::Watch {}, Some(caller)) =
                    (&method, self.connections.get_mut(&number))
                {
                    caller.watch();
                    // Events from here on are reported, even those already included in the answer.
                    self.note_interest();
                }
                self.ask(Work::Public { caller: number, id, method }, pid, request);
                None
            }
            Ok(None) => match method {
                Method::Wait(asked) => self.wait(number, id, asked).err().map(Err),
                _ => Some(Ok(methods::info(&self.ends.name, self.ends.socket.as_deref()))),
            },
        }
    }

    fn wait(&mut self, caller: u64, id: Value, asked: protocol::Wait) -> Result<(), Refusal> {
        if self.waits.iter().filter(|it| it.caller == caller).count() >= MOST_WAITS {
            let text = format!("more than {MOST_WAITS} waits on one connection");
            return Err(Refusal::new(Code::Refused, &text));
        }
        Wait::new(caller, id, asked, &self.ends.region).map(|wait| self.waits.push(wait))
    }

    /// Passes a request to the tracing thread.
    fn ask(&mut self, work: Work, caller: Pid, request: Request) -> Token {
        let token = Token(self.number());
        if let Work::Own { caller } | Work::Public { caller, .. } = &work
            && let Some(connection) = self.connections.get_mut(caller)
        {
            connection.is_pending = true;
        }
        self.works.insert(token, work);
        let taken = Arc::new(AtomicBool::new(false));
        self.untaken.push(Arc::clone(&taken));
        let post = self.ends.post.clone();
        // If the request is not taken any more, the end is about to be reported.
        let _ = self.ends.asks.send(Asked { request, caller, token, post, taken });
        wake_tracer();
        self.wake_again = WAKE_AGAIN;
        self.next_wake = Instant::now() + WAKE_AGAIN;
        token
    }

    /// Wakes the tracing thread again if it has not taken a request; returns when to wake it next.
    fn wake_tracer_again(&mut self) -> Option<Instant> {
        self.untaken.retain(|taken| !taken.load(Ordering::Relaxed));
        if self.untaken.is_empty() {
            return None;
        }
        let now = Instant::now();
        if now >= self.next_wake {
            wake_tracer();
            self.wake_again = (self.wake_again * 2).min(WAKE_AGAIN_AT_MOST);
            self.next_wake = now + self.wake_again;
        }
        Some(self.next_wake)
    }

    /// Passes on an answer of the tracing thread.
    fn pass_back(&mut self, token: Token, answer: Answer) {
        match self.works.remove(&token) {
            Some(Work::Own { caller }) => {
                self.is_answered(caller);
                self.say(caller, &answer);
                self.read_requests(caller);
            }
            Some(Work::Public { caller, id, method }) => {
                self.is_answered(caller);
                if let (Method::Watch {}, Answer::Shown(shown)) = (&method, &answer) {
                    self.follow(shown.members.iter().map(|member| Pid::from_raw(member.pid)));
                }
                let outcome = methods::outcome(&method, answer, &self.ends.name, &self.schedule);
                self.reply(caller, id, outcome);
                if let Some(connection) = self.connections.get_mut(&caller) {
                    connection.tell_early();
                }
                self.read_requests(caller);
            }
            Some(Work::Wait) => {
                let found = self.waits.iter_mut().enumerate();
                let found = found.filter_map(|(index, it)| Some((index, it.take(token, &answer)?)));
                let found: Vec<_> = found.collect();
                for (index, outcome) in found.into_iter().rev() {
                    self.end_wait(index, outcome);
                }
            }
            Some(Work::Scheduled) => self.schedule.is_answered(token, answer),
            Some(Work::Silent) | None => {}
        }
    }

    fn is_answered(&mut self, caller: u64) {
        if let Some(connection) = self.connections.get_mut(&caller) {
            connection.is_pending = false;
        }
    }

    /// Starts a change whose instant has come; returns when to check again.
    fn look_after_schedule(&mut self) -> Option<Instant> {
        if let Some(request) = self.schedule.due() {
            let token = self.ask(Work::Scheduled, Pid::this(), request);
            self.schedule.is_asked(token);
        }
        self.schedule.next()
    }

    /// Checks which conditions hold; returns when to check again.
    fn look_after_waits(&mut self) -> Option<Instant> {
        let connections = &self.connections;
        self.waits.retain(|wait| connections.contains_key(&wait.caller));
        let mut next: Option<Instant> = None;
        for index in (0..self.waits.len()).rev() {
            match self.waits[index].next(&self.ends.region) {
                Next::Answer(outcome) => self.end_wait(index, outcome),
                Next::Ask(request) => {
                    let token = self.ask(Work::Wait, Pid::this(), Request::clone(&request));
                    // The answer serves all waits for the same condition.
                    self.waits.iter_mut().for_each(|it| it.is_asked(&request, token));
                }
                Next::Rest(until) => next = [next, until].into_iter().flatten().min(),
            }
        }
        next
    }

    fn end_wait(&mut self, index: usize, outcome: Result<Value, Refusal>) {
        let Wait { caller, id, .. } = self.waits.swap_remove(index);
        self.reply(caller, id, outcome.map_or_else(Outcome::Error, Outcome::Result));
        self.read_requests(caller);
    }

    /// Tells the tracing thread whether any caller is interested in events.
    fn note_interest(&mut self) {
        let watched = self.connections.values().any(|it| it.watches);
        if !watched {
            self.members.clear();
        }
        self.ends.is_watched.store(watched || !self.waits.is_empty(), Ordering::Relaxed);
    }

    /// Reports an event to the watching callers.
    fn tell(&mut self, event: &Event) {
        let moment = moment(&self.ends.region);
        self.connections.values_mut().filter(|it| it.watches).for_each(|it| it.tell(event, moment));
        // The process may have ended already.
        if let Event::Joined { pid, .. } = event {
            let process = Pid::from_raw(*pid);
            self.waits.iter_mut().for_each(|wait| wait.hear_of(process));
            self.follow([process].into_iter());
        }
    }

    /// Arranges for the end of processes to be reported.
    fn follow(&mut self, processes: impl Iterator<Item = Pid>) {
        for pid in processes {
            // A process that is already gone has not been reported.
            if let Ok(process) = Pidfd::open(pid) {
                self.members.insert(pid, process);
            } else if proc::has_ended(pid) {
                self.tell(&Event::Ended { pid: pid.as_raw() });
            }
        }
    }

    fn reply(&mut self, number: u64, id: Value, outcome: Outcome) {
        let moment = moment(&self.ends.region);
        self.say(number, &Reply { id, moment, outcome });
    }

    fn say(&mut self, number: u64, line: &impl serde::Serialize) {
        if let Some(connection) = self.connections.get_mut(&number) {
            connection.say(line);
        }
    }

    /// Reports the end to all callers, and gives them a moment to read.
    fn finish(&mut self, end: &Event) {
        self.connections.values_mut().for_each(Connection::tell_early);
        self.tell(end);
        while let Some(wait) = self.waits.first() {
            let outcome = match end {
                Event::Moved {} => Err(Refusal::new(
                    Code::Moved,
                    "another supervisor has taken the timeline over\nhelp: connect again",
                )),
                _ if wait.is_for_end() => Ok(json!({})),
                _ => Err(Refusal::new(Code::Ended, "the timeline has ended")),
            };
            let Wait { caller, id, .. } = self.waits.swap_remove(0);
            self.reply(caller, id, outcome.map_or_else(Outcome::Error, Outcome::Result));
        }
        let patience = Instant::now() + LAST_WORDS;
        loop {
            self.connections.retain(|_, it| it.is_owed() && !it.is_gone);
            let left = patience.saturating_duration_since(Instant::now());
            if self.connections.is_empty() || left.is_zero() {
                return;
            }
            let descriptors = self.connections.values();
            let mut polled: Vec<_> =
                descriptors.map(|it| PollFd::new(it.as_fd(), PollFlags::POLLOUT)).collect();
            // Failure does not matter: flush tries in any case.
            let _ = ppoll(&mut polled, Some(TimeSpec::from_duration(left)), None);
            self.connections.values_mut().for_each(Connection::flush);
        }
    }
}

/// The reading of the wall clock.
fn moment(region: &Region) -> Moment {
    let host = host::read(Clock::Wall.id());
    Moment::new(host, region.page().view().at(Clock::Wall, host))
}

/// Whether it is a request of `eigentime` itself. Their names are capitalized.
fn is_own_request(line: &Value) -> bool {
    let name = match line {
        Value::String(name) => Some(name),
        Value::Object(fields) => fields.keys().next().filter(|_| fields.len() == 1),
        _ => None,
    };
    name.is_some_and(|name| name.starts_with(|letter: char| letter.is_ascii_uppercase()))
}
