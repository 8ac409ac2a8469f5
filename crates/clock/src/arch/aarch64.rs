use core::arch::asm;

/// The kernel's name for this counter in `current_clocksource`.
pub const CLOCKSOURCE: &str = "arch_sys_counter";

/// The virtual counter, unordered.
#[inline(always)]
pub fn read() -> u64 {
    let ticks: u64;
    // SAFETY: Linux lets programs read the counter (CNTKCTL_EL1.EL0VCTEN).
    unsafe {
        asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nostack, nomem, preserves_flags));
    }
    ticks
}

/// The virtual counter, read after everything before it, as the kernel's
/// `__arch_counter_get_cntvct` does (arch/arm64/include/asm/arch_timer.h).
#[inline(always)]
pub fn read_ordered() -> u64 {
    let ticks: u64;
    // SAFETY: as for `read`. The compiler moves no memory access across the block because it is not
    // marked `nomem`.
    unsafe {
        asm!("isb", "mrs {}, cntvct_el0", out(reg) ticks, options(nostack, preserves_flags));
    }
    ticks
}

/// Whether the counter always runs, at a constant rate: the architecture requires it.
pub const fn is_invariant() -> bool {
    true
}
