//! Events of a server, for its log.

use std::fmt;
use std::net::SocketAddr;
use std::time::SystemTime;

use serde::Serialize;

use super::message::Direction;

/// An event of a server.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "event")]
pub enum Event {
    /// The server waits for clients.
    Listening {
        /// The address it listens on.
        address: SocketAddr,
        /// The fingerprint of its key, if it has its own.
        fingerprint: Option<String>,
    },
    /// A connection was refused.
    Refused {
        /// The client's address.
        client: SocketAddr,
        /// The reason.
        why: String,
    },
    /// An authenticated client waits while others are served first.
    Waiting {
        /// The client.
        client: SocketAddr,
        /// The number of clients before it.
        before: u32,
    },
    /// A session begins.
    Begun {
        /// The client.
        client: SocketAddr,
    },
    /// A train was sent or received.
    Train {
        /// The client.
        client: SocketAddr,
        /// The direction.
        direction: Direction,
        /// The number of packets sent or received.
        packets: u32,
        /// The number of packets in the train.
        of: u32,
        /// The length of each.
        bytes: u16,
        /// The rate, in bits per second.
        rate: f64,
    },
    /// A session is over.
    Ended {
        /// The client.
        client: SocketAddr,
        /// The number of trains.
        trains: u32,
        /// The number of bytes.
        bytes: u64,
        /// Its duration, in seconds.
        seconds: f64,
        /// The result.
        result: String,
    },
    /// The server has stopped.
    Stopped,
}

/// An event with its time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Entry {
    /// The time in UTC.
    pub at: String,
    /// The event.
    #[serde(flatten)]
    pub event: Event,
}

impl Entry {
    /// An event at the current time.
    #[must_use]
    pub fn now(event: Event) -> Self {
        let at =
            jiff::Timestamp::try_from(SystemTime::now()).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
        Self { at: format!("{at:.3}"), event }
    }
}

/// A callback for events.
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
