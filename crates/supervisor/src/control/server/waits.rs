//! Conditions that callers wait for.

use std::mem::discriminant;
use std::time::{Duration, Instant};

use eigentime_timeline::{Clock, Nanos, VirtualInstant};
use nix::unistd::Pid;
use serde_json::{Value, json};
use syscalls::Sysno;

use super::super::protocol::{self, Blocked, Code, Refusal};
use super::super::{Answer, Member, Request, Shown, State};
use super::Token;
use crate::host;
use crate::proc;
use crate::region::Region;

/// How soon the tracing thread is asked again whether a condition holds, at first and later.
const SOON: Duration = Duration::from_millis(1);
const LATER: Duration = Duration::from_millis(50);

/// The longest sleep: the wall clock of the host may be set.
const LONGEST: Duration = Duration::from_secs(1);

/// Why a timeline makes no leaps.
pub const NO_SKIPS: &str = "it was made without --skip-idle\n\
                            help: make it with --skip-idle --skips 0 to allow leaps later";

/// Why waiting for a clock is futile.
const STANDS_STILL: &str = "the clocks are frozen\n\
                            help: `thaw` resumes them; `leap` moves them even while they are \
                            frozen";

/// A condition that a caller waits for.
pub struct Wait {
    /// The caller.
    pub caller: u64,
    /// The ID of its request.
    pub id: Value,
    condition: Condition,
    give_up: Option<Instant>,
    /// When to check whether it holds.
    look: Instant,
    pause: Duration,
    /// The pending request to the tracing thread.
    asked: Option<Token>,
    /// Why it did not hold at the last check; `None` before that.
    why: Option<String>,
}

enum Condition {
    /// A clock has reached this.
    Shows(Clock, VirtualInstant),
    Idle,
    Blocked(Blocked),
    Joined(Pid),
    Skipped,
    Empty,
    Ended,
}

/// The next step of a wait.
pub enum Next {
    /// Its answer.
    Answer(Result<Value, Refusal>),
    /// The tracing thread must be asked.
    Ask(Box<Request>),
    /// Nothing until then.
    Rest(Option<Instant>),
}

impl Wait {
    /// Parses a wait.
    ///
    /// # Errors
    ///
    /// If it does not name exactly one condition.
    pub fn new(
        caller: u64,
        id: Value,
        asked: protocol::Wait,
        region: &Region,
    ) -> Result<Self, Refusal> {
        let protocol::Wait { until, span, idle, blocked, joined, skipped, empty, ended, timeout } =
            asked;
        let call = blocked.as_ref().and_then(|blocked| blocked.call.as_deref());
        if let Some(call) = call.filter(|call| !is_call(call)) {
            let text = format!(
                "no system call is named '{call}'\nhelp: name one as in syscalls(2), such as poll"
            );
            return Err(Refusal::new(Code::InvalidParams, &text));
        }
        let after = |span: Nanos| {
            let now = host::read(Clock::Monotonic.id());
            let now = region.page().view().at(Clock::Monotonic, now);
            Condition::Shows(Clock::Monotonic, now.after(span))
        };
        let conditions = [
            until.map(|date| Condition::Shows(Clock::Wall, date.0)),
            span.map(|span| after(span.0)),
            idle.then_some(Condition::Idle),
            blocked.map(Condition::Blocked),
            joined.map(|pid| Condition::Joined(Pid::from_raw(pid))),
            skipped.then_some(Condition::Skipped),
            empty.then_some(Condition::Empty),
            ended.then_some(Condition::Ended),
        ];
        let mut conditions = conditions.into_iter().flatten();
        let (Some(condition), None) = (conditions.next(), conditions.next()) else {
            let text =
                "wait needs one of until, for, idle, blocked, joined, skipped, empty and ended";
            return Err(Refusal::new(Code::InvalidParams, text));
        };
        let now = Instant::now();
        let timeout = match timeout.map(|span| u64::try_from(span.0.0)).transpose() {
            Ok(timeout) => timeout.map(Duration::from_nanos),
            Err(_) => return Err(Refusal::new(Code::InvalidParams, "the timeout is negative")),
        };
        Ok(Self {
            caller,
            id,
            condition,
            give_up: timeout.and_then(|timeout| now.checked_add(timeout)),
            look: now,
            pause: SOON,
            asked: None,
            why: None,
        })
    }

    /// The next step of this wait.
    pub fn next(&mut self, region: &Region) -> Next {
        let now = Instant::now();
        if let Condition::Shows(clock, instant) = self.condition {
            let view = region.page().view();
            let host = host::read(clock.id());
            if view.at(clock, host) >= instant {
                return Next::Answer(Ok(json!({})));
            }
            let left = view.host_at(clock, instant).map(|at| at.since(host).0.max(0) as u64);
            self.why = left.is_none().then(|| STANDS_STILL.to_owned());
            self.look = now + left.map_or(LONGEST, Duration::from_nanos).min(LONGEST);
        }
        // The condition is checked at least once.
        let is_asked = self.request().is_some() && self.why.is_none();
        if !is_asked && self.give_up.is_some_and(|end| end <= now) {
            return Next::Answer(Err(Refusal::new(Code::Timeout, &self.describe())));
        }
        let is_due = self.asked.is_none() && self.look <= now;
        match self.request().filter(|_| is_due) {
            Some(request) => Next::Ask(Box::new(request)),
            None if self.asked.is_some() || self.is_for_end() => Next::Rest(self.give_up),
            None => Next::Rest(Some(self.give_up.map_or(self.look, |end| end.min(self.look)))),
        }
    }

