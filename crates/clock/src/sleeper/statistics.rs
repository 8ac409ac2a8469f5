use std::time::Duration;

use crate::Instant;

use super::{Interrupted, Lateness, Slept};

/// The totals of a sleeper's sleeps so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Sleeps that ended by themselves.
    pub sleeps: u64,
    /// Of these: requested after their target had passed.
    pub asked_late: u64,
    /// Of these: woken late by the kernel.
    pub woken_late: u64,
    /// Of these: preempted while spinning.
    pub preempted: u64,
    /// Sleeps ended by a signal.
    pub interrupted: u64,
    /// The largest lateness of the sleeps requested in time.
    pub worst: Duration,
    /// The total time slept, from request to wake-up.
    pub slept: Duration,
    /// The total time spun.
    pub spun: Duration,
}

impl Statistics {
    /// The share of one CPU that is spun while it sleeps, between 0 and 1. The kernel's part comes
    /// on top: some 20 µs per sleep.
    #[must_use]
    pub fn cpu(&self) -> f64 {
        if self.slept.is_zero() { 0.0 } else { self.spun.as_secs_f64() / self.slept.as_secs_f64() }
    }

    pub(super) fn count(
        &mut self,
        begin: Instant,
        target: Instant,
        ended: &Result<Slept, Interrupted>,
    ) {
        let late = begin >= target;
        let time = match ended {
            _ if late => Duration::ZERO,
            Ok(slept) => slept.woke - begin,
            Err(interrupted) => (target - begin).saturating_sub(interrupted.remaining),
        };
        self.slept = self.slept.saturating_add(time);
        let Ok(slept) = ended else {
            self.interrupted += 1;
            return;
        };
        self.sleeps += 1;
        self.spun = self.spun.saturating_add(slept.spun);
        match slept.lateness {
            Lateness::OnTime => {}
            Lateness::WokenLate => self.woken_late += 1,
            Lateness::Preempted => self.preempted += 1,
        }
        if late {
            self.asked_late += 1;
        } else {
            self.worst = self.worst.max(slept.miss);
        }
    }
}
