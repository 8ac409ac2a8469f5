//! One message a frame: its length in four bytes, the message as JSON, and, once both sides have
//! proven themselves, a seal.

use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

use ring::hmac;

use super::error::SessionError;
use super::line::Line;
use super::message::Message;
use super::token::{Keys, Purpose};

/// The longest message, in bytes.
pub const LIMIT: usize = 1 << 20;

/// The longest message of somebody who has not proven anything yet, in bytes.
pub const STRANGERS_LIMIT: usize = 4 << 10;

/// How long a message may take to be written.
const WRITING: Duration = Duration::from_secs(5);

/// The seal's length, in bytes: HMAC-SHA-256.
const SEAL: usize = 32;

/// What other protocols begin with.
const OTHERS: [(&[u8], &str); 9] = [
    (b"GET ", "an HTTP request"),
    (b"HEAD", "an HTTP request"),
    (b"POST", "an HTTP request"),
    (b"PUT ", "an HTTP request"),
    (b"OPTI", "an HTTP request"),
    (b"HTTP", "an HTTP answer"),
    (b"SSH-", "a greeting of SSH"),
    (b"\x16\x03", "a greeting of TLS: start both sides with TLS, or neither"),
    (b"\x15\x03", "a refusal of TLS: start both sides with TLS, or neither"),
];

/// Which of the two one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Who asks.
    Client,
    /// Who is asked.
    Server,
}

/// Seals the frames of one direction: each is the only one of its number.
struct Seal {
    key: hmac::Key,
    number: u64,
}

impl Seal {
    fn sealed(&mut self, payload: &[u8]) -> Vec<u8> {
        let bytes = [&self.number.to_be_bytes(), payload].concat();
        self.number += 1;
        bytes
    }

    fn make(&mut self, payload: &[u8]) -> hmac::Tag {
        let bytes = self.sealed(payload);
        hmac::sign(&self.key, &bytes)
    }

    fn holds(&mut self, payload: &[u8], seal: &[u8]) -> bool {
        let bytes = self.sealed(payload);
        hmac::verify(&self.key, &bytes, seal).is_ok()
    }
}

/// The seals of both directions.
struct Seals {
    ours: Seal,
    theirs: Seal,
}

/// A connection, as messages.
pub struct Frames {
    line: Box<dyn Line>,
    peer: String,
    seals: Option<Seals>,
}

impl Frames {
    /// Over this line, to this peer, as errors name it: "the server at 192.0.2.1:7207".
    pub fn new(line: Box<dyn Line>, peer: String) -> Self {
        Self { line, peer, seals: None }
    }

    /// Who is at the other end.
    #[must_use]
    pub fn peer(&self) -> &str {
        &self.peer
    }

    /// What is under it.
    pub fn line(&mut self) -> &mut dyn Line {
        self.line.as_mut()
    }

    /// From now on every frame is sealed, both ways, and may be longer.
    pub fn seal(&mut self, keys: &Keys, side: Side) {
        let seal = |purpose| Seal { key: keys.key(purpose), number: 0 };
        let (client, server) = (seal(Purpose::ClientFrames), seal(Purpose::ServerFrames));
        self.seals = Some(match side {
            Side::Client => Seals { ours: client, theirs: server },
            Side::Server => Seals { ours: server, theirs: client },
        });
    }

    /// Sends a message.
    ///
    /// # Errors
    /// If the other side does not take it.
    pub fn send(&mut self, message: &Message) -> Result<(), SessionError> {
        let payload = serde_json::to_vec(message).map_err(|why| {
            SessionError::io(format!("write a message of {}", message.name()))(why.into())
        })?;
        if payload.len() > LIMIT {
            return Err(SessionError::TooLong { bytes: payload.len(), limit: LIMIT });
        }
        let mut frame = Vec::with_capacity(4 + payload.len() + SEAL);
        frame.extend((payload.len() as u32).to_be_bytes());
        frame.extend(&payload);
        if let Some(seals) = &mut self.seals {
            frame.extend(seals.ours.make(&payload).as_ref());
        }
        self.line.until(Instant::now() + WRITING);
        let written = self.line.write_all(&frame).and_then(|()| self.line.flush());
        written.map_err(|why| self.broken(why, "room for a message", WRITING))
    }

    /// The next message; what is awaited is for the error if there is none until then. An error of
    /// the other side, and its leave, are errors here.
    ///
    /// # Errors
    /// [`SessionError`]: the other side is silent, gone, something else, or has refused.
    pub fn receive(
        &mut self,
        awaited: &'static str,
        until: Instant,
    ) -> Result<Message, SessionError> {
        let begin = Instant::now();
        self.line.until(until);
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
        let limit = if self.seals.is_some() { LIMIT } else { STRANGERS_LIMIT };
        if length > limit {
            return Err(SessionError::NotOurs { who: self.peer.clone(), what: guess(head, limit) });
        }
        let mut payload = vec![0; length];
        self.fill(&mut payload, awaited, begin)?;
        if self.seals.is_some() {
            let mut seal = [0; SEAL];
            self.fill(&mut seal, awaited, begin)?;
            let theirs = self.seals.as_mut().map(|seals| &mut seals.theirs);
            if !theirs.is_some_and(|theirs| theirs.holds(&payload, &seal)) {
                return Err(SessionError::Forged { who: self.peer.clone() });
            }
        }
        Ok(payload)
    }

    fn fill(
        &mut self,
        bytes: &mut [u8],
        awaited: &'static str,
        begin: Instant,
    ) -> Result<(), SessionError> {
        let read = self.line.read_exact(bytes);
        read.map_err(|why| self.broken(why, awaited, begin.elapsed()))
    }

    /// What a failed read or write says of the other side.
    fn broken(&self, why: io::Error, awaited: &'static str, waited: Duration) -> SessionError {
        use io::ErrorKind::{
            BrokenPipe, ConnectionAborted, ConnectionReset, TimedOut, UnexpectedEof,
        };
        let who = self.peer.clone();
        match why.kind() {
            TimedOut => SessionError::Silent { who, awaited, waited },
            BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof => {
                SessionError::Gone { who, awaited }
            }
            _ => SessionError::Io { what: format!("talk to {who}"), why },
        }
    }
}

/// What a frame that cannot be one may be instead.
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

/// What another host wrote, fit for a terminal: one line, without control characters, not too long.
fn plain(text: &str) -> String {
    text.chars().filter(|it| !it.is_control()).take(500).collect()
}

fn readable(failure: super::error::Failure) -> super::error::Failure {
    super::error::Failure { message: plain(&failure.message), ..failure }
}
