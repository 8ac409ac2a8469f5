//! Hypervisor, container, namespaces, control groups, and their effects.
//!
//! - `hypervisor`: the hypervisor of this machine, if it is virtual; `migration`: whether moves are
//!   notified.
//! - `gvisor`: a kernel in user space.
//! - `container`: whether this process is in one.
//! - `namespace`: its time namespace; `timeline`: whether it is in one of Eigentime's.
//! - `steal`: processor time that the hypervisor gave to others.
//! - `limits`: processor time withheld from this process by control groups.
//! - `processors`: how many it may use; `pressure`: how contended they are.
//! - `suspend`: whether the machine was suspended; `firmware`: time taken by the firmware.

mod container;
mod firmware;
mod gvisor;
pub mod hypervisor;
mod limits;
mod migration;
mod namespace;
mod pressure;
mod processors;
mod steal;
mod suspend;
pub mod timeline;

use crate::{Check, Topic::Surroundings};

/// The checks of this topic.
pub const CHECKS: &[Check] = &[
    Check { key: "hypervisor", topic: Surroundings, look: hypervisor::hypervisor },
    Check { key: "gvisor", topic: Surroundings, look: gvisor::gvisor },
    Check { key: "container", topic: Surroundings, look: container::container },
    Check { key: "time-namespace", topic: Surroundings, look: namespace::time_namespace },
    Check { key: "timeline", topic: Surroundings, look: timeline::timeline },
    Check { key: "steal", topic: Surroundings, look: steal::steal },
    Check { key: "processor-limits", topic: Surroundings, look: limits::limits },
    Check { key: "processors", topic: Surroundings, look: processors::processors },
    Check { key: "processor-pressure", topic: Surroundings, look: pressure::pressure },
    Check { key: "suspend", topic: Surroundings, look: suspend::suspend },
    Check { key: "firmware-interrupts", topic: Surroundings, look: firmware::interrupts },
    Check { key: "migration", topic: Surroundings, look: migration::migration },
];
