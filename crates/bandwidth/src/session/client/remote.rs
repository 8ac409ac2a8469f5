//! The path to a server, or from it.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use super::{Progress, Request, Step, packets};
use crate::methods::{Bounds, Broken, Path};
use crate::session::error::SessionError;
use crate::session::exchange::{self, Timeouts};
use crate::session::frame::{Frames, order};
use crate::session::limits::Offer;
use crate::session::message::{Direction, Message};
use crate::session::probes::{Cookie, Open, Probes};
use crate::session::{path_validation, udp};
use crate::train::{Host, Trace, Train};
use crate::units::BitRate;

/// The number of attempts to validate the path before a client gives up.
const ATTEMPTS: u32 = 8;

/// How long it waits for a challenge, besides two round trips.
const CHALLENGE: Duration = Duration::from_millis(300);

/// How long without datagrams until a middlebox may have forgotten their mapping: a conforming NAT
/// keeps it for at least 30 s (RFC 4787 asks for two minutes).
const FORGOTTEN: Duration = Duration::from_secs(15);

/// How often a resting client tells the server that it is still there.
const STILL_HERE: Duration = Duration::from_secs(3);

/// The number of packets sent to test a size: one arrival is enough, and all may be lost otherwise.
const TRIAL_PACKETS: u32 = 5;

/// Their rate: slow enough for most paths, fast enough not to take long.
const TRIAL_RATE_MEGA: f64 = 10.0;

/// The connection to a server.
pub(super) struct Link {
    pub frames: Frames,
    pub cookie: Cookie,
    /// The destination of datagrams.
    pub address: SocketAddr,
    pub timeouts: Timeouts,
}

/// A path to a server.
pub struct Remote {
    link: Link,
    offer: Offer,
    request: Request,
    open: Box<Open>,
    probes: Option<Box<dyn Probes>>,
    /// Our address, as the server sees it.
    seen_as: SocketAddr,
    /// The longest packet: first that of the routes, then that which has passed.
    bytes: u16,
    begin: Instant,
    /// When the last datagram of ours was sent or received.
    last: Instant,
    number: u32,
    total_bytes: u64,
    broken: Option<Broken>,
}

impl Remote {
    pub(super) fn new(
        link: Link,
        offer: Offer,
        request: Request,
        open: Box<Open>,
        progress: &mut Progress<'_>,
    ) -> Result<Self, SessionError> {
        let now = Instant::now();
        let mut remote = Self {
            seen_as: link.address,
            link,
            offer,
            request,
            open,
            probes: None,
            bytes: 0,
            begin: now,
            last: now,
            number: 0,
            total_bytes: 0,
            broken: None,
        };
        let most = remote.validate()?;
        let asked = remote.request.bytes;
        remote.bytes = packets::longest(asked, most, |bytes| remote.does_pass(bytes))?;
        progress(Step::Bytes(remote.bytes));
        Ok(remote)
    }

    /// Our address, as the server sees it.
    #[must_use]
    pub fn seen_as(&self) -> SocketAddr {
        self.seen_as
    }

    /// What the server allows.
    #[must_use]
    pub fn offer(&self) -> Offer {
        self.offer
    }

    /// Validates our datagram address with the server. Returns the longest packet of the route that
    /// trains leave by.
    fn validate(&mut self) -> Result<u16, SessionError> {
        self.probes = None;
        let local = if self.link.address.is_ipv4() {
            IpAddr::from([0_u8; 4])
        } else {
            IpAddr::from([0_u16; 8])
        };
        let socket =
            udp::at(SocketAddr::new(local, 0)).map_err(SessionError::io("open a UDP port"))?;
        socket.connect(self.link.address).map_err(SessionError::io("use UDP"))?;
        let (seen_as, theirs) = self.prove_address(&socket)?;
        let ours =
            udp::longest_packet(&socket).map_err(SessionError::io("ask for the longest packet"))?;
        self.seen_as = seen_as;
        self.probes = Some((self.open)(socket).map_err(SessionError::io("prepare for probes"))?);
        self.last = Instant::now();
        Ok(match self.request.direction {
            Direction::Up => ours,
            Direction::Down => theirs,
        })
    }

    /// Sends requests until the server has validated our datagram address: returns our address and
    /// its longest packet.
    fn prove_address(&mut self, socket: &UdpSocket) -> Result<(SocketAddr, u16), SessionError> {
        let Link { frames, address, timeouts, .. } = &mut self.link;
        let mut what = "none arrives at the server";
        for _ in 0..ATTEMPTS {
            let request = path_validation::Request::send(socket);
            frames.send(&Message::PathRequest { nonce: request.nonce })?;
            let awaited = "a challenge of the path";
            match frames.receive(awaited, Instant::now() + timeouts.answer())? {
                Message::PathChallenge { sent: false } => continue,
                Message::PathChallenge { sent: true } => {
                    what = "what the server sends does not arrive here"
                }
                other => return Err(order(frames, &other, awaited)),
            }
            let wait = CHALLENGE + 2 * timeouts.late();
            let challenge = request.challenge(wait);
            let challenge = challenge.map_err(SessionError::io("receive a datagram"))?;
            let Some(challenge) = challenge else { continue };
            frames.send(&Message::PathResponse { challenge })?;
            let awaited = "one's address";
            return match frames.receive(awaited, Instant::now() + timeouts.answer())? {
                Message::PathValidated { address, bytes } => Ok((address, bytes)),
                other => Err(order(frames, &other, awaited)),
            };
        }
        Err(SessionError::Datagrams { server: *address, what })
    }

