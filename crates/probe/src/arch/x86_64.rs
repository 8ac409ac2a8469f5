//! x86-64.

use core::arch::x86_64::{__cpuid, _mm_clflush, _mm_lfence, _mm_mfence};

/// Nothing after this executes before everything preceding it.
#[inline(always)]
pub fn fence() {
    // SAFETY: it changes nothing; LFENCE (SSE2) is in every x86-64 processor.
    unsafe { _mm_lfence() };
}

/// The length of a line of the data cache, in bytes.
pub fn line() -> usize {
    // CPUID 1: EBX has the line that CLFLUSH flushes in its second byte, in units of 8.
    let lines = __cpuid(1).ebx >> 8 & 0xff;
    (lines as usize * 8).max(16)
}

/// Flushes a line from all caches.
///
/// # Safety
/// The address must be readable.
#[inline(always)]
pub unsafe fn flush(at: usize) {
    // SAFETY: every x86-64 processor has CLFLUSH; it has no visible effect on programs.
    unsafe { _mm_clflush(at as *const u8) };
}

/// Waits until all flushing is done.
#[inline(always)]
pub fn barrier() {
    // SAFETY: it changes nothing; MFENCE (SSE2) is in every x86-64 processor.
    unsafe { _mm_mfence() };
}
