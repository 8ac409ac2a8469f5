//! `eigentime bandwidth serve`: clients, one after the other.

mod pending;
mod queue;
mod session;
mod stop;

use std::io;
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::TcpMaxSeg;
use rustix::event::{PollFd, PollFlags, poll};

use rustls::ServerConfig;

use self::pending::{Pending, PendingHandshakes};
use self::queue::{Place, Queue};
use self::session::{Session, Shared};
pub use self::stop::Stop;
use super::error::SessionError;
use super::event::{Entry, Event, Tell};
use super::failure::{Code, Failure};
use super::frame::{Frames, PLAIN_LIMIT, order};
use super::handshake::{Established, as_server};
use super::limits::{Account, Ledger, Limits};
use super::message::Message;
use super::path_validation::Port;
use super::probes::Open;
use super::token::{Key, Token};
use super::transport::Socket;
use super::{tls, udp};

/// How often a waiting client is told its place and checked.
const TELLING: Duration = Duration::from_secs(1);

/// The maximum segment size of the control channel, in both directions, in bytes: segments pass
/// wherever the shortest probes do, even where longer packets are dropped silently, which the
/// probes are to detect.
const SEGMENT: u32 = 576 - 40;

/// The number of free ports tried to find one free for both TCP and UDP.
const PORTS: u32 = 20;

/// How long the server pauses when it has no descriptors left for another connection.
const EXHAUSTED: Duration = Duration::from_millis(200);

/// A server's limits on waiting and on connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// The longest handshake.
    pub handshake: Duration,
    /// The longest time without a request.
    pub idle: Duration,
    /// The longest wait for a turn.
    pub wait: Duration,
    /// The most pending handshakes.
    pub pending: usize,
    /// Of these, the most from one address (for IPv6: one /64 network).
    pub pending_of_one: usize,
    /// The most clients, including the one being served.
    pub clients: usize,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self {
            handshake: Duration::from_secs(5),
            idle: Duration::from_secs(10),
            wait: Duration::from_secs(600),
            pending: 32,
            pending_of_one: 4,
            clients: 16,
        }
    }
}

/// The settings of a server.
pub struct Settings {
    /// The address to listen on, TCP and UDP; port 0 for any free one.
    pub listen: SocketAddr,
    /// The shared token.
    pub token: Token,
    /// A key of its own, which clients must be given, instead of the token's.
    pub key: Option<Key>,
    /// The limits for each client.
    pub limits: Limits,
    /// The limits on connections.
    pub connections: ConnectionLimits,
    /// Opens sockets for trains.
    pub open: Box<Open>,
    /// Receives events.
    pub tell: Box<Tell>,
}

/// A server that listens.
pub struct Server {
    settings: Settings,
    tls: Arc<ServerConfig>,
    listener: TcpListener,
    port: Port,
    address: SocketAddr,
    stop: Stop,
    queue: Queue,
    pending: PendingHandshakes,
    ledger: Mutex<Ledger>,
}

impl Server {
    /// Starts listening.
    ///
    /// # Errors
    /// If the address is in use, or not local.
    pub fn bind(settings: Settings) -> Result<Self, SessionError> {
        let refused = || SessionError::io(format!("listen at {}, TCP and UDP", settings.listen));
        let (listener, port) = sockets(settings.listen).map_err(refused())?;
        let address = listener.local_addr().map_err(refused())?;
        listener.set_nonblocking(true).map_err(refused())?;
        let stop = Stop::new().map_err(SessionError::io("make an event descriptor"))?;
        let ledger = Mutex::new(Ledger::new(settings.limits));
        let (queue, pending) = (Queue::default(), PendingHandshakes::default());
        let Token { client, server } = &settings.token;
        let tls = tls::server(settings.key.as_ref().unwrap_or(server), client.fingerprint());
        Ok(Self { settings, tls, listener, port, address, stop, queue, pending, ledger })
    }

    /// The address it listens on.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A handle that stops it.
    #[must_use]
    pub fn stop(&self) -> Stop {
        self.stop.clone()
    }

