//! Measuring tools for the doctor, the probe, the study and the benches.
//!
//! - `stopwatch`: durations in the host's time, in a timeline, too.
//! - `clocks`: the kernel's clocks in nanoseconds.
//! - `bracket`: two clocks at one moment.
//! - `quantile`: medians and other quantiles.
//! - `timerfd`: a timer as a descriptor.
//! - `vdso`, `oracle`: the functions of the vDSO, and whether they make a system call.
//! - `unknown`: why something cannot be determined.
#![warn(missing_docs)]

#[cfg(test)]
#[macro_use]
extern crate eigentime_harness;

mod arch;
pub mod bracket;
pub mod clocks;
pub mod oracle;
pub mod quantile;
pub mod stopwatch;
pub mod timerfd;
mod unknown;
pub mod vdso;

pub use unknown::Unknown;

#[cfg(test)]
fn main() -> std::process::ExitCode {
    eigentime_harness::main()
}
