//! Receives trains, with the times at which the kernel got the packets.
//!
//! The receiver sleeps while packets arrive and reads them from the socket afterwards: waking it
//! for each would cost the host, and on the same machine the sender, more than the packet does.

use std::io::{self, IoSliceMut};
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsRawFd;
use std::thread;
use std::time::{Duration, Instant};

use nix::cmsg_space;
use nix::errno::Errno;
use nix::sys::socket::sockopt::{RcvBuf, RcvBufForce, Timestamping};
use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, TimestampingFlag, Timestamps, getsockopt, recvmsg, setsockopt,
};
use nix::sys::time::TimeSpec;
use rustix::time::{ClockId, clock_gettime};

use super::packet::Probe;
use super::{Arrival, Train};

/// The requested size of the socket buffer: half a second at 4 Gbit/s. The kernel grants up to
/// net.core.rmem_max, unless the program may exceed it (CAP_NET_ADMIN).
const ROOM: usize = 256 << 20;

/// The overhead of a packet in it: a packet takes twice its own length, and the kernel's metadata.
const BESIDE: usize = 1024;

/// How often the socket is read while a train arrives, unless it would be full earlier.
const LOOK: Duration = Duration::from_millis(20);
const LOOK_AT_LEAST: Duration = Duration::from_micros(500);

/// How far the wall clock, used for timestamps, and the monotonic clock may diverge during a train:
/// the maximum slew by NTP (500 ppm), and the error of reading both, in nanoseconds.
const STEERED: f64 = 0.000_5;
const APART_NS: i64 = 20_000;

/// How long the kernel may take to start timestamping, and how often that is checked.
const STAMPS_WITHIN: Duration = Duration::from_secs(2);
const STAMPS_LOOK: Duration = Duration::from_micros(100);

/// A packet and its arrival time: by the network card, if it timestamps, and by the kernel.
#[derive(Clone, Copy, Debug)]
struct Stamped {
    packet: u32,
    hardware_ns: Option<i64>,
    /// `Err` holds the time of reading if the kernel has not timestamped it.
    system_ns: Result<i64, i64>,
}

/// The received part of a train.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// The packets in the order of arrival, each once.
    pub arrived: Vec<Arrival>,
    /// The number of packets for which the socket had no room.
    pub overflowed: u32,
    /// Packets that came twice.
    pub doubled: u32,
    /// The clock did not run evenly meanwhile.
    pub clock_trouble: bool,
    /// Whether the times are the network card's.
    pub by_hardware: bool,
}

/// A socket that timestamps what it receives.
#[derive(Debug)]
pub struct Receiver {
    socket: UdpSocket,
    /// The size of its buffer in bytes.
    room: usize,
}

