use std::time::Duration;

use rustix::time::ClockId;

use crate::kernel;

/// When a comparison is over.
///
/// By CLOCK_MONOTONIC; and as that may stand still or be slow in a timeline, also by the processor
/// time of the calling thread, which no timeline changes. A thread that always spins uses as much
/// as passes, or less where others run.
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    begin: u64,
    end: u64,
    used_at_end: u64,
}

impl Deadline {
    /// So long from now.
    pub fn after(time: Duration) -> Self {
        let begin = kernel::monotonic();
        Self::from(begin, begin.saturating_add(nanos(time)))
    }

    /// From one nanosecond of CLOCK_MONOTONIC to another, which may both be over.
    pub fn from(begin: u64, end: u64) -> Self {
        let used = kernel::nanos(ClockId::ThreadCPUTime);
        Self { begin, end, used_at_end: used.saturating_add(end.saturating_sub(begin)) }
    }

    /// The end of one of several equal parts of the time that is left.
    pub fn part(&self, place: usize, parts: usize) -> Self {
        let now = kernel::monotonic().max(self.begin);
        let left = self.end.saturating_sub(now);
        let rest = parts.saturating_sub(place).max(1) as u64;
        let part = Self::from(now, now.saturating_add(left / rest));
        Self { used_at_end: part.used_at_end.min(self.used_at_end), ..part }
    }

    /// Is it over? This takes a system call.
    pub fn is_over(&self) -> bool {
        kernel::monotonic() >= self.end || kernel::nanos(ClockId::ThreadCPUTime) >= self.used_at_end
    }
}

pub fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
