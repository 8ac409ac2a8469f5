//! The truth of a path: what it carried, for those who have estimated it.
//!
//! It is written as JSON lines: first how the path is ([`Line::Path`]), then what each way carried in
//! each span of time ([`Line::Span`]) and when the emulator stalled ([`Line::Stall`]), and at last
//! that this was all ([`Line::End`]).

mod reader;
mod writer;

pub use reader::{NoTruth, Truth, Unknown};
pub use writer::{Unwritten, Writer};

use serde::{Deserialize, Serialize};

use super::stalls::{Punctuality, Stall};
use super::way::Settings;
use eigentime_bandwidth::BitRate;

/// A way of the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// From the first end to the second.
    Forward,
    /// From the second to the first.
    Back,
}

impl Direction {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::Forward, Self::Back];
}

/// Packets, and their bytes as IP packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    /// How many packets.
    pub packets: u64,
    /// And bytes.
    pub bytes: u64,
}

impl Count {
    /// One more packet.
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

/// What has happened on one way in a span of time.
///
/// What arrived is sent, dropped, oversize, lost or refused, in this span or a later one, or still on
/// its way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Flow {
    /// What the link could carry, on average.
    pub capacity: BitRate,
    /// What came to the queue.
    pub arrived: Count,
    /// What was given to the other end.
    pub sent: Count,
    /// What the queue had no room for.
    pub dropped: Count,
    /// What was longer than the path's MTU.
    pub oversize: Count,
    /// What was lost behind the queue, as asked.
    pub lost: Count,
    /// What the other end's kernel did not take: the host's doing, not the path's.
    pub refused: Count,
    /// Packets that the host had no room for before they came to the queue.
    pub missed: u64,
    /// Cross traffic that was let into the queue.
    pub cross: Count,
    /// And that was not.
    pub cross_dropped: Count,
    /// How many bytes wait at the end of the span, cross traffic included.
    pub waiting: u64,
    /// The latest that a packet was sent after it was due, in nanoseconds.
    pub latest_ns: u64,
}

impl std::ops::AddAssign for Flow {
    /// Two spans that follow each other as one; but the capacity is that of the later one.
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

/// A span of time on one way. Times are CLOCK_MONOTONIC in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Span {
    /// Which way.
    pub way: Direction,
    /// When it begins.
    pub from_ns: i64,
    /// When it ends.
    pub to_ns: i64,
    /// What has happened in it.
    #[serde(flatten)]
    pub flow: Flow,
}

/// A line of the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "line")]
pub enum Line {
    /// How the path is, from its first end to the second and back.
    Path {
        /// The version of this format.
        version: u32,
        /// When it began, CLOCK_MONOTONIC in nanoseconds.
        from_ns: i64,
        /// One way.
        forward: Box<Settings>,
        /// And the other.
        back: Box<Settings>,
    },
    /// What a way carried.
    Span(Span),
    /// The emulator did nothing.
    Stall(Stall),
    /// There is no more.
    End {
        /// How late it was.
        punctuality: Punctuality,
        /// What is still on its way, by way.
        on_its_way: [Count; 2],
    },
}

/// The version of the format.
pub const VERSION: u32 = 1;
