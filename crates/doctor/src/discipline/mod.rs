//! What steers the clocks: NTP, PTP, steps, leap seconds.
//!
//! - `adjtimex`: the kernel's report on the discipline of its clock.
//! - `state`: its interpretation: synchronization, corrections, leap seconds.
//! - `step`: whether the clock is set during the checks.
//! - `services`: the programs that discipline it; `chrony` reports more about itself.
//! - `devices`: hardware and hypervisor clocks.

pub mod adjtimex;
mod chrony;
mod devices;
mod services;
mod state;
mod step;

use crate::{Check, Topic::Discipline};

/// The checks of this topic.
pub const CHECKS: &[Check] = &[
    Check { key: "synchronization", topic: Discipline, look: state::synchronization },
    Check { key: "slew", topic: Discipline, look: state::slew },
    Check { key: "steps", topic: Discipline, look: step::steps },
    Check { key: "leap-second", topic: Discipline, look: state::leap_second },
    Check { key: "time-service", topic: Discipline, look: services::time_service },
    Check { key: "hardware-clocks", topic: Discipline, look: devices::hardware_clocks },
];
