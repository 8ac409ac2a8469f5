//! `eigentime bandwidth measure HOST`: a server, and the path to it.

mod connect;
mod packets;
mod remote;

pub use connect::connect;
pub use remote::Remote;

use std::time::Duration;

use super::message::Direction;
use super::token::{Fingerprint, Token};
use crate::units::BitRate;

/// What a client asks for.
#[derive(Clone)]
pub struct Request {
    /// Which way trains go.
    pub direction: Direction,
    /// The length of the longest packets; the longest that pass, if none is named.
    pub bytes: Option<u16>,
    /// The highest rate.
    pub rate: Option<BitRate>,
    /// How long an estimate may take.
    pub time: Duration,
    /// How many bytes it may send.
    pub total_bytes: u64,
    /// How long to wait for one's turn.
    pub wait: Duration,
}

impl Default for Request {
    /// Up, five seconds, a minute in the queue, as much as the server allows.
    fn default() -> Self {
        Self {
            direction: Direction::Up,
            bytes: None,
            rate: None,
            time: Duration::from_secs(5),
            total_bytes: u64::MAX,
            wait: Duration::from_secs(60),
        }
    }
}

/// Where the server is, and how it is known.
#[derive(Clone)]
pub struct Server {
    /// Its name or address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Where its datagrams go, if something in between has given them another port.
    pub udp_port: Option<u16>,
    /// What both know.
    pub token: Token,
    /// The server's key, if it has one of its own.
    pub fingerprint: Option<Fingerprint>,
}

/// Who is told how it goes on.
pub type Progress<'a> = dyn FnMut(Step) + 'a;

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Others are served first: so many.
    Busy(u32),
    /// The session begins.
    Begun,
    /// Packets of this length pass.
    Bytes(u16),
}
