//! The record of a train.

use super::Train;

/// A packet that has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Its number in the train, from 0.
    pub packet: u32,
    /// The arrival time on the receiver's clock, in nanoseconds since a reference time of its own.
    pub at_ns: i64,
}

/// The hosts' observations of themselves while a train was under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Host {
    /// Packets for which the sender had no room, or that it was refused.
    pub unsent: u32,
    /// Packets dropped by the receiver's host for lack of room in the socket.
    pub overflowed: u32,
    /// A clock did not run evenly, at either end.
    pub clock_trouble: bool,
}

/// What was sent of a train, and what has arrived.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// The train to be sent.
    pub train: Train,
    /// When each packet was given to the kernel, in nanoseconds since a reference time of the
    /// sender.
    pub sent_ns: Vec<i64>,
    /// The arrivals in order, each packet once.
    pub arrived: Vec<Arrival>,
    /// The hosts' observations.
    pub host: Host,
}
