//! What depends on the processor's architecture.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub use aarch64::{COUNTER, COUNTER_MODES, HVCLOCK_MODE, PVCLOCK_MODE, SIGNATURES};
#[cfg(target_arch = "x86_64")]
pub use x86_64::{COUNTER, COUNTER_MODES, HVCLOCK_MODE, PVCLOCK_MODE, SIGNATURES};
