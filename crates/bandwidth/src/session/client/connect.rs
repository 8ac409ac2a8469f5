//! Connecting a client to its server.

use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::thread;
use std::time::{Duration, Instant};

use super::remote::{Link, Remote};
use super::{Progress, Request, Server, Step};
use crate::session::error::SessionError;
use crate::session::exchange::Timeouts;
use crate::session::failure::Code;
use crate::session::frame::{Frames, order};
use crate::session::handshake::{Established, as_client};
use crate::session::limits::Offer;
use crate::session::message::Message;
use crate::session::probes::Open;
use crate::session::{tls, udp};

/// The timeout of a connection, for each of a host's addresses.
const CONNECTING: Duration = Duration::from_secs(3);

/// The timeout of the handshake.
const HANDSHAKE: Duration = Duration::from_secs(5);

/// The delay before another attempt if there was no room.
const AGAIN: Duration = Duration::from_millis(500);

/// How long a server may be silent during the wait: it reports the place in the queue every second.
const WAITING: Duration = Duration::from_secs(10);

/// A session with a server, once it is our turn, and the path to it.
///
/// # Errors
/// [`SessionError`]: there is no server, it refuses, or datagrams do not pass.
pub fn connect(
    server: &Server,
    request: Request,
    open: Box<Open>,
    progress: &mut Progress<'_>,
) -> Result<Remote, SessionError> {
    let begin = Instant::now();
    let (mut session, address) = loop {
        match establish(server) {
            // The server has no room for one more handshake.
            Err(SessionError::Refused { failure, .. })
                if failure.code == Code::Busy && begin.elapsed() < request.wait =>
            {
                thread::sleep(AGAIN);
            }
            session => break session?,
        }
    };
    let (port, offer) = queue(&mut session.frames, request.wait, progress)?;
    progress(Step::Begun);
    let address = udp::with_port(address, server.udp_port.unwrap_or(port));
    let Established { frames, cookie, round_trip } = session;
    let link = Link { frames, cookie, address, timeouts: Timeouts::new(round_trip) };
    Remote::new(link, offer, request, open, progress)
}

/// A connection over which both sides are authenticated.
fn establish(server: &Server) -> Result<(Established, SocketAddr), SessionError> {
    let (stream, address) = reach(server)?;
    let who = format!("the server at {address}");
    let key = server.fingerprint.unwrap_or_else(|| server.token.server.fingerprint());
    let config = tls::client(&server.token.client, key);
    let session = as_client(stream, &config, who, Instant::now() + HANDSHAKE);
    let session = session.map_err(|why| match (why, server.fingerprint) {
        (SessionError::Token { who }, Some(pinned)) => {
            SessionError::Fingerprint { who, pinned: pinned.to_string() }
        }
        (why, _) => why,
    })?;
    Ok((session, address))
}

/// A connection to the first of the host's addresses that accepts one.
fn reach(server: &Server) -> Result<(TcpStream, SocketAddr), SessionError> {
    let host = server.host.trim_start_matches('[').trim_end_matches(']');
    let unknown = |why: String| SessionError::Unknown { host: server.host.clone(), why };
    let all = (host, server.port).to_socket_addrs().map_err(|why| unknown(why.to_string()))?;
    let mut tried = Vec::new();
    let mut last = None;
    for address in all {
        match TcpStream::connect_timeout(&address, CONNECTING) {
            Ok(connection) => {
                connection.set_nodelay(true).map_err(SessionError::io("use a connection"))?;
                return Ok((connection, address));
            }
            Err(why) => {
                tried.push(address.to_string());
                last = Some(why);
            }
        }
    }
    let tried = tried.join(" and ");
    last.map_or_else(
        || Err(unknown(io::Error::from(io::ErrorKind::NotFound).to_string())),
        |why| Err(SessionError::Unreachable { tried, why }),
    )
}

/// Waits until it is our turn.
fn queue(
    frames: &mut Frames,
    most: Duration,
    progress: &mut Progress<'_>,
) -> Result<(u16, Offer), SessionError> {
    let begin = Instant::now();
    let awaited = "one's turn";
    loop {
        match frames.receive(awaited, Instant::now() + WAITING)? {
            Message::Welcome { udp_port, offer } if offer.is_sound() => {
                return Ok((udp_port, offer));
            }
            Message::Busy { before } if begin.elapsed() >= most => {
                let waited = begin.elapsed();
                // The connection ends whether it hears that or not.
                let _ = frames.send(&Message::Bye { why: "waited long enough".to_owned() });
                return Err(SessionError::Busy { who: frames.peer().to_owned(), before, waited });
            }
            Message::Busy { before } => progress(Step::Busy(before)),
            other => return Err(order(frames, &other, awaited)),
        }
    }
}
