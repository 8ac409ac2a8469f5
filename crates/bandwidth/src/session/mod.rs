//! Two hosts that have agreed on measuring.
//!
//! `docs/bandwidth/protocol.md` describes the network protocol and its rationale.
//!
//! - [`server`]: waits for clients, and serves one after the other.
//! - [`client`]: finds a server and is a [`Path`](crate::methods::Path) to it, or from it.
//! - [`probes`]: the interface to whatever sends and receives trains.
//! - [`sockets`]: its implementation over UDP.
//! - [`token`], [`tls`], [`handshake`]: authentication and encryption.
//! - [`limits`]: how much a client may send.
//! - [`transport`], [`frame`], [`message`], [`coded`]: the control channel.
//! - [`path_validation`], [`udp`]: the path of datagrams.
//! - [`exchange`]: one train, as both sides see it.
//! - [`event`], [`failure`], [`error`]: what is reported.

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

/// The default port of a server, TCP and UDP.
pub const DEFAULT_PORT: u16 = 7207;
