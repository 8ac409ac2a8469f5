//! What depends on the processor's architecture: the counter.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub use aarch64::{CLOCKSOURCE, is_invariant, read, read_ordered};
#[cfg(target_arch = "x86_64")]
pub use x86_64::{CLOCKSOURCE, is_invariant, read, read_ordered};

/// The smallest page size of any supported system.
pub const PAGE: usize = 4096;
