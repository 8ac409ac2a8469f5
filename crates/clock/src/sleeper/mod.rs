//! Sleeps that end on time.
//!
//! The kernel wakes a thread late: by the timer slack (50 µs, unless it was changed), by the time
//! the processor needs to come out of its idle state, and by what else runs there. A [`Sleeper`]
//! has the kernel end its part a *guard* before the target, by a timer that has no slack, and
//! spins for the rest. How long the guard is to be it learns from how late the kernel is, on this
//! machine, for sleeps of this length, of late; and the [`Policy`] says how sure it is to be and
//! what may be spun away.
//!
//! ```
//! use std::time::Duration;
//! use eigentime_clock::sleeper::Sleeper;
//!
//! let mut sleeper = Sleeper::new();
//! let slept = sleeper.sleep_for(Duration::from_millis(1));
//! assert!(slept.woke >= slept.target, "never early");
//! println!("late by {:?}, spun for {:?}", slept.miss, slept.spun);
//! ```
//!
//! # What makes it better, and what can go wrong
//! - On a busy machine other threads run first when it is to wake, and no guard helps.
//!   [`Builder::realtime`] does. What was asked for and not granted is in
//!   [`Sleeper::degradation`].
//! - [`Builder::hold_latency`] roughly halves how late the kernel is, so less is spun.
//! - Where a hypervisor takes the processor away, a sleep is late and nothing in the guest tells
//!   why: it is [`Lateness::Preempted`] or [`Lateness::WokenLate`], like any other.
//! - In a timeline whose clocks stand still it waits in the kernel until they go on.

mod builder;
mod error;
mod guard;
mod histogram;
mod kernel;
mod policy;
mod slept;
mod spin;
mod statistics;
mod wait;
mod waiter;

use std::time::Duration;

pub use self::builder::Builder;
pub use self::error::Error;
pub use self::guard::Guard;
pub use self::kernel::{KernelWaiter, Nanosleep, Woken};
pub use self::policy::Policy;
pub use self::slept::{Interrupted, Lateness, Slept};
pub use self::statistics::Statistics;
pub use self::wait::{wait_until, wait_until_monotonic};
pub use self::waiter::KernelWait;
pub use crate::privilege::{Degradation, Wish};

use self::wait::{Target, wait};
use self::waiter::Waiter;
use crate::privilege::{LatencyHold, Pin, Realtime};
use crate::{Clock, Instant};

/// Ends sleeps on time.
///
/// It belongs to one thread: what it has learned is of that thread, it cannot be used by two at a
/// time, and a real-time priority or a processor is given to the thread that builds it. Dropping
/// it gives all that back to that thread, wherever it is dropped, unless somebody else has
/// changed it since. A forked child can go on using its copy.
#[derive(Debug)]
pub struct Sleeper {
    // Given back in this order: the priority first, in which it should not do the rest.
    _realtime: Option<Realtime>,
    _latency_hold: Option<LatencyHold>,
    _pin: Option<Pin>,
    clock: Clock,
    policy: Policy,
    guard: Guard,
    waiter: Waiter,
    statistics: Statistics,
    /// The last sleep, which is not in the statistics yet: nobody has to wait for that.
    last: Option<Last>,
    degradation: Vec<Degradation>,
}

/// When a sleep was asked for, until when, and how it went.
type Last = (Instant, Instant, Result<Slept, Interrupted>);

impl Sleeper {
    /// One that asks for no privileges, with [`Policy::default`].
    ///
    /// It works also where there is no descriptor for its timer: see [`Sleeper::degradation`].
    #[must_use]
    pub fn new() -> Self {
        Self::builder().granted()
    }

    /// One that is to be as it is told.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Sleeps until an instant, whatever signals come. If it has passed, it returns at once; if it
    /// is beyond what the clock can show, as a mock's is for the process's clock, it sleeps until
    /// the last instant there is.
    pub fn sleep_until(&mut self, target: Instant) -> Slept {
        self.uninterrupted(Target::at(&self.clock, target))
    }

    /// Sleeps for so long, whatever signals come: by CLOCK_MONOTONIC, however well the counter's
    /// rate is known yet.
    pub fn sleep_for(&mut self, duration: Duration) -> Slept {
        self.uninterrupted(Target::after(&self.clock, duration))
    }

    fn uninterrupted(&mut self, target: Target) -> Slept {
        match self.sleep(target, false) {
            Ok(slept) => slept,
            Err(_) => unreachable!("it was not to be interrupted"),
        }
    }

    /// Sleeps until an instant, or until a signal handler has run, whether it was set with
    /// SA_RESTART or not. One that runs in the last moments, when the sleep is spinning
    /// ([`Slept::guard`]), does not end it.
    ///
    /// # Errors
    /// [`Interrupted`], with what is left.
    pub fn sleep_until_interruptible(&mut self, target: Instant) -> Result<Slept, Interrupted> {
        self.sleep(Target::at(&self.clock, target), true)
    }

    /// What was asked for and not granted, and why.
    #[must_use]
    pub fn degradation(&self) -> &[Degradation] {
        &self.degradation
    }

    /// What its sleeps came to so far.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        let mut statistics = self.statistics;
        if let Some((begin, target, ended)) = &self.last {
            statistics.count(*begin, *target, ended);
        }
        statistics
    }

    /// The clock that targets are of.
    #[must_use]
    pub const fn clock(&self) -> &Clock {
        &self.clock
    }

    fn sleep(&mut self, target: Target, interruptible: bool) -> Result<Slept, Interrupted> {
        self.statistics = self.statistics();
        self.last = None;
        let Self { guard, policy, clock, waiter, .. } = self;
        let ended = wait(guard, policy, clock, target, waiter, interruptible);
        if self.waiter.has_lost() {
            self.degradation.extend(self.waiter.lost());
        }
        self.last = Some((target.since, target.instant, ended));
        ended
    }
}

impl Default for Sleeper {
    fn default() -> Self {
        Self::new()
    }
}
