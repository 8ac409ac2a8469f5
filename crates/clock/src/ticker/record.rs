use std::cell::UnsafeCell;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize};
use std::time::Duration;

use rustix::thread::futex;

use super::event::Callback;
use super::schedule::Times;
use super::{Counter, Ended, EventId, EventStatistics};

/// An event, shared between the ticker's thread and the handle.
///
/// Neither waits for a lock: the state determines who may touch the delivery. The thread has it
/// while delivering; whoever has removed the event has it otherwise.
#[derive(Debug)]
pub struct Record {
    pub id: EventId,
    pub name: String,
    pub times: Times,
    pub shielded: bool,
    pub seen: Seen,
    /// Its slot in the schedule, if it has one: used only by the ticker's thread.
    pub slot: AtomicUsize,
    state: AtomicU32,
    delivery: UnsafeCell<Option<Delivery>>,
}

// SAFETY: everything is atomic or immutable except `delivery`, which only its owner according to
// the state touches; and its contents can be sent to another thread.
unsafe impl Sync for Record {}

/// How an event is delivered.
pub enum Delivery {
    Callback(Callback),
    /// One that does not block.
    Eventfd(Arc<OwnedFd>),
    Counter(Arc<Counter>),
}

/// Waiting for its deadlines.
const WAITING: u32 = 0;
/// Being delivered: the thread has the delivery.
const DELIVERING: u32 = 1;
/// Being delivered: whoever has removed it sleeps until that is over, and then has the delivery.
const AWAITED: u32 = 2;
/// Being delivered, but removed by its own callback: the thread keeps the delivery.
const DISOWNED: u32 = 3;
/// The handle is gone.
const REMOVED: u32 = 4;
/// It was delivered for the last time.
const DONE: u32 = 5;
/// Its callback panicked.
const PANICKED: u32 = 6;
/// The ticker has stopped.
const STOPPED: u32 = 7;

/// No miss or culprit yet.
const NONE: u64 = u64::MAX;

/// The observations of an event: written by the ticker's thread, read by all others.
#[derive(Debug)]
pub struct Seen {
    pub fired: AtomicU64,
    pub missed: AtomicU64,
    last_miss: AtomicU64,
    worst_miss: AtomicU64,
    preempted: AtomicU64,
    stolen: AtomicU64,
    longest: AtomicU64,
    delayed_by: AtomicU64,
    delayed_others: AtomicU64,
    withheld: AtomicU64,
    undelivered: AtomicU64,
}

/// What remains to do after a delivery.
#[derive(Debug, PartialEq, Eq)]
pub enum After {
    /// The event continues.
    Waits,
    /// It has ended, or was removed meanwhile.
    Ended,
}

impl Record {
    pub fn new(
        id: EventId,
        name: String,
        times: Times,
        shielded: bool,
        delivery: Delivery,
    ) -> Self {
        let zero = || AtomicU64::new(0);
        Self {
            id,
            name,
            times,
            shielded,
            seen: Seen {
                fired: zero(),
                missed: zero(),
                last_miss: AtomicU64::new(NONE),
                worst_miss: zero(),
                preempted: zero(),
                stolen: zero(),
                longest: zero(),
                delayed_by: AtomicU64::new(NONE),
                delayed_others: zero(),
                withheld: zero(),
                undelivered: zero(),
            },
            slot: AtomicUsize::new(usize::MAX),
            state: AtomicU32::new(WAITING),
            delivery: UnsafeCell::new(Some(delivery)),
        }
    }

    /// Delivers with `deliver`, unless the event was removed: then none. `deliver` returns whether
    /// the event has ended, and how. Must be called only on the ticker's thread.
    pub fn deliver(&self, deliver: impl FnOnce(&mut Delivery) -> Option<Ended>) -> Option<After> {
        self.state.compare_exchange(WAITING, DELIVERING, SeqCst, SeqCst).ok()?;
        // SAFETY: DELIVERING gives it to this thread.
        let delivery = unsafe { &mut *self.delivery.get() };
        let ended = delivery.as_mut().and_then(deliver);
        let next = match ended {
            None => WAITING,
            Some(Ended::Panicked) => PANICKED,
            Some(_) => DONE,
        };
        if next != WAITING {
            close(delivery);
        }
        match self.state.compare_exchange(DELIVERING, next, SeqCst, SeqCst) {
            Ok(_) if next == WAITING => Some(After::Waits),
            Ok(_) => Some(After::Ended),
            Err(DISOWNED) => {
                contained(|| *delivery = None);
                self.state.store(REMOVED, SeqCst);
                Some(After::Ended)
            }
            Err(_awaited) => {
                self.state.store(REMOVED, SeqCst);
                // It fails for no futex that is mapped.
                let _ = futex::wake(&self.state, futex::Flags::PRIVATE, 1);
                Some(After::Ended)
            }
        }
    }

