//! How long a running thread keeps others waiting.

use std::time::{Duration, Instant};

/// How long a thread may be on a processor before other threads that are due are woken anyway.
const RUNS: Duration = Duration::from_millis(5);

/// How long it may keep them waiting in total: on a very busy host, it may get no processor.
const WAITS: Duration = Duration::from_secs(5);

/// How much counts at most of the time between two looks, and of the processor time that the kernel has
/// counted in between: a virtual machine, or one of its processors, may have been paused. It is less
/// than [`RUNS`], so that one pause does not use that up.
const LONGEST_COUNTED: Duration = Duration::from_millis(4);

/// How long a thread has been on a processor since it last waited.
#[derive(Debug, Default)]
pub struct OnProcessor {
    counted: Duration,
    /// The kernel's count at the last look, since the thread was created.
    seen: Duration,
}

impl OnProcessor {
    /// Starts from a waiting thread, with the kernel's count.
    pub fn waits(seen: Duration) -> Self {
        Self { counted: Duration::ZERO, seen }
    }

    /// Adds the kernel's count of a running thread.
    pub fn look(&mut self, now: Duration) -> Duration {
        self.counted += now.saturating_sub(self.seen).min(LONGEST_COUNTED);
        self.seen = now;
        self.counted
    }
}

/// How long threads have been seen to run.
pub struct BusyTime {
    seen: Duration,
    looked: Instant,
}

impl BusyTime {
    pub fn begin() -> Self {
        Self { seen: Duration::ZERO, looked: Instant::now() }
    }

    /// Updates the time.
    pub fn look(&mut self) -> Duration {
        self.look_at(Instant::now())
    }

    fn look_at(&mut self, now: Instant) -> Duration {
        self.seen += now.saturating_duration_since(self.looked).min(LONGEST_COUNTED);
        self.looked = now;
        self.seen
    }
}

/// Whether others must still wait for a thread that has been on a processor for this long, where
/// threads have been seen to run for that long.
pub fn lasts(on_processor: Duration, busy: Duration) -> bool {
    on_processor.min(busy) < RUNS && busy < WAITS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_that_stands_still_uses_none_up() {
        let mut busy = BusyTime::begin();
        let begin = busy.looked;
        let stood_still = Duration::from_secs(3);
        assert_eq!(busy.look_at(begin + stood_still), LONGEST_COUNTED);
        assert!(lasts(stood_still, busy.seen), "it was on a processor that stood still");
        let looks = (WAITS.as_millis() / LONGEST_COUNTED.as_millis()) as u32;
        for look in 1..looks {
            busy.look_at(begin + stood_still + look * LONGEST_COUNTED);
        }
        assert!(!lasts(Duration::ZERO, busy.seen), "it was looked at often enough");
    }

    #[test]
    fn a_processor_that_stands_still_uses_none_up() {
        let ran = Duration::from_millis(70);
        let mut thread = OnProcessor::waits(ran);
        let stood_still = ran + RUNS;
        assert!(lasts(thread.look(stood_still), RUNS));
        assert_eq!(thread.look(stood_still), LONGEST_COUNTED, "it waits for a processor");
        let again = thread.look(stood_still + LONGEST_COUNTED);
        assert!(!lasts(again, RUNS), "it was seen to run twice");
    }

    #[test]
    fn a_thread_that_runs_uses_it_up_before_one_that_cannot() {
        assert!(!lasts(RUNS, RUNS));
        assert!(lasts(Duration::ZERO, RUNS) && !lasts(Duration::ZERO, WAITS));
    }
}
