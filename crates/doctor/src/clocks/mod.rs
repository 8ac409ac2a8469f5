//! Which clocks the vDSO serves, what they cost, and why.
//!
//! - `calls`: the calls that read clocks, and who is to serve them.
//! - `costs`: what they cost.
//! - `causes`: why the vDSO serves them, or does not.

mod calls;
pub mod causes;
pub mod costs;

use crate::{Check, Topic};

/// The checks of this topic.
pub const CHECKS: &[Check] = &[
    Check { key: "clock-reads", topic: Topic::Clocks, look: costs::look },
    Check { key: "clocksource", topic: Topic::Clocks, look: causes::look },
];