impl Receiver {
    /// Receives from this socket from now on.
    ///
    /// # Errors
    /// If the system has no timestamps.
    pub fn new(socket: UdpSocket) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let flags = TimestampingFlag::SOF_TIMESTAMPING_RX_SOFTWARE
            | TimestampingFlag::SOF_TIMESTAMPING_SOFTWARE
            | TimestampingFlag::SOF_TIMESTAMPING_RX_HARDWARE
            | TimestampingFlag::SOF_TIMESTAMPING_RAW_HARDWARE;
        setsockopt(&socket, Timestamping, &flags)?;
        await_stamps(flags)?;
        if setsockopt(&socket, RcvBufForce, &ROOM).is_err() {
            setsockopt(&socket, RcvBuf, &ROOM)?;
        }
        // The kernel doubles the requested size, for its metadata.
        let room = getsockopt(&socket, RcvBuf)?;
        Ok(Self { socket, room })
    }

    /// The socket, for sending.
    #[must_use]
    pub fn socket(&self) -> &UdpSocket {
        &self.socket
    }

    /// The number of packets of this length that fit into the buffer.
    #[must_use]
    pub fn keeps(&self, bytes: u16) -> usize {
        self.room / (2 * usize::from(bytes) + BESIDE)
    }

    /// Receives a train until all of it has arrived or `over` reports that no more will come.
    /// `over` is called repeatedly with the time that it may wait for that report, and must wait
    /// that long.
    ///
    /// # Errors
    /// If the socket cannot receive.
    pub fn receive(
        &mut self,
        train: &Train,
        expected: Probe,
        over: &mut dyn FnMut(Duration) -> bool,
    ) -> io::Result<Received> {
        let (mut received, mut stamped) = (Received::default(), Vec::new());
        let mut seen = vec![false; train.packets as usize];
        let dropped_before = self.dropped()?;
        let (clocks, begun) = (wall_ahead(), monotonic());
        let full_in = train.gap_ns() * self.keeps(train.bytes) as f64 / 4.0;
        let look = Duration::from_nanos(full_in as u64).clamp(LOOK_AT_LEAST, LOOK);
        loop {
            let is_over = over(look);
            received.doubled += self.drain(expected, &mut seen, &mut stamped)?;
            if is_over || stamped.len() == seen.len() {
                break;
            }
        }
        received.overflowed = self.dropped()?.wrapping_sub(dropped_before);
        let passed = (monotonic() - begun) as f64;
        let apart = (wall_ahead() - clocks).abs();
        received.clock_trouble = apart > APART_NS + (passed * STEERED) as i64;
        // All of them from one clock.
        let hardware: Option<Vec<i64>> = stamped.iter().map(|it| it.hardware_ns).collect();
        received.by_hardware = hardware.is_some() && !stamped.is_empty();
        received.clock_trouble |=
            hardware.is_none() && stamped.iter().any(|it| it.system_ns.is_err());
        let system = stamped.iter().map(|it| it.system_ns.unwrap_or_else(|read| read));
        let times = hardware.unwrap_or_else(|| system.collect());
        let arrivals = stamped.iter().zip(times);
        received.arrived =
            arrivals.map(|(it, at_ns)| Arrival { packet: it.packet, at_ns }).collect();
        Ok(received)
    }

    /// Discards packets that are no longer awaited.
    ///
    /// # Errors
    /// If the socket cannot receive.
    pub fn discard(&mut self) -> io::Result<()> {
        let nobody = Probe { cookie: 0, train: 0, packet: 0 };
        self.drain(nobody, &mut [], &mut Vec::new()).map(drop)
    }

    /// The number of packets dropped for lack of room since the socket was created.
    fn dropped(&self) -> io::Result<u32> {
        /// Its index in the kernel's report (<linux/sock_diag.h>).
        const SK_MEMINFO_DROPS: usize = 8;
        let mut told = [0_u32; SK_MEMINFO_DROPS + 1];
        let mut length = size_of_val(&told) as libc::socklen_t;
        // SAFETY: the kernel writes at most `length` bytes.
        let result = unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_MEMINFO,
                told.as_mut_ptr().cast(),
                &raw mut length,
            )
        };
        Errno::result(result)?;
        Ok(told[SK_MEMINFO_DROPS])
    }

    /// Reads what has arrived, and returns the number of duplicates.
    fn drain(
        &self,
        expected: Probe,
        seen: &mut [bool],
        stamped: &mut Vec<Stamped>,
    ) -> io::Result<u32> {
        let mut doubled = 0;
        let mut front = [0; Probe::BYTES];
        let mut beside = cmsg_space!(Timestamps);
        loop {
            let mut parts = [IoSliceMut::new(&mut front)];
            let flags = MsgFlags::MSG_DONTWAIT;
            let message = match recvmsg::<()>(
                self.socket.as_raw_fd(),
                &mut parts,
                Some(&mut beside),
                flags,
            ) {
                Ok(message) => message,
                Err(Errno::EAGAIN) => return Ok(doubled),
                // An ICMP error for a packet of ours.
                Err(Errno::EINTR | Errno::ECONNREFUSED) => continue,
                Err(error) => return Err(error.into()),
            };
            let stamps = stamps_in(message.cmsgs()?);
            let length = message.bytes;
            let Some(probe) = Probe::read(&front[..length.min(Probe::BYTES)]) else { continue };
            if (probe.cookie, probe.train) != (expected.cookie, expected.train) {
                continue;
            }
            let Some(known) = seen.get_mut(probe.packet as usize) else { continue };
            if std::mem::replace(known, true) {
                doubled += 1;
                continue;
            }
            stamped.push(Stamped {
                packet: probe.packet,
                hardware_ns: stamps.and_then(|stamps| ns(stamps.hw_raw)),
                system_ns: stamps.and_then(|stamps| ns(stamps.system)).ok_or_else(wall),
            });
        }
    }
}

/// Waits until the kernel timestamps arrivals. It starts only some time after a socket has asked
/// for that (`net_enable_timestamp` in net/core/dev.c). Without loopback, this does not wait.
fn await_stamps(flags: TimestampingFlag) -> io::Result<()> {
    let Ok(socket) = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)) else { return Ok(()) };
    setsockopt(&socket, Timestamping, &flags)?;
    let to = socket.local_addr()?;
    let begun = Instant::now();
    while begun.elapsed() < STAMPS_WITHIN {
        if socket.send_to(&[0], to).is_err() {
            return Ok(());
        }
        let (mut byte, mut beside) = ([0], cmsg_space!(Timestamps));
        let mut parts = [IoSliceMut::new(&mut byte)];
        let flags = MsgFlags::MSG_DONTWAIT;
        match recvmsg::<()>(socket.as_raw_fd(), &mut parts, Some(&mut beside), flags) {
            Ok(message)
                if stamps_in(message.cmsgs()?).is_some_and(|it| ns(it.system).is_some()) =>
            {
                return Ok(());
            }
            Ok(_) | Err(Errno::EAGAIN | Errno::EINTR) => thread::sleep(STAMPS_LOOK),
            Err(error) => return Err(error.into()),
        }
    }
    Err(io::Error::other("the kernel does not stamp packets"))
}

/// The timestamps among the control messages of a packet.
fn stamps_in(mut told: impl Iterator<Item = ControlMessageOwned>) -> Option<Timestamps> {
    told.find_map(|control| match control {
        ControlMessageOwned::ScmTimestampsns(found) => Some(found),
        _ => None,
    })
}

