//! Mutual authentication with the token: by TLS, and nothing before it.

use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, Connection, ServerConfig, ServerConnection};

use super::error::SessionError;
use super::failure::Code;
use super::frame::{Frames, LIMIT, PLAIN_LIMIT, broken, order};
use super::message::{Message, VERSION};
use super::probes::Cookie;
use super::tls::{Tls, protocol};
use super::transport::Socket;

/// What errors say was awaited during the handshake.
const AWAITED: &str = "a TLS handshake";

/// The label under which TLS derives the cookie (RFC 5705, whose section 4 asks for the prefix).
const COOKIE: &[u8] = b"EXPERIMENTAL eigentime bandwidth cookie";

/// A client sends no name that would have to match a certificate.
const NAME: &str = "eigentime.invalid";

/// The first byte that TLS sends: of a handshake message or an alert (RFC 8446, appendix B.1).
const TLS: [u8; 2] = [22, 21];

/// A connection over which both sides are authenticated.
pub struct Established {
    /// Its frames.
    pub frames: Frames,
    /// The cookie of the session's probes.
    pub cookie: Cookie,
    /// The round trip time of one answer.
    pub round_trip: Duration,
}

/// The client's part.
///
/// # Errors
/// If the server does not speak the protocol, has another version, or does not have the right key.
pub fn as_client(
    stream: TcpStream,
    config: &Arc<ClientConfig>,
    who: String,
    until: Instant,
) -> Result<Established, SessionError> {
    let name = ServerName::try_from(NAME).expect("it is a name");
    let connection = ClientConnection::new(config.clone(), name)
        .map_err(|why| SessionError::Tls { who: who.clone(), why: why.to_string() })?;
    shake_hands(connection.into(), Socket::new(stream, until), who, until)
}

/// The server's part.
///
/// # Errors
/// If the client does not speak the protocol, has another version, or does not have the right key.
pub fn as_server(
    stream: TcpStream,
    config: &Arc<ServerConfig>,
    who: String,
    until: Instant,
) -> Result<Established, SessionError> {
    let connection = ServerConnection::new(config.clone())
        .map_err(|why| SessionError::Tls { who: who.clone(), why: why.to_string() })?;
    shake_hands(connection.into(), Socket::new(stream, until), who, until)
}

fn shake_hands(
    connection: Connection,
    socket: Socket,
    who: String,
    until: Instant,
) -> Result<Established, SessionError> {
    let begin = Instant::now();
    let failed = |why| broken(why, &who, AWAITED, begin.elapsed());
    let mut tls = Tls { connection, socket };
    // The client's hello; a server has nothing to send yet.
    std::io::Write::flush(&mut tls).map_err(failed)?;
    let asked = Instant::now();
    let is_server = matches!(tls.connection, Connection::Server(_));
    match tls.socket.peek().map_err(failed)? {
        Some(first) if TLS.contains(&first) => {}
        Some(_) => return Err(without_tls(tls.socket, who, is_server, until)),
        None => return Err(SessionError::Gone { who, awaited: AWAITED }),
    }
    let asked = if is_server { Instant::now() } else { asked };
    while tls.connection.is_handshaking() {
        tls.connection.complete_io(&mut tls.socket).map_err(failed)?;
    }
    let round_trip = asked.elapsed();
    // TLS accepts a peer that names no protocol at all.
    if tls.connection.alpn_protocol() != Some(&protocol()) {
        return Err(version(who, "no version"));
    }
    let cookie = tls.connection.export_keying_material([0; 8], COOKIE, None);
    let cookie =
        cookie.map_err(|why| SessionError::Tls { who: who.clone(), why: why.to_string() })?;
    let cookie = Cookie(u64::from_be_bytes(cookie));
    Ok(Established { frames: Frames::new(Box::new(tls), who, LIMIT), cookie, round_trip })
}

/// The error for a peer that does not begin with TLS. Version 1 is answered in its own protocol; a
/// server without room for another handshake also answers this way.
fn without_tls(socket: Socket, who: String, is_server: bool, until: Instant) -> SessionError {
    let mut frames = Frames::new(Box::new(socket), who.clone(), PLAIN_LIMIT);
    let why = match frames.receive(AWAITED, until) {
        Ok(Message::Hello { version: theirs }) => version(who, &format!("version {theirs}")),
        Ok(other) => order(&frames, &other, AWAITED),
        Err(SessionError::Refused { failure, .. }) if failure.code != Code::Busy => {
            version(who, "version 1")
        }
        Err(why) => why,
    };
    if let Some(failure) = why.failure().filter(|_| is_server) {
        // The connection ends whether that is heard or not.
        let _ = frames.send(&Message::Error(failure));
    }
    why
}

fn version(who: String, theirs: &str) -> SessionError {
    SessionError::Version { who, ours: VERSION, theirs: theirs.to_owned() }
}
