//! The descriptor on which the filter reports calls (`SECCOMP_RET_USER_NOTIF`).

use std::cell::RefCell;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

use eigentime_calls::Nr;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::Pid;

use super::super::oci_runtimes::RuntimeId;
use crate::proc;

/// `SECCOMP_IOCTL_NOTIF_RECV`, `SECCOMP_IOCTL_NOTIF_SEND` and `SECCOMP_IOCTL_NOTIF_ID_VALID`
/// (include/uapi/linux/seccomp.h).
const RECEIVE: libc::Ioctl = 0xc050_2100_u32 as libc::Ioctl;
const SEND: libc::Ioctl = 0xc018_2101_u32 as libc::Ioctl;
const IS_PENDING: libc::Ioctl = 0x4008_2102;
/// `SECCOMP_IOCTL_NOTIF_SET_FLAGS`, and `SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP`: a side that waits for the
/// other leaves the processor to it. Since Linux 6.6.
const SET_FLAGS: libc::Ioctl = 0x4008_2104;
const SYNC_WAKE_UP: libc::c_ulong = 1;

/// The descriptor.
#[derive(Debug)]
pub struct Listener {
    descriptor: OwnedFd,
    /// The OCI runtime that has set the filter.
    runtime: Option<RuntimeId>,
    /// How many filters a program has that has set none itself.
    filters: RefCell<Option<u32>>,
}

/// A call that a thread makes, and that the kernel does not carry out before it is answered.
#[derive(Clone, Debug)]
pub struct Asked {
    listener: Rc<Listener>,
    id: u64,
    /// The thread; zero if it is in a PID namespace that cannot be seen from here.
    pub thread: Pid,
    pub nr: Nr,
    pub args: [u64; 6],
    /// The address after its instruction.
    pub ip: u64,
}

/// The answer to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The kernel carries it out.
    GoOn,
    /// It returns this.
    Result(i64),
}

impl Listener {
    /// Takes the descriptor that the kernel returned when `program` set the filter; fails if it is a
    /// different one.
    pub fn new(descriptor: OwnedFd, program: Pid, runtime: Option<RuntimeId>) -> nix::Result<Self> {
        let none = 0u64;
        // SAFETY: the pointer is to a number of ours.
        let found = unsafe { libc::ioctl(descriptor.as_raw_fd(), IS_PENDING, &raw const none) };
        match Errno::result(found) {
            Err(Errno::ENOENT) => Ok(Self::known(descriptor, filters_of(program)).of(runtime)),
            _ => Err(Errno::EINVAL),
        }
    }

    /// Takes a descriptor known to be from the kernel, whose programs have this many filters; `None` if
    /// each has set one itself.
    pub fn known(descriptor: OwnedFd, filters: Option<u32>) -> Self {
        // SAFETY: no memory is involved. Before Linux 6.6 it fails, and calls take longer.
        unsafe { libc::ioctl(descriptor.as_raw_fd(), SET_FLAGS, SYNC_WAKE_UP) };
        Self { descriptor, runtime: None, filters: filters.into() }
    }

    /// The same, with the OCI runtime that has set the filter.
    pub fn of(self, runtime: Option<RuntimeId>) -> Self {
        Self { runtime, ..self }
    }

    /// How many filters a program has that has set none itself.
    pub fn filters(&self) -> Option<u32> {
        *self.filters.borrow()
    }

    /// The OCI runtime that has set the filter.
    pub fn runtime(&self) -> Option<RuntimeId> {
        self.runtime
    }

    /// The next call, if there is one and its caller is still making it.
    pub fn receive(self: &Rc<Self>) -> Option<Asked> {
        // The reported call may have been answered since; the kernel would then wait for the next.
        let mut told = [PollFd::new(self.as_fd(), PollFlags::POLLIN)];
        poll(&mut told, PollTimeout::ZERO).ok()?;
        told[0].revents().filter(|told| told.contains(PollFlags::POLLIN))?;
        // SAFETY: all-zero bytes are a valid notification, as the kernel requires.
        let mut told: libc::seccomp_notif = unsafe { std::mem::zeroed() };
        // SAFETY: the pointer is to a notification of ours.
        let received = unsafe { libc::ioctl(self.descriptor.as_raw_fd(), RECEIVE, &raw mut told) };
        let libc::seccomp_notif { id, pid, data, .. } = told;
        (received == 0).then(|| Asked {
            listener: Rc::clone(self),
            id,
            thread: Pid::from_raw(pid as i32),
            nr: Nr(data.nr as u32),
            args: data.args,
            ip: data.instruction_pointer,
        })
    }
}

impl Asked {
    /// Whether its caller is still making the call.
    pub fn is_pending(&self) -> bool {
        let listener = self.listener.descriptor.as_raw_fd();
        // SAFETY: the pointer is to a number of ours.
        unsafe { libc::ioctl(listener, IS_PENDING, &raw const self.id) == 0 }
    }

    /// The OCI runtime whose filter reports it.
    pub fn runtime(&self) -> Option<RuntimeId> {
        self.listener.runtime
    }

    /// Whether a program under the same filter, such as the caller, has set a filter itself, besides
    /// the `ours` filters of its timeline.
    pub fn has_own_filter(&self, program: Pid, ours: u32) -> bool {
        filters_of(program) != self.listener.filters.borrow().map(|filters| filters + ours)
    }

    /// Records the filters of this program, which has set none itself and has all those that others
    /// begin with.
    pub fn count_filters(&self, program: Pid) {
        self.listener.filters.replace(filters_of(program));
    }

    /// Answers the call.
    pub fn answer(&self, answer: Answer) {
        let (val, flags) = match answer {
            Answer::GoOn => (0, libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32),
            Answer::Result(result) => (result, 0),
        };
        let mut answer = libc::seccomp_notif_resp { id: self.id, val, error: 0, flags };
        // SAFETY: the pointer is to an answer of ours. If the caller has been killed or interrupted,
        // there is nothing to answer.
        unsafe { libc::ioctl(self.listener.descriptor.as_raw_fd(), SEND, &raw mut answer) };
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// How many filters a thread has.
pub fn filters_of(thread: Pid) -> Option<u32> {
    proc::status_field(thread, "Seccomp_filters:")?.parse().ok()
}
