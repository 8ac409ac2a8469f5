//! Trains of probe packets: what to send, what was sent, and its evaluation.

pub mod pacing;
pub mod packet;
pub mod receiver;
mod seen;
pub mod sender;
mod trace;

pub use pacing::Timing;
pub use seen::{Discarded, Seen};
pub use trace::{Arrival, Host, Trace};

use serde::{Deserialize, Serialize};

use crate::units::BitRate;

/// Packets of one size at even gaps.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Train {
    /// The number of packets; at least two, to have a gap.
    pub packets: u32,
    /// The length of each, as an IP packet.
    pub bytes: u16,
    /// The sending rate.
    pub rate: BitRate,
}

impl Train {
    /// The time from one packet to the next, in nanoseconds.
    #[must_use]
    pub fn gap_ns(&self) -> f64 {
        self.rate.ns_of(self.bytes.into())
    }

    /// When a packet is due, in nanoseconds after the first.
    #[must_use]
    pub fn due_ns(&self, packet: u32) -> u64 {
        (self.gap_ns() * f64::from(packet)).round() as u64
    }

    /// The time from the first packet to the last, in nanoseconds.
    #[must_use]
    pub fn length_ns(&self) -> u64 {
        self.due_ns(self.packets.saturating_sub(1))
    }

    /// The total size in bytes.
    #[must_use]
    pub fn total_bytes(&self) -> u64 {
        u64::from(self.packets) * u64::from(self.bytes)
    }
}
