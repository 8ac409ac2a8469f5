//! What became of a train.

use super::Train;

/// A packet that has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Its number in the train, from 0.
    pub packet: u32,
    /// When, by the receiver's clock, in nanoseconds since a moment of its own.
    pub at_ns: i64,
}

/// What the two hosts have noticed of themselves while a train was under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Host {
    /// Packets that the sender had no room for, or was refused.
    pub unsent: u32,
    /// Packets that the receiver's host has dropped for want of room in the socket.
    pub overflowed: u32,
    /// The clock was not one that goes evenly, at either end.
    pub clock_trouble: bool,
}

/// What was sent of a train, and what has arrived.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// What was to be sent.
    pub train: Train,
    /// When each packet was given to the kernel, in nanoseconds since a moment of the sender.
    pub sent_ns: Vec<i64>,
    /// What has arrived, in the order of arrival, each packet once.
    pub arrived: Vec<Arrival>,
    /// What the hosts say of themselves.
    pub host: Host,
}
