use std::time::Duration;

use crate::Instant;

use super::{Interrupted, Lateness, Slept};

/// What a sleeper's sleeps came to so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Sleeps that have ended by themselves.
    pub sleeps: u64,
    /// Of these: asked for when their target had passed.
    pub asked_late: u64,
    /// Of these: woken late by the kernel.
    pub woken_late: u64,
    /// Of these: kept off the processor while they were spinning.
    pub preempted: u64,
    /// Sleeps that a signal has ended.
    pub interrupted: u64,
    /// Of the sleeps that were asked for in time, how late the latest ended.
    pub worst: Duration,
    /// How long it has slept altogether, from asking to waking.
    pub slept: Duration,
    /// How long it has spun altogether.
    pub spun: Duration,
}

impl Statistics {
    /// What is spun away of one CPU while it sleeps, between 0 and 1. The kernel's part comes on
    /// top: some 20 µs for each sleep.
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
