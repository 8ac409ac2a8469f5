//! Sleeps.

use super::Wait;
use crate::site::Args;
use crate::world::{Holds, World};

const NANOSLEEP: u32 = 35;
const CLOCK_NANOSLEEP: u32 = 230;
const ABSOLUTE: u64 = 1;

pub const WAITS: &[Wait] = &[
    Wait::new("nanosleep", NANOSLEEP, |world, _| [0, remainder(world), 0, 0, 0, 0])
        .sleeping()
        .pointers(&[1]),
    Wait::new("nanosleep.unasked", NANOSLEEP, |_, _| [0; 6]).sleeping(),
    on("clock_nanosleep.realtime", |world, _| sleep(world, libc::CLOCK_REALTIME, 0)),
    on("clock_nanosleep.realtime.abs", |world, _| sleep(world, libc::CLOCK_REALTIME, ABSOLUTE)),
    on("clock_nanosleep.monotonic", |world, _| sleep(world, libc::CLOCK_MONOTONIC, 0)),
    on("clock_nanosleep.monotonic.abs", |world, _| sleep(world, libc::CLOCK_MONOTONIC, ABSOLUTE)),
    on("clock_nanosleep.boottime", |world, _| sleep(world, libc::CLOCK_BOOTTIME, 0)),
    on("clock_nanosleep.boottime.abs", |world, _| sleep(world, libc::CLOCK_BOOTTIME, ABSOLUTE)),
    on("clock_nanosleep.tai", |world, _| sleep(world, libc::CLOCK_TAI, 0)),
    on("clock_nanosleep.tai.abs", |world, _| sleep(world, libc::CLOCK_TAI, ABSOLUTE)),
];

/// Clocks that nobody can sleep on or that are not there, and a flag that does not exist (and is
/// ignored).
const fn on(name: &'static str, prepare: fn(&mut World, bool) -> Args) -> Wait {
    Wait::new(name, CLOCK_NANOSLEEP, prepare).sleeping().pointers(&[3]).refused(&[
        (0, 3),
        (0, 4),
        (0, 5),
        (0, 6),
        (0, 12),
        (0, 99),
        (0, u64::MAX),
    ])
}

fn remainder(world: &mut World) -> u64 {
    world.words("remainder", &[77, 77], Holds::Left { parts_per_second: 1_000_000_000 })
}

fn sleep(world: &mut World, clock: i32, flags: u64) -> Args {
    [clock as u64, flags, 0, remainder(world), 0, 0]
}
