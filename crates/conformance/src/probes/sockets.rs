//! Socket timeouts.

use std::ffi::c_void;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

use crate::bench::{Answer, Bench, Ends, Failure, Needed, wrong};
use crate::interface::Interface;
use crate::sys::{call, checked, descriptor, micros, timeval};
use crate::timelines::{NS_PER_MS, NS_PER_S, Under};

use super::host_wait;

/// The options' older numbers, and the newer ones, which take 64-bit seconds on every architecture.
const RECEIVE: [i32; 2] = [libc::SO_RCVTIMEO, 66];
const SEND: [i32; 2] = [libc::SO_SNDTIMEO, 67];
const ROW: &[&str] = &["setsockopt"];
const PEER: &str = "TCP_USER_TIMEOUT, keepalive, protocol timers";

/// The interfaces to test.
pub const INTERFACES: &[Interface] = &[
    Interface::probe("SO_RCVTIMEO", receive::<0>).of(ROW),
    Interface::probe("SO_RCVTIMEO_NEW", receive::<1>).of(ROW),
    Interface::probe("SO_SNDTIMEO", send::<0>).of(ROW),
    Interface::probe("SO_SNDTIMEO_NEW", send::<1>).of(ROW),
    Interface::probe("getsockopt, SO_RCVTIMEO", told_receive).of(&["getsockopt"]),
    Interface::probe("getsockopt, SO_SNDTIMEO", told_send).of(&["getsockopt"]),
    Interface::probe("SO_LINGER", linger).host(super::HOST_TIMEOUTS).under(Under::FAST),
    Interface::probe("TCP_USER_TIMEOUT", user_timeout).host(PEER).under(Under::FAST),
    Interface::untested("SO_BUSY_POLL", "SO_BUSY_POLL", "no test: needs a network card to poll"),
    Interface::untested("SO_TXTIME", "SO_TXTIME", "no test: needs a queueing discipline for it"),
];

/// Sets a socket option.
fn set<T>(socket: &impl AsRawFd, level: i32, option: i32, value: &T) -> io::Result<()> {
    let (fd, size) = (socket.as_raw_fd(), size_of::<T>());
    // SAFETY: the kernel reads as many bytes as the value has.
    unsafe { call!(libc::SYS_setsockopt, fd, level, option, value, size) }?;
    Ok(())
}

/// The timeout of a socket as reported by getsockopt.
fn get(socket: &impl AsRawFd, option: i32) -> io::Result<i64> {
    let mut time = timeval(0);
    let mut size = size_of_val(&time) as u32;
    let (fd, level) = (socket.as_raw_fd(), libc::SOL_SOCKET);
    // SAFETY: the kernel writes at most `size` bytes.
    unsafe { call!(libc::SYS_getsockopt, fd, level, option, &mut time, &mut size) }?;
    Ok(micros(time))
}

fn receive<const FORM: usize>(bench: &Bench) -> Answer {
    let (socket, _peer) = UnixStream::pair()?;
    set(&socket, libc::SOL_SOCKET, RECEIVE[FORM], &timeval(bench.ask()))?;
    wait_to_read(bench, &socket)
}

fn send<const FORM: usize>(bench: &Bench) -> Answer {
    let (socket, _peer) = UnixStream::pair()?;
    fill(&socket)?;
    set(&socket, libc::SOL_SOCKET, SEND[FORM], &timeval(bench.ask()))?;
    wait_to_write(bench, &socket)
}

/// The timeout reported by getsockopt must be the one set, and the one that then elapses.
fn told_receive(bench: &Bench) -> Answer {
    let (socket, _peer) = UnixStream::pair()?;
    set(&socket, libc::SOL_SOCKET, RECEIVE[0], &timeval(bench.ask()))?;
    let told = get(&socket, RECEIVE[0])?;
    if far_from(told, bench.ask()) { refuted(told) } else { wait_to_read(bench, &socket) }
}

fn told_send(bench: &Bench) -> Answer {
    let (socket, _peer) = UnixStream::pair()?;
    fill(&socket)?;
    set(&socket, libc::SOL_SOCKET, SEND[0], &timeval(bench.ask()))?;
    let told = get(&socket, SEND[0])?;
    if far_from(told, bench.ask()) { refuted(told) } else { wait_to_write(bench, &socket) }
}

