//! The architecture-specific parts of rewriting a site: reading code, proving that it can be changed,
//! and writing jumps.

#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "x86_64")]
pub use x86_64::*;
