use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

use crossbeam_queue::ArrayQueue;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{OFlags, fcntl_getfl, readlink};
use rustix::process::{Pid, getpid};

use super::event::{Rhythm, To};
use super::record::{Delivery, Record, contained};
use super::schedule::{Nanos, Times};
use super::statistics::Totals;
use super::{Counter, Error, Event, EventId, SHORTEST, Statistics};
use crate::{Clock, Instant};

/// The state shared by the ticker's thread and its users. The thread never waits for it: messages
/// reach it through the lock-free inbox.
#[derive(Debug)]
pub struct Shared {
    pub clock: Clock,
    pub inbox: ArrayQueue<Message>,
    pub totals: Totals,
    /// The thread is in the kernel, or about to be, and must be woken with the bell.
    pub asleep: AtomicBool,
    /// An eventfd.
    pub bell: OwnedFd,
    process: Pid,
    thread: OnceLock<ThreadId>,
    stop: AtomicBool,
    /// A callback has stopped the thread: nothing waits for its end.
    abandoned: AtomicBool,
    /// The thread accepts no more messages.
    closed: AtomicBool,
    capacity: usize,
    /// Events that the thread has or will have.
    live: AtomicUsize,
    last_id: AtomicU64,
    /// The event that has the shield, or [`NOBODY`].
    shielded: AtomicU64,
    /// For statistics, and so that the memory of events is freed by threads that add others.
    records: Mutex<Records>,
}

/// All events that may still be in use.
#[derive(Debug, Default)]
struct Records {
    all: Vec<Arc<Record>>,
    /// The number of records at which unused ones are pruned: twice as many as were left the last
    /// time, so that adding an event does not scan all others.
    room: usize,
}

/// A number too small to prune.
const FEW: usize = 32;

/// A message to the thread.
#[derive(Debug)]
pub enum Message {
    Add(Arc<Record>),
    Remove(Arc<Record>),
}

/// An event that was added, and its counter or its eventfd, if it has one.
pub struct Added {
    pub record: Arc<Record>,
    pub counter: Option<Arc<Counter>>,
    pub eventfd: Option<Arc<OwnedFd>>,
}

const NOBODY: u64 = 0;

impl Shared {
    pub fn new(clock: Clock, capacity: usize) -> Result<Self, rustix::io::Errno> {
        Ok(Self {
            clock,
            // Each event is added once and removed once.
            inbox: ArrayQueue::new(capacity * 2),
            totals: Totals::default(),
            asleep: AtomicBool::new(false),
            bell: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            process: getpid(),
            thread: OnceLock::new(),
            stop: AtomicBool::new(false),
            abandoned: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            capacity,
            live: AtomicUsize::new(0),
            last_id: AtomicU64::new(NOBODY),
            shielded: AtomicU64::new(NOBODY),
            records: Mutex::default(),
        })
    }

    /// Whether this process was forked from the one that has the thread.
    pub fn is_forked(&self) -> bool {
        getpid() != self.process
    }

    /// Registers the caller as the ticker's thread.
    pub fn begin(&self) {
        self.thread.get_or_init(|| thread::current().id());
    }

    /// Whether the caller is the ticker's thread.
    pub fn is_within(&self) -> bool {
        self.thread.get() == Some(&thread::current().id())
    }

    pub fn add(&self, event: Event) -> Result<Added, Error> {
        if self.is_forked() {
            return Err(Error::Forked);
        }
        let times = self.times(&event)?;
        let delivery = delivery(event.to)?;
        let counter = match &delivery {
            Delivery::Counter(counter) => Some(Arc::clone(counter)),
            _ => None,
        };
        let eventfd = match &delivery {
            Delivery::Eventfd(descriptor) => Some(Arc::clone(descriptor)),
            _ => None,
        };
        let id = EventId(self.last_id.fetch_add(1, SeqCst) + 1);
        let name = event.name.unwrap_or_else(|| id.to_string());
        let record = Arc::new(Record::new(id, name, times, event.shielded, delivery));
        let added = self.enter(&record);
        if let (Err(_), Some(counter)) = (&added, &counter) {
            counter.give_back();
        }
        added?;
        Ok(Added { record, counter, eventfd })
    }

