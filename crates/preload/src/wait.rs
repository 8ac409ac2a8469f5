//! The wait itself: in the kernel until a guard before its end, then spinning.

use std::ptr;
use std::time::Duration;

use eigentime_clock::sleeper::{KernelWaiter, Woken, wait_until_monotonic};

use crate::counter::{self, CLOCK};
use crate::places::{Mark, Place};
use crate::{places, real, report, settings, time};

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It is complete.
    OnTime,
    /// A signal handler ran with this much time remaining.
    Interrupted(Duration),
}

/// A wait of this length has room for comparing the counter with the kernel's clock.
const ROOMY: Duration = Duration::from_millis(5);

unsafe extern "C-unwind" {
    fn pthread_testcancel();
}

/// Waits for this long; none if the real function has to.
pub fn sleep(duration: Duration) -> Option<Ended> {
    // Programs call zero waits to let other threads run.
    if duration.is_zero() || counter::is_forbidden() {
        return None;
    }
    sleep_until(counter::monotonic() + duration)
}

/// Waits until CLOCK_MONOTONIC shows this; none if the real function has to.
pub fn sleep_until(deadline: Duration) -> Option<Ended> {
    if counter::is_forbidden() {
        return None;
    }
    let asked_for = deadline.saturating_sub(counter::monotonic());
    if asked_for.is_zero() || !is_compared(asked_for) {
        return None;
    }
    // This may be a signal handler that has interrupted another wait of this thread.
    let mark = Mark::new();
    let place = places::take(&mark)?;
    // SAFETY: threads can be cancelled here, as in the real function.
    unsafe { pthread_testcancel() };
    let mut kernel = Kernel::new(place);
    let policy = &settings::get().policy;
    let slept = wait_until_monotonic(place.guard(), policy, &CLOCK, deadline, &mut kernel, true);
    place.give_back();
    // SAFETY: as above.
    unsafe { pthread_testcancel() };
    match slept {
        Ok(slept) => {
            report::slept(&slept);
            Some(Ended::OnTime)
        }
        Err(_) => kernel.ended(deadline),
    }
}

/// Whether the counter has been compared with the kernel's clock, which is done now if there is
/// time. A program's first short wait is left to the kernel: many make no other.
fn is_compared(asked_for: Duration) -> bool {
    if counter::is_compared() {
        return true;
    }
    if asked_for < ROOMY && counter::is_first_wait() {
        return false;
    }
    counter::compare();
    true
}

/// The C library's `clock_nanosleep`, a cancellation point.
struct Kernel {
    place: &'static Place,
    /// The call was refused: a seccomp filter may forbid it.
    refused: bool,
}

impl Kernel {
    fn new(place: &'static Place) -> Self {
        Self { place, refused: false }
    }

    /// The result of a wait that did not end by itself; none if the real function has to wait.
    fn ended(&self, deadline: Duration) -> Option<Ended> {
        if self.refused {
            return None;
        }
        report::interrupted();
        let left = deadline.saturating_sub(counter::monotonic());
        Some(if left.is_zero() { Ended::OnTime } else { Ended::Interrupted(left) })
    }
}

impl KernelWaiter for Kernel {
    fn wait(&mut self, until: Duration) -> Woken {
        let until = time::timespec(until);
        let (clock, flags) = (libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME);
        self.place.lower_slack();
        // SAFETY: the time to read is valid, and nothing is written.
        let answer =
            unsafe { real::clock_nanosleep(clock, flags, &raw const until, ptr::null_mut()) };
        self.place.put_back_slack();
        if answer == 0 {
            return Woken::Due;
        }
        // A refusal also ends the wait, as a signal does.
        self.refused |= answer != libc::EINTR;
        Woken::BySignal
    }
}