/// The kernel keeps timeouts in ticks and so rounds them, but not by this much.
fn far_from(told: i64, asked: i64) -> bool {
    !(asked / 2..2 * asked).contains(&told)
}

fn refuted(told: i64) -> Answer {
    Ok(wrong(format!("a timeout is said to be {told} ns")))
}

fn wait_to_read(bench: &Bench, socket: &UnixStream) -> Answer {
    let mut byte = 0u8;
    bench.relative(Ends::By(libc::EAGAIN), |_| {
        // SAFETY: the kernel writes one byte.
        unsafe { call!(libc::SYS_read, socket.as_raw_fd(), &mut byte, 1) }
    })
}

fn wait_to_write(bench: &Bench, socket: &UnixStream) -> Answer {
    let bytes = [0u8; 4096];
    bench.relative(Ends::By(libc::EAGAIN), |_| {
        // SAFETY: the kernel reads these bytes.
        unsafe { call!(libc::SYS_write, socket.as_raw_fd(), &bytes, bytes.len()) }
    })
}

/// Writes until the socket is full.
fn fill(socket: &impl AsRawFd) -> io::Result<()> {
    let bytes = [0u8; 4096];
    let (fd, flags) = (socket.as_raw_fd(), libc::MSG_DONTWAIT);
    loop {
        let at = bytes.as_ptr().cast::<c_void>();
        // SAFETY: the kernel reads these bytes.
        if unsafe { libc::send(fd, at, bytes.len(), flags) } == -1 {
            let error = io::Error::last_os_error();
            return if error.kind() == io::ErrorKind::WouldBlock { Ok(()) } else { Err(error) };
        }
    }
}

/// close() of a connection whose peer does not read.
fn linger(bench: &Bench) -> Answer {
    let listener = TcpListener::bind("127.0.0.1:0").needed("the loopback device")?;
    let socket = TcpStream::connect(listener.local_addr()?)?;
    let _peer = listener.accept()?;
    fill(&socket)?;
    host_wait(bench, NS_PER_S, Ends::With(0), |ns| {
        let linger = libc::linger { l_onoff: 1, l_linger: (ns / NS_PER_S) as i32 };
        set(&socket, libc::SOL_SOCKET, libc::SO_LINGER, &linger)?;
        drop(socket);
        Ok(0)
    })
}

/// A connection to a listener that does not answer, since its backlog is full.
fn user_timeout(bench: &Bench) -> Answer {
    // SAFETY: only numbers are passed.
    let listener =
        descriptor(unsafe { call!(libc::SYS_socket, libc::AF_INET, libc::SOCK_STREAM, 0) })?;
    let address = libc::sockaddr_in {
        sin_family: libc::AF_INET as u16,
        sin_port: 0,
        sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes([127, 0, 0, 1]) },
        sin_zero: [0; 8],
    };
    let size = size_of_val(&address) as u32;
    let at = (&raw const address).cast();
    // SAFETY: the kernel reads one address of this size.
    checked(unsafe { libc::bind(listener.as_raw_fd(), at, size) }).needed("the loopback device")?;
    // SAFETY: only numbers are passed.
    checked(unsafe { libc::listen(listener.as_raw_fd(), 0) })?;
    let listener = TcpListener::from(listener);
    let SocketAddr::V4(to) = listener.local_addr()? else {
        return Err(Failure::Broken("an IPv4 listener has another address".into()));
    };
    let address = libc::sockaddr_in { sin_port: to.port().to_be(), ..address };
    let _first = TcpStream::connect(to)?;
    // SAFETY: only numbers are passed.
    let second: OwnedFd =
        descriptor(unsafe { call!(libc::SYS_socket, libc::AF_INET, libc::SOCK_STREAM, 0) })?;
    host_wait(bench, NS_PER_S, Ends::By(libc::ETIMEDOUT), |ns| {
        let ms = (ns / NS_PER_MS) as u32;
        set(&second, libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, &ms)?;
        // SAFETY: the kernel reads one address of this size.
        unsafe { call!(libc::SYS_connect, second.as_raw_fd(), &address, size) }
    })
}