    /// Ends the event for good: when this returns, it is not being delivered, unless its own
    /// callback calls this (`within`). Returns the delivery, if the caller has it now, and whether
    /// the ticker's thread still has to forget the event.
    pub fn remove(&self, within: bool) -> (Option<Delivery>, bool) {
        let mut state = self.state.load(SeqCst);
        loop {
            let next = match state {
                DELIVERING if within => DISOWNED,
                DELIVERING => AWAITED,
                AWAITED | DISOWNED | REMOVED => return (None, false),
                _ => REMOVED,
            };
            match self.state.compare_exchange(state, next, SeqCst, SeqCst) {
                Ok(_) if next == DISOWNED => return (None, true),
                Ok(_) => break,
                Err(found) => state = found,
            }
        }
        while state == DELIVERING && self.state.load(SeqCst) == AWAITED {
            // Any failure is a reason to check again: it was changed, or a signal came.
            let _ = futex::wait(&self.state, futex::Flags::PRIVATE, AWAITED, None);
        }
        // SAFETY: REMOVED, which this call has set, gives it to this thread.
        let delivery = unsafe { &mut *self.delivery.get() };
        close(delivery);
        (delivery.take(), matches!(state, WAITING | DELIVERING))
    }

    /// Marks that the ticker's thread has stopped; must be called by the last deliverer.
    pub fn stop(&self) {
        if self.state.compare_exchange(WAITING, DELIVERING, SeqCst, SeqCst).is_ok() {
            // SAFETY: DELIVERING gives it to this thread.
            close(unsafe { &*self.delivery.get() });
            if self.state.compare_exchange(DELIVERING, STOPPED, SeqCst, SeqCst).is_err() {
                // Removed meanwhile, and awaited.
                self.state.store(REMOVED, SeqCst);
                let _ = futex::wake(&self.state, futex::Flags::PRIVATE, 1);
            }
        }
    }

    /// Whether it was removed.
    pub fn is_removed(&self) -> bool {
        matches!(self.state.load(SeqCst), AWAITED | DISOWNED | REMOVED)
    }

    pub fn ended(&self) -> Option<Ended> {
        match self.state.load(SeqCst) {
            WAITING | DELIVERING => None,
            DONE => Some(Ended::Done),
            PANICKED => Some(Ended::Panicked),
            STOPPED => Some(Ended::Stopped),
            _ => Some(Ended::Removed),
        }
    }

    pub fn statistics(&self) -> EventStatistics {
        let seen = &self.seen;
        let load = |number: &AtomicU64| number.load(Relaxed);
        let length = |number: &AtomicU64| Duration::from_nanos(load(number));
        EventStatistics {
            event: self.id,
            name: self.name.clone(),
            shielded: self.shielded,
            fired: load(&seen.fired),
            missed: load(&seen.missed),
            last_miss: seen.last_miss(),
            worst_miss: length(&seen.worst_miss),
            preempted: load(&seen.preempted),
            stolen: length(&seen.stolen),
            longest_delivery: length(&seen.longest),
            delayed_by: Some(load(&seen.delayed_by)).filter(|id| *id != NONE).map(EventId),
            delayed_others: load(&seen.delayed_others),
            withheld: load(&seen.withheld),
            undelivered: load(&seen.undelivered),
            ended: self.ended(),
        }
    }
}

/// Runs the program's own code and returns whether it returned. A panic in it ends here.
pub fn contained(run: impl FnOnce()) -> bool {
    // Dropping the panic payload could panic again, outside.
    catch_unwind(AssertUnwindSafe(run)).map_err(std::mem::forget).is_ok()
}

/// Closes the delivery: nothing more will come.
fn close(delivery: &Option<Delivery>) {
    if let Some(Delivery::Counter(counter)) = delivery {
        counter.close();
    }
}

impl Seen {
    pub fn last_miss(&self) -> Option<Duration> {
        Some(self.last_miss.load(Relaxed)).filter(|miss| *miss != NONE).map(Duration::from_nanos)
    }

    /// Records a delivered deadline: the number missed before it, its lateness, and how long the
    /// thread was stopped before it.
    pub fn note_tick(&self, missed: u64, miss: u64, stolen: u64, withheld: bool) {
        add(&self.missed, missed);
        add(&self.fired, 1);
        self.last_miss.store(miss, Relaxed);
        raise(&self.worst_miss, miss);
        add(&self.preempted, u64::from(stolen > 0));
        add(&self.stolen, stolen);
        add(&self.withheld, u64::from(withheld));
    }

    pub fn note_length(&self, length: u64) {
        raise(&self.longest, length);
    }

    pub fn note_undelivered(&self) {
        add(&self.undelivered, 1);
    }

    pub fn note_delayed_by(&self, culprit: EventId) {
        self.delayed_by.store(culprit.0, Relaxed);
    }

    pub fn note_delayed_others(&self, deadlines: u64) {
        add(&self.delayed_others, deadlines);
    }
}

/// Adds to a number written only by the caller's thread.
pub fn add(number: &AtomicU64, more: u64) {
    if more > 0 {
        number.store(number.load(Relaxed).wrapping_add(more), Relaxed);
    }
}

/// Raises a number written only by the caller's thread.
pub fn raise(number: &AtomicU64, least: u64) {
    if number.load(Relaxed) < least {
        number.store(least, Relaxed);
    }
}

impl std::fmt::Debug for Delivery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Callback(_) => "Callback",
            Self::Eventfd(..) => "Eventfd",
            Self::Counter(_) => "Counter",
        })
    }
}
