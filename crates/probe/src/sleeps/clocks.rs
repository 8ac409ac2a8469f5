//! The clocks: the reference, and the thread's own.

use eigentime_measure::clocks;
use rustix::time::{ClockId, Timespec};

use super::grid::Nanos;

/// CLOCK_MONOTONIC, through the vDSO if possible: deadlines are on this clock, so the results
/// contain no error of another one.
pub fn monotonic() -> Nanos {
    clocks::nanos(ClockId::Monotonic).cast_unsigned()
}

/// Processor time of the calling thread.
pub fn thread_cpu() -> Nanos {
    clocks::nanos(ClockId::ThreadCPUTime).cast_unsigned()
}

/// The time of a reading of [`monotonic`]: one is included in each miss, after the wake-up.
pub fn reading() -> Nanos {
    // The minimum is the one without interruption.
    (0..1_000)
        .map(|_| {
            let before = monotonic();
            monotonic() - before
        })
        .min()
        .unwrap_or_default()
}

/// The kernel's form.
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
