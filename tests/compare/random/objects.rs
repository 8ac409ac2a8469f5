//! A message queue and a pair of sockets, whose contents and timeouts last.

use fastrand::Rng;

use super::sequence::{moment, pick};
use crate::span::{Time, now};
use crate::world::{Holds, World, must};

const MQ_TIMEDSEND: u32 = 242;
const MQ_TIMEDRECEIVE: u32 = 243;
const SETSOCKOPT: u32 = 54;
const GETSOCKOPT: u32 = 55;
const RECVFROM: u32 = 45;
const SOCKET: u64 = libc::SOL_SOCKET as u64;
const RCVTIMEO: u64 = libc::SO_RCVTIMEO as u64;
const MICROS: i64 = 1_000_000;
const NANOS: i64 = 1_000_000_000;
/// Of the queue, and the length of each of them.
const MESSAGES: u64 = 3;
const SIZE: u64 = 16;

pub struct Objects {
    queue: u64,
    from: u64,
    to: u64,
    /// That of `to`.
    timeout: Time,
}

/// A pair of words for a call that is not compared.
fn timeval(world: &World, time: Time) -> [i64; 2] {
    if time == Time::Null { [0; 2] } else { time.words(world.scale, 0, MICROS) }
}

impl Objects {
    /// The process makes them once, and they end with it.
    pub fn new(world: &mut World) -> Self {
        let name = format!("compare-random-{}\0", std::process::id());
        let attributes = [0u64, MESSAGES, SIZE, 0, 0, 0, 0, 0];
        let flags = (libc::O_RDWR | libc::O_CREAT | libc::O_EXCL) as u64;
        let (at, attributes) = (name.as_ptr() as u64, attributes.as_ptr() as u64);
        let queue = must(libc::SYS_mq_open, &[at, flags, 0o600, attributes]);
        must(libc::SYS_mq_unlink, &[at]);
        let mut pair = [0i32; 2];
        let kind = libc::SOCK_STREAM as u64;
        must(libc::SYS_socketpair, &[libc::AF_UNIX as u64, kind, 0, pair.as_mut_ptr() as u64]);
        let [from, to] = pair.map(|one| world.reserve(one as u64));
        Self { queue: world.reserve(queue), from, to, timeout: Time::Null }
    }

    pub fn act(&mut self, random: &mut Rng, world: &mut World) -> String {
        match random.u8(..6) {
            0 | 1 => self.send(random, world),
            2 | 3 => self.receive(random, world),
            4 => self.bound(random, world),
            _ => self.read(random, world),
        }
    }

    /// How many messages there are.
    fn messages(&self) -> u64 {
        let mut attributes = [0u64; 8];
        must(libc::SYS_mq_getsetattr, &[self.queue, 0, attributes.as_mut_ptr() as u64]);
        attributes[3]
    }

    /// The time of a call on the queue: one without an end only where it is ready.
    fn time(random: &mut Rng, world: &mut World, is_ready: bool) -> (Time, u64, i64) {
        let soon = [Time::Zero, moment(random), Time::Words(0, 1), Time::Words(0, -1)];
        let late = [Time::Null, Time::Long, Time::Huge];
        let asked = if random.bool() { pick(random, &soon) } else { pick(random, &late) };
        let time = if is_ready || soon.contains(&asked) { asked } else { moment(random) };
        world.asks(time);
        if is_ready {
            world.takes_any_time();
        }
        let began = now(libc::CLOCK_MONOTONIC);
        let words = time.words(world.scale, now(libc::CLOCK_REALTIME), NANOS);
        let at = if time == Time::Null { 0 } else { world.time(words, NANOS) };
        (time, at, began)
    }

    fn send(&self, random: &mut Rng, world: &mut World) -> String {
        let text = [random.u8(..); 5];
        let priority = random.u64(..4);
        let is_ready = self.messages() < MESSAGES;
        let (time, at, began) = Self::time(random, world, is_ready);
        let message = world.buffer("message", &text, Holds::Bytes);
        world.call(MQ_TIMEDSEND, &[self.queue, message, 5, priority, at, 0], began);
        format!("mq_timedsend/lasting {time:?}")
    }

    fn receive(&self, random: &mut Rng, world: &mut World) -> String {
        let (time, at, began) = Self::time(random, world, self.messages() > 0);
        let message = world.buffer("message", &[0x11; SIZE as usize], Holds::Bytes);
        let priority = world.halves("priority", &[0x1111_1111], Holds::Bytes);
        world.call(MQ_TIMEDRECEIVE, &[self.queue, message, SIZE, priority, at, 0], began);
        format!("mq_timedreceive/lasting {time:?}")
    }

    /// Sets the timeout of a socket, and looks at it.
    fn bound(&mut self, random: &mut Rng, world: &mut World) -> String {
        let none = [Time::Null, Time::Words(-1, 0), Time::Words(0, MICROS), Time::Words(0, -1)];
        let time = match random.u8(..6) {
            0..3 => pick(random, &none),
            3 => moment(random),
            _ => Time::Long,
        };
        let words = timeval(world, time).map(|word| word as u64);
        let value = world.words("value", &words, Holds::Bytes);
        let result = world.quick("set", SETSOCKOPT, &[self.to, SOCKET, RCVTIMEO, value, 16, 0]);
        if result == 0 {
            // A negative one is the shortest.
            self.timeout = if time == Time::Words(-1, 0) { Time::Micros(0) } else { time };
        }
        let told = world.words("told", &[7, 7], Holds::Checked);
        let length = world.halves("length", &[16], Holds::Bytes);
        world.quick("get", GETSOCKOPT, &[self.to, SOCKET, RCVTIMEO, told, length, 0]);
        let [sec, usec] = world.read_words(told);
        let [asked, asked_usec] = timeval(world, self.timeout);
        let more = (sec * MICROS + usec) - (asked * MICROS + asked_usec);
        // The kernel rounds up to its own ticks.
        let tick = world.scale.span(20_000_000) / 1_000;
        world.note("told", (-tick / 20_000..=tick).contains(&more));
        format!("setsockopt/lasting {time:?}")
    }

    /// Reads what is there, or waits for a bounded time.
    fn read(&self, random: &mut Rng, world: &mut World) -> String {
        let mut there = 0i32;
        must(libc::SYS_ioctl, &[self.to, libc::FIONREAD, &raw mut there as u64]);
        let is_bounded = matches!(self.timeout, Time::Micros(_)) && random.u8(..4) == 0;
        if there == 0 && !is_bounded {
            must(libc::SYS_write, &[self.from, b"bytes".as_ptr() as u64, 5]);
        }
        let began = now(libc::CLOCK_MONOTONIC);
        world.asks_in_ticks(self.timeout);
        if there != 0 || !is_bounded {
            world.takes_any_time();
        }
        let bytes = world.buffer("bytes", &[0x11; 16], Holds::Bytes);
        let length = random.u64(1..8);
        world.call(RECVFROM, &[self.to, bytes, length, 0, 0, 0], began);
        format!("recvfrom/lasting {:?}", self.timeout)
    }
}
