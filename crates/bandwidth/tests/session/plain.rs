//! The simplest who can send and receive trains: one packet a call, times by `std`.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use eigentime_bandwidth::session::probes::{Cookie, Deadline, Probes, ReceivedReport, SentReport};
use eigentime_bandwidth::train::{Arrival, Train};

/// The cookie, the train's number, the packet's.
const HEAD: usize = 8 + 4 + 4;

/// The longest time in which a changed deadline is not seen.
const SLICE: Duration = Duration::from_millis(5);

/// The shortest time that the kernel takes for one.
const SHORTEST: Duration = Duration::from_micros(1);

pub struct Plain {
    socket: UdpSocket,
    begin: Instant,
}

impl Plain {
    pub fn open(socket: UdpSocket) -> io::Result<Box<dyn Probes>> {
        Ok(Box::new(Self { socket, begin: Instant::now() }))
    }

    fn now(&self) -> i64 {
        self.begin.elapsed().as_nanos() as i64
    }
}

fn head(cookie: Cookie, number: u32, packet: u32) -> Vec<u8> {
    [&cookie.0.to_be_bytes()[..], &number.to_be_bytes(), &packet.to_be_bytes()].concat()
}

impl Probes for Plain {
    fn send(
        &mut self,
        train: &Train,
        to: SocketAddr,
        cookie: Cookie,
        number: u32,
        wanted: &mut dyn FnMut() -> bool,
    ) -> io::Result<SentReport> {
        let headers = if to.is_ipv4() { 20 + 8 } else { 40 + 8 };
        let begin = Instant::now();
        let mut report = SentReport::default();
        for packet in 0..train.packets {
            if packet % 16 == 15 && !wanted() {
                break;
            }
            let mut bytes = head(cookie, number, packet);
            bytes.resize(usize::from(train.bytes) - headers, 0);
            let due = Duration::from_nanos(train.due_ns(packet));
            while begin.elapsed() < due {
                std::thread::yield_now();
            }
            report.sent_ns.push(self.now());
            if self.socket.send_to(&bytes, to).is_err() {
                report.unsent += 1;
            }
        }
        Ok(report)
    }

    fn receive(
        &mut self,
        train: &Train,
        cookie: Cookie,
        number: u32,
        deadline: &Deadline,
    ) -> io::Result<ReceivedReport> {
        let mut bytes = vec![0; 9000];
        let mut report = ReceivedReport::default();
        while report.arrived.len() < train.packets as usize {
            // Asked before reading: what has come by then is in the socket, and is read still.
            let left = deadline.left();
            self.socket.set_nonblocking(left.is_zero())?;
            self.socket.set_read_timeout(Some(left.min(SLICE).max(SHORTEST)))?;
            let length = match self.socket.recv(&mut bytes) {
                Ok(length) => length,
                Err(why) if left.is_zero() && why.kind() == io::ErrorKind::WouldBlock => break,
                // Neither a timeout nor a refused datagram of before ends a train.
                Err(_) => continue,
            };
            let at_ns = self.now();
            if length < HEAD || bytes[..12] != head(cookie, number, 0)[..12] {
                continue;
            }
            let packet = u32::from_be_bytes(bytes[12..16].try_into().expect("4 bytes"));
            report.arrived.push(Arrival { packet, at_ns });
        }
        self.socket.set_nonblocking(false)?;
        Ok(report)
    }
}
