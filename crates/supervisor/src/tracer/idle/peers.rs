//! The local sockets of a network namespace, and the peer of each, as the kernel reports them through
//! `NETLINK_SOCK_DIAG` (`linux/unix_diag.h`).

use std::collections::HashMap;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::thread;

use nix::errno::Errno;
use nix::sched::{CloneFlags, setns};
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket,
};
use nix::unistd::Pid;

use crate::proc;

/// A network namespace.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Network(PathBuf);

impl Network {
    /// The namespace of a thread.
    pub fn of(thread: Pid) -> Option<Self> {
        proc::namespace(thread, "net").ok().map(Self)
    }
}

/// The number of the peer of each connected local socket: zero if it has not been accepted yet.
#[derive(Debug, Default)]
pub struct Peers(HashMap<u64, u64>);

impl Peers {
    /// All sockets in the network of a thread; `None` if the kernel does not report them.
    pub fn of(thread: Pid) -> Option<Self> {
        if Network::of(thread) == Network::of(Pid::this()) {
            return Self::here().ok();
        }
        let network = File::open(format!("/proc/{thread}/ns/net")).ok()?;
        // In a thread of its own, which enters the namespace and does not come back.
        let there = move || {
            setns(&network, CloneFlags::CLONE_NEWNET)?;
            Self::here()
        };
        thread::spawn(there).join().ok()?.ok()
    }

    /// The peer of a socket.
    pub fn of_socket(&self, inode: u64) -> Option<u64> {
        self.0.get(&inode).copied()
    }

    /// All sockets in the network of this thread.
    fn here() -> nix::Result<Self> {
        let socket = socket(
            AddressFamily::Netlink,
            SockType::Datagram,
            SockFlag::SOCK_CLOEXEC,
            SockProtocol::NetlinkSockDiag,
        )?;
        send(socket.as_raw_fd(), &request(), MsgFlags::empty())?;
        let mut peers = HashMap::new();
        let mut buffer = vec![0; 1 << 16];
        loop {
            let length = recv(socket.as_raw_fd(), &mut buffer, MsgFlags::empty())?;
            for message in messages(&buffer[..length]) {
                match message {
                    Message::Socket { inode, peer: Some(peer) } => {
                        peers.insert(inode, peer);
                    }
                    Message::Socket { .. } => {}
                    Message::End => return Ok(Self(peers)),
                    Message::Error => return Err(Errno::EIO),
                }
            }
        }
    }
}

/// The number in the `/proc/PID/fd` link of a socket.
pub fn inode_in(link: &str) -> Option<u64> {
    link.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

/// The `/proc/PID/fd` link of the socket with a number.
pub fn socket_link(inode: u64) -> String {
    format!("socket:[{inode}]")
}

const HEADER: usize = 16;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const UDIAG_SHOW_PEER: u32 = 4;
const UNIX_DIAG_PEER: u16 = 2;
/// The length of `struct unix_diag_msg`, and the offset of the socket's number in it.
const SOCKET: usize = 16;
const INODE: usize = 4;

/// `struct nlmsghdr` and `struct unix_diag_req`: requests all sockets, with their peers.
fn request() -> Vec<u8> {
    let mut request = Vec::new();
    let mut word = |word: u32| request.extend(word.to_ne_bytes());
    let flags = (libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u32;
    word(HEADER as u32 + 24);
    word(u32::from(SOCK_DIAG_BY_FAMILY) | flags << 16);
    word(1);
    word(0);
    word(libc::AF_UNIX as u32);
    word(u32::MAX);
    word(0);
    word(UDIAG_SHOW_PEER);
    word(0);
    word(0);
    request
}

/// A part of the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Message {
    Socket { inode: u64, peer: Option<u64> },
    End,
    Error,
}

/// The messages in received bytes.
fn messages(bytes: &[u8]) -> impl Iterator<Item = Message> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let length = u32_at(rest, 0)? as usize;
        let message = rest.get(..length.max(HEADER))?;
        rest = rest.get(length.max(HEADER).next_multiple_of(4)..).unwrap_or_default();
        let kind = u16_at(message, 4)?;
        Some(match i32::from(kind) {
            libc::NLMSG_DONE => Message::End,
            libc::NLMSG_ERROR => Message::Error,
            _ => {
                let socket = &message[HEADER..];
                let attributes = socket.get(SOCKET..).unwrap_or_default();
                Message::Socket { inode: u32_at(socket, INODE)?.into(), peer: peer(attributes) }
            }
        })
    })
}

/// The peer, among attributes of `struct nlattr`.
fn peer(mut attributes: &[u8]) -> Option<u64> {
    const NLATTR: usize = 4;
    loop {
        let length = usize::from(u16_at(attributes, 0)?).max(NLATTR);
        if u16_at(attributes, 2)? == UNIX_DIAG_PEER {
            return u32_at(attributes, NLATTR).map(u64::from);
        }
        attributes = attributes.get(length.next_multiple_of(4)..)?;
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2)?.try_into().ok().map(u16::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;
    use std::os::unix::net::{UnixDatagram, UnixStream};

    fn inode(socket: &impl AsRawFd) -> u64 {
        proc::descriptor_file("self", socket.as_raw_fd()).unwrap().ino()
    }

    #[test]
    fn both_ends_know_each_other() {
        let (one, other) = UnixStream::pair().unwrap();
        let (first, second) = UnixDatagram::pair().unwrap();
        let alone = UnixDatagram::unbound().unwrap();
        let peers = Peers::of(Pid::this()).unwrap();
        assert_eq!(peers.of_socket(inode(&one)), Some(inode(&other)));
        assert_eq!(peers.of_socket(inode(&other)), Some(inode(&one)));
        assert_eq!(peers.of_socket(inode(&first)), Some(inode(&second)));
        assert_eq!(peers.of_socket(inode(&alone)), None);
    }

    #[test]
    fn an_answer_in_pieces_is_no_end() {
        assert_eq!(messages(&[]).next(), None);
        assert_eq!(messages(&[255, 0, 0, 0, 20, 0]).next(), None);
        assert_eq!(peer(&[2, 0, 9, 0, 8, 0, 2, 0, 7, 0, 0, 0]), Some(7));
    }
}
