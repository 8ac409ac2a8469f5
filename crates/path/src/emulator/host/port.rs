//! An open end, which sends and receives frames.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::fd::OwnedFd;

use libc::c_int;
use rustix::io::Errno;
use rustix::net::netdevice::name_to_index;
use rustix::net::sockopt::{
    set_socket_recv_buffer_size_force, set_socket_send_buffer_size_force, socket_error,
};
use rustix::net::{RecvFlags, SendFlags, recv, send};

use super::calls;
use super::error::{Error, What};
use super::frame::{TAG, put_tag};
use super::namespace;
use super::ring::{Ring, Slot, Taken};
use super::{End, Offloads};

/// The kernel's buffer for sent packets under way: it is freed when the receiving program has read
/// them, which the path cannot wait for.
const SEND_BUFFER: usize = 256 << 20;
/// Room for super-packets, which do not fit into the ring: some 250 of 64 KiB.
const RECEIVE_BUFFER: usize = 16 << 20;
/// The size from which packets that do not fit into the ring are queued as well: any.
const QUEUED_FROM: c_int = 1;
/// The longest super-packet: GSO_MAX_SIZE of the kernel (include/linux/netdevice.h) is 8 times
/// 65,535.
const LARGEST: usize = 8 << 16;

/// The maximum memory for packets under way: 16,384 of 9,000 bytes, or 131,072 of 1,500.
const RING_MOST: usize = 256 << 20;
/// The minimum number of slots: the arrivals of some 10 ms, at most.
const SLOTS_LEAST: usize = 4096;

/// An open end.
#[derive(Debug)]
pub struct Port {
    end: End,
    socket: OwnedFd,
    ring: Ring,
    statistics: File,
    offloads: Offloads,
    /// The buffer for super-packets, and the length of the last one.
    large: Box<[u8]>,
    large_len: usize,
    mtu: u32,
}

/// A received item.
#[derive(Debug)]
pub enum Received {
    /// A packet, in the ring.
    Packet(Slot),
    /// Several packets in one, in [`Port::large`].
    Large,
    /// One that was too long for any buffer.
    Lost,
}

/// The result of sending a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// The kernel accepted it.
    Sent,
    /// The kernel has no room for it.
    Refused,
    /// It is too long for the interface.
    TooLong,
}

impl Port {
    /// Opens an end, with room for this many bytes under way.
    ///
    /// # Errors
    /// If it does not exist or cannot be used.
    pub fn open(end: &End, under_way: u64) -> Result<Self, Error> {
        let (socket, statistics) = namespace::open(end)?;
        let spare = statistics.try_clone().map_err(|error| What::Interface.error(end, error))?;
        let (index, mtu) = look(end, &socket, spare)?;
        let fail = |error: io::Error| What::Socket.error(end, error);
        let on: c_int = 1;
        for (option, value) in [
            // Before the ring: it determines the layout of the ring.
            (libc::PACKET_VNET_HDR, on),
            (libc::PACKET_COPY_THRESH, QUEUED_FROM),
            (libc::PACKET_IGNORE_OUTGOING, on),
            (libc::PACKET_QDISC_BYPASS, on),
        ] {
            calls::set_option(&socket, option, &value).map_err(fail)?;
        }
        for set in [
            set_socket_send_buffer_size_force(&socket, SEND_BUFFER),
            set_socket_recv_buffer_size_force(&socket, RECEIVE_BUFFER),
        ] {
            set.map_err(|error| What::Buffers.error(end, error))?;
        }
        let ring = Ring::new(&socket, mtu, slots(mtu, under_way))
            .map_err(|error| What::Ring.error(end, error))?;
        let offloads = Offloads::switch_off(&socket, end)?;
        calls::be_promiscuous(&socket, index).map_err(fail)?;
        calls::bind(&socket, index).map_err(fail)?;
        let large = vec![0; LARGEST + TAG].into_boxed_slice();
        Ok(Self { end: end.clone(), socket, ring, statistics, offloads, large, large_len: 0, mtu })
    }

    /// The next received item, and its CLOCK_REALTIME arrival time in nanoseconds.
    pub fn receive(&mut self) -> Option<(Received, i64)> {
        let Taken { mut slot, stamp_ns, is_queued, is_whole, vlan } = self.ring.take()?;
        if is_whole {
            if let Some(tag) = vlan {
                self.ring.put_tag(&mut slot, tag);
            }
            return Some((Received::Packet(slot), stamp_ns));
        }
        self.ring.give_back(slot);
        let received = if is_queued { self.receive_large(vlan) } else { Received::Lost };
        Some((received, stamp_ns))
    }

    fn receive_large(&mut self, vlan: Option<(u16, u16)>) -> Received {
        match recv(&self.socket, &mut self.large[..LARGEST], RecvFlags::DONTWAIT | RecvFlags::TRUNC)
        {
            Ok((_, len)) if len <= LARGEST => {
                self.large_len = len;
                if let Some(tag) = vlan {
                    self.large_len += TAG;
                    put_tag(&mut self.large[..self.large_len], tag);
                }
                Received::Large
            }
            _ => Received::Lost,
        }
    }