    fn enter(&self, record: &Arc<Record>) -> Result<(), Error> {
        if record.shielded
            && let Err(other) = self.shielded.compare_exchange(NOBODY, record.id.0, SeqCst, SeqCst)
        {
            let by = EventId(other);
            let find = |record: &&Arc<Record>| record.id == by;
            let name = self.records().all.iter().find(find).map(|record| record.name.clone());
            return Err(Error::Shielded { by, name: name.unwrap_or_else(|| by.to_string()) });
        }
        let room = |live| (live < self.capacity).then_some(live + 1);
        if self.live.fetch_update(SeqCst, SeqCst, room).is_err() {
            self.unshield(record);
            return Err(Error::Full(self.capacity));
        }
        let unused = self.records().push(Arc::clone(record));
        // Not under the lock: what a callback owns can use the ticker when it is dropped.
        drop(unused);
        if !self.send(Message::Add(Arc::clone(record))) {
            self.leave(record);
            return Err(Error::Full(self.capacity));
        }
        // SeqCst, with that of `Shared::close`: either that finds the event in the inbox, or this
        // sees that nothing is accepted any more.
        if self.closed.load(SeqCst) {
            self.unshield(record);
            self.refuse();
            record.stop();
            // It may own an adder, and so this.
            self.records().all.retain(|other| !Arc::ptr_eq(other, record));
            return Err(Error::Stopped);
        }
        Ok(())
    }

    /// Ends an event, and waits until it is not being delivered.
    pub fn remove(&self, record: &Arc<Record>) {
        if self.is_forked() {
            // The thread that may have been delivering it is not in this process: its work is half
            // done, and stays so.
            return;
        }
        let (delivery, known) = record.remove(self.is_within());
        if known {
            // If the inbox were full, the thread would see at the event's next deadline that it
            // was removed.
            self.send(Message::Remove(Arc::clone(record)));
        }
        self.unshield(record);
        drop(delivery);
    }

    /// Records that the thread has forgotten an event.
    pub fn leave(&self, record: &Record) {
        self.unshield(record);
        self.live.fetch_sub(1, SeqCst);
    }

    pub fn statistics(&self) -> Statistics {
        if self.is_forked() {
            return self.totals.with(Vec::new());
        }
        let unused = self.records().prune();
        drop(unused);
        let records = self.records();
        // The thread may not have forgotten removed events yet.
        let there = records.all.iter().filter(|record| !record.is_removed());
        self.totals.with(there.map(|record| record.statistics()).collect())
    }

    /// Forgets all events when the thread has ended. Those with a handle live on in it.
    pub fn clear(&self) {
        let records = std::mem::take(&mut *self.records());
        for record in records.all {
            contained(|| drop(record));
        }
    }

    /// Makes the thread end.
    pub fn stop(&self) {
        self.stop.store(true, SeqCst);
        self.ring();
    }

    /// Makes the thread, which is the caller, end and then forget all events: otherwise a callback
    /// that owns an adder would keep itself alive.
    pub fn abandon(&self) {
        self.abandoned.store(true, SeqCst);
        self.stop();
    }

    pub fn is_abandoned(&self) -> bool {
        self.abandoned.load(SeqCst)
    }

    #[inline]
    pub fn is_stopping(&self) -> bool {
        self.stop.load(SeqCst)
    }

    /// Stops accepting messages: those in the inbox and later ones are refused.
    pub fn close(&self) {
        self.closed.store(true, SeqCst);
        self.refuse();
    }

    fn refuse(&self) {
        while let Some(message) = self.inbox.pop() {
            if let Message::Add(record) = message {
                record.stop();
                contained(|| drop(record));
            }
        }
    }

    fn send(&self, message: Message) -> bool {
        let sent = self.inbox.push(message).is_ok();
        self.ring();
        sent
    }

    /// Wakes the thread if it sleeps. SeqCst, with the thread's: either it sees what was changed
    /// before, or this sees that it is about to sleep.
    fn ring(&self) {
        if self.asleep.load(SeqCst) {
            // It fails only if the bell was rung 2⁶⁴ times without being heard.
            let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
        }
    }

