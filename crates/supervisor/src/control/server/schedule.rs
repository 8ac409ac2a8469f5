//! A change that takes effect at an instant of the host's wall clock.
//!
//! It is kept here instead of by the caller, so that it is made even if the caller is killed
//! meanwhile.

use std::time::{Duration, Instant};

use eigentime_timeline::{ClockId, HostInstant, Nanos};

use super::super::{Answer, Change, Fate, Request, Scheduled};
use super::Token;
use crate::host;

/// How long before its instant a change is passed to the tracing thread, which writes the switch
/// into the map at once: on a busy host, both threads may be woken milliseconds late. Programs that
/// set a timer, or whose calls must be answered, wait from then on.
const AHEAD: Nanos = Nanos(20_000_000);

/// The longest sleep: the wall clock of the host may be set.
const LONGEST: Duration = Duration::from_secs(1);

/// The last requested change.
#[derive(Default)]
pub struct Schedule {
    last: Option<Scheduled>,
    /// The changes, until the tracing thread is asked.
    changes: Option<Vec<Change>>,
    /// The request to the tracing thread.
    asked: Option<Token>,
}

impl Schedule {
    /// Sets a change, which replaces the last one if that is still pending.
    pub fn set(&mut self, at: HostInstant, changes: Vec<Change>) -> Scheduled {
        let scheduled = Scheduled { at_ns: at.as_nanos(), fate: Fate::Pending };
        *self = Self { last: Some(scheduled.clone()), changes: Some(changes), asked: None };
        scheduled
    }

    /// The change, and its outcome.
    pub fn shown(&self) -> Option<Scheduled> {
        self.last.clone()
    }

    /// Whether a change is pending.
    pub fn is_pending(&self) -> bool {
        self.last.as_ref().is_some_and(|last| last.fate == Fate::Pending)
    }

    /// How long until the tracing thread must be asked; nothing if it is time.
    fn left(&self) -> Option<Duration> {
        let at = HostInstant::from_nanos(self.last.as_ref()?.at_ns);
        let left = at.since(host::read(ClockId::REALTIME)).minus(AHEAD);
        u64::try_from(left.0).ok().filter(|left| *left > 0).map(Duration::from_nanos)
    }

    /// The request to make to the tracing thread now, if any.
    pub fn due(&mut self) -> Option<Request> {
        let at = HostInstant::from_nanos(self.last.as_ref()?.at_ns);
        let is_due = self.changes.is_some() && self.left().is_none();
        let changes = is_due.then(|| self.changes.take()).flatten()?;
        Some(Request::Change(changes, Some(at)))
    }

    /// Records that the tracing thread has been asked.
    pub fn is_asked(&mut self, token: Token) {
        self.asked = Some(token);
    }

    /// When to check again.
    pub fn next(&self) -> Option<Instant> {
        self.changes.as_ref()?;
        Some(Instant::now() + self.left().unwrap_or_default().min(LONGEST))
    }

    /// Records the answer of the tracing thread.
    pub fn is_answered(&mut self, token: Token, answer: Answer) {
        let is_last = self.asked.take_if(|asked| *asked == token).is_some();
        if let Some(last) = self.last.as_mut().filter(|_| is_last) {
            last.fate = match answer {
                Answer::Switched(late) => Fate::Made { late_ns: late.0 },
                Answer::Refused(reason) => Fate::Failed { reason },
                other => unreachable!("a change is answered {other:?}"),
            };
        }
    }
}
