//! The process at the other end of a socket.

use std::mem::size_of;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{UnixAddr, getpeername, getsockname};
use nix::unistd::Pid;

use super::super::tracee::Tracee;
use super::descriptor_owners::DescriptorOwners;
use super::peers::{inode_in, socket_link};
use super::wake_source::WakeSource;
use crate::proc;

/// The states of a listening and of a connecting socket, as in `/proc/net/tcp`.
const LISTENS: u8 = 0x0a;
const CONNECTS: u8 = 0x02;

/// What may wake a thread of a process that waits for a socket.
pub fn behind(
    (thread, process): (Pid, Pid),
    fd: i32,
    link: &str,
    owners: &mut DescriptorOwners,
) -> WakeSource {
    let borrowed = Tracee(process).borrow_descriptor(fd as u32).ok().filter(|socket| {
        // The thread may have descriptors of its own.
        proc::descriptor_link("self", socket.as_raw_fd()).as_deref() == Some(link)
    });
    let Some(socket) = borrowed else {
        return WakeSource::outside(fd, "a socket that cannot be looked into");
    };
    if option::<i32>(&socket, libc::SOL_SOCKET, libc::SO_ACCEPTCONN) == Ok(1) {
        return WakeSource::anybody(fd, "a socket that listens");
    }
    match option::<i32>(&socket, libc::SOL_SOCKET, libc::SO_DOMAIN) {
        Ok(libc::AF_UNIX) => local(thread, fd, link, &socket, owners),
        Ok(libc::AF_INET | libc::AF_INET6) => {
            let kind = option::<i32>(&socket, libc::SOL_SOCKET, libc::SO_TYPE);
            // No longer needed, and it must not keep a connection open.
            drop(socket);
            let tables = match kind {
                Ok(libc::SOCK_STREAM) => ["tcp", "tcp6"],
                Ok(libc::SOCK_DGRAM) => ["udp", "udp6"],
                _ => return WakeSource::outside(fd, "a raw socket"),
            };
            let rows = tables.map(|table| rows(thread, table));
            of_internet(fd, link, &rows.concat(), owners)
        }
        Ok(libc::AF_NETLINK) => WakeSource::anybody(fd, "a socket of the kernel's"),
        _ => WakeSource::outside(fd, "a socket of a kind of which it is not known who wakes it"),
    }
}

/// The wake source of a local socket.
fn local(
    thread: Pid,
    fd: i32,
    link: &str,
    socket: &OwnedFd,
    owners: &mut DescriptorOwners,
) -> WakeSource {
    match owners.peers(thread).map(|peers| inode_in(link).and_then(|own| peers.of_socket(own))) {
        Some(Some(peer)) if peer > 0 => held(fd, peer, owners),
        Some(None) => alone(fd, socket),
        // It has not been accepted yet, or the kernel does not report its peer.
        _ => match getsockname::<UnixAddr>(socket.as_raw_fd()) {
            Ok(_) if getpeername::<UnixAddr>(socket.as_raw_fd()).is_err() => alone(fd, socket),
            _ => made(fd, socket, owners),
        },
    }
}

/// The wake source of a socket whose peer has this number.
fn held(fd: i32, peer: u64, owners: &mut DescriptorOwners) -> WakeSource {
    let link = socket_link(peer);
    match (owners.outside(&link), owners.inside(&link)) {
        (Some(owner), _) => WakeSource::outside(
            fd,
            format!("a socket whose other end {} holds", proc::described(owner)),
        ),
        (None, Some(_)) => WakeSource::Members,
        (None, None) => {
            WakeSource::outside(fd, "a socket whose other end nobody holds who can be seen")
        }
    }
}

/// The wake source of a socket of which only the creator of the other end is known.
fn made(fd: i32, socket: &OwnedFd, owners: &DescriptorOwners) -> WakeSource {
    match option::<libc::ucred>(socket, libc::SOL_SOCKET, libc::SO_PEERCRED) {
        Ok(peer) if peer.pid > 0 && owners.is_member(Pid::from_raw(peer.pid)) => {
            WakeSource::Members
        }
        Ok(peer) if peer.pid > 0 => {
            let peer = proc::described(Pid::from_raw(peer.pid));
            WakeSource::outside(fd, format!("a socket whose other end {peer} made"))
        }
        // There is a process that this one cannot see.
        _ => WakeSource::outside(fd, "a socket whose other end is in another process namespace"),
    }
}

