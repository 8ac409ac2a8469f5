//! Which clocks the vDSO serves, what they cost, and why.
//!
//! - `calls`: the calls that read clocks, and what is expected to serve them.
//! - `costs`: their costs.
//! - `causes`: why the vDSO does or does not serve them.

mod calls;
pub mod causes;
pub mod costs;

use crate::{Check, Topic};

/// The checks of this topic.
pub const CHECKS: &[Check] = &[
    Check { key: "clock-reads", topic: Topic::Clocks, look: costs::look },
    Check { key: "clocksource", topic: Topic::Clocks, look: causes::look },
];