    /// The last received super-packet, with its offload header.
    #[must_use]
    pub fn large(&self) -> &[u8] {
        &self.large[..self.large_len]
    }

    /// A packet, with its offload header.
    #[must_use]
    pub fn bytes(&self, slot: &Slot) -> &[u8] {
        self.ring.bytes(slot)
    }

    /// Releases the slot of a packet.
    pub fn give_back(&mut self, slot: Slot) {
        self.ring.give_back(slot);
    }

    /// Sends a packet, which is preceded by its offload header.
    ///
    /// # Errors
    /// If the interface has changed.
    pub fn send(&self, bytes: &[u8]) -> Result<Sent, Error> {
        match send(&self.socket, bytes, SendFlags::DONTWAIT) {
            Ok(_) => Ok(Sent::Sent),
            Err(Errno::MSGSIZE) => Ok(Sent::TooLong),
            Err(error @ (Errno::NETDOWN | Errno::NXIO | Errno::NODEV)) => Err(self.gone(error)),
            // No memory, no room (the device's queue is full), or an invalid header.
            Err(_) => Ok(Sent::Refused),
        }
    }

    /// The number of packets dropped for lack of room since the last call.
    ///
    /// # Errors
    /// If the interface has gone.
    pub fn missed(&self) -> Result<u64, Error> {
        if let Ok(Err(error)) = socket_error(&self.socket) {
            return Err(self.gone(error));
        }
        let missed = calls::dropped(&self.socket);
        missed.map(u64::from).map_err(|error| What::Ring.error(&self.end, error))
    }

    /// The number of packets that the interface has dropped on transmission since it was created;
    /// none if it has gone.
    pub fn dropped_by_interface(&mut self) -> Option<u64> {
        let text = text_of(&mut self.statistics).ok()?;
        dropped_of(&text, &self.end.interface)
    }

    /// The longest IP packet that it accepts.
    #[must_use]
    pub fn mtu(&self) -> u32 {
        self.mtu
    }

    /// The end.
    #[must_use]
    pub fn end(&self) -> &End {
        &self.end
    }

    /// The disabled offloads.
    #[must_use]
    pub fn offloads(&self) -> &Offloads {
        &self.offloads
    }

    fn gone(&self, error: Errno) -> Error {
        Error::Gone { end: self.end.clone(), error: error.into() }
    }
}

/// The number of packets to have room for: twice as many as there are of full length.
fn slots(mtu: u32, under_way: u64) -> usize {
    let wanted = 2 * under_way / u64::from(mtu.max(1));
    let most = RING_MOST / Ring::slot_size(mtu);
    usize::try_from(wanted).unwrap_or(most).clamp(SLOTS_LEAST.min(most), most)
}

/// The interface's index and MTU, if frames can be sent through it.
fn look(end: &End, socket: &OwnedFd, mut statistics: File) -> Result<(u32, u32), Error> {
    let Ok(index) = name_to_index(socket, &end.interface) else {
        let text = text_of(&mut statistics).unwrap_or_default();
        let others: Vec<&str> = interfaces(&text).map(|(name, _)| name).collect();
        return Err(Error::NoInterface { end: end.clone(), others: others.join(", ") });
    };
    let (mtu, flags, hardware) = calls::interface(socket, &end.interface)
        .map_err(|error| What::Interface.error(end, error))?;
    if hardware != libc::ARPHRD_ETHER {
        return Err(Error::NotEthernet { end: end.clone() });
    }
    if flags & libc::IFF_UP == 0 {
        return Err(Error::Down { end: end.clone() });
    }
    Ok((index, mtu))
}

fn text_of(file: &mut File) -> io::Result<String> {
    file.rewind()?;
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    Ok(text)
}

/// The interface lines of `/proc/net/dev`: the name and the numbers.
fn interfaces(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.lines().filter_map(|line| line.split_once(':')).map(|(name, it)| (name.trim(), it))
}

/// Its transmit drops: the twelfth number.
fn dropped_of(text: &str, interface: &str) -> Option<u64> {
    const DROPPED: usize = 11;
    let (_, numbers) = interfaces(text).find(|(name, _)| *name == interface)?;
    numbers.split_whitespace().nth(DROPPED)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_statistics_of_interfaces_are_read() {
        let text = "Inter-|   Receive        |  Transmit\n face |bytes packets\n\
                    lo: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n\
                    veth0: 0 0 0 0 0 0 0 0 0 0 0 77 0 0 0 0\n";
        let names: Vec<&str> = interfaces(text).map(|(name, _)| name).collect();
        assert_eq!(names, ["lo", "veth0"]);
        assert_eq!(dropped_of(text, "lo"), Some(12));
        assert_eq!(dropped_of(text, "veth0"), Some(77));
        assert_eq!(dropped_of(text, "eth0"), None);
    }
}
