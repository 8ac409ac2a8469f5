//! The properties of timers, and their wake-up latency.
//!
//! - `config`: the kernel's build configuration and command line.
//! - `tick`: the tick, and whether timers are finer than it.
//! - `slack`: how long the kernel may delay wake-ups.
//! - `preemption`: when the kernel runs a waking thread.
//! - `idle`: how deep processors sleep, and what limits that.
//! - `frequency`: how fast they run when they wake.
//! - `scheduling`: throttling of real-time threads, isolated processors, timer migration.
//! - `interrupts`: which processors devices interrupt.
//! - `devices`: the devices that generate timer interrupts.
//! - `wake_ups`: the measured wake-up latency of threads, and its explanation.

pub mod config;
mod devices;
mod frequency;
mod idle;
mod interrupts;
mod preemption;
mod scheduling;
pub mod slack;
pub mod tick;
pub mod wake_ups;

use crate::{Check, Topic::Timers};

/// The checks of this topic.
pub const CHECKS: &[Check] = &[
    Check { key: "tick", topic: Timers, look: tick::tick },
    Check { key: "high-resolution-timers", topic: Timers, look: tick::high_resolution },
    Check { key: "clock-event-devices", topic: Timers, look: devices::clock_events },
    Check { key: "timer-slack", topic: Timers, look: slack::timer_slack },
    Check { key: "preemption", topic: Timers, look: preemption::preemption },
    Check { key: "idle-states", topic: Timers, look: idle::idle_states },
    Check { key: "processor-frequency", topic: Timers, look: frequency::frequency },
    Check { key: "real-time-throttling", topic: Timers, look: scheduling::throttling },
    Check { key: "isolated-processors", topic: Timers, look: scheduling::isolation },
    Check { key: "device-interrupts", topic: Timers, look: interrupts::devices },
    Check { key: "wake-ups", topic: Timers, look: wake_ups::wake_ups },
];