    /// Serves clients until it is stopped.
    ///
    /// # Errors
    /// If it cannot listen any more.
    pub fn run(&self) -> Result<(), SessionError> {
        let fingerprint = self.settings.key.as_ref().map(|key| key.fingerprint().to_string());
        self.tell(Event::Listening { address: self.address, fingerprint });
        thread::scope(|scope| {
            // Sessions end with the server, whatever the reason.
            let failed = |why| {
                self.stop.stop();
                SessionError::io("wait for clients")(why)
            };
            while self.wait().map_err(failed)? {
                let (connection, client) = match self.listener.accept() {
                    Ok((connection, client)) => (connection, udp::canonical(client)),
                    Err(why) => {
                        rest_after(&why);
                        continue;
                    }
                };
                let ConnectionLimits { pending, pending_of_one, .. } = self.settings.connections;
                let entered = self.pending.enter(client.ip(), pending, pending_of_one);
                let Some(entered) = entered else {
                    let why = format!(
                        "too many pending handshakes, {pending_of_one} from one address or {pending} \
                         in all: try again later"
                    );
                    turn_away(connection, client, &why);
                    self.tell(Event::Refused { client, why });
                    continue;
                };
                // Without a thread there is no session: the connection closes.
                let serve = move || self.connected(connection, client, entered);
                if let Err(why) = thread::Builder::new().spawn_scoped(scope, serve) {
                    self.tell(Event::Refused { client, why: format!("no thread for it: {why}") });
                }
            }
            Ok::<(), SessionError>(())
        })?;
        self.tell(Event::Stopped);
        Ok(())
    }

    /// Waits for a client; false when the server must stop.
    fn wait(&self) -> io::Result<bool> {
        let stop = self.stop.event();
        let mut all =
            [PollFd::new(&self.listener, PollFlags::IN), PollFd::new(&stop, PollFlags::IN)];
        match poll(&mut all, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(!self.stop.is_set()),
            Err(why) => Err(why.into()),
        }
    }

    fn tell(&self, event: Event) {
        (self.settings.tell)(&Entry::now(event));
    }

    /// Handles a connection from its first byte to its last.
    fn connected(&self, connection: TcpStream, client: SocketAddr, pending: Pending<'_>) {
        let begin = || -> io::Result<_> {
            connection.set_nonblocking(false)?;
            connection.set_nodelay(true)?;
            Ok((
                udp::canonical(connection.local_addr()?),
                connection.try_clone()?,
                self.stop.watch(&connection)?,
            ))
        };
        let (local, end, _watched) = match begin() {
            Ok(it) => it,
            Err(why) => return self.refused(client, &SessionError::io("use a connection")(why)),
        };
        let until = Instant::now() + self.settings.connections.handshake;
        match as_server(connection, &self.tls, format!("the client at {client}"), until) {
            Ok(mut session) => {
                drop(pending);
                let local = udp::with_port(local, self.address.port());
                self.known(&mut session, (client, local));
            }
            Err(why) => self.refused(client, &why),
        }
        // It may already be closed.
        let _ = end.shutdown(Shutdown::Both);
    }

    fn refused(&self, client: SocketAddr, why: &SessionError) {
        self.tell(Event::Refused { client, why: why.to_string() });
    }

    /// Handles an authenticated client.
    fn known(&self, session: &mut Established, (client, local): (SocketAddr, SocketAddr)) {
        let (_place, mut account) = match self.admit(&mut session.frames, client) {
            Ok(admitted) => admitted,
            Err(why) => {
                self.part(&mut session.frames, &why);
                return self.refused(client, &why);
            }
        };
        self.tell(Event::Begun { client });
        let shared = Shared {
            port: &self.port,
            open: self.settings.open.as_ref(),
            tell: &|event| self.tell(event),
        };
        let result = Session::new(shared, session, (client, local), &mut account)
            .serve(self.settings.connections.idle);
        let used = account.used();
        self.ledger().close(client.ip(), used, Instant::now());
        if let Err(why) = &result {
            self.part(&mut session.frames, why);
        }
        let result = match result {
            Ok(()) => "done".to_owned(),
            Err(_) if self.stop.is_set() => "the server was stopped".to_owned(),
            Err(why) => why.to_string(),
        };
        self.tell(Event::Ended {
            client,
            trains: account.trains,
            bytes: account.bytes,
            seconds: used.time.as_secs_f64(),
            result,
        });
    }

