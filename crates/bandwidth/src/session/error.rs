//! Why there is no session, or none any more.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::failure::{Code, Failure};

/// Why there is no session, or none any more.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The operating system refused something.
    #[error("cannot {what}: {why}")]
    Io {
        /// What was to be done.
        what: String,
        /// What it said.
        why: io::Error,
    },
    /// The other side has ended the connection.
    #[error("{who} has closed the connection, while {awaited} was awaited")]
    Gone {
        /// Who.
        who: String,
        /// What should have come.
        awaited: &'static str,
    },
    /// The other side says nothing.
    #[error("{who} is silent: for {waited:.1?} {awaited} was awaited")]
    Silent {
        /// Who.
        who: String,
        /// What should have come.
        awaited: &'static str,
        /// For how long.
        waited: Duration,
    },
    /// The other side is something else.
    #[error("{who} does not speak eigentime's protocol: it sent {what}")]
    NotOurs {
        /// Who.
        who: String,
        /// What it said.
        what: String,
    },
    /// The other side speaks another version.
    #[error(
        "{who} speaks {theirs} of the protocol, this is version {ours}: install the same version of eigentime on both hosts"
    )]
    Version {
        /// Who.
        who: String,
        /// Our version.
        ours: u32,
        /// Theirs, as far as it is known.
        theirs: String,
    },
    /// The other side has another key than the token gives it.
    #[error(
        "{who} does not know the token: give both hosts the same, and the client the fingerprint (--fingerprint) of a server that has a key of its own"
    )]
    Token {
        /// Who.
        who: String,
    },
    /// The server has another key than the client was told.
    #[error(
        "the key of {who} has another fingerprint than {pinned}: it is another server, or has got a new key"
    )]
    Fingerprint {
        /// Who.
        who: String,
        /// What was asked for.
        pinned: String,
    },
    /// The other side does not take our key.
    #[error(
        "{who} refuses the key of this side: give both hosts the same token, and the client the fingerprint (--fingerprint) of a server that has a key of its own"
    )]
    OurKey {
        /// Who.
        who: String,
    },
    /// The key of a server.
    #[error(
        "cannot use {} as a key: {why}; `openssl genpkey -algorithm ed25519 -out FILE` makes one", path.display()
    )]
    KeyFile {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// The TLS handshake has failed, or a message was changed on its way.
    #[error("no TLS with {who}: {why}")]
    Tls {
        /// Who.
        who: String,
        /// Why.
        why: String,
    },
    /// A message where another was due.
    #[error("{who} sent {what}, while {awaited} was awaited")]
    Order {
        /// Who.
        who: String,
        /// What came.
        what: String,
        /// What should have come.
        awaited: &'static str,
    },
    /// A report that contradicts itself.
    #[error("{who} sent a report that cannot be: {what}")]
    Report {
        /// Who.
        who: String,
        /// What is wrong with it.
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
    /// The other side has refused, and says why.
    #[error("{who} says: {}", failure.message)]
    Refused {
        /// Who.
        who: String,
        /// Why.
        failure: Failure,
    },
    /// The other side has taken its leave.
    #[error("{who} has ended the session: {why}")]
    Bye {
        /// Who.
        who: String,
        /// Why.
        why: String,
    },
    /// No address of that name.
    #[error("'{host}' is not known: {why}")]
    Unknown {
        /// The name.
        host: String,
        /// What the resolver said.
        why: String,
    },
    /// Nobody listens there.
    #[error(
        "cannot reach a server at {tried}: {why}; is `eigentime bandwidth serve` running there, and does a firewall let TCP and UDP pass to its port?"
    )]
    Unreachable {
        /// What was tried.
        tried: String,
        /// What the last attempt came to.
        why: io::Error,
    },
    /// Others are served first, for longer than one wants to wait.
    #[error(
        "{who} is busy: {before} before you, after {waited:.0?} of waiting; allow more (--wait), or try again later"
    )]
    Busy {
        /// Who.
        who: String,
        /// How many are served first.
        before: u32,
        /// How long that was waited for.
        waited: Duration,
    },
    /// Datagrams do not come through.
    #[error(
        "UDP does not pass between here and {server}: {what}; a firewall or NAT in between has to let it"
    )]
    Datagrams {
        /// The port that was tried.
        server: SocketAddr,
        /// Which way they are lost.
        what: &'static str,
    },
    /// Less is allowed than it takes to begin.
    #[error(
        "{left} bytes are left of what may be sent, and to find out which packets pass takes {needed}: allow more, or ask for shorter packets"
    )]
    TooFewBytes {
        /// What is left.
        left: u64,
        /// What it takes.
        needed: u64,
    },
    /// Packets of the size that was asked for do not come through.
    #[error(
        "packets of {asked} bytes do not pass: {passes} bytes do; ask for no more, or let the size be found"
    )]
    TooBig {
        /// What was asked for.
        asked: u16,
        /// What passes.
        passes: u16,
    },
    /// Packets of the size that was asked for do not even leave.
    #[error(
        "packets of {asked} bytes are too long: the route that they leave by takes {takes}; ask for no more, or let the size be found"
    )]
    TooBigToLeave {
        /// What was asked for.
        asked: u16,
        /// What it takes.
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
    /// A limit of this side.
    #[error(transparent)]
    Limit(#[from] Failure),
}

impl SessionError {
    /// What could not be done.
    pub fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |why| Self::Io { what, why }
    }

    /// What the other side is to be told of it, if it still listens and may know.
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
