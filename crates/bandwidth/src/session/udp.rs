//! The sockets of probes.

use std::io;
use std::net::{IpAddr, SocketAddr, SocketAddrV6, UdpSocket};

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, ipproto, socket_with, sockopt};

/// A socket at this address that does not fragment packets. Other sockets of the same user may have
/// the same port: a server has one that receives from anyone, and another that is connected to its
/// client.
///
/// # Errors
/// If the address is used by another user or not local.
pub fn at(address: SocketAddr) -> io::Result<UdpSocket> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, Some(ipproto::UDP))?;
    sockopt::set_socket_reuseport(&socket, true)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_mtu_discover(&socket, sockopt::Ipv6PathMtuDiscovery::PROBE)?;
    } else {
        sockopt::set_ip_mtu_discover(&socket, sockopt::Ipv4PathMtuDiscovery::PROBE)?;
    }
    bind(&socket, &address)?;
    Ok(socket.into())
}

/// The longest IP packet of a connected socket's route: that of its interface, or less if this host
/// has learned of a router with a smaller MTU.
///
/// # Errors
/// If it is not connected.
pub fn longest_packet(socket: &UdpSocket) -> io::Result<u16> {
    let bytes = if socket.local_addr()?.is_ipv4() {
        sockopt::ip_mtu(socket)?
    } else {
        sockopt::ipv6_mtu(socket)?
    };
    Ok(bytes.try_into().unwrap_or(u16::MAX))
}

/// An IPv4 address as such, even if reported by an IPv6 socket.
#[must_use]
pub fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        ip @ IpAddr::V4(_) => SocketAddr::new(ip, address.port()),
        IpAddr::V6(_) => address,
    }
}

/// The same address with another port; its interface (scope) is kept.
#[must_use]
pub fn with_port(address: SocketAddr, port: u16) -> SocketAddr {
    match address {
        SocketAddr::V4(it) => SocketAddr::new((*it.ip()).into(), port),
        SocketAddr::V6(it) => SocketAddrV6::new(*it.ip(), port, 0, it.scope_id()).into(),
    }
}
