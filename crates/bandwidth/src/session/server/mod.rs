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

/// How often a client that waits is told its place, and looked after.
const TELLING: Duration = Duration::from_secs(1);

/// The longest segments of the control channel, both ways, in bytes: they pass wherever the shortest
/// probes do, also where longer packets vanish without a word, which those are to find out.
const SEGMENT: u32 = 576 - 40;

/// How many free ports are tried for one that is free for TCP and UDP.
const PORTS: u32 = 20;

/// How long the server rests when it has no descriptors left for another connection.
const EXHAUSTED: Duration = Duration::from_millis(200);

/// How long a server waits, and for how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// The longest handshake.
    pub handshake: Duration,
    /// The longest time without a request.
    pub idle: Duration,
    /// The longest wait for one's turn.
    pub wait: Duration,
    /// The most pending handshakes.
    pub pending: usize,
    /// And of these from one address (of IPv6: one network of 64 bits).
    pub pending_of_one: usize,
    /// The most clients, one of whom is served.
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

/// How a server is to be.
pub struct Settings {
    /// Where it listens, TCP and UDP; port 0 for any that is free.
    pub listen: SocketAddr,
    /// What clients have to know.
    pub token: Token,
    /// A key of its own, which clients have to be told, instead of the token's.
    pub key: Option<Key>,
    /// What each client may do.
    pub limits: Limits,
    /// How long, and for how many.
    pub connections: ConnectionLimits,
    /// Who sends and receives.
    pub open: Box<Open>,
    /// Who is told what happens.
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
    /// Listens.
    ///
    /// # Errors
    /// If the address is not free, or not of this host.
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

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What stops it.
    #[must_use]
    pub fn stop(&self) -> Stop {
        self.stop.clone()
    }

    /// Serves clients until it is told to stop.
    ///
    /// # Errors
    /// If it cannot listen any more.
    pub fn run(&self) -> Result<(), SessionError> {
        let fingerprint = self.settings.key.as_ref().map(|key| key.fingerprint().to_string());
        self.tell(Event::Listening { address: self.address, fingerprint });
        thread::scope(|scope| {
            // Sessions end with it, whatever it ends for.
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

    /// Until a client comes; or not, when the server is to stop.
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

    /// From the first byte of a connection to its last.
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
        // It may be closed already.
        let _ = end.shutdown(Shutdown::Both);
    }

    fn refused(&self, client: SocketAddr, why: &SessionError) {
        self.tell(Event::Refused { client, why: why.to_string() });
    }

    /// With a client that has proven itself.
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

    /// Until it is the client's turn: its place, and what it may do.
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

    /// Until it is the client's turn, or it is gone, or that has taken too long.
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
                // It has nothing to say now but that it goes.
                let awaited = "its turn";
                let said = frames.receive(awaited, Instant::now() + TELLING)?;
                return Err(order(frames, &said, awaited));
            }
        }
        Ok(())
    }

    /// Says why the session is over, to who still listens.
    fn part(&self, frames: &mut Frames, why: &SessionError) {
        let last = if self.stop.is_set() {
            Some(Message::Bye { why: "the server is being stopped".to_owned() })
        } else {
            why.failure().map(Message::Error)
        };
        // Whoever does not listen any more does not need to know.
        let _ = last.map(|last| frames.send(&last));
    }
}

/// Says to a client why it is not let in, if that takes no time: before TLS, which would.
fn turn_away(connection: TcpStream, client: SocketAddr, why: &str) {
    // There is room for it: nothing was sent yet.
    let socket = Box::new(Socket::new(connection, Instant::now()));
    let message = Message::Error(Failure::new(Code::Busy, why));
    // It is closed in any case.
    let _ = Frames::new(socket, format!("the client at {client}"), PLAIN_LIMIT).send(&message);
}

/// A port for TCP and the same for UDP.
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

/// A client that was gone before it was accepted is no trouble; a host without descriptors is, and
/// asking it again at once is of no use.
fn rest_after(why: &io::Error) {
    let nothing =
        [io::ErrorKind::WouldBlock, io::ErrorKind::ConnectionAborted, io::ErrorKind::Interrupted];
    if !nothing.contains(&why.kind()) {
        thread::sleep(EXHAUSTED);
    }
}

/// Where to listen for both versions of IP, or for version 4 where the host has no other.
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
