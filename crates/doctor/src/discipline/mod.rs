//! Who steers the clocks: NTP, PTP, steps, leap seconds.
//!
//! - `adjtimex`: what the kernel says of how its clock is led.
//! - `state`: what that means: right or not, corrections, leap seconds.
//! - `step`: whether somebody sets the clock while we look.
//! - `services`: which programs lead it; `chrony` says more of itself.
//! - `devices`: clocks of the hardware and of the hypervisor.

pub mod adjtimex;
mod chrony;
mod devices;
mod services;
mod state;
pub mod step;

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
