//! A thread that delivers events on time: the dedicated timer.
//!
//! After the timer of the same name in *High resolution timer events* (2015), which is a part of
//! a hypervisor: one processor, or as much of it as is needed, is there for the events alone, and
//! near their deadlines nothing else happens on it.
//!
//! ```
//! use std::time::Duration;
//! use eigentime_clock::ticker::{Event, Ticker};
//!
//! let ticker = Ticker::start()?;
//! let event = ticker.add(Event::every(Duration::from_micros(200)).callback(|tick| {
//!     // 1 + tick.missed deadlines have come since the last call.
//!     let _late = tick.miss();
//! }))?;
//! let counted = ticker.add(Event::every(Duration::from_micros(500)))?;
//! let passed = counted.counter().expect("it counts").wait_past(2)?;
//! assert!(passed >= 3);
//! drop(event); // Its callback is not called from here on.
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What is promised
//! - **Deadlines are absolute.** The one with number *k* is at the start + *k* · period of
//!   CLOCK_MONOTONIC, computed anew each time: neither rounding nor lateness adds up, and what
//!   the clock learns about its rate is in it. In a timeline they are in its time; where that clock
//!   is put back, as when the program leaves a timeline, they go on from where they were.
//! - **No deadline is lost.** Each is either delivered or counted as missed; which it was is told
//!   with the next delivery. A deadline is missed if the next one has come before there was time
//!   for it. So, of an event, those fired and those missed are always the number of the last tick
//!   and one. A leap of the clock by days is one tick.
//! - **Adding an event does not delay another.** It goes through an inbox without a lock, from
//!   which the thread takes something only if there is time before the next deadline (2 µs); only
//!   where there never is, one event in 0.1 s all the same.
//! - **One event can be shielded.** In the window before its deadlines ([`SHIELD`], or half its
//!   period if that is shorter) nothing else is done: the thread spins. What is due in the window
//!   is delivered after it, and so is what is due before but would run into it: the thread
//!   remembers how long the last eight deliveries of an event took and reckons with the second
//!   longest, or 2 µs before it has seen one. An event that has been held back for 0.1 s is
//!   delivered before the window even so: then the shielded event can be late, and the
//!   statistics name the [culprit](Statistics::culprit). The shielded event's own callback has to
//!   be shorter than its period less the window: if it is not, nothing is left for the others, and
//!   what has been held back for 0.1 s comes right after it. Of what is due at the same instant the
//!   shielded event comes first, then what was added first.
//! - **Whoever is late is named**: [`EventStatistics::delayed_by`].
//! - **After a handle is dropped its callback does not run**, and is not running.
//! - **Dropping the ticker** ends the thread at once, however far the next deadline is, and gives
//!   back all that it was granted.
//!
//! # What can go wrong
//! - A long callback delays all others: there is one thread. Have it wake another one instead
//!   (a counter or an eventfd), and keep an eye on [`EventStatistics::longest_delivery`].
//! - The processor can be taken away: by interrupts, by other threads (without
//!   [real-time priority](Builder::realtime)), by the kernel's limit on real-time threads (50 ms
//!   of each second, if the thread spins all the time), by the hypervisor. While the thread spins
//!   this is seen, and said with the [tick](Tick::stolen) and in the [statistics](Statistics::gaps).
//! - A callback that panics ends its event ([`Ended::Panicked`]), not the ticker, and neither does
//!   what it owns if that panics when it is dropped; where panics abort, they abort the program.
//! - Whoever closes the descriptors of the program closes the ticker's: then it looks each
//!   millisecond what there is to do, or after a second if it was asleep.
//! - After a fork there is no thread in the child: adding fails there, handles say
//!   [`Ended::Forked`], and dropping them does nothing.
//!
//! # What it costs
//! The [policy](Builder::policy) says how much of a processor may be spun away. By default that
//! is all of it: a wait of up to [`max_guard`](Policy::max_guard), 250 µs, is spun altogether; of
//! a longer one the kernel gets what is left before a guard that the thread has learnt, usually
//! some 60 µs (see [`Guard`](crate::sleeper::Guard)). So events each 10 to 250 µs take a whole
//! processor, each millisecond some 6 %, each 10 ms 0.6 %; without an event the thread sleeps,
//! and looks up each second.
//! With a lower budget the guard shrinks, and below 100 µs many events come late by what the
//! kernel takes to wake a thread, 20 to 50 µs.
//!
//! The thread keeps its events in the order of their deadlines. To deliver one, add it or remove it
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

pub use crate::privilege::{Degradation, Wish};
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

/// The most events that a ticker can be [made for](Builder::capacity): with more, what the thread
/// does with one of them would delay the others.
pub const MOST_EVENTS: usize = 4_096;

/// The shield window, unless [`Builder::shield`] says otherwise.
pub const SHIELD: Duration = Duration::from_micros(10);

/// Two readings of the clock while spinning that are further apart had something else between
/// them: a round takes some 50 ns. (Where it takes longer than a quarter of this, as in guests
/// whose clock is a system call that leaves the guest, it is four rounds.)
pub const GAP: Duration = Duration::from_micros(1);

/// A thread that delivers events on time: see the [module's documentation](self).
///
/// Many can share one: by reference, in an [`Arc`], or with an [`Adder`] each.
#[derive(Debug)]
pub struct Ticker {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    degradation: Vec<Degradation>,
}

/// What adds events to a ticker without keeping it alive: for callbacks, which would otherwise
/// own the thread they run on.
#[derive(Clone, Debug)]
pub struct Adder(Arc<Shared>);

impl Ticker {
    /// Starts one that asks for nothing.
    ///
    /// # Errors
    /// If there is no thread or no file descriptor to be had.
    pub fn start() -> Result<Self, Error> {
        Self::builder().start()
    }

    /// One that asks for more.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Has an event delivered from now on, until the handle is dropped.
    ///
    /// # Errors
    /// If it cannot be: the error says why.
    pub fn add(&self, event: Event) -> Result<EventHandle, Error> {
        self.shared.add(event)
    }

    /// What adds events without keeping the ticker alive.
    #[must_use]
    pub fn adder(&self) -> Adder {
        Adder(Arc::clone(&self.shared))
    }

    /// What was asked for and not granted.
    #[must_use]
    pub fn degradation(&self) -> &[Degradation] {
        &self.degradation
    }

    /// What it has done so far.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.shared.statistics()
    }
}

impl Adder {
    /// Has an event delivered: see [`Ticker::add`].
    ///
    /// # Errors
    /// If it cannot be: the error says why.
    pub fn add(&self, event: Event) -> Result<EventHandle, Error> {
        self.0.add(event)
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        if self.shared.is_forked() {
            // The thread is in the other process, and its memory here may be somebody else's.
            return mem::forget(thread);
        }
        if self.shared.is_within() {
            // A callback has dropped the ticker: the thread ends after that.
            return self.shared.abandon();
        }
        self.shared.stop();
        // It has panicked if this fails, and said so; it has stopped all events even then.
        let _ = thread.join();
        self.shared.clear();
    }
}
