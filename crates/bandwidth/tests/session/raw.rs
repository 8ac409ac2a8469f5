//! Clients that do one thing after the other, and not always what they should.

use std::net::{SocketAddr, TcpStream};
use std::time::Instant;

use eigentime_bandwidth::session::error::{Failure, SessionError};
use eigentime_bandwidth::session::frame::Frames;
use eigentime_bandwidth::session::handshake::{Met, as_client};
use eigentime_bandwidth::session::line::Timed;
use eigentime_bandwidth::session::message::Message;

use crate::support::{PATIENCE, token};

/// A connection that has said nothing yet.
pub fn stranger(address: SocketAddr) -> Frames {
    let connection = TcpStream::connect(address).unwrap();
    let line = Timed::new(connection, Instant::now() + PATIENCE);
    Frames::new(Box::new(line), "the server".to_owned())
}

/// One whose turn it is.
pub fn guest(address: SocketAddr) -> (Frames, Met) {
    let mut frames = stranger(address);
    let met = as_client(&mut frames, &token(), Instant::now() + PATIENCE).unwrap();
    // The one before may still be taking its leave.
    let busy = |said: &_| matches!(said, Ok(Message::Busy { .. }));
    let said = std::iter::repeat_with(|| next(&mut frames)).find(|said| !busy(said));
    assert!(matches!(said, Some(Ok(Message::Welcome { .. }))), "{said:?}");
    (frames, met)
}

/// What comes next.
pub fn next(frames: &mut Frames) -> Result<Message, SessionError> {
    frames.receive("what a test awaits", Instant::now() + PATIENCE)
}

/// What the server has against it.
pub fn failure(frames: &mut Frames) -> Failure {
    match next(frames) {
        Err(SessionError::Refused { failure, .. }) => failure,
        other => panic!("no refusal, but {other:?}"),
    }
}
