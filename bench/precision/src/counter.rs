//! The raw processor counter, on which all user space clocks are built.

use eigentime_measure::bracket::narrowest;

use crate::kernel;

/// The counter, unordered.
#[inline(always)]
pub fn bare() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: RDTSC has no preconditions in user space; Linux permits it by default.
        unsafe { core::arch::x86_64::_rdtsc() }
    }
    #[cfg(target_arch = "aarch64")]
    {
        let count: u64;
        // SAFETY: Linux lets user space read CNTVCT_EL0; nothing else is touched.
        unsafe {
            core::arch::asm!("mrs {}, cntvct_el0", out(reg) count, options(nomem, nostack));
        }
        count
    }
}

/// The counter, read after everything before it in the program.
#[inline(always)]
pub fn fenced() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: LFENCE is part of SSE2, which every x86-64 processor has.
        unsafe { core::arch::x86_64::_mm_lfence() };
    }
    #[cfg(target_arch = "aarch64")]
    {
        // SAFETY: an instruction barrier without operands.
        unsafe { core::arch::asm!("isb", options(nostack)) };
    }
    bare()
}

/// The counter through RDTSCP, which waits for preceding instructions; elsewhere the fenced one.
#[inline(always)]
pub fn with_processor() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        let mut processor = 0;
        // SAFETY: every processor with an invariant counter has RDTSCP, and Linux permits it.
        unsafe { core::arch::x86_64::__rdtscp(&raw mut processor) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        fenced()
    }
}

/// The counter and CLOCK_MONOTONIC at one instant.
#[derive(Clone, Copy)]
pub struct Pair {
    /// The counter in the middle of the bracket.
    pub ticks: u64,
    /// The kernel's clock, in nanoseconds.
    pub nanos: u64,
}

/// The number of tries, of which the one with the narrowest bracket is used.
const TRIES: usize = 200;

impl Pair {
    /// Both now.
    pub fn now() -> Self {
        let both = narrowest(TRIES, || fenced().cast_signed(), kernel::monotonic);
        Self { ticks: both.middle().cast_unsigned(), nanos: both.inside }
    }
}

/// Converts ticks into nanoseconds of CLOCK_MONOTONIC: over a measurement, from its ends, so that
/// it does not depend on the calibration of any measured clock.
#[derive(Clone, Copy)]
pub struct Scale {
    nanos_per_tick: f64,
}

impl Scale {
    /// From two readings at a distance.
    pub fn between(begin: Pair, end: Pair) -> Self {
        let ticks = end.ticks.saturating_sub(begin.ticks).max(1);
        Self { nanos_per_tick: (end.nanos - begin.nanos) as f64 / ticks as f64 }
    }

    /// A number of ticks as nanoseconds.
    pub fn nanos(self, ticks: u64) -> f64 {
        ticks as f64 * self.nanos_per_tick
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_comes_from_its_ends() {
        let pair = |ticks, nanos| Pair { ticks, nanos };
        let scale = Scale::between(pair(1_000, 50), pair(3_000, 1_050));
        assert!((scale.nanos(4) - 2.0).abs() < 1e-9);
    }

    #[test]
    fn ordered_readings_are_in_order() {
        for _ in 0..1_000 {
            let first = fenced();
            assert!(first <= fenced());
        }
    }
}
