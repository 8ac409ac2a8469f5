use core::arch::asm;
use core::arch::x86_64::{__cpuid, _rdtsc};

/// What the kernel calls this counter in `current_clocksource`.
pub const CLOCKSOURCE: &str = "tsc";

/// The leaf of CPUID on power management, and its bit that says that the counter keeps its rate
/// in all states of the processor (AMD64 Architecture Programmer's Manual, volume 3, E.4.7).
const POWER_MANAGEMENT: u32 = 0x8000_0007;
const INVARIANT: u32 = 1 << 8;
/// The leaf that says which is the highest of the extended ones.
const EXTENDED: u32 = 0x8000_0000;

/// The time stamp counter, as the processor comes to it.
#[inline(always)]
pub fn read() -> u64 {
    // SAFETY: every x86-64 processor has the instruction, and no Linux forbids it to programs
    // that did not ask for that by PR_SET_TSC.
    unsafe { _rdtsc() }
}

/// The time stamp counter after all that came before, in the way of the kernel's
/// `rdtsc_ordered` (arch/x86/include/asm/tsc.h).
#[inline(always)]
pub fn read_ordered() -> u64 {
    let (low, high): (u64, u64);
    // SAFETY: as for `read`; LFENCE, of SSE2, is in every x86-64 processor. The compiler moves no
    // access to memory across, for the block is not marked `nomem`.
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

/// Whether the processor says that the counter always runs, and at one rate.
pub fn is_invariant() -> bool {
    let leaf = |leaf| __cpuid(leaf);
    leaf(EXTENDED).eax >= POWER_MANAGEMENT && leaf(POWER_MANAGEMENT).edx & INVARIANT != 0
}
