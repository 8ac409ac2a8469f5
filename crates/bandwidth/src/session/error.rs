//! Why a session could not be established, or has ended.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::failure::{Code, Failure};

/// Why a session could not be established, or has ended.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The operating system refused something.
    #[error("cannot {what}: {why}")]
    Io {
        /// The attempted operation.
        what: String,
        /// The system's error.
        why: io::Error,
    },
    /// The other side has ended the connection.
    #[error("{who} has closed the connection, while {awaited} was awaited")]
    Gone {
        /// The peer.
        who: String,
        /// The awaited message.
        awaited: &'static str,
    },
    /// The other side is silent.
    #[error("{who} is silent: for {waited:.1?} {awaited} was awaited")]
    Silent {
        /// The peer.
        who: String,
        /// The awaited message.
        awaited: &'static str,
        /// How long it was awaited.
        waited: Duration,
    },
    /// The other side speaks another protocol.
    #[error("{who} does not speak eigentime's protocol: it sent {what}")]
    NotOurs {
        /// The peer.
        who: String,
        /// What it sent.
        what: String,
    },
    /// The other side speaks another version.
    #[error(
        "{who} speaks {theirs} of the protocol, this is version {ours}: install the same version of eigentime on both hosts"
    )]
    Version {
        /// The peer.
        who: String,
        /// Our version.
        ours: u32,
        /// Its version, as far as known.
        theirs: String,
    },
    /// The other side's key does not match the token.
    #[error(
        "{who} does not know the token: give both hosts the same, and the client the fingerprint (--fingerprint) of a server that has a key of its own"
    )]
    Token {
        /// The peer.
        who: String,
    },
    /// The server's key differs from the one given to the client.
    #[error(
        "the key of {who} has another fingerprint than {pinned}: it is another server, or has got a new key"
    )]
    Fingerprint {
        /// The peer.
        who: String,
        /// The expected fingerprint.
        pinned: String,
    },
    /// The other side rejects our key.
    #[error(
        "{who} refuses the key of this side: give both hosts the same token, and the client the fingerprint (--fingerprint) of a server that has a key of its own"
    )]
    OurKey {
        /// The peer.
        who: String,
    },
    /// A server's key could not be loaded.
    #[error(
        "cannot use {} as a key: {why}; `openssl genpkey -algorithm ed25519 -out FILE` makes one", path.display()
    )]
    KeyFile {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// The TLS handshake failed, or a message was altered in transit.
    #[error("no TLS with {who}: {why}")]
    Tls {
        /// The peer.
        who: String,
        /// The reason.
        why: String,
    },
    /// An unexpected message.
    #[error("{who} sent {what}, while {awaited} was awaited")]
    Order {
        /// The peer.
        who: String,
        /// The received message.
        what: String,
        /// The awaited message.
        awaited: &'static str,
    },
    /// An inconsistent report.
    #[error("{who} sent a report that cannot be: {what}")]
    Report {
        /// The peer.
        who: String,
        /// The inconsistency.
        what: String,
    },
    /// A message that is too long for a frame.
    #[error("a message of {bytes} bytes, more than the {limit} of a frame")]
    TooLong {
        /// Its length.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// The other side has refused, with a reason.
    #[error("{who} says: {}", failure.message)]
    Refused {
        /// The peer.
        who: String,
        /// The reason.
        failure: Failure,
    },
    /// The other side has ended the session.
    #[error("{who} has ended the session: {why}")]
    Bye {
        /// The peer.
        who: String,
        /// The reason.
        why: String,
    },
    /// The name has no address.
    #[error("'{host}' is not known: {why}")]
    Unknown {
        /// The name.
        host: String,
        /// The resolver's error.
        why: String,
    },
    /// Nothing listens there.
    #[error(
        "cannot reach a server at {tried}: {why}; is `eigentime bandwidth serve` running there, and does a firewall let TCP and UDP pass to its port?"
    )]
    Unreachable {
        /// The addresses tried.
        tried: String,
        /// The error of the last attempt.
        why: io::Error,
    },
    /// Others are served first, for longer than the permitted wait.
    #[error(
        "{who} is busy: {before} before you, after {waited:.0?} of waiting; allow more (--wait), or try again later"
    )]
    Busy {
        /// The peer.
        who: String,
        /// The number of clients served first.
        before: u32,
        /// How long the client waited.
        waited: Duration,
    },
    /// Datagrams do not come through.
    #[error(
        "UDP does not pass between here and {server}: {what}; a firewall or NAT in between has to let it"
    )]
    Datagrams {
        /// The port that was tried.
        server: SocketAddr,
        /// The direction in which they are lost.
        what: &'static str,
    },
    /// The limits are too low to begin.
    #[error(
        "{left} bytes are left of what may be sent, and to find out which packets pass takes {needed}: allow more, or ask for shorter packets"
    )]
    TooFewBytes {
        /// The bytes left.
        left: u64,
        /// The bytes needed.
        needed: u64,
    },
    /// Packets of the requested size do not come through.
    #[error(
        "packets of {asked} bytes do not pass: {passes} bytes do; ask for no more, or let the size be found"
    )]
    TooBig {
        /// The requested size.
        asked: u16,
        /// The size that passes.
        passes: u16,
    },
    /// Packets of the requested size exceed the local route.
    #[error(
        "packets of {asked} bytes are too long: the route that they leave by takes {takes}; ask for no more, or let the size be found"
    )]
    TooBigToLeave {
        /// The requested size.
        asked: u16,
        /// The size that the route takes.
        takes: u16,
    },
    /// Not even small probes come through.
    #[error(
        "no probe comes through, not even of {tried} bytes, though datagrams of the session do: something in between drops them"
    )]
    NoProbes {
        /// The smallest size that was tried.
        tried: u16,
    },
    /// A limit on this side.
    #[error(transparent)]
    Limit(#[from] Failure),
}

impl SessionError {
    /// A [`SessionError`] for an operation that failed.
    pub fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |why| Self::Io { what, why }
    }

    /// The failure to report to the other side, if it still listens and may know.
    #[must_use]
    pub fn failure(&self) -> Option<Failure> {
        let code = match self {
            Self::Limit(failure) => return Some(failure.clone()),
            Self::NotOurs { .. } => Code::NotOurs,
            Self::Version { .. } => Code::Version,
            Self::Order { .. } | Self::Report { .. } => Code::Order,
            Self::Silent { .. } => Code::Idle,
            Self::Io { .. } | Self::TooLong { .. } => Code::Failed,
            _ => return None,
        };
        Some(Failure { code, message: self.to_string() })
    }
}
