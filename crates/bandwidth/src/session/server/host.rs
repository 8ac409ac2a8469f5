//! A session with one client, whose turn it is.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::session::error::{Code, Failed, SessionError};
use crate::session::event::Event;
use crate::session::exchange::{self, Patience};
use crate::session::frame::Frames;
use crate::session::handshake::{Met, order};
use crate::session::hex::Hex;
use crate::session::knock::{Datagrams, Port, Visitor};
use crate::session::limits::Account;
use crate::session::message::{Direction, Message};
use crate::session::probes::{Open, Probes};
use crate::session::token::Cookie;
use crate::session::udp;
use crate::train::Train;

/// How long a knock is listened for at a time; the client knocks again.
const LISTENING: Duration = Duration::from_millis(300);

/// Where the client's datagrams come from.
enum Entrance {
    /// Nobody knows yet.
    Closed,
    /// From there, it seems.
    Asked(Visitor),
    /// From there.
    Open(Box<dyn Probes>, SocketAddr),
}

/// What all sessions of a server share.
pub struct House<'a> {
    /// Where knocks come.
    pub port: &'a Port,
    /// Who sends and receives.
    pub open: &'a Open,
    /// Who is told what happens.
    pub tell: &'a dyn Fn(Event),
}

/// A session.
pub struct Host<'a> {
    house: House<'a>,
    frames: &'a mut Frames,
    account: &'a mut Account,
    /// The client's address, as its connection says.
    client: SocketAddr,
    /// The server's, for datagrams.
    local: SocketAddr,
    datagrams: Datagrams,
    cookie: Cookie,
    patience: Patience,
    entrance: Entrance,
}

impl<'a> Host<'a> {
    /// With a client that has proven itself.
    pub fn new(
        house: House<'a>,
        frames: &'a mut Frames,
        (client, local): (SocketAddr, SocketAddr),
        met: &Met,
        account: &'a mut Account,
    ) -> Self {
        // What has come before is of nobody who matters now.
        house.port.clear();
        Self {
            house,
            frames,
            account,
            client,
            local,
            datagrams: Datagrams::of(&met.keys),
            cookie: met.keys.cookie(),
            patience: Patience::new(met.round_trip),
            entrance: Entrance::Closed,
        }
    }

    /// Does what the client asks for, until it leaves; it may be idle for so long.
    pub fn serve(&mut self, idle: Duration) -> Result<(), SessionError> {
        self.frames
            .send(&Message::Welcome { udp_port: self.local.port(), offer: self.account.offer() })?;
        loop {
            let end = self.account.end();
            let until = end.min(Instant::now() + idle);
            match self.frames.receive("a request", until) {
                Ok(Message::Knocked) => self.knocked()?,
                Ok(Message::Echo { nonce }) => self.echoed(&nonce)?,
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

    fn knocked(&mut self) -> Result<(), SessionError> {
        // The old socket has the port, and maybe the client's, of the one to come.
        self.entrance = Entrance::Closed;
        let heard = self.house.port.listen(&self.datagrams, self.local, LISTENING);
        let visitor = heard.map_err(SessionError::io("answer a knock"))?;
        let heard = visitor.is_some();
        if let Some(visitor) = visitor {
            self.entrance = Entrance::Asked(visitor);
        }
        self.frames.send(&Message::Answered { heard })
    }

    fn echoed(&mut self, nonce: &Hex<16>) -> Result<(), SessionError> {
        let visitor = match std::mem::replace(&mut self.entrance, Entrance::Closed) {
            Entrance::Asked(visitor) if visitor.nonce == *nonce => visitor,
            _ => {
                let message = "that nonce was sent to no address: no probes go anywhere";
                return Err(Failed::new(Code::Address, message).into());
            }
        };
        let address = visitor.address;
        let socket =
            visitor.socket(self.local).map_err(SessionError::io("use UDP with the client"))?;
        let bytes =
            udp::longest_packet(&socket).map_err(SessionError::io("ask for the longest packet"))?;
        let probes = (self.house.open)(socket).map_err(SessionError::io("prepare for probes"))?;
        self.entrance = Entrance::Open(probes, address);
        self.frames.send(&Message::Known { address, bytes })
    }

    fn train(
        &mut self,
        train: &Train,
        direction: Direction,
        number: u32,
    ) -> Result<(), SessionError> {
        let Entrance::Open(probes, address) = &mut self.entrance else {
            let message = "a train before an address was proven";
            return Err(Failed::new(Code::Address, message).into());
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
                    exchange::receive(self.frames, probes.as_mut(), all, self.patience, end)?;
                self.account.came(train, &report.arrived)?;
                exchange::tell_arrived(self.frames, &report)?;
                report.arrived.len()
            }
            Direction::Down => {
                // A client has nothing to say now but that it goes.
                let mut wanted = || !self.frames.line().has_news();
                let sent = probes.send(train, *address, self.cookie, number, &mut wanted);
                let report = sent.map_err(SessionError::io("send probes"))?;
                exchange::tell_sent(self.frames, &report)?;
                report.sent_ns.len()
            }
        };
        (self.house.tell)(Event::Train {
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
