//! Waits for signals, semaphores, and completions.

use super::Wait;
use crate::site::Args;
use crate::world::{Holds, World, may, must};

const RT_SIGTIMEDWAIT: u32 = 128;
const SEMTIMEDOP: u32 = 220;
const IO_GETEVENTS: u32 = 208;
const IO_PGETEVENTS: u32 = 333;
const IO_URING_ENTER: u32 = 426;

/// A signal that every caller blocks.
pub const AWAITED: i32 = 40;

pub const WAITS: &[Wait] = &[
    Wait::new("rt_sigtimedwait", RT_SIGTIMEDWAIT, signal).pointers(&[0, 1]).refused(&[(3, 7)]),
    Wait::new("semtimedop", SEMTIMEDOP, semaphore).pointers(&[1]).refused(&[
        (0, 0x7fff_ffff),
        (2, 0),
        (2, 1 << 20),
    ]),
    Wait::new("io_getevents", IO_GETEVENTS, completion).pointers(&[3]).refused(&[
        (0, 0),
        (1, 99),
        (2, 0),
    ]),
    Wait::new("io_pgetevents", IO_PGETEVENTS, completion).pointers(&[3, 5]).refused(&[
        (0, 0),
        (1, 99),
        (2, 0),
    ]),
    ring("io_uring_enter", |world, at_once| ring_wait(world, None, at_once)),
    ring("io_uring_enter.abs", |world, at_once| {
        ring_wait(world, Some(libc::CLOCK_MONOTONIC), at_once)
    }),
];

const fn ring(name: &'static str, prepare: fn(&mut World, bool) -> Args) -> Wait {
    // No ring, a flag that is not there, and a structure of another size.
    Wait::new(name, IO_URING_ENTER, prepare).refused(&[(0, 0), (3, 1 << 30), (5, 16)])
}

fn signal(world: &mut World, at_once: bool) -> Args {
    let set = world.words("set", &[1 << (AWAITED - 1)], Holds::Bytes);
    let info = world.buffer("siginfo", &[0x11; 128], Holds::Siginfo);
    let (process, caller) = (must(libc::SYS_getpid, &[]), world.caller());
    world.event(at_once, move || {
        must(libc::SYS_tgkill, &[process, caller, AWAITED as u64]);
    });
    [set, info, 0, 8, 0, 0]
}

fn semaphore(world: &mut World, at_once: bool) -> Args {
    let id = must(libc::SYS_semget, &[libc::IPC_PRIVATE as u64, 1, 0o600]);
    world.later(move || {
        must(libc::SYS_semctl, &[id, 0, libc::IPC_RMID as u64]);
    });
    let down = libc::sembuf { sem_num: 0, sem_op: -1, sem_flg: 0 };
    let words = [down.sem_num, down.sem_op as u16, down.sem_flg as u16];
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let operations = world.buffer("operations", &bytes, Holds::Bytes);
    world.event(at_once, move || {
        let up = libc::sembuf { sem_num: 0, sem_op: 1, sem_flg: 0 };
        must(libc::SYS_semop, &[id, &raw const up as u64, 1]);
    });
    [id, operations, 1, 0, 0, 0]
}

/// `struct iocb` of <linux/aio_abi.h>, of which these words are used.
#[repr(C)]
struct Iocb {
    data: u64,
    key: u64,
    opcode: u16,
    priority: u16,
    descriptor: u32,
    events: u64,
    rest: [u64; 4],
}

/// A poll that completes when its descriptor is readable.
fn completion(world: &mut World, at_once: bool) -> Args {
    const IOCB_CMD_POLL: u16 = 5;
    let descriptor = world.eventfd();
    let mut context = 0u64;
    must(libc::SYS_io_setup, &[4, &raw mut context as u64]);
    world.later(move || {
        must(libc::SYS_io_destroy, &[context]);
    });
    let control = Iocb {
        data: 0x0123_4567,
        key: 0,
        opcode: IOCB_CMD_POLL,
        priority: 0,
        descriptor: descriptor as u32,
        events: libc::POLLIN as u64,
        rest: [0; 4],
    };
    // In the arena, whose addresses are the same in every run: the event names it.
    // SAFETY: the structure is plain words without padding.
    let bytes =
        unsafe { std::slice::from_raw_parts((&raw const control).cast::<u8>(), size_of::<Iocb>()) };
    let control = world.buffer("iocb", bytes, Holds::Bytes);
    let controls = [control];
    must(libc::SYS_io_submit, &[context, 1, controls.as_ptr() as u64]);
    world.settle("iocb");
    let events = world.buffer("events", &[0x11; 64], Holds::Bytes);
    world.event(at_once, move || {
        let one = 1u64;
        must(libc::SYS_write, &[descriptor, &raw const one as u64, 8]);
    });
    [context, 1, 2, events, 0, 0]
}

/// `struct io_uring_params`, as 30 words of 32 bits.
const PARAMS: usize = 30;
const SQ_OFF: usize = 10;
const SQ_TAIL: usize = SQ_OFF + 1;
const SQ_ARRAY: usize = SQ_OFF + 6;
const GETEVENTS: u64 = 1;
const EXT_ARG: u64 = 8;
const ABS_TIMER: u64 = 32;
const SINGLE_MMAP: u64 = 0;
const SQES: u64 = 0x1000_0000;
const PAGE: u64 = 4096;
const REGISTER_CLOCK: u64 = 29;

fn ring_wait(world: &mut World, clock: Option<i32>, at_once: bool) -> Args {
    let mut params = [0u32; PARAMS];
    let made = must(libc::SYS_io_uring_setup, &[4, params.as_mut_ptr() as u64]);
    // Its end, later, would interrupt other calls.
    let ring = world.reserve(made);
    if let Some(clock) = clock {
        let words = [clock as u32, 0, 0, 0];
        must(libc::SYS_io_uring_register, &[ring, REGISTER_CLOCK, words.as_ptr() as u64, 0]);
    }
    world.event(at_once, move || complete(ring, &params));
    let absolute = if clock.is_some() { ABS_TIMER } else { 0 };
    [ring, 0, 1, GETEVENTS | EXT_ARG | absolute, 0, 24]
}

/// Submits what completes at once: a zeroed entry is one that does nothing.
fn complete(ring: u64, params: &[u32; PARAMS]) {
    let map = |offset| {
        let protection = (libc::PROT_READ | libc::PROT_WRITE) as u64;
        let flags = (libc::MAP_SHARED | libc::MAP_POPULATE) as u64;
        must(libc::SYS_mmap, &[0, PAGE, protection, flags, ring, offset])
    };
    let (rings, entries) = (map(SINGLE_MMAP), map(SQES));
    let half = |at: usize| (rings + u64::from(params[at])) as *mut u32;
    // SAFETY: the offsets are the kernel's, within the first page of the ring; nobody else submits.
    unsafe {
        half(SQ_ARRAY).write_volatile(0);
        let tail = half(SQ_TAIL);
        tail.write_volatile(tail.read_volatile().wrapping_add(1));
    }
    must(libc::SYS_io_uring_enter, &[ring, 1, 0, 0, 0, 0]);
    for at in [rings, entries] {
        may(libc::SYS_munmap, &[at, PAGE]);
    }
}
