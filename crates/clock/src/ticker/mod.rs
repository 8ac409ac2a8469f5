//! A thread that delivers events on time: the dedicated timer.
//!
//! Modelled on the timer of the same name in *High resolution timer events* (2015), which is part
//! of a hypervisor: one processor, or as much of it as needed, serves only the events, and nothing
//! else happens on it near their deadlines.
//!
//! ```
//! use std::time::Duration;
//! use eigentime_clock::ticker::{Event, Ticker};
//!
//! let ticker = Ticker::start()?;
//! let event = ticker.add(Event::every(Duration::from_micros(200)).callback(|tick| {
//!     // 1 + tick.missed deadlines have passed since the last call.
//!     let _late = tick.miss();
//! }))?;
//! let counted = ticker.add(Event::every(Duration::from_micros(500)))?;
//! let passed = counted.counter().expect("it counts").wait_past(2)?;
//! assert!(passed >= 3);
//! drop(event); // Its callback is not called from here on.
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Guarantees
//! - **Deadlines are absolute.** Deadline number *k* is at the start + *k* · period on
//!   CLOCK_MONOTONIC, computed each time: neither rounding nor lateness accumulates, and improved
//!   knowledge of the clock's rate applies at once. In a timeline they follow its time; if that
//!   clock is set back, as when the program leaves a timeline, they continue from where they were.
//! - **No deadline is lost.** Each is either delivered or counted as missed, which is reported with
//!   the next delivery. A deadline is missed if the next one comes before there was time for it. So
//!   the numbers of an event's fired and missed deadlines always add up to the number of the last
//!   tick plus one. A leap of the clock by days is one tick.
//! - **Adding an event does not delay another.** It goes through a lock-free inbox, from which the
//!   thread takes a message only if there is time before the next deadline (2 µs); if there never
//!   is, it takes one event every 0.1 s regardless.
//! - **One event can be shielded.** In the window before its deadlines ([`SHIELD`], or half its
//!   period if that is shorter) nothing else is done: the thread spins. Events due in the window
//!   are delivered after it, as are those due earlier that would run into it: the thread remembers
//!   the duration of the last eight deliveries of an event and assumes the second longest, or 2 µs
//!   before it has seen one. An event that has been held back for 0.1 s is delivered before the
//!   window regardless: then the shielded event can be late, and the statistics name the
//!   [culprit](Statistics::culprit). The shielded event's own callback must be shorter than its
//!   period less the window: otherwise no time is left for the others, and those held back for 0.1
//!   s come right after it. Of events due at the same instant the shielded one comes first, then
//!   the one added first.
//! - **The cause of a delay is named**: [`EventStatistics::delayed_by`].
//! - **After a handle is dropped its callback does not run**, and is not running.
//! - **Dropping the ticker** ends the thread at once, however far the next deadline is, and
//!   restores all its privileges.
//!
//! # Limitations
//! - A long callback delays all others: there is one thread. Have it wake another thread instead
//!   (with a counter or an eventfd), and watch [`EventStatistics::longest_delivery`].
//! - The processor can be taken away: by interrupts, by other threads (without [real-time
//!   priority](Builder::realtime)), by the kernel's limit on real-time threads (50 ms of each
//!   second, if the thread spins all the time), by the hypervisor. While the thread spins this is
//!   detected and reported with the [tick](Tick::stolen) and in the [statistics](Statistics::gaps).
//! - A callback that panics ends its event ([`Ended::Panicked`]), not the ticker; nor does a panic in
//!   dropping what it owns. If panics abort, they abort the program.
//! - Code that closes the descriptors of the program closes the ticker's, too: then it checks for
//!   work every millisecond, or after a second if it was asleep.
//! - After a fork there is no thread in the child: adding fails there, handles report
//!   [`Ended::Forked`], and dropping them does nothing.
//!
//! # Cost
//! The [policy](Builder::policy) sets how much of a processor may be spun away. By default that is
//! all of it: a wait of up to [`max_guard`](Policy::max_guard), 250 µs, is spun completely; of a
//! longer one the kernel gets what is left before a guard that the thread has learned, usually some
//! 60 µs (see [`Guard`](crate::sleeper::Guard)). So events every 10 to 250 µs take a whole
//! processor, every millisecond some 6 %, every 10 ms 0.6 %; without events the thread sleeps, and
//! wakes every second. With a lower budget the guard shrinks, and below 100 µs many events are late
//! by the time the kernel takes to wake a thread, 20 to 50 µs.
//!
//! The thread keeps its events in the order of their deadlines. Delivering, adding or removing one
//! moves others in that list: 40 ns with ten events, 0.3 µs with a thousand, 1 to 3 µs with
//! [`MOST_EVENTS`].
//!
//! [`Policy::max_guard`]: crate::sleeper::Policy

