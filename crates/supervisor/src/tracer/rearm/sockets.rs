//! Timeouts of sockets that were set while time was frozen, and are parked beyond all others.

use std::collections::HashSet;
use std::os::fd::{AsRawFd, OwnedFd};

use eigentime_calls::{Call, Kind, WokenBy};
use eigentime_timeline::{Nanos, Timespec};
use eigentime_vdso::PARKED_TIMEOUT;
use nix::errno::Errno;
use nix::unistd::Pid;

use super::super::Supervisor;
use super::super::blocked::Blocked;
use super::super::tracee::Tracee;
use super::Rearm;
use super::descriptors::numbers_of;

const TIMEOUTS: [i32; 2] = [libc::SO_RCVTIMEO, libc::SO_SNDTIMEO];

/// Resets the timeouts that are parked in these processes, if time passes again; returns the
/// descriptors of their sockets.
pub fn unpark(processes: &HashSet<Pid>, change: &Rearm) -> HashSet<(Pid, u32)> {
    if !change.ends_standstill() {
        return HashSet::new();
    }
    let numbers = processes
        .iter()
        .flat_map(|process| numbers_of(*process, "socket:").map(|number| (*process, number)));
    // All are collected before any is set: a socket may have several descriptors.
    let parked: Vec<_> = numbers
        .filter_map(|(process, number)| {
            let socket = Tracee(process).borrow_descriptor(number).ok()?;
            let is_parked = TIMEOUTS.iter().any(|option| parked(&socket, *option).is_some());
            is_parked.then_some((process, number, socket))
        })
        .collect();
    for (_, _, socket) in &parked {
        for option in TIMEOUTS {
            if let Some(span) = self::parked(socket, option) {
                // A timeout that cannot be set stays as it is.
                let _ =
                    set(socket, option, change.after.rate.host_span(span).unwrap_or(Nanos::MAX));
            }
        }
    }
    parked.into_iter().map(|(process, number, _)| (process, number)).collect()
}

/// The virtual length of a socket's timeout, if it is parked.
fn parked(socket: &OwnedFd, option: i32) -> Option<Nanos> {
    let mut time = libc::timeval { tv_sec: 0, tv_usec: 0 };
    let mut length = size_of_val(&time) as libc::socklen_t;
    let at = (&raw mut time).cast();
    // SAFETY: the pointers are to live memory of that length.
    let got = unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, option, at, &raw mut length)
    };
    let sec = time.tv_sec - PARKED_TIMEOUT;
    let is_parked = got == 0 && sec >= 0;
    is_parked.then(|| Timespec { sec, nsec: time.tv_usec * 1_000 }.nanos())
}

/// Sets a socket's timeout, rounded up, so that it is neither early nor infinite.
fn set(socket: &OwnedFd, option: i32, span: Nanos) -> nix::Result<()> {
    let Timespec { sec, nsec } = Timespec::from_nanos(span.plus(Nanos(999)));
    let time = libc::timeval { tv_sec: sec, tv_usec: nsec / 1_000 };
    let (at, length) = ((&raw const time).cast(), size_of_val(&time) as libc::socklen_t);
    // SAFETY: the pointer is to live memory of that length.
    let set = unsafe { libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, option, at, length) };
    Errno::result(set).map(drop)
}

impl Supervisor {
    /// Unparks timeouts, and restarts the calls that wait on these sockets with the new timeouts.
    pub(super) fn unpark_sockets(&mut self, processes: &HashSet<Pid>, change: &Rearm) {
        let sockets = unpark(processes, change);
        if sockets.is_empty() {
            return;
        }
        self.ask(|thread, state| {
            !state.halted
                && state.process.is_some_and(|process| {
                    waits_on(thread).is_some_and(|number| sockets.contains(&(process, number)))
                })
        });
    }
}

/// The descriptor on which a thread waits in an untranslated call, if it may be a socket.
fn waits_on(thread: Pid) -> Option<u32> {
    let blocked = Blocked::of(thread)?;
    let call = Call::find(blocked.nr)?;
    let on_first = matches!(
        call.woken_by,
        WokenBy::Descriptor(0) | WokenBy::Descriptors(0, _) | WokenBy::Listener
    );
    (call.kind == Kind::Block && on_first).then_some(blocked.args[0] as u32)
}