/// A timestamp; none if it is zero.
fn ns(stamp: TimeSpec) -> Option<i64> {
    Some(stamp.tv_sec() * 1_000_000_000 + stamp.tv_nsec()).filter(|ns| *ns != 0)
}

fn nanos_of(clock: ClockId) -> i64 {
    let time = clock_gettime(clock);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

fn monotonic() -> i64 {
    nanos_of(ClockId::Monotonic)
}

fn wall() -> i64 {
    nanos_of(ClockId::Realtime)
}

/// How far the wall clock is ahead of the monotonic one: the narrowest of a few readings.
fn wall_ahead() -> i64 {
    let bracket = || {
        let before = monotonic();
        let wall = wall();
        let after = monotonic();
        (after - before, wall - before)
    };
    (0..5).map(|_| bracket()).min().map_or(0, |(_, ahead)| ahead)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::train::Timing;
    use crate::train::sender::Sender;
    use crate::units::BitRate;

    const PROBE: Probe = Probe { cookie: 7, train: 3, packet: 0 };

    /// A sender that does not give up a train when it is preempted.
    fn patient() -> Sender {
        Sender::new(Timing::System, false)
    }

    fn socket() -> UdpSocket {
        UdpSocket::bind("127.0.0.1:0").unwrap()
    }

    /// Never reports that a train is over, and does not wait for packets that do not come.
    fn nobody_says() -> impl FnMut(Duration) -> bool {
        let begun = Instant::now();
        move |wait| {
            std::thread::sleep(wait);
            begun.elapsed() > Duration::from_secs(20)
        }
    }

    #[test]
    fn a_train_over_loopback_comes_whole_and_in_order() {
        let (sending, receiving) = (socket(), socket());
        let to = receiving.local_addr().unwrap();
        sending.connect(to).unwrap();
        let mut receiver = Receiver::new(receiving).unwrap();
        let train = Train { packets: 60, bytes: 1000, rate: BitRate::mega(40.0) };
        let sent = patient().send(&sending, to, &train, PROBE, &mut || true).unwrap();
        assert_eq!((sent.sent_ns.len(), sent.refused), (60, 0));
        let received = receiver.receive(&train, PROBE, &mut nobody_says()).unwrap();
        let packets: Vec<u32> = received.arrived.iter().map(|it| it.packet).collect();
        assert_eq!(packets, (0..60).collect::<Vec<_>>());
        assert!(received.arrived.is_sorted_by_key(|it| it.at_ns), "stamps go back");
        assert_eq!((received.overflowed, received.doubled), (0, 0));
        // However late the sender was on a busy machine.
        let length = sent.sent_ns[59] - sent.sent_ns[0];
        let span = received.arrived[59].at_ns - received.arrived[0].at_ns;
        assert!(span > length / 2, "{span} ns for {length}");
    }

    #[test]
    fn what_belongs_to_others_is_not_counted() {
        let (sending, receiving) = (socket(), socket());
        let to = receiving.local_addr().unwrap();
        sending.connect(to).unwrap();
        let mut receiver = Receiver::new(receiving).unwrap();
        let send = |probe: Probe| {
            let mut payload = [0; 64];
            probe.write(&mut payload);
            sending.send(&payload).unwrap();
        };
        sending.send(b"garbage").unwrap();
        sending.send(b"").unwrap();
        for probe in [
            Probe { cookie: 8, ..PROBE },
            Probe { train: 4, ..PROBE },
            Probe { packet: 2, ..PROBE },
            Probe { packet: u32::MAX, ..PROBE },
            Probe { packet: 1, ..PROBE },
            Probe { packet: 1, ..PROBE },
            Probe { packet: 0, ..PROBE },
        ] {
            send(probe);
        }
        let train = Train { packets: 2, bytes: 92, rate: BitRate::mega(1.0) };
        let received = receiver.receive(&train, PROBE, &mut nobody_says()).unwrap();
        assert_eq!(received.arrived.iter().map(|it| it.packet).collect::<Vec<_>>(), [1, 0]);
        assert_eq!(received.doubled, 1);
    }

    #[test]
    fn a_socket_that_is_full_says_how_much_it_dropped() {
        let (sending, receiving) = (socket(), socket());
        let to = receiving.local_addr().unwrap();
        sending.connect(to).unwrap();
        let mut receiver = Receiver::new(receiving).unwrap();
        setsockopt(receiver.socket(), RcvBuf, &4096).unwrap();
        let train = Train { packets: 200, bytes: 1000, rate: BitRate::mega(1000.0) };
        patient().send(&sending, to, &train, PROBE, &mut || true).unwrap();
        // The kernel may take some time to queue them.
        let begun = Instant::now();
        let (mut kept, mut dropped) = (0, 0);
        while kept + dropped < 200 && begun.elapsed() < Duration::from_secs(20) {
            kept += receiver.receive(&train, PROBE, &mut |_| true).unwrap().arrived.len() as u32;
            dropped = receiver.dropped().unwrap();
        }
        assert!((1..200).contains(&kept), "it kept {kept}");
        assert_eq!(kept + dropped, 200);
    }
}
