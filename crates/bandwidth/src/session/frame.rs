//! One message per frame: its length in four bytes, and the message as JSON.

use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

use rustls::{AlertDescription, CertificateError, Error};

use super::error::SessionError;
use super::failure::Failure;
use super::message::{Message, VERSION};
use super::transport::Transport;

/// The longest message, in bytes.
pub const LIMIT: usize = 1 << 20;

/// The longest message without TLS, which may come from anyone, in bytes.
pub const PLAIN_LIMIT: usize = 4 << 10;

/// The timeout for writing a message.
const WRITING: Duration = Duration::from_secs(5);

/// The first bytes of other protocols.
const OTHERS: [(&[u8], &str); 7] = [
    (b"GET ", "an HTTP request"),
    (b"HEAD", "an HTTP request"),
    (b"POST", "an HTTP request"),
    (b"PUT ", "an HTTP request"),
    (b"OPTI", "an HTTP request"),
    (b"HTTP", "an HTTP answer"),
    (b"SSH-", "a greeting of SSH"),
];

/// A connection that carries messages.
pub struct Frames {
    transport: Box<dyn Transport>,
    peer: String,
    limit: usize,
}

impl Frames {
    /// Frames over this transport to this peer, as errors name it ("the server at 192.0.2.1:7207"),
    /// which may send messages of up to this many bytes.
    pub fn new(transport: Box<dyn Transport>, peer: String, limit: usize) -> Self {
        Self { transport, peer, limit }
    }

    /// The peer's name.
    #[must_use]
    pub fn peer(&self) -> &str {
        &self.peer
    }

    /// Whether input has arrived or the other side is gone: receiving does not wait.
    pub fn has_input(&mut self) -> bool {
        self.transport.has_input()
    }

    /// Sends a message.
    ///
    /// # Errors
    /// If the other side does not accept it.
    pub fn send(&mut self, message: &Message) -> Result<(), SessionError> {
        let payload = serde_json::to_vec(message).map_err(|why| {
            SessionError::io(format!("write a message of {}", message.name()))(why.into())
        })?;
        if payload.len() > LIMIT {
            return Err(SessionError::TooLong { bytes: payload.len(), limit: LIMIT });
        }
        let frame = [&(payload.len() as u32).to_be_bytes()[..], &payload].concat();
        self.transport.set_deadline(Instant::now() + WRITING);
        let written = self.transport.write_all(&frame).and_then(|()| self.transport.flush());
        written.map_err(|why| broken(why, &self.peer, "room for a message", WRITING))
    }

    /// The next message; `awaited` is for the error if there is none in time. An error or a goodbye
    /// from the other side is an error here.
    ///
    /// # Errors
    /// [`SessionError`]: the other side is silent, gone, something else, or has refused.
    pub fn receive(
        &mut self,
        awaited: &'static str,
        until: Instant,
    ) -> Result<Message, SessionError> {
        let begin = Instant::now();
        self.transport.set_deadline(until);
        let payload = self.payload(awaited, begin)?;
        let not_ours = |why: serde_json::Error| SessionError::NotOurs {
            who: self.peer.clone(),
            what: format!("{} bytes that are no message: {why}", payload.len()),
        };
        match serde_json::from_slice(&payload).map_err(not_ours)? {
            Message::Error(failure) => {
                Err(SessionError::Refused { who: self.peer.clone(), failure: readable(failure) })
            }
            Message::Bye { why } => {
                Err(SessionError::Bye { who: self.peer.clone(), why: plain(&why) })
            }
            message => Ok(message),
        }
    }

    fn payload(&mut self, awaited: &'static str, begin: Instant) -> Result<Vec<u8>, SessionError> {
        let mut head = [0; 4];
        self.fill(&mut head, awaited, begin)?;
        let length = u32::from_be_bytes(head) as usize;
        if length > self.limit {
            let what = guess(head, self.limit);
            return Err(SessionError::NotOurs { who: self.peer.clone(), what });
        }
        let mut payload = vec![0; length];
        self.fill(&mut payload, awaited, begin)?;
        Ok(payload)
    }

    fn fill(
        &mut self,
        bytes: &mut [u8],
        awaited: &'static str,
        begin: Instant,
    ) -> Result<(), SessionError> {
        let read = self.transport.read_exact(bytes);
        read.map_err(|why| broken(why, &self.peer, awaited, begin.elapsed()))
    }
}

/// The error for a failed read or write.
pub fn broken(why: io::Error, who: &str, awaited: &'static str, waited: Duration) -> SessionError {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, TimedOut, UnexpectedEof};
    let who = who.to_owned();
    if let Some(why) = why.get_ref().and_then(|why| why.downcast_ref()) {
        return refused(why, who);
    }
    match why.kind() {
        TimedOut => SessionError::Silent { who, awaited, waited },
        BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof => {
            SessionError::Gone { who, awaited }
        }
        _ => SessionError::Io { what: format!("talk to {who}"), why },
    }
}

/// The error for a TLS failure on either side.
fn refused(why: &Error, who: String) -> SessionError {
    match why {
        Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure) => {
            SessionError::Token { who }
        }
        Error::AlertReceived(AlertDescription::AccessDenied) => SessionError::OurKey { who },
        Error::NoApplicationProtocol
        | Error::AlertReceived(AlertDescription::NoApplicationProtocol) => {
            SessionError::Version { who, ours: VERSION, theirs: "another version".to_owned() }
        }
        _ => SessionError::Tls { who, why: why.to_string() },
    }
}

/// The error for an unexpected message.
pub fn order(frames: &Frames, came: &Message, awaited: &'static str) -> SessionError {
    SessionError::Order { who: frames.peer().to_owned(), what: came.name(), awaited }
}

/// A guess at the meaning of an invalid frame.
fn guess(head: [u8; 4], limit: usize) -> String {
    let known = OTHERS.iter().find(|(begin, _)| head.starts_with(begin));
    known.map_or_else(
        || {
            format!(
                "what would be a message of {} bytes, where {limit} are the most",
                u32::from_be_bytes(head)
            )
        },
        |(_, what)| (*what).to_owned(),
    )
}

/// Text from another host, made safe for a terminal: one line, without control characters, of
/// limited length.
fn plain(text: &str) -> String {
    text.chars().filter(|it| !it.is_control()).take(500).collect()
}

fn readable(failure: Failure) -> Failure {
    Failure { message: plain(&failure.message), ..failure }
}
