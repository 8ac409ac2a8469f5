//! Two hosts that have agreed on measuring.
//!
//! `docs/bandwidth/protocol.md` describes what goes over the network, and why.
//!
//! - [`server`]: waits for clients, and serves one after the other.
//! - [`client`]: finds a server and is a [`Path`](crate::methods::Path) to it, or from it.
//! - [`probes`]: what both need of whoever sends and receives trains.
//! - [`sockets`]: who does so over UDP.
//! - [`token`], [`tls`], [`handshake`]: who may, and what keeps others out.
//! - [`limits`]: how much.
//! - [`transport`], [`frame`], [`message`], [`coded`]: the control channel.
//! - [`path_validation`], [`udp`]: where datagrams go.
//! - [`exchange`]: one train, as both sides see it.
//! - [`event`], [`failure`], [`error`]: what is told of it all.

pub mod client;
pub mod coded;
pub mod error;
pub mod event;
pub mod exchange;
pub mod failure;
pub mod frame;
pub mod handshake;
pub mod limits;
pub mod message;
pub mod path_validation;
pub mod probes;
pub mod server;
pub mod sockets;
pub mod tls;
pub mod token;
pub mod transport;
pub mod udp;

/// Where a server listens unless told otherwise, TCP and UDP.
pub const DEFAULT_PORT: u16 = 7207;
