//! What depends on the processor's architecture.

#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "x86_64")]
pub use x86_64::find_syscall;

/// The C library's `syscall` is watched on x86-64 only.
#[cfg(not(target_arch = "x86_64"))]
pub fn find_syscall() {}

/// The smallest page size of any supported system.
pub const PAGE: usize = 4096;
