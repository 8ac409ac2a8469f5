//! Which clocks the vDSO serves, what they cost, and why.
//!
//! - `vdso`: the code that the kernel gives to every program to read clocks with.
//! - `oracle`: who serves a call, the vDSO or the kernel.
//! - `calls`: the calls that read clocks, and who is to serve them.
//! - `costs`: what they cost.
//! - `causes`: why the vDSO serves them, or does not.
//! - `stopwatch`: the host's time, in every timeline.

mod calls;
pub mod causes;
pub mod costs;
pub mod oracle;
pub(crate) mod stopwatch;
pub mod vdso;

use crate::{Check, Topic};

/// The checks of this topic.
pub const CHECKS: &[Check] = &[
    Check { key: "clock-reads", topic: Topic::Clocks, look: costs::look },
    Check { key: "clocksource", topic: Topic::Clocks, look: causes::look },
];
