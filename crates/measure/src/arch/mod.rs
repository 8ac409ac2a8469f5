//! What depends on the processor's architecture.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub use aarch64::{NAMES, TIME};
#[cfg(target_arch = "x86_64")]
pub use x86_64::{NAMES, TIME};

/// The names of the vDSO's functions.
pub struct Names {
    pub clock_gettime: &'static str,
    pub clock_getres: &'static str,
    pub gettimeofday: &'static str,
    pub time: Option<&'static str>,
    pub getcpu: Option<&'static str>,
}

/// The minimum mapped, in bytes.
pub const PAGE: usize = 4096;
