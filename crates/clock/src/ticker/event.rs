use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use super::Counter;
use crate::Instant;

/// What is to be delivered, when and to whom: see [`Ticker::add`](super::Ticker::add).
///
/// Without a callback, an eventfd or a counter, it gets a counter of its own, which the handle
/// has. The last that is given is the one that counts.
#[must_use = "an event does nothing until it is added to a ticker"]
pub struct Event {
    pub(super) rhythm: Rhythm,
    pub(super) start: Option<Instant>,
    pub(super) shielded: bool,
    pub(super) name: Option<String>,
    pub(super) to: To,
}

/// When.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rhythm {
    Every(Duration),
    Once(Instant),
}

/// To whom.
pub(super) enum To {
    Callback(Callback),
    Eventfd(OwnedFd),
    NewEventfd,
    Counter(Arc<Counter>),
}

pub(super) type Callback = Box<dyn FnMut(Tick) + Send>;

/// Which event, in the order in which a ticker was given them; from 1 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventId(pub(super) u64);

/// A deadline that has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tick {
    /// Whose.
    pub event: EventId,
    /// Which one of the event's deadlines, from 0 on, the missed ones counted.
    pub number: u64,
    /// The deadline: the start and `number` periods.
    pub due: Instant,
    /// When it was seen that the deadline has come: what follows at once is the delivery.
    pub fired: Instant,
    /// The deadlines since the last tick that were not delivered.
    pub missed: u64,
    /// How long the thread was kept from spinning before this tick, by interrupts, the kernel's
    /// scheduler or the hypervisor: the sum of the gaps between two readings of the clock that
    /// were longer than [`GAP`](super::GAP).
    pub stolen: Duration,
}

impl Event {
    fn new(rhythm: Rhythm) -> Self {
        let to = To::Counter(Arc::new(Counter::new()));
        Self { rhythm, start: None, shielded: false, name: None, to }
    }

    /// Again and again: each `period` after its start, which is a period after it is added unless
    /// [`Event::starting`] says otherwise. From [`SHORTEST`](super::SHORTEST) on.
    pub fn every(period: Duration) -> Self {
        Self::new(Rhythm::Every(period))
    }

    /// Once. If that is over already: at once.
    pub fn once(at: Instant) -> Self {
        Self::new(Rhythm::Once(at))
    }

    /// The first deadline. If that is over, then it gives the phase: the first deadline is the
    /// next one that is a whole number of periods after it.
    pub fn starting(mut self, start: Instant) -> Self {
        self.start = Some(start);
        self
    }

    /// This is the one before whose deadlines the ticker does nothing else: see the
    /// [module's documentation](super). A ticker has one such event at most.
    pub fn shielded(mut self) -> Self {
        self.shielded = true;
        self
    }

    /// What it is called in the statistics.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Calls this on the ticker's thread, where nothing else is delivered meanwhile: so it should
    /// be short. It can add events and drop handles, its own among them. If it panics, the event
    /// ends (see [`Ended::Panicked`](super::Ended)), unless panics abort the program.
    pub fn callback(mut self, callback: impl FnMut(Tick) + Send + 'static) -> Self {
        self.to = To::Callback(Box::new(callback));
        self
    }

    /// Adds the number of deadlines that have come, 1 and those missed, to this eventfd, as a
    /// timerfd would. It must have been made with EFD_NONBLOCK, and stay so, since it is never
    /// waited for: what it cannot hold is counted as
    /// [undelivered](super::EventStatistics::undelivered).
    pub fn eventfd(mut self, descriptor: OwnedFd) -> Self {
        self.to = To::Eventfd(descriptor);
        self
    }

    /// The same with an eventfd that is made now, which does not block when read: see
    /// [`EventHandle::eventfd`](super::EventHandle::eventfd).
    pub fn new_eventfd(mut self) -> Self {
        self.to = To::NewEventfd;
        self
    }

    /// Counts here, and wakes those who wait for it.
    pub fn counter(mut self, counter: Arc<Counter>) -> Self {
        self.to = To::Counter(counter);
        self
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event")
            .field("rhythm", &self.rhythm)
            .field("start", &self.start)
            .field("shielded", &self.shielded)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "event {}", self.0)
    }
}

impl EventId {
    /// The number.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0
    }
}

impl Tick {
    /// How late it is.
    #[must_use]
    pub fn miss(&self) -> Duration {
        self.fired - self.due
    }

    /// Whether the thread was kept from spinning before it: then its lateness is not the
    /// ticker's.
    #[must_use]
    pub fn preempted(&self) -> bool {
        !self.stolen.is_zero()
    }
}
