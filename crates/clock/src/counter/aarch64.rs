use core::arch::asm;

/// What the kernel calls this counter in `current_clocksource`.
pub const CLOCKSOURCE: &str = "arch_sys_counter";

/// The virtual counter, as the processor comes to it.
#[inline(always)]
pub fn read() -> u64 {
    let ticks: u64;
    // SAFETY: Linux lets programs read the counter (CNTKCTL_EL1.EL0VCTEN).
    unsafe {
        asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nostack, nomem, preserves_flags));
    }
    ticks
}

/// The virtual counter after all that came before, in the way of the kernel's
/// `__arch_counter_get_cntvct` (arch/arm64/include/asm/arch_timer.h).
#[inline(always)]
pub fn read_ordered() -> u64 {
    let ticks: u64;
    // SAFETY: as for `read`. The compiler moves no access to memory across, for the block is not
    // marked `nomem`.
    unsafe {
        asm!("isb", "mrs {}, cntvct_el0", out(reg) ticks, options(nostack, preserves_flags));
    }
    ticks
}

/// Whether the counter always runs, and at one rate: the architecture demands it.
pub const fn is_invariant() -> bool {
    true
}
