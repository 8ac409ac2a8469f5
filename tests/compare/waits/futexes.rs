//! Futexes, in all five operations that take a time, and the calls of their successor.

use std::sync::atomic::{AtomicU32, Ordering};

use super::Wait;
use crate::site::Args;
use crate::world::{Holds, World, may, must};

const FUTEX: u32 = 202;
const FUTEX_WAITV: u32 = 449;
const FUTEX_WAIT: u32 = 455;

const PRIVATE: u64 = 128;
const REALTIME: u64 = 256;
const WAIT: u64 = 0;
const WAKE: u64 = 1;
const LOCK_PI: u64 = 6;
const UNLOCK_PI: u64 = 7;
const WAIT_BITSET: u64 = 9;
const WAIT_REQUEUE_PI: u64 = 11;
const CMP_REQUEUE_PI: u64 = 12;
const LOCK_PI2: u64 = 13;
const ANY: u64 = 0xffff_ffff;

/// FUTEX2_SIZE_U32 | FUTEX2_PRIVATE.
const FUTEX2: u64 = 2 | 128;

pub const WAITS: &[Wait] = &[
    futex("futex.wait", |world, at_once| wait(world, WAIT | PRIVATE, at_once)),
    futex("futex.wait.shared", |world, at_once| wait(world, WAIT, at_once)),
    futex("futex.wait.realtime", |world, at_once| wait(world, WAIT | REALTIME | PRIVATE, at_once)),
    futex("futex.bitset", |world, at_once| wait(world, WAIT_BITSET | PRIVATE, at_once)),
    futex("futex.bitset.realtime", |world, at_once| {
        wait(world, WAIT_BITSET | REALTIME | PRIVATE, at_once)
    }),
    futex("futex.lock_pi", |world, at_once| lock(world, LOCK_PI | PRIVATE, at_once)),
    futex("futex.lock_pi2", |world, at_once| lock(world, LOCK_PI2 | PRIVATE, at_once)),
    futex("futex.lock_pi2.realtime", |world, at_once| {
        lock(world, LOCK_PI2 | REALTIME | PRIVATE, at_once)
    }),
    futex("futex.requeue_pi", |world, at_once| requeue(world, WAIT_REQUEUE_PI | PRIVATE, at_once)),
    futex("futex.requeue_pi.realtime", |world, at_once| {
        requeue(world, WAIT_REQUEUE_PI | REALTIME | PRIVATE, at_once)
    }),
    futex2("futex_wait", |world, at_once| wait2(world, libc::CLOCK_MONOTONIC, at_once)),
    futex2("futex_wait.realtime", |world, at_once| wait2(world, libc::CLOCK_REALTIME, at_once)),
    waitv("futex_waitv", |world, at_once| several(world, libc::CLOCK_MONOTONIC, at_once)),
    waitv("futex_waitv.realtime", |world, at_once| several(world, libc::CLOCK_REALTIME, at_once)),
];

const fn futex(name: &'static str, prepare: fn(&mut World, bool) -> Args) -> Wait {
    // An unknown operation, and a clock that an operation does not take.
    Wait::new(name, FUTEX, prepare).pointers(&[0]).refused(&[(1, 77), (1, WAKE | REALTIME)])
}

const fn futex2(name: &'static str, prepare: fn(&mut World, bool) -> Args) -> Wait {
    Wait::new(name, FUTEX_WAIT, prepare).pointers(&[0]).refused(&[
        (3, 0xff00),
        (5, 99),
        (5, 7),
        (2, 0),
    ])
}

const fn waitv(name: &'static str, prepare: fn(&mut World, bool) -> Args) -> Wait {
    Wait::new(name, FUTEX_WAITV, prepare).pointers(&[0]).refused(&[
        (2, 1),
        (4, 99),
        (4, 7),
        (1, 0),
        (1, 129),
    ])
}

fn store(at: u64, value: u32) {
    // SAFETY: a futex in the arena, which all access atomically.
    let futex = unsafe { AtomicU32::from_ptr(at as *mut u32) };
    futex.store(value, Ordering::SeqCst);
}

fn wake(at: u64, op: u64) {
    store(at, 0);
    must(libc::SYS_futex, &[at, WAKE | (op & PRIVATE), 1]);
}

fn wait(world: &mut World, op: u64, at_once: bool) -> Args {
    let at = world.halves("futex", &[1], Holds::Bytes);
    // A bitset of none wakes nobody, so the last argument is always there.
    world.event(at_once, move || wake(at, op));
    [at, op, 1, 0, 0, ANY]
}

fn lock(world: &mut World, op: u64, at_once: bool) -> Args {
    // A thread holds it without the kernel's help by writing its number there.
    let owner = if at_once { 0 } else { world.helper.tid.load(Ordering::Relaxed) };
    let at = world.halves("futex", &[owner], Holds::Owner);
    world.later(move || unlock_if_owned(at));
    world.event(false, move || {
        must(libc::SYS_futex, &[at, UNLOCK_PI | PRIVATE]);
    });
    [at, op, 0, 0, 0, 0]
}

/// What the caller has got by the call, it gives back.
fn unlock_if_owned(at: u64) {
    may(libc::SYS_futex, &[at, UNLOCK_PI | PRIVATE]);
}

fn requeue(world: &mut World, op: u64, at_once: bool) -> Args {
    let from = world.halves("futex", &[u32::from(!at_once)], Holds::Bytes);
    let to = world.halves("lock", &[0], Holds::Owner);
    world.later(move || unlock_if_owned(to));
    world.event(false, move || {
        must(libc::SYS_futex, &[from, CMP_REQUEUE_PI | PRIVATE, 1, 0, to, 1]);
    });
    [from, op, 1, 0, to, 0]
}

fn wait2(world: &mut World, clock: i32, at_once: bool) -> Args {
    let at = world.halves("futex", &[1], Holds::Bytes);
    world.event(at_once, move || wake(at, PRIVATE));
    [at, 1, ANY, FUTEX2, 0, clock as u64]
}

fn several(world: &mut World, clock: i32, at_once: bool) -> Args {
    let first = world.halves("futex", &[1], Holds::Bytes);
    let second = world.halves("futex2", &[1], Holds::Bytes);
    let vector = world.words("waiters", &[1, first, FUTEX2, 1, second, FUTEX2], Holds::Bytes);
    world.event(at_once, move || wake(second, PRIVATE));
    [vector, 2, 0, 0, clock as u64, 0]
}
