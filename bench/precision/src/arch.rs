//! What depends on the processor's architecture.

/// The counter through RDTSCP, which waits for preceding instructions; elsewhere the fenced one.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub fn with_processor() -> u64 {
    let mut processor = 0;
    // SAFETY: every processor with an invariant counter has RDTSCP, and Linux permits it.
    unsafe { core::arch::x86_64::__rdtscp(&raw mut processor) }
}
#[cfg(not(target_arch = "x86_64"))]
pub use eigentime_clock::counter::read_ordered as with_processor;