    fn unshield(&self, record: &Record) {
        // It fails if the event does not have the shield, or no longer has it.
        let _ = self.shielded.compare_exchange(record.id.0, NOBODY, SeqCst, SeqCst);
    }

    fn records(&self) -> MutexGuard<'_, Records> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The deadlines of an event that is added now.
    fn times(&self, event: &Event) -> Result<Times, Error> {
        let now = self.clock.now();
        let at = |instant: Instant| {
            // The top bit distinguishes the instants of a mock from the process's.
            let other = (instant.as_ticks() ^ now.as_ticks()) >> 63 != 0;
            if other { Err(Error::OtherClock) } else { Ok(nanos(self.clock.monotonic(instant))) }
        };
        let now = at(now)?;
        match event.rhythm {
            Rhythm::Once(instant) => {
                Ok(Times { start: at(event.start.unwrap_or(instant))?, period: None })
            }
            Rhythm::Every(asked) if asked < SHORTEST => {
                Err(Error::Period { asked, shortest: SHORTEST })
            }
            Rhythm::Every(asked) => {
                let period = nanos(asked);
                let start = match event.start {
                    Some(start) => at(start)?,
                    None => now.saturating_add(period),
                };
                Ok(Times { start, period: Some(period) }.from(now))
            }
        }
    }
}

impl Records {
    /// Adds an event and returns some of those no longer in use.
    fn push(&mut self, record: Arc<Record>) -> Vec<Arc<Record>> {
        let unused = if self.all.len() < self.room { Vec::new() } else { self.prune() };
        self.all.push(record);
        unused
    }

    /// Removes the events that neither the thread nor a handle has.
    fn prune(&mut self) -> Vec<Arc<Record>> {
        let is_unused = |record: &mut Arc<Record>| Arc::strong_count(record) == 1;
        let unused = self.all.extract_if(.., is_unused).collect();
        self.room = FEW.max(2 * self.all.len());
        unused
    }
}

fn delivery(to: To) -> Result<Delivery, Error> {
    Ok(match to {
        To::Callback(callback) => Delivery::Callback(callback),
        To::Counter(counter) if counter.take() => Delivery::Counter(counter),
        To::Counter(_) => return Err(Error::CounterTaken),
        To::NewEventfd => {
            let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
            Delivery::Eventfd(Arc::new(eventfd(0, flags).map_err(std::io::Error::from)?))
        }
        To::Eventfd(descriptor) => {
            let number = std::os::fd::AsRawFd::as_raw_fd(&descriptor);
            let link = readlink(format!("/proc/self/fd/{number}"), Vec::new());
            let link = link.map_err(std::io::Error::from)?;
            if link.as_bytes() != b"anon_inode:[eventfd]" {
                return Err(Error::NotAnEventfd(link.to_string_lossy().into_owned()));
            }
            let flags = fcntl_getfl(descriptor.as_fd()).map_err(std::io::Error::from)?;
            // Checking for room would not be enough: it can be filled meanwhile.
            if !flags.contains(OFlags::NONBLOCK) {
                return Err(Error::BlockingEventfd);
            }
            Delivery::Eventfd(Arc::new(descriptor))
        }
    })
}

pub fn nanos(length: Duration) -> Nanos {
    Nanos::try_from(length.as_nanos()).unwrap_or(Nanos::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Arc<Record> {
        let times = Times { start: 0, period: None };
        let delivery = Delivery::Counter(Arc::new(Counter::new()));
        Arc::new(Record::new(EventId(1), String::new(), times, false, delivery))
    }

    #[test]
    fn what_nobody_has_is_let_go_seldom_but_in_time() {
        let mut records = Records::default();
        let live: Vec<_> = (0..1_000).map(|_| record()).collect();
        assert!(live.iter().all(|record| records.push(Arc::clone(record)).is_empty()));
        let mut looked = 0;
        for _ in 0..10_000 {
            let unused = records.push(record());
            looked += usize::from(!unused.is_empty());
            assert!(records.all.len() <= 2 * live.len() + FEW);
        }
        assert!((1..=20).contains(&looked), "{looked}");
        drop(records.prune());
        assert_eq!(records.all.len(), live.len());
    }
}
