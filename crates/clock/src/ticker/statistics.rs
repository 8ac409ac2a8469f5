use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::EventId;

/// A ticker's statistics so far.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// The current events, and ended ones whose handle still exists.
    pub events: Vec<EventStatistics>,
    /// The delivered deadlines, including those of removed events.
    pub fired: u64,
    /// The missed deadlines, including those of removed events.
    pub missed: u64,
    /// The time spent spinning.
    pub spun: Duration,
    /// The waits in the kernel.
    pub waits: u64,
    /// The time spent in those waits.
    pub waited: Duration,
    /// How often it was kept from spinning: a gap between two clock readings longer than
    /// [`GAP`](super::GAP).
    pub gaps: u64,
    /// The total of those gaps: by interrupts, by the kernel's scheduler (a real-time thread that
    /// only spins is stopped for 50 ms of each second by default) or by the hypervisor.
    pub stolen: Duration,
    /// The longest of those gaps.
    pub longest_gap: Duration,
}

/// The statistics of one event.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventStatistics {
    /// The event.
    pub event: EventId,
    /// Its name.
    pub name: String,
    /// Whether it is the shielded one.
    pub shielded: bool,
    /// The deadlines that were delivered.
    pub fired: u64,
    /// The deadlines that were not, because a later one had passed before there was time.
    pub missed: u64,
    /// How late the last delivery was.
    pub last_miss: Option<Duration>,
    /// The largest lateness of a delivery.
    pub worst_miss: Duration,
    /// The ticks before which the thread was kept from spinning.
    pub preempted: u64,
    /// The total of those times.
    pub stolen: Duration,
    /// The longest time that a delivery took: the callback, or the call that wakes a reader.
    pub longest_delivery: Duration,
    /// The event whose delivery was running when this one was due, most recently: the longest, if
    /// there were several.
    pub delayed_by: Option<EventId>,
    /// The deadlines of other events that came during this one's deliveries.
    pub delayed_others: u64,
    /// How often it was held back because it would have run into the shield window.
    pub withheld: u64,
    /// How often the eventfd could not be written to.
    pub undelivered: u64,
    /// Why the event has ended, if it has.
    pub ended: Option<Ended>,
}

/// Why an event has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Ended {
    /// It had one deadline, which was delivered.
    Done,
    /// Its callback panicked.
    Panicked,
    /// Its handle was dropped.
    Removed,
    /// The ticker was dropped.
    Stopped,
    /// This process was forked from the one that has the ticker.
    Forked,
}

/// The sums over all events: written by the ticker's thread, read by all others.
#[derive(Debug, Default)]
pub(super) struct Totals {
    pub fired: AtomicU64,
    pub missed: AtomicU64,
    pub spun: AtomicU64,
    pub waits: AtomicU64,
    pub waited: AtomicU64,
    pub gaps: AtomicU64,
    pub stolen: AtomicU64,
    pub longest_gap: AtomicU64,
}

impl Totals {
    pub fn with(&self, events: Vec<EventStatistics>) -> Statistics {
        let load = |number: &AtomicU64| number.load(Relaxed);
        let length = |number: &AtomicU64| Duration::from_nanos(load(number));
        Statistics {
            events,
            fired: load(&self.fired),
            missed: load(&self.missed),
            spun: length(&self.spun),
            waits: load(&self.waits),
            waited: length(&self.waited),
            gaps: load(&self.gaps),
            stolen: length(&self.stolen),
            longest_gap: length(&self.longest_gap),
        }
    }
}

impl Statistics {
    /// The event during whose delivery the most deadlines of others came.
    #[must_use]
    pub fn culprit(&self) -> Option<&EventStatistics> {
        let worst = self.events.iter().max_by_key(|event| event.delayed_others)?;
        (worst.delayed_others > 0).then_some(worst)
    }
}

impl fmt::Display for Statistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} fired, {} missed; spun {:?}, waited {:?} in {} waits; {} gaps of {:?} in all, \
             {:?} at most",
            self.fired,
            self.missed,
            self.spun,
            self.waited,
            self.waits,
            self.gaps,
            self.stolen,
            self.longest_gap
        )?;
        self.events.iter().try_for_each(|event| write!(f, "\n{event}"))
    }
}

impl fmt::Display for EventStatistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { event, name, fired, missed, worst_miss, longest_delivery, .. } = self;
        write!(f, "{event}")?;
        if *name != event.to_string() {
            write!(f, " \"{name}\"")?;
        }
        if self.shielded {
            f.write_str(", shielded")?;
        }
        write!(f, ": {fired} fired, {missed} missed, at most {worst_miss:?} late")?;
        write!(f, ", {longest_delivery:?} to deliver")?;
        if self.preempted > 0 {
            write!(f, "; preempted {} times for {:?}", self.preempted, self.stolen)?;
        }
        if let Some(culprit) = self.delayed_by {
            write!(f, "; delayed by {culprit}")?;
        }
        for (number, what) in [
            (self.delayed_others, "delayed others"),
            (self.withheld, "held back for the shielded one"),
            (self.undelivered, "not delivered"),
        ] {
            if number > 0 {
                write!(f, "; {what} {number} times")?;
            }
        }
        self.ended.map_or(Ok(()), |ended| write!(f, "; {ended}"))
    }
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Done => "done",
            Self::Panicked => "its callback has panicked",
            Self::Removed => "removed",
            Self::Stopped => "the ticker has stopped",
            Self::Forked => "left behind by a fork",
        })
    }
}