    /// The request that checks the condition, if the tracing thread has to be asked.
    fn request(&self) -> Option<Request> {
        match self.condition {
            Condition::Idle => Some(Request::IsIdle),
            Condition::Blocked(_)
            | Condition::Joined(_)
            | Condition::Skipped
            | Condition::Empty => Some(Request::Show),
            Condition::Shows(..) | Condition::Ended => None,
        }
    }

    /// Records that the tracing thread has been asked this, if this wait can use the answer.
    pub fn is_asked(&mut self, request: &Request, token: Token) {
        let own = self.request().filter(|_| self.asked.is_none());
        if own.is_some_and(|own| discriminant(&own) == discriminant(request)) {
            self.asked = Some(token);
        }
    }

    /// Takes the answer of the tracing thread, if it is for this wait; returns the answer to the
    /// caller if the condition holds.
    pub fn take(&mut self, token: Token, answer: &Answer) -> Option<Result<Value, Refusal>> {
        self.asked.take_if(|asked| *asked == token)?;
        let found = match (&self.condition, answer) {
            (Condition::Idle, Answer::Idle(None)) => Ok(json!({})),
            (Condition::Idle, Answer::Idle(Some(why))) => Err(why.clone()),
            (Condition::Blocked(asked), Answer::Shown(shown)) => {
                blocked(asked, shown).ok_or_else(|| "no such thread waits".to_owned())
            }
            (Condition::Joined(process), Answer::Shown(shown)) => {
                let is_it = |it: &Member| it.pid == process.as_raw() && !it.starting;
                match shown.members.iter().any(is_it) || proc::has_ended(*process) {
                    true => Ok(json!({})),
                    false => Err(format!("process {process} has started no program in it")),
                }
            }
            (Condition::Skipped, Answer::Shown(shown)) => match &shown.skipping {
                None => return Some(Err(Refusal::new(Code::Refused, NO_SKIPS))),
                Some(skipping) if skipping.paused => Ok(json!({ "skipping": skipping })),
                Some(skipping) => Err(match skipping.held_by.first() {
                    _ if shown.timeline.state == State::Frozen => STANDS_STILL.to_owned(),
                    _ if shown.members.is_empty() => "it has no members".to_owned(),
                    Some(hold) => format!("the clocks are held: {hold}"),
                    None => "nothing is due".to_owned(),
                }),
            },
            (Condition::Empty, Answer::Shown(shown)) => match shown.members.len() {
                0 => Ok(json!({})),
                count => Err(format!("it has {count} member{}", if count == 1 { "" } else { "s" })),
            },
            _ => Err(String::new()),
        };
        self.look = Instant::now() + self.pause;
        self.pause = (self.pause * 2).min(LATER);
        found.map_err(|why| self.why = Some(why)).ok().map(Ok)
    }

    /// Checks at once, if it waits for this process to join.
    pub fn hear_of(&mut self, joined: Pid) {
        if matches!(self.condition, Condition::Joined(process) if process == joined) {
            self.look = Instant::now();
        }
    }

    /// Whether it waits for the end of the timeline.
    pub fn is_for_end(&self) -> bool {
        matches!(self.condition, Condition::Ended)
    }

    /// Describes what has not happened in time.
    fn describe(&self) -> String {
        let what = match self.condition {
            Condition::Shows(..) => "its clock has not reached that time",
            Condition::Idle => "it is not idle",
            Condition::Joined(_) => "it has not been joined",
            Condition::Blocked(_) => "the condition has not been met",
            Condition::Skipped => "it has not made all leaps that are allowed",
            Condition::Empty => "it is not empty",
            Condition::Ended => "it has not ended",
        };
        match &self.why {
            Some(why) if !why.is_empty() => format!("{what}: {why}"),
            _ => what.to_owned(),
        }
    }
}

/// Whether it is a name under which a waiting thread may be shown.
fn is_call(name: &str) -> bool {
    name.parse::<Sysno>().is_ok() || name.starts_with("system call ")
}

/// A thread that waits as requested.
fn blocked(asked: &Blocked, shown: &Shown) -> Option<Value> {
    let of_process = |pid: i32| asked.pid.is_none_or(|asked| asked == pid);
    let in_call = |call: &String| asked.call.as_ref().is_none_or(|asked| asked == call);
    let members = shown.members.iter().filter(|member| of_process(member.pid));
    members
        .flat_map(|member| member.threads.iter().map(|thread| (member.pid, thread)))
        .find(|(_, thread)| thread.call.as_ref().is_some_and(in_call))
        .map(|(pid, thread)| json!({ "pid": pid, "thread": thread }))
}
