//! `eigentime bandwidth serve`: clients, one after the other.

mod guests;
mod host;
mod stop;
mod turns;

use std::io;
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::TcpMaxSeg;
use rustix::event::{PollFd, PollFlags, poll};

use self::guests::{Guest, Guests};
use self::host::{Host, House};
pub use self::stop::Stop;
use self::turns::{Place, Turns};
use super::error::{Code, Failed, SessionError};
use super::event::{Entry, Event, Tell};
use super::frame::Frames;
use super::handshake::{Met, as_server};
use super::knock::Port;
use super::limits::{Ledger, Limits};
use super::line::{Line, Timed};
use super::message::Message;
use super::probes::Open;
use super::tls::ServerTls;
use super::token::Token;
use super::udp;

/// How often a client that waits is told its place, and looked after.
const TELLING: Duration = Duration::from_secs(1);

/// The longest segments of the control channel, both ways, in bytes: they pass wherever the shortest
/// probes do, also where longer packets vanish without a word, which those are to find out.
const SEGMENT: u32 = 576 - 40;

/// How many free ports are tried for one that is free for TCP and UDP.
const PORTS: u32 = 20;

/// How long the server rests when it has no descriptors left for another connection.
const EXHAUSTED: Duration = Duration::from_millis(200);

/// How long a server has patience, and with how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// For a client to prove itself.
    pub strangers: Duration,
    /// For its next request.
    pub idle: Duration,
    /// For its turn.
    pub queue: Duration,
    /// How many may be proving themselves at a time.
    pub most_strangers: usize,
    /// And of these from one address (of IPv6: one network of 64 bits).
    pub most_of_one: usize,
    /// How many may be served and wait.
    pub most_clients: usize,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            strangers: Duration::from_secs(5),
            idle: Duration::from_secs(10),
            queue: Duration::from_secs(600),
            most_strangers: 32,
            most_of_one: 4,
            most_clients: 16,
        }
    }
}

/// How a server is to be.
pub struct Settings {
    /// Where it listens, TCP and UDP; port 0 for any that is free.
    pub listen: SocketAddr,
    /// What clients have to know.
    pub token: Token,
    /// With encryption.
    pub tls: Option<ServerTls>,
    /// What each client may do.
    pub limits: Limits,
    /// How long, and with how many.
    pub patience: Patience,
    /// Who sends and receives.
    pub open: Box<Open>,
    /// Who is told what happens.
    pub tell: Box<Tell>,
}

/// A server that listens.
pub struct Server {
    settings: Settings,
    listener: TcpListener,
    port: Port,
    address: SocketAddr,
    stop: Stop,
    turns: Turns,
    guests: Guests,
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
        let (turns, guests) = (Turns::default(), Guests::default());
        Ok(Self { settings, listener, port, address, stop, turns, guests, ledger })
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
        let fingerprint = self.settings.tls.as_ref().map(|tls| tls.fingerprint.to_string());
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
                let Patience { most_strangers, most_of_one, .. } = self.settings.patience;
                let Some(guest) = self.guests.enter(client.ip(), most_strangers, most_of_one)
                else {
                    let why = format!(
                        "too many connections that have proven nothing yet, {most_of_one} from one \
                         address or {most_strangers} in all: try again later"
                    );
                    self.turn_away(connection, client, &why);
                    self.tell(Event::Refused { client, why });
                    continue;
                };
                // Without a thread there is no session: the connection closes, and the guest goes.
                let serve = move || self.connected(connection, client, guest);
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

    /// Says to a client why it is not let in, if that takes no time. With encryption it could not be
    /// read.
    fn turn_away(&self, connection: TcpStream, client: SocketAddr, why: &str) {
        if self.settings.tls.is_none() {
            // There is room for it: nothing was sent yet.
            let line = Box::new(Timed::new(connection, Instant::now()));
            let message = Message::Error(Failed::new(Code::Busy, why).0);
            // It is closed in any case.
            let _ = Frames::new(line, format!("the client at {client}")).send(&message);
        }
    }

    /// From the first byte of a connection to its last.
    fn connected(&self, connection: TcpStream, client: SocketAddr, guest: Guest<'_>) {
        let refused =
            |why: SessionError| self.tell(Event::Refused { client, why: why.to_string() });
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
            Err(why) => return refused(SessionError::io("use a connection")(why)),
        };
        let until = Instant::now() + self.settings.patience.strangers;
        let who = format!("the client at {client}");
        let line: Result<Box<dyn Line>, _> = match &self.settings.tls {
            Some(tls) => tls.greet(connection, &who, until),
            None => Ok(Box::new(Timed::new(connection, until))),
        };
        let mut frames = match line {
            Ok(line) => Frames::new(line, who),
            Err(why) => return refused(why.into()),
        };
        match as_server(&mut frames, &self.settings.token, until) {
            Ok(met) => {
                drop(guest);
                let local = udp::with_port(local, self.address.port());
                self.known(&mut frames, (client, local), &met);
            }
            Err(why) => {
                self.part(&mut frames, &why);
                refused(why);
            }
        }
        // It may be closed already.
        let _ = end.shutdown(Shutdown::Both);
    }

    /// With a client that has proven itself.
    fn known(&self, frames: &mut Frames, (client, local): (SocketAddr, SocketAddr), met: &Met) {
        let refused = |frames: &mut Frames, why: SessionError| {
            self.part(frames, &why);
            self.tell(Event::Refused { client, why: why.to_string() });
        };
        let most = self.settings.patience.most_clients;
        let Some(place) = self.turns.enter(most) else {
            let message = format!("{most} clients are served and wait already: try again later");
            return refused(frames, Failed::new(Code::Busy, message).into());
        };
        if let Err(why) = self.queue(frames, client, &place) {
            return refused(frames, why);
        }
        let account = self.ledger().open(client.ip(), Instant::now());
        let mut account = match account {
            Ok(account) => account,
            Err(why) => return refused(frames, why.into()),
        };
        self.tell(Event::Begun { client });
        let house = House {
            port: &self.port,
            open: self.settings.open.as_ref(),
            tell: &|event| self.tell(event),
        };
        let result = Host::new(house, frames, (client, local), met, &mut account)
            .serve(self.settings.patience.idle);
        let used = account.used();
        self.ledger().close(client.ip(), used, Instant::now());
        if let Err(why) = &result {
            self.part(frames, why);
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

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Until it is the client's turn, or it is gone, or that has taken too long.
    fn queue(
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
            if begin.elapsed() > self.settings.patience.queue {
                let message = format!(
                    "busy: still {before} before you, after {:.0?}: try again later",
                    begin.elapsed()
                );
                return Err(Failed::new(Code::Busy, message).into());
            }
            frames.send(&Message::Busy { before })?;
            before = place.wait(before, TELLING);
            if frames.line().has_news() {
                // It has nothing to say now but that it goes.
                let awaited = "its turn";
                let said = frames.receive(awaited, Instant::now() + TELLING)?;
                return Err(super::handshake::order(frames, &said, awaited));
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
