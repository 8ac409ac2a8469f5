//! AArch64.

/// The processor's name for its counter.
pub const COUNTER: &str = "cntvct";

/// The vDSO's clock modes (arch/arm64/include/asm/vdso/clocksource.h) that read the processor's
/// counter. The pages of hypervisors are x86's.
pub const COUNTER_MODES: &[i32] = &[1, 2];
pub const PVCLOCK_MODE: Option<i32> = None;
pub const HVCLOCK_MODE: Option<i32> = None;

/// No instruction of the processor is answered by hypervisors.
pub const SIGNATURES: Option<fn() -> Vec<String>> = None;
