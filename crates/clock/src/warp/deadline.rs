use std::time::Duration;

use rustix::time::ClockId;

use crate::kernel;

/// The end of a comparison.
///
/// It is on CLOCK_MONOTONIC and, as that may be frozen or slow in a timeline, also on the processor
/// time of the calling thread, which no timeline changes. A thread that always spins uses as much
/// as passes, or less if others run.
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    begin: u64,
    end: u64,
    used_at_end: u64,
}

impl Deadline {
    /// A deadline this far from now.
    pub fn after(time: Duration) -> Self {
        let begin = kernel::monotonic();
        Self::from(begin, begin.saturating_add(nanos(time)))
    }

    /// A deadline from one nanosecond of CLOCK_MONOTONIC to another; both may have passed.
    pub fn from(begin: u64, end: u64) -> Self {
        let used = kernel::nanos(ClockId::ThreadCPUTime);
        Self { begin, end, used_at_end: used.saturating_add(end.saturating_sub(begin)) }
    }

    /// The end of one of several equal parts of the remaining time.
    pub fn part(&self, place: usize, parts: usize) -> Self {
        let now = kernel::monotonic().max(self.begin);
        let left = self.end.saturating_sub(now);
        let rest = parts.saturating_sub(place).max(1) as u64;
        let part = Self::from(now, now.saturating_add(left / rest));
        Self { used_at_end: part.used_at_end.min(self.used_at_end), ..part }
    }

    /// Whether the deadline has passed. This makes a system call.
    pub fn is_over(&self) -> bool {
        kernel::monotonic() >= self.end || kernel::nanos(ClockId::ThreadCPUTime) >= self.used_at_end
    }
}

pub fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
