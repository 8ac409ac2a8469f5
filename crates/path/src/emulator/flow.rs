//! What one direction of the path carried.

use eigentime_bandwidth::BitRate;
use serde::{Deserialize, Serialize};

/// A number of packets, and their bytes as IP packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    /// The number of packets.
    pub packets: u64,
    /// The number of bytes.
    pub bytes: u64,
}

impl Count {
    /// Adds a packet.
    pub fn add(&mut self, bytes: u32) {
        self.packets += 1;
        self.bytes += u64::from(bytes);
    }
}

impl std::ops::AddAssign for Count {
    fn add_assign(&mut self, more: Self) {
        self.packets += more.packets;
        self.bytes += more.bytes;
    }
}

/// The events in one direction in a span of time.
///
/// Arrived packets are sent, dropped, oversize, lost or refused, in this span or a later one, or
/// are still under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Flow {
    /// The average capacity of the link.
    pub capacity: BitRate,
    /// Packets that arrived at the queue.
    pub arrived: Count,
    /// Packets given to the other end.
    pub sent: Count,
    /// Packets for which the queue had no room.
    pub dropped: Count,
    /// Packets longer than the path's MTU.
    pub oversize: Count,
    /// Packets lost after the queue, as configured.
    pub lost: Count,
    /// Packets that the other end's kernel did not accept: an effect of the host, not the path.
    pub refused: Count,
    /// Packets dropped by the host before they reached the queue.
    pub missed: u64,
    /// Cross traffic accepted by the queue.
    pub cross: Count,
    /// Cross traffic dropped by the queue.
    pub cross_dropped: Count,
    /// The number of bytes waiting at the end of the span, including cross traffic.
    pub waiting: u64,
    /// The largest lateness of a sent packet, in nanoseconds.
    pub latest_ns: u64,
}

impl std::ops::AddAssign for Flow {
    /// Merges two consecutive spans; the capacity is that of the later one.
    fn add_assign(&mut self, later: Self) {
        self.capacity = later.capacity;
        self.arrived += later.arrived;
        self.sent += later.sent;
        self.dropped += later.dropped;
        self.oversize += later.oversize;
        self.lost += later.lost;
        self.refused += later.refused;
        self.missed += later.missed;
        self.cross += later.cross;
        self.cross_dropped += later.cross_dropped;
        self.waiting = later.waiting;
        self.latest_ns = self.latest_ns.max(later.latest_ns);
    }
}
