//! Trains of UDP packets, with the moments at which they were sent and have come.

use std::io::{ErrorKind, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::Duration;

use eigentime_clock::sleeper::Sleeper;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt, sockopt};
use rustix::net::sockopt::set_socket_recv_buffer_size_force;
use rustix::time::{ClockId, Timespec, clock_gettime};

/// The headers of IPv4 and UDP.
pub const HEADERS: usize = 28;
/// Nothing comes for so long: there is no more.
const SILENCE: Duration = Duration::from_millis(700);
/// The kernel stops what runs before others after 0.95 s.
const SHORT_NS: f64 = 0.4e9;
/// Room for all that a test sends.
const RECEIVE_BUFFER: usize = 700 << 20;

/// A packet that has come.
#[derive(Clone, Copy, Debug)]
pub struct Come {
    /// Its number, from 0.
    pub number: u64,
    /// When it was sent, CLOCK_MONOTONIC in nanoseconds.
    pub sent_ns: i64,
    /// And when it has come to the receiver's kernel.
    pub came_ns: i64,
}

/// A socket for a train, which keeps what comes with the kernel's stamps.
pub fn receiver(address: &str) -> UdpSocket {
    let socket = UdpSocket::bind(address).unwrap();
    set_socket_recv_buffer_size_force(&socket, RECEIVE_BUFFER).unwrap();
    setsockopt(&socket, sockopt::ReceiveTimestampns, &true).unwrap();
    socket.set_read_timeout(Some(SILENCE)).unwrap();
    socket
}

/// So many packets, or all that come until nothing does.
pub fn receive(socket: &UdpSocket, packets: u64) -> Vec<Come> {
    let ahead = nanos(clock_gettime(ClockId::Realtime)) - now_ns();
    let mut all = Vec::new();
    let mut buffer = [0; 1 << 16];
    let mut control = nix::cmsg_space!(nix::sys::time::TimeSpec);
    while (all.len() as u64) < packets {
        let mut parts = [IoSliceMut::new(&mut buffer)];
        let got =
            recvmsg::<()>(socket.as_raw_fd(), &mut parts, Some(&mut control), MsgFlags::empty());
        let message = match got {
            Ok(message) => message,
            Err(error) => {
                let kind = std::io::Error::from(error).kind();
                assert_eq!(kind, ErrorKind::WouldBlock, "{error}");
                return all;
            }
        };
        let stamp = message.cmsgs().unwrap().find_map(|it| match it {
            ControlMessageOwned::ScmTimestampns(time) => Some(time),
            _ => None,
        });
        let stamp = stamp.expect("a stamp of the kernel");
        let came_ns = stamp.tv_sec() * 1_000_000_000 + stamp.tv_nsec() - ahead;
        let number = u64::from_le_bytes(buffer[..8].try_into().unwrap());
        let sent_ns = i64::from_le_bytes(buffer[8..16].try_into().unwrap());
        all.push(Come { number, sent_ns, came_ns });
    }
    all
}

/// Waits until the hosts know each other's addresses: nobody listens at that port, which is answered.
pub fn knock(host: &str) {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    socket.connect((host, 9)).unwrap();
    socket.set_read_timeout(Some(SILENCE)).unwrap();
    for _ in 0..20 {
        // What was refused is told by the next call of either kind.
        let told = socket.send(&[0; 100]).and_then(|_| socket.recv(&mut [0; 100]));
        if told.is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused) {
            return;
        }
    }
    panic!("{host} does not answer");
}

/// Sends packets of so many bytes of IP, at even gaps; when the first and the last left. It runs
/// before others meanwhile, where that is allowed and does not take long.
pub fn send(to: SocketAddr, packets: u64, bytes: usize, gap_ns: f64) -> (i64, i64) {
    let is_short = packets as f64 * gap_ns < SHORT_NS;
    let _first = is_short.then(|| Sleeper::builder().realtime(20).build().unwrap());
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    socket.connect(to).unwrap();
    let mut payload = vec![0x5a; bytes - HEADERS];
    let begin = now_ns();
    let mut last = begin;
    for number in 0..packets {
        let due = begin + (number as f64 * gap_ns) as i64;
        while now_ns() < due {
            std::hint::spin_loop();
        }
        last = now_ns();
        payload[..8].copy_from_slice(&number.to_le_bytes());
        payload[8..16].copy_from_slice(&last.to_le_bytes());
        socket.send(&payload).unwrap();
    }
    (begin, last)
}

pub fn now_ns() -> i64 {
    nanos(clock_gettime(ClockId::Monotonic))
}

fn nanos(time: Timespec) -> i64 {
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}
