//! The processor's counter, on which [`Clock`](crate::Clock) is built.
//!
//! It can be read whether or not the kernel uses it as its clocksource. Prefer the clock, except to
//! examine the counter itself or to time a few instructions.

pub use crate::arch::{CLOCKSOURCE, is_invariant, read, read_ordered};

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
