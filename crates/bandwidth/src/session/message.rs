//! What the two sides say to each other: `docs/bandwidth/protocol.md` has the order.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::coded::{Arrivals, Deltas};
use super::failure::Failure;
use super::limits::Offer;
use crate::train::Train;

/// The version of the protocol; both sides must have the same.
pub const VERSION: u32 = 2;

/// Which way a train goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// From the client to the server.
    #[default]
    Up,
    /// From the server to the client.
    Down,
}

/// A message of the control channel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum Message {
    /// Client of version 1: what it speaks, without TLS.
    Hello {
        /// Its version.
        version: u32,
    },
    /// Server: others are served first.
    Busy {
        /// How many.
        before: u32,
    },
    /// Server: it is your turn.
    Welcome {
        /// Where probes are awaited.
        udp_port: u16,
        /// What is allowed.
        offer: Offer,
    },
    /// Client: a datagram with this nonce is on its way to you.
    PathRequest {
        /// Fresh and random.
        nonce: u64,
    },
    /// Server: whether it came; if so, a challenge went to where it came from.
    PathChallenge {
        /// Whether it came.
        sent: bool,
    },
    /// Client: what the challenge said, which proves the address.
    PathResponse {
        /// The challenge.
        challenge: u64,
    },
    /// Server: where probes come from and go to.
    PathValidated {
        /// The client's address, as the server sees it.
        address: SocketAddr,
        /// The longest IP packet of the route to the client.
        bytes: u16,
    },
    /// Client: a train.
    Prepare {
        /// What.
        train: Train,
        /// Which way.
        direction: Direction,
        /// Its number in the session.
        number: u32,
    },
    /// Server: it may come; or it comes now.
    Ready {
        /// The train's number.
        number: u32,
    },
    /// Client: all of it was sent.
    Done {
        /// The train's number.
        number: u32,
    },
    /// Server: what it sent, or a part of that.
    Sent {
        /// When each packet left.
        sent: Deltas,
        /// How many were refused.
        unsent: u32,
        /// The clock did not go evenly.
        clock_trouble: bool,
        /// Nothing follows.
        last: bool,
    },
    /// Server: what has arrived, or a part of that.
    Report {
        /// When each packet came.
        arrived: Arrivals,
        /// How many the host has dropped.
        overflowed: u32,
        /// The clock did not go evenly.
        clock_trouble: bool,
        /// Nothing follows.
        last: bool,
    },
    /// Client: are you there?
    Ping,
    /// Server: yes.
    Pong,
    /// Either: that was all.
    Bye {
        /// Why.
        why: String,
    },
    /// Either: that was all, because something is wrong.
    Error(Failure),
}

impl Message {
    /// Its name, for errors: what `is` says.
    #[must_use]
    pub fn name(&self) -> String {
        let json = serde_json::to_value(self).expect("a message is JSON");
        json["is"].as_str().expect("a message has a name").to_owned()
    }
}