/// The wake source of an unconnected socket. A client has a name chosen by the kernel, a server a
/// well-known one.
fn alone(fd: i32, socket: &OwnedFd) -> WakeSource {
    match has_name_of_kernels_choice(socket) {
        true => WakeSource::outside(fd, "a socket that whoever was asked may answer to"),
        false => WakeSource::anybody(fd, "a socket that is not connected"),
    }
}

/// What may wake a thread that waits to connect to the listener with this name: a path, or what follows
/// a zero byte.
pub fn listening(thread: Pid, fd: i32, name: &[u8], owners: &mut DescriptorOwners) -> WakeSource {
    const LISTENS: &str = "00010000";
    let shown = match name.split_first() {
        Some((0, name)) => [b"@", name].concat(),
        _ => name.split(|byte| *byte == 0).next().unwrap_or_default().to_vec(),
    };
    let shown = String::from_utf8_lossy(&shown).into_owned();
    let text = proc::read_whole(thread, "net/unix").unwrap_or_default();
    let found = text.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let is_it = words.nth(3)? == LISTENS;
        let inode = words.nth(2)?.parse().ok()?;
        (is_it && line.ends_with(&format!(" {shown}"))).then_some(inode)
    });
    let found = found.map(|inode| held(fd, inode, owners)).reduce(|one, other| one.or(other));
    found.unwrap_or_else(|| WakeSource::outside(fd, format!("who listens at {shown}")))
}

/// Whether the kernel has chosen its name: five hexadecimal digits.
fn has_name_of_kernels_choice(socket: &OwnedFd) -> bool {
    let address = getsockname::<UnixAddr>(socket.as_raw_fd());
    let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let name = address.as_ref().ok().and_then(UnixAddr::as_abstract);
    name.is_some_and(|name| name.len() == 5 && name.iter().all(is_digit))
}

/// The wake source of an internet socket, from the kernel's table of all sockets in the same network.
fn of_internet(fd: i32, link: &str, rows: &[Row], owners: &mut DescriptorOwners) -> WakeSource {
    let Some(own) = rows.iter().find(|row| socket_link(row.inode) == link) else {
        return WakeSource::outside(fd, "a socket whose other end is not known");
    };
    if own.state == LISTENS || own.remote.port() == 0 {
        // As above, by the port.
        let asks = own.state != LISTENS && is_of_kernels_choice(own.local.port());
        let what = format!("a socket at {}", own.local);
        return if asks { WakeSource::outside(fd, what) } else { WakeSource::anybody(fd, what) };
    }
    if own.state == CONNECTS {
        return WakeSource::on_its_way(fd, format!("a connection with {}", own.remote));
    }
    let outside = || WakeSource::outside(fd, format!("a connection with {}", own.remote));
    // A connection that has not been accepted yet belongs to the listener; a receiver of datagrams may
    // not be connected.
    let is_peer = |row: &&Row| (row.local, row.remote) == (own.remote, own.local);
    let takes_calls = |row: &&Row| {
        row.local.port() == own.remote.port()
            && (row.local.ip() == own.remote.ip() || row.local.ip().is_unspecified())
            && row.remote.port() == 0
    };
    let peers = [rows.iter().find(is_peer), rows.iter().find(takes_calls)];
    let Some(peer) = peers.into_iter().flatten().find(|row| row.inode != 0) else {
        return outside();
    };
    let theirs = socket_link(peer.inode);
    if owners.outside(&theirs).is_some() {
        return outside();
    }
    match owners.inside(&theirs) {
        None => outside(),
        // The kernel has yet to send it, with timers of its own.
        Some(owner) if own.unread == 0 && has_to_send(owner) => {
            WakeSource::on_its_way(fd, format!("what {} sends", own.remote))
        }
        Some(_) => WakeSource::Members,
    }
}

/// Whether it is a port that the kernel assigns when none is requested.
fn is_of_kernels_choice(port: u16) -> bool {
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range");
    let text = text.unwrap_or_default();
    let mut ends = text.split_whitespace().filter_map(|word| word.parse::<u16>().ok());
    matches!((ends.next(), ends.next()), (Some(first), Some(last)) if (first..=last).contains(&port))
}

/// Whether the kernel has yet to send data that was written to a connection.
fn has_to_send((process, fd): (Pid, i32)) -> bool {
    Tracee(process)
        .borrow_descriptor(fd as u32)
        .and_then(|socket| option::<TcpInfo>(&socket, libc::IPPROTO_TCP, libc::TCP_INFO))
        .is_ok_and(|info| info.not_sent > 0)
}

/// The beginning of `struct tcp_info` (include/uapi/linux/tcp.h).
#[derive(Clone, Copy)]
#[repr(C)]
struct TcpInfo {
    /// Up to `tcpi_segs_in`.
    before: [u8; 144],
    not_sent: u32,
}

