//! How the two sides prove to each other that they know the token.

use std::time::{Duration, Instant};

use super::error::SessionError;
use super::frame::{Frames, Side};
use super::hex::Hex;
use super::message::{Message, PROTOCOL, VERSION};
use super::token::{Keys, Meeting, Purpose, Token, random};

/// Two sides that know each other.
pub struct Met {
    /// The keys of the session.
    pub keys: Keys,
    /// How long one answer took.
    pub round_trip: Duration,
}

/// The client's part.
///
/// # Errors
/// If the server is not one, of another version, or does not know the token.
pub fn as_client(frames: &mut Frames, token: &Token, until: Instant) -> Result<Met, SessionError> {
    let client = Hex(random());
    let begin = Instant::now();
    frames.send(&Message::Hello {
        protocol: PROTOCOL.to_owned(),
        version: VERSION,
        nonce: client,
    })?;
    let server = match frames.receive("the server's challenge", until)? {
        Message::Challenge { version, nonce } => same_version(frames, version).map(|()| nonce)?,
        other => return Err(order(frames, &other, "the server's challenge")),
    };
    let round_trip = begin.elapsed();
    let keys = Keys::of(token, &Meeting { client, server, binding: frames.line().binding() });
    frames.send(&Message::Proof { proof: keys.proof(Purpose::ClientProof) })?;
    match frames.receive("the server's proof", until)? {
        Message::Accepted { proof } if keys.proves(Purpose::ServerProof, &proof) => {}
        Message::Accepted { .. } => {
            return Err(SessionError::Token { who: frames.peer().to_owned() });
        }
        other => return Err(order(frames, &other, "the server's proof")),
    }
    frames.seal(&keys, Side::Client);
    Ok(Met { keys, round_trip })
}

/// The server's part. The client proves itself first: nobody gets a proof of the token for asking.
///
/// # Errors
/// If the client is not one, of another version, or does not know the token.
pub fn as_server(frames: &mut Frames, token: &Token, until: Instant) -> Result<Met, SessionError> {
    let client = match frames.receive("a client's hello", until)? {
        Message::Hello { protocol, version, nonce } if protocol == PROTOCOL => {
            same_version(frames, version).map(|()| nonce)?
        }
        other => return Err(order(frames, &other, "a client's hello")),
    };
    let server = Hex(random());
    let begin = Instant::now();
    frames.send(&Message::Challenge { version: VERSION, nonce: server })?;
    let proof = match frames.receive("the client's proof", until)? {
        Message::Proof { proof } => proof,
        other => return Err(order(frames, &other, "the client's proof")),
    };
    let round_trip = begin.elapsed();
    let keys = Keys::of(token, &Meeting { client, server, binding: frames.line().binding() });
    if !keys.proves(Purpose::ClientProof, &proof) {
        return Err(SessionError::Token { who: frames.peer().to_owned() });
    }
    frames.send(&Message::Accepted { proof: keys.proof(Purpose::ServerProof) })?;
    frames.seal(&keys, Side::Server);
    Ok(Met { keys, round_trip })
}

fn same_version(frames: &Frames, theirs: u32) -> Result<(), SessionError> {
    if theirs == VERSION {
        return Ok(());
    }
    Err(SessionError::Version { who: frames.peer().to_owned(), ours: VERSION, theirs })
}

/// A message where another was due.
pub fn order(frames: &Frames, came: &Message, awaited: &'static str) -> SessionError {
    SessionError::Order { who: frames.peer().to_owned(), what: came.name().to_owned(), awaited }
}
