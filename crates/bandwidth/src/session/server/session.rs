//! A session with the client whose turn it is.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::session::error::SessionError;
use crate::session::event::Event;
use crate::session::exchange::{self, Timeouts};
use crate::session::failure::{Code, Failure};
use crate::session::frame::{Frames, order};
use crate::session::handshake::Established;
use crate::session::limits::Account;
use crate::session::message::{Direction, Message};
use crate::session::path_validation::{Challenge, Port};
use crate::session::probes::{Cookie, Open, Probes};
use crate::session::udp;
use crate::train::Train;

/// How long a path request is awaited at a time; the client sends another.
const REQUEST: Duration = Duration::from_millis(300);

/// The state of the datagram path.
enum PathState {
    /// Nothing.
    Unknown,
    /// A request came from there.
    Challenged(Challenge),
    /// Datagrams come from there.
    Validated(Box<dyn Probes>, SocketAddr),
}

/// The state shared by all sessions of a server.
pub struct Shared<'a> {
    /// The port for path requests.
    pub port: &'a Port,
    /// Opens sockets for trains.
    pub open: &'a Open,
    /// Receives events.
    pub tell: &'a dyn Fn(Event),
}

/// A session.
pub struct Session<'a> {
    shared: Shared<'a>,
    frames: &'a mut Frames,
    account: &'a mut Account,
    /// The client's address according to its connection.
    client: SocketAddr,
    /// The server's address for datagrams.
    local: SocketAddr,
    cookie: Cookie,
    timeouts: Timeouts,
    path: PathState,
}

impl<'a> Session<'a> {
    /// A session with an authenticated client.
    pub fn new(
        shared: Shared<'a>,
        Established { frames, cookie, round_trip }: &'a mut Established,
        (client, local): (SocketAddr, SocketAddr),
        account: &'a mut Account,
    ) -> Self {
        // Earlier datagrams are irrelevant now.
        shared.port.clear();
        Self {
            shared,
            frames,
            account,
            client,
            local,
            cookie: *cookie,
            timeouts: Timeouts::new(*round_trip),
            path: PathState::Unknown,
        }
    }

    /// Serves the client's requests until it leaves; it may be idle for this long.
    pub fn serve(&mut self, idle: Duration) -> Result<(), SessionError> {
        self.frames
            .send(&Message::Welcome { udp_port: self.local.port(), offer: self.account.offer() })?;
        loop {
            let end = self.account.end();
            let until = end.min(Instant::now() + idle);
            match self.frames.receive("a request", until) {
                Ok(Message::PathRequest { nonce }) => self.challenge(nonce)?,
                Ok(Message::PathResponse { challenge }) => self.validate(challenge)?,
                Ok(Message::Prepare { train, direction, number }) => {
                    self.train(&train, direction, number)?
                }
                Ok(Message::Ping) => self.frames.send(&Message::Pong)?,
                Ok(other) => return Err(order(self.frames, &other, "a request")),
                Err(SessionError::Bye { .. }) => return Ok(()),
                Err(SessionError::Silent { .. }) if Instant::now() >= end => {
                    return Err(self.account.over_time().into());
                }
                Err(why) => return Err(why),
            }
        }
    }

    fn challenge(&mut self, nonce: u64) -> Result<(), SessionError> {
        // The old socket has the port, and maybe the client's address, of the new one.
        self.path = PathState::Unknown;
        let challenge = self.shared.port.challenge(nonce, self.local, REQUEST);
        let challenge = challenge.map_err(SessionError::io("challenge a path"))?;
        let sent = challenge.is_some();
        self.path = challenge.map_or(PathState::Unknown, PathState::Challenged);
        self.frames.send(&Message::PathChallenge { sent })
    }

    fn validate(&mut self, response: u64) -> Result<(), SessionError> {
        let challenge = match std::mem::replace(&mut self.path, PathState::Unknown) {
            PathState::Challenged(challenge) if challenge.value == response => challenge,
            _ => {
                let message = "that challenge was sent to no address: no probes go anywhere";
                return Err(Failure::new(Code::Path, message).into());
            }
        };
        let address = challenge.address;
        let socket =
            challenge.socket(self.local).map_err(SessionError::io("use UDP with the client"))?;
        let bytes =
            udp::longest_packet(&socket).map_err(SessionError::io("ask for the longest packet"))?;
        let probes = (self.shared.open)(socket).map_err(SessionError::io("prepare for probes"))?;
        self.path = PathState::Validated(probes, address);
        self.frames.send(&Message::PathValidated { address, bytes })
    }

    fn train(
        &mut self,
        train: &Train,
        direction: Direction,
        number: u32,
    ) -> Result<(), SessionError> {
        let PathState::Validated(probes, address) = &mut self.path else {
            let message = "a train before the path was validated";
            return Err(Failure::new(Code::Path, message).into());
        };
        self.account.admit(train)?;
        self.frames.send(&Message::Ready { number })?;
        let packets = match direction {
            Direction::Up => {
                let all = (train, self.cookie, number);
                let end = |frames: &mut Frames, until| match frames
                    .receive("the end of a train", until)?
                {
                    Message::Done { number: done } if done == number => Ok(()),
                    other => Err(order(frames, &other, "the end of a train")),
                };
                let ((), report) =
                    exchange::receive(self.frames, probes.as_mut(), all, self.timeouts, end)?;
                self.account.came(train, &report.arrived)?;
                exchange::tell_arrived(self.frames, &report)?;
                report.arrived.len()
            }
            Direction::Down => {
                // The only message a client can send now is its departure.
                let mut wanted = || !self.frames.has_input();
                let sent = probes.send(train, *address, self.cookie, number, &mut wanted);
                let report = sent.map_err(SessionError::io("send probes"))?;
                exchange::tell_sent(self.frames, &report)?;
                report.sent_ns.len()
            }
        };
        (self.shared.tell)(Event::Train {
            client: self.client,
            direction,
            packets: packets as u32,
            of: train.packets,
            bytes: train.bytes,
            rate: train.rate.bits(),
        });
        Ok(())
    }
}
