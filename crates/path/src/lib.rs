//! Paths whose truth is known, to try methods of measuring on.
//!
//! - [`arguments`]: the command line of `eigentime-path`.
//! - [`emulator`]: a path between two interfaces whose capacity, delay, loss and cross traffic are
//!   known; the command `eigentime-path` runs it.
//! - [`simulated`]: a path that is arithmetic, for tests.

pub mod arguments;
pub mod emulator;
pub mod simulated;
