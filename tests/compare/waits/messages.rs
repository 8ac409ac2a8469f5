//! Waits for messages.

use std::sync::atomic::{AtomicU32, Ordering};

use super::Wait;
use crate::case::Case;
use crate::site::Args;
use crate::span::{SHORT, Time, now};
use crate::world::{Holds, World, must};

const MQ_TIMEDSEND: u32 = 242;
const MQ_TIMEDRECEIVE: u32 = 243;
const RECVMMSG: u32 = 299;
const SIZE: u64 = 16;

pub const WAITS: &[Wait] = &[
    Wait::new("mq_timedsend", MQ_TIMEDSEND, send).pointers(&[1]).refused(QUEUE),
    Wait::new("mq_timedreceive", MQ_TIMEDRECEIVE, receive).pointers(&[1, 3]).refused(&[
        (0, 0),
        (0, 999),
        (2, 1),
    ]),
    // The kernel looks at the time after each datagram only.
    Wait {
        ends: false,
        ..Wait::new("recvmmsg", RECVMMSG, |world, at_once| {
            datagrams(world, &[b"first", b"other"], at_once)
        })
        .pointers(&[1])
        .refused(&[(0, 0), (0, 999)])
    },
    Wait {
        ends: false,
        ..Wait::new("recvmmsg.for_one", RECVMMSG, |world, at_once| {
            let mut args = datagrams(world, &[b"first"], at_once);
            args[3] = libc::MSG_WAITFORONE as u64;
            args
        })
    },
];

/// A datagram that comes after the time of the call, by the program's own clock: the call ends with
/// it, for the kernel looks at the time then.
pub fn after_its_time() -> Case {
    Case::alone("recvmmsg/ready_after_its_time", |world| {
        let [from, to] = world.sockets(libc::SOCK_DGRAM);
        let span = world.scale.span(2 * SHORT);
        world.event(false, move || {
            let span = [span as u64 / 1_000_000_000, span as u64 % 1_000_000_000];
            must(libc::SYS_nanosleep, &[span.as_ptr() as u64]);
            must(libc::SYS_sendto, &[from, b"late".as_ptr() as u64, 4, 0, 0, 0]);
        });
        let messages = messages(world);
        world.asks(Time::Short);
        let began = now(libc::CLOCK_MONOTONIC);
        let time = world.time(Time::Short.words(world.scale, 0, 1_000_000_000), 1_000_000_000);
        world.fire();
        world.call(RECVMMSG, &[to, messages, 2, 0, time, 0], began);
    })
}

/// No queue, no such descriptor, too long a message, too high a priority.
const QUEUE: &[(usize, u64)] = &[(0, 0), (0, 999), (2, 1000), (3, 1 << 20)];

/// A queue for one message, which is in it already or not.
fn queue(world: &mut World, full: bool) -> u64 {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = format!("compare-{}-{number}\0", std::process::id());
    let attributes = [0u64, 1, SIZE, 0, 0, 0, 0, 0];
    let flags = (libc::O_RDWR | libc::O_CREAT | libc::O_EXCL) as u64;
    let made =
        must(libc::SYS_mq_open, &[name.as_ptr() as u64, flags, 0o600, attributes.as_ptr() as u64]);
    must(libc::SYS_mq_unlink, &[name.as_ptr() as u64]);
    let queue = world.keep(made);
    if full {
        put(queue);
    }
    queue
}

fn put(queue: u64) {
    must(libc::SYS_mq_timedsend, &[queue, b"message".as_ptr() as u64, 7, 5, 0]);
}

fn take(queue: u64) {
    let mut message = [0u8; SIZE as usize];
    must(libc::SYS_mq_timedreceive, &[queue, message.as_mut_ptr() as u64, SIZE, 0, 0]);
}

fn send(world: &mut World, at_once: bool) -> Args {
    let queue = queue(world, true);
    world.event(at_once, move || take(queue));
    let message = world.buffer("message", b"hello", Holds::Bytes);
    [queue, message, 5, 3, 0, 0]
}

fn receive(world: &mut World, at_once: bool) -> Args {
    let queue = queue(world, false);
    world.event(at_once, move || put(queue));
    let message = world.buffer("message", &[0x11; SIZE as usize], Holds::Bytes);
    let priority = world.halves("priority", &[0x1111_1111], Holds::Bytes);
    [queue, message, SIZE, priority, 0, 0]
}

/// Some datagrams for a call that asks for two.
fn datagrams(world: &mut World, texts: &'static [&'static [u8; 5]], at_once: bool) -> Args {
    let [from, to] = world.sockets(libc::SOCK_DGRAM);
    world.event(at_once, move || {
        for text in texts {
            must(libc::SYS_sendto, &[from, text.as_ptr() as u64, 5, 0, 0, 0]);
        }
    });
    let messages = messages(world);
    [to, messages, 2, 0, 0, 0]
}

/// Two of `struct mmsghdr`, each a message of one vector, and its length.
fn messages(world: &mut World) -> u64 {
    let [first, second] = [(); 2].map(|()| world.buffer("datagram", &[0x11; 16], Holds::Bytes));
    let vectors = world.words("vectors", &[first, 16, second, 16], Holds::Bytes);
    let message = |vector| [0, 0, vector, 1, 0, 0, 0, 0x1111_1111];
    world.words("messages", &[message(vectors), message(vectors + 16)].concat(), Holds::Bytes)
}
