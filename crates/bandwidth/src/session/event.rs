//! What a server does, for its log.

use std::fmt;
use std::net::SocketAddr;
use std::time::SystemTime;

use serde::Serialize;

use super::message::Direction;

/// Something a server has done.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "event")]
pub enum Event {
    /// It waits for clients.
    Listening {
        /// Where.
        address: SocketAddr,
        /// The fingerprint of its key, if it has one of its own.
        fingerprint: Option<String>,
    },
    /// A connection became no session.
    Refused {
        /// From where.
        client: SocketAddr,
        /// Why.
        why: String,
    },
    /// A client has proven itself, and others are served first.
    Waiting {
        /// Who.
        client: SocketAddr,
        /// How many.
        before: u32,
    },
    /// A session begins.
    Begun {
        /// With whom.
        client: SocketAddr,
    },
    /// A train was sent, or received.
    Train {
        /// With whom.
        client: SocketAddr,
        /// Which way.
        direction: Direction,
        /// How many packets were sent or have arrived.
        packets: u32,
        /// Of how many.
        of: u32,
        /// The length of each.
        bytes: u16,
        /// The rate, in bits per second.
        rate: f64,
    },
    /// A session is over.
    Ended {
        /// With whom.
        client: SocketAddr,
        /// How many trains.
        trains: u32,
        /// Of how many bytes.
        bytes: u64,
        /// How long it took, in seconds.
        seconds: f64,
        /// How it ended.
        result: String,
    },
    /// The server has stopped.
    Stopped,
}

/// An event and when it was.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Entry {
    /// When, as an instant of UTC.
    pub at: String,
    /// What.
    #[serde(flatten)]
    pub event: Event,
}

impl Entry {
    /// Now.
    #[must_use]
    pub fn now(event: Event) -> Self {
        let at =
            jiff::Timestamp::try_from(SystemTime::now()).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
        Self { at: format!("{at:.3}"), event }
    }
}

/// Whom events are told.
pub type Tell = dyn Fn(&Entry) + Send + Sync;

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.at)?;
        match &self.event {
            Event::Listening { address, fingerprint } => {
                write!(f, "listening at {address}, TCP and UDP")?;
                fingerprint.iter().try_for_each(|it| write!(f, "; fingerprint {it}"))
            }
            Event::Refused { client, why } => write!(f, "{client} refused: {why}"),
            Event::Waiting { client, before } => write!(f, "{client} waits: {before} before it"),
            Event::Begun { client } => write!(f, "{client} begins"),
            Event::Train { client, direction, packets, of, bytes, rate } => {
                let (way, rate) = match direction {
                    Direction::Up => ("arrived from", rate / 1e6),
                    Direction::Down => ("sent to", rate / 1e6),
                };
                write!(
                    f,
                    "{packets} of {of} packets of {bytes} bytes at {rate:.1} Mbit/s {way} {client}"
                )
            }
            Event::Ended { client, trains, bytes, seconds, result } => {
                write!(
                    f,
                    "{client} ended: {trains} trains, {bytes} bytes, {seconds:.1} s: {result}"
                )
            }
            Event::Stopped => f.write_str("stopped"),
        }
    }
}
