//! Paths with a known truth, to test measuring methods on.
//!
//! - [`arguments`]: the command line of `eigentime-path`.
//! - [`emulator`]: a path between two interfaces whose capacity, delay, loss and cross traffic are
//!   known; run by the command `eigentime-path`.
//! - [`simulated`]: a path that is pure arithmetic, for tests.

pub mod arguments;
pub mod emulator;
pub mod simulated;
