//! Trains over UDP, paced and timestamped as precisely as the host can.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::thread;
use std::time::Duration;

use super::probes::{Cookie, Deadline, Open, Probes, ReceivedReport, SentReport};
use crate::train::packet::Probe;
use crate::train::receiver::Receiver;
use crate::train::sender::Sender;
use crate::train::{Timing, Train};

/// The maximum interval between checks of a deadline, which may be moved forward.
const LOOK: Duration = Duration::from_millis(10);

/// A host's way of sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Manner {
    /// The pacing of trains.
    pub timing: Timing,
    /// Whether to use a real-time priority while a train is sent, if allowed.
    pub realtime: bool,
}

/// A function that opens sockets for trains.
#[must_use]
pub fn open(manner: Manner) -> Box<Open> {
    Box::new(move |socket| Ok(Box::new(Sockets::new(socket, manner)?)))
}

/// A socket for trains.
#[derive(Debug)]
struct Sockets {
    sender: Sender,
    receiver: Receiver,
}

impl Sockets {
    fn new(socket: UdpSocket, manner: Manner) -> io::Result<Self> {
        let sender = Sender::new(manner.timing, manner.realtime);
        Ok(Self { sender, receiver: Receiver::new(socket)? })
    }
}

impl Probes for Sockets {
    fn send(
        &mut self,
        train: &Train,
        to: SocketAddr,
        cookie: Cookie,
        number: u32,
        wanted: &mut dyn FnMut() -> bool,
    ) -> io::Result<SentReport> {
        let probe = Probe { cookie: cookie.0, train: number, packet: 0 };
        let sent = self.sender.send(self.receiver.socket(), to, train, probe, wanted)?;
        Ok(SentReport {
            sent_ns: sent.sent_ns,
            unsent: sent.refused,
            clock_trouble: sent.clock_trouble,
        })
    }

    fn receive(
        &mut self,
        train: &Train,
        cookie: Cookie,
        number: u32,
        deadline: &Deadline,
    ) -> io::Result<ReceivedReport> {
        let probe = Probe { cookie: cookie.0, train: number, packet: 0 };
        let received = self.receiver.receive(train, probe, &mut |look| {
            thread::sleep(look.min(LOOK).min(deadline.left()));
            deadline.left().is_zero()
        })?;
        Ok(ReceivedReport {
            arrived: received.arrived,
            overflowed: received.overflowed,
            clock_trouble: received.clock_trouble,
        })
    }
}
