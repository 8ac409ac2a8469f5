//! AArch64.

use core::arch::asm;

/// Nothing after this executes before everything preceding it.
#[inline(always)]
pub fn fence() {
    // SAFETY: it changes nothing.
    unsafe { asm!("isb", options(nostack, preserves_flags)) };
}

/// The length of a line of the data cache, in bytes.
pub fn line() -> usize {
    let types: u64;
    // SAFETY: Linux lets programs read CTR_EL0, or emulates it.
    unsafe { asm!("mrs {}, ctr_el0", out(reg) types, options(nostack, nomem, preserves_flags)) };
    // DminLine, in words, as a power of 2.
    4 << (types >> 16 & 0xf)
}

/// Flushes a line from all caches.
///
/// # Safety
/// The address must be readable.
#[inline(always)]
pub unsafe fn flush(at: usize) {
    // SAFETY: Linux lets programs do this (SCTLR_EL1.UCI); it has no visible effect on them.
    unsafe { asm!("dc civac, {}", in(reg) at, options(nostack, preserves_flags)) };
}

/// Waits until all flushing is done.
#[inline(always)]
pub fn barrier() {
    // SAFETY: it changes nothing.
    unsafe { asm!("dsb sy", "isb", options(nostack, preserves_flags)) };
}
