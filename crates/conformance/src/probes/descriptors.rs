//! Waits for descriptors.

use std::fs::File;
use std::io::{self, Write, pipe};
use std::os::fd::{AsRawFd, OwnedFd};

use crate::bench::{Answer, Bench, Ends, Needed};
use crate::interface::Interface;
use crate::sys::{Arg, NULL, call, descriptor, micros, nanos, timespec, timeval};
use crate::timelines::NS_PER_MS;

use super::EVERYWHERE;

/// The interfaces to test.
pub const INTERFACES: &[Interface] = &[
    Interface::probe("poll", poll).of(&["poll"]).under(EVERYWHERE),
    Interface::probe("ppoll", ppoll).of(&["ppoll"]),
    Interface::probe("ppoll: time left", ppoll_left).of(&["ppoll"]),
    Interface::probe("select", select).of(&["select"]),
    Interface::probe("select: time left", select_left).of(&["select"]),
    Interface::probe("pselect6", pselect6).of(&["pselect6"]),
    Interface::probe("pselect6: time left", pselect6_left).of(&["pselect6"]),
    Interface::probe("epoll_wait", epoll_wait).of(&["epoll_wait"]),
    Interface::probe("epoll_pwait", epoll_pwait).of(&["epoll_pwait"]),
    Interface::probe("epoll_pwait2", epoll_pwait2).of(&["epoll_pwait2"]),
];

/// A pipe that stays empty unless the test writes to it.
struct Quiet {
    read: OwnedFd,
    write: File,
}

impl Quiet {
    fn new() -> io::Result<Self> {
        let (read, write) = pipe()?;
        Ok(Self { read: read.into(), write: File::from(OwnedFd::from(write)) })
    }

    fn readable(&self) -> libc::pollfd {
        libc::pollfd { fd: self.read.as_raw_fd(), events: libc::POLLIN, revents: 0 }
    }

    /// The set for select(2), with as many bits as its first argument indicates.
    fn set(&self) -> ([u64; 16], i32) {
        let fd = self.read.as_raw_fd();
        let mut set = [0; 16];
        set[fd as usize / 64] = 1 << (fd % 64);
        (set, fd + 1)
    }

    fn watched(&self) -> io::Result<OwnedFd> {
        // SAFETY: only a number is passed.
        let epoll = descriptor(unsafe { call!(libc::SYS_epoll_create1, 0) })?;
        let event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
        let (fd, add) = (self.read.as_raw_fd(), libc::EPOLL_CTL_ADD);
        // SAFETY: the kernel reads one event.
        unsafe { call!(libc::SYS_epoll_ctl, epoll.as_raw_fd(), add, fd, &event) }?;
        Ok(epoll)
    }
}

fn ppoll_for(quiet: &Quiet, time: &mut libc::timespec) -> io::Result<i64> {
    let mut fds = quiet.readable();
    // SAFETY: the kernel reads and writes one pollfd and one timespec.
    unsafe { call!(libc::SYS_ppoll, &mut fds, 1, time, NULL, 0) }
}

fn select_for(quiet: &Quiet, time: &mut libc::timeval) -> io::Result<i64> {
    let (mut set, count) = quiet.set();
    // SAFETY: the kernel reads and writes `count` bits and one timeval.
    unsafe { call!(libc::SYS_select, count, &mut set, NULL, NULL, time) }
}

fn pselect6_for(quiet: &Quiet, time: &mut libc::timespec) -> io::Result<i64> {
    let (mut set, count) = quiet.set();
    // SAFETY: the kernel reads and writes `count` bits and one timespec.
    unsafe { call!(libc::SYS_pselect6, count, &mut set, NULL, NULL, time, NULL) }
}

fn millis(ns: i64) -> i64 {
    ns / NS_PER_MS
}

fn poll(bench: &Bench) -> Answer {
    let quiet = Quiet::new()?;
    let mut fds = quiet.readable();
    bench.relative(Ends::With(0), |time| {
        // SAFETY: the kernel reads and writes one pollfd.
        unsafe { call!(libc::SYS_poll, &mut fds, 1, millis(nanos(time))) }
    })
}

fn ppoll(bench: &Bench) -> Answer {
    let quiet = Quiet::new()?;
    bench.relative(Ends::With(0), |mut time| ppoll_for(&quiet, &mut time))
}

fn select(bench: &Bench) -> Answer {
    let quiet = Quiet::new()?;
    bench.relative(Ends::With(0), |time| select_for(&quiet, &mut timeval(nanos(time))))
}

fn pselect6(bench: &Bench) -> Answer {
    let quiet = Quiet::new()?;
    bench.relative(Ends::With(0), |mut time| pselect6_for(&quiet, &mut time))
}

fn epoll_wait(bench: &Bench) -> Answer {
    epoll(bench, libc::SYS_epoll_wait, |time| (millis(nanos(*time)).into(), NULL, 0))
}

fn epoll_pwait(bench: &Bench) -> Answer {
    epoll(bench, libc::SYS_epoll_pwait, |time| (millis(nanos(*time)).into(), NULL, 0))
}

fn epoll_pwait2(bench: &Bench) -> Answer {
    epoll(bench, libc::SYS_epoll_pwait2, |time| (Arg::from(time), NULL, 0))
}

/// A wait for events; the arguments after the first three are made from the time.
fn epoll(
    bench: &Bench,
    number: libc::c_long,
    rest: impl FnOnce(&libc::timespec) -> (Arg, Arg, usize),
) -> Answer {
    let quiet = Quiet::new()?;
    let epoll = quiet.watched().needed("epoll")?;
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; 1];
    bench.relative(Ends::With(0), |time| {
        let (time, mask, size) = rest(&time);
        // SAFETY: the kernel writes at most one event; the time outlives the call.
        unsafe { call!(number, epoll.as_raw_fd(), &mut events, 1, time, mask, size) }
    })
}

fn ppoll_left(bench: &Bench) -> Answer {
    left(bench, |quiet, ns| {
        let mut time = timespec(ns);
        ppoll_for(quiet, &mut time).map(|ready| (ready, nanos(time)))
    })
}

fn select_left(bench: &Bench) -> Answer {
    left(bench, |quiet, ns| {
        let mut time = timeval(ns);
        select_for(quiet, &mut time).map(|ready| (ready, micros(time)))
    })
}

fn pselect6_left(bench: &Bench) -> Answer {
    left(bench, |quiet, ns| {
        let mut time = timespec(ns);
        pselect6_for(quiet, &mut time).map(|ready| (ready, nanos(time)))
    })
}

/// Ends a wait with an event and compares the remaining time with the time that had not passed.
fn left(bench: &Bench, wait: impl FnOnce(&Quiet, i64) -> io::Result<(i64, i64)>) -> Answer {
    let quiet = Quiet::new()?;
    let mut write = quiet.write.try_clone()?;
    bench.cutting(move || write.write_all(b"x"));
    bench.remaining(|| {
        Ok(match wait(&quiet, bench.whole())? {
            (1, left) => Ok(left),
            (ready, left) => Err(format!("an event did not end it: {ready}, {left} ns left")),
        })
    })
}
