//! The calls on a socket's timeouts.

use crate::case::Case;
use crate::situations::BAD;
use crate::span::Time;
use crate::world::{Holds, World, must};

const SETSOCKOPT: u32 = 54;
const GETSOCKOPT: u32 = 55;
const SOCKET: u64 = libc::SOL_SOCKET as u64;
const OPTIONS: [(&str, i32); 2] =
    [("rcvtimeo", libc::SO_RCVTIMEO), ("sndtimeo", libc::SO_SNDTIMEO)];
const MICROS: i64 = 1_000_000;

pub fn set() -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, option) in OPTIONS {
        let option = option as u64;
        let mut add = |what: String, body: Box<dyn Fn(&mut World) + Send + Sync>| {
            cases.push(Case::alone(format!("setsockopt.{name}/{what}"), body));
        };
        let bad = [[-1, 0], [i64::MIN, 0], [0, MICROS], [0, -1], [1, -1], [i64::MAX, 0], [0, 0]];
        for [sec, usec] in bad {
            add(
                format!("{sec}s+{usec}"),
                Box::new(move |world| {
                    let [socket, _] = world.sockets(libc::SOCK_STREAM);
                    let time = world.words("value", &[sec as u64, usec as u64], Holds::Bytes);
                    world.quick("set", SETSOCKOPT, &[socket, SOCKET, option, time, 16, 0]);
                    // What it is then, told as it is where it is none.
                    let told = world.words("told", &[7, 7], Holds::Bytes);
                    let length = world.halves("length", &[16], Holds::Bytes);
                    let fails_or_none = sec <= 0;
                    if fails_or_none {
                        world.quick("get", GETSOCKOPT, &[socket, SOCKET, option, told, length, 0]);
                    }
                }),
            );
        }
        for bad in BAD {
            add(
                format!("{bad:?}"),
                Box::new(move |world| {
                    let [socket, _] = world.sockets(libc::SOCK_STREAM);
                    let args = [socket, SOCKET, option, bad.address(world), 16, 0];
                    world.quick("set", SETSOCKOPT, &args);
                }),
            );
        }
        for length in [0u64, 8, 15, 17, u64::MAX] {
            add(
                format!("length_{}", length as i64),
                Box::new(move |world| {
                    let [socket, _] = world.sockets(libc::SOCK_STREAM);
                    let time = world.words("value", &[1, 0, 0], Holds::Bytes);
                    world.quick("set", SETSOCKOPT, &[socket, SOCKET, option, time, length, 0]);
                }),
            );
        }
        add(
            "no_socket".to_owned(),
            Box::new(move |world| {
                let time = world.words("value", &[1, 0], Holds::Bytes);
                let none = world.eventfd();
                for descriptor in [none, 999] {
                    world.quick("set", SETSOCKOPT, &[descriptor, SOCKET, option, time, 16, 0]);
                }
            }),
        );
    }
    cases
}

/// What is done with a socket whose timeout is set.
type Body = Box<dyn Fn(&mut World, u64) + Send + Sync>;

pub fn get() -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, option) in OPTIONS {
        let option = option as u64;
        let mut add = |what: String, body: Body| {
            cases.push(Case::alone(format!("getsockopt.{name}/{what}"), move |world| {
                let [socket, _] = world.sockets(libc::SOCK_STREAM);
                let time = Time::Long.words(world.scale, 0, MICROS);
                must(libc::SYS_setsockopt, &[socket, SOCKET, option, time.as_ptr() as u64, 16]);
                body(world, socket);
            }));
        };
        add(
            "told".to_owned(),
            Box::new(move |world, socket| {
                let told = world.words("told", &[7, 7], Holds::Bytes);
                let length = world.halves("length", &[16], Holds::Bytes);
                let args = [socket, SOCKET, option, told, length, 0];
                world.note("result", crate::site::call(GETSOCKOPT, &args));
                let [sec, usec] = world.read_words::<2>(told);
                let asked = Time::Long.span(world.scale).unwrap_or(0) / 1_000;
                // The kernel rounds up to its own ticks.
                let more = (sec * MICROS + usec) - asked;
                let tick = world.scale.span(20_000_000) / 1_000;
                world.note("told", (-tick / 20_000..=tick).contains(&more));
                let [length, ..] = world.read::<4>(length);
                world.note("length", length);
            }),
        );
        for length in [0u32, 4, 8, 15, 17, u32::MAX] {
            add(
                format!("length_{}", length as i32),
                Box::new(move |world, socket| {
                    let told = world.buffer("told", &[7; 32], Holds::Bytes);
                    let at = world.halves("length", &[length], Holds::Bytes);
                    let args = [socket, SOCKET, option, told, at, 0];
                    world.note("result", crate::site::call(GETSOCKOPT, &args));
                    let bytes = world.read::<32>(told);
                    world.note(
                        "written",
                        bytes.iter().rposition(|byte| *byte != 7).map_or(0, |at| at + 1) > 16,
                    );
                    let [length, ..] = world.read::<4>(at);
                    world.note("length", length);
                }),
            );
        }
        for bad in BAD {
            add(
                format!("value/{bad:?}"),
                Box::new(move |world, socket| {
                    let length = world.halves("length", &[16], Holds::Bytes);
                    let args = [socket, SOCKET, option, bad.address(world), length, 0];
                    world.quick("get", GETSOCKOPT, &args);
                }),
            );
            add(
                format!("length/{bad:?}"),
                Box::new(move |world, socket| {
                    let told = world.words("told", &[7, 7], Holds::Bytes);
                    let args = [socket, SOCKET, option, told, bad.address(world), 0];
                    world.note("result", crate::site::call(GETSOCKOPT, &args));
                }),
            );
        }
    }
    cases
}
