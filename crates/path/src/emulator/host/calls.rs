//! System calls on packet sockets and interfaces that no crate wraps.

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd};

use libc::{c_int, c_void, ifreq, packet_mreq, sockaddr_ll, socklen_t, tpacket_stats};

use super::end::LONGEST_NAME;

/// Sets an option of a packet socket (packet(7)).
pub fn set_option<T: Copy>(socket: impl AsFd, option: c_int, value: &T) -> io::Result<()> {
    let socket = socket.as_fd().as_raw_fd();
    let size = size_of::<T>() as socklen_t;
    // SAFETY: the kernel reads this many bytes of the value.
    let result = unsafe {
        libc::setsockopt(socket, libc::SOL_PACKET, option, (&raw const *value).cast(), size)
    };
    done(result)
}

/// The number of packets for which a packet socket had no room since the last call.
pub fn dropped(socket: impl AsFd) -> io::Result<u32> {
    let mut statistics = tpacket_stats { tp_packets: 0, tp_drops: 0 };
    let mut size = size_of::<tpacket_stats>() as socklen_t;
    let socket = socket.as_fd().as_raw_fd();
    let value = (&raw mut statistics).cast::<c_void>();
    // SAFETY: the kernel writes at most the size of the buffer.
    let result = unsafe {
        libc::getsockopt(socket, libc::SOL_PACKET, libc::PACKET_STATISTICS, value, &raw mut size)
    };
    done(result).map(|()| statistics.tp_drops)
}

/// Makes a packet socket receive everything that arrives at an interface.
pub fn bind(socket: impl AsFd, interface: u32) -> io::Result<()> {
    // SAFETY: it is a structure of numbers, which may all be zero.
    let mut address: sockaddr_ll = unsafe { zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = interface as c_int;
    let socket = socket.as_fd().as_raw_fd();
    let size = size_of::<sockaddr_ll>() as socklen_t;
    // SAFETY: the kernel reads this many bytes of the address.
    done(unsafe { libc::bind(socket, (&raw const address).cast(), size) })
}

/// Makes an interface accept packets for others, for as long as the socket exists.
pub fn be_promiscuous(socket: impl AsFd, interface: u32) -> io::Result<()> {
    let wanted = packet_mreq {
        mr_ifindex: interface as c_int,
        mr_type: libc::PACKET_MR_PROMISC as u16,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    set_option(socket, libc::PACKET_ADD_MEMBERSHIP, &wanted)
}

/// SIOCGIFMTU, SIOCGIFFLAGS and SIOCGIFHWADDR: the MTU, the flags and the hardware type.
pub fn interface(socket: impl AsFd, name: &str) -> io::Result<(u32, c_int, u16)> {
    let mut request = named(name)?;
    ask(&socket, libc::SIOCGIFMTU, &mut request)?;
    // SAFETY: the kernel has written this member.
    let mtu = unsafe { request.ifr_ifru.ifru_mtu };
    ask(&socket, libc::SIOCGIFFLAGS, &mut request)?;
    // SAFETY: the kernel has written this member.
    let flags = unsafe { request.ifr_ifru.ifru_flags };
    ask(&socket, libc::SIOCGIFHWADDR, &mut request)?;
    // SAFETY: the kernel has written this member.
    let hardware = unsafe { request.ifr_ifru.ifru_hwaddr.sa_family };
    Ok((mtu as u32, flags.into(), hardware))
}

/// `struct ethtool_value` of linux/ethtool.h.
#[repr(C)]
struct EthtoolValue {
    command: u32,
    data: u32,
}

/// Gets or sets a number with SIOCETHTOOL; returns the kernel's value.
pub fn ethtool(socket: impl AsFd, name: &str, command: u32, data: u32) -> io::Result<u32> {
    let mut value = EthtoolValue { command, data };
    let mut request = named(name)?;
    request.ifr_ifru.ifru_data = (&raw mut value).cast();
    ask(&socket, libc::SIOCETHTOOL, &mut request)?;
    Ok(value.data)
}

fn named(name: &str) -> io::Result<ifreq> {
    if name.len() >= LONGEST_NAME {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: it is a structure of numbers and pointers, which may all be zero.
    let mut request: ifreq = unsafe { zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from.cast_signed();
    }
    Ok(request)
}

fn ask(socket: &impl AsFd, what: libc::c_ulong, request: &mut ifreq) -> io::Result<()> {
    let socket = socket.as_fd().as_raw_fd();
    // SAFETY: these requests read and write the `ifreq`, and SIOCETHTOOL with the commands that this
    // file gives it an `EthtoolValue` that outlives the call.
    done(unsafe { libc::ioctl(socket, what as _, &raw mut *request) })
}

fn done(result: c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
