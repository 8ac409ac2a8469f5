//! What goes over the loopback, seen from outside.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::time::Instant;

use rustix::net::{
    AddressFamily, RecvFlags, SocketFlags, SocketType, ipproto, recv, socket_with, sockopt,
};

use crate::support::PATIENCE;

/// A datagram, or what the kernel says of one.
#[derive(Clone, Debug)]
pub struct Seen {
    pub from: u16,
    pub to: u16,
    pub payload: Vec<u8>,
}

/// All UDP of IPv4 that this host receives.
pub struct Wiretap {
    socket: OwnedFd,
}

impl Wiretap {
    /// The test is skipped without the right to it.
    pub fn new() -> Self {
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::INET, SocketType::RAW, flags, Some(ipproto::UDP));
        match socket {
            Ok(socket) => {
                sockopt::set_socket_recv_buffer_size(&socket, 4 << 20).unwrap();
                let slice = Some(PATIENCE);
                sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, slice).unwrap();
                Self { socket }
            }
            Err(why) => skip!("CAP_NET_RAW: {why}"),
        }
    }

    fn next(&self) -> io::Result<Seen> {
        let mut bytes = [0; 16 << 10];
        let (length, _) = recv(&self.socket, &mut bytes[..], RecvFlags::empty())?;
        let head = usize::from(bytes[0] & 15) * 4;
        let udp = &bytes[head..length];
        let port = |at: usize| u16::from_be_bytes([udp[at], udp[at + 1]]);
        Ok(Seen { from: port(0), to: port(2), payload: udp[8..].to_vec() })
    }

    /// All that was seen until now with this port at one end: what comes after a datagram of our own
    /// is of later.
    pub fn seen(&self, port: u16) -> Vec<Seen> {
        let mark = UdpSocket::bind("127.0.0.1:0").unwrap();
        let there = UdpSocket::bind("127.0.0.1:0").unwrap();
        mark.send_to(b"mark", there.local_addr().unwrap()).unwrap();
        let mark = mark.local_addr().unwrap().port();
        let mut seen = Vec::new();
        let begin = Instant::now();
        loop {
            assert!(begin.elapsed() < PATIENCE, "the mark does not come");
            let it = self.next().unwrap();
            if it.from == mark {
                return seen;
            }
            if it.from == port || it.to == port {
                seen.push(it);
            }
        }
    }
}

/// Whether anything, were it a refusal of the kernel, has come back to a socket connected to there.
pub fn answered(socket: &UdpSocket) -> bool {
    socket.set_nonblocking(true).unwrap();
    !matches!(socket.recv(&mut [0; 64]), Err(why) if why.kind() == io::ErrorKind::WouldBlock)
}

/// A socket connected to there.
pub fn to(server: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(server).unwrap();
    socket
}
