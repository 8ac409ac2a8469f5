//! The processor's counter itself, which [`Clock`](crate::Clock) makes time of: the only part that
//! differs between architectures.
//!
//! It is read whether or not the kernel keeps time by it. Use the clock, unless the counter is
//! what you want to know about, or what is to be timed are a few instructions.

#[cfg_attr(target_arch = "x86_64", path = "x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "aarch64.rs")]
mod arch;
mod rate;

pub use arch::{CLOCKSOURCE, is_invariant, read, read_ordered};
pub use rate::{Parted, Rate};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_counts() {
        let (before, between, after) = (read_ordered(), read(), read_ordered());
        assert!(before < after, "{before} then {after}");
        assert!(between.abs_diff(before) < u64::from(u32::MAX), "one and the same counter");
    }
}
