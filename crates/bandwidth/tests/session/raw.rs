//! Clients that do one thing after the other, and not always what they should.

use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::time::Instant;

use eigentime_bandwidth::session::error::SessionError;
use eigentime_bandwidth::session::failure::Failure;
use eigentime_bandwidth::session::frame::{Frames, LIMIT};
use eigentime_bandwidth::session::handshake::{Established, as_client};
use eigentime_bandwidth::session::message::Message;
use eigentime_bandwidth::session::path_validation::Request;
use eigentime_bandwidth::session::tls;
use eigentime_bandwidth::session::transport::Socket;

use crate::support::{PATIENCE, token};

/// A connection as messages, without TLS.
pub fn plain(stream: TcpStream) -> Frames {
    let socket = Socket::new(stream, Instant::now() + PATIENCE);
    Frames::new(Box::new(socket), "the peer".to_owned(), LIMIT)
}

/// One over which both sides have proven themselves.
pub fn established(address: SocketAddr) -> Established {
    let token = token();
    let config = tls::client(&token.client, token.server.fingerprint());
    let stream = TcpStream::connect(address).unwrap();
    as_client(stream, &config, "the server".to_owned(), Instant::now() + PATIENCE).unwrap()
}

/// One whose turn it is.
pub fn served(address: SocketAddr) -> Frames {
    let mut frames = established(address).frames;
    // The one before may still be taking its leave.
    let busy = |said: &_| matches!(said, Ok(Message::Busy { .. }));
    let said = std::iter::repeat_with(|| next(&mut frames)).find(|said| !busy(said));
    assert!(matches!(said, Some(Ok(Message::Welcome { .. }))), "{said:?}");
    frames
}

/// Asks for a challenge to be sent to where the socket is.
pub fn request<'a>(client: &mut Frames, socket: &'a UdpSocket) -> Request<'a> {
    let request = Request::send(socket);
    client.send(&Message::PathRequest { nonce: request.nonce }).unwrap();
    assert!(matches!(next(client), Ok(Message::PathChallenge { sent: true })));
    request
}

/// Has the path of a socket validated, and returns the address that the server sees.
pub fn validate(client: &mut Frames, socket: &UdpSocket) -> SocketAddr {
    let challenge = request(client, socket).challenge(PATIENCE).unwrap().expect("a challenge");
    client.send(&Message::PathResponse { challenge }).unwrap();
    match next(client) {
        Ok(Message::PathValidated { address, .. }) => address,
        other => panic!("not validated: {other:?}"),
    }
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
