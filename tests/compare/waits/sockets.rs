//! Blocking calls on sockets that SO_RCVTIMEO and SO_SNDTIMEO bound.

use super::Wait;
use crate::site::{self, Args};
use crate::span::Time;
use crate::world::{Holds, World, may, must};

const SETSOCKOPT: u32 = 54;
const READ: u32 = 0;
const WRITE: u32 = 1;
const ACCEPT4: u32 = 288;
const SENDTO: u32 = 44;
const RECVFROM: u32 = 45;
const SENDMSG: u32 = 46;
const RECVMSG: u32 = 47;
const FULL: usize = 1 << 16;

pub const WAITS: &[Wait] = &[
    bounded("so_rcvtimeo.read", READ, |world, at_once| receive(world, at_once, false))
        .pointers(&[1]),
    bounded("so_rcvtimeo.recvfrom", RECVFROM, |world, at_once| receive(world, at_once, false))
        .pointers(&[1]),
    bounded("so_rcvtimeo.recvmsg", RECVMSG, |world, at_once| receive(world, at_once, true))
        .pointers(&[1]),
    bounded("so_rcvtimeo.accept4", ACCEPT4, accept),
    bounded("so_sndtimeo.write", WRITE, |world, at_once| send(world, at_once, false)),
    bounded("so_sndtimeo.sendto", SENDTO, |world, at_once| send(world, at_once, false)),
    bounded("so_sndtimeo.sendmsg", SENDMSG, |world, at_once| send(world, at_once, true)),
];

const fn bounded(name: &'static str, nr: u32, prepare: fn(&mut World, bool) -> Args) -> Wait {
    Wait { nr, ..Wait::new(name, SETSOCKOPT, prepare) }
}

/// Bounds all calls on a socket.
pub fn bound(world: &mut World, args: &Args, time: Time) {
    world.asks_in_ticks(time);
    let words = match time {
        Time::Null | Time::Zero => [0; 2],
        // What the kernel takes for ever.
        Time::Huge => [i64::MAX / 2_000_000, 0],
        _ => time.words(world.scale, 0, 1_000_000),
    };
    for option in [libc::SO_RCVTIMEO, libc::SO_SNDTIMEO] {
        let option =
            [args[0], libc::SOL_SOCKET as u64, option as u64, words.as_ptr() as u64, 16, 0];
        let result = site::call(SETSOCKOPT, &option);
        assert!(result == 0, "a timeout of {words:?} is refused: {result}");
    }
}

/// `struct msghdr` with one buffer.
fn message(world: &mut World, at: u64, length: u64) -> u64 {
    let vector = world.words("vector", &[at, length], Holds::Bytes);
    world.words("msghdr", &[0, 0, vector, 1, 0, 0, 0], Holds::Bytes)
}

fn receive(world: &mut World, at_once: bool, as_message: bool) -> Args {
    let [from, to] = world.sockets(libc::SOCK_STREAM);
    world.event(at_once, move || {
        must(libc::SYS_write, &[from, b"bytes".as_ptr() as u64, 5]);
    });
    let bytes = world.buffer("bytes", &[0x11; 16], Holds::Bytes);
    match as_message {
        true => [to, message(world, bytes, 16), 0, 0, 0, 0],
        false => [to, bytes, 16, 0, 0, 0],
    }
}

/// Who connects is never answered, so it is told nothing.
fn accept(world: &mut World, at_once: bool) -> Args {
    let socket = |world: &mut World| {
        let made = must(libc::SYS_socket, &[libc::AF_UNIX as u64, libc::SOCK_STREAM as u64, 0]);
        world.keep(made)
    };
    let (listener, client) = (socket(world), socket(world));
    // The kernel chooses an abstract name for an address without one.
    let mut name = libc::sockaddr_un { sun_family: libc::AF_UNIX as u16, sun_path: [0; 108] };
    let at = &raw mut name as u64;
    must(libc::SYS_bind, &[listener, at, 2]);
    must(libc::SYS_listen, &[listener, 4]);
    let mut length = size_of::<libc::sockaddr_un>() as u32;
    must(libc::SYS_getsockname, &[listener, at, &raw mut length as u64]);
    world.event(at_once, move || {
        must(libc::SYS_connect, &[client, &raw const name as u64, length.into()]);
    });
    world.makes_descriptor();
    [listener, 0, 0, 0, 0, 0]
}

fn send(world: &mut World, at_once: bool, as_message: bool) -> Args {
    let [from, to] = world.sockets(libc::SOCK_STREAM);
    // What is there first decides what fits: all of it is taken out again.
    must(libc::SYS_fcntl, &[from, libc::F_SETFL as u64, (libc::O_RDWR | libc::O_NONBLOCK) as u64]);
    let full = vec![0x22u8; FULL];
    let mut filled = 0;
    while let sent @ 1.. = may(libc::SYS_write, &[from, full.as_ptr() as u64, FULL as u64]) {
        filled += sent;
    }
    must(libc::SYS_fcntl, &[from, libc::F_SETFL as u64, libc::O_RDWR as u64]);
    world.event(at_once, move || {
        let mut all = vec![0u8; filled as usize];
        let mut taken = 0;
        while taken < filled {
            let left = (filled - taken) as u64;
            taken += must(libc::SYS_read, &[to, all.as_mut_ptr() as u64, left]) as i64;
        }
    });
    let bytes = world.buffer("bytes", b"bytes", Holds::Bytes);
    match as_message {
        true => [from, message(world, bytes, 5), libc::MSG_NOSIGNAL as u64, 0, 0, 0],
        false => [from, bytes, 5, libc::MSG_NOSIGNAL as u64, 0, 0],
    }
}
