use core::arch::asm;
use core::arch::x86_64::{__cpuid, _rdtsc};

/// The kernel's name for this counter in `current_clocksource`.
pub const CLOCKSOURCE: &str = "tsc";

/// The CPUID leaf for power management, and its bit that says the counter keeps its rate in all
/// processor states (AMD64 Architecture Programmer's Manual, volume 3, E.4.7).
const POWER_MANAGEMENT: u32 = 0x8000_0007;
const INVARIANT: u32 = 1 << 8;
/// The leaf that gives the highest extended leaf.
const EXTENDED: u32 = 0x8000_0000;

/// The time stamp counter, unordered.
#[inline(always)]
pub fn read() -> u64 {
    // SAFETY: every x86-64 processor has the instruction, and Linux forbids it only to programs
    // that asked for that with PR_SET_TSC.
    unsafe { _rdtsc() }
}

/// The time stamp counter, read after everything before it, as the kernel's `rdtsc_ordered` does
/// (arch/x86/include/asm/tsc.h).
#[inline(always)]
pub fn read_ordered() -> u64 {
    let (low, high): (u64, u64);
    // SAFETY: as for `read`; LFENCE (SSE2) is in every x86-64 processor. The compiler moves no
    // memory access across the block because it is not marked `nomem`.
    unsafe {
        asm!(
            "lfence",
            "rdtsc",
            out("rax") low,
            out("rdx") high,
            options(nostack, preserves_flags),
        );
    }
    high << 32 | low
}

/// Whether the processor declares that the counter always runs, at a constant rate.
pub fn is_invariant() -> bool {
    let leaf = |leaf| __cpuid(leaf);
    leaf(EXTENDED).eax >= POWER_MANAGEMENT && leaf(POWER_MANAGEMENT).edx & INVARIANT != 0
}
