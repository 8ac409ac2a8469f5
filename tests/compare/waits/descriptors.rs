//! Waits for descriptors.

use super::Wait;
use crate::site::Args;
use crate::world::{BREAKS, Holds, World, must};

const POLL: u32 = 7;
const SELECT: u32 = 23;
const EPOLL_WAIT: u32 = 232;
const PSELECT6: u32 = 270;
const PPOLL: u32 = 271;
const EPOLL_PWAIT: u32 = 281;
const EPOLL_PWAIT2: u32 = 441;

const MASK_SIZE: u64 = 8;

pub const WAITS: &[Wait] = &[
    Wait::new("epoll_wait", EPOLL_WAIT, epoll).pointers(&[1]).refused(EPOLL),
    Wait::new("epoll_pwait", EPOLL_PWAIT, epoll).pointers(&[1]).refused(EPOLL),
    Wait::new("epoll_pwait.mask", EPOLL_PWAIT, epoll_mask).pointers(&[1, 4]).refused(&[(5, 7)]),
    Wait::new("epoll_pwait2", EPOLL_PWAIT2, epoll).pointers(&[1]).refused(EPOLL),
    Wait::new("epoll_pwait2.mask", EPOLL_PWAIT2, epoll_mask).pointers(&[1, 4]).refused(&[(5, 7)]),
    Wait::new("poll", POLL, poll).pointers(&[0]).refused(&[(1, 1 << 30)]),
    Wait::new("ppoll", PPOLL, poll).pointers(&[0]).refused(&[(1, 1 << 30)]),
    Wait::new("ppoll.mask", PPOLL, poll_mask).pointers(&[0, 3]).refused(&[(4, 7)]),
    Wait::new("select", SELECT, select).pointers(&[1, 2, 3]).refused(&[(0, u64::MAX)]),
    Wait::new("pselect6", PSELECT6, select).pointers(&[1, 2, 3]).refused(&[(0, u64::MAX)]),
    Wait::new("pselect6.mask", PSELECT6, select_mask).pointers(&[1, 5]).refused(&[(0, u64::MAX)]),
];

/// Not an epoll, no such descriptor, too few and too many events.
const EPOLL: &[(usize, u64)] = &[(0, 0), (0, 999), (2, 0), (2, u64::MAX)];

/// Blocks a signal but while the call waits.
fn mask(world: &mut World) -> u64 {
    let one = 1u64 << (BREAKS - 1);
    let block = move |how: i32| {
        let mut before = 0u64;
        let [one, old] = [&raw const one as u64, &raw mut before as u64];
        must(libc::SYS_rt_sigprocmask, &[how as u64, one, old, MASK_SIZE]);
        before
    };
    let others = block(libc::SIG_BLOCK) & !one;
    world.later(move || {
        block(libc::SIG_UNBLOCK);
    });
    world.words("mask", &[others], Holds::Bytes)
}

fn awaited(world: &mut World, at_once: bool) -> u64 {
    let descriptor = world.eventfd();
    world.event(at_once, move || {
        must(libc::SYS_write, &[descriptor, &raw const ONE as u64, 8]);
    });
    descriptor
}

static ONE: u64 = 1;

fn epoll(world: &mut World, at_once: bool) -> Args {
    let descriptor = awaited(world, at_once);
    let made = must(libc::SYS_epoll_create1, &[0]);
    let set = world.keep(made);
    let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0x0123_4567_89ab_cdef };
    let add = [set, libc::EPOLL_CTL_ADD as u64, descriptor, &raw mut event as u64];
    must(libc::SYS_epoll_ctl, &add);
    let events = world.buffer("events", &[0x11; 48], Holds::Bytes);
    [set, events, 4, 0, 0, 0]
}

fn epoll_mask(world: &mut World, at_once: bool) -> Args {
    let mut args = epoll(world, at_once);
    (args[4], args[5]) = (mask(world), MASK_SIZE);
    args
}

fn poll(world: &mut World, at_once: bool) -> Args {
    let descriptor = awaited(world, at_once) as u32;
    let other = world.eventfd() as u32;
    let asked = libc::POLLIN as u32 | 0xffff << 16;
    let never = 0;
    let descriptors =
        world.halves("pollfds", &[other, never, descriptor, asked, other, asked], Holds::Bytes);
    [descriptors, 3, 0, 0, 0, 0]
}

fn poll_mask(world: &mut World, at_once: bool) -> Args {
    let mut args = poll(world, at_once);
    (args[3], args[4]) = (mask(world), MASK_SIZE);
    // One argument after the time.
    args
}

fn select(world: &mut World, at_once: bool) -> Args {
    let descriptor = awaited(world, at_once);
    let other = world.eventfd();
    // Always full, so never ready to write to.
    let most = u64::MAX - 1;
    must(libc::SYS_write, &[other, &raw const most as u64, 8]);
    let set = |numbers: &[u64]| {
        let mut words = [0u64; 16];
        numbers.iter().for_each(|it| words[(it / 64) as usize] |= 1 << (it % 64));
        words
    };
    let reads = world.words("reads", &set(&[descriptor]), Holds::Bytes);
    let writes = world.words("writes", &set(&[other]), Holds::Bytes);
    let excepts = world.words("excepts", &set(&[descriptor, other]), Holds::Bytes);
    [512, reads, writes, excepts, 0, 0]
}

fn select_mask(world: &mut World, at_once: bool) -> Args {
    let mut args = select(world, at_once);
    let mask = mask(world);
    args[5] = world.words("masks", &[mask, MASK_SIZE], Holds::Bytes);
    args
}
