//! What the two sides say to each other: `docs/bandwidth/protocol.md` has the order.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use super::coded::{Arrivals, Deltas};
use super::error::Failure;
use super::hex::Hex;
use super::limits::Offer;
use crate::train::Train;

/// The version of the protocol; both sides must have the same.
pub const VERSION: u32 = 1;

/// What a client begins with, so that a peer of something else is known as such.
pub const PROTOCOL: &str = "eigentime bandwidth";

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
    /// Client: what it speaks.
    Hello {
        /// [`PROTOCOL`].
        protocol: String,
        /// [`VERSION`].
        version: u32,
        /// Fresh random bytes.
        nonce: Hex<32>,
    },
    /// Server: prove that you know the token.
    Challenge {
        /// [`VERSION`].
        version: u32,
        /// Fresh random bytes.
        nonce: Hex<32>,
    },
    /// Client: the proof.
    Proof {
        /// By the token and both nonces.
        proof: Hex<32>,
    },
    /// Server: its own proof. From here on frames are sealed.
    Accepted {
        /// By the token and both nonces.
        proof: Hex<32>,
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
    /// Client: a datagram is on its way to you.
    Knocked,
    /// Server: whether it came; if so, an answer went to where it came from.
    Answered {
        /// Whether it came.
        heard: bool,
    },
    /// Client: what the answer said, which proves the address.
    Echo {
        /// The nonce of the answer.
        nonce: Hex<16>,
    },
    /// Server: where probes come from and go to.
    Known {
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
    /// Its name, for errors.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Hello { .. } => "hello",
            Self::Challenge { .. } => "challenge",
            Self::Proof { .. } => "proof",
            Self::Accepted { .. } => "accepted",
            Self::Busy { .. } => "busy",
            Self::Welcome { .. } => "welcome",
            Self::Knocked => "knocked",
            Self::Answered { .. } => "answered",
            Self::Echo { .. } => "echo",
            Self::Known { .. } => "known",
            Self::Prepare { .. } => "prepare",
            Self::Ready { .. } => "ready",
            Self::Done { .. } => "done",
            Self::Sent { .. } => "sent",
            Self::Report { .. } => "report",
            Self::Ping => "ping",
            Self::Pong => "pong",
            Self::Bye { .. } => "bye",
            Self::Error(_) => "error",
        }
    }
}
