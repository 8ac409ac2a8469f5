//! The clocks: the one that judges, and the thread's own.

use rustix::time::{ClockId, Timespec, clock_gettime};

use super::grid::Nanos;

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// CLOCK_MONOTONIC, through the vDSO where that serves it: deadlines are of this clock, so there
/// is no error of another one in what is measured.
pub fn monotonic() -> Nanos {
    nanos(clock_gettime(ClockId::Monotonic))
}

/// Processor time of the calling thread.
pub fn thread_cpu() -> Nanos {
    nanos(clock_gettime(ClockId::ThreadCPUTime))
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
    Timespec {
        tv_sec: (nanos / NANOS_PER_SECOND).cast_signed(),
        tv_nsec: (nanos % NANOS_PER_SECOND).cast_signed(),
    }
}

fn nanos(time: Timespec) -> Nanos {
    time.tv_sec.cast_unsigned() * NANOS_PER_SECOND + time.tv_nsec.cast_unsigned()
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

    #[test]
    fn a_time_is_the_same_in_both_forms() {
        for time in [0, 1, 999_999_999, 1_000_000_000, 5_000_000_001] {
            assert_eq!(nanos(timespec(time)), time);
        }
    }
}
