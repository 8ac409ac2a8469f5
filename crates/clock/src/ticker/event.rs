use std::fmt;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use super::Counter;
use crate::Instant;

/// What to deliver, when and to whom: see [`Ticker::add`](super::Ticker::add).
///
/// Without a callback, an eventfd or a counter, it gets a counter of its own, which the handle has.
/// If several are given, the last one counts.
#[must_use = "an event does nothing until it is added to a ticker"]
pub struct Event {
    pub(super) rhythm: Rhythm,
    pub(super) start: Option<Instant>,
    pub(super) shielded: bool,
    pub(super) name: Option<String>,
    pub(super) to: To,
}

/// When an event is due.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rhythm {
    Every(Duration),
    Once(Instant),
}

/// The receiver of an event.
pub(super) enum To {
    Callback(Callback),
    Eventfd(OwnedFd),
    NewEventfd,
    Counter(Arc<Counter>),
}

pub(super) type Callback = Box<dyn FnMut(Tick) + Send>;

/// The id of an event, in the order in which a ticker was given them, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventId(pub(super) u64);

/// A deadline that has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tick {
    /// The event.
    pub event: EventId,
    /// Which of the event's deadlines, from 0, counting missed ones.
    pub number: u64,
    /// The deadline: the start plus `number` periods.
    pub due: Instant,
    /// When the deadline was seen to have passed: the delivery follows at once.
    pub fired: Instant,
    /// The deadlines since the last tick that were not delivered.
    pub missed: u64,
    /// How long the thread was kept from spinning before this tick, by interrupts, the kernel's
    /// scheduler or the hypervisor: the sum of the gaps between two clock readings that were longer
    /// than [`GAP`](super::GAP).
    pub stolen: Duration,
}

impl Event {
    fn new(rhythm: Rhythm) -> Self {
        let to = To::Counter(Arc::new(Counter::new()));
        Self { rhythm, start: None, shielded: false, name: None, to }
    }

    /// A periodic event: at each `period` after its start, which is one period after it is added
    /// unless [`Event::starting`] says otherwise. The shortest period is
    /// [`SHORTEST`](super::SHORTEST).
    pub fn every(period: Duration) -> Self {
        Self::new(Rhythm::Every(period))
    }

    /// A single event; immediate if the instant has passed.
    pub fn once(at: Instant) -> Self {
        Self::new(Rhythm::Once(at))
    }

    /// Sets the first deadline. If that has passed, it sets the phase: the first deadline is the
    /// next one that is a whole number of periods after it.
    pub fn starting(mut self, start: Instant) -> Self {
        self.start = Some(start);
        self
    }

    /// Shields the event: the ticker does nothing else before its deadlines; see the [module's
    /// documentation](super). A ticker has at most one such event.
    pub fn shielded(mut self) -> Self {
        self.shielded = true;
        self
    }

    /// Sets its name in the statistics.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Delivers by calling this on the ticker's thread. Nothing else is delivered meanwhile, so it
    /// should be short. It can add events and drop handles, including its own. If it panics, the
    /// event ends (see [`Ended::Panicked`](super::Ended)), unless panics abort the program.
    pub fn callback(mut self, callback: impl FnMut(Tick) + Send + 'static) -> Self {
        self.to = To::Callback(Box::new(callback));
        self
    }

    /// Delivers by adding the number of deadlines that have passed, 1 plus those missed, to this
    /// eventfd, as a timerfd would. It must have been created with EFD_NONBLOCK, and stay so, since
    /// the ticker never waits for it: what it cannot hold is counted as
    /// [undelivered](super::EventStatistics::undelivered).
    pub fn eventfd(mut self, descriptor: OwnedFd) -> Self {
        self.to = To::Eventfd(descriptor);
        self
    }

    /// Delivers to a new eventfd, which does not block when read: see
    /// [`EventHandle::eventfd`](super::EventHandle::eventfd).
    pub fn new_eventfd(mut self) -> Self {
        self.to = To::NewEventfd;
        self
    }

    /// Delivers by counting here, and wakes those who wait for the counter.
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

    /// Whether the thread was kept from spinning before it: then its lateness is not the ticker's.
    #[must_use]
    pub fn preempted(&self) -> bool {
        !self.stolen.is_zero()
    }
}
