//! Sleeps that end on time.
//!
//! The kernel wakes a thread late: by the timer slack (50 µs unless changed), by the exit latency
//! of the processor's idle state, and by whatever else runs there. A [`Sleeper`] has the kernel end
//! its part a *guard* before the target, with a timer that has no slack, and spins for the rest. It
//! learns the length of the guard from the kernel's recent latencies for sleeps of this length on
//! this machine; the [`Policy`] sets the required certainty and the budget for spinning.
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
//! # Improvements and limitations
//! - On a busy machine other threads run first when it should wake, and no guard helps.
//!   [`Builder::realtime`] does. Requests that were not granted are listed in
//!   [`Sleeper::degradation`].
//! - [`Builder::hold_latency`] roughly halves the kernel's latency, so less is spun.
//! - If a hypervisor preempts the processor, a sleep is late and nothing in the guest shows why: it
//!   is [`Lateness::Preempted`] or [`Lateness::WokenLate`], like any other.
//! - In a timeline whose clocks are frozen it waits in the kernel until they resume.

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
pub use crate::privilege::{Degradation, Request};

use self::wait::{Target, wait};
use self::waiter::Waiter;
use crate::privilege::{LatencyHold, Pin, Realtime};
use crate::{Clock, Instant};

/// Ends sleeps on time.
///
/// It belongs to one thread: what it has learned applies to that thread, it cannot be used by two
/// at a time, and a real-time priority or a processor is given to the thread that builds it.
/// Dropping it, on any thread, restores that thread's settings unless they were changed since. A
/// forked child can continue to use its copy.
#[derive(Debug)]
pub struct Sleeper {
    // Dropped in this order: the priority first, so that the rest does not run with it.
    _realtime: Option<Realtime>,
    _latency_hold: Option<LatencyHold>,
    _pin: Option<Pin>,
    clock: Clock,
    policy: Policy,
    guard: Guard,
    waiter: Waiter,
    statistics: Statistics,
    /// The last sleep, added to the statistics later so that no caller waits for that.
    last: Option<Last>,
    degradation: Vec<Degradation>,
}

/// When a sleep was requested, its target, and its outcome.
type Last = (Instant, Instant, Result<Slept, Interrupted>);

impl Sleeper {
    /// A sleeper that requests no privileges, with [`Policy::default`].
    ///
    /// It also works without a descriptor for its timer: see [`Sleeper::degradation`].
    #[must_use]
    pub fn new() -> Self {
        Self::builder().granted()
    }

    /// Starts the configuration of a sleeper.
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Sleeps until an instant, regardless of signals. If it has passed, returns at once; if it is
    /// beyond what the clock can show (as a mock's is for the process's clock), sleeps until the
    /// last instant there is.
    pub fn sleep_until(&mut self, target: Instant) -> Slept {
        self.uninterrupted(Target::at(&self.clock, target))
    }

    /// Sleeps for this long, regardless of signals: on CLOCK_MONOTONIC, however well the counter's
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
    /// SA_RESTART or not. A handler that runs in the last moments, while the sleep spins
    /// ([`Slept::guard`]), does not end it.
    ///
    /// # Errors
    /// [`Interrupted`], with the remaining time.
    pub fn sleep_until_interruptible(&mut self, target: Instant) -> Result<Slept, Interrupted> {
        self.sleep(Target::at(&self.clock, target), true)
    }

    /// The requests that were not granted, with the reasons.
    #[must_use]
    pub fn degradation(&self) -> &[Degradation] {
        &self.degradation
    }

    /// The totals of its sleeps so far.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        let mut statistics = self.statistics;
        if let Some((begin, target, ended)) = &self.last {
            statistics.count(*begin, *target, ended);
        }
        statistics
    }

    /// The clock of targets.
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