/// A socket option, of a type for which any bytes are a valid value.
fn option<T: Copy>(socket: &OwnedFd, level: i32, name: i32) -> nix::Result<T> {
    // SAFETY: all-zero bytes are a value of each type above.
    let mut value: T = unsafe { std::mem::zeroed() };
    let mut length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the pointers are to values of ours, of that length.
    let got = unsafe {
        libc::getsockopt(socket.as_raw_fd(), level, name, (&raw mut value).cast(), &raw mut length)
    };
    Errno::result(got)?;
    match length as usize == size_of::<T>() {
        true => Ok(value),
        false => Err(Errno::EOPNOTSUPP),
    }
}

/// A line of `/proc/net/tcp` or a similar file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Row {
    local: SocketAddr,
    remote: SocketAddr,
    state: u8,
    /// The number of bytes waiting to be read.
    unread: u64,
    inode: u64,
}

/// The sockets in the network of a process.
fn rows(process: Pid, table: &str) -> Vec<Row> {
    let text = proc::read_whole(process, &format!("net/{table}")).unwrap_or_default();
    text.lines().filter_map(row).collect()
}

fn row(line: &str) -> Option<Row> {
    let mut words = line.split_whitespace().skip(1);
    let [local, remote] = [address(words.next()?)?, address(words.next()?)?];
    let state = u8::from_str_radix(words.next()?, 16).ok()?;
    let (_, unread) = words.next()?.split_once(':')?;
    let unread = u64::from_str_radix(unread, 16).ok()?;
    // Skips the timer, the retransmissions, the user and the timeout.
    let inode = words.nth(4)?.parse().ok()?;
    Some(Row { local, remote, state, unread, inode })
}

/// Parses words of 32 bits, each as it lies in memory, and a port.
fn address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let words = ip.as_bytes().chunks(8).map(|word| {
        let word = u32::from_str_radix(std::str::from_utf8(word).ok()?, 16).ok()?;
        Some(word.to_ne_bytes())
    });
    let bytes = words.collect::<Option<Vec<_>>>()?.concat();
    let ip = match bytes.len() {
        4 => IpAddr::from(Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?)),
        16 => IpAddr::from(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?)).to_canonical(),
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn rows_of_the_kernel_are_read() {
        let line = "   0: 0100007F:1F90 0100007F:D431 01 00000000:0000000A 00:00000000 00000000  \
                    1000        0 12345 1 0000000000000000 20 4 30 10 -1";
        let row = row(line).unwrap();
        assert_eq!(row.local, "127.0.0.1:8080".parse().unwrap());
        assert_eq!(row.remote, "127.0.0.1:54321".parse().unwrap());
        assert_eq!((row.state, row.unread, row.inode), (1, 10, 12345));
        let mapped = address("0000000000000000FFFF00000100007F:0050").unwrap();
        assert_eq!(mapped, "127.0.0.1:80".parse().unwrap());
        assert_eq!(address("00000000000000000000000001000000:0050"), "[::1]:80".parse().ok());
    }

    #[test]
    fn both_ends_of_a_connection_are_found() {
        let me = Pid::this();
        let link = |fd| proc::descriptor_link("self", fd).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        // The descriptors of this process itself are not searched, so that both seem to be held by no
        // process.
        let mut owners = DescriptorOwners::default();
        let found = behind((me, me), client.as_raw_fd(), &link(client.as_raw_fd()), &mut owners);
        let peer = server.local_addr().unwrap();
        assert_eq!(
            found,
            WakeSource::outside(client.as_raw_fd(), format!("a connection with {peer}"))
        );
        let found =
            behind((me, me), listener.as_raw_fd(), &link(listener.as_raw_fd()), &mut owners);
        assert_eq!(found, WakeSource::anybody(listener.as_raw_fd(), "a socket that listens"));
        let (one, other) = std::os::unix::net::UnixStream::pair().unwrap();
        let mut child = std::process::Command::new("sleep");
        let mut child = child.arg("60").stdin(OwnedFd::from(other)).spawn().unwrap();
        let found = |members: HashSet<Pid>| {
            let mut owners = DescriptorOwners::default();
            owners.set_members(members);
            behind((me, me), one.as_raw_fd(), &link(one.as_raw_fd()), &mut owners)
        };
        assert!(matches!(found(HashSet::new()), WakeSource::Outside(_)));
        assert_eq!(found([Pid::from_raw(child.id() as i32)].into()), WakeSource::Members);
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
