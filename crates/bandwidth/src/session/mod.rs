//! Two hosts that have agreed on measuring.
//!
//! `docs/bandwidth/protocol.md` describes what goes over the network, and why.
//!
//! - [`server`]: waits for clients, and serves one after the other.
//! - [`client`]: finds a server and is a [`Path`](crate::methods::Path) to it, or from it.
//! - [`probes`]: what both need of whoever sends and receives trains.
//! - [`sockets`]: who does so over UDP.
//! - [`token`], [`handshake`], [`tls`]: who may, and what keeps others out.
//! - [`limits`]: how much.
//! - [`frame`], [`message`], [`coded`], [`line`](mod@line), [`hex`]: the control channel.
//! - [`knock`], [`udp`]: where datagrams go.
//! - [`exchange`]: one train, as both sides see it.
//! - [`event`], [`error`]: what is told of it all.

pub mod client;
pub mod coded;
pub mod error;
pub mod event;
pub mod exchange;
pub mod frame;
pub mod handshake;
pub mod hex;
pub mod knock;
pub mod limits;
pub mod line;
pub mod message;
pub mod probes;
pub mod server;
pub mod sockets;
pub mod tls;
pub mod token;
pub mod udp;

/// Where a server listens unless told otherwise, TCP and UDP.
pub const DEFAULT_PORT: u16 = 7207;
