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
    /// The direction of trains.
    pub direction: Direction,
    /// The length of the longest packets; by default the longest that pass.
    pub bytes: Option<u16>,
    /// The highest rate.
    pub rate: Option<BitRate>,
    /// How long an estimate may take.
    pub time: Duration,
    /// How many bytes it may send.
    pub total_bytes: u64,
    /// How long to wait for our turn.
    pub wait: Duration,
}

impl Default for Request {
    /// Upload, five seconds, a minute in the queue, as much as the server allows.
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

/// The server's address and credentials.
#[derive(Clone)]
pub struct Server {
    /// Its name or address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The port for its datagrams, if a middlebox has mapped them to another port.
    pub udp_port: Option<u16>,
    /// The shared token.
    pub token: Token,
    /// The server's key, if it has its own.
    pub fingerprint: Option<Fingerprint>,
}

/// A callback for progress.
pub type Progress<'a> = dyn FnMut(Step) + 'a;

/// A step of progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// This many clients are served first.
    Busy(u32),
    /// The session begins.
    Begun,
    /// Packets of this length pass.
    Bytes(u16),
}