    /// Waits for the client's turn: its place and its limits.
    fn admit(
        &self,
        frames: &mut Frames,
        client: SocketAddr,
    ) -> Result<(Place<'_>, Account), SessionError> {
        let most = self.settings.connections.clients;
        let Some(place) = self.queue.enter(most) else {
            let message = format!("{most} clients are served and wait already: try again later");
            return Err(Failure::new(Code::Busy, message).into());
        };
        self.wait_turn(frames, client, &place)?;
        let account = self.ledger().open(client.ip(), Instant::now())?;
        Ok((place, account))
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until it is the client's turn, or it is gone, or the wait has taken too long.
    fn wait_turn(
        &self,
        frames: &mut Frames,
        client: SocketAddr,
        place: &Place<'_>,
    ) -> Result<(), SessionError> {
        let begin = Instant::now();
        let mut before = place.before();
        if before > 0 {
            self.tell(Event::Waiting { client, before });
        }
        while before > 0 {
            if begin.elapsed() > self.settings.connections.wait {
                let message = format!(
                    "busy: still {before} before you, after {:.0?}: try again later",
                    begin.elapsed()
                );
                return Err(Failure::new(Code::Busy, message).into());
            }
            frames.send(&Message::Busy { before })?;
            before = place.wait(before, TELLING);
            if frames.has_input() {
                // The only message it can send now is its departure.
                let awaited = "its turn";
                let said = frames.receive(awaited, Instant::now() + TELLING)?;
                return Err(order(frames, &said, awaited));
            }
        }
        Ok(())
    }

    /// Reports why the session is over.
    fn part(&self, frames: &mut Frames, why: &SessionError) {
        let last = if self.stop.is_set() {
            Some(Message::Bye { why: "the server is being stopped".to_owned() })
        } else {
            why.failure().map(Message::Error)
        };
        // A peer that no longer listens does not need to know.
        let _ = last.map(|last| frames.send(&last));
    }
}

/// Tells a client why it is refused, if that takes no time: before TLS, which would.
fn turn_away(connection: TcpStream, client: SocketAddr, why: &str) {
    // There is room for it: nothing was sent yet.
    let socket = Box::new(Socket::new(connection, Instant::now()));
    let message = Message::Error(Failure::new(Code::Busy, why));
    // The connection is closed in any case.
    let _ = Frames::new(socket, format!("the client at {client}"), PLAIN_LIMIT).send(&message);
}

/// Sockets on the same port for TCP and UDP.
fn sockets(listen: SocketAddr) -> io::Result<(TcpListener, Port)> {
    let mut tries = if listen.port() == 0 { PORTS } else { 1 };
    loop {
        tries -= 1;
        let listener = TcpListener::bind(listen)?;
        setsockopt(&listener, TcpMaxSeg, &SEGMENT)?;
        match Port::at(udp::with_port(listen, listener.local_addr()?.port())) {
            Ok(port) => return Ok((listener, port)),
            Err(why) if tries == 0 => return Err(why),
            Err(_) => {}
        }
    }
}

/// Pauses after an error if needed: a client gone before it was accepted is harmless, but a host
/// without descriptors would fail again at once.
fn rest_after(why: &io::Error) {
    let nothing =
        [io::ErrorKind::WouldBlock, io::ErrorKind::ConnectionAborted, io::ErrorKind::Interrupted];
    if !nothing.contains(&why.kind()) {
        thread::sleep(EXHAUSTED);
    }
}

/// The address to listen on for both versions of IP, or for version 4 if the host has no other.
#[must_use]
pub fn anywhere(port: u16) -> SocketAddr {
    let both = SocketAddr::new(IpAddr::from([0_u16; 8]), port);
    let free = SocketAddr::new(both.ip(), 0);
    if UdpSocket::bind(free).is_ok() {
        both
    } else {
        SocketAddr::new(IpAddr::from([0_u8; 4]), port)
    }
}
