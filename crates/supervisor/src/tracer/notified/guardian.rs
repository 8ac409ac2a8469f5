//! The guardian: a process that ends all programs of a timeline if its supervisor is killed, or takes
//! the supervisor's place.
//!
//! The programs are not traced, so the kernel does not end them with their supervisor; they would
//! continue with nothing to answer their calls.

use std::os::fd::{AsFd, AsRawFd};
use std::rc::Rc;
use std::sync::Arc;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{ForkResult, Pid, fork};

use super::super::{Journal, Resources, Supervisor};
use super::listener::Listener;
use crate::caller::close_all_but;
use crate::maps::mappings;
use crate::proc::{self, Pidfd};
use crate::region::{Layout, REGION_FILE};

/// The stack of a supervisor that takes the place of another.
const STACK: usize = 1 << 20;

/// The pause between scans of all processes, during which some end and others are created.
const PAUSE_MILLIS: u8 = 10;

/// How many scans in a row must find no process to prove that all have ended, on kernels that do not
/// report it.
const LOOKS: usize = 3;

/// Starts the guardian beside the supervisor, which is the calling process.
pub fn start(supervisor: &Supervisor) -> nix::Result<Pid> {
    let process = Pidfd::open(Pid::this())?;
    let listeners = supervisor.notified.iter().flat_map(|it| &it.listeners).cloned();
    let listeners: Vec<_> = listeners.collect();
    let kept = listeners.iter().map(|listener| listener.as_fd().as_raw_fd());
    let kept = kept.chain([process.0.as_raw_fd()]);
    let kept = match supervisor.journal {
        Some(_) => kept.chain(supervisor.lasting_descriptors()).collect(),
        None => kept.collect(),
    };
    // SAFETY: the child only makes system calls and allocates, for which the C library is prepared
    // where the supervisor has other threads.
    match unsafe { fork() }? {
        ForkResult::Parent { child } => Ok(child),
        ForkResult::Child => {
            // Distinguishes it from the supervisor in a list of processes; nothing depends on it.
            let _ = nix::sys::prctl::set_name(c"eigentime-guard");
            // It keeps none of the caller's descriptors open.
            close_all_but(kept);
            process.await_end(None);
            match successor(supervisor) {
                Some(mut successor) => {
                    let _ = nix::sys::prctl::set_name(proc::SUPERVISOR);
                    // The session of the former supervisor is left to its owner.
                    let _ = nix::unistd::setsid();
                    // The guardian of each supervisor starts in the middle of that supervisor's work,
                    // on its stack.
                    stacker::grow(STACK, || successor.serve());
                }
                None => end_all(listeners, supervisor.layout),
            }
            // SAFETY: ends this process without running the supervisor's exit handlers.
            unsafe { libc::_exit(0) }
        }
    }
}

/// The supervisor that replaces one that has ended, if its programs must continue. The memory inherited
/// from the former supervisor is as old as the guardian, and is left alone.
fn successor(former: &Supervisor) -> Option<Supervisor> {
    let document = former.journal.as_ref()?.read()?;
    let state = serde_json::from_slice(&document).ok()?;
    let resources = Resources {
        region: Arc::clone(former.timekeeper().region()),
        kernel: former.kernel,
        control: former.control.as_ref()?.copy().ok()?,
        listeners: former.notified.as_ref()?.copied_listeners().ok()?,
        journal: Journal::new().ok()?,
    };
    Supervisor::resume(resources, state).ok()
}

fn end_all(mut listeners: Vec<Rc<Listener>>, layout: Layout) {
    // The address of the region distinguishes it from others; each timeline inside has a file of its
    // own.
    let base = layout.base();
    let is_member = |process: &Pid| {
        let maps = proc::read_whole(process, "maps").unwrap_or_default();
        mappings(&maps).iter().any(|it| it.range.start == base && it.name == REGION_FILE)
    };
    let mut in_vain = 0;
    while in_vain < LOOKS {
        let members: Vec<_> = proc::processes().filter(is_member).collect();
        in_vain = if members.is_empty() { in_vain + 1 } else { 0 };
        for member in members {
            end(member);
        }
        let watched = listeners.iter().map(|it| PollFd::new(it.as_fd(), PollFlags::POLLIN));
        let mut watched: Vec<_> = watched.collect();
        if poll(&mut watched, PollTimeout::from(PAUSE_MILLIS)).is_err() {
            continue;
        }
        let told: Vec<_> =
            watched.iter().map(|it| it.revents().unwrap_or(PollFlags::empty())).collect();
        for (listener, _) in
            listeners.iter().zip(&told).filter(|it| it.1.contains(PollFlags::POLLIN))
        {
            // Programs that have the filter but not the image: a debugger has started them.
            if let Some(asked) = listener.receive() {
                in_vain = 0;
                end(asked.thread);
            }
        }
        let mut told = told.iter();
        // Some filters are no longer in use.
        listeners.retain(|_| told.next().is_some_and(|it| !it.contains(PollFlags::POLLHUP)));
        if listeners.is_empty() {
            return;
        }
    }
}

fn end(process: Pid) {
    if process.as_raw() > 0 {
        // If that fails, it has ended.
        let _ = kill(process, Signal::SIGKILL);
    }
}
