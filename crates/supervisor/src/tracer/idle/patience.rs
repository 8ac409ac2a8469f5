//! For how long a thread that runs keeps others waiting.

use std::time::{Duration, Instant};

/// For how long a thread may be on a processor, before those that are due besides are woken all the
/// same.
const RUNS: Duration = Duration::from_millis(5);

/// For how long it may keep them waiting at all: the host may be so busy that it gets no processor.
const WAITS: Duration = Duration::from_secs(5);

/// How much of the time between two looks counts at most, and of the processor time that the kernel has
/// counted meanwhile: a virtual machine, or one of its processors, may have stood still. It is less than
/// [`RUNS`], so that one standstill does not use that up.
const LONGEST_COUNTED: Duration = Duration::from_millis(4);

/// For how long a thread has been on a processor since it waited last.
#[derive(Debug, Default)]
pub struct OnProcessor {
    counted: Duration,
    /// What the kernel had counted at the last look, since the thread was made.
    seen: Duration,
}

impl OnProcessor {
    /// It waits, and the kernel has counted so much.
    pub fn waits(seen: Duration) -> Self {
        Self { counted: Duration::ZERO, seen }
    }

    /// It runs, and the kernel has counted so much.
    pub fn look(&mut self, now: Duration) -> Duration {
        self.counted += now.saturating_sub(self.seen).min(LONGEST_COUNTED);
        self.seen = now;
        self.counted
    }
}

/// For how long threads have been seen to run.
pub struct BusyTime {
    seen: Duration,
    looked: Instant,
}

impl BusyTime {
    pub fn begin() -> Self {
        Self { seen: Duration::ZERO, looked: Instant::now() }
    }

    /// Looks once more.
    pub fn look(&mut self) -> Duration {
        self.look_at(Instant::now())
    }

    fn look_at(&mut self, now: Instant) -> Duration {
        self.seen += now.saturating_duration_since(self.looked).min(LONGEST_COUNTED);
        self.looked = now;
        self.seen
    }
}

/// Are others still to wait for a thread that has been on a processor for so long, where threads have
/// been seen to run for so long?
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
