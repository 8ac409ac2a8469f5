use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::record::Record;
use super::shared::{Added, Shared};
use super::{Counter, Ended, Error, Event, EventId, EventStatistics};

/// An event that was added. Dropping it removes the event: after that it is not delivered any more,
/// and its callback, if it was running on the ticker's thread, has returned (unless that callback
/// itself drops the handle).
#[must_use = "dropping the handle removes the event"]
pub struct EventHandle {
    shared: Arc<Shared>,
    record: Arc<Record>,
    counter: Option<Arc<Counter>>,
    eventfd: Option<Arc<OwnedFd>>,
    kept: bool,
}

impl EventHandle {
    /// Has an event delivered by the ticker.
    pub(super) fn add(shared: &Arc<Shared>, event: Event) -> Result<Self, Error> {
        let Added { record, counter, eventfd } = shared.add(event)?;
        Ok(Self { shared: Arc::clone(shared), record, counter, eventfd, kept: false })
    }

    /// The event's id.
    #[must_use]
    pub fn id(&self) -> EventId {
        self.record.id
    }

    /// The event's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.record.name
    }

    /// The number of delivered deadlines.
    #[must_use]
    pub fn fired(&self) -> u64 {
        self.record.seen.fired.load(Relaxed)
    }

    /// The number of missed deadlines, up to the last delivery.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.record.seen.missed.load(Relaxed)
    }

    /// How late the last delivery was.
    #[must_use]
    pub fn last_miss(&self) -> Option<Duration> {
        self.record.seen.last_miss()
    }

    /// The statistics of the event.
    #[must_use]
    pub fn statistics(&self) -> EventStatistics {
        EventStatistics { ended: self.ended(), ..self.record.statistics() }
    }

    /// Why the event has ended, if it has.
    #[must_use]
    pub fn ended(&self) -> Option<Ended> {
        if self.shared.is_forked() { Some(Ended::Forked) } else { self.record.ended() }
    }

    /// The counter that counts it, if any.
    #[must_use]
    pub fn counter(&self) -> Option<&Arc<Counter>> {
        self.counter.as_ref()
    }

    /// The eventfd that it is written to, if any.
    #[must_use]
    pub fn eventfd(&self) -> Option<BorrowedFd<'_>> {
        self.eventfd.as_ref().map(|descriptor| descriptor.as_fd())
    }

    /// Keeps the event without a handle, as long as the ticker lives.
    pub fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for EventHandle {
    fn drop(&mut self) {
        if !self.kept {
            self.shared.remove(&self.record);
        }
    }
}

impl fmt::Debug for EventHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("EventHandle").field(&self.statistics()).finish()
    }
}
