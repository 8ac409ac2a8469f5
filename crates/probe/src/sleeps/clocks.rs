//! The clocks: the one that judges, and the thread's own.

use eigentime_measure::clocks;
use rustix::time::{ClockId, Timespec};

use super::grid::Nanos;

/// CLOCK_MONOTONIC, through the vDSO where that serves it: deadlines are of this clock, so there
/// is no error of another one in what is measured.
pub fn monotonic() -> Nanos {
    clocks::nanos(ClockId::Monotonic).cast_unsigned()
}

/// Processor time of the calling thread.
pub fn thread_cpu() -> Nanos {
    clocks::nanos(ClockId::ThreadCPUTime).cast_unsigned()
}

/// What a reading of [`monotonic`] takes: one is in each miss, after the wake-up.
pub fn reading() -> Nanos {
    // The least of them is the one that nothing has come between.
    (0..1_000)
        .map(|_| {
            let before = monotonic();
            monotonic() - before
        })
        .min()
        .unwrap_or_default()
}

/// As the kernel takes it.
pub fn timespec(nanos: Nanos) -> Timespec {
    clocks::timespec(nanos.cast_signed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clocks_go_on() {
        let (begin, cpu) = (monotonic(), thread_cpu());
        let mut number = 1_u64;
        while thread_cpu() == cpu {
            number = std::hint::black_box(number.wrapping_mul(3));
        }
        assert!(monotonic() > begin);
        assert!(reading() < 1_000_000, "a reading takes less than a millisecond");
    }
}
