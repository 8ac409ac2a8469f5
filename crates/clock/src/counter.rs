//! The processor's counter, on which [`Clock`](crate::Clock) is built: the only
//! architecture-specific part.
//!
//! It can be read whether or not the kernel uses it as its clocksource. Prefer the clock, except to
//! examine the counter itself or to time a few instructions.

#[cfg_attr(target_arch = "x86_64", path = "x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "aarch64.rs")]
mod arch;

pub use arch::{CLOCKSOURCE, is_invariant, read, read_ordered};

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
