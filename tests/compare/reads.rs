//! Reads of clocks by system calls.

use crate::case::Case;
use crate::site;
use crate::situations::BAD;
use crate::span::{SHORT, Time, now};
use crate::world::{Holds, World};

const CLOCK_GETTIME: u32 = 228;
const GETTIMEOFDAY: u32 = 96;
const NANOSLEEP: u32 = 35;
const TIME: u32 = 201;
const TIMES: u32 = 100;
const SYSINFO: u32 = 99;
const SECOND: i64 = 1_000_000_000;
const PER_TICK: i64 = SECOND / 100;

/// Says where a reading is between two of the C library, each in so many nanoseconds.
fn placed(world: &mut World, clock: i32, unit: i64, read: impl FnOnce(&mut World) -> i64) {
    let before = now(clock);
    let reading = read(world);
    let after = now(clock);
    // Whole seconds are told as of the last of the kernel's ticks.
    let tick = if unit == SECOND { world.scale.span(PER_TICK) } else { 0 };
    let place = match reading {
        _ if reading < (before - tick) / unit => "before",
        // What is rounded is rounded up by some.
        _ if reading > after / unit + 1 => "after",
        _ => "between",
    };
    world.note("reading", place);
}

/// All clocks, those that are none, and addresses that are none.
pub fn clock_gettime() -> Vec<Case> {
    let mut cases = Vec::new();
    let read = |clock: i32| {
        Case::alone(format!("clock_gettime/{clock}"), move |world: &mut World| {
            let at = world.words("time", &[7, 7], Holds::Bytes);
            let args = [clock as u64, at, 0, 0, 0, 0];
            // Its content is compared as a time.
            placed(world, clock, 1, |world| {
                let result = site::call(CLOCK_GETTIME, &args);
                world.note("result", result);
                let [sec, nsec] = world.read_words(at);
                sec * SECOND + nsec
            });
        })
    };
    cases.extend([0, 1, 4, 7, 11].map(read));
    // The CPU clocks, the coarse ones, and those that need a device.
    for clock in [2, 3, 5, 6, 8, 9, 10, 12, 16, 99, -1, i32::MIN] {
        cases.push(Case::alone(format!("clock_gettime/{clock}"), move |world| {
            let at = world.words("time", &[7, 7], Holds::Bytes);
            let result = site::call(CLOCK_GETTIME, &[clock as u64, at, 0, 0, 0, 0]);
            let [sec, nsec] = world.read_words::<2>(at);
            let is_time = sec >= 0 && (0..SECOND).contains(&nsec) && [sec, nsec] != [7, 7];
            world.note("result", result);
            world.note("is_time", is_time);
        }));
    }
    for clock in [0u64, 1, 99] {
        cases.extend(BAD.map(|bad| {
            Case::alone(format!("clock_gettime/{clock}/{bad:?}"), move |world| {
                let args = [clock, bad.address(world), 0, 0, 0, 0];
                let result = site::call(CLOCK_GETTIME, &args);
                world.note("result", result);
            })
        }));
    }
    cases
}

pub fn gettimeofday() -> Vec<Case> {
    let mut cases = vec![
        Case::alone("gettimeofday/both", |world| {
            let at = world.words("time", &[7, 7], Holds::Bytes);
            let zone = world.halves("zone", &[7, 7], Holds::Bytes);
            placed(world, 0, 1_000, |world| {
                let result = site::call(GETTIMEOFDAY, &[at, zone, 0, 0, 0, 0]);
                world.note("result", result);
                let [sec, usec] = world.read_words(at);
                sec * 1_000_000 + usec
            });
            let zone = world.read::<8>(zone);
            world.note("zone", format!("{zone:?}"));
        }),
        Case::alone("gettimeofday/zone", |world| {
            let zone = world.halves("zone", &[7, 7], Holds::Bytes);
            world.quick("", GETTIMEOFDAY, &[0, zone, 0, 0, 0, 0]);
        }),
        Case::alone("gettimeofday/neither", |world| {
            world.quick("", GETTIMEOFDAY, &[0; 6]);
        }),
    ];
    for place in [0, 1] {
        cases.extend(BAD[1..].iter().map(|&bad| {
            Case::alone(format!("gettimeofday/argument_{place}/{bad:?}"), move |world| {
                let mut args = [0; 6];
                args[place] = bad.address(world);
                let result = site::call(GETTIMEOFDAY, &args);
                world.note("result", result);
            })
        }));
    }
    cases
}

pub fn time() -> Vec<Case> {
    let mut cases = vec![
        Case::alone("time/result", |world| {
            placed(world, 0, SECOND, |_| site::call(TIME, &[0; 6]));
        }),
        Case::alone("time/stored", |world| {
            let at = world.words("time", &[7], Holds::Bytes);
            placed(world, 0, SECOND, |world| {
                let result = site::call(TIME, &[at, 0, 0, 0, 0, 0]);
                let [stored] = world.read_words(at);
                world.note("same", stored == result);
                stored
            });
        }),
    ];
    cases.extend(BAD[1..].iter().map(|&bad| {
        Case::alone(format!("time/{bad:?}"), move |world| {
            let result = site::call(TIME, &[bad.address(world), 0, 0, 0, 0, 0]);
            world.note("failed", if result < 0 { result } else { 0 });
        })
    }));
    cases
}

/// The ticks count from an instant that the kernel chooses: what passes between two reads is compared.
pub fn times() -> Vec<Case> {
    let passed = |world: &mut World| {
        let began = now(1);
        let first = site::call(TIMES, &[0; 6]);
        let span = world.scale.span(SHORT);
        world.asks(Time::Short);
        let until = [span / SECOND, span % SECOND];
        world.call(NANOSLEEP, &[until.as_ptr() as u64, 0, 0, 0, 0, 0], now(1));
        let last = site::call(TIMES, &[0; 6]);
        let passed = (now(1) - began) / PER_TICK;
        world.note("passed", (span / PER_TICK - 1..=passed + 1).contains(&(last - first)));
    };
    let mut cases = vec![Case::alone("times/passed", passed)];
    cases.extend(BAD[1..].iter().map(|&bad| {
        Case::alone(format!("times/{bad:?}"), move |world| {
            let result = site::call(TIMES, &[bad.address(world), 0, 0, 0, 0, 0]);
            world.note("failed", if result < 0 { result } else { 0 });
        })
    }));
    cases
}

pub fn sysinfo() -> Vec<Case> {
    let uptime = |world: &mut World| {
        let at = world.buffer("info", &[0x11; 112], Holds::Bytes);
        placed(world, libc::CLOCK_BOOTTIME, SECOND, |world| {
            let result = site::call(SYSINFO, &[at, 0, 0, 0, 0, 0]);
            world.note("result", result);
            let [uptime] = world.read_words(at);
            uptime
        });
        let [memory] = world.read_words(at + 32);
        world.note("memory", memory);
    };
    let mut cases = vec![Case::alone("sysinfo/uptime", uptime)];
    cases.extend(BAD.map(|bad| {
        Case::alone(format!("sysinfo/{bad:?}"), move |world| {
            let result = site::call(SYSINFO, &[bad.address(world), 0, 0, 0, 0, 0]);
            world.note("result", result);
        })
    }));
    cases
}