mod alarm;
mod builder;
mod counter;
mod error;
mod event;
mod handle;
mod record;
mod schedule;
mod shared;
mod statistics;
mod worker;

use std::mem;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

pub use crate::privilege::{Degradation, Request};
pub use crate::sleeper::Policy;
pub use builder::Builder;
pub use counter::{Counter, Gone};
pub use error::Error;
pub use event::{Event, EventId, Tick};
pub use handle::EventHandle;
pub use statistics::{Ended, EventStatistics, Statistics};

use shared::Shared;

/// The shortest period.
pub const SHORTEST: Duration = Duration::from_micros(10);

/// The most events that a ticker can be [created for](Builder::capacity): with more, the work for
/// one of them would delay the others.
pub const MOST_EVENTS: usize = 4_096;

/// The default shield window; [`Builder::shield`] changes it.
pub const SHIELD: Duration = Duration::from_micros(10);

/// Two clock readings further apart than this while spinning were interrupted: a round takes some
/// 50 ns. (If it takes longer than a quarter of this, as in guests whose clock is a system call
/// that leaves the guest, the limit is four rounds.)
pub const GAP: Duration = Duration::from_micros(1);

/// A thread that delivers events on time: see the [module's documentation](self).
///
/// It can be shared: by reference, in an [`Arc`], or with an [`Adder`] each.
#[derive(Debug)]
pub struct Ticker {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    degradation: Vec<Degradation>,
}

/// Adds events to a ticker without keeping it alive: for callbacks, which would otherwise own the
/// thread they run on.
#[derive(Clone, Debug)]
pub struct Adder(Arc<Shared>);

impl Ticker {
    /// Starts a ticker with default settings.
    ///
    /// # Errors
    /// If no thread or file descriptor is available.
    pub fn start() -> Result<Self, Error> {
        Self::builder().start()
    }

    /// Starts the configuration of a ticker.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Has an event delivered from now on, until the handle is dropped.
    ///
    /// # Errors
    /// If that is impossible, with the reason.
    pub fn add(&self, event: Event) -> Result<EventHandle, Error> {
        EventHandle::add(&self.shared, event)
    }

    /// An adder, which does not keep the ticker alive.
    #[must_use]
    pub fn adder(&self) -> Adder {
        Adder(Arc::clone(&self.shared))
    }

    /// The requests that were not granted.
    #[must_use]
    pub fn degradation(&self) -> &[Degradation] {
        &self.degradation
    }

    /// The ticker's statistics so far.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.shared.statistics()
    }
}

impl Adder {
    /// Has an event delivered: see [`Ticker::add`].
    ///
    /// # Errors
    /// If that is impossible, with the reason.
    pub fn add(&self, event: Event) -> Result<EventHandle, Error> {
        EventHandle::add(&self.0, event)
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        if self.shared.is_forked() {
            // The thread is in the other process, and its memory here may have been reused.
            return mem::forget(thread);
        }
        if self.shared.is_within() {
            // A callback has dropped the ticker: the thread ends after that.
            return self.shared.abandon();
        }
        self.shared.stop();
        // It fails if the thread has panicked, which was reported; all events have stopped even
        // then.
        let _ = thread.join();
        self.shared.clear();
    }
}
