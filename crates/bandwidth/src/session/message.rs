//! The messages between the two sides; `docs/bandwidth/protocol.md` has their order.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::coded::{Arrivals, Deltas};
use super::failure::Failure;
use super::limits::Offer;
use crate::train::Train;

/// The version of the protocol; both sides must have the same.
pub const VERSION: u32 = 2;

/// The direction of a train.
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
    /// Client of version 1: its version, without TLS.
    Hello {
        /// Its version.
        version: u32,
    },
    /// Server: others are served first.
    Busy {
        /// The number of clients before this one.
        before: u32,
    },
    /// Server: it is your turn.
    Welcome {
        /// The port for probes.
        udp_port: u16,
        /// The limits.
        offer: Offer,
    },
    /// Client: a datagram with this nonce is on its way to you.
    PathRequest {
        /// Fresh and random.
        nonce: u64,
    },
    /// Server: whether it arrived; if so, a challenge was sent to its source.
    PathChallenge {
        /// Whether it arrived.
        sent: bool,
    },
    /// Client: the challenge, which proves the address.
    PathResponse {
        /// The challenge.
        challenge: u64,
    },
    /// Server: the source and destination of probes.
    PathValidated {
        /// The client's address, as the server sees it.
        address: SocketAddr,
        /// The longest IP packet of the route to the client.
        bytes: u16,
    },
    /// Client: a train.
    Prepare {
        /// The train.
        train: Train,
        /// The direction.
        direction: Direction,
        /// Its number in the session.
        number: u32,
    },
    /// Server: ready to receive the train, or about to send it.
    Ready {
        /// The train's number.
        number: u32,
    },
    /// Client: all of it was sent.
    Done {
        /// The train's number.
        number: u32,
    },
    /// Server: what it sent, or a part of it.
    Sent {
        /// When each packet left.
        sent: Deltas,
        /// The number of packets refused.
        unsent: u32,
        /// The clock did not run evenly.
        clock_trouble: bool,
        /// Nothing follows.
        last: bool,
    },
    /// Server: what has arrived, or a part of it.
    Report {
        /// When each packet arrived.
        arrived: Arrivals,
        /// The number of packets dropped by the host.
        overflowed: u32,
        /// The clock did not run evenly.
        clock_trouble: bool,
        /// Nothing follows.
        last: bool,
    },
    /// Client: are you there?
    Ping,
    /// Server: yes.
    Pong,
    /// Either: the session is over.
    Bye {
        /// The reason.
        why: String,
    },
    /// Either: the session is over because of a failure.
    Error(Failure),
}

impl Message {
    /// Its name for errors: the value of `is`.
    #[must_use]
    pub fn name(&self) -> String {
        let json = serde_json::to_value(self).expect("a message is JSON");
        json["is"].as_str().expect("a message has a name").to_owned()
    }
}
