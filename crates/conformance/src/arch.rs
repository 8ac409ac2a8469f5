//! What the probes know of x86-64.

use std::fs;

/// Missing in the C library.
pub const SYS_IO_PGETEVENTS: libc::c_long = 333;

/// Where the kernel has these functions if it has a vsyscall page
/// (arch/x86/include/uapi/asm/vsyscall.h).
pub const VSYSCALL_GETTIMEOFDAY: usize = 0xffff_ffff_ff60_0000;
pub const VSYSCALL_TIME: usize = 0xffff_ffff_ff60_0400;

/// The kernel's name of the function in its vDSO.
pub const VDSO_CLOCK_GETTIME: &[u8] = b"__vdso_clock_gettime";

/// The size of a page.
pub const PAGE: usize = 4096;

/// The processor's counter.
pub fn rdtsc() -> u64 {
    // SAFETY: every x86-64 processor has it.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// The processor's counter, read in order; `None` if this processor cannot do that.
pub fn rdtscp() -> Option<u64> {
    let info = fs::read_to_string("/proc/cpuinfo").ok()?;
    if !info.split_whitespace().any(|flag| flag == "rdtscp") {
        return None;
    }
    let mut processor = 0;
    // SAFETY: this processor has it.
    Some(unsafe { std::arch::x86_64::__rdtscp(&raw mut processor) })
}