    /// Whether packets of this size pass.
    fn does_pass(&mut self, bytes: u16) -> Result<bool, SessionError> {
        let bounds = self.bounds();
        let rate = BitRate::mega(TRIAL_RATE_MEGA.min(bounds.rate.bits() / 1e6));
        let train = Train { packets: TRIAL_PACKETS, bytes, rate };
        if train.total_bytes() > bounds.total_bytes {
            let (left, needed) = (bounds.total_bytes, train.total_bytes());
            return Err(SessionError::TooFewBytes { left, needed });
        }
        Ok(!self.train(&train)?.arrived.is_empty())
    }

    /// Sends a train, in either direction, and returns its trace.
    fn train(&mut self, train: &Train) -> Result<Trace, SessionError> {
        if self.last.elapsed() > FORGOTTEN {
            self.validate()?;
        }
        let Link { frames, cookie, address, timeouts } = &mut self.link;
        let probes = self.probes.as_mut().expect("validating the path has opened them").as_mut();
        let (number, direction) = (self.number, self.request.direction);
        self.number += 1;
        self.total_bytes += train.total_bytes();
        frames.send(&Message::Prepare { train: *train, direction, number })?;
        let awaited = "the server to be ready for a train";
        match frames.receive(awaited, Instant::now() + timeouts.answer())? {
            Message::Ready { number: ready } if ready == number => {}
            other => return Err(order(frames, &other, awaited)),
        }
        let (sent, came) = match direction {
            Direction::Up => {
                // The only message a server can send now is its departure.
                let mut wanted = || !frames.has_input();
                let sent = probes.send(train, *address, *cookie, number, &mut wanted);
                let sent = sent.map_err(SessionError::io("send probes"))?;
                frames.send(&Message::Done { number })?;
                let until = Instant::now() + timeouts.answer();
                (sent, exchange::hear_arrived(frames, train, until)?)
            }
            Direction::Down => {
                let end = |frames: &mut Frames, until| exchange::hear_sent(frames, train, until);
                exchange::receive(frames, probes, (train, *cookie, number), *timeouts, end)?
            }
        };
        self.last = Instant::now();
        Ok(Trace {
            train: *train,
            sent_ns: sent.sent_ns,
            arrived: came.arrived,
            host: Host {
                unsent: sent.unsent,
                overflowed: came.overflowed,
                clock_trouble: sent.clock_trouble || came.clock_trouble,
            },
        })
    }

    /// Checks that the server is there.
    fn ping(&mut self) -> Result<(), SessionError> {
        let Link { frames, timeouts, .. } = &mut self.link;
        frames.send(&Message::Ping)?;
        let awaited = "a sign of life";
        match frames.receive(awaited, Instant::now() + timeouts.answer())? {
            Message::Pong => Ok(()),
            other => Err(order(frames, &other, awaited)),
        }
    }

    /// Makes an error permanent.
    fn lasting<T>(&mut self, result: Result<T, SessionError>) -> Result<T, Broken> {
        result.map_err(|why| {
            let why = Broken(why.to_string());
            self.broken = Some(why.clone());
            why
        })
    }
}

impl Path for Remote {
    fn send(&mut self, train: &Train) -> Result<Trace, Broken> {
        if let Some(why) = &self.broken {
            return Err(why.clone());
        }
        let sent = self.train(train);
        self.lasting(sent)
    }

    /// The remaining limits: what the user wants, the server allows and the path carries.
    fn bounds(&self) -> Bounds {
        let allowed = self.offer.rate;
        let left = Duration::try_from_secs_f64(self.offer.seconds).unwrap_or(Duration::MAX);
        Bounds {
            bytes: self.bytes,
            rate: self.request.rate.filter(|asked| *asked < allowed).unwrap_or(allowed),
            time: self.request.time.min(left.saturating_sub(self.begin.elapsed())),
            total_bytes: self
                .request
                .total_bytes
                .min(self.offer.bytes)
                .saturating_sub(self.total_bytes),
        }
    }

    fn elapsed(&self) -> Duration {
        self.begin.elapsed()
    }

    fn rest(&mut self, time: Duration) {
        let end = Instant::now() + time;
        while self.broken.is_none() {
            let left = end.saturating_duration_since(Instant::now());
            thread::sleep(left.min(STILL_HERE));
            if left <= STILL_HERE {
                return;
            }
            // The next train reports what is wrong.
            let alive = self.ping();
            let _ = self.lasting(alive);
        }
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        // A server that does not hear it sees the end of the connection.
        let _ = self.link.frames.send(&Message::Bye { why: "done".to_owned() });
    }
}
